"""Goals of the CPU engine and measured values, in one run.

    python -m bench.goals [--budget SECONDS] [--rounds N] [--only NAME ...] [--out FOLDER]

Times of networks relative to peers, measured as by `bench.compare`; shares of the machine's peak;
memory; start-up.  About a quarter of an hour on two cores.  FOLDER/cpu-engine.md is rewritten after
every row, so rows survive an interruption; a row that fails is reported on standard error and left
out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np

import nbmod as mx
from nbmod import bench
from nbmod.bench.networks import bound
from nbmod.bench.roofs import measured_roofs
from nbmod.bench.step_facts import step_times
from nbmod.core.config import CONFIG

from . import memory, startup
from .compare import arguments, measured, workers_of
from .environments import PEERS
from .networks import NETWORKS
from .report import Result, host, introduction
from .workloads import SUITES, Workload

RATIOS: dict[str, dict[str, float]] = {
    "resnet50 infer 16": {"mxnet": 0.45, "pytorch": 0.55, "onnxruntime": 1.0},
    "resnet50 infer 1": {"mxnet": 0.55, "pytorch": 0.6, "onnxruntime": 1.0},
    "resnet50 train 16": {"mxnet": 0.5, "pytorch": 0.85},
    "resnet18 infer 16": {"mxnet": 0.4, "pytorch": 0.6, "onnxruntime": 0.7},
    "resnet18 train 16": {"mxnet": 0.5, "pytorch": 0.9},
    "vgg16 infer 1": {"mxnet": 0.3, "pytorch": 0.45, "onnxruntime": 0.65},
    "mobilenet_v2 infer 16": {"mxnet": 0.55, "pytorch": 0.65, "onnxruntime": 1.3},
    "mobilenet_v2 train 16": {"mxnet": 0.22, "pytorch": 0.95},
    "lstm fused train 32": {"mxnet": 0.5, "pytorch": 1.0},
    "lstm unrolled train 32": {"mxnet": 0.4},
    "perceptron train 64": {"mxnet": 0.25, "pytorch": 0.4},
}
"""The largest time relative to that of a peer."""

Found = tuple[str, str, str, bool]
"""The quantity, the goal, the measured value, and whether it is reached."""


# -- one process ----------------------------------------------------------------------------------


def _resnet(batch: int, training: bool = False) -> Any:
    build, shape = NETWORKS["resnet50"]
    return bound(build(), {"data": (batch, *shape[1:])}, training)


def convolutions() -> Iterator[Found]:
    """All convolutions of ResNet-50 within the network: operations of direct convolution per time,
    without and with Winograd's algorithm."""
    peak = measured_roofs().operations["float32"]
    before = CONFIG.winograd
    try:
        for most, what, least in ((0, "convolutions of ResNet-50, computed directly", 0.85),
                                  (before, "those that Winograd's way is for", 1.8 * 0.85)):
            CONFIG.winograd = most
            rows = [row for row in step_times(_resnet(16), False, 10)
                    if row.op == "_blocked_convolution" and row.is_winograd == bool(most)]
            share = sum(row.cost.operations for row in rows) / sum(
                row.seconds for row in rows) / peak
            yield what, f"at least {least:.0%} of the FMA peak", f"{share:.0%}", share >= least
    finally:
        CONFIG.winograd = before


def product() -> Iterator[Found]:
    """A matrix product."""
    net = mx.sym.dot(mx.sym.Variable("lhs"), mx.sym.Variable("rhs"))
    executor = bound(net, {"lhs": (1024, 1024), "rhs": (1024, 1024)}, False)
    share = 2 * 1024 ** 3 / _least(executor.forward) / measured_roofs().operations["float32"]
    yield "product of 1024 x 1024 matrices", "at least 85% of the FMA peak", f"{share:.0%}", \
        share >= 0.85


def elementwise() -> Iterator[Found]:
    """A chain that reads three arrays and writes one."""
    a, b, c = map(mx.sym.Variable, "abc")
    shape = (16, 256, 56, 56)
    executor = bound(mx.sym.relu(a * b + c) * 0.5 + a, dict.fromkeys("abc", shape), False)
    share = 4 * 4 * np.prod(shape) / _least(executor.forward) / measured_roofs().nbytes["copy"]
    yield "a chain of five elementwise operators", "at least 80% of copy bandwidth", \
        f"{share:.0%}", share >= 0.8


def threads() -> Iterator[Found]:
    """ResNet-50, one thread and two, in turns."""
    if mx.get_num_threads() < 2:
        return
    _, two = bench.sweep_threads(_resnet(16).forward, counts=(1, 2), seconds=10)
    yield "ResNet-50 by two threads instead of one", "at least 1.8 times as fast", \
        f"{two.speedup.median:.2f}", two.speedup.median >= 1.8


def denormals() -> Iterator[Found]:
    """The same product with normal and with denormal values."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=512, no_bias=True, name="fc")
    executors = {}
    for name, scale in (("denormal", 1e-39), ("normal", 1.0)):
        executor = x.simple_bind(mx.cpu(), grad_req="null", data=(512, 512))
        for array in executor.arg_dict.values():
            array[:] = 1.0
        executor.arg_dict["data"][:] = scale
        executors[name] = executor.forward
    ratio = bench.side_by_side(executors)["normal"].ratio.median
    yield "a product with denormal numbers", "no slower than with others", \
        f"{ratio:.2f} times as long", ratio < 1.2


def _least(run: Callable[[], Any]) -> float:
    """The least time of a call."""
    return bench.side_by_side({"": run})[""].least


def starts() -> Iterator[Found]:
    """Seconds of fresh processes to ResNet-50's first output."""
    with tempfile.TemporaryDirectory() as cache:
        for title, most in (("with an empty cache", 40), ("from the cache", 2.5)):
            runs = 1 if most == 40 else 3
            taken = startup.process_seconds(sys.executable, startup.RESNET, runs, cache)
            yield f"first output of ResNet-50, {title}", f"within {most} s of process start", \
                f"{taken:.2f} s", taken <= most
    with tempfile.TemporaryDirectory() as cache:
        taken = startup.process_seconds(sys.executable, startup.NUMPY_FIRST, 1, cache)
        yield "first output of ResNet-50, NumPy first", "within 3 s of process start", \
            f"{taken:.2f} s", taken <= 3


# -- beside MXNet ---------------------------------------------------------------------------------


def plans() -> Iterator[Found]:
    """Planned memory of all networks: the largest part of MXNet's, and the network's name."""
    planner = memory.mxnet_worker()
    if planner is None:
        return
    found = []
    with closing(planner):
        for name in memory.CASES:
            for training in (False, True):
                ours = memory.planned_megabytes(name, training)
                theirs = memory.mxnet_megabytes(planner, name, training)
                found.append((ours / theirs, f"{name} {'train' if training else 'infer'}"))
    ratio, name = max(found)
    yield "planned memory", "not above MXNet's", f"{ratio:.2f} of it at most ({name})", ratio <= 1


def peaks(options: argparse.Namespace) -> Iterator[Found]:
    """Peak memory of fresh processes that train ResNet-50."""
    workload = workloads_by_name()["resnet50 train 16"]
    found = {}
    for name, worker in workers_of(("nbmod", "mxnet"), options.threads):
        with closing(worker):
            worker.call("entry.prepare", name, workload.network(options.threads))
            worker.call("entry.run", 3)
            found[name] = worker.call("entry.peak_megabytes")
    if len(found) == 2:
        ratio = found["nbmod"] / found["mxnet"]
        yield "peak memory of a process that trains ResNet-50", "not above MXNet's", \
            f"{found['nbmod']:.0f} MB, {ratio:.2f} of it", ratio <= 1


# -- the run --------------------------------------------------------------------------------------


def workloads_by_name() -> dict[str, Workload]:
    """All of `bench.workloads`."""
    return {one.name: one for suite in SUITES.values() for one in suite()}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.goals")
    arguments(parser)
    options = parser.parse_args(argv)
    known = workloads_by_name()
    report = Report(options)
    with ExitStack() as stack:
        workers = {name: stack.enter_context(closing(worker))
                   for name, worker in workers_of(options.peers, options.threads)}
        report.begin({name: worker.call("entry.version", name)
                      for name, worker in workers.items()})
        for name in filter(report.asks, RATIOS):
            report.add_time(lambda name=name: measured(known[name], workers, options))
    for part in (convolutions, product, elementwise, threads, denormals, plans,
                 lambda: peaks(options), starts):
        title = getattr(part, "__name__", "").replace("<lambda>", "peaks")
        if report.asks(title):
            report.add_found(title, part)


class Report:
    """The file, and the terminal."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.times: list[Result] = []
        self.found: list[Found] = []

    def begin(self, versions: dict[str, str]) -> None:
        """Facts about the machine and the peers."""
        self.about = host(self.options.threads, versions)
        self.about["clock"] = "processor time / threads" if self.options.processor else "wall"

    def asks(self, name: str) -> bool:
        return not self.options.only or any(map(name.startswith, self.options.only))

    def add_time(self, measure: Callable[[], Result]) -> None:
        """A row of the first table."""
        try:
            self.times.append(measure())
        except Exception as error:  # the other rows must not be lost
            print(f"*** {error}", file=sys.stderr)
            return
        print(_time_row(self.times[-1], list(PEERS)[1:]), flush=True)
        self.write()

    def add_found(self, title: str, measure: Callable[[], Iterator[Found]]) -> None:
        """Rows of the second one."""
        try:
            for found in measure():
                self.found.append(found)
                print(_found_row(found), flush=True)
                self.write()
        except Exception as error:
            print(f"*** {title}: {error}", file=sys.stderr)

    def write(self) -> None:
        """The whole file."""
        self.options.out.mkdir(parents=True, exist_ok=True)
        (self.options.out / "cpu-engine.md").write_text("\n".join(self._lines()) + "\n")

    def _lines(self) -> list[str]:
        peers = [name for name in PEERS if name in self.about["versions"] and name != "nbmod"]
        versions = self.about["versions"]
        head = [cell for name in peers for cell in (f"{PEERS[name]} {versions[name]}", "goal")]
        return ["# The CPU engine: goals, and what was found", "",
                "Times of a step (the last number of a workload is its batch) relative to those of "
                "the peer, which ran in turns with it: smaller is better, and what misses its goal "
                "is bold. The share is that of the FMA peak, by the operations of the direct way.",
                "", introduction("bench.goals", self.about), "",
                "| workload | nbmod ms | " + " | ".join(head) + " | share |",
                "|---|--:|" + "--:|" * (len(head) + 1),
                *[_time_row(one, peers) for one in self.times], "",
                "| what | goal | found |", "|---|---|---|", *map(_found_row, self.found)]


def _time_row(one: Result, peers: Sequence[str]) -> str:
    cells, goals = [one.name, f"{one.values.get('nbmod', float('nan')):.4g}"], RATIOS[one.name]
    for name in peers:
        ratio, goal = one.ratios.get(name), goals.get(name)
        text = "-" if ratio is None else f"{ratio:.2f}"
        missed = ratio is not None and goal is not None and ratio > goal
        cells += [f"**{text}**" if missed else text, "-" if goal is None else f"{goal:g}"]
    return "| " + " | ".join([*cells, f"{one.share[0]:.0%}" if one.share else ""]) + " |"


def _found_row(found: Found) -> str:
    what, goal, text, reached = found
    return f"| {what} | {goal} | {text if reached else f'**{text}**'} |"


if __name__ == "__main__":
    main()
