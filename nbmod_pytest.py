"""The plugin of nbmod's kernel bench for pytest: the fixture `kernel_benchmark`.

    def test_axpy(kernel_benchmark):
        result = kernel_benchmark(axpy, 2.0, x, y, baseline=old_axpy)
        assert result.verdict != "SLOWER"

pytest loads it by the entry point of the distribution `pytest-nbmod`, which ``nbmod[bench]``
requires; without that, by ``pytest -p nbmod_pytest``.  The module lies outside of nbmod, whose
import takes longer, and imports it only in a test that asks for the fixture.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from nbmod.bench import Result
    from nbmod.bench.remote import RemoteArm

PROPERTY = "nbmod_kernel_benchmark"
"""Of a test's report: the result, which processes of pytest-xdist send to the first one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --kernel-baseline."""
    parser.getgroup("kernel benchmarks").addoption(
        "--kernel-baseline", metavar="REVISION",
        help="compare the first call of kernel_benchmark in each test with that of the same test "
        "at this git revision, in a process of its own")


@pytest.fixture
def kernel_benchmark(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Time a function: called like `nbmod.bench.measure`, whose result it returns.

    The name in tables is the test's.  The times go to pytest-benchmark, too, where it is
    installed: to its table, and with all facts to its JSON (`extra_info`).  A test may call it
    several times, and pytest-benchmark then has the first.

    With ``--kernel-baseline REVISION`` the baseline of the first call is the function that the
    same test measures at that revision, in place of the `baseline` of the call.
    """
    from nbmod import bench
    from nbmod.bench import remote

    names = iter([request.node.name, *(f"{request.node.name} #{n}" for n in range(2, 1000))])

    def run(function: Callable[..., object], *args: Any, **options: Any) -> Result:
        options.setdefault("name", next(names))
        if remote.is_serving():
            _serve(function, args, **options)
        with _alone(request.config), _other_revision(request) as baseline:
            if baseline is not None:
                options["baseline"] = baseline
            result = bench.measure(function, *args, **options)
        request.node.user_properties.append((PROPERTY, result.as_json()))
        _tell_pytest_benchmark(request, result)
        return result

    return run


@contextlib.contextmanager
def _alone(config: pytest.Config) -> Iterator[None]:
    """A block of one process at a time, where pytest-xdist runs several."""
    if not hasattr(config, "workerinput"):
        yield
        return
    from nbmod.core.config import CONFIG
    from nbmod.core.locks import locked

    with locked(CONFIG.cache_dir / "bench.lock", timeout=3600):
        yield


def _serve(function: Callable[..., object], args: tuple[Any, ...], name: str, cold: bool = False,
           vary: bool = True, **_: object) -> None:
    """Run the function for the process that compares with this revision, and end."""
    from nbmod.bench.remote import serve
    from nbmod.bench.subjects import CallableArm, InputSets

    arm = CallableArm(name, function, InputSets(args, cold, vary))
    arm.first_call()
    serve(arm)
    pytest.exit("the comparison is over", returncode=0)


@contextlib.contextmanager
def _other_revision(request: pytest.FixtureRequest) -> Iterator[RemoteArm | None]:
    """The same test at the revision of --kernel-baseline, in its first call; or None."""
    revision = request.config.getoption("--kernel-baseline")
    if revision is None or _told in request.node.stash:
        yield None
        return
    from nbmod.bench.remote import served_by, worktree

    with worktree(revision, request.config.rootpath) as folder:
        paths = [str(folder), str(folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [sys.executable, "-m", "pytest", "-p", "nbmod_pytest", "-p", "no:cacheprovider",
                   "-x", request.node.nodeid]
        if request.config.pluginmanager.hasplugin("xdist"):
            command += ["-n", "0"]
        with served_by(revision, command, folder,
                       {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}) as arm:
            yield arm


def _tell_pytest_benchmark(request: pytest.FixtureRequest, result: Result) -> None:
    """Replay the rounds for pytest-benchmark by a clock that shows their times."""
    if _told in request.node.stash:
        return
    request.node.stash[_told] = True
    if not request.config.pluginmanager.hasplugin("benchmark"):
        return
    own = result.rounds.seconds[:, 0].tolist()
    ticks = [0.0]
    for seconds in own:
        ticks += [ticks[-1], ticks[-1] + seconds]
    clock = iter(ticks[1:])
    request.node.add_marker(pytest.mark.benchmark(timer=lambda: next(clock, ticks[-1])))
    benchmark = request.getfixturevalue("benchmark")
    benchmark.extra_info.update(result.as_json())
    benchmark.pedantic(lambda: None, rounds=len(own), iterations=1)


_told = pytest.StashKey[bool]()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table of all results, in 80 columns."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports
               if getattr(report, "when", None) == "teardown"
               or getattr(report, "when", None) == "call"]
    rows = {str(value["name"]) + report.nodeid: value for report in reports
            for name, value in report.user_properties if name == PROPERTY}
    if not rows:
        return
    from nbmod.bench.report import table

    terminalreporter.section("kernel benchmarks")
    for line in table(list(rows.values())):
        terminalreporter.write_line(line)
