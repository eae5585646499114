"""Reductions as programs: sums may end a chain of elementwise nodes.

A term is a formula over an element `x`; `n` is how many of them one sum has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from .formula import names_in
from .formula_op import kernels
from .param import Shape
from .program import Elements, Program, Step
from .shape import size_of

__all__ = ["COPY", "fold", "sum_elements"]

ROWS = 16
"""Sums that keep all cores busy."""


def sum_elements(formula: str, shape: Shape, kept: Shape) -> Elements | None:
    """Sums of terms over `shape`, one for each element of `kept`, which has 1 where it is summed.

    None unless kernels are good at it: they add along rows.
    """
    if not shape or kept[-1] != 1 or shape[-1] == 1 or size_of(kept) < ROWS:
        return None
    program = _terms(formula, "add")
    count = size_of(shape) // max(size_of(kept), 1)
    return Elements(program, (0,), (float(count),) * len(program.scalars), (shape, kept))


def fold(x: Any, out: Any, term: str = "x", join: str = "add") -> Callable[[], None] | None:
    """A kernel that joins terms of `x` over the axes where `out` has 1; None where NumPy is as
    good, or no kernel goes."""
    if x.size < kernels().COMPILED_FROM:
        return None
    return kernels().compiled(_terms(term, join), [x], [out])


@cache
def _terms(formula: str, join: str) -> Program:
    scalars = tuple(name for name in names_in(formula) if name != "x")
    return Program("terms", (Step("y", formula),), ("x",), ("y",), scalars, join)


COPY = _terms("x", "add")
