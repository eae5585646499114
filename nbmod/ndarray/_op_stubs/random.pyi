# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..ndarray import NDArray
from ...base import DTypeArg, Forwarded, _NullType

__all__: list[str] = ["exponential", "exponential_like", "gamma", "gamma_like",
                      "generalized_negative_binomial", "generalized_negative_binomial_like",
                      "negative_binomial", "negative_binomial_like", "normal", "normal_like",
                      "poisson", "poisson_like", "uniform", "uniform_like"]
def exponential_like(data: NDArray, lam: float = 1.0,
                     out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                    ) -> NDArray:
    """`_random_exponential` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    lam
        rate
    """

def gamma_like(data: NDArray, alpha: float = 1.0, beta: float = 1.0,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """`_random_gamma` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    alpha
        shape of the gamma distribution, or dispersion of the negative binomial one
    beta
        scale of the gamma distribution
    """

def generalized_negative_binomial_like(data: NDArray, mu: float = 1.0, alpha: float = 1.0,
                                       out: NDArray | Sequence[NDArray] | None = None,
                                       name: str | None = None) -> NDArray:
    """`_random_generalized_negative_binomial` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    mu
        mean
    alpha
        shape of the gamma distribution, or dispersion of the negative binomial one
    """

def negative_binomial_like(data: NDArray, k: int = 1, p: float = 1.0,
                           out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                          ) -> NDArray:
    """`_random_negative_binomial` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    k
        number of successes
    p
        probability of success
    """

def normal_like(data: NDArray, loc: float = 0.0, scale: float = 1.0,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
    """`_random_normal` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    loc
        mean
    scale
        standard deviation
    """

def poisson_like(data: NDArray, lam: float = 1.0, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
    """`_random_poisson` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    lam
        rate
    """

def uniform_like(data: NDArray, low: float = 0.0, high: float = 1.0,
                 out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                ) -> NDArray:
    """`_random_uniform` of the shape and type of `data`.

    Shapes: data and output have one shape.

    Parameters
    ----------
    low
        lower limit
    high
        upper limit, exclusive
    """

def uniform(low: NDArray | float = 0, high: NDArray | float = 1,
            shape: int | Sequence[int] | None = None, dtype: DTypeArg = None,
            ctx: Context | None = None, out: NDArray | None = None, **kwargs: Forwarded) -> NDArray:
    """Draw from the uniform distribution over [low, high).

    Parameters
    ----------
    low : float or NDArray, default 0
        Lower bound, included.
    high : float or NDArray, default 1
        Upper bound, excluded.
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

def normal(loc: NDArray | float = 0, scale: NDArray | float = 1,
           shape: int | Sequence[int] | None = None, dtype: DTypeArg = None,
           ctx: Context | None = None, out: NDArray | None = None, **kwargs: Forwarded) -> NDArray:
    """Draw from the normal distribution.

    Parameters
    ----------
    loc : float or NDArray, default 0
        Mean.
    scale : float or NDArray, default 1
        Standard deviation.
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

def poisson(lam: NDArray | float = 1, shape: int | Sequence[int] | None = None,
            dtype: DTypeArg = None, ctx: Context | None = None, out: NDArray | None = None,
            **kwargs: Forwarded) -> NDArray:
    """Draw counts from the Poisson distribution, P(k) = lam**k exp(-lam) / k!, as floats.

    Parameters
    ----------
    lam : float or NDArray, default 1
        Mean.
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

def exponential(scale: NDArray | float = 1, shape: int | Sequence[int] | None = None,
                dtype: DTypeArg = None, ctx: Context | None = None, out: NDArray | None = None,
                **kwargs: Forwarded) -> NDArray:
    """Draw from the exponential distribution, of density exp(-x / scale) / scale for x >= 0.

    Parameters
    ----------
    scale : float or NDArray, default 1
        Mean, the inverse of the rate.
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

def gamma(alpha: NDArray | float = 1, beta: NDArray | float = 1,
          shape: int | Sequence[int] | None = None, dtype: DTypeArg = None,
          ctx: Context | None = None, out: NDArray | None = None, **kwargs: Forwarded) -> NDArray:
    """Draw from the gamma distribution, of mean alpha beta and variance alpha beta**2.

    Parameters
    ----------
    alpha : float or NDArray, default 1
        Shape of the distribution.
    beta : float or NDArray, default 1
        Scale of the distribution.
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

def negative_binomial(k: NDArray | float = 1, p: NDArray | float = 1,
                      shape: int | Sequence[int] | None = None, dtype: DTypeArg = None,
                      ctx: Context | None = None, out: NDArray | None = None, **kwargs: Forwarded
                     ) -> NDArray:
    """Draw from the negative binomial distribution, of mean k (1 - p) / p: failures before the
    k-th success.

    Parameters
    ----------
    k : float or NDArray, default 1
        Number of successes.
    p : float or NDArray, default 1
        Probability of a success.
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

def generalized_negative_binomial(mu: NDArray | float = 1, alpha: NDArray | float = 1,
                                  shape: int | Sequence[int] | None = None, dtype: DTypeArg = None,
                                  ctx: Context | None = None, out: NDArray | None = None,
                                  **kwargs: Forwarded) -> NDArray:
    """Draw from the negative binomial distribution, by its mean and dispersion.

    Parameters
    ----------
    mu : float or NDArray, default 1
        Mean.
    alpha : float or NDArray, default 1
        Dispersion: the variance is mu + alpha mu**2.
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
