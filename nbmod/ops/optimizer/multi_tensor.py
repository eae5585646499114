"""Ops over lists of tensors that training loops use around an update.

Sums of squares for layer-wise rates, tests for infinity and NaN before a step with loss scaling,
and zeroing.  All take any number of tensors, of any shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy import float64, int64

from ..elementwise.float16 import FLOAT16, FLOAT32
from ..elementwise.formula_op import FormulaOp, kernels
from ..jit import kernel, prange
from ..op import Call, Op, PartialType, Types
from ..shape import Shapes
from .sgd_update import require_trainable

__all__ = ["CHUNK", "sum_of_squares", "sum_of_squares_by_numpy"]

CHUNK = 1 << 14
"""Elements that one thread sums, so that results do not depend on the number of threads."""


def sum_of_squares(array: np.ndarray) -> float:
    """The sum of the squares of all elements, accumulated in float64."""
    flat = array.reshape(-1)
    if flat.dtype == FLOAT16:
        flat = flat.astype(FLOAT32)
    if flat.size < kernels().COMPILED_FROM:
        return sum_of_squares_by_numpy(flat)
    sums = np.empty(-(-flat.size // CHUNK))
    _squares(flat, sums)
    return float(sums.sum())


def sum_of_squares_by_numpy(array: np.ndarray) -> float:
    """The sum of the squares of all elements with NumPy, in float64."""
    flat = array.reshape(-1).astype(np.float64)
    return float(np.dot(flat, flat))


@kernel(parallel=True, fastmath=True)
def _squares(x, sums):
    for chunk in prange(sums.size):
        first = int64(chunk) * CHUNK
        part = x[first:first + CHUNK]
        total = 0.0
        for i in range(part.size):
            total += float64(part[i]) * part[i]
        sums[chunk] = total


class _Tensors(Op):
    """Any number of tensors of any shapes and float types."""

    shapes: ClassVar = "tensors of any shapes"
    variadic: ClassVar[str] = "num_arrays"

    num_arrays: int

    def list_inputs(self) -> tuple[str, ...]:
        return tuple(f"array_{i}" for i in range(self.num_arrays))

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        return ins, [(1,)] * len(outs)

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        known = next((dtype for dtype in ins if dtype is not None), None)
        for dtype in ins:
            require_trainable(dtype)
        return [dtype or known for dtype in ins], [FLOAT32] * len(outs)


@dataclass(frozen=True)
class MultiSumSq(_Tensors, name="multi_sum_sq"):
    """output_i = sum of the squares of tensor i; output (num_arrays,), float32."""

    num_arrays: int

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        return ins, [(self.num_arrays,)]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        outs[0][:] = [sum_of_squares(array) for array in ins]


class _Finite(_Tensors):
    init_output: bool

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        finite = all(np.isfinite(array).all() for array in ins)
        outs[0][:] = finite and (self.init_output or bool(outs[0][0]))


@dataclass(frozen=True)
class AllFinite(_Finite, name="all_finite"):
    """output = 1 if every element of data is a finite number, else 0; output (1,), float32.

    With `init_output=False` an output that holds 0 already stays 0.
    """

    init_output: bool = True

    shapes: ClassVar = "data of any shape"
    variadic: ClassVar[str] = ""

    def list_inputs(self) -> tuple[str, ...]:
        return self.inputs


@dataclass(frozen=True)
class MultiAllFinite(_Finite, name="multi_all_finite"):
    """output = 1 if every element of every tensor is a finite number, else 0; output (1,), float32.

    With `init_output=False` an output that holds 0 already stays 0.
    """

    num_arrays: int = 1
    init_output: bool = True


@dataclass(frozen=True)
class MultiLARS(FormulaOp, name="multi_lars"):
    """Rates of layers, You et al. (2017), from the squared lengths of weights and gradients:
    output_i = lrs_i eta |w_i| / (rescale_grad |g_i| + wds_i |w_i| + eps), or lrs_i where either
    length is 0.  All tensors have one shape, with an element for every layer.
    """

    eta: float
    eps: float
    rescale_grad: float = 1.0

    inputs: ClassVar[tuple[str, ...]] = ("lrs", "weights_sum_sq", "grads_sum_sq", "wds")
    letters: ClassVar[dict[str, str]] = {"lr": "lrs", "w2": "weights_sum_sq",
                                         "g2": "grads_sum_sq", "wd": "wds"}
    formula: ClassVar[str] = (
        "where(w2 <= 0, lr, where(g2 <= 0, lr, "
        "lr * eta * sqrt(w2) / (sqrt(g2) * rescale_grad + wd * sqrt(w2) + eps)))")
    inplace: ClassVar[tuple[tuple[str, str], ...]] = (("lrs", "output"),)

    def check_type(self, dtype: PartialType) -> None:
        require_trainable(dtype)


@dataclass(frozen=True)
class ResetArrays(_Tensors, name="reset_arrays"):
    """Every element of every tensor becomes 0, in place; there is no output."""

    num_arrays: int

    outputs: ClassVar[tuple[str, ...]] = ()

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        for array in ins:
            array.fill(0)
