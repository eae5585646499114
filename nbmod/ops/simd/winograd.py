"""Winograd's minimal filtering: tiles of images into a space where a convolution is a product.

A convolution of stride 1 with 3 x 3 filters gives 4 x 4 pixels from 6 x 6 with 36 products of each
channel instead of 144: y = A' [(G w G') * (B' x B)] A, where * goes number by number (A. Lavin and
S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015, arXiv 1509.09308).  The filter and
the tile are polynomials there, known by their values at five points and infinity; B' x B and G w G'
evaluate them, A' .. A puts together what their product is.

The transforms are straight-line code on vectors of channels.  A tile may hang over the edge of its
image: pixels beyond are read from the last row or column, and stored there too, in an order in
which the true ones come last, so that no tile needs code of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .host import lanes
from .ir import Micro, Vectors
from .strip import ADD, BIAS, emit_limits, limited

__all__ = ["OUT", "TILE", "filter_tile", "input_tile", "output_tile"]

LANES = lanes("float32")
POINTS = (0, 1, -1, 2, -2)
TAPS = 3
TILE = len(POINTS) + 1
OUT = TILE - TAPS + 1
"""Rows and columns: of filters, of the pixels of a tile, of its results."""


def matrices() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B', G, A' of the points and infinity."""
    inputs, filters = np.zeros((TILE, TILE)), np.zeros((TILE, TAPS))
    for row, point in enumerate(POINTS):
        others = [other for other in POINTS if other != point]
        inputs[row, :-1] = np.poly(others)[::-1]
        filters[row] = np.power(float(point), np.arange(TAPS)) / np.prod(np.subtract(point, others))
    inputs[-1] = np.poly(POINTS)[::-1]
    filters[-1, -1] = 1
    outputs = np.power.outer(np.array(POINTS, float), np.arange(OUT)).T
    return inputs, filters, np.column_stack([outputs, np.eye(OUT)[-1]])


INPUTS, FILTERS, OUTPUTS = matrices()


def _combined(v: Vectors, factors: Sequence[float], values: Sequence[Any]) -> Any:
    """The sum of factors times values."""
    total = None
    for factor, value in sorted(zip(factors, values, strict=True), key=lambda pair: pair[0] != 1):
        if factor and total is None:
            total = value if factor == 1 else v.builder.fmul(value, v.constant(factor))
        elif factor == 1:
            total = v.builder.fadd(total, value)
        elif factor == -1:
            total = v.builder.fsub(total, value)
        elif factor:
            total = v.fma(value, v.constant(factor), total)
    return total


def _between(v: Vectors, matrix: np.ndarray, tile: list[list[Any]]) -> list[list[Any]]:
    """matrix tile matrix'."""
    half = [[_combined(v, row, column) for column in zip(*tile, strict=True)] for row in matrix]
    return [[_combined(v, row, line) for row in matrix] for line in half]


def _clipped(v: Vectors, count: int, step: Any, size: Any) -> list[Any]:
    """Where rows (or columns) are, those behind the last of `size` where that is."""
    last = v.add(size, -1)
    return [v.mul(v.least(i, last), step) for i in range(count)]


def _emit_tile(v: Vectors, matrix: np.ndarray) -> None:
    a, (size, count) = v.args, matrix.T.shape
    source, target = (v.at(getattr(a, name), start)
                      for name, start in zip(("source", "target"), a.at, strict=True))
    row, column, step, rows, columns = a.steps
    down, right = _clipped(v, size, row, rows), _clipped(v, size, column, columns)
    tile = [[v.load(v.at(source, v.add(y, x))) for x in right] for y in down]
    for i, line in enumerate(_between(v, matrix, tile)):
        for j, value in enumerate(line):
            v.store(value, v.at(target, v.mul(step, i * count + j)))


def _tile_twin(matrix: np.ndarray) -> Any:
    count, size = matrix.shape

    def tile(source, target, at, steps):
        row, column, step, rows, columns = steps
        found = np.empty((size, size, LANES))
        for y, x in np.ndindex(size, size):
            begin = at[0] + min(y, rows - 1) * row + min(x, columns - 1) * column
            found[y, x] = source[begin:begin + LANES]
        for i, j in np.ndindex(count, count):
            begin = at[1] + (i * count + j) * step
            target[begin:begin + LANES] = np.einsum("y,x,yxl", matrix[i], matrix[j], found)

    return tile


def tile_of(matrix: np.ndarray) -> Micro:
    """target = matrix source matrix', a vector of channels each.

    at      where to begin in source and target
    steps   distances of rows, columns and results; rows and columns there are
    """
    return Micro(("source", "target", "at", "steps"), lambda v: _emit_tile(v, matrix),
                 _tile_twin(matrix))


def _emit_output(v: Vectors) -> None:
    a = v.args
    m, bias, r, y = (v.at(getattr(a, name), start) for name, start
                     in zip(("m", "bias", "r", "y"), (*a.at, a.at[2]), strict=True))
    step, row, rows, columns, flags = a.steps

    def flag(bit: int) -> Any:
        return v.builder.icmp_signed("!=", v.builder.and_(flags, v.number(bit)), v.number(0))

    tile = [[v.load(v.at(m, v.mul(step, i * TILE + j))) for j in range(TILE)] for i in range(TILE)]
    values = [value for line in _between(v, OUTPUTS, tile) for value in line]
    places = [v.add(down, right) for down in _clipped(v, OUT, row, rows)
              for right in _clipped(v, OUT, v.number(v.width), columns)]
    start = v.either(flag(BIAS), lambda: [v.load(bias)], lambda: [v.zero])[0]
    values = [v.builder.fadd(value, start) for value in values]
    values = v.either(
        flag(ADD), lambda: [v.builder.fadd(value, v.load(v.at(r, place)))
                            for value, place in zip(values, places, strict=True)], lambda: values)
    for value, place in reversed(list(zip(values, places, strict=True))):
        v.store(emit_limits(v, value, flags), v.at(y, place))


def _output_twin(m, bias, r, y, at, steps):
    mo, bo, yo = at
    step, row, rows, columns, flags = steps
    tile = np.array([m[mo + e * step:mo + e * step + LANES] for e in range(TILE * TILE)])
    tile = tile.reshape(TILE, TILE, LANES)
    for i, j in np.ndindex(min(rows, OUT), min(columns, OUT)):
        begin = yo + i * row + j * LANES
        value = np.einsum("y,x,yxl", OUTPUTS[i], OUTPUTS[j], tile)
        if flags & BIAS:
            value += bias[bo:bo + LANES]
        if flags & ADD:
            value += r[begin:begin + LANES]
        y[begin:begin + LANES] = limited(value, flags)


input_tile, filter_tile = tile_of(INPUTS), tile_of(FILTERS)
output_tile = Micro(("m", "bias", "r", "y", "at", "steps"), _emit_output, _output_twin)
"""y = A' m A, and the flags of the strip kernel.

at      where to begin in m, bias, and r and y
steps   distances of products in m and of rows in y; rows and columns there are; flags
"""
