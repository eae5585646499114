"""Eigenvectors of symmetric matrices by the parallel cyclic Jacobi method, a block per matrix.

In each round of a sweep the indices are paired as in a round-robin tournament: the rotations of
disjoint pairs are applied in parallel.  A sweep visits every pair once; sweeps are repeated until
the off-diagonal elements are below rounding errors (G. Golub and C. Van Loan, Matrix Computations,
section on parallel Jacobi).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...op import Spec
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, cuda, device_function, each, grid_stride
from .block_reduce import BLOCK_SIZE, block_reduce_function, block_stride, each_block
from .factorize import IDENTITY, MIRRORED, square
from .kernel_math import MATH, real_of

__all__ = ["eigen", "eigen_scratch"]

SWEEPS = 30
"""A limit that no matrix reaches: convergence is quadratic."""

sqrt = MATH["sqrt"]


@device_function
def _pair(turn, number, players):
    """The indices of pair `number` in a round of the tournament, the smaller first."""
    one = (turn + number) % (players - 1)
    other = (turn - number + players - 1) % (players - 1) if number > 0 else players - 1
    return (one, other) if one < other else (other, one)


@cache
def _off_norm_function(real: type[np.floating]) -> Callable:
    """off_norm(x, first, side): sums of squares off the diagonal of a matrix, and of all of it."""
    block_sum = block_reduce_function(2)

    @device_function
    def off_norm(x, first, side):
        sums, tid = cuda.shared.array((2, BLOCK_SIZE), real), cuda.threadIdx.x
        sums[0, tid] = sums[1, tid] = real(0)
        for i in range(tid, side * side, BLOCK_SIZE):
            number = x[first + i] * x[first + i]
            sums[1, tid] += number
            if i // side != i % side:
                sums[0, tid] += number
        block_sum(sums)
        norms = sums[0, 0], sums[1, 0]
        cuda.syncthreads()
        return norms
    return off_norm


@cache
def _rotate_functions(real: type[np.floating]) -> tuple[Callable, Callable]:
    """angles(x, first, rotations, line, turn, side): cosine and sine for each pair of a round.
    rotate(x, first, rotations, line, turn, side, along, across): apply them to rows, or columns."""
    none, one, two = real(0), real(1), real(2)

    @device_function
    def angles(x, first, rotations, line, turn, side):
        players = side + side % 2
        for pair in range(cuda.threadIdx.x, players // 2, BLOCK_SIZE):
            p, q = _pair(turn, pair, players)
            cosine, sine = one, none
            if q < side:
                corner = x[first + p * side + q]
                if corner != none:
                    apart = (x[first + q * side + q] - x[first + p * side + p]) / (two * corner)
                    slope = one / (abs(apart) + sqrt(apart * apart + one))
                    slope = -slope if apart < none else slope
                    cosine = one / sqrt(slope * slope + one)
                    sine = slope * cosine
            rotations[line + 2 * pair], rotations[line + 2 * pair + 1] = cosine, sine
        cuda.syncthreads()

    @device_function
    def rotate(x, first, rotations, line, turn, side, along, across):
        players = side + side % 2
        for i in range(cuda.threadIdx.x, players // 2 * side, BLOCK_SIZE):
            p, q = _pair(turn, i // side, players)
            if q < side:
                one_at = first + p * across + i % side * along
                other_at = first + q * across + i % side * along
                cosine, sine = rotations[line + i // side * 2], rotations[line + i // side * 2 + 1]
                here, there = x[one_at], x[other_at]
                x[one_at] = cosine * here - sine * there
                x[other_at] = sine * here + cosine * there
        cuda.syncthreads()
    return angles, rotate


@cache
def _jacobi_kernel(real: type[np.floating]) -> CudaKernel:
    off_norm, limit = _off_norm_function(real), real(np.finfo(real).eps ** 2)
    angles, rotate = _rotate_functions(real)

    @block_stride
    def jacobi(matrix, x, vectors, rotations, side):
        players = side + side % 2
        first, line, sweep = matrix * side * side, matrix * (side + 1), 0
        apart, total = off_norm(x, first, side)
        while sweep < SWEEPS and apart > limit * total:
            for turn in range(players - 1):
                angles(x, first, rotations, line, turn, side)
                rotate(x, first, rotations, line, turn, side, 1, side)
                rotate(x, first, rotations, line, turn, side, side, 1)
                rotate(vectors, first, rotations, line, turn, side, 1, side)
            apart, total = off_norm(x, first, side)
            sweep += 1
    return jacobi


@cache
def _order_kernel(real: type[np.floating]) -> CudaKernel:
    """Sort eigenvalues ascending and make the largest element of each vector positive; a thread per
    vector."""
    none = real(0)

    @grid_stride
    def order_eigen(i, x, vectors, u, values, side):
        matrix, k = i // side * side, i % side
        value, rank = x[i * side + k], 0
        for other in range(side):
            rival = x[(matrix + other) * side + other]
            if rival < value or (rival == value and other < k):
                rank += 1
        largest = none
        for column in range(side):
            number = vectors[i * side + column]
            if abs(number) > abs(largest):
                largest = number
        for column in range(side):
            number = vectors[i * side + column]
            u[(matrix + rank) * side + column] = -number if largest < none else number
        values[matrix + rank] = value
    return order_eigen


def eigen_scratch(a: Spec) -> list[Spec]:
    """The scratch of `eigen`."""
    *lead, side, _ = a.shape
    return [a, a, Spec((*lead, side + 1), a.dtype)]


def eigen(a: Array, u: Array, values: Array, scratch: Arrays) -> list[Launch]:
    """Launches that write eigenvectors, as rows of u, and eigenvalues of symmetric matrices, of
    which the lower triangle is read."""
    (*_, side, _), real, (x, vectors, rotations) = a.shape, real_of(a.dtype), scratch
    return [*square(MIRRORED, a, x), *square(IDENTITY, a, vectors),
            *each_block(_jacobi_kernel(real), a.size // (side * side), x, vectors, rotations, side),
            *each(_order_kernel(real), values.size, x, vectors, u, values, side)]
