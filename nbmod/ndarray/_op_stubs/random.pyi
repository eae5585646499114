# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..ndarray import NDArray

__all__: list[str] = ["exponential_like", "gamma_like", "generalized_negative_binomial_like",
                      "negative_binomial_like", "normal_like", "poisson_like", "uniform_like"]
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
