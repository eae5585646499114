"""Arrays filled with a constant."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..runtime.device_memory import Array
from ..runtime.launch import Launch, each, grid_stride

__all__ = ["fill", "fill_zero"]


@cache
def _fill_kernel() -> Any:
    @grid_stride
    def fill(i, y, value):
        y[i] = value
    return fill


def fill(array: Array, value: Any) -> list[Launch]:
    """Launches that fill an array with `value`, cast to its type."""
    number = bool(value) if array.dtype == np.bool_ else array.dtype.type(value)
    return each(_fill_kernel(), array.size, array, number)


def fill_zero(arrays: Any) -> list[Launch]:
    """Launches that zero the arrays that are not None, such as gradients that are 0."""
    return [launch for array in arrays if array is not None for launch in fill(array, 0)]
