"""Elementwise ops with parameters or operands of their own: clip, where, add_n and a few more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ...graph import Entry, Node
from ..op import Call, Op, PartialType, Run, Spec, Tensor, Types
from ..shape import ShapeMismatch, Shapes, unify, unify_all
from .float_op import as_float32
from .formula_op import FormulaOp, kernels
from .program import Assign, Elements, Program, interpreted, run

__all__ = ["AddN", "Clip", "DivSqrtDim", "HardSigmoid", "Quadratic", "Where", "sum_program"]


class _Float32Scalars(FormulaOp):
    """Base of ops whose parameters are float32 whatever the tensors are."""

    def scalar_value(self, name: str, like: Tensor) -> Any:
        return as_float32(getattr(self, name))


@dataclass(frozen=True)
class Clip(_Float32Scalars, name="clip", aliases=("_sparse_clip",)):
    """x clamped to [`a_min`, `a_max`].  The gradient passes where x is within these bounds.

        y = a_max where x > a_max, else a_min where x < a_min, else x
    """

    a_min: float
    a_max: float

    numbers: ClassVar = ("a_min", "a_max")
    formula: ClassVar = "where(x > a_max, a_max, where(x < a_min, a_min, x))"
    gradients: ClassVar = {"x": "where(x > a_max, 0, where(x < a_min, 0, gy))"}


@dataclass(frozen=True)
class HardSigmoid(_Float32Scalars, name="hard_sigmoid"):
    """A piecewise linear sigmoid: y = alpha x + beta, clamped to [0, 1]."""

    alpha: float = 0.2
    beta: float = 0.5

    numbers: ClassVar = ("alpha", "beta")
    formula: ClassVar = "maximum(minimum(alpha * x + beta, 1), 0)"
    gradients: ClassVar = {"x": "where(y > 0, where(y < 1, gy * alpha, 0), 0)"}

    def check_type(self, dtype: PartialType) -> None:
        if dtype is not None and dtype.kind != "f":
            raise MXNetError(f"hard_sigmoid takes floating point arrays only, not {dtype}")


@dataclass(frozen=True)
class Quadratic(_Float32Scalars, name="_contrib_quadratic"):
    """y = a x^2 + b x + c."""

    a: float = 0.0
    b: float = 0.0
    c: float = 0.0

    numbers: ClassVar = ("a", "b", "c")
    formula: ClassVar = "a * x * x + b * x + c"
    gradients: ClassVar = {"x": "gy * (2 * a * x + b)"}


class DivSqrtDim(FormulaOp, name="_contrib_div_sqrt_dim"):
    """y = x / sqrt(n), n being the size of the last dimension: the scale of attention scores."""

    formula: ClassVar = "x / root"
    gradients: ClassVar = {"x": "gy / root"}

    def scalar_value(self, name: str, like: Tensor) -> Any:
        return math.sqrt(like.shape[-1])

    def decompose_backward(self, node: Node) -> list[Entry | None]:
        """This op of the gradient: the root is not known before the shapes are."""
        return [Entry(Node(self, f"{node.name}_scaled", [node.inputs[0]]))]


class Where(FormulaOp, name="where", aliases=("_sparse_where",)):
    """x where the condition is not 0, else y.

    The condition has the shape of x and y, or is a vector that chooses along their first
    dimension; it may be of any type, and its gradient is 0.
    """

    shapes: ClassVar = "x, y and output have one shape"
    inputs: ClassVar = ("condition", "x", "y")
    letters: ClassVar = {"c": "condition", "a": "x", "b": "y"}
    formula: ClassVar = "where(c != 0, a, b)"
    gradients: ClassVar = {"a": "where(c != 0, gy, 0)", "b": "where(c != 0, 0, gy)"}
    needs: ClassVar = ("ograd", "condition")
    inplace: ClassVar = (("x", "output"), ("y", "output"))
    inplace_backward: ClassVar = (("ograd", "x"), ("ograd", "y"))

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        condition = ins[0]
        shape = unify_all([ins[1], ins[2], outs[0]], "x and y")
        if condition is not None and shape is not None:
            if len(condition) == 1 and len(shape) > 1:
                if condition[0] and shape[0] and condition[0] != shape[0]:
                    raise ShapeMismatch(f"condition {condition} must have one element for each of "
                                        f"the {shape[0]} rows of x {shape}")
            else:
                condition = unify(condition, shape, "condition and x")
        return [condition, shape, shape], [shape]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        values, result = Op.infer_type(self, ins[1:], outs)
        for dtype in (ins[0], *result):
            self.check_type(dtype)
        return [ins[0], *values], result

    def elements(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Elements | None:
        return super().elements(ins, outs) if ins[0].shape == outs[0].shape else None

    def backward_elements(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Elements | None:
        return super().backward_elements(ins, outs) if ins[0].shape == ins[1].shape else None

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        super().forward([_rows(ins[0], outs[0]), *ins[1:]], outs, call)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return super().prepare([_rows(ins[0], outs[0]), *ins[1:]], outs, call)

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        if outs[0] is not None and not (call.add and call.add[0]):
            outs[0].fill(0)
        super().backward([ins[0], _rows(ins[1], ins[0])], [None, *outs[1:]], call)

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if outs[0] is not None:
            return super(FormulaOp, self).prepare_backward(ins, outs, call)
        return super().prepare_backward([ins[0], _rows(ins[1], ins[0])], outs, call)


def _rows(condition: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A vector of conditions as a column that chooses whole rows of `like`."""
    if condition.ndim == 1 and like.ndim > 1:
        return condition.reshape((-1,) + (1,) * (like.ndim - 1))
    return condition


LONGEST_SUM = 128
"""Terms of one formula, whose depth is limited by Python's parser, and operands of one kernel."""


@cache
def sum_program(count: int) -> Program:
    """y = x0 + x1 + ..., from left to right."""
    names = tuple(f"x{i}" for i in range(count))
    targets = [f"y{i}" for i in range(LONGEST_SUM, count, LONGEST_SUM)] + ["y"]
    steps = []
    for index, target in enumerate(targets):
        terms = names[LONGEST_SUM * index:LONGEST_SUM * (index + 1)]
        steps.append(Assign(target, " + ".join((*targets[index - 1:index], *terms))))
    return Program(f"add_{count}", tuple(steps), names, ("y",))


@dataclass(frozen=True)
class AddN(Op, name="add_n",
           aliases=("ElementWiseSum", "_sparse_ElementWiseSum", "_sparse_add_n")):
    """The sum of any number of tensors of one shape, from left to right.  Every gradient is gy."""

    num_args: int

    inputs: ClassVar = ("args",)
    variadic: ClassVar = "num_args"
    inplace: ClassVar = (("arg0", "output"),)
    accumulates: ClassVar = True

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        return [ograds[0]] * len(node.inputs)

    def elements(self, ins: Sequence[Spec], outs: Sequence[Spec]) -> Elements | None:
        if len(ins) > LONGEST_SUM:
            return None
        return Elements(sum_program(len(ins)), tuple(range(len(ins))))

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        run(sum_program(len(ins)), ins, outs, add=call.add)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if len(ins) > LONGEST_SUM:  # by NumPy: a kernel of so many operands compiles for minutes
            return interpreted(sum_program(len(ins)), ins, outs, add=call.add)
        return kernels().prepare(sum_program(len(ins)), ins, outs, add=call.add)
