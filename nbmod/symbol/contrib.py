"""Ops of the contrib namespace, `contrib.X` is the op `_contrib_X`; and control flow."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from .control import cond, foreach, while_loop
from .namespace import lookup
from .random import uniform
from .symbol import Symbol

if TYPE_CHECKING:
    from ._op_stubs.contrib import *  # noqa: F403

__all__ = ["cond", "foreach", "rand_zipfian", "while_loop"]

__getattr__, _ops = lookup(__name__, ("_contrib_",))


def __dir__() -> list[str]:
    return sorted({*__all__, *_ops()})


def rand_zipfian(true_classes: Symbol, num_sampled: int, range_max: int
                 ) -> tuple[Symbol, Symbol, Symbol]:
    """`nd.contrib.rand_zipfian` of a symbol."""
    from ..ndarray.contrib import zipfian

    drawn = uniform(0, log(range_max + 1), (num_sampled,), "float64")
    return zipfian(drawn, true_classes, num_sampled, range_max)
