"""`mx.nd.random`: distributions.

Each takes its parameters as numbers, and then `shape` is the shape of the result, or as arrays, and
then `shape` is what is drawn for each of their elements.  All draw from the one source that
`mx.random.seed` sets.
"""

from __future__ import annotations

from typing import Any

from ..base import MXNetError, numeric_types
from ..context import Context
from ..ops import OPS
from .creation import place_of
from .execute import op_instance
from .functions import namespace
from .ndarray import NDArray, invoke

__all__ = ["uniform", "normal", "randn", "poisson", "exponential", "gamma", "multinomial",
           "negative_binomial", "generalized_negative_binomial", "shuffle", "randint"]

__getattr__, __dir__ = namespace(__name__, "_random_", lambda name: name.endswith("_like"))


def _draw(name: str, parameters: dict[str, Any], shape: Any, dtype: Any, ctx: Context | None,
          out: NDArray | None, kwargs: dict[str, Any]) -> NDArray:
    """Run `_random_<name>` for numbers or `_sample_<name>` for arrays."""
    given = {key: value for key, value in {**kwargs, "dtype": dtype}.items() if value is not None}
    arrays = [isinstance(value, NDArray) for value in parameters.values()]
    if all(arrays):
        if shape is not None:
            given["shape"] = shape
        op = op_instance(OPS.find(f"_sample_{name}"), given)
        return invoke(op, list(parameters.values()), out)
    for key, value in parameters.items():
        if any(arrays):
            raise MXNetError(f"random.{name}: {' and '.join(parameters)} must be all numbers or "
                             "all NDArrays")
        if not isinstance(value, numeric_types):
            raise MXNetError(f"random.{name}: {key} is a {type(value).__name__}, expected a number "
                             "or an NDArray")
    if out is not None and dtype is None:
        given["dtype"] = out.dtype
    if shape is not None or out is None:
        given["shape"] = 1 if shape is None else shape
    op = OPS.find(f"_random_{name}").from_attrs({**parameters, **given})
    return invoke(op, (), out, place_of(ctx))


def uniform(low: Any = 0, high: Any = 1, shape: Any = None, dtype: Any = None,
            ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any) -> NDArray:
    """Numbers spread evenly over [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


def normal(loc: Any = 0, scale: Any = 1, shape: Any = None, dtype: Any = None,
           ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any) -> NDArray:
    """Normally distributed numbers of mean `loc` and standard deviation `scale`."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs)


def randn(*shape: int, **kwargs: Any) -> NDArray:
    """`normal` with the shape as separate integers and everything else by name."""
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    if not shape:
        raise MXNetError("random.randn: shape is empty, expected one integer or more")
    return normal(loc, scale, shape, **kwargs)


def poisson(lam: Any = 1, shape: Any = None, dtype: Any = None, ctx: Context | None = None,
            out: NDArray | None = None, **kwargs: Any) -> NDArray:
    """Poisson distributed counts of mean `lam`, as floating-point numbers."""
    return _draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)


def exponential(scale: Any = 1, shape: Any = None, dtype: Any = None, ctx: Context | None = None,
                out: NDArray | None = None, **kwargs: Any) -> NDArray:
    """Exponentially distributed numbers of mean `scale`."""
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)


def gamma(alpha: Any = 1, beta: Any = 1, shape: Any = None, dtype: Any = None,
          ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any) -> NDArray:
    """Gamma distributed numbers of shape `alpha` and scale `beta`: their mean is alpha beta."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)


def negative_binomial(k: Any = 1, p: Any = 1, shape: Any = None, dtype: Any = None,
                      ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any
                      ) -> NDArray:
    """Failures before the k-th success, each of probability `p`."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs)


def generalized_negative_binomial(mu: Any = 1, alpha: Any = 1, shape: Any = None,
                                  dtype: Any = None, ctx: Context | None = None,
                                  out: NDArray | None = None, **kwargs: Any) -> NDArray:
    """Negative binomial counts of mean `mu` and dispersion `alpha`."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx,
                 out, kwargs)


def randint(low: int, high: int, shape: Any = None, dtype: Any = None,
            ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any) -> NDArray:
    """Integers (int32 unless `dtype` is int64) from `low` up to but not including `high`."""
    if isinstance(low, NDArray) or isinstance(high, NDArray):
        raise MXNetError("random.randint: low and high must be integers")
    return _draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


def multinomial(data: NDArray, shape: Any = None, get_prob: bool = False,
                out: Any = None, dtype: Any = "int32", **kwargs: Any) -> Any:
    """Indices drawn with the probabilities in the rows of `data`, `shape` of them per row.

    With `get_prob` also their log probabilities, which carry gradients to `data`.
    """
    given = {"get_prob": get_prob, "dtype": dtype, **kwargs}
    if shape is not None:
        given["shape"] = shape
    return invoke(OPS.find("_sample_multinomial").from_attrs(given), [data], out)


def shuffle(data: NDArray, out: NDArray | None = None, **kwargs: Any) -> NDArray:
    """A copy of `data` with its rows in random order."""
    return invoke(OPS.find("_shuffle").from_attrs(kwargs), [data], out)
