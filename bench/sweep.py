"""Random convolutions, poolings and products, compared with MXNet: finds shapes where nbmod is
slow.

    python -m bench.sweep [--count N] [--seed N] [--only conv|pool|product] [--case N ...]
                          [--rounds N] [--worst N] [--threads N] [--processor] [--out FILE]

Every case (`bench.shapes`) has a forward run and the gradient of each input timed through bound
executors of their own, in nbmod and in MXNet in turns.  The ratio of their medians is nbmod's time
over MXNet's, or over FLOOR where MXNet takes less: a call of either has an overhead of tens of
microseconds, which dominates small shapes.  Threads of MXNet spin for a while after work, so there
is a pause between turns, and a case takes some three seconds.  `--case` times the cases with these
numbers again; anchors, shapes of common networks, have negative numbers.  On a machine with other
load, `--threads 1 --processor` compares the processor time of one thread each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import NamedTuple

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.bench import Pace, side_by_side
from nbmod.bench.foreign.worker_process import WorkerCrash, WorkerError, WorkerProcess

from .mxnet_environment import find_python
from .shapes import ANCHORS, KINDS, Case, case
from .virtual_environment import ROOT

FLOOR = 100e-6
"""The least time that MXNet is credited with, in seconds."""
PACE = Pace(block=0.03, settle=0.05)
"""With several threads."""
LIMIT = 3.0
"""The ratio that no case should exceed."""


class Row(NamedTuple):
    """Median seconds of one direction of a case."""

    number: int
    family: str
    direction: str
    ours: float
    theirs: float
    key: str

    @property
    def ratio(self) -> float:
        return self.ours / max(self.theirs, FLOOR)


def main(argv: Sequence[str] | None = None) -> None:
    options = _options(argv)
    os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")
    python = find_python()
    if python is None:
        sys.exit("bench.sweep: real MXNet is absent; `python -m tests.oracle.setup` installs it")
    rows: list[Row] = []
    with closing(_worker(Path(sys.executable), options.threads)) as ours, \
            closing(_worker(python, options.threads)) as theirs:
        try:
            for number, one in _chosen(options):
                rows += _measured(number, one, {"nbmod": ours, "mxnet": theirs}, options)
        finally:
            print("\n".join([*summary(rows), "", *worst(rows, options.worst)]), flush=True)
            if options.out:
                options.out.write_text(json.dumps([row._asdict() for row in rows], indent=0))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.sweep")
    parser.add_argument("--count", type=int, default=2000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", choices=list(KINDS), default="")
    parser.add_argument("--case", type=int, nargs="+", default=[], help="numbers of cases")
    parser.add_argument("--rounds", type=int, default=1,
                        help="of two blocks of each; default: %(default)s")
    parser.add_argument("--worst", type=int, default=20, help="rows to print; default: %(default)s")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--processor", action="store_true", help="processor time of all threads")
    parser.add_argument("--out", type=Path, help="all figures, as JSON")
    return parser.parse_args(argv)


def _worker(python: Path, threads: int) -> WorkerProcess:
    return WorkerProcess(python, ROOT, "bench.frameworks", timeout=300, threads=threads)


def _chosen(options: argparse.Namespace) -> Iterator[tuple[int, Case]]:
    """Anchors, then random cases; or those that the command line selects."""
    anchors = [] if options.first else range(-len(ANCHORS), 0)
    for number in options.case or [*anchors, *range(options.first, options.first + options.count)]:
        one = ANCHORS[-number - 1] if number < 0 else case(options.seed, number, options.only)
        if number >= 0 or options.case or one.family in KINDS.get(options.only, [one.family]):
            yield number, one


def _measured(number: int, one: Case, workers: dict[str, WorkerProcess],
              options: argparse.Namespace) -> list[Row]:
    """A row for every direction; none, and a message, if either package cannot run the case."""
    rows: list[Row] = []
    try:
        for name, worker in workers.items():
            worker.call("directions.prepare", name, one.symbol(mx).tojson(), one.shapes,
                        list(one.wanted))
        for place, direction in enumerate(("forward", *one.wanted)):
            arms = {name: worker.arm("directions.direction", place, name=name,
                                     processor=options.processor)
                    for name, worker in workers.items()}
            ours, theirs = side_by_side(
                arms, rounds=options.rounds, seconds=inf,
                pace=PACE if options.threads > 1 else replace(PACE, settle=0.0)).values()
            rows.append(Row(number, one.family, direction, ours.seconds, theirs.seconds, one.key))
            for arm in arms.values():
                arm.forget()
    except (WorkerError, WorkerCrash, MXNetError) as error:
        print(f"*** {number} {one.key} is left out: {str(error)[:300]}", file=sys.stderr)
        return []
    for row in rows:
        if row.ratio > LIMIT or options.case:
            print(line(row), flush=True)
    return rows


def line(row: Row) -> str:
    """A row of the table of highest ratios."""
    return (f"{row.number:6} {row.direction:8} {row.ratio:7.2f} {row.ours * 1e3:9.3f} "
            f"{row.theirs * 1e3:9.3f}  {row.key}")


def worst(rows: Sequence[Row], count: int) -> list[str]:
    """The rows of highest ratio."""
    head = f"{'case':>6} {'':8} {'ratio':>7} {'nbmod ms':>9} {'MXNet ms':>9}  operator"
    return [head, *map(line, sorted(rows, key=lambda row: -row.ratio)[:count])]


def summary(rows: Sequence[Row]) -> list[str]:
    """Quantiles of ratios by family and direction."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        groups[row.family, row.direction].append(row.ratio)
        groups["all", ""].append(row.ratio)
    lines = [f"ratio: nbmod / max(MXNet, {FLOOR * 1e6:.0f} us)",
             f"{'family':12} {'':8} {'runs':>5} {'median':>7} {'90 %':>7} {'99 %':>7} {'most':>7} "
             f"{f'> {LIMIT:g}':>5}"]
    for (family, direction), ratios in sorted(groups.items()):
        ratios.sort()
        cells = (ratios[min(len(ratios) - 1, int(share * len(ratios)))]
                 for share in (0.5, 0.9, 0.99, 1))
        lines.append(f"{family:12} {direction:8} {len(ratios):5} "
                     + " ".join(f"{cell:7.2f}" for cell in cells)
                     + f" {sum(ratio > LIMIT for ratio in ratios):5}")
    return lines


if __name__ == "__main__":
    main()
