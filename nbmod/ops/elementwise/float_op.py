"""Base of ops over floating-point tensors.

float16 is a storage type (see `float16`): such tensors are converted around the computation, in
float32.  float32 and float64 tensors are used directly.  So these methods of subclasses never get
a float16 array:

    compute, compute_backward      compute now, with NumPy: the eager path
    compiled, compiled_backward    return a function without arguments that computes (at bind)
    work, work_backward            workspace of the subclass, first in `call.scratch`

Either `compute` or `compiled` is enough: each is the default of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base import MXNetError
from ..op import Call, Op, PartialType, Run, Spec, Types
from .float16 import (
    accumulator,
    convert_eagerly,
    convert_prepared,
    in_float32,
    is_stored,
    with_copies,
)

__all__ = ["FloatOp", "accumulator", "as_float32", "require_float"]


def as_float32(value: float) -> float:
    """`value` as the float32 in which MXNet keeps most parameters, whatever the tensors are."""
    return float(np.float32(value))


def require_float(op: Op, ins: Sequence[PartialType]) -> None:
    """MXNetError if the first input of `op` is known not to be floating point."""
    if ins[0] is not None and ins[0].kind != "f":
        raise MXNetError(f"{op.list_inputs()[0]} has type {ins[0]}, expected float32, float64 or "
                         "float16; insert a Cast")


class FloatOp(Op):
    """See the module docstring."""

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        require_float(self, ins)
        return super().infer_type(ins, outs)

    def work(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return []

    def work_backward(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return []

    def compute(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.compiled(ins, outs, call)()

    def compute_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.compiled_backward(ins, outs, call)()

    def compiled(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(self.compute, ins, outs, call)

    def compiled_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(self.compute_backward, ins, outs, call)

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        if is_stored([*ins, *outs]):
            return with_copies(self.work, ins, outs)
        return self.work(ins, outs)

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        if is_stored([*ins, *outs]):
            return with_copies(self.work_backward, ins, outs)
        return self.work_backward(ins, outs)

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        if is_stored([*ins, *outs]):
            make = partial(partial, self.compute)
            in_float32(make, ins, outs, call, convert_eagerly)()
        else:
            self.compute(ins, outs, call)

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        if is_stored([*ins, *outs]):
            make = partial(partial, self.compute_backward)
            in_float32(make, ins, outs, call, convert_eagerly)()
        else:
            self.compute_backward(ins, outs, call)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if is_stored([*ins, *outs]):
            return in_float32(self.compiled, ins, outs, call, convert_prepared)
        return self.compiled(ins, outs, call)

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if is_stored([*ins, *outs]):
            return in_float32(self.compiled_backward, ins, outs, call, convert_prepared)
        return self.compiled_backward(ins, outs, call)
