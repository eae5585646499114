"""`bench`: the time of every step of a network, and its share of the host's peak (roofline).

With --baseline, it is the time of the whole network beside that of another commit; with --compare
and --history, times that were measured before.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import MXNetError
from ..core.reprs import aligned
from .options import add_network_options, import_modules, symbol_file

if TYPE_CHECKING:
    from ..bench.roofs import Roofs
    from ..bench.step_facts import StepTime

__all__ = ["HELP", "arguments", "run", "table"]

HELP = "time every step of a network, as shares of the host's peak"
COLUMNS = ("step", "op", "ms", "noise", "% time", "GFLOP", "GFLOP/s", "MB", "GB/s", "share", "of")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("symbol", nargs="?", type=symbol_file,
                        help="the network: a -symbol.json file, or the prefix of a checkpoint")
    add_network_options(parser)
    parser.add_argument("--train", action="store_true",
                        help="forward and backward, with gradients of all parameters")
    parser.add_argument("--repeats", type=int, default=10,
                        help="rounds, of two runs each; default: %(default)s")
    parser.add_argument("--sort", action="store_true", help="the longest steps first")
    parser.add_argument("--top", type=int, help="number of steps to show; default: all")
    parser.add_argument("--json", metavar="FILE", help="write the steps to a file, too")
    parser.add_argument("--svg", metavar="FILE",
                        help="draw the steps under the roofs of the host, or what is compared")
    parser.add_argument("--baseline", metavar="REVISION",
                        help="compare the whole network with itself at this git revision of the "
                        "working folder, in a process of its own")
    parser.add_argument("--seconds", type=float, default=20.0,
                        help="the longest time of a comparison; default: %(default)s")
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"),
                        help="compare two files of --json instead, or those of pytest-benchmark")
    parser.add_argument("--history", metavar="FILE",
                        help="add the results to a file of JSON lines; without a network, print "
                        "the steps in such a file: when times changed, and how much")


def run(options: argparse.Namespace) -> int:
    """Print a table."""
    if options.compare:
        _compare_files(options)
    elif options.history and options.symbol is None:
        from ..bench.change_points import history_table, read

        print("\n".join(history_table(read(options.history))))
    elif options.symbol is None or not options.shape:
        raise MXNetError("bench: give a network and the shapes of its inputs (--shape "
                         "data=1,3,224,224), or --compare and two files, or --history and a file")
    else:
        from ..bench.remote import is_serving
        from ..ops.jit import require_compiler

        require_compiler("bench")
        import_modules(options)
        if options.baseline or is_serving():
            _compare_revisions(options)
        else:
            _time_steps(options)
    return 0


def _time_steps(options: argparse.Namespace) -> None:
    from ..bench.networks import bound
    from ..bench.roofline_chart import roofline
    from ..bench.roofs import measured_roofs
    from ..bench.step_facts import step_times
    from ..ops.jit import num_threads
    from ..symbol import load

    if options.repeats < 1:
        raise MXNetError(f"bench: --repeats is {options.repeats}, expected at least 1")
    executor = bound(load(options.symbol), dict(options.shape), options.train)
    rows = step_times(executor, options.train, options.repeats)
    print("nbmod: bench: measuring the peaks of this machine, which takes some seconds ...",
          file=sys.stderr, flush=True)
    roofs = measured_roofs()
    head = (f"{options.symbol}: {'training' if options.train else 'inference'}, "
            f"{num_threads()} threads")
    print(f"{head}; peak {roofs.operations['float32'] / 1e9:.0f} GFLOP/s in "
          f"registers, {roofs.nbytes['memory'] / 1e9:.1f} GB/s from memory")
    print("\n".join(table(rows, roofs, options.sort, options.top)))
    saved = [row.as_json(roofs) for row in rows]
    _write(options, saved, lambda: roofline(saved, roofs, head))


def _compare_revisions(options: argparse.Namespace) -> None:
    """Time the network beside that of another commit, or serve it to a process that does so."""
    from ..bench.measure import measure
    from ..bench.networks import symbol
    from ..bench.remote import is_serving, serve, served_by, worktree
    from ..bench.report import table
    from ..bench.subjects import CallableArm, InputSets
    from ..symbol import load

    work = symbol(load(options.symbol), options.train, title=Path(options.symbol).stem,
                  **dict(options.shape))
    if is_serving():
        arm = CallableArm(work.name, work, InputSets())
        arm.first_call()
        serve(arm)
        return
    with worktree(options.baseline, Path.cwd()) as folder:
        paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        with served_by(options.baseline, _command(options), folder,
                       {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}) as other:
            result = measure(work, baseline=other, seconds=options.seconds)
    print("\n".join(table([result.as_json()])))
    _write(options, [result.as_json()], result.svg)


def _command(options: argparse.Namespace) -> list[str]:
    """The command of a process that serves the network."""
    shapes = [f"--shape={name}={','.join(map(str, shape))}" for name, shape in options.shape]
    return [sys.executable, "-m", "nbmod", "bench", str(Path(options.symbol).absolute()), *shapes,
            *(f"--import={name}" for name in options.modules),
            *(["--train"] if options.train else [])]


def _write(options: argparse.Namespace, rows: Sequence[Mapping[str, Any]],
           draw: Callable[[], str]) -> None:
    """Write results to the files of the options."""
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    if options.svg:
        Path(options.svg).write_text(draw(), encoding="utf-8")
    if options.history:
        from ..bench.change_points import append
        from ..bench.remote import commit_of

        append(options.history, rows, date=datetime.date.today().isoformat(),
               commit=commit_of(Path.cwd()))


def _compare_files(options: argparse.Namespace) -> None:
    from ..bench import change_points
    from ..bench.charts import Bar, comparison

    rows = change_points.compare_files(*options.compare)
    print("\n".join(change_points.table(rows)))
    if options.svg:
        before, after = (Path(name).name for name in options.compare)
        Path(options.svg).write_text(comparison(f"{before} and {after}", [
            (row.name, [Bar(before, 1.0, None, "1", "before"),
                        Bar(after, row.ratio, None, f"{row.ratio:.3f} {row.verdict}", "after")])
            for row in rows], f"time relative to {before} (shorter is faster)"), encoding="utf-8")


def table(rows: Sequence[StepTime], roofs: Roofs, sort: bool = False, top: int | None = None
          ) -> list[str]:
    """The lines: a header, the steps, their total."""
    from ..bench.step_facts import StepTime
    from ..execution.cost_model import StepCost

    notes = [f"{row.name} is above its roof: {_reason(row)}" for row in rows
             if (share := row.share(roofs)) and not share.is_plausible]
    shown = sorted(rows, key=lambda row: -row.seconds) if sort else list(rows)
    whole = StepTime("total", f"{len(rows)} steps", sum(row.seconds for row in rows),
                     StepCost(*(sum(row.cost[i] for row in rows) for i in (0, 1))))
    cells = [_cells(row, roofs, whole.seconds) for row in [*shown[:top], whole]]
    return aligned([COLUMNS, *cells], range(2)) + notes


def _reason(row: StepTime) -> str:
    """Why the time of a step is less than the least for what is counted."""
    if row.is_winograd:
        return "Winograd's algorithm takes fewer operations than the definition, which is counted"
    return ("its inputs were in an inner level of cache, or it skips a part of its work, such as "
            "outputs that nothing reads")


def _cells(row: StepTime, roofs: Roofs, whole: float) -> list[str]:
    from ..bench.report import percent

    seconds, (operations, nbytes) = max(row.seconds, 1e-9), row.cost
    share = row.share(roofs)
    speeds = [f"{operations / 1e9:.3f}", f"{operations / seconds / 1e9:.1f}"]
    return [row.name, row.op, f"{row.seconds * 1e3:.3f}", percent(row.noise, 1),
            f"{100 * seconds / whole:.1f}",
            *(speeds if operations else ["", ""]), f"{nbytes / 1e6:.2f}",
            f"{nbytes / seconds / 1e9:.1f}",
            *([f"{share.value:.0%}", share.roof.split()[0]] if share else ["", ""])]
