"""Writes docs/architecture.svg: the rooms of nbmod in the order in which data pass.

    python docs/generate_architecture.py            write the picture
    python docs/generate_architecture.py --check    say whether it is out of date

Rooms stand on a grid of three columns.  Below most of them an arrow leads to the next room of the
column, with the data that pass; a room may be joined to the one on its left.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] * (str(ROOT) not in sys.path)

from nbmod.diagram.picture import Box, Line, Picture, Text, svg  # noqa: E402

FILE = ROOT / "docs" / "architecture.svg"


class Room(NamedTuple):
    """A place in the picture: its files, what they do, and what goes on to the room below."""

    column: int
    row: int
    files: str
    does: str
    passes_on: str = ""
    joins: str = ""
    """To or from the room on its left: a triangle."""


class Frame(NamedTuple):
    """A title around rooms of a column, from a row to another."""

    column: int
    first: int
    last: int
    title: str
    kind: str
    """The colour of its rooms."""


FRAMES = (
    Frame(0, 0, 7, "once: bind", "product"),
    Frame(0, 8, 9, "under everything", "norm"),
    Frame(1, 0, 1, "makes symbols", "variable"),
    Frame(1, 2, 3, "runs at once", "variable"),
    Frame(1, 4, 9, "every batch: run", "pool"),
    Frame(2, 0, 1, "looks at plans", "norm"),
    Frame(2, 2, 3, "starts programs", "norm"),
    Frame(2, 4, 5, "beside the loop", "variable"),
    Frame(2, 7, 9, "what a step calls", "layout"),
)

ROOMS = (
    Room(0, 0, "symbol/", "operators compose a network", "Graph: nodes and entries"),
    Room(0, 1, "passes/infer.py", "shapes and types follow", "Inferred: a Spec for each entry"),
    Room(0, 2, "passes/optimize/", "folds, fuses, chooses layouts", "Rewritten"),
    Room(0, 3, "passes/gradient.py", "the gradient is more graph", "JointGraph"),
    Room(0, 4, "passes/place.py", "devices, and copies between them", "PlacedGraph"),
    Room(0, 5, "ops/dispatch.py", "an implementation for each node", "PlanStep: integers"),
    Room(0, 6, "passes/memory/", "which bytes each result has", "CompiledGraph, its MemoryPlan"),
    Room(0, 7, "execution/", "arrays in arenas, a function a node"),
    Room(0, 8, "graph.py  context.py  base.py", "plain data, devices, errors"),
    Room(0, 9, "core/", "settings, files, locks, signals"),
    Room(1, 0, "gluon/  rnn/  onnx/  convert/", "layers, cells and files as symbols", joins="◂"),
    Room(1, 1, "checkpoint.py  safetensors/", "networks and parameters in files"),
    Room(1, 2, "ndarray/", "arrays, operations on them", "Recorded nodes: the tape"),
    Room(1, 3, "autograd.py", "the same gradient pass", joins="◂"),
    Room(1, 4, "io/", "iterators", "DataBatch: arrays"),
    Room(1, 5, "module/", "fit: the training loop", "a slice for each device"),
    Room(1, 6, "executor.py", "loads arguments, runs, returns", "forward, backward"),
    Room(1, 7, "execution/steps.py", "the loop over prepared steps", "gradients", joins="▸"),
    Room(1, 8, "kvstore/", "sums over devices and machines", "gradients"),
    Room(1, 9, "optimizer/", "all weights step by one call"),
    Room(2, 0, "explain/  diagram/  profiler/", "why, what it looks like, how long"),
    Room(2, 1, "bench/  test_utils/", "times and checks for users"),
    Room(2, 2, "cli/  launcher/  startup/", "nbmod run, launch, doctor ..."),
    Room(2, 3, "compat/  contrib/  serving.py", "import mxnet; AMP, int8; servers"),
    Room(2, 4, "recordio/  image/  imgproc/", "files, images, augmentation", joins="◂"),
    Room(2, 5, "metric/  callback/  initializer/", "what fit reports; first weights", joins="◂"),
    Room(2, 7, "ops/  operator/", "an op: rules and arithmetic", "arrays, sizes, formulas", "▸"),
    Room(2, 8, "ops/elementwise/  nn/  linalg/ ...", "kernels: written, or by hand",
         "Python source, LLVM IR"),
    Room(2, 9, "ops/jit.py  build/  simd/  cuda/", "numba, compile cache, machine code"),
)

WIDTH, HEIGHT, PITCH, APART, TOP = 278.0, 42.0, 82.0, 312.0, 40.0
"""Of a room; from row to row; from column to column; above the first row."""


def corner(column: int, row: int) -> tuple[float, float]:
    """The upper left corner of a place."""
    return 22 + APART * column, TOP + PITCH * row


def framed(frame: Frame) -> tuple[Box, Text]:
    """The frame around its rooms, and the title."""
    (x, y), (_, end) = corner(frame.column, frame.first), corner(frame.column, frame.last)
    return (Box(x - 10, y - 26, WIDTH + 20, end + HEIGHT - y + 34, "frame", [frame.title]),
            Text(x, y - 9, frame.title, "head"))


def picture() -> Picture:
    """All frames and rooms."""
    drawn = Picture(2 * APART + WIDTH + 44, corner(0, 9)[1] + HEIGHT + 22, [], [], [])
    for frame in FRAMES:
        box, title = framed(frame)
        drawn.boxes.append(box)
        drawn.texts.append(title)
    for room in ROOMS:
        frame, = (each for each in FRAMES if each.column == room.column
                  and each.first <= room.row <= each.last)
        x, y = corner(room.column, room.row)
        drawn.boxes.append(Box(x, y, WIDTH, HEIGHT, frame.kind, [room.files, room.does]))
        drawn.texts.extend([Text(x + 10, y + 17, room.files, "name"),
                            Text(x + 10, y + 33, room.does, "detail")])
        if room.passes_on:
            drawn.lines.append(Line([(x + 20, y + HEIGHT), (x + 20, y + PITCH)]))
            drawn.texts.append(Text(x + 32, y + HEIGHT + 23, room.passes_on, "shape"))
        if room.joins:
            drawn.lines.append(Line([(x - APART + WIDTH, y + 21), (x, y + 21)], arrow=False))
            at = x - 9 if room.joins == "▸" else x - APART + WIDTH + 1
            drawn.texts.append(Text(at, y + 25, room.joins, "head"))
    return drawn


def text() -> str:
    """The picture as SVG."""
    return svg(picture(), "The rooms of nbmod, in the order in which data pass")


def main() -> None:
    """Write the picture, or with --check compare it."""
    if "--check" in sys.argv[1:]:
        if FILE.read_text(encoding="utf-8") != text():
            sys.exit(f"{FILE} is out of date: python docs/generate_architecture.py")
    else:
        FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
