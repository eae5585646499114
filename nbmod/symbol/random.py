"""`mx.sym.random`: samples from probability distributions.

Each function takes the parameters of the distribution as numbers, and then `shape` is the shape of
the result, or as symbols, and then `shape` is that of the draws for each of their elements.

Examples
--------
>>> mx.sym.random.uniform(2, 3, shape=(4, 5)).eval()[0].shape
(4, 5)
>>> low, high = mx.sym.Variable("low"), mx.sym.Variable("high")
>>> mx.sym.random.uniform(low, high, shape=3).infer_shape(low=(2,), high=(2,))[1]
[(2, 3)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..base import CheckError, _Null, _NullType
from ..ops.random.draw_functions import DRAW_FUNCTIONS, draw_functions
from .namespace import lookup, symbol_function
from .symbol import Symbol

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..base import Forwarded
    from ._op_stubs import random as _op_stub
    from ._op_stubs.random import *  # noqa: F403

__all__ = ["multinomial", "randint", "randn", "shuffle"]
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += _op_stub.__all__
else:
    __all__ += DRAW_FUNCTIONS

Operand: TypeAlias = "Symbol | float"
Size: TypeAlias = "int | Sequence[int] | _NullType"
ElementType: TypeAlias = "DTypeLike | _NullType"

_get, _ops = lookup(__name__, ("_random_",), lambda name: name.endswith("_like"))

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get


def __dir__() -> list[str]:
    return sorted({*__all__, *_ops()})


def _draw(distribution: str, parameters: Mapping[str, Operand], /,
          shape: int | Sequence[int] | _NullType = _Null, dtype: DTypeLike | _NullType = _Null,
          **kwargs: Forwarded) -> Symbol:
    """Apply `_random_<distribution>` to numbers or `_sample_<distribution>` to symbols.

    Parameters
    ----------
    shape : int or tuple of int, optional
        Shape of the result if the parameters are numbers, (1,) by default; if they are symbols,
        shape of the draws for each of their elements, appended to their shape.
    dtype : {'float16', 'float32', 'float64'}, optional
        Element type; float32 by default.
    **kwargs
        `name` (str) of the node, and its attributes.

    Raises
    ------
    MXNetError
        If parameters are neither all numbers nor all symbols.
    """
    symbolic = [isinstance(value, Symbol) for value in parameters.values()]
    if any(symbolic) and not all(symbolic):
        raise CheckError(f"random.{distribution}: parameters must be all numbers or all symbols, "
                         f"given {dict(parameters)}")
    family = "_sample_" if any(symbolic) else "_random_"
    # By position: the inputs of `_sample_normal` have names of their own.
    inputs, numbers = ((*parameters.values(),), {}) if any(symbolic) else ((), parameters)
    return symbol_function(family + distribution)(*inputs, **numbers, shape=shape, dtype=dtype,
                                                  **kwargs)


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
    return normal(kwargs.pop("loc", 0), kwargs.pop("scale", 1), shape=shape,  # noqa: F405
                  **kwargs)


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
    return _draw("randint", {"low": low, "high": high}, shape, dtype, **kwargs)


globals().update(draw_functions(_draw, __name__, "Symbol"))
