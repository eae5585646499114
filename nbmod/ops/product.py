"""Products of matrices, by the kernels of convolution: a matrix is an image of one row per channel.

    c = a b        one column of b is a pixel, one row a channel: the filters are a
    c = a b^T      both are read along rows, as for the gradient of a weight

Why not BLAS: threads of OpenBLAS wait by spinning.  On a machine that has anything else to do, such
as the next kernel, its calls then take 20 to 50 times as long, and slow down what follows them.
Small products are BLAS's all the same: OpenBLAS does them on the calling thread, in 1 to 3 us, and
to enter a parallel kernel takes 10 us.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .contraction import contract, correlate, plan_columns, plan_rows
from .geometry import Window
from .jit import num_threads
from .op import Spec

__all__ = ["by_columns", "by_columns_scratch", "by_rows", "by_rows_scratch"]


SMALL = 1 << 16
"""Multiplications up to which a product is BLAS's; from 4 times as many OpenBLAS uses threads."""


def by_columns_scratch(rows: int, depth: int, columns: int, dtype: Any) -> Spec:
    """Scratch for `by_columns` of rows x depth and depth x columns."""
    if rows * depth * columns <= SMALL:
        return Spec((0,), dtype)
    return Spec(plan_columns(1, rows, depth, columns, (1, 1), num_threads())[1], dtype)


def by_columns(a: Any, b: Any, c: Any, work: Any) -> Callable[[], None]:
    """c (M, N) = a (M, K) b (K, N), all contiguous; a may also be the transpose of what is."""
    rows, depth = a.shape
    if rows * depth * b.shape[1] <= SMALL:
        return partial(np.matmul, a, b, out=c)
    strides = a.strides[0] // a.itemsize, a.strides[1] // a.itemsize
    plan, _ = plan_columns(1, rows, depth, b.shape[1], strides, len(work))
    table = Window.pixelwise(b.shape[1]).table()
    flat = (a.T if strides[1] > strides[0] else a).reshape(-1)
    return partial(contract, b[None], table, flat, c[None], table, np.zeros(len(c), c.dtype), plan,
                   work)


def by_rows_scratch(rows: int, columns: int, depth: int, dtype: Any) -> Spec:
    """Scratch for `by_rows` of rows x depth and columns x depth."""
    if rows * columns * depth <= SMALL:
        return Spec((0,), dtype)
    return Spec(plan_rows(1, rows, columns, depth, num_threads())[1], dtype)


def by_rows(a: Any, b: Any, c: Any, work: Any) -> Callable[[], None]:
    """c (M, N) = a (M, K) b^T, b (N, K); all contiguous."""
    if a.size * len(b) <= SMALL:
        return partial(np.matmul, a, b.T, out=c)
    plan, _ = plan_rows(1, len(a), len(b), a.shape[1], len(work))
    table = Window.pixelwise(a.shape[1]).table()
    return partial(correlate, b[None], table, a[None], table, c.reshape(-1), plan, work)
