"""`mx.nd.random`: samples from probability distributions.

Each function takes the parameters of the distribution as numbers, and then `shape` is the shape of
the result, or as arrays, and then `shape` is that of the draws for each of their elements.  All
functions draw from the random sequence that `mx.random.seed` sets.

Examples
--------
>>> mx.random.seed(0)
>>> draws = mx.nd.random.uniform(2, 3, shape=(4, 5))
>>> draws.shape, bool((draws >= 2).min() == 1), bool((draws < 3).min() == 1)
((4, 5), True, True)
>>> mx.nd.random.uniform(mx.nd.array([0, 10]), mx.nd.array([1, 20]), shape=3).shape
(2, 3)
>>> round(float(mx.nd.random.normal(5, 2, shape=(100, 100)).mean().asscalar()), 1)
5.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..base import ArgumentError, CheckError, MXNetError, numeric_types, wrong_type
from ..context import Context
from ..ops import OPS
from ..ops.random.draw_functions import DRAW_FUNCTIONS, draw_functions
from ..ops.signature import dtype_name
from .array_creation import context_of, describes_node
from .eager import op_instance
from .functions import namespace
from .invocation import invoke
from .ndarray import NDArray

if TYPE_CHECKING:
    from ..base import DTypeArg, Forwarded
    from ._op_stubs import random as _op_stub
    from ._op_stubs.random import *  # noqa: F403

__all__ = ["multinomial", "randint", "randn", "shuffle"]
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += _op_stub.__all__
else:
    __all__ += DRAW_FUNCTIONS

Operand: TypeAlias = "NDArray | float"
Size: TypeAlias = "int | Sequence[int] | None"
Draws: TypeAlias = Any  # type: ignore[explicit-any]
"""Draws, or with `get_prob` a list of these and their log probabilities.  Any: a union would have
every caller say which."""

_get, __dir__ = namespace(__name__, "_random_", lambda name: name.endswith("_like"))

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get


def _draw(name: str, parameters: Mapping[str, object], /,
          shape: int | Sequence[int] | None = None, dtype: DTypeArg = None,
          ctx: Context | None = None, out: NDArray | None = None, **kwargs: Forwarded) -> NDArray:
    """Run `_random_<name>` for numbers or `_sample_<name>` for arrays.

    Parameters
    ----------
    shape : int or tuple of int, optional
        Shape of the result if the parameters are numbers, (1,) by default; if they are arrays,
        shape of the draws for each of their elements, appended to their shape.
    dtype : str, optional
        Element type, 'float16', 'float32' or 'float64'; None: float32, or that of `out`.
    ctx : Context, optional
        Device of the result; None: the current context.
    out : NDArray, optional
        Array to write the result to.
    **kwargs
        `name` and attributes of symbols, which have no effect; others raise MXNetError.

    Raises
    ------
    MXNetError
        If parameters are neither all numbers nor all NDArrays, or outside their domain.
    """
    attrs = {key: value for key, value in {**kwargs, "dtype": dtype_name(dtype)}.items()
             if value is not None and not describes_node(key)}
    arrays = [value for value in parameters.values() if isinstance(value, NDArray)]
    if len(arrays) == len(parameters):
        if shape is not None:
            attrs["shape"] = shape
        op = op_instance(OPS.find(f"_sample_{name}"), attrs)
        return invoke(op, arrays, out)
    for key, value in parameters.items():
        if arrays:
            raise CheckError(f"random.{name}: {' and '.join(parameters)} must be all numbers or "
                             "all NDArrays")
        if not isinstance(value, numeric_types):
            raise ArgumentError(f"random.{name}: {key} is a {type(value).__name__}, expected a "
                                "number or an NDArray")
    if not isinstance(out, (NDArray, type(None))):
        raise wrong_type(f"random.{name}: out", out, "an NDArray")
    if out is not None and dtype is None:
        attrs["dtype"] = out.dtype
    if shape is not None or out is None:
        attrs["shape"] = 1 if shape is None else shape
    op = OPS.find(f"_random_{name}").from_attrs({**parameters, **attrs})
    return invoke(op, (), out, context_of(ctx))


def _draw_from(op: str, data: object, attrs: dict[str, Forwarded], out: NDArray | None) -> NDArray:
    """Run a random operator of one array."""
    if not isinstance(data, NDArray):
        raise CheckError(f"{op}: data is a {type(data).__name__}, expected an NDArray")
    attrs = {key: value for key, value in attrs.items() if not describes_node(key)}
    return invoke(OPS.find(op).from_attrs(attrs), [data], out)


def randn(*shape: int, **kwargs: Forwarded) -> NDArray:
    """Draw from the normal distribution, with the shape as separate integers.

    Parameters
    ----------
    *shape : int
        Shape of the result, at least one integer.
    **kwargs
        `loc`, `scale`, `dtype`, `ctx` and `out`, as for `normal`.

    Raises
    ------
    MXNetError
        If no shape is given, or for an unknown keyword.

    Examples
    --------
    >>> mx.nd.random.randn(2, 3, loc=5).shape
    (2, 3)
    """
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    if not shape:
        raise MXNetError("random.randn: shape is empty, expected one integer or more")
    return normal(loc, scale, shape, **kwargs)  # noqa: F405


def randint(low: Operand, high: Operand, shape: Size = None, dtype: DTypeArg = None,
            ctx: Context | None = None, out: NDArray | None = None, **kwargs: Forwarded) -> NDArray:
    """Draw integers from the uniform distribution over [low, high).

    Parameters
    ----------
    low : int
        Lower bound, included.
    high : int
        Upper bound, excluded.
    shape : int or tuple of int, optional
        Shape of the result; None: (1,).
    dtype : {'int32', 'int64', None}, optional
        Element type; None: int32.
    ctx, out, **kwargs
        As for `uniform`.

    Raises
    ------
    MXNetError
        If `low` or `high` is an array, or there is no integer between them.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> draws = mx.nd.random.randint(3, 6, shape=100)
    >>> sorted(set(draws.asnumpy().tolist()))
    [3, 4, 5]
    """
    if isinstance(low, NDArray) or isinstance(high, NDArray):
        raise MXNetError("random.randint: low and high must be integers")
    return _draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, **kwargs)


def multinomial(data: NDArray, shape: Size = None, get_prob: bool = False,
                out: Draws | None = None, dtype: DTypeArg = "int32", **kwargs: Forwarded) -> Draws:
    """Draw indices with given probabilities.

    Parameters
    ----------
    data : NDArray
        Probabilities of shape (k,), or (n, k) for n distributions; each row sums to 1.
    shape : int or tuple of int, optional
        Shape of the draws for each row; None: one index.
    get_prob : bool, default False
        Also return the log probabilities of the draws; gradients flow through them to `data`.
    out : NDArray or list of NDArray, optional
        Arrays to write the results to.
    dtype : str, default 'int32'
        Element type of the indices.
    **kwargs
        `name` and attributes of symbols, which have no effect; others raise MXNetError.

    Returns
    -------
    NDArray or list of NDArray
        Indices, of the shape (n, *shape) or `shape`; with `get_prob` a list of the indices and
        their log probabilities.

    Examples
    --------
    >>> mx.nd.random.multinomial(mx.nd.array([[0, 1], [1, 0]]), shape=3).asnumpy().tolist()
    [[1, 1, 1], [0, 0, 0]]
    """
    attrs = {"get_prob": get_prob, "dtype": dtype_name(dtype), **kwargs}
    if shape is not None:
        attrs["shape"] = shape
    return _draw_from("_sample_multinomial", data, attrs, out)


def shuffle(data: NDArray, out: NDArray | None = None, **kwargs: Forwarded) -> NDArray:
    """Return a copy, or `out`, with the rows in random order.

    Parameters
    ----------
    data : NDArray
        Array whose first axis is shuffled; the elements of a row stay together.
    out : NDArray, optional
        Array to write the result to.
    **kwargs
        `name` and attributes of symbols, which have no effect; others raise MXNetError.

    Examples
    --------
    >>> sorted(mx.nd.random.shuffle(mx.nd.arange(4)).asnumpy().tolist())
    [0.0, 1.0, 2.0, 3.0]
    """
    return _draw_from("_shuffle", data, kwargs, out)


globals().update(draw_functions(_draw, __name__, "NDArray"))
