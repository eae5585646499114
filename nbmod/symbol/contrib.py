"""`mx.sym.contrib`: `contrib.X` is the op `_contrib_X`; and control flow."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from .control_flow import cond, foreach, while_loop  # noqa: F401 - names of this module
from .namespace import lookup
from .random import uniform
from .symbol import Symbol

if TYPE_CHECKING:
    from ._op_stubs.contrib import *  # noqa: F403

_get, _ops = lookup(__name__, ("_contrib_",))


def _load(name: str) -> object:
    return __dir__() if name == "__all__" else _get(name)


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({"cond", "foreach", "rand_zipfian", "while_loop", *_ops()})


def rand_zipfian(true_classes: Symbol, num_sampled: int, range_max: int
                 ) -> tuple[Symbol, Symbol, Symbol]:
    """Draw classes from an approximately Zipfian distribution.

    Parameters
    ----------
    true_classes, num_sampled, range_max
        As for `nd.contrib.rand_zipfian`, with a symbol instead of an array.

    Returns
    -------
    tuple of 3 Symbol
        Draws, expected counts of `true_classes` among them, and expected counts of the draws.
    """
    from ..ndarray.contrib import zipfian

    drawn = uniform(0, log(range_max + 1), (num_sampled,), "float64")
    return zipfian(drawn, true_classes, num_sampled, range_max)
