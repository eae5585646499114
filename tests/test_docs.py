"""Documentation pages: their examples run and print what they show, and the names in them exist."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbmod as mx
from nbmod.ops import jit
from nbmod.ops.simd.host import lanes
from tests import recipes
from tests.reliability import promises, table

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")
               if ">>>" in path.read_text(encoding="utf-8"))


def test_every_environment_variable_has_a_row():
    source = (ROOT / "nbmod" / "core" / "config.py").read_text(encoding="utf-8")
    names = set(re.findall(r"\b(?:NBMOD|MXNET)_[A-Z_]+\b", source))
    text = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert len(names) > 5 and sorted(name for name in names if name not in text) == []


NAMED = ["README.md", "CONTRIBUTING.md", *(f"docs/{name}.md" for name in (
             "architecture", "explain", "gallery", "glossary", "tiny")),
         *sorted(path.relative_to(ROOT).as_posix() for folder in ("bench", "internals")
                 for path in ROOT.glob(f"docs/{folder}/*.md"))]
"""Pages about the code, which name its files."""
FOLDERS = (ROOT, ROOT / "nbmod", ROOT / "nbmod/ops/cuda", ROOT / "examples")


def spans(page: str) -> list[str]:
    """The text of a page's inline code spans."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))


@functools.cache
def definitions() -> dict[str, set[str]]:
    """By the name of every module and class of the package, the names that it defines.

    Those of a direct base are names of the class and of its module, too.
    """
    found: dict[str, set[str]] = {}
    bases: list[tuple[str, str]] = []
    for path in (ROOT / "nbmod").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.parent.name if path.stem == "__init__" else path.stem
        found.setdefault(name, set()).update(_defined(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_defined(node))
                bases += [(owner, base.id) for owner in (name, node.name)
                          for base in node.bases if isinstance(base, ast.Name)]
    for owner, base in bases:
        found[owner] |= found.get(base, set())
    return found


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.alias)):
            yield getattr(node, "asname", None) or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


@pytest.mark.parametrize("page", NAMED)
def test_files_and_functions_that_a_page_names_exist(page):
    missing = []
    for span in spans(page):
        if re.fullmatch(r"[\w/]+\.py", span):
            if not any((folder / span).exists() for folder in FOLDERS):
                missing.append(span)
        elif match := re.fullmatch(r"(?:\w+\.)*(\w+)\.(\w+)(?:\(.*\))?", span):
            owner, name = match.groups()
            known = definitions().get(owner)
            if owner in ("nbmod", "mx"):
                known = {name} if hasattr(mx, name) else set()
            if known is not None and owner not in ("cuda", "np") and (
                    name not in known | definitions().keys()):
                missing.append(span)
    assert missing == []


@pytest.fixture
def threads():
    """Pages may change the number of threads; it is restored after them."""
    before = jit.num_threads()
    yield
    jit.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("page", PAGES)
def test_pages_print_what_they_say(page, monkeypatch, tmp_path):
    if page == "docs/internals/cpu-engine.md" and lanes("float32") != 16:
        pytest.skip("this page shows vectors of 16 numbers")
    monkeypatch.chdir(tmp_path)     # readers have a package, and no checkout
    with mx.name.NameManager():
        # A closing fence ends an output; doctest itself would take it for a line of it.
        text = (ROOT / page).read_text(encoding="utf-8").replace("\n```", "\n\n```")
        test = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
        assert test.examples
        runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
        runner.run(test, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0
    if page == "docs/internals/executor.md":
        picture = ROOT / "docs/internals/executor-plan.svg"
        assert test.globs["chart"] == picture.read_text(encoding="utf-8"), (
            "python docs/generate_gallery.py")


def test_the_readme_example_learns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code, shown), = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.S)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    # Other CPUs round otherwise, and have other workspaces.
    numbers = re.compile(r"\d+\.\d+|[\d,]+ bytes")
    assert numbers.sub("#", printed) == numbers.sub("#", shown)
    accuracy = float(re.search(r"'accuracy', ([\d.]+)", printed).group(1))
    assert accuracy > 0.8
    assert {path.name for path in tmp_path.iterdir()} == {
        "classifier-symbol.json", "classifier-0020.params"}


RELIABILITY = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")


MEASURED = [promise for promise in promises.load()
            if table.BEGIN.format(promise.number) in RELIABILITY]


def test_every_section_of_the_page_of_reliability_is_of_a_promise():
    numbers = [int(number) for number in re.findall(r"^## (\d+)\. ", RELIABILITY, re.MULTILINE)]
    assert numbers == sorted(promise.number for promise in MEASURED) and len(numbers) > 6


@pytest.mark.parametrize("promise", MEASURED, ids=lambda promise: promise.name)
def test_every_promise_has_a_row_with_its_date_commit_and_command(promise):
    begin, end = (mark.format(promise.number) for mark in (table.BEGIN, table.END))
    section = RELIABILITY.partition(f"## {promise.number}. {promise.name}\n")[2]
    row = section.partition(begin)[2].partition(end)[0]
    assert row.count("\n") > 4, f"python -m tests.reliability --only {promise.number} --write ..."
    assert re.search(r"^20\d\d-\d\d-\d\d, [0-9a-f]{7,}.*, \d+ s: `python -m tests\.reliability.*`$",
                     row, re.MULTILINE)
    for kept, tried in re.findall(r"^\|[^|]+\| ([\d,]+) of ([\d,]+)", row, re.MULTILINE):
        assert kept == tried, row


def test_the_readme_links_to_the_page_of_reliability():
    assert "(docs/reliability.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


# -- recipes ------------------------------------------------------------------------------------


def absent(words: list[str]) -> list[str]:
    """Files and modules that a command of CONTRIBUTING.md names and that there are not."""
    program, *rest = words
    if program != "python":
        return [] if (ROOT / program).exists() else [program]
    if rest[0] != "-m":
        return [] if (ROOT / rest[0]).exists() else [rest[0]]
    files = [word for word in rest[2:] if "/" in word and not (ROOT / word).exists()]
    return files + ([] if importlib.util.find_spec(rest[1]) else [rest[1]])


def test_commands_of_recipes_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    commands = [*recipes.commands(page)]
    assert {*recipes.FOLLOWED} <= {each.recipe for each in commands}
    assert {*recipes.UNFOLLOWED} <= {each.text for each in commands}
    assert [name for each in commands for name in absent(each.words)] == []
    text = "## Add a thing\n`python docs/a.py`, `python\n-m tests.lost`\n## Style\n`python b.py`\n"
    assert [absent(each.words) for each in recipes.commands(text)] == [
        ["docs/a.py"], ["tests.lost"]]


def test_a_recipe_that_is_followed_is_timed(tmp_path, capfd):
    failing = [sys.executable, "-c", "print('why'); raise SystemExit(2)"]
    assert recipes._seconds(failing, tmp_path, {}) is None
    assert capfd.readouterr().err.startswith("why")
    taken = recipes._seconds([sys.executable, "-c", "open('done', 'w')"], tmp_path, {})
    assert taken and (tmp_path / "done").exists()
    page = recipes._markdown([("Set up", "git clone", 61.4), ("Add", "python x.py", None)])
    assert "| Add | `python x.py` | fails |" in page and "| Set up | `git clone` | 61 s |" in page
