"""Whether two tensors are the same but for rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..op import Op
from ..rules import common_type
from ..shape import unify
from .float_op import accumulator, as_float32

__all__ = ["AllClose"]


@dataclass(frozen=True)
class AllClose(Op, name="_contrib_allclose"):
    """1 if |a - b| <= atol + rtol |b| for all elements, else 0: a uint8 of shape ().

    Infinities are close to themselves only, NaN to NaN if `equal_nan`.  There is no gradient.
    """

    rtol: float = as_float32(1e-5)
    atol: float = as_float32(1e-8)
    equal_nan: bool = True

    inputs: ClassVar = ("a", "b")
    shapes: ClassVar = "a and b of one shape, output ()"

    def infer_shape(self, ins, outs):
        shape = unify(ins[0], ins[1], "a and b")
        return [shape, shape], [()]

    def infer_type(self, ins, outs):
        dtype = common_type(ins)
        return [dtype, dtype], [np.dtype(np.uint8)]

    def forward(self, ins, outs, call):
        a, b = (x.astype(accumulator(x.dtype), copy=False) for x in ins)
        with np.errstate(invalid="ignore"):
            outs[0][...] = np.allclose(a, b, self.rtol, self.atol, self.equal_nan)
