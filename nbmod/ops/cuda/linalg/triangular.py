"""Diagonals and triangles of matrices as vectors, and back: a thread per element of a matrix."""

from __future__ import annotations

import numpy as np

from ...dispatch import implements
from ...linalg.triangular import SumLogDiag, _Extract, _Make, _Part
from ...op import Call
from ..lib.block_reduce import each_block, sum_kernel
from ..lib.kernel_math import MATH, real_of
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, each, grid_stride

log = MATH["log"]


@cache
def _part_kernel(diagonal: bool, above: bool, taking: bool) -> CudaKernel:
    """Between matrices (..., side, side) and vectors (..., length), from the diagonal `offset`
    below the main one on; `above`: of the transposed matrices."""
    @grid_stride
    def move_part(i, matrices, vectors, zero, side, offset, length):
        matrix = i // (side * side)
        row, column = i // side % side, i % side
        if above:
            row, column = column, row
        row -= offset
        counts = column == row if diagonal else column <= row
        packed = matrix * length + (row if diagonal else row * (row + 1) // 2 + column)
        if not taking:
            matrices[i] = vectors[packed] if counts else zero
        elif counts:
            vectors[packed] = matrices[i]
    return move_part


def _move(op: _Part, matrices: Array, vectors: Array, taking: bool) -> list[Launch]:
    above = op.offset > 0 or not (op.offset or op.diagonal or op.lower)
    return each(_part_kernel(op.diagonal, above, taking), matrices.size, matrices, vectors,
                matrices.dtype.type(0), matrices.shape[-1], abs(op.offset), vectors.shape[-1])


def _take(op: _Part, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _move(op, ins[0], outs[0], True)


def _put(op: _Part, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _move(op, outs[0], ins[0], False)


@cache
def _logarithms_kernel(real: type[np.floating], side: int) -> CudaKernel:
    area, step = side * side, side + 1
    return sum_kernel(lambda x, matrix, term, matrices: (
        log(real(x[matrix * area + term * step]))), real)


@cache
def _share_kernel(real: type[np.floating]) -> CudaKernel:
    @grid_stride
    def share(i, g, a, ga, side):
        on_diagonal = i // side % side == i % side
        ga[i] = g[i // (side * side)] / a[i] if on_diagonal else real(0)
    return share


def _sum_log(op: SumLogDiag, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    a, y = ins[0], outs[0]
    return each_block(_logarithms_kernel(real_of(a.dtype), a.shape[-1]), y.size, a, y,
                      a.shape[-1], False)


def _sum_log_backward(op: SumLogDiag, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    g, a = ins
    return each(_share_kernel(real_of(a.dtype)), a.size, g, a, outs[0], a.shape[-1])


implements(_Extract, "cuda", _take, _put)
implements(_Make, "cuda", _put, _take)
implements(SumLogDiag, "cuda", _sum_log, _sum_log_backward)
