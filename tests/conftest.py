"""Fixtures and reports shared by all tests: the oracle, fixed seeds, GPU requirements."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

# The last digits of a test must not depend on whether its kernels are in the cache.
os.environ.setdefault("NBMOD_NUMPY_FIRST", "0")

from bench import mxnet_environment
from nbmod.ops.build.levels import restrict_numba
from tests.grouped import seed
from tests.oracle.client import Oracle, OracleCrash, OracleError

QUICK = (
    "explain/test_facts.py", "io/test_io.py", "metric/test_metric.py",
    "module/test_module.py", "ndarray/test_ndarray.py", "passes/test_gradient.py",
    "passes/test_rewrite.py", "passes/test_shape_inference.py",
    "symbol/test_symbol.py", "symbol/test_symbol_json.py", "test_initializer.py",
    "test_lr_scheduler.py",
)
"""Files of the marker `quick`: they take a minute together where kernels are compiled."""

_USED = pytest.StashKey[Oracle]()
_COUNTED = pytest.StashKey[tuple[int, int]]()
_ANEW = "disagreed at first"


def pytest_configure(config: pytest.Config) -> None:
    """Let all of the process be for NBMOD_CPU_LEVEL, if that is set: tests may use numba first."""
    restrict_numba()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let the processes of `--dist loadgroup` share the test files."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.scheduling import FileScheduling

    return FileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the oracle and quick ones, and skip GPU tests where there is none."""
    no_gpu = pytest.mark.skip(reason="needs a CUDA device or NUMBA_ENABLE_CUDASIM=1")
    for item in items:
        if item.nodeid.removeprefix("tests/").partition("::")[0] in QUICK and (
                not item.get_closest_marker("slow")):
            item.add_marker(pytest.mark.quick)
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.oracle)
            item.user_properties.append(("oracle", True))
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(no_gpu)


@pytest.fixture(scope="session")
def oracle(pytestconfig: pytest.Config) -> Iterator[Oracle]:
    """Real MXNet 1.9.1. Absent: the test is skipped, or fails under NBMOD_REQUIRE_ORACLE=1."""
    python = mxnet_environment.find_python()
    if python is None:
        if os.environ.get("NBMOD_REQUIRE_ORACLE") == "1":
            pytest.fail(mxnet_environment.absence())
        pytest.skip(mxnet_environment.absence())
    client = Oracle(python)
    pytestconfig.stash[_USED] = client
    yield client
    client.close()


@pytest.fixture
def plain_copy() -> Iterator[None]:
    """`mx.sym.PlainCopy`, an op without a GPU kernel."""
    import nbmod as mx

    @mx.register_op("PlainCopy")
    @dataclass(frozen=True)
    class PlainCopy(mx.ops.Op):
        """y = x, of one shape."""

        def forward(self, ins, outs, call):
            np.copyto(outs[0], ins[0])

    yield
    mx.unregister_op("PlainCopy")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A test that disagrees with MXNet is repeated with a fresh process before it fails.

    State that MXNet keeps from earlier calls (primitives with the scales of another call, memory of
    a data race in its engine) can make its results wrong. Errors of nbmod fail both times.
    """
    client = pyfuncitem.funcargs.get("oracle")
    try:
        return (yield)
    except (AssertionError, OracleError, OracleCrash):
        if not isinstance(client, Oracle) or (_ANEW, True) in pyfuncitem.user_properties:
            raise
    pyfuncitem.user_properties.append((_ANEW, True))
    client.close()
    seed()
    return pyfuncitem.ihook.pytest_pyfunc_call(pyfuncitem=pyfuncitem)


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Every test starts from the same global random state."""
    seed()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record in a test's last report the number of MXNet calls since the previous test's.

    Reports are what processes that run tests in parallel send back.
    """
    client = item.config.stash.get(_USED, None)
    if call.when == "teardown" and client is not None:
        calls, repeats = item.config.stash.get(_COUNTED, (0, 0))
        item.config.stash[_COUNTED] = client.calls, client.repeats
        item.user_properties.append(("calls", (client.calls - calls, client.repeats - repeats)))
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report whether the oracle was available, so that a green run cannot hide its absence."""
    reports = [report for found in terminalreporter.stats.values() for report in found
               if isinstance(report, pytest.TestReport)]
    asked = [report for report in reports if ("oracle", True) in report.user_properties]
    if not asked:
        return
    counts = [value for report in reports for name, value in report.user_properties
              if name == "calls"]
    if counts:
        ran = sum(report.when == "call" and not report.skipped for report in asked)
        calls, repeats = map(sum, zip(*counts, strict=True))
        terminalreporter.line(f"oracle: {ran} tests against MXNet 1.9.1, {calls} calls, "
                              f"{repeats} asked again of a fresh process")
        for name in sorted({report.nodeid for report in asked
                            if (_ANEW, True) in report.user_properties}):
            terminalreporter.line(f"oracle: disagreed at first, a fresh MXNet was asked: {name}")
    else:
        count = len({report.nodeid for report in asked})
        terminalreporter.line(f"oracle: {count} TESTS DID NOT RUN. {mxnet_environment.absence()}",
                              yellow=True)


def _has_gpu() -> bool:
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return True
    import nbmod

    return nbmod.num_gpus() > 0
