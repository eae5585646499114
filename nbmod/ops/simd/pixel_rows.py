"""Copy, add, deinterleave and interleave rows of pixels, and software prefetch.

    copy_row       y[at[1] + i] = x[at[0] + i],  i < count
    add_row        y[at[1] + i] += x[at[0] + i],  i < count
    deinterleave   y[at[1] + i], y[at[2] + i] = x[at[0] + 2 i], x[at[0] + 2 i + 1],  i < count
    interleave     y[at[2] + 2 i], y[at[2] + 2 i + 1] = x[at[0] + i], x[at[1] + i],  i < count
    prefetch_line  prefetch the line of x[at] into all caches

`count` is at least the lanes of a vector to deinterleave and interleave.  Rows are often shorter
than the vectors that a compiler's loops are unrolled for, so these are masked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .host import lanes
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["MIN_COUNT", "add_row", "copy_row", "deinterleave", "interleave", "prefetch_line"]

MIN_COUNT = lanes("float32")
"""The least `count`, whatever the type."""


def _each(v: Vectors, body: Callable[[IRValue], None]) -> None:
    """`body(i)` for vectors that cover `count` elements; the last may overlap another."""
    count, width = v.args.count, v.int64(v.width)
    last = v.builder.sub(count, width)

    v.loop(v.builder.udiv(v.add(count, v.width - 1), width), [],
           lambda i, _: body(v.minimum(v.mul(i, width), last)))


def _emit_deinterleave(v: Vectors) -> None:
    x, *halves = v.starts("x", "y", "y")

    def turn(i: IRValue) -> None:
        pair = [v.load(v.at(x, v.add(v.mul(i, 2), k))) for k in (0, v.width)]
        for k, half in enumerate(halves):
            v.store(v.shuffle(pair[0], pair[1], range(k, 2 * v.width, 2)), v.at(half, i))

    _each(v, turn)


def _emit_interleave(v: Vectors) -> None:
    *halves, y = v.starts("x", "x", "y")

    def turn(i: IRValue) -> None:
        pair = [v.load(v.at(half, i)) for half in halves]
        for k in (0, v.width):
            lanes = [j // 2 + j % 2 * v.width for j in range(k, k + v.width)]
            v.store(v.shuffle(pair[0], pair[1], lanes), v.at(y, v.add(v.mul(i, 2), k)))

    _each(v, turn)


def _emit_row(v: Vectors, add: bool) -> None:
    x, y = v.starts("x", "y")
    count, width = v.args.count, v.int64(v.width)

    def turn(i: IRValue, _: list[IRValue]) -> None:
        here = v.mul(i, width)
        mask = v.lane_mask(v.builder.sub(count, here))
        value = v.load(v.at(x, here), mask, v.zero)
        if add:
            value = v.builder.fadd(v.load(v.at(y, here), mask, v.zero), value)
        v.store(value, v.at(y, here), mask)

    v.loop(v.builder.sdiv(v.add(count, v.width - 1), width), [], turn)


def _copy_row(x, y, at, count):
    y[at[1]:][:count] = x[at[0]:][:count]


def _add_row(x, y, at, count):
    y[at[1]:][:count] += x[at[0]:][:count]


def _deinterleave(x, y, at, count):
    for k in range(2):
        y[at[1 + k]:][:count] = x[at[0] + k:][:2 * count:2]


def _interleave(x, y, at, count):
    for k in range(2):
        y[at[2] + k:][:2 * count:2] = x[at[k]:][:count]


copy_row = MicroKernel(("x", "y", "at", "count"), partial(_emit_row, add=False), _copy_row)
add_row = MicroKernel(("x", "y", "at", "count"), partial(_emit_row, add=True), _add_row)
deinterleave = MicroKernel(("x", "y", "at", "count"), _emit_deinterleave, _deinterleave)
interleave = MicroKernel(("x", "y", "at", "count"), _emit_interleave, _interleave)
prefetch_line = MicroKernel(("x", "at"), lambda v: v.prefetch(v.at(v.args.x, v.args.at), 1),
                            lambda x, at: None)
