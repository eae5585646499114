"""Winograd's minimal filtering: transforms of tiles, filters and products.

A convolution of stride 1 with 3 x 3 filters gives 4 x 4 pixels from 6 x 6 with 36 products of each
channel instead of 144: y = A' [(G w G') * (B' x B)] A, where * is elementwise (A. Lavin and S.
Gray, Fast Algorithms for Convolutional Neural Networks, 2015, arXiv 1509.09308).  B' x B is the
input transform, G w G' the filter transform and A' .. A the output transform: filter and tile are
polynomials, evaluated at some points and infinity, and their product is interpolated.  F(2x2, 3x3)
needs 16 products instead of 36: it saves less, but its filters have less than half as many
elements.

Any points are correct; errors grow with the powers of those far from 1 or near one another.
Besides 0 they come in pairs p and -p, so that values at both share their even and odd powers.  The
usual 1 and 2 for F(4x4, 3x3) have four times the error of 3/4 and 3/2, whose powers are exact, too.

The transforms are straight-line code on vectors of channels.  A tile may extend beyond its image:
pixels beyond are read from the last row or column, and stored there too, in an order in which the
true ones come last, so that no tile needs code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from .conv_strip import ADD, BIAS, LANES, clip, emit_add, emit_bias, emit_clip
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["FOUR", "TWO", "Filtering"]

TAPS = 3
"""Rows and columns of filters."""

Rule = Callable[[Vectors, np.ndarray, Sequence[IRValue]], list[IRValue]]


class Filtering:
    """F(m x m, 3 x 3) with m = `out`, on tiles of `tile` x `tile` pixels, by way of the points 0, p
    and -p for every p in `pairs`, and infinity.

    `inputs`, `filters` and `outputs` are the matrices B', G and A'; the micro-kernels:

        input_tile      target = B' source B, a vector of channels each
        filter_tile     target = G source G', of filters
        output_tile     y = A' m A, and the flags of `conv_strip`
        gradient_tile   target = A source A', of an output's gradient, which is 0 beyond its edge
        weight_tile     target = G' source G, of sums over tiles
    """

    def __init__(self, *pairs: float):
        points = (0, *chain.from_iterable((p, -p) for p in pairs))
        self.tile, self.out = len(points) + 1, len(points) + 2 - TAPS
        self.inputs, self.filters = np.zeros((self.tile,) * 2), np.zeros((self.tile, TAPS))
        for row, point in enumerate(points):
            others = [other for other in points if other != point]
            self.inputs[row, :-1] = np.poly(others)[::-1]
            self.filters[row] = np.power(float(point), np.arange(TAPS)) / np.prod(
                np.subtract(point, others))
        self.inputs[-1] = np.poly(points)[::-1]
        self.filters[-1, -1] = 1
        powers = np.power.outer(np.array(points, float), np.arange(self.out)).T
        self.outputs = np.column_stack([powers, np.eye(self.out)[-1]])
        self.input_tile, self.filter_tile = tile_of(self.inputs), tile_of(self.filters)
        self.gradient_tile = tile_of(self.outputs.T, zeros=True)
        self.weight_tile = tile_of(self.filters.T, _joined)
        self.output_tile = output_of(self.outputs)


def _sum(v: Vectors, factors: Sequence[float], values: Sequence[IRValue]) -> IRValue:
    """The sum of factors times values."""
    terms = [pair for pair in zip(factors, values, strict=True) if pair[0]]
    (first, value), *others = sorted(terms, key=lambda pair: pair[0] != 1)
    total = value if first == 1 else v.builder.fmul(value, v.constant(first))
    for factor, value in others:
        total = _plus(v, total, factor, value)
    return total


def _plus(v: Vectors, total: IRValue, factor: float, value: IRValue) -> IRValue:
    if factor == 1:
        return v.builder.fadd(total, value)
    if factor == -1:
        return v.builder.fsub(total, value)
    return v.fma(value, v.constant(factor), total)


def _evaluated(v: Vectors, matrix: np.ndarray, values: Sequence[IRValue]) -> list[IRValue]:
    """matrix values: rows of p and -p have equal even powers, and odd ones of opposite sign."""
    sums = [_sum(v, matrix[0], values)]
    for row in matrix[1:-1:2]:
        odd = row * (np.arange(len(row)) % 2)
        factor = next(f for f in odd[odd != 0] if (odd / f == np.float32(odd / f)).all())
        even, odd = _sum(v, row - odd, values), _sum(v, odd / factor, values)
        sums += [_plus(v, even, factor, odd), _plus(v, even, -factor, odd)]
    return [*sums, _sum(v, matrix[-1], values)]


def _joined(v: Vectors, matrix: np.ndarray, values: Sequence[IRValue]) -> list[IRValue]:
    """matrix values: even rows need sums of the values at p and -p only, odd ones differences."""
    columns, terms = matrix.copy(), list(values)
    for plus in range(1, len(terms) - 1, 2):
        one, other = terms[plus], terms[plus + 1]
        terms[plus:plus + 2] = v.builder.fadd(one, other), v.builder.fsub(one, other)
        both = matrix[:, plus], matrix[:, plus + 1]
        columns[:, plus], columns[:, plus + 1] = np.add(*both) / 2, np.subtract(*both) / 2
    return [_sum(v, row, terms) for row in columns]


def _between(v: Vectors, rule: Rule, matrix: np.ndarray, tile: list[list[IRValue]]
             ) -> list[list[IRValue]]:
    """matrix tile matrix'."""
    half = [rule(v, matrix, line) for line in tile]
    columns = [rule(v, matrix, column) for column in zip(*half, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _clipped(v: Vectors, count: int, step: IRValue, size: IRValue) -> list[IRValue]:
    """Offsets of rows (or columns), clamped to the last of `size`."""
    last = v.add(size, -1)
    return [v.mul(v.minimum(i, last), step) for i in range(count)]


def _emit_tile(v: Vectors, rule: Rule, matrix: np.ndarray, zeros: bool) -> None:
    (source, target), (size, count) = v.starts("source", "target"), matrix.T.shape
    row, column, step, rows, columns = v.args.steps
    down, right = _clipped(v, size, row, rows), _clipped(v, size, column, columns)
    tile = [[v.load(v.at(source, v.add(y, x))) for x in right] for y in down]
    if zeros:
        above, left = ([v.builder.icmp_signed("<", v.int64(i), end) for i in range(size)]
                       for end in (rows, columns))
        tile = [[v.builder.select(v.builder.and_(y, x), value, v.zero)
                 for x, value in zip(left, line, strict=True)]
                for y, line in zip(above, tile, strict=True)]
    for i, line in enumerate(_between(v, rule, matrix, tile)):
        for j, value in enumerate(line):
            v.store(value, v.at(target, v.mul(step, i * count + j)))


def _tile_reference(matrix: np.ndarray, zeros: bool) -> Callable:
    count, size = matrix.shape

    def tile(source, target, at, steps):
        row, column, step, rows, columns = steps
        patch = np.empty((size, size, LANES))
        for y, x in np.ndindex(size, size):
            begin = at[0] + min(y, rows - 1) * row + min(x, columns - 1) * column
            patch[y, x] = source[begin:begin + LANES]
        if zeros:
            patch[rows:] = patch[:, columns:] = 0
        for i, j in np.ndindex(count, count):
            begin = at[1] + (i * count + j) * step
            target[begin:begin + LANES] = np.einsum("y,x,yxl", matrix[i], matrix[j], patch)

    return tile


def tile_of(matrix: np.ndarray, rule: Rule = _evaluated, zeros: bool = False) -> MicroKernel:
    """target = matrix source matrix', a vector of channels each; `zeros`: pixels beyond the edge
    are 0.

    at      offsets in source and target
    steps   strides of rows, columns and results; rows and columns within the image
    """
    return MicroKernel(("source", "target", "at", "steps"),
                       lambda v: _emit_tile(v, rule, matrix, zeros), _tile_reference(matrix, zeros))


def _emit_output(v: Vectors, matrix: np.ndarray) -> None:
    (m, bias, r), y = v.starts("m", "bias", "r"), v.at(v.args.y, v.args.at[2])
    (out, size), (step, row, rows, columns, flags) = matrix.shape, v.args.steps

    tile = [[v.load(v.at(m, v.mul(step, i * size + j))) for j in range(size)] for i in range(size)]
    values = list(chain(*_between(v, _joined, matrix, tile)))
    offsets = [v.add(down, right) for down in _clipped(v, out, row, rows)
               for right in _clipped(v, out, v.int64(v.width), columns)]
    start, = emit_bias(v, flags, [bias])
    values = emit_add(v, flags, [v.builder.fadd(value, start) for value in values],
                      (v.at(r, offset) for offset in offsets))
    for value, offset in reversed(list(zip(values, offsets, strict=True))):
        v.store(emit_clip(v, value, flags), v.at(y, offset))


def _output_reference(matrix: np.ndarray) -> Callable:
    out, size = matrix.shape

    def output_tile(m, bias, r, y, at, steps):
        mo, bo, yo = at
        step, row, rows, columns, flags = steps
        tile = np.array([m[mo + e * step:mo + e * step + LANES] for e in range(size ** 2)])
        tile = tile.reshape(size, size, LANES)
        for i, j in np.ndindex(min(rows, out), min(columns, out)):
            begin = yo + i * row + j * LANES
            value = np.einsum("y,x,yxl", matrix[i], matrix[j], tile)
            if flags & BIAS:
                value += bias[bo:bo + LANES]
            if flags & ADD:
                value += r[begin:begin + LANES]
            y[begin:begin + LANES] = clip(value, flags)

    return output_tile


def output_of(matrix: np.ndarray) -> MicroKernel:
    """y = matrix m matrix', and the flags of `conv_strip`.

    at      offsets in m, bias, and r and y
    steps   strides of products in m and of rows in y; rows and columns within the image; flags
    """
    return MicroKernel(("m", "bias", "r", "y", "at", "steps"), lambda v: _emit_output(v, matrix),
                 _output_reference(matrix))


TWO, FOUR = Filtering(1), Filtering(0.75, 1.5)
