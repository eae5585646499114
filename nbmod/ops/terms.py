"""Sums as programs: they may end a chain of elementwise nodes, and their gradients begin one.

A term is a formula over an element `x`; `n` is how many of them one sum has.
"""

from __future__ import annotations

from functools import cache

from .param import Shape
from .program import Elements, Program, Step
from .shape import size_of

__all__ = ["spread_elements", "sum_elements"]

ROWS = 16
"""Sums that keep all cores busy."""

LONG = 65536
"""Terms that a kernel adds in float32: in many lanes, so that each adds few of them."""


def sum_elements(formula: str, shape: Shape, kept: Shape) -> Elements | None:
    """Sums of terms over `shape`, one for each element of `kept`, which has 1 where it is summed.

    None unless kernels are good at it: they add along rows.
    """
    count = size_of(shape) // max(size_of(kept), 1)
    if not shape or kept[-1] != 1 or shape[-1] == 1 or size_of(kept) < ROWS or count > LONG:
        return None
    return Elements(_terms(formula), (0,), (count,), (shape, kept))


def spread_elements(formula: str, shape: Shape, kept: Shape) -> Elements:
    """Their gradient: what arrives at a sum goes to each of its terms."""
    count = size_of(shape) // max(size_of(kept), 1)
    return Elements(_terms(formula), (0,), (count,), (kept, shape))


@cache
def _terms(formula: str) -> Program:
    return Program("terms", (Step("y", formula),), ("x",), ("y",), ("n",))
