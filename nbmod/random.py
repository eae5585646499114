"""`mx.random`: the seed of all random numbers in nbmod, and the distributions of `mx.nd.random`."""

from __future__ import annotations

from .base import integer_types
from .context import Context
from .ndarray.random import (
    exponential,
    gamma,
    generalized_negative_binomial,
    multinomial,
    negative_binomial,
    normal,
    poisson,
    randint,
    randn,
    shuffle,
    uniform,
)
from .ops.random import rng

__all__ = ["seed", "get_state", "set_state", "uniform", "normal", "randn", "poisson",
           "exponential", "gamma", "multinomial", "negative_binomial",
           "generalized_negative_binomial", "shuffle", "randint"]
__dir__ = __all__.copy


def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Set the seed of all random numbers of nbmod: sampling, dropout, shuffling and initializers.

    Parameters
    ----------
    seed_state : int
        Seed.
    ctx : Context or str, default 'all'
        Accepted for compatibility; has no effect: one random sequence serves all devices.

    Raises
    ------
    ValueError
        If `seed_state` is not an integer.

    Notes
    -----
    The random numbers of Python and NumPy are not affected; `mx.image` draws from these.

    Examples
    --------
    >>> mx.random.seed(7)
    >>> first = mx.nd.random.uniform(shape=3).asnumpy().tolist()
    >>> mx.random.seed(7)
    >>> mx.nd.random.uniform(shape=3).asnumpy().tolist() == first
    True
    """
    if not isinstance(seed_state, integer_types):
        raise ValueError(f"seed_state must be int, given {seed_state!r}")
    rng.seed(int(seed_state))


def get_state() -> tuple[int, int]:
    """Return the position of the random sequence, which `set_state` accepts."""
    return rng.get_state()


def set_state(state: tuple[int, int]) -> None:
    """Continue the random sequence from a position that `get_state` returned.

    Parameters
    ----------
    state : tuple of int
        Result of `get_state`.

    Examples
    --------
    >>> state = mx.random.get_state()
    >>> first = mx.nd.random.normal(shape=2).asnumpy().tolist()
    >>> mx.random.set_state(state)
    >>> mx.nd.random.normal(shape=2).asnumpy().tolist() == first
    True
    """
    rng.set_state(state)
