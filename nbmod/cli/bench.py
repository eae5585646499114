"""`bench`: the time of every step of a network, and its share of the host's peak (roofline)."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base import MXNetError
from .imports import add_import_option, import_modules

if TYPE_CHECKING:
    from ..execution.cost_model import StepCost
    from ..execution.steps import BoundGraph
    from ..executor import Executor
    from ..ops.simd.roofline import Roofline

__all__ = ["HELP", "add_shape_option", "arguments", "bound", "run", "step_seconds", "table"]

HELP = "time every step of a network, as shares of the host's peak"
COLUMNS = ("step", "op", "ms", "% time", "GFLOP", "GFLOP/s", "MB", "GB/s", "share", "of")
WARM = 2
"""Runs before those that count: the first compiles, the second touches all memory."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("symbol", help="the network: a -symbol.json file")
    add_shape_option(parser, required=True)
    add_import_option(parser)
    parser.add_argument("--train", action="store_true",
                        help="forward and backward, with gradients of all parameters")
    parser.add_argument("--repeats", type=int, default=10, help="runs; default: %(default)s")
    parser.add_argument("--sort", action="store_true", help="the longest steps first")
    parser.add_argument("--top", type=int, help="number of steps to show; default: all")


def add_shape_option(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """Add --shape, which may be repeated."""
    parser.add_argument("--shape", action="append", default=[], required=required,
                        type=_parse_shape, metavar="NAME=N,...",
                        help="the shape of an input, such as data=16,3,224,224; once for each")


def _parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """data=16,3,224,224 as a name and a shape."""
    name, equals, shape = text.partition("=")
    sizes = shape.split(",")
    if not (name and equals and all(size.strip().isdigit() for size in sizes)):
        raise argparse.ArgumentTypeError(f"{text!r} is not like data=16,3,224,224")
    return name, tuple(map(int, sizes))


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    from ..execution.cost_model import costs_of
    from ..ops.jit import num_threads, require_compiler
    from ..ops.simd.roofline import measure_roofline
    from ..symbol import load

    require_compiler("bench")
    if options.repeats < 1:
        raise MXNetError(f"bench: --repeats is {options.repeats}, expected at least 1")
    import_modules(options)
    executor = bound(load(options.symbol), dict(options.shape), options.train)
    times = step_seconds(executor, options.train, options.repeats)
    rows = [StepTime(node.name, node.op.name, seconds, cost) for node, seconds, cost
            in zip(executor.compiled.nodes, times, costs_of(executor.compiled), strict=False)
            if node.op]
    ceilings = measure_roofline()
    print(f"{options.symbol}: {'training' if options.train else 'inference'}, "
          f"{num_threads()} threads; peak {ceilings.operations / 1e9:.0f} GFLOP/s in registers, "
          f"{ceilings.nbytes / 1e9:.1f} GB/s copied")
    print("\n".join(table(rows, ceilings, options.sort, options.top)))
    return 0


def bound(symbol: Any, shapes: Mapping[str, tuple[int, ...]], training: bool) -> Executor:
    """`symbol` bound for a measurement: moderate values in all arrays.

    Training asks for gradients of what is neither among `shapes` nor a label.
    """
    from .. import cpu, nd

    requests = {name: "write" if training and name not in shapes and not name.endswith("_label")
                else "null" for name in symbol.list_arguments()}
    executor = symbol.simple_bind(cpu(), grad_req=requests, numpy_first=False, **shapes)
    for name, array in [*executor.arg_dict.items(), *executor.aux_dict.items()]:
        if name.endswith("_label"):
            array[:] = 0
        elif name.endswith(("_var", "_gamma")):
            array[:] = 1
        else:
            array[:] = 0.05 * nd.random.normal(shape=array.shape)
    return executor


def step_seconds(executor: Executor, training: bool, repeats: int) -> list[float]:
    """The median seconds of every step that a run takes."""
    from .. import nd

    times: list[list[float]] = [[] for _ in executor.compiled.nodes]
    heads = [nd.ones(out.shape, dtype=out.dtype) for out in executor.outputs]
    for number in range(WARM + repeats):
        with _watched([[] for _ in times] if number < WARM else times):
            executor.forward(is_train=training)
            if training:
                executor.backward(heads)
    return [statistics.median(each) for each in times if each]


@contextmanager
def _watched(times: Sequence[list[float]]) -> Iterator[None]:
    """Executors record the seconds of their steps."""
    from ..executor import Executor

    class Stopwatch:
        def before(self, bound: BoundGraph, index: int) -> float:
            return time.perf_counter()

        def after(self, bound: BoundGraph, index: int, started: float) -> None:
            times[index].append(time.perf_counter() - started)

    before, Executor.profiler = Executor.profiler, Stopwatch()
    try:
        yield
    finally:
        Executor.profiler = before


class StepTime(NamedTuple):
    """The time and cost of a step, or of all of them."""

    name: str
    op: str
    seconds: float
    cost: StepCost

    def share(self, ceilings: Roofline) -> tuple[float, str]:
        """The share of the peak that limits it, FMA throughput or copy bandwidth."""
        shares = [(amount / ceiling / max(self.seconds, 1e-9), of) for amount, ceiling, of
                  in zip(self.cost, ceilings, ("FMA", "copy"), strict=True)]
        return shares[0] if self.cost.operations else shares[1]


def table(rows: Sequence[StepTime], ceilings: Roofline, sort: bool = False, top: int | None = None
          ) -> list[str]:
    """The lines: a header, the steps, their total."""
    from ..execution.cost_model import StepCost

    shown = sorted(rows, key=lambda row: -row.seconds) if sort else list(rows)
    whole = StepTime("total", f"{len(rows)} steps", sum(row.seconds for row in rows),
                     StepCost(*(sum(row.cost[i] for row in rows) for i in (0, 1))))
    cells = [_cells(row, ceilings, whole.seconds) for row in [*shown[:top], whole]]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *cells, strict=True)]
    return ["  ".join(cell.ljust(width) if number < 2 else cell.rjust(width)
                      for number, (cell, width) in enumerate(zip(line, widths, strict=True)))
            for line in [COLUMNS, *cells]]


def _cells(row: StepTime, ceilings: Roofline, whole: float) -> list[str]:
    seconds, (operations, nbytes) = max(row.seconds, 1e-9), row.cost
    share, of = row.share(ceilings)
    speeds = [f"{operations / 1e9:.3f}", f"{operations / seconds / 1e9:.1f}"]
    return [row.name, row.op, f"{row.seconds * 1e3:.3f}", f"{100 * seconds / whole:.1f}",
            *(speeds if operations else ["", ""]), f"{nbytes / 1e6:.2f}",
            f"{nbytes / seconds / 1e9:.1f}", *([f"{share:.0%}", of] if nbytes else ["", ""])]
