"""The amount of code that a batch passes, and the page that lists it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests import reading_path
from tests.reading_path import Function

LINES, FILES = 1100, 28
"""Of all functions that `fit` calls once all is bound (without docstrings), and their files: a few
more than 1,015 and 28, since other numbers of threads take other ways through a product."""

PAGE_LINES, PAGE_FILES = 1500, 16
"""Of the functions that the page lists."""

PAGE = Path(__file__).parents[1] / "docs" / "internals" / "reading.md"


@cache
def traced(sitting: str) -> list[Function]:
    return {"First": reading_path.trace, "Second": reading_path.trace_bind}[sitting]()


def listed(sitting: str) -> list[tuple[str, str]]:
    """(file, function) of the rows of a table of the page."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(f"## {sitting} sitting")
    rows = [row.split("|") for row in section.split("\n## ")[0].splitlines()
            if row.startswith("| `nbmod/")]
    return [(row[1].strip(" `").removeprefix("nbmod/"), name)
            for row in rows for name in re.findall(r"`([\w.]+)`", row[2])]


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_the_run_time_path_of_fit_is_short(capsys):
    functions = traced("First")
    lines, files = sum(one.lines for one in functions), {one.file for one in functions}
    with capsys.disabled():
        print(f"\nfit at run time: {lines} lines of {len(functions)} functions in {len(files)} "
              "files")
    assert lines <= LINES and len(files) <= FILES
    assert f"have at most {LINES:,} lines" in PAGE.read_text(encoding="utf-8").replace("\n", " ")


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
@pytest.mark.parametrize("sitting", ["First", "Second"])
def test_the_functions_of_the_page_are_called(sitting):
    called = {(one.file, one.name) for one in traced(sitting)}
    assert len(listed(sitting)) > 10
    assert [one for one in listed(sitting) if one not in called] == []


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_the_page_is_read_in_two_sittings(capsys):
    sizes = {(one.file, one.name): one.lines for sitting in ("First", "Second")
             for one in traced(sitting)}
    path = {*listed("First"), *listed("Second")}
    lines, files = sum(sizes[one] for one in path), {file for file, _ in path}
    with capsys.disabled():
        print(f"\nfollow a batch: {lines} lines of {len(path)} functions in {len(files)} files")
    assert lines <= PAGE_LINES and len(files) <= PAGE_FILES
