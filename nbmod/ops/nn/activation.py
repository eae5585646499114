"""Activation and LeakyReLU: activation functions selected by a parameter.

Each function is an elementwise formula, a `FormulaOp` class (some are operators themselves), to
which the operator delegates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..elementwise import unary_binary  # noqa: F401  (fills the table with relu and its like)
from ..elementwise.float_op import as_float32, require_float
from ..elementwise.formula_op import FormulaOp
from ..elementwise.program import prune
from ..op import _TABLE, Call, Run, Tensor, all_of
from ..param import Shape
from ..random.rng import generator
from ..shape import PartialShape, ShapeMismatch, require_rank, unify

__all__ = ["Activation", "LeakyReLU"]


class _Chosen(FormulaOp):
    """A FormulaOp whose formulas are those of another class, `choice()`."""

    def choice(self) -> type[FormulaOp]:
        raise NotImplementedError

    formula = property(lambda self: self.choice().formula)
    gradients = property(lambda self: self.choice().gradients)
    letters = property(lambda self: self.choice().letters)
    needs = property(lambda self: self.choice().needs)
    inplace_backward = property(lambda self: self.choice().inplace_backward)

    def scalar_value(self, name: str, like: Tensor) -> float:
        return as_float32(getattr(self, name))

    def infer_type(self, ins, outs):
        require_float(self, ins)
        return super().infer_type(ins, outs)


class _SoftRelu(FormulaOp):
    name = "softrelu"
    formula = "where(x > 20, x, log1p(exp(x)))"
    gradients = {"x": "gy * (1 - exp(-y))"}


@dataclass(frozen=True)
class Activation(_Chosen, name="Activation"):
    """y = f(x): relu, sigmoid, tanh, softrelu = log(1 + e^x) or softsign = x / (1 + |x|)."""

    act_type: Literal["relu", "sigmoid", "softrelu", "softsign", "tanh"]

    def choice(self):
        return _SoftRelu if self.act_type == "softrelu" else _TABLE[self.act_type]


# -- LeakyReLU ------------------------------------------------------------------------------


class _Leaky(FormulaOp):
    name = "leaky"
    formula = "where(x > 0, x, slope * x)"
    gradients = {"x": "where(y > 0, gy, slope * gy)"}


class _LeakyDown(FormulaOp):
    """For a negative slope, with which y does not determine the sign of x."""

    name = "leaky_down"
    formula = "where(x > 0, x, slope * x)"
    gradients = {"x": "where(x > 0, gy, slope * gy)"}


class _Elu(FormulaOp):
    name = "elu"
    formula = "where(x > 0, x, slope * expm1(x))"
    gradients = {"x": "where(x > 0, gy, gy * (y + slope))"}


class _Selu(FormulaOp):
    """With MXNet's gradient, which ignores that y is already scaled: up to 9% off below 0."""

    name = "selu"
    formula = "1.0507009873554805 * where(x > 0, x, 1.6732632423543772 * expm1(x))"
    gradients = {"x": "1.0507009873554805 * gy * where(y > 0, 1, y + 1.6732632423543772)"}


class _Gelu(FormulaOp):
    name = "gelu"
    formula = "0.5 * x * (1 + erf(x * 0.7071067811865476))"
    gradients = {"x": "gy * (0.5 * (1 + erf(x * 0.7071067811865476)) "
                      "+ x * 0.3989422804014327 * exp(-0.5 * x * x))"}


class _PRelu(FormulaOp):
    name = "prelu"
    formula = "where(x > 0, x, a * x)"
    gradients = {"x": "where(x > 0, gy, a * gy)", "a": "where(x > 0, 0, gy * x)"}
    letters = {"x": "data", "a": "gamma"}
    # Not in place of gamma: its sum is computed first, and the gradient of data still reads gamma.
    inplace_backward = (("ograd", "data"), ("data", "data"))


class _RRelu(FormulaOp):
    name = "rrelu"
    formula = "where(x > 0, x, m * x)"
    gradients = {"x": "where(x > 0, gy, m * gy)"}
    letters = {"x": "data", "m": "mask"}


_LEAKY = {"elu": _Elu, "selu": _Selu, "gelu": _Gelu, "prelu": _PRelu, "rrelu": _RRelu}


@dataclass(frozen=True)
class LeakyReLU(_Chosen, name="LeakyReLU"):
    """y = x where x > 0 and, elsewhere or everywhere, by `act_type`:

    leaky  slope x
    prelu  gamma x, gamma learned: (C,) along axis 1 of data, (1,), or (N, C) with 1 where it
           broadcasts (after BatchNorm MXNet's gradient of gamma is gamma times too small: it
           reads data that y has overwritten)
    elu    slope (e^x - 1)
    selu   1.67326 (e^x - 1), all of it times 1.0507; below 0 the gradient is 1.0507 (y + 1.67326)
           as in MXNet, not the derivative 1.0507 * 1.67326 + y
    gelu   x (1 + erf(x / sqrt(2))) / 2 everywhere
    rrelu  m x, m drawn uniformly from [lower_bound, upper_bound) for each element in training,
           their mean in inference; the second output is m
    """

    shapes: ClassVar = "data and output have one shape"
    act_type: Literal["elu", "gelu", "leaky", "prelu", "rrelu", "selu"] = "leaky"
    slope: float = 0.25
    lower_bound: float = 0.125
    upper_bound: float = 0.334

    inputs: ClassVar = ("data", "gamma")
    init: ClassVar = {"gamma": '["Constant", {"value": 0.25}]'}

    def choice(self):
        if self.act_type == "leaky":
            return _Leaky if self.slope >= 0 else _LeakyDown
        return _LEAKY[self.act_type]

    @property
    def random(self):  # type: ignore[override]
        return self.act_type == "rrelu"

    def list_inputs(self):
        return self.inputs if self.act_type == "prelu" else self.inputs[:1]

    def list_outputs(self):
        return ("output", "mask") if self.act_type == "rrelu" else ("output",)

    def infer_shape(self, ins, outs):
        data: PartialShape = unify(ins[0], outs[0], "data and output")
        if self.act_type != "prelu":
            return [data], [data] * len(outs)
        gamma = ins[1]
        if data is not None and gamma in (None, (0,)):
            require_rank(data, 2, "at least (N, C)")
            gamma = data[1:2]
        elif data is not None and gamma is not None:
            _slopes_shape(gamma, data)
        return [data, gamma], [data]

    def backward_program(self, kind="f"):
        program = super().backward_program(kind)
        # The mask is not an input and needs no gradient.
        return prune(program, (True, False)) if self.act_type == "rrelu" else program

    def elements(self, ins, outs):
        return None if self.act_type in ("prelu", "rrelu") else super().elements(ins, outs)

    def backward_elements(self, ins, outs):
        return None if self.act_type in ("prelu", "rrelu") else super().backward_elements(ins, outs)

    def scratch(self, ins, outs):
        return outs[1:]

    def forward(self, ins, outs, call):
        operands, draws = self._operands_forward(ins, outs, call)
        all_of(draws)()
        super().forward(operands, outs[:1], call)

    def prepare(self, ins, outs, call):
        operands, draws = self._operands_forward(ins, outs, call)
        return all_of([*draws, super().prepare(operands, outs[:1], call)])

    def backward(self, ins, outs, call):
        super().backward(self._aligned(self.needs, ins, ins[0].shape),
                         self._aligned(self.list_inputs(), outs, ins[0].shape), call)

    def prepare_backward(self, ins, outs, call):
        return super().prepare_backward(
            self._aligned(self.needs, ins, ins[0].shape),
            self._aligned(self.list_inputs(), outs, ins[0].shape), call)

    def _operands_forward(self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None],
                          call: Call) -> tuple[list[Any], list[Run]]:
        """Operands of the formula, and functions to call before it."""
        if self.act_type != "rrelu":
            return self._aligned(self.list_inputs(), ins, ins[0].shape), []
        mask = call.scratch[0] if outs[1] is None else outs[1]
        return [ins[0], mask], [partial(self._draw, mask, call)]

    def _draw(self, mask: np.ndarray, call: Call) -> None:
        low, high = as_float32(self.lower_bound), as_float32(self.upper_bound)
        if call.is_train:
            kind = np.float64 if mask.dtype == np.float64 else np.float32
            mask[...] = low + (high - low) * generator().random(mask.shape, kind)
        else:
            mask.fill((low + high) / 2)

    def _aligned(self, names: Sequence[str], arrays: Sequence[Any], data: Shape) -> list[Any]:
        """`arrays`, with gamma in the shape that broadcasts to that of data."""
        return [array.reshape(_slopes_shape(array.shape, data))
                if name == "gamma" and array is not None else array
                for name, array in zip(names, arrays, strict=True)]


def _slopes_shape(gamma: Shape, data: Shape) -> Shape:
    """`gamma` as it broadcasts to `data`: its axes are the last ones that fit of (N, C).

    An unknown size (0) fits.  ShapeMismatch if an axis of gamma is left.
    """
    shape, left = [1] * len(data), list(gamma)
    for axis in reversed(range(min(2, len(data)))):
        if left and (left[-1] in (0, 1, data[axis]) or not data[axis]):
            shape[axis] = left.pop()
    if left:
        raise ShapeMismatch(f"gamma has shape {gamma}, expected {data[1:2]}, (1,) or one that "
                            f"broadcasts to {data[:2]}")
    return tuple(shape)
