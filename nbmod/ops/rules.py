"""Rules that op families share: which inputs decide the element type, which get no gradient, and
how a parameter is cast to a type.

Many ops have one data tensor, whose element type is that of the output, and others that only select
(`index_inputs`, or a tensor whose shape is copied).  These may have any type, and their gradient
is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from .op import Types, common_type

__all__ = ["common_type", "copy_over", "data_type", "fill_zero", "to_type"]


def data_type(ins: Types, outs: Types) -> tuple[Types, Types]:
    """Type rule of ops whose outputs have the type of their first input, the others any."""
    dtype = common_type([ins[0], *outs])
    return [dtype, *ins[1:]], [dtype] * len(outs)


def to_type(value: float, dtype: np.dtype) -> Any:
    """A scalar cast to an element type as in C: integers are truncated and wrap around."""
    if dtype.kind in "iu" and isfinite(value):
        bits = 8 * dtype.itemsize
        return np.array(int(value) % (1 << bits), np.uint64).astype(dtype)[()]
    return np.float64(value).astype(dtype)


def fill_zero(arrays: Sequence[Any]) -> None:
    """Zero gradients, where they are wanted."""
    for array in arrays:
        if array is not None:
            array.fill(0)


def copy_over(x: np.ndarray, y: np.ndarray) -> None:
    """y = x, for arrays that are either disjoint or the same memory (an in-place pair)."""
    if not np.may_share_memory(x, y):
        np.copyto(y, x)
