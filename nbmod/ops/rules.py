"""Rules that op families share: which inputs decide the element type, and what gets no gradient.

Many ops have one tensor that carries the data and others that only steer (indices, a tensor whose
shape is copied).  The data's element type is the output's; the steering inputs may have any type,
and their gradient is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from .op import PartialType

__all__ = ["common_type", "copy_over", "data_type", "fill_zero"]


def common_type(types: Iterable[PartialType]) -> PartialType:
    """The one element type among those known; None if none is."""
    known = [dtype for dtype in types if dtype is not None]
    for dtype in known:
        if dtype != known[0]:
            raise MXNetError(f"element types {known[0]} and {dtype} do not agree; insert a Cast")
    return known[0] if known else None


def data_type(ins: list[PartialType], outs: list[PartialType]
              ) -> tuple[list[PartialType], list[PartialType]]:
    """Type rule of ops whose outputs have the type of their first input, the others any."""
    dtype = common_type([ins[0], *outs])
    return [dtype, *ins[1:]], [dtype] * len(outs)


def fill_zero(arrays: Sequence[Any]) -> None:
    """Zero gradients, where they are wanted."""
    for array in arrays:
        if array is not None:
            array.fill(0)


def copy_over(x: np.ndarray, y: np.ndarray) -> None:
    """y = x, for arrays that are either apart or the same memory (an in-place pair)."""
    if not np.may_share_memory(x, y):
        np.copyto(y, x)
