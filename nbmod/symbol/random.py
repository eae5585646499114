"""`mx.sym.random`: samples from probability distributions.

Each function takes the parameters of the distribution as numbers, and then `shape` is the shape of
the result, or as symbols, and then `shape` is that of the draws for each of their elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..base import CheckError
from ..ops.signature import _Null, _NullType
from .namespace import lookup, symbol_function
from .symbol import Symbol

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..base import Forwarded
    from ._op_stubs import random as _op_stub
    from ._op_stubs.random import *  # noqa: F403

__all__ = ["uniform", "normal", "randn", "gamma", "exponential", "poisson", "negative_binomial",
           "generalized_negative_binomial", "multinomial", "shuffle", "randint"]
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += _op_stub.__all__

Operand: TypeAlias = "Symbol | float"
Size: TypeAlias = "int | Sequence[int] | _NullType"
ElementType: TypeAlias = "DTypeLike | _NullType"

_get, _ops = lookup(__name__, ("_random_",), lambda name: name.endswith("_like"))

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get


def __dir__() -> list[str]:
    return sorted({*__all__, *_ops()})


def _draw(distribution: str, params: dict[str, Operand], shape: Size, dtype: ElementType,
          kwargs: dict[str, Forwarded]) -> Symbol:
    """Apply `_random_<distribution>` to numbers or `_sample_<distribution>` to symbols."""
    symbolic = [isinstance(value, Symbol) for value in params.values()]
    if any(symbolic) and not all(symbolic):
        raise CheckError(f"random.{distribution}: parameters must be all numbers or all symbols, "
                         f"given {params}")
    family = "_sample_" if any(symbolic) else "_random_"
    # By position: the inputs of `_sample_normal` have names of their own.
    given = ((*params.values(),), {}) if any(symbolic) else ((), params)
    return symbol_function(family + distribution)(*given[0], **given[1], shape=shape, dtype=dtype,
                                                  **kwargs)


def uniform(low: Operand = 0, high: Operand = 1, shape: Size = _Null,
            dtype: ElementType = _Null, **kwargs: Forwarded) -> Symbol:
    """Draw from the uniform distribution over [low, high).

    Parameters
    ----------
    low, high, shape, dtype
        As for `nd.random.uniform`, with symbols instead of arrays; MXNetError unless both
        parameters are numbers or both are symbols.
    **kwargs
        `name` (str) of the node, and its attributes.

    Examples
    --------
    >>> import nbmod as mx
    >>> mx.sym.random.uniform(2, 3, shape=(4, 5)).eval()[0].shape
    (4, 5)
    >>> low, high = mx.sym.Variable("low"), mx.sym.Variable("high")
    >>> mx.sym.random.uniform(low, high, shape=3).infer_shape(low=(2,), high=(2,))[1]
    [(2, 3)]
    """
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(loc: Operand = 0, scale: Operand = 1, shape: Size = _Null,
           dtype: ElementType = _Null, **kwargs: Forwarded) -> Symbol:
    """Draw from the normal distribution.

    Parameters
    ----------
    loc, scale, shape, dtype
        As for `nd.random.normal`, with symbols instead of arrays.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


def randn(*shape: int, **kwargs: Forwarded) -> Symbol:
    """Draw from the normal distribution, with the shape as separate integers.

    Parameters
    ----------
    *shape : int
        Shape of the result.
    **kwargs
        `loc`, `scale`, `dtype` and attributes of the node, as for `normal`.  `data` has no effect,
        as in MXNet.
    """
    kwargs.pop("data", None)
    return normal(kwargs.pop("loc", 0), kwargs.pop("scale", 1), shape=shape, **kwargs)


def poisson(lam: Operand = 1, shape: Size = _Null, dtype: ElementType = _Null,
            **kwargs: Forwarded) -> Symbol:
    """Draw counts from the Poisson distribution, as floating-point numbers.

    Parameters
    ----------
    lam, shape, dtype
        As for `nd.random.poisson`, with symbols instead of arrays.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def exponential(scale: Operand = 1, shape: Size = _Null, dtype: ElementType = _Null,
                **kwargs: Forwarded) -> Symbol:
    """Draw from the exponential distribution.

    Parameters
    ----------
    scale, shape, dtype
        As for `nd.random.exponential`, with symbols instead of arrays.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, kwargs)


def gamma(alpha: Operand = 1, beta: Operand = 1, shape: Size = _Null,
          dtype: ElementType = _Null, **kwargs: Forwarded) -> Symbol:
    """Draw from the gamma distribution.

    Parameters
    ----------
    alpha, beta, shape, dtype
        As for `nd.random.gamma`, with symbols instead of arrays.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def negative_binomial(k: Operand = 1, p: Operand = 1, shape: Size = _Null,
                      dtype: ElementType = _Null, **kwargs: Forwarded) -> Symbol:
    """Draw from the negative binomial distribution: failures before the k-th success.

    Parameters
    ----------
    k, p, shape, dtype
        As for `nd.random.negative_binomial`, with symbols instead of arrays.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(mu: Operand = 1, alpha: Operand = 1, shape: Size = _Null,
                                  dtype: ElementType = _Null, **kwargs: Forwarded) -> Symbol:
    """Draw from the negative binomial distribution, given its mean and dispersion.

    Parameters
    ----------
    mu, alpha, shape, dtype
        As for `nd.random.generalized_negative_binomial`, with symbols instead of arrays.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


def multinomial(data: Symbol, shape: Size = _Null, get_prob: bool = True,
                dtype: ElementType = "int32", **kwargs: Forwarded) -> Symbol:
    """Draw indices with given probabilities.

    Parameters
    ----------
    data, shape, dtype
        As for `nd.random.multinomial`, with a symbol instead of an array.
    get_prob : bool, default True
        Whether the log probabilities of the draws are a second output; gradients flow through them
        to `data`.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return symbol_function("_sample_multinomial")(data, shape=shape, get_prob=get_prob, dtype=dtype,
                                                  **kwargs)


def shuffle(data: Symbol, **kwargs: Forwarded) -> Symbol:
    """Permute the rows of an array randomly; the elements of a row stay together.

    Parameters
    ----------
    data : Symbol
        Array whose first axis is shuffled.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return symbol_function("_shuffle")(data, **kwargs)


def randint(low: int, high: int, shape: Size = _Null, dtype: ElementType = _Null,
            **kwargs: Forwarded) -> Symbol:
    """Draw integers from the uniform distribution over [low, high).

    Parameters
    ----------
    low, high, shape, dtype
        As for `nd.random.randint`.
    **kwargs
        `name` (str) of the node, and its attributes.
    """
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)
