"""Random symbols: distributions with fixed parameters, or with one row of draws per parameter.

With numbers as parameters `uniform(0, 1, shape=(2, 3))` draws a (2, 3) array; with symbols every
element of the parameters gets its own draws of `shape`, appended to the parameters' shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ops.signature import _Null
from .namespace import lookup, symbol_function
from .symbol import Symbol

if TYPE_CHECKING:
    from ._op_stubs.random import *  # noqa: F403

__all__ = ["uniform", "normal", "randn", "gamma", "exponential", "poisson", "negative_binomial",
           "generalized_negative_binomial", "multinomial", "shuffle", "randint"]

_get, _ops = lookup(__name__, ("_random_",))


def __getattr__(name: str) -> Any:
    if name.endswith("_like"):
        return _get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in _ops() if name.endswith("_like"))})


def _draw(distribution: str, params: dict[str, Any], shape: Any, dtype: Any, kwargs: dict
          ) -> Symbol:
    symbolic = [isinstance(value, Symbol) for value in params.values()]
    if any(symbolic) and not all(symbolic):
        raise TypeError(f"random.{distribution}: parameters must be all numbers or all symbols, "
                        f"given {params}")
    family = "_sample_" if any(symbolic) else "_random_"
    return symbol_function(family + distribution)(**params, shape=shape, dtype=dtype, **kwargs)


def uniform(low: Any = 0, high: Any = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any
            ) -> Symbol:
    """Uniform in [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(loc: Any = 0, scale: Any = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any
           ) -> Symbol:
    """Normal with mean `loc` and standard deviation `scale`."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


def randn(*shape: int, **kwargs: Any) -> Symbol:
    """Normal of shape `shape`; keywords `loc`, `scale` and `dtype`."""
    return normal(kwargs.pop("loc", 0), kwargs.pop("scale", 1), shape=shape, **kwargs)


def poisson(lam: Any = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Poisson with rate `lam`."""
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def exponential(scale: Any = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Exponential with mean `scale`."""
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, kwargs)


def gamma(alpha: Any = 1, beta: Any = 1, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any
          ) -> Symbol:
    """Gamma with shape `alpha` and scale `beta`."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def negative_binomial(k: Any = 1, p: Any = 1, shape: Any = _Null, dtype: Any = _Null,
                      **kwargs: Any) -> Symbol:
    """Failures before the `k`-th success of probability `p`."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(mu: Any = 1, alpha: Any = 1, shape: Any = _Null,
                                  dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Negative binomial by mean `mu` and dispersion `alpha`."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


def multinomial(data: Symbol, shape: Any = _Null, get_prob: bool = True, dtype: Any = "int32",
                **kwargs: Any) -> Symbol:
    """Indices drawn with the probabilities in the rows of `data`, and their log likelihood."""
    return symbol_function("_sample_multinomial")(data, shape=shape, get_prob=get_prob, dtype=dtype,
                                                  **kwargs)


def shuffle(data: Symbol, **kwargs: Any) -> Symbol:
    """The rows of `data` in random order."""
    return symbol_function("_shuffle")(data, **kwargs)


def randint(low: int, high: int, shape: Any = _Null, dtype: Any = _Null, **kwargs: Any) -> Symbol:
    """Integers in [low, high)."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)
