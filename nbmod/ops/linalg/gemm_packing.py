"""Packing for `gemm`: operands as strips and panels, in the order that micro-kernels read them."""

from __future__ import annotations

import numpy as np

from ..jit import inlined
from ..simd.gemm_microkernel import MR, NR_VECTORS, copy_to_panels, copy_to_strips
from ..simd.transpose import transpose

__all__ = ["pack_a", "pack_b"]

PREFETCH = 8
"""Rows of B (columns of A) that are prefetched while they are packed piece by piece."""


@inlined
def _pack_transposed(x, start, strides, lines, depth, lanes, out, to, pitch):
    """out[to + k pitch + j] = x[start + j line + k term] for j < lines, k < depth.

    strides: line, term.  Contiguous terms are transposed in registers, `lanes` x `lanes` at a time;
    the padding of the last vector is then arbitrary.
    """
    line, term = strides
    whole = depth // lanes * lanes if term == 1 else 0
    for j in range(0, lines, lanes):
        count = min(lanes, lines - j)
        for k in range(0, whole, lanes):
            transpose(x, out, (start + j * line + k, to + k * pitch + j), (line, pitch, count))
        for i in range(j, j + count):
            for k in range(whole, depth):
                out[to + k * pitch + i] = x[start + i * line + k * term]


@inlined
def _zero_padding(out, to, pitch, lines, padded, depth):
    """out[to + k pitch + j] = 0 for lines <= j < padded, k < depth: micro-tiles multiply these
    elements too, and are ten times slower if they are denormal."""
    for k in range(depth):
        first = np.uintp(to + k * pitch + lines)
        for j in range(padded - lines):
            out[first + np.uintp(j)] = 0


@inlined
def pack_a(x, start, strides, rows, depth, lanes, mr, work):
    """Rows of A as strips [strip][term][mr], the last one padded with zeros."""
    row, column = strides
    if row == 1:
        count = max((rows - mr) // MR + 1, 0) if rows >= mr else 0
        for k in range(depth):
            if count:
                copy_to_strips(x, work, (start + k * column, k * mr),
                               (count, MR, depth * mr, min(PREFETCH, depth - 1 - k) * column))
            for r in range(count * MR, rows):
                work[r // MR * depth * mr + k * mr + r % MR] = x[start + k * column + r]
    else:
        for i in range(0, rows, MR):
            _pack_transposed(x, start + i * row, (row, column), min(MR, rows - i), depth, lanes,
                             work, i // MR * depth * mr, mr)
    if rows % MR:
        _zero_padding(work, rows // MR * depth * mr, mr, rows % MR, MR, depth)


@inlined
def pack_b(x, start, strides, columns, depth, lanes, out, to, distance):
    """Columns of B as panels [panel][term][NR], `distance` apart, the last padded with zeros."""
    row, column = strides
    nr = NR_VECTORS * lanes
    count = columns // nr
    if column == 1:
        for k in range(depth):
            if count:
                copy_to_panels(x, out, (start + k * row, to + k * nr),
                               (count, nr, distance, min(PREFETCH, depth - 1 - k) * row))
            source = np.uintp(start + k * row + count * nr)
            target = np.uintp(to + count * distance + k * nr)
            for j in range(columns - count * nr):
                out[target + np.uintp(j)] = x[source + np.uintp(j)]
    else:
        for j in range(0, columns, nr):
            _pack_transposed(x, start + j * column, (column, row), min(nr, columns - j), depth,
                             lanes, out, to + j // nr * distance, nr)
    if columns % nr:
        _zero_padding(out, to + count * distance, nr, columns % nr, nr, depth)
