"""Base of ops over floating-point tensors.

float16 is a storage type (see `float16`): such tensors are converted around the computation, in
float32.  float32 and float64 tensors are used directly.  So the methods of subclasses that compute
never get a float16 array.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_float
from typing import ClassVar

from ...base import MXNetError
from ..dispatch import Storage
from ..op import Op, PartialType, Types
from .float16 import accumulator, through_float32

__all__ = ["FloatOp", "accumulator", "as_float32", "require_float"]


def as_float32(value: float) -> float:
    """`value` as the float32 in which MXNet keeps most parameters, whatever the tensors are."""
    return c_float(value).value     # NumPy would warn of what becomes infinite


def require_float(op: Op, ins: Sequence[PartialType]) -> None:
    """MXNetError if the first input of `op` is known not to be floating point."""
    if ins[0] is not None and ins[0].kind != "f":
        raise MXNetError(f"{op.list_inputs()[0]} has type {ins[0]}, expected float32, float64 or "
                         "float16; insert a Cast, such as x.astype('float32')")


class FloatOp(Op):
    """See the module docstring."""

    storage: ClassVar[tuple[Storage, ...]] = (through_float32,)

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        require_float(self, ins)
        return super().infer_type(ins, outs)
