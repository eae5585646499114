"""Products of small or thin matrices, for which packing takes longer than multiplying.

    AXPY_ROWS, AXPY_COLUMNS    four terms at a time are added to a row or column of C: for few terms
    OUTER_ROWS, OUTER_COLUMNS  tiles of C, vectors of a row or column, are sums of outer products in
                               registers: for many terms of few rows or columns
    DOT                        every element of C is a dot product: for few elements

Operands are read in place, whatever their strides.  The rounding of a sum depends on the method and
the number of terms.
"""

from __future__ import annotations

import numpy as np

from ..jit import inlined, kernel, prange
from ..simd.gemm_microkernel import OUTER_MR, OuterShape, outer_tile
from ..simd.raw_arrays import stack_buffer
from .gemm_plan import GemmPlan, GemmStrides, Start, choose_method, plan_gemm

__all__ = ["AXPY_COLUMNS", "AXPY_ROWS", "DOT", "OUTER_COLUMNS", "OUTER_ROWS", "PACKED",
           "choose_small_method", "gemm_cycles", "gemm_small", "gemm_small_serial",
           "is_long_column"]

PACKED, AXPY_ROWS, AXPY_COLUMNS, DOT, OUTER_ROWS, OUTER_COLUMNS = range(6)
MAX_MULTIPLICATIONS, MAX_MULTIPLICATIONS_FEW = 1 << 16, 1 << 20
"""Multiplications up to which a matrix is small: one thread computes it alone.  The latter where C
has at most FEW elements, which no blocking would share among threads."""
FEW = 256
LINE_CYCLES, STRIDED_CYCLES, SUM_CYCLES, TERM_CYCLES = 30, 2.5, 60, 4
"""Per row or column of C that terms are added to; per strided element; per dot product; per strided
term of one."""
OUTER_TILE_CYCLES = 140
"""Per tile of outer products; each of its terms takes a cycle for each load."""


def choose_small_method(strides: GemmStrides, plan: GemmPlan) -> int:
    """The fastest method by a rough count of cycles; PACKED: the blocked algorithm of `gemm`."""
    costs = _cycles(strides, plan)
    return min(costs, key=lambda method: costs[method])


def is_long_column(m: int, k: int, n: int) -> bool:
    """Whether C is a column, and the product is not small: as a row of C' it fills micro-tiles."""
    return n == 1 < m and m * k > MAX_MULTIPLICATIONS


def gemm_cycles(m: int, k: int, n: int, stack: int, lanes: int, order: str) -> float:
    """Estimated cycles of one thread for a stack of products by the fastest method; `order` as for
    `choose_method`."""
    plan = plan_gemm(m, k, n, stack, lanes, 1, choose_method(m, k, n, lanes, order))
    a, b = (k, 1) if order[0] == "C" else (1, m), (n, 1) if order[1] == "C" else (1, k)
    return stack * min(_cycles(GemmStrides(*a, *b, n), plan).values())


def _cycles(strides: GemmStrides, plan: GemmPlan) -> dict[int, float]:
    """Cycles of one product by each method that applies."""
    m, k, n = plan.m, plan.k, plan.n
    packed = (plan.cost(1) + plan.edge_cost) / plan.stack
    if m * k * n > (MAX_MULTIPLICATIONS_FEW if m * n <= FEW else MAX_MULTIPLICATIONS):
        return {PACKED: packed}
    adds, contiguous = k // 4 + k % 4, 4 / plan.lanes
    along = contiguous if strides.b_column == 1 else STRIDED_CYCLES
    down = contiguous if strides.a_row == strides.c_row == 1 else STRIDED_CYCLES
    term = contiguous if strides.a_column == strides.b_row == 1 else TERM_CYCLES
    costs = {AXPY_ROWS: m * adds * (n * along + LINE_CYCLES),
             AXPY_COLUMNS: n * adds * (m * down + LINE_CYCLES),
             DOT: m * n * (k * term + SUM_CYCLES), PACKED: packed}
    tile = k * (OUTER_MR + 1) + OUTER_TILE_CYCLES
    if strides.b_column == 1:
        costs[OUTER_ROWS] = -(-m // OUTER_MR) * -(-n // plan.lanes) * tile
    if strides.a_row == 1:
        costs[OUTER_COLUMNS] = -(-n // OUTER_MR) * -(-m // plan.lanes) * tile
    return costs


@inlined(fastmath=True)
def _axpy4(factors, x, start, term, x_step, y, y_start, y_step, count):
    """y[y_start + i y_step] += sum of factors[j] x[start + j term + i x_step], j from 0 to 3."""
    a0, a1, a2, a3 = factors
    x0, x1, x2, x3 = (np.uintp(start), np.uintp(start + term), np.uintp(start + 2 * term),
                      np.uintp(start + 3 * term))
    to, near, far = np.uintp(y_start), np.uintp(x_step), np.uintp(y_step)
    if x_step == 1 and y_step == 1:
        for i in range(count):
            k = np.uintp(i)
            y[to + k] += a0 * x[x0 + k] + a1 * x[x1 + k] + a2 * x[x2 + k] + a3 * x[x3 + k]
    else:
        for i in range(count):
            k, here = np.uintp(i) * near, to + np.uintp(i) * far
            y[here] += a0 * x[x0 + k] + a1 * x[x1 + k] + a2 * x[x2 + k] + a3 * x[x3 + k]


@inlined(fastmath=True)
def _axpy(factor, x, start, x_step, y, y_start, y_step, count):
    source, to, near, far = np.uintp(start), np.uintp(y_start), np.uintp(x_step), np.uintp(y_step)
    for i in range(count):
        y[to + np.uintp(i) * far] += factor * x[source + np.uintp(i) * near]


@inlined
def _axpy_rows(a, b, c, alpha, start, strides, c_column, sizes, add):
    """C, row by row; columns of a C' = B' A' are its rows."""
    rows, depth, columns = sizes
    term = strides.a_column
    for i in range(rows):
        first, c_start = start.a + i * strides.a_row, start.c + i * strides.c_row
        if not add:
            for j in range(columns):
                c[np.uintp(c_start + j * c_column)] = 0
        for k in range(0, depth - 3, 4):
            at = first + k * term
            factors = (alpha * a[at], alpha * a[at + term], alpha * a[at + 2 * term],
                       alpha * a[at + 3 * term])
            _axpy4(factors, b, start.b + k * strides.b_row, strides.b_row, strides.b_column, c,
                   c_start, c_column, columns)
        for k in range(depth // 4 * 4, depth):
            _axpy(alpha * a[first + k * term], b, start.b + k * strides.b_row, strides.b_column, c,
                  c_start, c_column, columns)


@inlined(fastmath=True)
def _dot(a, start, a_step, b, b_start, b_step, count):
    """Sum of a[start + k a_step] b[b_start + k b_step]."""
    total, one, other = a.dtype.type(0), np.uintp(start), np.uintp(b_start)
    if a_step == 1 and b_step == 1:
        for k in range(count):
            total += a[one + np.uintp(k)] * b[other + np.uintp(k)]
    else:
        near, far = np.uintp(a_step), np.uintp(b_step)
        for k in range(count):
            total += a[one + np.uintp(k) * near] * b[other + np.uintp(k) * far]
    return total


@inlined
def _outer_rows(a, b, c, alpha, start, strides, c_column, sizes, lanes, add):
    """C, tile by tile; columns of a C' = B' A' are its rows."""
    rows, depth, columns = sizes
    tile = stack_buffer(a.dtype)
    for i in range(0, rows, OUTER_MR):
        high = min(OUTER_MR, rows - i)
        for j in range(0, columns, lanes):
            wide = min(lanes, columns - j)
            outer_tile(a, b, tile, (start.a + i * strides.a_row, start.b + j),
                       OuterShape(depth, high, wide, strides.a_row, strides.a_column,
                                  strides.b_row))
            for r in range(high):
                for k in range(wide):
                    at = start.c + (i + r) * strides.c_row + (j + k) * c_column
                    total = alpha * tile[r * lanes + k]
                    c[at] = c[at] + total if add else total


@inlined
def _multiply_matrix(a, b, c, alpha, start, strides, sizes, lanes, method, add):
    rows, depth, columns = sizes
    swapped = Start(start.b, start.a, start.c), GemmStrides(
        strides.b_column, strides.b_row, strides.a_column, strides.a_row, 1)
    if method == AXPY_ROWS:
        _axpy_rows(a, b, c, alpha, start, strides, 1, sizes, add)
    elif method == AXPY_COLUMNS:
        _axpy_rows(b, a, c, alpha, *swapped, strides.c_row, (columns, depth, rows), add)
    elif method == OUTER_ROWS:
        _outer_rows(a, b, c, alpha, start, strides, 1, sizes, lanes, add)
    elif method == OUTER_COLUMNS:
        _outer_rows(b, a, c, alpha, *swapped, strides.c_row, (columns, depth, rows), lanes, add)
    else:
        for i in range(rows):
            for j in range(columns):
                at = start.c + i * strides.c_row + j
                total = alpha * _dot(a, start.a + i * strides.a_row, strides.a_column, b,
                                     start.b + j * strides.b_column, strides.b_row, depth)
                c[at] = c[at] + total if add else total


@kernel(parallel=True)
def gemm_small(a, b, c, alpha, starts, strides, sizes, lanes, method, add):
    """C = alpha A B, or added to C, of a stack; a, b, c are flat, `starts` their offsets."""
    strides = GemmStrides(*strides)
    for n in prange(len(starts)):
        _multiply_matrix(a, b, c, alpha, Start(starts[n, 0], starts[n, 1], starts[n, 2]), strides,
                         sizes, lanes, method, add)


@kernel
def gemm_small_serial(a, b, c, alpha, starts, strides, sizes, lanes, method, add):
    """Compute `gemm_small` on the calling thread."""
    strides = GemmStrides(*strides)
    for n in range(len(starts)):
        _multiply_matrix(a, b, c, alpha, Start(starts[n, 0], starts[n, 1], starts[n, 2]), strides,
                         sizes, lanes, method, add)
