"""The micro-kernel of matrix products: a few rows times two vectors of columns, in registers.

    c[r, v] = start + scale sum over k of a[k, r] b[k, v]     r < rows, v < VECTORS

a and b are packed: at every k stand the `pitch_of` numbers of a strip of rows, and the two vectors
of a panel of columns, behind those of the k before.  Per k these are two loads and one FMA per row
and vector, whose other factor is read from memory and repeated: 28 of the 32 registers of AVX-512
hold sums, so the FMA units are what limits.

start is the bias, what c holds, both, or 0; with RELU what is not above zero becomes zero (flags as
in `strip`).  A sum is formed in the order of k, whatever rows and columns are computed with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import inlined
from .host import lanes, registers
from .ir import Micro, Vectors
from .strip import ADD, BIAS, RELU

__all__ = ["ADD", "BIAS", "DOTS", "HEIGHTS", "RELU", "ROWS", "VECTORS", "dots", "half",
           "lift_columns", "lift_rows", "low", "pitch_of", "tall"]

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
steps   depth, at least 1; distance of rows in c; rows that there are; flags
"""



@inlined
def pitch_of(width):
    """Numbers of a strip at one k: ROWS, and what fills the last vector of `width` numbers."""
    return -(-ROWS // width) * width


def _emit(v: Vectors, rows: int) -> None:
    a, b, scale, bias, c = (v.at(getattr(v.args, name), start)
                            for name, start in zip(ARGUMENTS, v.args.at, strict=False))
    depth, distance, have, flags = v.args.steps
    pitch, width = pitch_of(v.width), VECTORS * v.width

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
        depth, distance, have, flags = steps
        width = lanes(a.dtype)
        pitch, panel = pitch_of(width), VECTORS * width
        for r in range(min(rows, have)):
            total = np.zeros(panel, a.dtype)
            for k in range(depth):
                total += a[ao + k * pitch + r] * b[bo + k * panel:][:panel]
            target = c[co + r * distance:][:panel]
            total *= scale[zo]
            total += bias[so:so + panel] if flags & BIAS else 0
            total += target if flags & ADD else 0
            target[:] = np.maximum(total, 0) if flags & RELU else total

    return tile


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


DOTS = 8
"""Sums that `dots` forms side by side."""


def _emit_dots(v: Vectors) -> None:
    a, b, sums = (v.at(getattr(v.args, name), start)
                  for name, start in zip(("a", "b", "sums"), v.args.at, strict=True))
    vectors, distance, have = v.args.steps
    last = v.add(have, -1)
    rows = [v.at(b, v.mul(v.least(j, last), distance)) for j in range(DOTS)]

    def step(k: Any, totals: list[Any]) -> list[Any]:
        place = v.mul(k, v.width)
        factor = v.load(v.at(a, place))
        return [v.fma(factor, v.load(v.at(row, place)), total)
                for row, total in zip(rows, totals, strict=True)]

    _store_sums(v, v.loop(vectors, [v.zero] * DOTS, step), sums)


def _store_sums(v: Vectors, vectors: list[Any], target: Any) -> None:
    """The sum of each vector's lanes: neighbours are added until one is left of each vector."""
    size, pairs = 1, [list(range(odd, 2 * v.width, 2)) for odd in (0, 1)]
    while size < v.width:
        if len(vectors) == 1:
            vectors = vectors * 2
        vectors = [v.builder.fadd(*(v.chosen(x, y, lanes_of) for lanes_of in pairs))
                   for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
        size *= 2
    for i, vector in enumerate(vectors):
        v.store(vector, v.at(target, i * v.width))


def _dots_twin(a, b, sums, at, steps):
    vectors, distance, have = steps
    numbers = vectors * lanes(a.dtype)
    for j in range(have):
        sums[at[2] + j] = a[at[0]:][:numbers] @ b[at[1] + j * distance:][:numbers]


dots = Micro(("a", "b", "sums", "at", "steps"), _emit_dots, _dots_twin)
"""sums[j] = sum over k of a[k] b[j, k], for numbers that lie along and are read in place.

at     where to begin in a, b, sums, which has room for more: DOTS, or a vector
steps  depth in vectors, at least 1; distance of rows in b; rows that there are, up to DOTS
"""
lift_rows, lift_columns = lift_of(pitch_of), lift_of(lambda width: VECTORS * width)
tall, half, low = map(tile_of, HEIGHTS)
