"""How often the kernel bench errs: false alarms on equal code, and slowdowns that it notices.

    python -m bench.verdicts [--pairs 200] [--trials 100] [--seconds 30] [--roofs 10]
                             [--pytest 60] [--out FOLDER]

A neighbour, a process that computes all the time, runs beside everything.  The code is a loop that
numba compiled, whose time is known: it makes 100, 103 or 105 equal turns.  Runs of pytest with one
test that does nothing show the price of the plugin (--pytest: rounds).  Results go to the terminal
and to FOLDER/kernel-bench.md, with date and machine.  All of it takes about an hour and a half on
two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import io
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from nbmod import bench
from nbmod.bench import roofs
from nbmod.bench.rounds import run_rounds
from nbmod.bench.statistics import ERROR, median_interval
from nbmod.ops.jit import kernel, num_threads
from nbmod.ops.simd.host import cpu_name

ROOT = Path(__file__).resolve().parents[1]
UNIT = 700
"""Turns of the innermost loop in one of the hundred parts: some 100 us in all."""


@kernel
def turns(values, count):
    for _ in range(count):
        for i in range(values.size):
            values[i] = values[i] * 0.999 + 1.0


class Row(NamedTuple):
    """A figure: the quantity, the goal, the value and whether it is reached."""

    what: str
    goal: str
    value: str
    is_reached: bool


def spun(percent: int) -> Callable[[np.ndarray], None]:
    """A function of a known time: `percent` parts."""
    def run(values: np.ndarray) -> None:
        turns(values, UNIT * percent // 100)

    return run


@contextlib.contextmanager
def neighbour(count: int) -> Iterator[None]:
    """A block beside processes that compute all the time."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.2)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def false_alarms(pairs: int, seconds: float) -> Iterator[Row]:
    """Verdicts on equal code."""
    results = [bench.compare(spun(100), spun(100), np.ones(64), seconds=seconds, seed=number)
               for number in range(pairs)]
    wrong = sum(each.verdict in ("FASTER", "SLOWER") for each in results)
    same = sum(each.verdict == "SAME" for each in results)
    yield Row(f"equal code called FASTER or SLOWER, of {pairs} comparisons", "at most 1%",
              f"{wrong} ({wrong / pairs:.1%}); SAME {same / pairs:.0%}", wrong <= 0.01 * pairs)


def detected(percent: int, least: float, trials: int, seconds: float) -> Iterator[Row]:
    """Verdicts on a known slowdown, and the estimate of it."""
    results, spent = [], []
    for number in range(trials):
        began = time.perf_counter()
        results.append(bench.compare(spun(percent), spun(100), np.ones(64),
                                     seconds=seconds, seed=number))
        spent.append(time.perf_counter() - began)
    share = sum(each.verdict == "SLOWER" for each in results) / trials
    yield Row(f"a slowdown of {percent - 100}% called SLOWER, of {trials} trials within "
              f"{seconds:.0f} s", f"at least {least:.0%}",
              f"{share:.0%}, in {statistics.median(spent):.1f} s", share >= least)
    estimate = statistics.median(each.ratio or 0.0 for each in results)
    error = abs(estimate / (UNIT * percent // 100 / UNIT) - 1)
    yield Row(f"median estimate of a ratio of {percent / 100:.2f}", "within 1%",
              f"{estimate:.4f}", error <= 0.01)


def stability(runs: int, most: float, conditions: str) -> Iterator[Row]:
    """The spread of roofs, each measured anew: of those that are not said to be unsteady."""
    measured = [roofs._measure(num_threads(), roofs.WINDOWS) for _ in range(runs)]
    unsteady = {name for each in measured for name in each.unsteady}
    spreads = {}
    for table in ("operations", "nbytes"):
        for name in getattr(measured[0], table):
            values = [getattr(each, table)[name] for each in measured]
            middle = statistics.median(values)
            spreads[name] = max(max(values) / middle - 1, 1 - min(values) / middle)
    steady = {name: spread for name, spread in spreads.items() if name not in unsteady}
    worst = max(steady, key=steady.__getitem__, default="none is steady")
    spread = steady.get(worst, 0.0)
    yield Row(f"steady roofs of {runs} runs, {conditions}: the largest distance from the median",
              f"within {most:.0%}", f"{spread:.1%} ({worst})", spread <= most)
    missed = {name: spread for name, spread in spreads.items() if spread > most}
    untold = sorted(missed.keys() - unsteady)
    yield Row(f"roofs that differ by more, {conditions}, and are said to be unsteady", "all",
              ", ".join(f"{name} {spread:.0%}" for name, spread in missed.items()) or "none",
              not untold)


class PytestRun:
    """Runs of pytest in this process, which has imported pytest, with what `site` holds.

    They take processor time of it, so that a neighbour counts less.
    """

    def __init__(self, name: str, tests: Path, site: Path) -> None:
        self.name, self._tests, self._site = name, tests, site

    def time(self, calls: int, turn: int) -> float:
        """Seconds of one of `calls` runs."""
        path = sys.path[:]
        sys.path.append(str(self._site))
        gc.collect()    # of the garbage of the other runs
        began = time.process_time()
        for _ in range(calls):
            sys.modules.pop("nbmod_pytest", None)
            with contextlib.redirect_stdout(io.StringIO()):
                assert not pytest.main(["-q", "-p", "no:cacheprovider", str(self._tests)])
        taken = (time.process_time() - began) / calls
        sys.path[:] = path
        return taken


def overhead(rounds: int) -> Iterator[Row]:
    """Milliseconds that the plugin takes in a run of pytest that does not use it."""
    with tempfile.TemporaryDirectory() as scratch:
        sites = [Path(scratch, name) for name in ("with", "without")]
        source, tests = Path(scratch, "source"), Path(scratch, "tests")
        shutil.copytree(ROOT / "pytest_nbmod", source)
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target",
                        str(sites[0]), str(source)], check=True)
        tests.mkdir()
        (tests / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
        times = run_rounds([PytestRun(site.name, tests, site) for site in sites], 1e9,
                           lambda so_far: len(so_far) == rounds)
    least = times.seconds.reshape(rounds, 2, 2).min(axis=1)
    taken = median_interval(1e3 * (least[:, 0] - least[:, 1]), ERROR)
    yield Row("the plugin in a run of pytest that does not use it", "less than 5 ms",
              f"{taken.median:.1f} ms (99% interval {taken.low:.1f} to {taken.high:.1f})",
              taken.median < 5)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.verdicts")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--roofs", type=int, default=10)
    parser.add_argument("--pytest", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    options = parser.parse_args(argv)
    rows: list[Row] = []
    for part in _parts(options):
        for row in part:
            rows.append(row)
            print(_line(row), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "kernel-bench.md").write_text("\n".join(_page(rows)) + "\n")


def _parts(options: argparse.Namespace) -> Iterator[Iterator[Row]]:
    if options.roofs:
        yield stability(options.roofs, 0.05, "nothing beside them")
    if options.pytest:
        yield overhead(options.pytest)
    with neighbour(1):
        if options.roofs:
            yield stability(options.roofs, 0.10, "one busy neighbour")
        if options.pairs:
            yield false_alarms(options.pairs, options.seconds)
        if options.trials:
            yield detected(105, 0.95, options.trials, options.seconds)
            yield detected(103, 0.80, options.trials, options.seconds)


def _page(rows: Sequence[Row]) -> list[str]:
    return ["# The kernel bench: how often it errs", "",
            f"{datetime.date.today()}, {num_threads()} threads of the kind LLVM calls "
            f"{cpu_name()}, Python {platform.python_version()}, one busy neighbour unless said "
            "otherwise: `python -m bench.verdicts`; what misses its goal is bold.", "",
            "| figure | goal | measured |", "|---|---|---|", *map(_line, rows)]


def _line(row: Row) -> str:
    return f"| {row.what} | {row.goal} | {row.value if row.is_reached else f'**{row.value}**'} |"


if __name__ == "__main__":
    main()
