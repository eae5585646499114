"""Conversions between element types: Cast, and the two that automatic mixed precision inserts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ...graph import Entry, Node
from ..op import Call, Op, PartialType, Types
from ..param import DType
from .formula_op import FormulaOp
from .program import Assign, Program, run

__all__ = ["AmpCast", "AmpMulticast", "Cast"]

FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
CONVERT = Program("cast", (Assign("y", "x"),), ("x",), ("y",))


@dataclass(frozen=True)
class Cast(FormulaOp, name="Cast", aliases=("cast",)):
    """y = x as `dtype`;  gx = gy as the type of x.

    Reals become integers by dropping the fraction, modulo the range of the type (300 as uint8 is
    44, -1.5 is 255); anything but 0 becomes True.
    """

    dtype: DType

    formula: ClassVar = "x"
    gradients: ClassVar = {"x": "gy"}
    inplace: ClassVar = ()
    inplace_backward: ClassVar = ()

    def target(self) -> np.dtype:
        """The type to convert to."""
        if self.dtype == "bfloat16":
            raise MXNetError(f"{self.name}: bfloat16 is not supported; use float16 or float32")
        return np.dtype(self.dtype)

    def is_identity(self, ins, outs):
        return ins[0] == outs[0]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        return list(ins), [_agreed(self.target(), outs[0])]

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        return None  # the head gradient is of another type

    def decompose_backward(self, node: Node) -> list[Entry | None] | None:
        return None


@dataclass(frozen=True)
class AmpCast(Cast, name="amp_cast"):
    """Cast for mixed precision: float16 and float32 are converted, other types left alone."""

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        data = ins[0]
        if data is None:
            return [None], list(outs)
        return [data], [_agreed(self.target() if data in (FLOAT16, FLOAT32) else data, outs[0])]


@dataclass(frozen=True)
class AmpMulticast(Op, name="amp_multicast"):
    """Convert the float16 and float32 among some tensors to the widest of their types.

    `cast_narrow` converts to the narrowest instead.  Tensors of other types are left alone.
    """

    shapes: ClassVar = "every output has the shape of its input"
    num_outputs: int
    cast_narrow: bool = False

    inputs: ClassVar = ("data",)
    variadic: ClassVar = "num_outputs"
    needs: ClassVar = ("ograds",)

    def list_outputs(self) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(self.num_outputs))

    def infer_shape(self, ins, outs):
        pairs = [Op.infer_shape(self, [a], [b]) for a, b in zip(ins, outs, strict=True)]
        return [a[0] for a, _ in pairs], [b[0] for _, b in pairs]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        if any(dtype is None for dtype in ins):
            return list(ins), list(outs)
        narrow = FLOAT16 in ins if self.cast_narrow else FLOAT32 not in ins
        common = FLOAT16 if narrow else FLOAT32
        return list(ins), [common if dtype in (FLOAT16, FLOAT32) else dtype for dtype in ins]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        for data, out in zip(ins, outs, strict=True):
            if out is not None:
                run(CONVERT, [data], [out])

    backward = forward


def _agreed(expected: np.dtype, known: PartialType) -> np.dtype:
    if known is not None and known != expected:
        raise MXNetError(f"the output has type {known}, expected {expected}")
    return expected
