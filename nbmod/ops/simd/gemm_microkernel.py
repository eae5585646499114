"""The micro-kernels of matrix products: a few rows times a few columns, in registers.

    c[r, j] = start + scale sum over k of a[r, k] b[k, j]

start is the bias, what c holds, both, or 0; with RELU what is not above zero becomes zero (flags as
in `strip`).  A sum is formed in an order that depends on the number of k, whatever rows and columns
are computed with it.

Tiles of some `HEIGHTS` rows times VECTORS vectors of columns want numbers that lie along rows of
a, and along columns of b, side by side at every k: in place, or packed, where there are `pitch_of`
numbers of a strip of rows, and the two vectors of a panel of columns, behind those of the k before.
Per k these are two loads and one FMA per row and vector, whose other factor is read from memory and
repeated: 28 of the 32 registers of AVX-512 hold sums, so the FMA units are what limits.

`dots` wants numbers that lie along k in both, a dense layer's data and weights, and needs no copy
of either: DOT_ROWS rows times DOTS columns, each sum in the lanes of a vector, which are added up
in the end.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..jit import inlined
from .conv_strip import ADD, BIAS, RELU
from .host import lanes, registers
from .ir import Micro, Vectors

__all__ = ["ADD", "BIAS", "DOTS", "DOT_ROWS", "HEIGHTS", "RELU", "ROWS", "VECTORS", "dot_row",
           "dots", "half", "lift_columns", "lift_rows", "low", "pitch_of", "tall"]

VECTORS = 2
"""Vectors in the width of a panel."""
HEIGHTS = (14, 8, 4) if registers().number == 32 else (6, 4, 2)
"""Rows of tiles.  Sums must be eight or more side by side, as an FMA takes four cycles and two
begin in each: lower tiles than the last would be no faster."""
ROWS = HEIGHTS[0]
"""Rows of a strip."""
ARGUMENTS = ("a", "b", "scale", "bias", "c", "at", "steps")
"""
at      where to begin in a, b, scale, bias, c
steps   depth, at least 1; distance of rows in c; rows that there are; flags; from one k to the next
        in a and in b
"""


@inlined
def pitch_of(width):
    """Numbers of a strip at one k: ROWS, and what fills the last vector of `width` numbers."""
    return -(-ROWS // width) * width


def _arguments(v: Vectors) -> list[Any]:
    """Where a, b, scale, bias and c begin."""
    return [v.at(getattr(v.args, name), start)
            for name, start in zip(ARGUMENTS, v.args.at, strict=False)]


def _emit(v: Vectors, rows: int) -> None:
    a, b, scale, bias, c = _arguments(v)
    depth, distance, have, flags, pitch, width = v.args.steps

    def step(k: Any, sums: list[Any]) -> list[Any]:
        here, panel = v.at(a, v.mul(k, pitch)), v.at(b, v.mul(k, width))
        columns = [v.load(v.at(panel, o * v.width)) for o in range(VECTORS)]
        for r in range(rows):
            factor = v.one(v.at(here, r))
            for o in range(VECTORS):
                sums[r * VECTORS + o] = v.fma(factor, columns[o], sums[r * VECTORS + o])
        return sums

    last = v.add(have, -1)
    starts = [v.at(c, v.mul(v.least(r, last), distance)) for r in range(rows)]
    places = [v.at(start, o * v.width) for start in starts for o in range(VECTORS)]
    for place in places:
        v.prefetch(place, 1, write=True)
    sums = v.loop(depth, [v.zero] * (rows * VECTORS), step)

    start = v.either(v.has(flags, BIAS),
                     lambda: [v.load(v.at(bias, o * v.width)) for o in range(VECTORS)],
                     lambda: [v.zero] * VECTORS) * rows
    start = v.either(v.has(flags, ADD), lambda: [
        v.builder.fadd(v.load(place), value) for value, place in zip(start, places, strict=True)],
        lambda: start)
    factor, relu = v.one(scale), v.has(flags, RELU)
    for total, value, place in reversed(list(zip(sums, start, places, strict=True))):
        # rows that there are not are stored as the last, and then it is
        v.store(v.relu(v.fma(total, factor, value), relu), place)


def _twin(rows: int) -> Any:
    def tile(a, b, scale, bias, c, at, steps):
        ao, bo, zo, so, co = at
        depth, distance, have, flags, pitch, width = steps
        panel = VECTORS * lanes(a.dtype)
        for r in range(min(rows, have)):
            total = np.zeros(panel, a.dtype)
            for k in range(depth):
                total += a[ao + k * pitch + r] * b[bo + k * width:][:panel]
            _finish(c[co + r * distance:][:panel], total * scale[zo], bias[so:], flags)

    return tile


def _finish(target: Any, total: Any, bias: Any, flags: int) -> None:
    """One row of a twin's results."""
    total = total + (bias[:len(target)] if flags & BIAS else 0) + (target if flags & ADD else 0)
    target[:] = np.maximum(total, 0) if flags & RELU else total


def tile_of(rows: int) -> Micro:
    """The micro-kernel of so many rows."""
    return Micro(ARGUMENTS, lambda v: _emit(v, rows), _twin(rows))


def _emit_lift(v: Vectors, vectors: int) -> None:
    source, target = (v.at(getattr(v.args, name), start)
                      for name, start in zip(("source", "target"), v.args.at, strict=True))
    count, near, far, ahead = v.args.steps

    def piece(i: Any, none: list[Any]) -> list[Any]:
        here, there = v.at(source, v.mul(near, i)), v.at(target, v.mul(far, i))
        for o in range(vectors):
            v.prefetch(v.at(v.at(here, ahead), o * v.width), 1)
        for o in range(vectors):
            v.store(v.load(v.at(here, o * v.width)), v.at(there, o * v.width))
        return none

    v.loop(count, [], piece)


def _lift_twin(size: Any) -> Any:
    def lift(source, target, at, steps):
        count, near, far, _ = steps
        for i in range(count):
            numbers = size(lanes(source.dtype))
            target[at[1] + i * far:][:numbers] = source[at[0] + i * near:][:numbers]

    return lift


def lift_of(size: Any) -> Micro:
    """Pieces of size(numbers of a vector) numbers, `near` apart, are copied `far` apart.

    at     where to begin in source and target
    steps  number of pieces, at least 1; near; far; how far behind them lies what is read later
    """
    return Micro(("source", "target", "at", "steps"),
                 lambda v: _emit_lift(v, size(v.width) // v.width), _lift_twin(size))


DOT_ROWS, DOTS = (3, 8) if registers().number == 32 else (3, 4)
"""Rows and columns of which `dots` forms sums side by side."""


def _emit_dots(v: Vectors, rows: int) -> None:
    a, b, scale, bias, c = _arguments(v)
    depth, distance, have, flags, row, column, columns = v.args.steps
    last, across = v.add(have, -1), v.add(columns, -1)
    lefts = [v.at(a, v.mul(v.least(r, last), row)) for r in range(rows)]
    rights = [v.at(b, v.mul(v.least(j, across), column)) for j in range(DOTS)]
    targets = [v.at(c, v.mul(v.least(r, last), distance)) for r in range(rows)]

    def added(sums: list[Any], place: Any, *mask: Any) -> list[Any]:
        factors = [v.load(v.at(left, place), *mask) for left in lefts]
        for j, right in enumerate(rights):
            other = v.load(v.at(right, place), *mask)
            for r, factor in enumerate(factors):
                sums[r * DOTS + j] = v.fma(factor, other, sums[r * DOTS + j])
        return sums

    def step(k: Any, sums: list[Any]) -> list[Any]:
        place = v.mul(k, v.width)
        return added(sums, place)

    vectors = v.builder.sdiv(depth, v.number(v.width))
    sums = v.some(vectors, [v.zero] * (rows * DOTS), step)
    whole = v.mul(vectors, v.width)
    left_over = v.builder.sub(depth, whole)
    sums = v.either(v.builder.icmp_signed(">", left_over, v.number(0)), lambda: added(
        list(sums), whole, v.first(left_over), v.zero), lambda: sums)

    factor, relu, size = v.one(scale), v.has(flags, RELU), min(v.width, DOTS)
    totals = [_sums_of_lanes(v, sums[r * DOTS:][:DOTS]) for r in range(rows)]
    mask = None if size == v.width else v.first(size)
    places = [v.at(target, j) for target in targets for j in range(0, DOTS, size)]
    start = v.either(v.has(flags, BIAS),
                     lambda: [v.load(v.at(bias, j), mask, v.zero) for j in range(0, DOTS, size)],
                     lambda: [v.zero] * (DOTS // size)) * rows
    start = v.either(v.has(flags, ADD), lambda: [
        v.builder.fadd(v.load(place, mask, v.zero), value)
        for place, value in zip(places, start, strict=True)], lambda: start)
    found = [total for row_of in totals for total in row_of]
    for total, value, place in reversed(list(zip(found, start, places, strict=True))):
        # as in a tile, rows that there are not are stored as the last, and then it is
        v.store(v.relu(v.fma(total, factor, value), relu), place, mask)


def _sums_of_lanes(v: Vectors, vectors: list[Any]) -> list[Any]:
    """The sum of each vector's lanes: neighbours are added until one is left of each vector."""
    size, pairs = 1, [list(range(odd, 2 * v.width, 2)) for odd in (0, 1)]
    while size < v.width:
        if len(vectors) == 1:
            vectors = vectors * 2
        vectors = [v.builder.fadd(*(v.chosen(x, y, lanes_of) for lanes_of in pairs))
                   for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
        size *= 2
    return vectors


def _dots_twin(a, b, scale, bias, c, at, steps):
    ao, bo, zo, so, co = at
    depth, distance, have, flags, row, column, columns = steps
    for r in range(min(DOT_ROWS, have)):
        sums = [a[ao + r * row:][:depth] @ b[bo + min(j, columns - 1) * column:][:depth]
                for j in range(DOTS)]
        _finish(c[co + r * distance:][:DOTS], np.array(sums) * scale[zo], bias[so:], flags)


dots, dot_row = (Micro(ARGUMENTS, partial(_emit_dots, rows=rows), _dots_twin)
                 for rows in (DOT_ROWS, 1))
"""DOT_ROWS rows, or one; DOTS columns: c and the bias have all, b as many as there are.

steps   depth, at least 1; distance of rows in c; rows that there are; flags; distance of rows in a;
        of columns in b; columns that there are
"""
lift_rows, lift_columns = lift_of(pitch_of), lift_of(lambda width: VECTORS * width)
tall, half, low = map(tile_of, HEIGHTS)
