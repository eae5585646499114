"""MXNet 1.9.1 beside nbmod: a worker process in MXNet's own virtual environment.

The environment is the one the oracle tests use (`python -m tests.oracle.setup` makes it).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from math import inf, isfinite, nan
from typing import Any, TypeVar

import nbmod as mx
from nbmod.bench import ArmTime, side_by_side
from nbmod.bench.foreign.worker_process import ForeignArm, WorkerProcess
from nbmod.bench.report import percent
from nbmod.bench.rounds import Arm
from nbmod.bench.statistics import Interval
from nbmod.bench.subjects import CallableArm, InputSets

from .mxnet_environment import find_python
from .virtual_environment import ROOT

__all__ = ["HEAD", "arm_of", "arms_of", "asked", "cells", "interval", "inverse", "mxnet_worker",
           "peer_arm", "timed"]

SECONDS = 8.0
"""Of a row: some ten rounds with MXNet."""
HEAD = f"{'nbmod ms':>9} {'noise':>6} {'MXNet ms':>9} {'ratio':>6} {'99% interval':>13}"
"""Above the columns of `cells`."""


T = TypeVar("T")


def asked(prog: str, rows: Mapping[str, T], seconds: float
          ) -> tuple[argparse.Namespace, dict[str, T]]:
    """The options of a command that prints a table, and the rows it is asked for."""
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument("words", nargs="*", help="parts of the names of rows; all by default")
    parser.add_argument("--processor", action="store_true", help="processor time of all threads")
    parser.add_argument("--seconds", type=float, default=seconds, help="for each row")
    parser.add_argument("--threads", type=int, default=0, help="of MXNet; 0: one per core")
    options = parser.parse_args()
    return options, {name: row for name, row in rows.items()
                     if not options.words or any(word in name for word in options.words)}


def mxnet_worker(threads: int = 0) -> WorkerProcess | None:
    """The worker, by default with a thread per core; None, and a message, without MXNet."""
    python = find_python()
    if python is None:
        print("real MXNet is absent, so there is nothing beside nbmod; "
              "`python -m tests.oracle.setup` installs it", file=sys.stderr)
        return None
    return WorkerProcess(python, ROOT, "bench.programs", timeout=600,
                         threads=threads or os.cpu_count() or 1,
                         environment={"MXNET_SUBGRAPH_VERBOSE": "0"})


def arm_of(subject: Any, name: str = "nbmod", processor: bool = False) -> CallableArm:
    """An arm of this process from a subject (see `bench.programs`)."""
    before, function = subject if isinstance(subject, tuple) else (None, subject)
    return CallableArm(name, function, InputSets(), before,
                       time.process_time if processor else time.perf_counter)


def arms_of(worker: WorkerProcess | None, program: Callable[..., Any], *args: Any,
            processor: bool = False) -> dict[str, Arm]:
    """A subject of `bench.programs` in nbmod, and in MXNet if it is there."""
    arms: dict[str, Arm] = {"nbmod": arm_of(program(mx, *args), processor=processor)}
    if worker is not None:
        arms["MXNet"] = peer_arm(worker, program, *args, processor=processor)
    return arms


def peer_arm(worker: WorkerProcess, program: Callable[..., Any], *args: Any,
             processor: bool = False) -> ForeignArm:
    """A subject of `bench.programs` in MXNet."""
    return worker.arm("in_mxnet.run", program.__module__.rpartition(".")[2], program.__name__,
                      *args, name="MXNet", processor=processor)


def timed(arms: Mapping[str, Arm], seconds: float = SECONDS, **options: Any) -> dict[str, ArmTime]:
    """The times of arms in turns; NaN for MXNet where it is absent."""
    times = side_by_side(arms, seconds=seconds, **options)
    for arm in arms.values():
        if isinstance(arm, ForeignArm):
            arm.forget()
    return {"MXNet": ArmTime("MXNet", nan, nan, nan, Interval(nan, nan, nan)), **times}


def interval(ratio: Interval) -> str:
    """The bounds of a ratio; "?" where there were too few rounds."""
    return f"{ratio.low:.2f} - {ratio.high:.2f}" if isfinite(ratio.high) else "?"


def inverse(ratio: Interval) -> Interval:
    """The interval of the ratio the other way round."""
    return Interval(*[inf if bound <= 0 else 1 / bound
                      for bound in (ratio.high, ratio.median, ratio.low)])


def cells(times: Mapping[str, ArmTime], scale: float = 1e3) -> str:
    """The columns of nbmod and MXNet: milliseconds, noise, ratio and its interval."""
    ours, theirs = times["nbmod"], times["MXNet"]
    return (f"{ours.seconds * scale:9.3f} {percent(ours.noise, 1):>6} "
            f"{theirs.seconds * scale:9.3f} {theirs.ratio.median:6.2f} "
            f"{interval(theirs.ratio):>13}")
