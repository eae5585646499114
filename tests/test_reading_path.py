"""The amount of code that a batch passes, and the page that lists it."""

from __future__ import annotations

from functools import cache

import pytest

from tests import reading_path
from tests.reading_path import PAGE, SITTINGS, Function, coverage, listed, page

LINES, FILES = 1135, 28
"""Of all functions that `fit` calls once all is bound (without docstrings), and their files: a few
more than 1,105 and 27, since other numbers of threads take other ways through a product."""

PAGE_LINES, PAGE_FILES = 1600, 34
"""Of the functions that the page lists: three sittings of some 500 lines.  The loop of `fit`, the
optimizer and the metric are most of what runs, and they are in many files, of which the page names
a few functions each."""

COVERAGE = 0.6
"""The part of the lines of `fit` that the page must have.  It has 0.66 on one machine; what is left
are checks, and functions of two lines that say nothing new."""


@cache
def traced(sitting: str) -> list[Function]:
    return {"First": reading_path.trace, "Second": reading_path.trace_bind,
            "Third": reading_path.trace_kernels}[sitting]()


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
@pytest.mark.parametrize("sitting", SITTINGS)
def test_the_functions_of_the_page_are_called(sitting):
    called = {(one.file, one.name) for one in traced(sitting)}
    if sitting == "Second":     # what binding leaves to do, `fit` does before its first batch
        called |= {(one.file, one.name) for one in traced("Third")}
    assert len(listed(sitting)) > 10
    assert [one for one in listed(sitting) if one not in called] == []


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_the_page_is_read_in_three_sittings(capsys):
    sizes = {(one.file, one.name): one.lines for sitting in SITTINGS for one in traced(sitting)}
    lines, files = sum(sizes[one] for one in page()), {file for file, _ in page()}
    with capsys.disabled():
        print(f"\nfollow a batch: {lines} lines of {len(page())} functions in {len(files)} files")
    assert lines <= PAGE_LINES and len(files) <= PAGE_FILES
    text = PAGE.read_text(encoding="utf-8").replace("\n", " ")
    assert f"have at most {PAGE_LINES:,} lines in at most {PAGE_FILES} files" in text


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_the_page_has_most_of_what_runs(capsys):
    part = coverage(traced("First"))
    with capsys.disabled():
        print(f"\nfollow a batch: {part:.1%} of the lines of fit at run time")
    assert part >= COVERAGE
    text = PAGE.read_text(encoding="utf-8").replace("\n", " ")
    assert f"at least {COVERAGE:.0%} of these" in text
