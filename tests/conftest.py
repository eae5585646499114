"""Fixtures and reports that every test shares: the oracle, fixed seeds, what needs a GPU."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import numpy as np
import pytest

from tests.oracle import setup as oracle_setup
from tests.oracle.client import Oracle, OracleCrash, OracleError

ABSENT = "MXNet's environment is absent: python -m tests.oracle.setup makes it"
_USED = pytest.StashKey[Oracle]()
_ASKED_ANEW = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses the oracle, and skip what needs a GPU where there is none."""
    no_gpu = pytest.mark.skip(reason="needs a CUDA device or NUMBA_ENABLE_CUDASIM=1")
    for item in items:
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.oracle)
            item.user_properties.append(("oracle", True))
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(no_gpu)


@pytest.fixture(scope="session")
def oracle(pytestconfig: pytest.Config) -> Iterator[Oracle]:
    """Real MXNet 1.9.1. Absent: the test is skipped, or fails under NBMOD_REQUIRE_ORACLE=1."""
    python = oracle_setup.find_python()
    if python is None:
        if os.environ.get("NBMOD_REQUIRE_ORACLE") == "1":
            pytest.fail(ABSENT)
        pytest.skip(ABSENT)
    client = Oracle(python)
    pytestconfig.stash[_USED] = client
    yield client
    client.close()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A test that disagrees with MXNet asks a fresh process before it fails.

    What MXNet kept of earlier calls (primitives with the scales of another call, memory of an
    engine that raced) can make its answers wrong. What is wrong with nbmod fails both times.
    """
    anew = pyfuncitem.config.stash.setdefault(_ASKED_ANEW, [])
    client = pyfuncitem.funcargs.get("oracle")
    try:
        return (yield)
    except (AssertionError, OracleError, OracleCrash):
        if not isinstance(client, Oracle) or pyfuncitem.nodeid in anew:
            raise
    anew.append(pyfuncitem.nodeid)
    client.close()
    _seed()
    return pyfuncitem.ihook.pytest_pyfunc_call(pyfuncitem=pyfuncitem)


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Every test starts from the same global random state, whatever ran before it."""
    _seed()


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say whether the judge was there, so that a green run cannot hide its absence."""
    asked = [
        report
        for outcome in ("passed", "failed", "error", "skipped")
        for report in terminalreporter.stats.get(outcome, ())
        if ("oracle", True) in getattr(report, "user_properties", ()) and report.when != "teardown"
    ]
    if not asked:
        return
    if _USED in config.stash:
        ran = sum(report.when == "call" and not report.skipped for report in asked)
        client = config.stash[_USED]
        terminalreporter.line(f"oracle: {ran} tests against MXNet 1.9.1, {client.calls} calls, "
                              f"{client.repeats} asked again of a fresh process")
        for name in config.stash.get(_ASKED_ANEW, []):
            terminalreporter.line(f"oracle: disagreed at first, a fresh MXNet was asked: {name}")
    else:
        terminalreporter.line(f"oracle: {len(asked)} TESTS DID NOT RUN. {ABSENT}", yellow=True)


def _has_gpu() -> bool:
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return True
    import nbmod

    return nbmod.num_gpus() > 0
