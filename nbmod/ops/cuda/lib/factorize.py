"""Factorisations of stacks of matrices: Cholesky, Gauss-Jordan inverse, Householder LQ; triangular
solves, and elementwise maps of square matrices.

A block factorises each matrix; in a triangular system a thread solves each right-hand side.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...op import Spec
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, cuda, device_function, each, grid_stride
from .block_reduce import (
    BLOCK_SIZE,
    all_reduce_function,
    arg_reduce_function,
    block_stride,
    each_block,
)
from .kernel_math import MATH, real_of

__all__ = ["BOTH", "IDENTITY", "LOWER", "MIRRORED", "TURNED_LOWER", "TURNED_UPPER", "UPPER",
           "cholesky", "inverse", "inverse_scratch", "lq", "lq_scratch", "solve", "square"]

sqrt, log = MATH["sqrt"], MATH["log"]
Codes = tuple[int, int, int]


def _matrices(array: Array) -> int:
    return prod(array.shape[:-2])


# -- elementwise maps ---------------------------------------------------------------------------

LOWER: Codes = (1, 1, 0)
UPPER: Codes = (0, 1, 1)
MIRRORED: Codes = (1, 1, 2)
BOTH: Codes = (3, 3, 3)
TURNED_LOWER: Codes = (2, 2, 0)
TURNED_UPPER: Codes = (0, 2, 2)
IDENTITY: Codes = (0, 4, 0)
"""Results below, on and above the diagonal, as bits of terms to add: 1 for the element, 2 for its
transpose, 4 for the constant 1."""


@cache
def _square_kernel(codes: Codes, real: type[np.floating]) -> CudaKernel:
    below, on, above = codes

    @grid_stride
    def change_square(i, x, y, scale, side):
        row, column, value = i // side % side, i % side, real(0)
        code = below if column < row else on if column == row else above
        if code & 1:
            value += x[i]
        if code & 2:
            value += x[i + (column - row) * (side - 1)]
        if code & 4:
            value += real(1)
        y[i] = scale * value
    return change_square


def square(codes: Codes, x: Array, y: Array, scale: float = 1) -> list[Launch]:
    """y = scale times square matrices x mapped by `codes`."""
    real = real_of(y.dtype)
    return each(_square_kernel(codes, real), y.size, x, y, real(scale), y.shape[-1])


# -- triangular systems -------------------------------------------------------------------------


@cache
def _solve_kernel(forward: bool, mirrored: bool, real: type[np.floating]) -> CudaKernel:
    """Forward or backward substitution in T X = scale B."""
    @grid_stride
    def solve_triangle(i, a, b, x, scale, side, columns, of_row, of_column):
        matrix = i // columns * side * side
        first = i // columns * side * columns + i % columns * of_column
        for number in range(side):
            row = number if forward else side - 1 - number
            total = scale * b[first + row * of_row]
            for earlier in range(number):
                k = earlier if forward else side - 1 - earlier
                at = k * side + row if mirrored else row * side + k
                total -= a[matrix + at] * x[first + k * of_row]
            x[first + row * of_row] = total / a[matrix + row * side + row]
    return solve_triangle


def solve(a: Array, b: Array, x: Array, alpha: float = 1, lower: bool = True,
          transpose: bool = False, rightside: bool = False) -> list[Launch]:
    """X of T X = alpha B, or of X T = alpha B; x may be b."""
    side, real = a.shape[-1], real_of(a.dtype)
    columns, mirrored = x.shape[-2] if rightside else x.shape[-1], transpose != rightside
    steps = (1, side) if rightside else (columns, 1)
    return each(_solve_kernel(lower != mirrored, mirrored, real), x.size // side, a, b, x,
                real(alpha), side, columns, *steps)


# -- Cholesky ----------------------------------------------------------------------------------


@cache
def _cholesky_kernel(real: type[np.floating]) -> CudaKernel:
    """Right-looking: each column updates the trailing submatrix."""

    @block_stride
    def factor_cholesky(matrix, a, y, side):
        tid = cuda.threadIdx.x
        first = matrix * side * side
        for i in range(tid, side * side, BLOCK_SIZE):
            y[first + i] = a[first + i] if i % side <= i // side else real(0)
        cuda.syncthreads()
        for k in range(side):
            head, rest = first + k * (side + 1), side - 1 - k
            if tid == 0:
                y[head] = sqrt(y[head])
            cuda.syncthreads()
            for i in range(tid, rest, BLOCK_SIZE):
                y[head + (i + 1) * side] /= y[head]
            cuda.syncthreads()
            for i in range(tid, rest * rest, BLOCK_SIZE):
                row, column = i // rest + 1, i % rest + 1
                if column <= row:
                    y[head + row * side + column] -= (y[head + row * side]
                                                      * y[head + column * side])
            cuda.syncthreads()
    return factor_cholesky


def cholesky(a: Array, y: Array) -> list[Launch]:
    """y = the lower triangle L of a = L L^T, with NaN on its diagonal if a is not definite.

    y may be a.
    """
    return each_block(_cholesky_kernel(real_of(a.dtype)), _matrices(a), a, y, a.shape[-1])


# -- inverse ------------------------------------------------------------------------------------


@cache
def _pivot_function(real: type[np.floating]) -> Callable:
    """find_pivot(y, first, k, side): partial pivoting, the first row of the largest element of
    column k, from row k on."""
    arg_max = arg_reduce_function(real)

    @device_function
    def find_pivot(y, first, k, side):
        largest, pivot = real(-1), np.int32(k)
        for row in range(k + cuda.threadIdx.x, side, BLOCK_SIZE):
            size = abs(y[first + row * side + k])
            if size > largest:
                largest, pivot = size, np.int32(row)
        return arg_max(largest, pivot)[1]
    return find_pivot


@device_function
def _swap(y, one, other, step, count):
    """Swap `count` elements from y[one] on with those from y[other] on."""
    if one != other:
        for i in range(cuda.threadIdx.x, count, BLOCK_SIZE):
            here = y[one + i * step]
            y[one + i * step] = y[other + i * step]
            y[other + i * step] = here
    cuda.syncthreads()


@cache
def _eliminate_function(real: type[np.floating]) -> Callable:
    """eliminate(y, first, factors, line, k, side): eliminate column k from all rows, store that of
    the inverse in its place; returns the pivot."""
    none, one = real(0), real(1)

    @device_function
    def eliminate(y, first, factors, line, k, side):
        tid, here = cuda.threadIdx.x, first + k * side
        pivot = y[here + k]
        for row in range(tid, side, BLOCK_SIZE):
            factors[line + row] = y[first + row * side + k]
        cuda.syncthreads()
        for column in range(tid, side, BLOCK_SIZE):
            y[here + column] = (one if column == k else y[here + column]) / pivot
        cuda.syncthreads()
        for i in range(tid, side * side, BLOCK_SIZE):
            row, column = i // side, i % side
            if row != k:
                before = none if column == k else y[first + i]
                y[first + i] = before - factors[line + row] * y[here + column]
        cuda.syncthreads()
        return pivot
    return eliminate


@cache
def _inverse_kernel(real: type[np.floating]) -> CudaKernel:
    """Gauss-Jordan elimination in place, with partial pivoting."""
    none, one = real(0), real(1)
    find_pivot, eliminate = _pivot_function(real), _eliminate_function(real)

    @block_stride
    def invert(matrix, a, y, factors, pivots, signs, sizes, side):
        tid = cuda.threadIdx.x
        first, line, sign, size = matrix * side * side, matrix * side, one, none
        for i in range(tid, side * side, BLOCK_SIZE):
            y[first + i] = a[first + i]
        cuda.syncthreads()
        for k in range(side):
            chosen = find_pivot(y, first, k, side)
            _swap(y, first + k * side, first + chosen * side, 1, side)
            pivot = eliminate(y, first, factors, line, k, side)
            if tid == 0:
                pivots[line + k] = chosen
            if sign != none:  # else the matrix is singular
                size += log(abs(pivot))
                sign = -sign if (pivot < none) != (chosen != k) else sign
                sign = none if pivot == none else sign
        cuda.syncthreads()
        for back in range(side):
            k = side - 1 - back
            _swap(y, first + k, first + pivots[line + k], side, side)
        for i in range(tid, side * side if sign == none else 0, BLOCK_SIZE):
            y[first + i] = none
        if tid == 0:
            signs[matrix], sizes[matrix] = sign, size
    return invert


def inverse_scratch(a: Spec) -> list[Spec]:
    """The scratch of `inverse`: columns, pivot rows, and results."""
    lines, one = a.shape[:-1], Spec((prod(a.shape[:-2]),), a.dtype)
    return [Spec(lines, a.dtype), Spec(lines, np.dtype(np.int32)), one, one]


def inverse(a: Array, y: Array, scratch: Arrays) -> list[Launch]:
    """y = the inverses of matrices, 0 for singular ones.

    The last two of `scratch` receive signs of determinants and logarithms of their magnitudes.
    """
    return each_block(_inverse_kernel(real_of(a.dtype)), _matrices(a), a, y, *scratch, a.shape[-1])


# -- L and Q ------------------------------------------------------------------------------------


@cache
def _norm_function(real: type[np.floating]) -> Callable:
    """squared_norm(x, first, stop): the sum of squares of x[first] to x[stop - 1]."""
    all_sum = all_reduce_function(real)

    @device_function
    def squared_norm(x, first, stop):
        total = real(0)
        for i in range(first + cuda.threadIdx.x, stop, BLOCK_SIZE):
            total += x[i] * x[i]
        return all_sum(total)
    return squared_norm


@cache
def _reflect_function(real: type[np.floating]) -> Callable:
    @device_function
    def reflect(y, row, x, mirror, first, count, factor):
        """Apply the Householder reflection with the vector x[mirror:] to a row, from `first` on."""
        total = real(0)
        for i in range(first, count):
            total += y[row + i] * x[mirror + i]
        total *= factor
        for i in range(first, count):
            y[row + i] -= total * x[mirror + i]
    return reflect


@cache
def _householder_kernel(real: type[np.floating]) -> CudaKernel:
    """Householder LQ: rows of `work` become the Householder vectors, whose first element is 1, its
    lower triangle becomes L; signs as in LAPACK."""
    squared_norm, reflect = _norm_function(real), _reflect_function(real)
    none, one = real(0), real(1)

    @block_stride
    def householder(matrix, a, work, factors, diagonal, rows, columns):
        tid = cuda.threadIdx.x
        first, line = matrix * rows * columns, matrix * rows
        for i in range(tid, rows * columns, BLOCK_SIZE):
            work[first + i] = a[first + i]
        cuda.syncthreads()
        for k in range(rows):
            here = first + k * columns
            rest, head = squared_norm(work, here + k + 1, here + columns), work[here + k]
            length = sqrt(head * head + rest)
            left = head if rest == none else -length if head >= none else length
            factor = none if rest == none else (left - head) / left
            cuda.syncthreads()
            stop = here + columns if rest != none else 0
            for i in range(here + k + 1 + tid, stop, BLOCK_SIZE):
                work[i] /= head - left
            if tid == 0:
                work[here + k], diagonal[line + k], factors[line + k] = one, left, factor
            cuda.syncthreads()
            for row in range(k + 1 + tid, rows, BLOCK_SIZE):
                reflect(work, first + row * columns, work, here, k, columns, factor)
            cuda.syncthreads()
    return householder


@cache
def _lq_kernel(real: type[np.floating]) -> CudaKernel:
    """L and Q from Householder vectors; a thread per row."""
    none, one, reflect = real(0), real(1), _reflect_function(real)

    @grid_stride
    def write_lq(i, work, factors, diagonal, q, factor, rows, columns):
        row, line = i % rows, i - i % rows
        for column in range(rows):
            value = work[i * columns + column] if column < row else none
            factor[i * rows + column] = diagonal[i] if column == row else value
        for column in range(columns):
            q[i * columns + column] = one if column == row else none
        for back in range(row + 1):
            k = row - back
            reflect(q, i * columns, work, (line + k) * columns, k, columns, factors[line + k])
    return write_lq


def lq_scratch(a: Spec) -> list[Spec]:
    """The scratch of `lq`."""
    line = Spec(a.shape[:-1], a.dtype)
    return [a, line, line]


def lq(a: Array, q: Array, factor: Array, scratch: Arrays) -> list[Launch]:
    """a = factor q: a lower triangular matrix and one with orthonormal rows."""
    (*_, rows, columns), real, (work, factors, diagonal) = a.shape, real_of(a.dtype), scratch
    return [*each_block(_householder_kernel(real), _matrices(a), a, work, factors, diagonal, rows,
                        columns),
            *each(_lq_kernel(real), factors.size, work, factors, diagonal, q, factor, rows,
                  columns)]
