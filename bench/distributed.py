"""Distributed training on this machine, and a prediction for many.

    python -m bench.distributed [--steps N] [--only exchange,host,overlap,check,predict]

Prints Markdown: the exchange of 100 MB beside MPI's Allreduce; ranks that share the machine beside
one process; how much of a throttled exchange the computation hides; a model of a step beside what
throttled ranks measure; what the model says of 8 to 512 ranks.  Ranks are started by `python -m
nbmod launch` (`bench.distributed_ranks`), their exchange is throttled by `bench.throttled`, the
model is `bench.step_model`.  `results/distributed-cpu.md` is such an output.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import date
from functools import cache
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

from .step_model import HostCost, StepModel
from .throttled import UNLIMITED, Link
from .timelines import Timeline, Training

SCRIPT = Path(__file__).with_name("distributed_ranks.py")
BATCH = 16
"""Samples of all ranks on this machine together."""
LATENCY = 50.0
"""Microseconds of a message between hosts, by TCP on Ethernet."""
GBITS = (1, 10, 25, 100)
RANKS = (8, 32, 128, 512)
PREDICTED = {"resnet50": 16, "vgg16": 8, "lstm": 32}
"""Batches of the networks that are predicted, on every rank."""
Figures = dict[str, Any]


def launch(ranks: int, task: Sequence[str], threads: int | None = None) -> list[Figures]:
    """What ranks find; `threads` of each, by default its share of the cores."""
    root = SCRIPT.parent.parent
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory(prefix="nbmod-bench-") as folder:
        out = str(Path(folder) / "found.json")
        given = ["--threads", str(threads)] if threads else []
        done = subprocess.run(
            [sys.executable, "-m", "nbmod", "launch", "-n", str(ranks), *given, str(SCRIPT),
             task[0], out, *task[1:]], env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{ranks} ranks of {task} ended with {done.returncode}:\n"
                             f"{done.stdout}{done.stderr}")
        found: list[Figures] = json.loads(Path(out).read_text())
        return found


def cores() -> int:
    """Cores of this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> str:
    """The load of the machine, in processes that want to run."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "-"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; columns of text first, then of numbers."""
    print("| " + " | ".join(head) + " |\n|---|" + "--:|" * (len(head) - 1))
    for row in rows:
        cells = [f"{cell:.3g}" if isinstance(cell, float) and cell < 100 else
                 f"{cell:.0f}" if isinstance(cell, float) else str(cell) for cell in row]
        print("| " + " | ".join(cells) + " |", flush=True)
    print()


# ------------------------------------------------------------------------------------- exchange

def measure_exchange() -> None:
    """The store's buckets beside MPI's Allreduce."""
    print("## Exchange of 100 MB of float32\n\nReduce-scatter and all-gather of the store's "
          "buckets, and one Allreduce of MPI, in turns in the same ranks; medians of 7.\n")
    rows = []
    for ranks in (2, 4):
        for one in launch(ranks, ["exchange"]):
            rows.append([f"{ranks} ranks, {one['keys']}", one["buckets"], 1e3 * one["store"],
                         1e3 * one["allreduce"], one["store"] / one["allreduce"],
                         one["best store"] / one["best allreduce"], load()])
            if ranks == 2:
                HOST.append(HostCost(one["host reduce"] / one["MB"] / 1e6,
                                     one["host gather"] / one["MB"] / 1e6))
    table(["", "buckets", "store ms", "Allreduce ms", "ratio", "of best", "load"], rows)


HOST: list[HostCost] = []
"""What has been measured of the work on exchanged bytes."""


def host_cost() -> HostCost:
    """That of ResNet-50's keys, which are packed."""
    if not HOST:
        found = launch(2, ["exchange"])[-1]
        HOST.append(HostCost(found["host reduce"] / found["MB"] / 1e6,
                             found["host gather"] / found["MB"] / 1e6))
    return HOST[-1]


# --------------------------------------------------------------------------------- on one machine

@cache
def training(network: str) -> Training:
    """A network in this process, with all threads."""
    return Training(network, PREDICTED[network])


def measure_host(steps: int) -> None:
    """ResNet-50 in one process, and in ranks that share its cores, in turns."""
    ranks, batch = 2, str(BATCH // 2)
    print(f"## ResNet-50 on one machine\n\nBatch {BATCH} in all: one process with {cores()} "
          f"threads, and 2 ranks with {cores() // 2}; {HOST_ROUNDS} rounds of {steps} steps in "
          "turns. Speed is that of one process divided by that of the ranks.\n")
    times: dict[str, list[float]] = {name: [] for name in ON_ONE_HOST}
    training("resnet50").seconds(1)
    for _ in range(HOST_ROUNDS):
        times["one process"].append(statistics.median(training("resnet50").seconds(steps)))
        found = launch(ranks, ["train", "resnet50", batch, str(steps),
                               *filter(None, ON_ONE_HOST.values())])
        for name, one in zip([*ON_ONE_HOST][1:], found, strict=True):
            times[name].append(one["step"])
    step, best = statistics.median(times["one process"]), min(times["one process"])
    table(["", "step ms", "best ms", "speed", "of best", "load"],
          [[name, 1e3 * statistics.median(each), 1e3 * min(each), step / statistics.median(each),
            best / min(each), load()] for name, each in times.items()])


ON_ONE_HOST = {"one process": "", "2 ranks, no exchange": "alone",
               "2 ranks, exchange after backward": "plain,0", "2 ranks, overlapped": "plain,1"}
"""What is measured, and its case in the ranks."""
HOST_ROUNDS = 5


# -------------------------------------------------------------------------------------- throttled

@cache
def throttled(ranks: int, steps: int, cases: tuple[tuple[int, float], ...]) -> list[Figures]:
    """ResNet-50 with an exchange that is throttled: cases of (overlap, Gbit/s), after a timeline
    of ranks that exchange nothing."""
    words = [f"throttled,{overlap},{gbit},{LATENCY}" for overlap, gbit in cases]
    return launch(ranks, ["train", "resnet50", str(BATCH // ranks), str(steps), "alone", *words],
                  max(1, cores() // ranks))


CASES = {2: ((0, 10), (1, 10), (1, 1), (1, 25)), 4: ((1, 10), (1, 1))}
"""By ranks: (overlap, Gbit/s)."""


def measure_overlap(steps: int) -> None:
    """How much of the exchange takes no time."""
    print("## Overlap\n\nResNet-50, batch 8 on each of 2 ranks, exchange throttled. Hidden is 1 - "
          "(time that the computation waits for exchanges) / (time that exchanges take); without "
          "overlap it waits for all of it.\n")
    rows = []
    for one in throttled(2, steps, CASES[2])[1:]:
        overlap, gbit = one["case"].split(",")[1:3]
        waits = one["waited"] if overlap == "1" else one["exchange"]
        rows.append([f"{gbit} Gbit/s, {'overlapped' if overlap == '1' else 'after backward'}",
                     1e3 * one["step"], 1e3 * one["exchange"], 1e3 * waits,
                     f"{1 - waits / one['exchange']:.0%}", f"{one['load']:.1f}"])
    table(["", "step ms", "exchange ms", "waits ms", "hidden", "load"], rows)


def check_model(steps: int) -> None:
    """Predicted beside measured steps."""
    print("## The model beside measurements\n\nResNet-50, batch 16 in all, ranks on this machine "
          "with throttled exchange. The timeline is that of ranks which compute at the same time "
          "and exchange nothing; more ranks than cores take turns. It is slowed down by the "
          "processor time of the exchange (on this machine, copies from rank to rank as well), for "
          "which there is no core of its own.\n")
    rows = []
    for ranks, cases in CASES.items():
        alone, *found = throttled(ranks, steps, cases)
        line = timeline_of(alone)
        for one in found:
            overlap, gbit = one["case"].split(",")[1:3]
            if overlap == "0":
                continue
            turns = max(1.0, ranks / cores())
            model = StepModel(line.slowed(turns * one["processor"]), ranks, link(float(gbit)),
                              host_cost())
            rows.append([f"{ranks} ranks, {gbit} Gbit/s", 1e3 * line.step, 1e3 * one["processor"],
                         1e3 * model.seconds(), 1e3 * one["step"],
                         f"{model.seconds() / one['step'] - 1:+.0%}", 1e3 * model.exchange,
                         1e3 * one["exchange"], f"{one['load']:.1f}"])
    table(["", "step alone ms", "processor ms of exchange", "predicted ms", "measured ms", "error",
           "exchange predicted ms", "measured ms", "load"], rows)


def link(gbit: float) -> Link:
    return Link(1e9 * gbit, 1e-6 * LATENCY)


def timeline_of(figures: Figures) -> Timeline:
    """The timeline that ranks have written."""
    names = Timeline.__dataclass_fields__
    found = {name: figures[name] for name in names}
    found["shapes"] = {name: tuple(shape) for name, shape in figures["shapes"].items()}
    return Timeline(**found)


# -------------------------------------------------------------------------------------- prediction

def predict(steps: int) -> None:
    """What the model says of many machines like this one."""
    host = host_cost()
    print(f"## Predicted\n\nOne rank on each host, all as fast as this machine ({cores()} "
          f"threads); {LATENCY:.0f} us latency. Ranks exchange with each other directly: a "
          "reduce-scatter (Alltoallv) takes P - 1 latencies and the largest of what a rank sends "
          "and receives, an all-gather (Allgatherv, a ring) P - 1 latencies and P - 1 times the "
          "largest part; both are N(P - 1)/P bytes where parts are equal. Work of a host on "
          f"exchanged bytes, as measured: {1e9 * host.reduce:.2f} ms for a MB reduced, "
          f"{1e9 * host.gather:.2f} ms gathered.\n\nCells are milliseconds of a step and the speed "
          "of a rank relative to one process, which is above 100% where the update takes long: "
          "each rank has only its part of it.\n")
    for network, batch in PREDICTED.items():
        line = training(network).timeline(steps)
        base, slowed = StepModel(line, 1, UNLIMITED), line.slowed(host.of(line) / cores())
        nbytes = sum(4 * prod(shape) for shape in line.shapes.values())
        print(f"{network}, batch {batch} on each rank, {nbytes / 1e6:.0f} MB of gradients, "
              f"{1e3 * line.step:.0f} ms in one process (load {load()}); "
              f"{len(StepModel(line, 8, link(10)).buckets)} buckets on 8 ranks, "
              f"{len(StepModel(line, 512, link(10)).buckets)} on 512\n")
        rows = []
        for ranks in RANKS:
            models = [StepModel(slowed, ranks, link(gbit), host) for gbit in GBITS]
            rows.append([f"{ranks} ranks", *(
                f"{1e3 * one.seconds():.0f} ({base.seconds() / one.seconds():.0%})"
                for one in models)])
        table(["", *(f"{gbit} Gbit/s" for gbit in GBITS)], rows)


# ------------------------------------------------------------------------------------------- main

def about() -> None:
    """Date, environment and command."""
    from mpi4py import MPI

    library = MPI.Get_library_version().strip("\0").split(",")[0].split("\n")[0]
    names = ", ".join(f"{name} {version(name)}" for name in ("nbmod", "mpi4py", "numpy", "numba"))
    print(f"# Distributed training on {cores()} cores\n\n{date.today()}, {names}, {library}, "
          f"Python {platform.python_version()}, {platform.machine()} of the kind LLVM calls "
          f"{_cpu()}: `python -m bench.distributed`. Load is the average of the last minute when a "
          "figure was taken.\n", flush=True)


def _cpu() -> str:
    import llvmlite.binding as llvm  # noqa: TID251  asked for the CPU's name only

    name: str = llvm.get_host_cpu_name()
    return name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=5, help="of each figure")
    parser.add_argument("--only", default="exchange,host,overlap,check,predict")
    options = parser.parse_args()
    sections = {"exchange": measure_exchange, "host": lambda: measure_host(options.steps),
                "overlap": lambda: measure_overlap(options.steps),
                "check": lambda: check_model(options.steps),
                "predict": lambda: predict(max(2, options.steps // 2))}
    about()
    for name in options.only.split(","):
        sections[name]()


if __name__ == "__main__":
    main()
