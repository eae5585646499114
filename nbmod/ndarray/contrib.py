"""`mx.nd.contrib`: `box_nms` is the op `_contrib_box_nms`, and so on; and tests of numbers."""

from __future__ import annotations

from typing import Any

from .functions import namespace
from .ndarray import NDArray

__getattr__, __dir__ = namespace(__name__, "_contrib_")


def isnan(data: NDArray) -> Any:
    """1 where an element is not a number, else 0."""
    return data != data


def isinf(data: NDArray) -> Any:
    """1 where an element is infinite, else 0."""
    return data.abs() == float("inf")


def isfinite(data: NDArray) -> Any:
    """1 where an element is a finite number, else 0."""
    return (data - data) == 0
