"""Reductions as programs, so that a sum can be fused with the elementwise nodes before it.

A term is a formula over an element `x`; `n` is the number of terms of one sum.
"""

from __future__ import annotations

from functools import cache
from itertools import takewhile
from math import prod

import numpy as np

from ..op import Run
from ..param import Shape
from ..shape import size_of
from .formula import names_in
from .formula_op import kernels
from .program import Assign, Elements, Program

__all__ = ["COPY", "MOMENTS_BACK", "NORM1_GRADIENT", "NORM2_GRADIENT", "ROOT", "VARIANCE", "fold",
           "sum_elements"]

ROWS = 16
"""Sums that keep all cores busy."""
LOOPS = 512
"""Inner loops of NumPy, 14 ns each, that take several times as long as a kernel."""


def sum_elements(formula: str, shape: Shape, out_shape: Shape) -> Elements | None:
    """Sums of terms over `shape`, one for each element of `out_shape`, which has 1 on axes summed.

    None unless kernels are fast, which sum along rows.
    """
    if not shape or out_shape[-1] != 1 or shape[-1] == 1 or size_of(out_shape) < ROWS:
        return None
    program = _terms(formula, "add")
    return Elements(program, (0,), _counts(program, shape, out_shape), (shape, out_shape))


def fold(x: np.ndarray, out: np.ndarray, term: str = "x", join: str = "add") -> Run | None:
    """A kernel that reduces terms of `x` over the axes where `out` has 1; None where NumPy is as
    fast, or no kernel supports the types."""
    if x.size < kernels().COMPILED_FROM and _inner_loops(x.shape, out.shape) < LOOPS:
        return None
    program = _terms(term, join)
    return kernels().compiled(program, [x], [out], _counts(program, x.shape, out.shape))


def _inner_loops(shape: Shape, out_shape: Shape) -> int:
    """How often NumPy enters its inner loop: over the last axes, all reduced or all kept."""
    axes = [(left == 1, size) for size, left in zip(shape[::-1], out_shape[::-1], strict=True)
            if size != 1]
    inner = prod(size for _, size in takewhile(lambda axis: axis[0] == axes[0][0], axes))
    return size_of(shape) // max(inner, 1)


def _counts(program: Program, shape: Shape, out_shape: Shape) -> tuple[float, ...]:
    """The number of terms `n`, for every scalar."""
    return (float(size_of(shape) // max(size_of(out_shape), 1)),) * len(program.scalars)


@cache
def _terms(formula: str, join: str) -> Program:
    scalars = tuple(name for name in names_in(formula) if name != "x")
    return Program("terms", (Assign("y", formula),), ("x",), ("y",), scalars, join)


COPY = _terms("x", "add")
ROOT = Program("root", (Assign("y", "sqrt(s)"),), ("s",), ("y",))
NORM1_GRADIENT = Program("norm1_back", (Assign("gx", "where(x > 0, g, where(x < 0, -g, x * g))"),),
               ("g", "x"), ("gx",))
NORM2_GRADIENT = Program("norm2_back", (Assign("gx", "x * (g / y)"),), ("g", "x", "y"), ("gx",))
VARIANCE = Program("variance", (Assign("v", "(x - m) * (x - m) / n"),), ("x", "m"), ("v",), ("n",))
MOMENTS_BACK = Program("moments_back", (Assign("gx", "(2 * (x - m) * v + g) / n"),),
                       ("g", "v", "x", "m"), ("gx",), ("n",))
