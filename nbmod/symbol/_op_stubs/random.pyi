# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..symbol import Symbol
from . import NodeAttributes
from typing_extensions import Unpack
from ...base import DTypeArg, Forwarded, _NullType

__all__: list[str] = ["exponential", "exponential_like", "gamma", "gamma_like",
                      "generalized_negative_binomial", "generalized_negative_binomial_like",
                      "negative_binomial", "negative_binomial_like", "normal", "normal_like",
                      "poisson", "poisson_like", "uniform", "uniform_like"]
def exponential_like(data: Symbol | None = None, lam: float = 1.0, name: str | None = None,
                     attr: dict[str, str] | None = None, out: None = None,
                     **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_random_exponential` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    lam
        rate
    """

def gamma_like(data: Symbol | None = None, alpha: float = 1.0, beta: float = 1.0,
               name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
               **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_random_gamma` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    alpha
        shape of the gamma distribution, or dispersion of the negative binomial one
    beta
        scale of the gamma distribution
    """

def generalized_negative_binomial_like(data: Symbol | None = None, mu: float = 1.0,
                                       alpha: float = 1.0, name: str | None = None,
                                       attr: dict[str, str] | None = None, out: None = None,
                                       **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_random_generalized_negative_binomial` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    mu
        mean
    alpha
        shape of the gamma distribution, or dispersion of the negative binomial one
    """

def negative_binomial_like(data: Symbol | None = None, k: int = 1, p: float = 1.0,
                           name: str | None = None, attr: dict[str, str] | None = None,
                           out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_random_negative_binomial` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    k
        number of successes
    p
        probability of success
    """

def normal_like(data: Symbol | None = None, loc: float = 0.0, scale: float = 1.0,
                name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_random_normal` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    loc
        mean
    scale
        standard deviation
    """

def poisson_like(data: Symbol | None = None, lam: float = 1.0, name: str | None = None,
                 attr: dict[str, str] | None = None, out: None = None,
                 **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_random_poisson` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    lam
        rate
    """

def uniform_like(data: Symbol | None = None, low: float = 0.0, high: float = 1.0,
                 name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                 **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`_random_uniform` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    low
        lower limit
    high
        upper limit, exclusive
    """

def uniform(low: Symbol | float = 0, high: Symbol | float = 1,
            shape: int | Sequence[int] | _NullType = ..., dtype: DTypeLike | _NullType = ...,
            **kwargs: Forwarded) -> Symbol:
    """Draw from the uniform distribution over [low, high).

    Parameters
    ----------
    low : float or Symbol, default 0
        Lower bound, included.
    high : float or Symbol, default 1
        Upper bound, excluded.
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

def normal(loc: Symbol | float = 0, scale: Symbol | float = 1,
           shape: int | Sequence[int] | _NullType = ..., dtype: DTypeLike | _NullType = ...,
           **kwargs: Forwarded) -> Symbol:
    """Draw from the normal distribution.

    Parameters
    ----------
    loc : float or Symbol, default 0
        Mean.
    scale : float or Symbol, default 1
        Standard deviation.
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

def poisson(lam: Symbol | float = 1, shape: int | Sequence[int] | _NullType = ...,
            dtype: DTypeLike | _NullType = ..., **kwargs: Forwarded) -> Symbol:
    """Draw counts from the Poisson distribution, P(k) = lam**k exp(-lam) / k!, as floats.

    Parameters
    ----------
    lam : float or Symbol, default 1
        Mean.
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

def exponential(scale: Symbol | float = 1, shape: int | Sequence[int] | _NullType = ...,
                dtype: DTypeLike | _NullType = ..., **kwargs: Forwarded) -> Symbol:
    """Draw from the exponential distribution, of density exp(-x / scale) / scale for x >= 0.

    Parameters
    ----------
    scale : float or Symbol, default 1
        Mean, the inverse of the rate.
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

def gamma(alpha: Symbol | float = 1, beta: Symbol | float = 1,
          shape: int | Sequence[int] | _NullType = ..., dtype: DTypeLike | _NullType = ...,
          **kwargs: Forwarded) -> Symbol:
    """Draw from the gamma distribution, of mean alpha beta and variance alpha beta**2.

    Parameters
    ----------
    alpha : float or Symbol, default 1
        Shape of the distribution.
    beta : float or Symbol, default 1
        Scale of the distribution.
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

def negative_binomial(k: Symbol | float = 1, p: Symbol | float = 1,
                      shape: int | Sequence[int] | _NullType = ...,
                      dtype: DTypeLike | _NullType = ..., **kwargs: Forwarded) -> Symbol:
    """Draw from the negative binomial distribution, of mean k (1 - p) / p: failures before the
    k-th success.

    Parameters
    ----------
    k : float or Symbol, default 1
        Number of successes.
    p : float or Symbol, default 1
        Probability of a success.
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

def generalized_negative_binomial(mu: Symbol | float = 1, alpha: Symbol | float = 1,
                                  shape: int | Sequence[int] | _NullType = ...,
                                  dtype: DTypeLike | _NullType = ..., **kwargs: Forwarded
                                 ) -> Symbol:
    """Draw from the negative binomial distribution, by its mean and dispersion.

    Parameters
    ----------
    mu : float or Symbol, default 1
        Mean.
    alpha : float or Symbol, default 1
        Dispersion: the variance is mu + alpha mu**2.
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
