"""Ops of a tensor and a scalar: `_plus_scalar`, `_rminus_scalar` and the like.

They are the binary formulas with the scalar as operand `b`, or `a` for the reversed ones.  The
scalar is first cast to the type of the tensor: integers plus 1.5 is integers plus 1.  Only with
`is_int=False` do integers become float64; booleans always become int64, or float64 with
`is_int=False`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base import DType, MXNetError
from ...graph import Entry, Node
from ..op import Tensor, Types
from ..rules import to_type
from .float_op import as_float32
from .formula import rename
from .formula_op import FormulaOp, backward_program, define, forward_program
from .program import Program
from .unary_binary import BINARY, REGULAR

__all__ = ["Scalar"]


@dataclass(frozen=True)
class Scalar(FormulaOp):
    """A function of a tensor and a scalar."""

    scalar: float = 1.0
    is_int: bool = True

    numbers: ClassVar[tuple[str, ...]] = ("scalar",)

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        data, out = ins[0], outs[0]
        if data is None:
            data = out if out is None or out.kind == "f" else None
            return [data], [out]
        if data.kind == "b":
            expected: DType = np.dtype(np.int64 if self.is_int else np.float64)
        else:
            expected = data if data.kind == "f" or self.is_int else np.dtype(np.float64)
        if out is not None and out != expected:
            raise MXNetError(f"the output has type {out}, expected {expected} for data of type "
                             f"{data}; insert a Cast")
        return [data], [expected]

    def scalar_value(self, name: str, like: Tensor) -> Any:
        if like.dtype.kind == "f":
            return self.scalar
        return _to_integer(self.scalar, like.dtype)

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        # Without is_int the output may be of another type than the data.
        return super().gradient(node, ograds) if self.is_int else None


def _to_integer(value: float, dtype: DType) -> Any:
    """A number cast to an integer type: truncated, and wrapped around as in C.

    C does not define casts of what no 64 bits hold.  Here they give the nearest integer, so that
    comparisons with infinity are right; NaN gives 0.
    """
    if abs(value) < 2.0 ** 63:
        return to_type(math.trunc(value), dtype)
    if dtype.kind == "b" or math.isnan(value):
        return dtype.type(not math.isnan(value))
    limits = np.iinfo(dtype)  # type: ignore[type-var]  # of an integer type
    return dtype.type(limits.max if value > 0 else limits.min)


def _define() -> None:
    for name, key, *aliases in (
        ("_plus_scalar", "add", "_PlusScalar"), ("_minus_scalar", "sub", "_MinusScalar"),
        ("_mul_scalar", "mul", "_MulScalar"), ("_div_scalar", "div", "_DivScalar"),
        ("_scatter_plus_scalar", "add"), ("_scatter_minus_scalar", "sub"),
        *((f"_{key}_scalar", key, f"_{key.title().replace('_', '')}Scalar")
          for key in REGULAR if key != "power"),
        # with the scalar for `a`
        ("_rminus_scalar", "sub", "_RMinusScalar"), ("_rdiv_scalar", "div", "_RDivScalar"),
        ("_rmod_scalar", "mod", "_RModScalar"), ("_rpower_scalar", "power", "_RPowerScalar"),
    ):
        row, reverse = BINARY[key], name.startswith("_r")
        names = {"a": "scalar", "b": "x"} if reverse else {"a": "x", "b": "scalar"}
        gradient = row.gb if reverse else row.ga
        roles = "the scalar, b is x" if reverse else "x, b is the scalar"
        define(Scalar, name, f"{row.meaning}  a is {roles}.", rename(row.formula, names),
               {"x": rename(gradient, names)} if gradient else {}, aliases, __name__)


class SmoothL1(Scalar, name="smooth_l1"):
    """Smooth L1 loss with `scalar` for sigma: quadratic within 1 / sigma^2 of 0, linear beyond.

        y = 0.5 (sigma x)^2   where |x| <= 1 / sigma^2,   else |x| - 0.5 / sigma^2
    """

    formula: ClassVar = ("where(x > 1 / (scalar * scalar), x - 0.5 / (scalar * scalar), "
                         "where(x < -1 / (scalar * scalar), -x - 0.5 / (scalar * scalar), "
                         "0.5 * (scalar * x) * (scalar * x)))")
    gradients: ClassVar = {"x": "where(x > 1 / (scalar * scalar), gy, "
                                "where(x < -1 / (scalar * scalar), -gy, scalar * scalar * x * gy))"}

    def scalar_value(self, name: str, like: Tensor) -> Any:
        # no float of Python, which raises where it is divided by zero
        if like.dtype.kind == "f" and like.dtype.itemsize < 8:
            return np.float32(as_float32(self.scalar))
        return np.float64(self.scalar)


class PowerScalar(Scalar, name="_power_scalar", aliases=("_PowerScalar",)):
    """x to the power of the scalar.  Squares, cubes and roots are spelled out: they are fast.

        y = x ** scalar
        gx = gy * scalar * x ** (scalar - 1)
    """

    formula: ClassVar = "x ** scalar"
    gradients: ClassVar = {"x": "gy * scalar * x ** (scalar - 1)"}

    _SHORT: ClassVar = {
        -1.0: ("1 / x", "-gy / (x * x)"), 0.5: ("sqrt(x)", "0.5 * gy / sqrt(x)"),
        1.0: ("x", "gy"), 2.0: ("x * x", "2 * gy * x"), 3.0: ("x * x * x", "3 * gy * x * x"),
    }  # fmt: skip

    @property
    def numbers(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.scalar in self._SHORT else ("scalar",)

    def program(self, kind: str = "f") -> Program:
        short = self._SHORT.get(self.scalar) if kind == "f" else None
        return forward_program(self.name, short[0], ("x",)) if short else super().program()

    def backward_program(self, kind: str = "f") -> Program:
        short = self._SHORT.get(self.scalar) if kind == "f" else None
        if short is None:
            return super().backward_program()
        return backward_program(self.name, (short[1],), ("x",))


_define()
