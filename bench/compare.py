"""nbmod, MXNet, PyTorch, onnxruntime and OpenVINO in turns, each in its own process.

    python -m bench.compare [suite ...] [--only NAME ...] [--peers NAME ...] [--rounds N]
                            [--budget SECONDS] [--processor] [--out FOLDER]

Suites: models (default), small, rnn, ops, memory, startup, or all of them by `all`; `bench.goals`
runs the goals of the CPU engine.  `--only` takes prefixes of names of workloads, as in `--only
"resnet50 infer"`.  NBMOD_CPU_LEVEL=x86-64-v3 limits all frameworks to AVX2 (`bench.levels`).

All frameworks get the same data and the same number of threads; in every round each runs for two
moments, in random order, and medians over all rounds are compared.  A peer whose outputs of
inference do not agree is left out.  A table goes to the terminal, all figures to
FOLDER/<suite>.json, and a chart to FOLDER/<suite>.svg.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from nbmod.base import MXNetError
from nbmod.bench import ArmTime, Pace, side_by_side
from nbmod.bench.foreign.worker_process import ForeignArm, WorkerCrash, WorkerError, WorkerProcess
from nbmod.ops.build.levels import chosen

from . import memory, startup
from .environments import INFER_ONLY, PEERS, USUAL, python_of
from .levels import limits, reason_to_leave_out
from .report import Result, host, publish, show
from .virtual_environment import ROOT
from .workloads import SUITES, Workload, workloads

PACE = Pace(block=0.1, settle=0.2)
"""The threads of some frameworks spin for a while after work."""


def main(argv: Sequence[str] | None = None) -> None:
    options = _options(argv)
    suites = [*SUITES, *OTHERS] if "all" in options.suites else options.suites or ["models"]
    for suite in suites:
        with ExitStack() as stack:
            workers = {name: stack.enter_context(closing(worker))
                       for name, worker in workers_of(options.peers, options.threads)}
            _run(suite, workers, options)


def _run(suite: str, workers: dict[str, WorkerProcess], options: argparse.Namespace) -> None:
    """Run a suite; results before an interruption are kept."""
    about = host(options.threads, {name: worker.call("entry.version", name)
                                   for name, worker in workers.items()})
    results: list[Result] = []
    try:
        for result in _results(suite, workers, options):
            results.append(result)
            print("\n".join(show([result], list(workers), head=len(results) == 1)), flush=True)
    finally:
        about["clock"] = "processor time / threads" if options.processor else "wall"
        publish(options.out, suite, results, about)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare")
    known = [*SUITES, *OTHERS, "all"]
    parser.add_argument("suites", nargs="*", metavar="suite", help=", ".join(known))
    arguments(parser)
    options = parser.parse_args(argv)
    unknown = set(options.suites) - set(known)
    if unknown:
        parser.error(f"there is no suite {min(unknown)}, expected {', '.join(known)}")
    return options


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that all benchmarks share."""
    parser.add_argument("--only", nargs="+", default=[], help="beginnings of workloads' names")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=USUAL)
    parser.add_argument("--rounds", type=int, default=8,
                        help="the most, of two blocks of each; default: %(default)s")
    parser.add_argument("--budget", type=float, default=20,
                        help="seconds for the rounds of a workload; default: %(default)s")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--processor", action="store_true",
                        help="processor time of all threads, divided by their number: for machines "
                        "that have other work to do; threads that spin count as working")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))


def workers_of(peers: Sequence[str], threads: int) -> Iterator[tuple[str, WorkerProcess]]:
    """Processes of nbmod and of the installed `peers` that compute at the CPU level of this one."""
    for name in dict.fromkeys(["nbmod", *peers]):
        python = python_of(name)
        if python is None:
            continue
        worker = WorkerProcess(python, ROOT, "bench.frameworks", timeout=900, threads=threads,
                               environment=limits())
        reason = chosen() and reason_to_leave_out(worker.call("entry.vector_bits", name))
        if reason:
            _leave_out(chosen(), name, reason)
            worker.close()
        else:
            yield name, worker


def _results(suite: str, workers: dict[str, WorkerProcess], options: argparse.Namespace
             ) -> Iterator[Result]:
    if suite in OTHERS:
        yield from OTHERS[suite](workers, options)
        return
    for workload in workloads(suite, options.only):
        yield measured(workload, workers, options)


# -- time -------------------------------------------------------------------------------------


def measured(workload: Workload, workers: dict[str, WorkerProcess], options: argparse.Namespace
             ) -> Result:
    """Median milliseconds of every framework that can run `workload`."""
    network = workload.network(options.threads)
    ready = _prepared(workload.name, network, workers)
    _require_agreement(workload.name, ready)
    arms = {name: Peer(name, workers[name].arm("entry.step", processor=options.processor,
                                               warm=False)) for name in ready}
    times: dict[str, ArmTime] = {}
    while arms and not times:
        try:
            times = side_by_side(arms, seconds=options.budget, rounds=options.rounds, pace=PACE)
        except LeftOut as error:
            _leave_out(workload.name, error.name, error)
            del arms[error.name], ready[error.name]
    for name, arm in arms.items():
        arm.forget()
        workers[name].call("entry.forget")
    operations, nbytes = workload.cost()
    shared = options.threads if options.processor else 1
    return Result(workload.name, "ms",
                  {name: 1e3 * each.seconds / shared for name, each in times.items()},
                  operations, 0 if workload.training else nbytes,
                  {name: answer["note"] for name, answer in ready.items() if answer["note"]},
                  {name: each.noise for name, each in times.items() if isfinite(each.noise)})


class LeftOut(Exception):
    """A framework that fails in the middle."""

    def __init__(self, name: str, error: Exception):
        super().__init__(str(error))
        self.name = name


class Peer:
    """The arm of a framework."""

    def __init__(self, name: str, arm: ForeignArm):
        self.name, self._arm = name, arm

    def time(self, calls: int, turn: int) -> float:
        try:
            return self._arm.time(calls, turn)
        except MXNetError as error:
            raise LeftOut(self.name, error) from error

    def forget(self) -> None:
        self._arm.forget()


def _prepared(title: str, network: dict[str, Any], workers: dict[str, WorkerProcess]
              ) -> dict[str, Any]:
    """The results of `entry.prepare`, of the frameworks that can run the network."""
    ready = {}
    for name, worker in workers.items():
        if name in INFER_ONLY and network["training"]:
            continue
        try:
            ready[name] = worker.call("entry.prepare", name, network)
        except (WorkerError, WorkerCrash) as error:
            _leave_out(title, name, error)
    return ready


def _leave_out(title: str, name: str, error: Exception | str) -> None:
    print(f"*** {title}: {PEERS.get(name, name)} is left out: {error}", file=sys.stderr)


def _require_agreement(title: str, ready: dict[str, Any]) -> None:
    """Drop frameworks whose output differs from that of the majority."""
    if len(ready) < 2 or not all(answer["first"] for answer in ready.values()):
        return
    middle = np.median([answer["first"] for answer in ready.values()], axis=0)
    for name, answer in list(ready.items()):
        if not np.allclose(answer["first"], middle, rtol=1e-2, atol=1e-3):
            print(f"*** {title}: {PEERS.get(name, name)} is left out: its outputs are others, "
                  f"{answer['first'][:3]} where most have {middle[:3].tolist()}", file=sys.stderr)
            del ready[name]


# -- memory and start ---------------------------------------------------------------------------


def _memory(workers: dict[str, WorkerProcess], options: argparse.Namespace) -> Iterator[Result]:
    """Planned memory of nbmod and MXNet; peak memory of training processes."""
    planner = memory.mxnet_worker() if "mxnet" in workers else None
    for name in memory.CASES:
        for training in (False, True):
            values = {"nbmod": memory.planned_megabytes(name, training)}
            if planner:
                values["mxnet"] = memory.mxnet_megabytes(planner, name, training)
            yield Result(f"{name} {'train' if training else 'infer'}, planned", "MB", values)
    if planner:
        planner.close()
    for workload in workloads("models", options.only or ["resnet50 train"]):
        values = {}
        for name in _prepared(workload.name, workload.network(options.threads), workers):
            workers[name].call("entry.run", 2)
            values[name] = workers[name].call("entry.peak_megabytes")
            workers[name].close()  # the next workload begins with a fresh process
        yield Result(f"{workload.name}, peak of the process", "MB", values)


def _startup(workers: dict[str, WorkerProcess], options: argparse.Namespace) -> Iterator[Result]:
    """Import and first expression in fresh processes; kernels cold and from the cache."""
    modules = {"nbmod": "nbmod", "mxnet": "mxnet", "pytorch": "torch",
               "torch_compile": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino"}
    for title, code in (("import", startup.IMPORT), ("first expression", startup.EXPRESSION)):
        values = {}
        for name, worker in workers.items():
            if title == "import" or name in ("nbmod", "mxnet"):
                text = code.format(package=modules[name])
                values[name] = 1e3 * startup.seconds(str(worker.python), text)
        yield Result(title, "ms", values)
    for title, seconds in startup.first_step():
        yield Result(title, "ms", {"nbmod": 1e3 * seconds})


OTHERS = {"memory": _memory, "startup": _startup}

if __name__ == "__main__":
    main()
