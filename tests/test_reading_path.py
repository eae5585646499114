"""The amount of code that a batch passes at run time: functions called by `fit` after binding."""

from __future__ import annotations

import pytest

from tests import reading_path

LINES, FILES = 1180, 39
"""Limits: lines of all functions called (without docstrings), and files that contain them."""


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_the_run_time_path_of_fit_is_short(capsys):
    functions = reading_path.trace()
    lines, files = sum(one.lines for one in functions), {one.file for one in functions}
    with capsys.disabled():
        print(f"\nfit at run time: {lines} lines of {len(functions)} functions in {len(files)} "
              "files")
    assert lines <= LINES and len(files) <= FILES
