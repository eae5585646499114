"""Tests of many small cases, of which one test runs a group.

pytest needs some milliseconds for a test, in every process that collects it and in the one that
runs it, which is as long as many cases take.  All cases of a group run, each from the same random
state, whatever those before it did; the report names every one that failed.
"""

from __future__ import annotations

import functools
import inspect
import random
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest


class Case(NamedTuple):
    id: str
    values: tuple[Any, ...]
    """Those of the test's arguments that differ from case to case."""


def seed() -> None:
    """Give all global generators of random numbers the state that every test starts from."""
    random.seed(0)
    np.random.seed(0)
    if "nbmod" in sys.modules:
        sys.modules["nbmod"].random.seed(0)


def over_groups(names: str, cases: Iterable[Case],
                group: Callable[[Case], str]) -> Callable[[Callable[..., None]], Any]:
    """Parametrise a test over groups of cases.

    Parameters
    ----------
    names : str
        The arguments of the test that a case has values of, as `parametrize` takes them.
    cases : iterable of Case
        All cases.
    group : callable
        The name of the group of a case; the test's id has it.

    Returns
    -------
    callable
        A decorator.  Other arguments of the test are fixtures, which its cases share.  `oracle` is
        none of them: a test is repeated with a fresh MXNet before it fails, and that is one case.
    """
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(group(case), []).append(case)
    arguments = [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def run_all(cases: list[Case], **fixtures: Any) -> None:
            run_cases(test, arguments, cases, fixtures)

        assert "oracle" not in inspect.signature(test).parameters
        kept = [parameter for name, parameter in inspect.signature(test).parameters.items()
                if name not in arguments]
        kept.append(inspect.Parameter("cases", inspect.Parameter.KEYWORD_ONLY))
        run_all.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("cases", list(groups.values()), ids=list(groups))(run_all)

    return decorate


def run_cases(test: Callable[..., None], arguments: list[str], cases: list[Case],
              fixtures: dict[str, Any]) -> None:
    """Run all cases, and fail with the reports of those that fail."""
    failed = {}
    for case in cases:
        seed()
        try:
            test(**dict(zip(arguments, case.values, strict=True)), **fixtures)
        except (Exception, pytest.fail.Exception) as error:
            report = pytest.ExceptionInfo.from_exception(error)
            report.traceback = report.traceback[1:]  # without this function
            failed[case.id] = str(report.getrepr(style="short"))
    if failed:
        reports = "\n".join(f"--- {name}\n{text}" for name, text in failed.items())
        pytest.fail(f"{len(failed)} of {len(cases)} cases failed: {', '.join(failed)}\n{reports}",
                    pytrace=False)
