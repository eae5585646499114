"""Products of a few rows by dot products, which pack nothing: c = a b^T, a (M, K), b (N, K).

For few rows, copying b into panels takes longer than the product does.  Here b is read as it lies,
some rows of it at a time while they are in cache for all rows of a.  Rows of a are taken in fours:
as long as a is divided at multiples of GROUP, no sum depends on how it is divided.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..jit import inlined, kernel, prange
from .dot_products import outer

__all__ = ["FEW", "GROUP", "add_dots", "few_rows"]

FEW = 16
"""Rows up to which this is faster than packing."""
GROUP = 4
_COLUMNS = 64


@inlined
def add_dots(a, b, c, ct, pitch):
    """c (M, N) += a b^T; c is flat and its rows begin `pitch` apart, the first at `ct`."""
    for first in range(0, len(b), _COLUMNS):
        part = b[first:min(len(b), first + _COLUMNS)]
        outer(a, len(a), part, len(part), a.shape[1], c, ct + first, pitch)


@kernel(parallel=True)
def _multiply(a, b, base, c, pitch):
    """c = base + a b^T, c flat."""
    columns = b.shape[0]
    for block in prange((columns + _COLUMNS - 1) // _COLUMNS):
        first = np.int64(block) * _COLUMNS
        last = min(columns, first + _COLUMNS)
        for r in range(len(a)):
            for j in range(first, last):
                c[r * pitch + j] = base[j]
        add_dots(a, b[first:last], c, first, pitch)


def few_rows(a: Any, b: Any, base: Any, c: Any) -> Callable[[], None]:
    """A function that does c = base + a b^T; a and b contiguous, c a view with contiguous rows."""
    pitch = c.strides[0] // c.itemsize
    flat = np.lib.stride_tricks.as_strided(c, ((len(c) - 1) * pitch + c.shape[1],), (c.itemsize,))
    return partial(_multiply, a, b, base, flat, pitch)
