"""`mx.random`: the seed of everything random in nbmod, and the distributions of `mx.nd.random`."""

from __future__ import annotations

from typing import Any

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
from .ops import rng

__all__ = ["seed", "get_state", "set_state", "uniform", "normal", "randn", "poisson",
           "exponential", "gamma", "multinomial", "negative_binomial",
           "generalized_negative_binomial", "shuffle", "randint"]


def seed(seed_state: int, ctx: Context | str | Any = "all") -> None:
    """Start every random sequence of nbmod over: sampling, dropout, shuffling, initializers.

    There is one sequence for all devices, so `ctx` is accepted and has no meaning.
    Raises ValueError for a seed that is not an integer.
    """
    if not isinstance(seed_state, integer_types):
        raise ValueError(f"seed_state must be int, given {seed_state!r}")
    rng.seed(int(seed_state))


def get_state() -> tuple[int, int]:
    """Where the random sequence stands, for `set_state` to continue from later."""
    return rng.get_state()


def set_state(state: tuple[int, int]) -> None:
    """Continue the random sequence from where `get_state` was called."""
    rng.set_state(state)
