"""`mx.nd.contrib`: `box_nms` is the op `_contrib_box_nms`, and so on; tests of numbers; loops."""

from __future__ import annotations

from math import log
from typing import Any

from ..context import Context
from .control import cond, foreach, while_loop
from .functions import namespace
from .ndarray import NDArray
from .random import uniform
from .update import (
    adamw_update,
    mp_adamw_update,
    multi_adamw_update,
    multi_lamb_update,
    multi_mp_adamw_update,
    multi_mp_lamb_update,
)

__all__ = ["adamw_update", "cond", "foreach", "isfinite", "isinf", "isnan",
           "mp_adamw_update", "multi_adamw_update", "multi_lamb_update",
           "multi_mp_adamw_update", "multi_mp_lamb_update", "rand_zipfian",
           "while_loop"]

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


def rand_zipfian(true_classes: NDArray, num_sampled: int, range_max: int,
                 ctx: Context | None = None) -> tuple[NDArray, NDArray, NDArray]:
    """Classes below `range_max` drawn with P(c) = log((c + 2) / (c + 1)) / log(range_max + 1).

    Returns (draws, expected count of `true_classes`, expected count of the draws), the draws as
    int64, the counts as float64.
    """
    drawn = uniform(0, log(range_max + 1), (num_sampled,), "float64", ctx)
    return zipfian(drawn, true_classes, num_sampled, range_max)


def zipfian(drawn: Any, true_classes: Any, num_sampled: int, range_max: int) -> tuple:
    """`rand_zipfian`, from numbers drawn evenly; for arrays and symbols."""
    sampled = (drawn.exp() - 1).astype("int64") % range_max

    def expected(classes: Any) -> Any:
        number = classes.astype("float64")
        return ((number + 2) / (number + 1)).log() * (num_sampled / log(range_max + 1))

    return sampled, expected(true_classes), expected(sampled)
