"""`mx.nd.contrib`: `contrib.X` is the op `_contrib_X`; predicates of elements; control flow."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any, TypeAlias

from ..context import Context
from .control_flow import cond, foreach, while_loop
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

if TYPE_CHECKING:
    from ._op_stubs import contrib as _op_stub
    from ._op_stubs.contrib import *  # noqa: F403

__all__ = ["adamw_update", "cond", "foreach", "isfinite", "isinf", "isnan",
           "mp_adamw_update", "multi_adamw_update", "multi_lamb_update",
           "multi_mp_adamw_update", "multi_mp_lamb_update", "rand_zipfian",
           "while_loop"]
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += _op_stub.__all__

_get, __dir__ = namespace(__name__, "_contrib_")

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get


def isnan(data: NDArray) -> NDArray:
    """Return 1 where an element is not a number (NaN), and 0 elsewhere.

    Parameters
    ----------
    data : NDArray
        Array.

    Examples
    --------
    >>> x = mx.nd.array([1, float("nan"), -float("inf")])
    >>> [predicate(x).asnumpy().tolist() for predicate in
    ...  (mx.nd.contrib.isnan, mx.nd.contrib.isinf, mx.nd.contrib.isfinite)]
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return data != data


def isinf(data: NDArray) -> NDArray:
    """Return 1 where an element is infinite, and 0 elsewhere.

    Parameters
    ----------
    data : NDArray
        Array.
    """
    return data.abs() == float("inf")


def isfinite(data: NDArray) -> NDArray:
    """Return 1 where an element is neither infinite nor NaN, and 0 elsewhere.

    Parameters
    ----------
    data : NDArray
        Array.
    """
    return (data - data) == 0


def rand_zipfian(true_classes: NDArray, num_sampled: int, range_max: int,
                 ctx: Context | None = None) -> tuple[NDArray, NDArray, NDArray]:
    """Draw classes from an approximately Zipfian distribution.

    Parameters
    ----------
    true_classes : NDArray
        Classes whose expected counts are returned.
    num_sampled : int
        Number of draws.
    range_max : int
        Number of classes; draws are below it.
    ctx : Context, optional
        Device of the draws; None: the current context.

    Returns
    -------
    NDArray
        Draws, int64.
    NDArray
        Expected counts of `true_classes` among the draws, float64.
    NDArray
        Expected counts of the draws, float64.

    Notes
    -----
    P(c) = log((c + 2) / (c + 1)) / log(range_max + 1).
    """
    drawn = uniform(0, log(range_max + 1), (num_sampled,), "float64", ctx)
    return zipfian(drawn, true_classes, num_sampled, range_max)


Tensor: TypeAlias = Any  # type: ignore[explicit-any]
"""An array or a symbol, which have the same methods but no common base."""


def zipfian(drawn: Tensor, true_classes: Tensor, num_sampled: int, range_max: int
            ) -> tuple[Tensor, Tensor, Tensor]:
    """Turn uniform draws into the results of `rand_zipfian`, for arrays and symbols.

    Parameters
    ----------
    drawn : NDArray or Symbol
        Draws from the uniform distribution over [0, log(range_max + 1)).
    true_classes, num_sampled, range_max
        As for `rand_zipfian`.
    """
    sampled = (drawn.exp() - 1).astype("int64") % range_max

    def expected(classes: Tensor) -> Tensor:
        number = classes.astype("float64")
        return ((number + 2) / (number + 1)).log() * (num_sampled / log(range_max + 1))

    return sampled, expected(true_classes), expected(sampled)
