"""The site: its pages and their links; where Sphinx is installed, the build itself."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def anchors(text: str) -> set[str]:
    """Anchors of a page on GitHub: those of headings, and those that it sets itself."""
    text = re.sub(r"^(```+).*?^\1", "", text, flags=re.S | re.M)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
            for heading in plain} | set(re.findall(r'<a id="([^"]+)">', text))


def dead_links(pages: dict[str, str]) -> list[str]:
    """Relative links of pages that lead to no file, or to no place of it."""
    dead = []
    for page, text in pages.items():
        prose = re.sub(r"^(```+).*?^\1|`[^`\n]*`", "", text, flags=re.S | re.M)
        for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)", prose):
            path = (ROOT / page).parent / target if target else ROOT / page
            if not path.exists() or anchor and anchor not in anchors(path.read_text("utf-8")):
                dead.append(f"{page}: {target}#{anchor}")
    return dead


def test_relative_links_lead_somewhere(build):
    pages = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
             for pattern in build.PAGES for path in ROOT.glob(pattern)}
    assert len(pages) > 100
    assert dead_links(pages) == []
    assert dead_links({"docs/data.md": "[a](nowhere.md), [b](data.md#lost), [c](data.md)"}) == [
        "docs/data.md: nowhere.md#", "docs/data.md: data.md#lost"]


def test_the_navigation_has_every_page_once(build):
    there = [*build.pages()]
    listed = [name for captions in build.contents(there).values() for names in captions.values()
              for name in names]
    assert sorted([build.START, *listed]) == sorted(there) and len(there) > 200
    with pytest.raises(SystemExit, match="no section has docs/lost/page.md"):
        build.contents([*there, "docs/lost/page.md"])


@pytest.fixture(scope="module")
def plans(build):
    """By name, the plans of the gallery."""
    gallery = build.generate_gallery
    return {one.name: gallery.explained(one) for one in gallery.EXHIBITS}


def test_the_gallery_names_what_its_plans_have(build, plans):
    text = (ROOT / build.GALLERY).read_text("utf-8")
    sections = {re.search(r"<!-- (\S+) -->", each)[1]: each for each in text.split("\n## ")[1:]}
    assert sections.keys() == plans.keys()
    for name, section in sections.items():
        facts = plans[name].facts
        known = {each.name for each in (*facts.nodes, *facts.plan.entries, *facts.passes)}
        ops = {each.op for each in facts.nodes}
        named = {*re.findall(r"`([^`]+)`", section.replace("\n", " "))} - {"mirror", "reroll_rnn"}
        assert named <= known | {op.removeprefix("_contrib_") for op in ops}, name


def test_a_picture_and_a_page_are_written_for_each_network(build, tmp_path):
    lenet = build.generate_gallery.EXHIBITS[:1]
    build.generate_gallery.write(tmp_path, lenet)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lenet.html", "lenet.svg"]
    page, picture = ((tmp_path / name).read_text("utf-8") for name in ("lenet.html", "lenet.svg"))
    assert "conv1_backward" in page and "mirror" in page and "conv1 = tanh1" in picture


RESULTS = """# Times

| workload | nbmod | MXNet | ratio | PyTorch | ratio |
|---|--:|--:|--:|--:|--:|
| train 64 | 1 | 2 | **0.5** | 4 | 0.25 |
| lost | 1 | - | - | 4 | 0.25 |

| workload | other |
|---|--:|
| train 1 | 9 |
"""


def test_the_history_of_benchmarks_is_that_of_their_tables(build, monkeypatch):
    history = build.generate_history
    assert history.ratios_in(RESULTS) == {"train 64": 0.5}
    assert history.ratios_in(RESULTS.replace("| ratio |", "| goal |")) == {"train 64": 2.0}
    assert history.ratios_in("# Times\n\n| file | size |\n|---|--:|\n| a | 3 |\n") == {}
    ratios = [0.8, 0.81, 0.8, 0.79, 0.4, 0.41, 0.4, 0.4]
    found = [history.Version(f"commit{number}", "2026-01-01", {"train 64": ratio})
             for number, ratio in enumerate(ratios)]
    assert history.table(found).endswith("| 0.50 since commit4 |\n")
    page = history.page()
    assert all(f"results/{path.name})" in page for path in history.results())
    monkeypatch.setattr(history, "_git", lambda *command: "")
    assert [each.commit for each in history.versions(ROOT / "bench/results/cpu-engine.md")] == [
        "now"]


def test_the_site_builds_without_warnings_and_dead_links():
    """Needs `pip install -e '.[docs]'`; under NBMOD_REQUIRE_DOCS=1 it fails without."""
    missing = [name for name in ("sphinx", "myst_parser", "furo", "sklearn")
               if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("NBMOD_REQUIRE_DOCS") != "1":
        pytest.skip(f"the site is not built: {', '.join(missing)} missing (nbmod[docs])")
    done = subprocess.run([sys.executable, ROOT / "docs" / "build.py"], capture_output=True,
                          text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    html = ROOT / "build" / "site" / "html"
    assert "0 links lead nowhere" in done.stdout and (html / "searchindex.js").exists()
    assert "mx.optimizer.Adam" in (html / "genindex.html").read_text("utf-8")
