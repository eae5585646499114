"""Tests that run a group of cases: all of them, and the report names every one that fails."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tests.grouped import Case, over_groups, run_cases

RAN = []


@over_groups("number, kind", [Case(f"{number}-{kind}", (number, kind))
                              for kind in "ab" for number in range(3)],
             lambda case: case.values[1])
def test_groups_have_their_cases_and_fixtures(number, kind, tmp_path):
    RAN.append((number, kind))
    assert tmp_path.is_dir() and kind in "ab"


def test_all_cases_of_groups_ran():
    assert RAN in ([], [(number, kind) for kind in "ab" for number in range(3)])
    signature = inspect.signature(test_groups_have_their_cases_and_fixtures)
    assert [*signature.parameters] == ["tmp_path", "cases"]


def test_every_case_that_fails_is_reported_and_none_changes_the_next():
    drawn = []

    def check(number):
        drawn.append(np.random.rand())
        if number == 2:
            with pytest.raises(KeyError):
                pass
        assert number != 1, f"number is {number}"

    cases = [Case(f"case {number}", (number,)) for number in range(4)]
    with pytest.raises(pytest.fail.Exception) as failure:
        run_cases(check, ["number"], cases, {})
    text = str(failure.value)
    assert text.startswith("2 of 4 cases failed: case 1, case 2\n--- case 1\n")
    assert "number is 1" in text and "DID NOT RAISE" in text and "run_cases" not in text
    assert len(drawn) == 4 and len({*drawn}) == 1
    run_cases(check, ["number"], cases[3:], {})
