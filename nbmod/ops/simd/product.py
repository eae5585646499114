"""The micro-kernel of matrix products: a few rows times two vectors of columns, in registers.

    c[r, v] = start + scale sum over k of a[k, r] b[k, v]     r < rows, v < vectors of columns

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

from .host import lanes, registers
from .ir import Micro, Vectors
from .strip import ADD, BIAS, RELU

__all__ = ["ADD", "BIAS", "HEIGHTS", "RELU", "ROWS", "VECTORS", "half1", "half2",
           "lift_columns", "lift_rows", "low1", "low2", "pitch_of", "tall1", "tall2"]

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


def pitch_of(width: int) -> int:
    """Numbers of a strip at one k: ROWS, and what fills the last vector of `width` numbers."""
    return -(-ROWS // width) * width


def _emit(v: Vectors, rows: int, vectors: int) -> None:
    a, b, scale, bias, c = (v.at(getattr(v.args, name), start)
                            for name, start in zip(ARGUMENTS, v.args.at, strict=False))
    depth, distance, have, flags = v.args.steps
    pitch, width = pitch_of(v.width), VECTORS * v.width

    def step(k: Any, sums: list[Any]) -> list[Any]:
        here, panel = v.at(a, v.mul(k, pitch)), v.at(b, v.mul(k, width))
        columns = [v.load(v.at(panel, o * v.width)) for o in range(vectors)]
        for r in range(rows):
            factor = v.one(v.at(here, r))
            for o in range(vectors):
                sums[r * vectors + o] = v.fma(factor, columns[o], sums[r * vectors + o])
        return sums

    sums = v.loop(depth, [v.zero] * (rows * vectors), step)
    last = v.add(have, -1)
    starts = [v.at(c, v.mul(v.least(r, last), distance)) for r in range(rows)]
    places = [v.at(start, o * v.width) for start in starts for o in range(vectors)]

    def flag(bit: int) -> Any:
        return v.builder.icmp_signed("!=", v.builder.and_(flags, v.number(bit)), v.number(0))

    start = v.either(flag(BIAS), lambda: [v.load(v.at(bias, o * v.width)) for o in range(vectors)],
                     lambda: [v.zero] * vectors) * rows
    start = v.either(flag(ADD), lambda: [
        v.builder.fadd(v.load(place), value) for value, place in zip(start, places, strict=True)],
        lambda: start)
    factor, relu = v.one(scale), flag(RELU)
    for total, value, place in reversed(list(zip(sums, start, places, strict=True))):
        # rows that there are not are stored as the last, and then it is
        v.store(v.relu(v.fma(total, factor, value), relu), place)


def _twin(rows: int, vectors: int) -> Any:
    def tile(a, b, scale, bias, c, at, steps):
        ao, bo, zo, so, co = at
        depth, distance, have, flags = steps
        width = lanes(a.dtype)
        pitch, panel, columns = pitch_of(width), VECTORS * width, vectors * width
        for r in range(min(rows, have)):
            total = np.zeros(columns, a.dtype)
            for k in range(depth):
                total += a[ao + k * pitch + r] * b[bo + k * panel:][:columns]
            target = c[co + r * distance:][:columns]
            total *= scale[zo]
            total += bias[so:so + columns] if flags & BIAS else 0
            total += target if flags & ADD else 0
            target[:] = np.maximum(total, 0) if flags & RELU else total

    return tile


def tile_of(rows: int, vectors: int) -> Micro:
    """The micro-kernel of so many rows, and so many vectors of a panel."""
    return Micro(ARGUMENTS, lambda v: _emit(v, rows, vectors), _twin(rows, vectors))


def _emit_lift(v: Vectors, vectors: int) -> None:
    source, target = (v.at(getattr(v.args, name), start)
                      for name, start in zip(("source", "target"), v.args.at, strict=True))
    count, near, far = v.args.steps

    def piece(i: Any, none: list[Any]) -> list[Any]:
        here, there = v.at(source, v.mul(near, i)), v.at(target, v.mul(far, i))
        for o in range(vectors):
            v.store(v.load(v.at(here, o * v.width)), v.at(there, o * v.width))
        return none

    v.loop(count, [], piece)


def _lift_twin(size: Any) -> Any:
    def lift(source, target, at, steps):
        count, near, far = steps
        for i in range(count):
            numbers = size(lanes(source.dtype))
            target[at[1] + i * far:][:numbers] = source[at[0] + i * near:][:numbers]

    return lift


def lift_of(size: Any) -> Micro:
    """Pieces of size(numbers of a vector) numbers, `near` apart, are copied `far` apart.

    at     where to begin in source and target
    steps  number of pieces, at least 1; near; far
    """
    return Micro(("source", "target", "at", "steps"),
                 lambda v: _emit_lift(v, size(v.width) // v.width), _lift_twin(size))


lift_rows, lift_columns = lift_of(pitch_of), lift_of(lambda width: VECTORS * width)
tall2, tall1 = tile_of(HEIGHTS[0], 2), tile_of(HEIGHTS[0], 1)
half2, half1 = tile_of(HEIGHTS[1], 2), tile_of(HEIGHTS[1], 1)
low2, low1 = tile_of(HEIGHTS[2], 2), tile_of(HEIGHTS[2], 1)
