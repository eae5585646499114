"""Real numbers represented by 8-bit integers: ranges, steps and rounding.

An integer tensor comes with the two bounds of the range of real numbers that it represents, each a
float32 tensor (1,).  Ranges are symmetric about 0 for any bounds: with

    m = max(|low|, |high|),  R = 127.5 (int8) or 255.5 (uint8)

the integer q represents the number q m / R.  So there is no zero point, and zero is exact.  An
int32 tensor holds sums of products, for which R is 2**31 - 1.

Rounding is to nearest even, with saturation.  All arithmetic is float32, as in MXNet, so that
results agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ..jit import kernel, prange
from ..op import Op, PartialType, Types
from ..shape import PartialShape, Shapes

__all__ = ["BYTES", "FLOAT", "INT32", "INT8", "LEVELS", "S8", "UINT8", "Calibrated", "RangedOp",
           "expect_type", "limits", "magnitude", "merge_types", "per_unit", "prepared_round",
           "product_range", "quotient", "round_scaled", "set_range"]

FLOAT, INT32 = np.dtype(np.float32), np.dtype(np.int32)
INT8, UINT8 = np.dtype(np.int8), np.dtype(np.uint8)

LEVELS = {INT8: np.float32(127.5), UINT8: np.float32(255.5), INT32: np.float32(2 ** 31 - 1)}
"""Steps of a type from 0 to the bound of its range."""

BYTES = (UINT8, INT8)
S8 = np.float32(127)
"""Steps of int8 where MXNet does not add one half."""


Scalar = float | np.floating
Bound = Scalar | np.ndarray
"""An end of a range: a number, or an array of one element."""


def magnitude(low: Bound, high: Bound) -> np.float32:
    """The larger bound of a range, given as two scalars or two arrays of one element."""
    return np.float32(max(abs(float(np.ravel(low)[0])), abs(float(np.ravel(high)[0]))))


def quotient(a: Scalar, b: Scalar) -> np.float32:
    """a / b, and 0 where b is 0: an empty range contains only zeros."""
    return np.float32(a) / np.float32(b) if b else np.float32(0)


def per_unit(dtype: np.dtype, low: Bound, high: Bound) -> np.float32:
    """Steps of an integer type that represent 1 in this range."""
    return quotient(LEVELS[dtype], magnitude(low, high))


def product_range(data_levels: Scalar, data: Sequence[Any], weight: Sequence[Any]) -> np.float32:
    """The bound of the range of int32 sums of products, from the ranges of data and weight."""
    step = (magnitude(*data) / np.float32(data_levels)) * (magnitude(*weight) / S8)
    return np.float32(step * LEVELS[INT32])


def limits(dtype: np.dtype) -> tuple[np.float32, np.float32]:
    """The least and the largest value of an 8-bit type."""
    info = np.iinfo(dtype)
    return np.float32(info.min), np.float32(info.max)


def set_range(outs: Sequence[Any], low: Bound | None, high: Bound | None) -> None:
    """Write the bounds of a range to the outputs 1 and 2 of an operator, where they exist and are
    wanted."""
    for out, end in zip(outs[1:3], (low, high), strict=False):
        if out is not None:
            out[...] = end


# ----------------------------------------------------------------------------------------- rounding

@kernel(parallel=True)
def _round_scaled(x, scale, low, high, y):
    for i in prange(x.size):
        value = np.rint(np.float32(x[i]) * scale)
        value = value if value > low else low
        y[i] = value if value < high else high


def round_scaled(x: np.ndarray, scale: np.float32, y: np.ndarray) -> None:
    """y = x scale as integers, by NumPy."""
    value = np.multiply(x, scale, dtype=np.float32)
    np.rint(value, out=value)
    np.copyto(y, np.fmin(np.fmax(value, limits(y.dtype)[0]), limits(y.dtype)[1]), casting="unsafe")


def prepared_round(x: np.ndarray, y: np.ndarray) -> Callable[[np.float32], None]:
    """`round_scaled` as a compiled function of the scale."""
    flat, out, (low, high) = x.reshape(-1), y.reshape(-1), limits(y.dtype)
    return lambda scale: _round_scaled(flat, scale, low, high, out)


# ---------------------------------------------------------------------------------------------- ops

def expect_type(what: str, actual: PartialType, expected: Sequence[np.dtype]) -> None:
    """Raise MXNetError if a type is known and not expected."""
    if actual is not None and actual not in expected:
        names = " or ".join(dtype.name for dtype in expected)
        raise MXNetError(f"{what} has type {actual}, expected {names}")


def merge_types(what: str, actual: PartialType, expected: np.dtype) -> np.dtype:
    """`expected`; MXNetError if another type is known."""
    expect_type(what, actual, [expected])
    return expected


class Calibrated:
    """Mixin of operators whose output may have a calibrated range."""

    min_calib_range: float | None
    max_calib_range: float | None

    @property
    def calibrated(self) -> bool:
        return self.min_calib_range is not None and self.max_calib_range is not None


class RangedOp(Op):
    """Base of operators on integer tensors: the bounds of all ranges come last and are float32
    (1,).

    A subclass defines how many of its inputs are `tensors`, the float `layer` of the same shapes,
    and `tensor_types`, those of the tensors and of the output.  There are no gradients: rounding
    has none.
    """

    outputs: ClassVar[tuple[str, ...]] = ("output", "min_output", "max_output")
    tensors: ClassVar[int] = 1

    @property
    def num_tensors(self) -> int:
        return self.tensors

    @property
    def layer(self) -> Op:
        """The float operator of the same shapes; default: tensors and output have one shape."""
        return Op()

    def tensor_shapes(self, ins: Shapes, out: PartialShape) -> tuple[Shapes, PartialShape]:
        """Shapes of the input tensors and of the output."""
        tensors, (out,) = self.layer.infer_shape(ins, [out])
        return tensors, out

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        """Types of the input tensors and of the output."""
        raise NotImplementedError

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        count = self.num_tensors
        tensors, out = self.tensor_shapes(ins[:count], outs[0])
        ranges: Shapes = [(1,)] * (len(ins) - count)
        return [*tensors, *ranges], [out, *[(1,)] * (len(outs) - 1)]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        count = self.num_tensors
        tensors, out = self.tensor_types(ins[:count])
        if out is not None:
            out = merge_types("output", outs[0], out)
        ranges: Types = [FLOAT] * (len(ins) - count)
        return [*tensors, *ranges], [out, *[FLOAT] * (len(outs) - 1)]
