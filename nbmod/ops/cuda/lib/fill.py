"""Arrays filled with a constant."""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np

from ...dispatch import Prepare
from ...op import Call, Op
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import Launch, each, grid_stride

__all__ = ["fill", "fill_zero", "first_gradient"]


@grid_stride
def _fill(i, y, value):
    y[i] = value


def fill(array: Array, value: np.generic | float) -> list[Launch]:
    """Launches that fill an array with `value`, cast to its type."""
    number = bool(value) if array.dtype == np.bool_ else array.dtype.type(value)
    return each(_fill, array.size, array, number)


def first_gradient(backward: Prepare) -> Prepare:
    """Decorator of twins that write the gradient of the first input, if it is requested; the other
    inputs have gradients of 0."""
    @wraps(backward)
    def prepare(op: Op, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
        return fill_zero(outs[1:]) + ([] if outs[0] is None else backward(op, ins, outs, call))
    return prepare


def fill_zero(arrays: Outputs) -> list[Launch]:
    """Launches that zero the arrays that are not None, such as gradients that are 0."""
    return [launch for array in arrays if array is not None for launch in fill(array, 0)]
