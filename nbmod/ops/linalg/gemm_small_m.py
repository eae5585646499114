"""Products of few rows by dot products, which pack nothing: C = A B', A (M, K), B (N, K).

For few rows, packing B takes longer than the product.  Here B is read in place, some rows of it at
a time while they are in cache for all rows of A.  Rows of A are processed in fours: as long as A is
divided at multiples of ROW_GROUP, no sum depends on how it is divided.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..jit import inlined, kernel, prange
from ..op import Run
from ..simd.raw_arrays import flat_memory
from .dot_products import add_gemm_nt

__all__ = ["MAX_ROWS", "ROW_GROUP", "add_gemm_small_m", "prepare_gemm_small_m"]

MAX_ROWS = 16
"""Rows up to which this is faster than packing."""
ROW_GROUP = 4
_COLUMNS = 64


@inlined
def add_gemm_small_m(a, b, c, start, pitch):
    """C (M, N) += A B'; c is flat, its rows begin `pitch` apart, the first at `start`."""
    for first in range(0, len(b), _COLUMNS):
        part = b[first:min(len(b), first + _COLUMNS)]
        add_gemm_nt(a, len(a), part, len(part), a.shape[1], c, start + first, pitch)


@kernel(parallel=True)
def _multiply(a, b, bias, c, pitch):
    """C = bias + A B', c flat."""
    columns = b.shape[0]
    for block in prange((columns + _COLUMNS - 1) // _COLUMNS):
        first = np.int64(block) * _COLUMNS
        last = min(columns, first + _COLUMNS)
        for r in range(len(a)):
            for j in range(first, last):
                c[r * pitch + j] = bias[j]
        add_gemm_small_m(a, b[first:last], c, first, pitch)


def prepare_gemm_small_m(a: np.ndarray, b: np.ndarray, bias: np.ndarray, c: np.ndarray) -> Run:
    """A function that computes C = bias + A B'; a, b contiguous, c a view with contiguous rows."""
    return partial(_multiply, a, b, bias, flat_memory(c), c.strides[0] // c.itemsize)
