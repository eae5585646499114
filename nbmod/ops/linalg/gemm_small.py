"""Products of small or thin matrices, for which packing takes longer than multiplying.

    ROWS, COLUMNS   four terms at a time are added to a row of c, or to a column, which is as long
                    as the matrix is high: for few terms
    DOTS            every element of c is a sum over terms: for few elements

Factors are read in place, however they lie.  A sum is formed in an order that follows from the way
and the number of terms.
"""

from __future__ import annotations

import numpy as np

from ..jit import inlined, kernel, prange
from .gemm_plan import Plan

__all__ = ["PACKED", "multiply_small", "multiply_small_here", "small_way"]

PACKED, ROWS, COLUMNS, DOTS = range(4)
SMALL = 1 << 16
"""Multiplications up to which a matrix is small: one thread computes it alone."""
LINE, APART, SUM, STEP = 30, 2.5, 60, 4
"""Cycles to add terms to a line of c, besides those of its numbers, and of a number where they lie
apart; to begin a sum, and of a term of one that lies apart."""


def small_way(sizes: tuple[int, int, int], left: tuple[int, int], right: tuple[int, int],
              pitch: int, plan: Plan) -> int:
    """The fastest way, by a rough count of cycles; PACKED: by the tiles of `product`.

    sizes        rows, terms and columns of a matrix
    left, right  from one row to the next in a factor, and from one column
    pitch        from one row of the result to the next
    """
    rows, depth, columns = sizes
    if rows * depth * columns > SMALL:
        return PACKED
    adds, width = depth // 4 + depth % 4, plan.width
    along = 4 / width if right[1] == 1 else APART
    down = 4 / width if left[0] == pitch == 1 else APART
    each = 4 / width if left[1] == right[0] == 1 else STEP
    costs = {ROWS: rows * adds * (columns * along + LINE),
             COLUMNS: columns * adds * (rows * down + LINE),
             DOTS: rows * columns * (depth * each + SUM),
             PACKED: (plan.cost(1) + plan.edges) / plan.stack}
    return min(costs, key=lambda way: costs[way])


@inlined(fastmath=True)
def _add_four(factors, b, at, step, along, c, place, pitch, count):
    """c[place + i pitch] += sum of factors[j] b[at + j step + i along], j from 0 to 3."""
    a0, a1, a2, a3 = factors
    b0, b1, b2, b3 = (np.uintp(at), np.uintp(at + step), np.uintp(at + 2 * step),
                      np.uintp(at + 3 * step))
    to, near, far = np.uintp(place), np.uintp(along), np.uintp(pitch)
    if along == 1 and pitch == 1:
        for i in range(count):
            k = np.uintp(i)
            c[to + k] += a0 * b[b0 + k] + a1 * b[b1 + k] + a2 * b[b2 + k] + a3 * b[b3 + k]
    else:
        for i in range(count):
            k, here = np.uintp(i) * near, to + np.uintp(i) * far
            c[here] += a0 * b[b0 + k] + a1 * b[b1 + k] + a2 * b[b2 + k] + a3 * b[b3 + k]


@inlined(fastmath=True)
def _add_one(factor, b, at, along, c, place, pitch, count):
    source, to, near, far = np.uintp(at), np.uintp(place), np.uintp(along), np.uintp(pitch)
    for i in range(count):
        c[to + np.uintp(i) * far] += factor * b[source + np.uintp(i) * near]


@inlined
def _lines(a, b, c, alpha, at, outer, inner, count, depth, add):
    """Lines of c, one after the other: count[0] of them, count[1] numbers long.

    outer  from one line to the next in a and in c, from one term to the next in a
    inner  from one number to the next in b and in c, from one term to the next in b
    """
    for i in range(count[0]):
        first, place = at[0] + i * outer[0], at[2] + i * outer[1]
        if not add:
            for j in range(count[1]):
                c[np.uintp(place + j * inner[1])] = 0
        for k in range(0, depth - 3, 4):
            one = first + k * outer[2]
            factors = (alpha * a[one], alpha * a[one + outer[2]], alpha * a[one + 2 * outer[2]],
                       alpha * a[one + 3 * outer[2]])
            _add_four(factors, b, at[1] + k * inner[2], inner[2], inner[0], c, place, inner[1],
                      count[1])
        for k in range(depth // 4 * 4, depth):
            _add_one(alpha * a[first + k * outer[2]], b, at[1] + k * inner[2], inner[0], c, place,
                     inner[1], count[1])


@inlined(fastmath=True)
def _dot(a, at, step, b, to, along, count):
    """Sum of a[at + k step] b[to + k along]."""
    total, one, other = a.dtype.type(0), np.uintp(at), np.uintp(to)
    if step == 1 and along == 1:
        for k in range(count):
            total += a[one + np.uintp(k)] * b[other + np.uintp(k)]
    else:
        near, far = np.uintp(step), np.uintp(along)
        for k in range(count):
            total += a[one + np.uintp(k) * near] * b[other + np.uintp(k) * far]
    return total


@inlined
def _matrix(a, b, c, alpha, at, steps, sizes, way, add):
    """One matrix; steps: from row to row and column to column in a and in b, row to row in c."""
    rows, depth, columns = sizes
    if way == ROWS:
        _lines(a, b, c, alpha, at, (steps[0], steps[4], steps[1]), (steps[3], 1, steps[2]),
               (rows, columns), depth, add)
    elif way == COLUMNS:
        _lines(b, a, c, alpha, (at[1], at[0], at[2]), (steps[3], 1, steps[2]),
               (steps[0], steps[4], steps[1]), (columns, rows), depth, add)
    else:
        for i in range(rows):
            for j in range(columns):
                place = at[2] + i * steps[4] + j
                total = alpha * _dot(a, at[0] + i * steps[0], steps[1], b, at[1] + j * steps[3],
                                     steps[2], depth)
                c[place] = c[place] + total if add else total


@kernel(parallel=True)
def multiply_small(a, b, c, alpha, places, steps, sizes, way, add):
    """c = alpha a b, or added to c, of a stack; all flat, `places` where each begins."""
    for n in prange(len(places)):
        _matrix(a, b, c, alpha, (places[n, 0], places[n, 1], places[n, 2]), steps, sizes, way, add)


@kernel
def multiply_small_here(a, b, c, alpha, places, steps, sizes, way, add):
    """The same on the calling thread."""
    for n in range(len(places)):
        _matrix(a, b, c, alpha, (places[n, 0], places[n, 1], places[n, 2]), steps, sizes, way, add)
