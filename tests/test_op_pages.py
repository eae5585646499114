"""docs/ops: every op has a page with its shapes, and links are valid."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

import nbmod as mx
from nbmod.ops import OPS
from nbmod.ops.param import fields_of
from nbmod.ops.param_docs import GLOSSARY, meaning

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "generate_ops.py"
OWN = [op for op in dict.fromkeys(OPS.values()) if op.__module__.startswith("nbmod.")]


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_ops", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(generator):
    return generator.pages()


def test_every_parameter_means_something():
    lost = [f"{op.name}: {field.name}" for op in OWN for field in fields_of(op)
            if not meaning(op, field.name)]
    assert not lost, f"say it in the docstring or in ops/param_docs.py: {lost}"


def test_a_meaning_is_not_cut_in_the_middle():
    """A clause after a semicolon goes with the one before it, unless it marks a parameter."""
    assert meaning(OPS["CTCLoss"], "blank_label") == (
        "With blank_label 'first' class 0 is the blank and labels end at a 0; "
        "with 'last' it is class C - 1 and they end at a -1")
    cut = []
    for op in OWN:
        names = [field.name for field in fields_of(op)]
        told = " ".join(op.__doc__.split())
        for name in names:
            text = meaning(op, name)
            after = re.match(r"; (?!- )([^;]*)", told.partition(text)[2]) if text in told else None
            if after and not re.search(rf"`({'|'.join(names)})`|^({'|'.join(names)})\b", after[1]):
                cut.append(f"{op.name}.{name}: {text}; {after[1]}")
    assert not cut


def test_the_glossary_holds_no_word_that_no_op_has():
    pairs = [(op, field.name) for op in OWN for field in fields_of(op)]
    there = {name for _, name in pairs} | {f"{op.name}.{name}" for op, name in pairs}
    there |= {f"{op.__module__.rpartition('.')[2]}.{name}" for op, name in pairs}
    assert set(GLOSSARY) <= there


def test_every_docstring_speaks_of_shapes():
    """An example of shapes in the docstring or in `shapes`, or a sentence about them."""
    speaks = re.compile(r"\((?:[A-Za-z\d*.][^()]*)?,[^()]*\)|\bshapes?\b")
    silent = [op.name for op in OWN if not (op.shapes or speaks.search(op.__doc__))]
    assert not silent


def test_links_lead_somewhere(pages):
    anchors = {name: {heading.replace("`", "").lower() for heading
                      in re.findall(r"^## (.*)$", text, re.M)}
               | set(re.findall(r'<a id="(\w+)">', text)) for name, text in pages.items()}
    count = 0
    for name, text in pages.items():
        for target, anchor in re.findall(r"\]\((\w+\.md)?#(\w+)\)", text):
            assert anchor in anchors[target or name], f"{name}: {target}#{anchor}"
            count += 1
    assert count > len(OWN)


def test_every_name_is_in_the_alphabetical_index(pages):
    text = pages["by_name.md"]
    for name in ("linalg.gemm2", "contrib.ctc_loss", "ctc_loss", "FullyConnected", "_plus_scalar",
                 *OPS):
        assert f"[`{name}`](" in text, name
    letters = re.findall(r"^## (.)$", text, re.M)
    assert letters == sorted(letters) and letters[0] == "A"


def test_headings_of_the_index_hold_pages_there_are(generator, pages):
    listed = [f"{name}.md" for names in generator.GROUPS.values() for name in names.split()]
    assert len(set(listed)) == len(listed) and set(listed) <= set(pages)


def test_a_page_says_what_users_ask(pages):
    text = pages["fully_connected.md"].partition("## FullyConnected\n")[2]
    for part in (
        "mx.nd.FullyConnected(data, weight, bias, num_hidden=", ").shape\n# (",
        "`num_hidden` | int | **re",
        "| gradient | `data`, `weight`, `bias` |", "| devices | CPU, GPU |", "float32, float64",
        "Differs from MXNet",
    ):
        assert part in text
    assert "`gx = where(y > 0, gy, y)`" in pages["unary_binary.md"]
    assert "contrib.box_nms(" in pages["boxes.md"]
    for name, text in pages.items():
        assert not re.search(r"<(?!a id=|/a>|br>)[a-z]", re.sub(r"`[^`]*`", "", text)), name
        assert "\n\n\n" not in text and text.endswith("\n")


@pytest.mark.parametrize("name", ["ctc.md", "slicing.md", "sgd_update.md"])
def test_examples_run_as_printed(pages, name):
    """The generator runs all of them; here as a reader does, from the text of a page."""
    blocks = re.findall(r"```python\n(.*?)\n# (.*?)\n```", pages[name], re.S)
    for code, shapes in blocks:
        *made, call = ast.parse(code).body
        scope = {"mx": mx}
        exec(compile(ast.Module(made, []), name, "exec"), scope)
        assert str(eval(compile(ast.Expression(call.value), name, "eval"), scope)) == shapes
    assert blocks


def test_the_pages_are_up_to_date(generator, pages):
    assert generator.stale(pages) == [], "run python docs/generate_ops.py"


def test_pages_that_are_out_of_date_are_found(generator, pages, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generator, "FOLDER", tmp_path)
    monkeypatch.setattr(generator, "pages", lambda: pages)
    assert generator.main(["--check"]) == 1 and generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    (tmp_path / "roi.md").write_text("changed")
    (tmp_path / "old.md").write_text("gone")
    capsys.readouterr()
    assert generator.main(["--check"]) == 1
    assert capsys.readouterr().out.split() == ["old.md", "roi.md"]
    assert generator.main([]) == 0 and generator.stale(pages) == []
