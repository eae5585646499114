"""Compare what the two compilers make of every GPU kernel: `python -m tests.cuda.compilers`.

    python -m tests.cuda.compilers [--everywhere | --quick] [--out FILE]

Each compiler runs `tests.cuda.compile` in its environment of `tests.cuda.setup`; no GPU is needed.
Of all binaries the registers, shared memory, spills and instructions are compared, and those of the
loop with the most multiply-adds.  FILE gets a table in Markdown, which names what gets worse; the
committed one is `bench/results/gpu-compilers.md`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.cuda import setup

__all__ = ["Pair", "compiled", "main", "pairs", "report", "worse"]

COMPILERS = ("numba-cuda", "mlir")
"""Before, and after."""
REGISTERS = 65536
"""Of a multiprocessor."""
SLACK = 1.15
"""Instructions that a loop may take more before they count as worse: unrolling moves some from one
iteration to another."""
HOT = ("gemm.multiply", "gemm_tensor_cores.multiply", "depthwise", "pooling", "softmax",
       "group_stats", "block_reduce.sums", "rnn")
"""Beginnings of what a step of training spends its time in, below `nbmod.ops.cuda`."""

Figures = dict[str, Any]


class Pair(NamedTuple):
    """A kernel compiled by both."""

    name: str
    before: Figures
    after: Figures

    @property
    def capability(self) -> str:
        return self.name.rsplit(" ", 1)[1]


def compiled(compiler: str, options: Sequence[str]
             ) -> tuple[dict[str, Any], list[tuple[str, Figures]]]:
    """The summary of `tests.cuda.compile` by a compiler, and the figures of every binary."""
    python = str(setup.find_python(compiler))
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_ENABLE_CUDASIM"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.json")
        done = subprocess.run(
            [python, "-m", "tests.cuda.compile", "--figures", file, *options],
            env={**env, "NBMOD_CUDA_COMPILER": compiler}, stdout=subprocess.PIPE, text=True,
            check=True)
        return json.loads(done.stdout.splitlines()[-1]), json.loads(file.read_text())


def pairs(before: Sequence[tuple[str, Figures]], after: Sequence[tuple[str, Figures]]
          ) -> list[Pair]:
    """Binaries of the same name, in order, as closures of a name may be several kernels."""
    waiting: dict[str, list[Figures]] = {}
    for name, figures in before:
        waiting.setdefault(name, []).append(figures)
    return [Pair(name, waiting[name].pop(0), figures) for name, figures in after
            if waiting.get(name)]


def worse(pair: Pair) -> list[str]:
    """What the kernel takes more of, in words."""
    was, now = pair.before, pair.after
    found = [f"{what} {was[key]} to {now[key]} bytes" for what, key in (
        ("spills", "spilled"), ("local memory", "stack"), ("shared memory", "shared"))
        if now[key] > was[key]]
    if _blocks(now) < min(_blocks(was), 2048 // was["threads"]):
        found.append(f"registers {was['registers']} to {now['registers']}, blocks at once "
                     f"{_blocks(was)} to {_blocks(now)}")
    if was["loop_math"] and now["loop_math"]:
        if _per_math(now) > SLACK * _per_math(was):
            found.append(f"instructions of the loop per multiply-add {_per_math(was):.1f} to "
                         f"{_per_math(now):.1f}")
    elif now["total"] > 1.5 * was["total"]:
        found.append(f"instructions {was['total']} to {now['total']}")
    return found


def _blocks(figures: Figures) -> int:
    """Blocks for which a multiprocessor has registers, which it gives by eights."""
    return REGISTERS // (ceil(figures["registers"] / 8) * 8 * figures["threads"])


def _per_math(figures: Figures) -> float:
    return figures["loop"] / figures["loop_math"]


def report(found: Sequence[Pair], versions: Sequence[str]) -> Iterator[str]:
    """The page, line by line."""
    yield "# GPU kernels by two compilers"
    yield ""
    yield (f"Made by `python -m tests.cuda.compilers` on {datetime.date.today()}, without a GPU: "
           f"{len(found)} binaries by {versions[0]} and by {versions[1]}.")
    yield ""
    yield "Medians, over all kernels, of the second compiler's figures over the first's; sums of"
    yield "bytes; and how many binaries get worse, which are listed below."
    yield ""
    yield "| capability | binaries | registers | instructions | spills, B | shared, B | worse |"
    yield "|---|---|---|---|---|---|---|"
    for capability in sorted({pair.capability for pair in found}, key=lambda name: int(name[3:])):
        yield _summary(capability, [pair for pair in found if pair.capability == capability])
    yield ""
    yield "## Hot kernels"
    yield ""
    yield "Registers, bytes of shared memory, instructions in the loop with most multiply-adds,"
    yield "and those, without packed pairs of sm_100; first compiler, second compiler."
    yield ""
    yield "| kernel | registers | shared | loop | multiply-adds |"
    yield "|---|---|---|---|---|"
    hot = [pair for pair in found if any(part in pair.name for part in HOT)]
    yield from dict.fromkeys(map(_row, hot))
    yield ""
    yield "## What gets worse"
    yield ""
    losers = [(pair, reasons) for pair in found if (reasons := worse(pair))]
    yield from dict.fromkeys(f"- {_short(pair)}: {', '.join(reasons)}" for pair, reasons in losers)
    if not losers:
        yield "Nothing."


def _summary(capability: str, some: Sequence[Pair]) -> str:
    def ratio(key: str) -> str:
        return f"{median(pair.after[key] / max(pair.before[key], 1e-9) for pair in some):.2f}"

    def total(key: str) -> str:
        return " to ".join(f"{sum(figures[key] for figures in side):,}" for side in (
            [pair.before for pair in some], [pair.after for pair in some]))

    lost = sum(bool(worse(pair)) for pair in some)
    return (f"| {capability} | {len(some)} | {ratio('registers')} | {ratio('total')} "
            f"| {total('spilled')} | {total('shared')} | {lost} |")


def _row(pair: Pair) -> str:
    cells = [f"{pair.before[key]}, {pair.after[key]}"
             for key in ("registers", "shared", "loop", "loop_math")]
    return f"| {_short(pair)} | {' | '.join(cells)} |"


def _short(pair: Pair) -> str:
    """The name, with each type of an argument once."""
    name, kinds, capability = pair.name.replace("(", " (").rsplit("(", 1)[0], "", pair.capability
    arguments = pair.name[pair.name.index("(") + 1:pair.name.rindex(")")].replace("'", "")
    kinds = ", ".join(dict.fromkeys(kind for kind in arguments.split(", ") if kind.startswith("*")))
    return f"`{name.strip().removeprefix('nbmod.ops.cuda.')}` {kinds} {capability}".replace(
        "*", r"\*")


def main(argv: Sequence[str] | None = None) -> int:
    """Compile by both, write the page; 1 if a kernel was not compiled."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.compilers")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--everywhere", action="append_const", dest="which", const="--everywhere",
                       default=[],
                       help="every kernel for every compute capability, not one in turn")
    which.add_argument("--quick", action="append_const", dest="which", const="--quick",
                       help="one of those kernels that differ in numbers only")
    parser.add_argument("--out", type=Path, help="file of the page; default: standard output")
    options = parser.parse_args(argv)
    missing = [compiler for compiler in COMPILERS if setup.find_python(compiler) is None]
    if missing:
        print(f"NO KERNEL WAS COMPARED: python -m tests.cuda.setup installs {', '.join(missing)}")
        return int(os.environ.get("NBMOD_REQUIRE_CUDA") == "1")
    both = [compiled(compiler, options.which) for compiler in COMPILERS]
    found = pairs(both[0][1], both[1][1])
    text = "\n".join(report(found, [summary["compiler"] for summary, _ in both])) + "\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text)
    failed = {name: wrong for summary, _ in both for name, wrong in summary["failed"].items()}
    for name, wrong in failed.items():
        print(f"FAILED {name}: {wrong}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
