"""The micro-kernels of GEMM (BLIS, Van Zee and van de Geijn 2015): MR x NR tiles of C in registers.

    c[r, j] = start + scale sum over k of a[r, k] b[k, j]

start is the bias, the present c, both, or 0; with RELU negative results become zero (the flags of
`conv_strip`).  The rounding of a sum depends on the number of terms only.

A tile of TILE_ROWS rows times NR_VECTORS vectors of columns (NR) reads, for every term k, adjacent
rows of a and adjacent columns of b: in pointer, or packed as strips [k][`packed_mr`] and panels
[k][NR].  For each k these are two vector loads and an FMA for each row and vector, whose other
operand is broadcast from memory.  28 of the 32 registers of AVX-512 are accumulators, so that the
FMA units are the bottleneck.

`dot_tile` reads rows of a and columns of b that are contiguous along k, such as a dense layer's
data and weights, without packing: DOT_MR x DOT_NR sums, whose lanes are added in the epilogue.

`outer_tile` is for a C of a few rows or columns: OUTER_MR rows of one vector, for any strides of a.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ..jit import inlined
from .conv_strip import ADD, BIAS, RELU, emit_add, emit_bias
from .host import lanes, registers
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["ADD", "BIAS", "DOT_MR", "DOT_NR", "MR", "NR_VECTORS", "OUTER_MR", "RELU", "TILE_ROWS",
           "DotShape", "OuterShape", "TileShape", "TileStart", "copy_to_panels", "copy_to_strips",
           "dot_row", "dot_tile", "large_tile", "medium_tile", "outer_tile", "packed_mr",
           "small_tile"]

NR_VECTORS = 2
"""Vectors of a panel: NR = NR_VECTORS times the lanes of one."""
TILE_ROWS = (14, 8, 4) if registers().number == 32 else (6, 4, 2)
"""Rows of the micro-kernels.  An FMA has a latency of four cycles and two issue in each, so fewer
than eight accumulators, as smaller tiles would have, are no faster."""
MR = TILE_ROWS[0]
"""Rows of a strip."""
OPERANDS = ("a", "b", "scale", "bias", "c")
ARGUMENTS = (*OPERANDS, "at", "steps")


class TileStart(NamedTuple):
    """Offsets of a tile in its operands."""

    a: int
    b: int
    scale: int
    bias: int
    c: int


class TileShape(NamedTuple):
    """`depth` >= 1 terms, `rows` <= those of the tile; distances of rows of c and of terms."""

    depth: int
    c_row: int
    rows: int
    flags: int
    a_term: int
    b_term: int


class DotShape(NamedTuple):
    """A `TileShape` with distances of rows of a and columns of b, of which b has `columns`."""

    depth: int
    c_row: int
    rows: int
    flags: int
    a_row: int
    b_column: int
    columns: int


class OuterShape(NamedTuple):
    """Terms, rows and columns of the tile; distances of rows and terms of a, and of terms of b."""

    depth: int
    rows: int
    columns: int
    a_row: int
    a_term: int
    b_term: int


@inlined
def packed_mr(lanes):
    """Elements of a packed strip at one k: MR, padded to whole vectors."""
    return -(-MR // lanes) * lanes


def _emit_tile(v: Vectors, rows: int) -> None:
    a, b, scale, bias, c = v.starts(*OPERANDS)
    depth, distance, rows_left, flags, pitch, width = v.args.steps

    def term(k: IRValue, sums: list[IRValue]) -> list[IRValue]:
        here, panel = v.at(a, v.mul(k, pitch)), v.at(b, v.mul(k, width))
        columns = [v.load(v.at(panel, o * v.width)) for o in range(NR_VECTORS)]
        for r in range(rows):
            factor = v.broadcast(v.at(here, r))
            for o in range(NR_VECTORS):
                sums[r * NR_VECTORS + o] = v.fma(factor, columns[o], sums[r * NR_VECTORS + o])
        return sums

    last = v.add(rows_left, -1)
    starts = [v.at(c, v.mul(v.minimum(r, last), distance)) for r in range(rows)]
    pointers = [v.at(start, o * v.width) for start in starts for o in range(NR_VECTORS)]
    for pointer in pointers:
        v.prefetch(pointer, 1, write=True)
    sums = v.loop(depth, [v.zero] * (rows * NR_VECTORS), term)

    start = emit_bias(v, flags, [v.at(bias, o * v.width) for o in range(NR_VECTORS)]) * rows
    start = emit_add(v, flags, start, pointers)
    factor, relu = v.broadcast(scale), v.has_flag(flags, RELU)
    for total, value, pointer in reversed(list(zip(sums, start, pointers, strict=True))):
        # rows beyond the last are stored there first, and then overwritten by it
        v.store(v.relu(v.fma(total, factor, value), relu), pointer)


def _reference(rows: int) -> Callable:
    def tile(a, b, scale, bias, c, at, steps):
        ao, bo, zo, so, co = at
        depth, distance, rows_left, flags, pitch, width = steps
        panel = NR_VECTORS * lanes(a.dtype)
        for r in range(min(rows, rows_left)):
            total = np.zeros(panel, a.dtype)
            for k in range(depth):
                total += a[ao + k * pitch + r] * b[bo + k * width:][:panel]
            _finish(c[co + r * distance:][:panel], total * scale[zo], bias[so:], flags)

    return tile


def _finish(target: np.ndarray, total: np.ndarray, bias: np.ndarray, flags: int) -> None:
    """Epilogue of one row of a reference implementation."""
    total = total + (bias[:len(target)] if flags & BIAS else 0) + (target if flags & ADD else 0)
    target[:] = np.maximum(total, 0) if flags & RELU else total


def tile_of(rows: int) -> MicroKernel:
    """The micro-kernel of `rows` rows."""
    return MicroKernel(ARGUMENTS, lambda v: _emit_tile(v, rows), _reference(rows))


def _emit_copy(v: Vectors, vectors: int) -> None:
    source, target = v.starts("source", "target")
    count, near, far, ahead = v.args.steps

    def block(i: IRValue, _: list[IRValue]) -> None:
        here, there = v.at(source, v.mul(near, i)), v.at(target, v.mul(far, i))
        for o in range(vectors):
            v.prefetch(v.at(v.at(here, ahead), o * v.width), 1)
        for o in range(vectors):
            v.store(v.load(v.at(here, o * v.width)), v.at(there, o * v.width))

    v.loop(count, [], block)


def _copy_reference(size: Callable[[int], int]) -> Callable:
    def copy(source, target, at, steps):
        count, near, far, _ = steps
        for i in range(count):
            width = size(lanes(source.dtype))
            target[at[1] + i * far:][:width] = source[at[0] + i * near:][:width]

    return copy


def copy_of(size: Callable[[int], int]) -> MicroKernel:
    """Copies blocks of size(lanes) elements, `near` apart in source, `far` apart in target.

    at     offsets in source and target
    steps  number of blocks, at least 1; near; far; distance of the elements to prefetch
    """
    return MicroKernel(("source", "target", "at", "steps"),
                 lambda v: _emit_copy(v, size(v.width) // v.width), _copy_reference(size))


DOT_MR, DOT_NR = (3, 8) if registers().number == 32 else (3, 4)
"""Rows and columns of `dot_tile`."""


def _emit_dot_tile(v: Vectors, rows: int) -> None:
    a, b, scale, bias, c = v.starts(*OPERANDS)
    depth, distance, rows_left, flags, row, column, columns = v.args.steps
    last, across = v.add(rows_left, -1), v.add(columns, -1)
    lefts = [v.at(a, v.mul(v.minimum(r, last), row)) for r in range(rows)]
    rights = [v.at(b, v.mul(v.minimum(j, across), column)) for j in range(DOT_NR)]
    targets = [v.at(c, v.mul(v.minimum(r, last), distance)) for r in range(rows)]

    def added(sums: list[IRValue], k: IRValue, *mask: IRValue) -> list[IRValue]:
        factors = [v.load(v.at(left, k), *mask) for left in lefts]
        for j, right in enumerate(rights):
            other = v.load(v.at(right, k), *mask)
            for r, factor in enumerate(factors):
                sums[r * DOT_NR + j] = v.fma(factor, other, sums[r * DOT_NR + j])
        return sums

    # whole vectors along k, then a masked remainder
    vectors = v.builder.sdiv(depth, v.int64(v.width))
    sums = v.loop_if_any(vectors, [v.zero] * (rows * DOT_NR),
                         lambda k, sums: added(sums, v.mul(k, v.width)))
    whole = v.mul(vectors, v.width)
    left_over = v.builder.sub(depth, whole)
    sums = v.if_else(v.builder.icmp_signed(">", left_over, v.int64(0)), lambda: added(
        list(sums), whole, v.lane_mask(left_over), v.zero), lambda: sums)

    # epilogue: horizontal sums, scale, bias or present c, ReLU
    factor, relu, size = v.broadcast(scale), v.has_flag(flags, RELU), min(v.width, DOT_NR)
    totals = [_horizontal_sums(v, sums[r * DOT_NR:][:DOT_NR]) for r in range(rows)]
    mask = None if size == v.width else v.lane_mask(size)
    pointers = [v.at(target, j) for target in targets for j in range(0, DOT_NR, size)]
    start = emit_bias(v, flags, [v.at(bias, j) for j in range(0, DOT_NR, size)], mask) * rows
    start = emit_add(v, flags, start, pointers, mask)
    elements = [total for row_of in totals for total in row_of]
    for total, value, pointer in reversed(list(zip(elements, start, pointers, strict=True))):
        # rows beyond the last are stored there first, and then overwritten by it
        v.store(v.relu(v.fma(total, factor, value), relu), pointer, mask)


def _horizontal_sums(v: Vectors, vectors: list[IRValue]) -> list[IRValue]:
    """The sum of the lanes of each vector, by pairwise additions of adjacent lanes."""
    size, pairs = 1, [list(range(odd, 2 * v.width, 2)) for odd in (0, 1)]
    while size < v.width:
        if len(vectors) == 1:
            vectors = vectors * 2
        vectors = [v.builder.fadd(*(v.shuffle(x, y, lanes_of) for lanes_of in pairs))
                   for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
        size *= 2
    return vectors


def _dot_tile_reference(a, b, scale, bias, c, at, steps):
    ao, bo, zo, so, co = at
    depth, distance, rows_left, flags, row, column, columns = steps
    for r in range(min(DOT_MR, rows_left)):
        sums = [a[ao + r * row:][:depth] @ b[bo + min(j, columns - 1) * column:][:depth]
                for j in range(DOT_NR)]
        _finish(c[co + r * distance:][:DOT_NR], np.array(sums) * scale[zo], bias[so:], flags)


OUTER_MR = 4 if registers().number == 32 else 2
"""Rows of `outer_tile`: four sets of that many accumulators hide the latency of an FMA."""


def _emit_outer_tile(v: Vectors) -> None:
    a, b = v.starts("a", "b")
    depth, rows, columns, a_row, a_term, b_term = v.args.steps
    last, mask = v.add(rows, -1), v.lane_mask(columns)
    lefts = [v.at(a, v.mul(v.minimum(r, last), a_row)) for r in range(OUTER_MR)]

    def total(*mask: IRValue) -> list[IRValue]:
        def term(k: IRValue, sums: list[IRValue]) -> list[IRValue]:
            row = v.load(v.at(b, v.mul(k, b_term)), *mask)
            return [v.fma(v.broadcast(v.at(left, v.mul(k, a_term))), row, value)
                    for left, value in zip(lefts, sums, strict=True)]

        one, two, three, four = v.interleaved_loop(depth, [v.zero] * OUTER_MR, term)
        add = v.builder.fadd
        return [add(add(*pair[:2]), add(*pair[2:]))
                for pair in zip(one, two, three, four, strict=True)]

    whole = v.builder.icmp_signed("==", columns, v.int64(v.width))
    for r, value in enumerate(v.if_else(whole, total, lambda: total(mask, v.zero))):
        v.store(value, v.at(v.args.tile, r * v.width))


def _outer_tile_reference(a, b, tile, at, steps):
    depth, rows, columns, a_row, a_term, b_term = steps
    width = lanes(a.dtype)
    for r in range(OUTER_MR):
        start, total = at[0] + min(r, rows - 1) * a_row, np.zeros(width, a.dtype)
        for k in range(depth):
            total[:columns] += a[start + k * a_term] * b[at[1] + k * b_term:][:columns]
        tile[r * width:][:width] = total


outer_tile = MicroKernel(("a", "b", "tile", "at", "steps"), _emit_outer_tile, _outer_tile_reference)
"""tile[r, j] = sum over k of a[r, k] b[k, j], OUTER_MR rows of one vector; lanes beyond `columns`
are 0, rows beyond `rows` equal the last one.  `at`: offsets in a and b."""
dot_tile, dot_row = (MicroKernel(ARGUMENTS, partial(_emit_dot_tile, rows=rows), _dot_tile_reference)
                 for rows in (DOT_MR, 1))
"""DOT_MR rows, or one, and DOT_NR columns, all of which c and the bias have."""
copy_to_strips, copy_to_panels = copy_of(packed_mr), copy_of(lambda width: NR_VECTORS * width)
large_tile, medium_tile, small_tile = map(tile_of, TILE_ROWS)
