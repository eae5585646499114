"""quantize, dequantize, requantize.

See `ranges` for the representation of real numbers by integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..op import Call, PartialType, Run, Types
from .ranges import (
    FLOAT,
    INT8,
    INT32,
    LEVELS,
    UINT8,
    Bound,
    Calibrated,
    RangedOp,
    expect_type,
    magnitude,
    merge_types,
    per_unit,
    prepared_round,
    quotient,
    round_scaled,
    set_range,
)

__all__ = ["Dequantize", "Quantize", "QuantizeAsym", "QuantizeV2", "Requantize",
           "sums_step"]

Round = Callable[[np.float32], None]
EXACT = {INT8: np.float32(127), UINT8: np.float32(255)}
"""Steps of a type to the bound of its range, for `quantize` and `requantize`."""


class _Quantizer(RangedOp):
    """Base of operators with an 8-bit output: `fill` gets a function that rounds at a scale."""

    outputs: ClassVar = ("output0", "output1", "output2")

    @property
    def target(self) -> np.dtype:
        """The type of the output."""
        raise NotImplementedError

    def fill(self, ins: Sequence[Any], outs: Sequence[Any], round_at: Round) -> None:
        raise NotImplementedError

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.fill(ins, outs, lambda scale: round_scaled(ins[0], scale, outs[0]))

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(self.fill, ins, outs, prepared_round(ins[0], outs[0]))


class _CalibratedQuantizer(Calibrated, _Quantizer):
    """Base of those with an optional calibrated range."""

    out_type: str

    @property
    def target(self) -> np.dtype:
        if self.out_type != "auto":
            return np.dtype(self.out_type)
        positive = self.min_calib_range is not None and self.min_calib_range >= 0
        return UINT8 if self.calibrated and positive else INT8


def sums_step(low: Bound, high: Bound) -> np.float32:
    """The real number that a step of int32 sums of this range represents."""
    return np.float32(magnitude(low, high) / LEVELS[INT32])


def symmetric(dtype: np.dtype, outs: Sequence[Any], low: Bound, high: Bound) -> np.float32:
    """Write the range of integers of `dtype` for real numbers in [low, high]; returns its bound."""
    end = magnitude(low, high)
    set_range(outs, *((-end, end) if dtype == INT8 else (low, high)))
    return end


@dataclass(frozen=True)
class Quantize(_Quantizer, name="_contrib_quantize"):
    """y = round(x s) in the given range, with s = 127 / m (int8) or 255 / m (uint8).

    data of any shape, min_range and max_range (1,), m = max(|min_range|, |max_range|) -> the
    integers, and the ends of their range: -m and m (int8), the given ones (uint8).
    """

    out_type: Literal["int8", "uint8"] = "uint8"

    inputs: ClassVar = ("data", "min_range", "max_range")

    @property
    def target(self) -> np.dtype:
        return np.dtype(self.out_type)

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        return [merge_types("data", ins[0], FLOAT)], self.target

    def fill(self, ins: Sequence[Any], outs: Sequence[Any], round_at: Round) -> None:
        end = symmetric(self.target, outs, ins[1], ins[2])
        round_at(quotient(EXACT[self.target], end))


@dataclass(frozen=True)
class QuantizeV2(_CalibratedQuantizer, name="_contrib_quantize_v2"):
    """y = round(x s) with s = 127.5 / m (int8) or 255.5 / m (uint8), m the end of the range.

    data of any shape -> the integers, and the ends of their range, (1,) each.  The range is
    [min_calib_range, max_calib_range] if given, else that of the data.  `out_type` 'auto' is uint8
    for a calibrated range without negative values, else int8.  Data that is 8-bit already passes
    as it is, with the range [-127.5, 127.5] or [0, 255.5] unless calibrated.
    """

    shapes: ClassVar = "data and output the same, ranges (1,)"
    out_type: Literal["auto", "int8", "uint8"] = "int8"
    min_calib_range: float | None = None
    max_calib_range: float | None = None

    inputs: ClassVar = ("data",)

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        expect_type("data", ins[0], [FLOAT, UINT8, INT8])
        return ins, self.target

    def fill(self, ins: Sequence[Any], outs: Sequence[Any], round_at: Round) -> None:
        data = ins[0]
        low, high = self.min_calib_range, self.max_calib_range
        if data.dtype != FLOAT:
            np.copyto(outs[0], data, casting="unsafe")
            end = LEVELS[data.dtype]
            set_range(outs, *((low, high) if self.calibrated else (-end, end) if
                              data.dtype == INT8 else (np.float32(0), end)))
            return
        if low is None or high is None:
            low, high = (data.min(), data.max()) if data.size else (0, 0)
        end = symmetric(self.target, outs, low, high)
        round_at(per_unit(self.target, end, end))


@dataclass(frozen=True)
class Dequantize(RangedOp, name="_contrib_dequantize"):
    """y = q m / R: the real values that 8-bit integers represent.

    data of any shape, min_range and max_range (1,); m = max(|min_range|, |max_range|), R is 127.5
    for int8 and 255.5 for uint8.
    """

    out_type: Literal["float32"] = "float32"

    inputs: ClassVar = ("data", "min_range", "max_range")
    outputs: ClassVar = ("output",)

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        expect_type("data", ins[0], [UINT8, INT8])
        return ins, FLOAT

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        data, low, high = ins
        np.multiply(data, magnitude(low, high) / LEVELS[data.dtype], out=outs[0],
                    dtype=np.float32)


@dataclass(frozen=True)
class Requantize(_CalibratedQuantizer, name="_contrib_requantize"):
    """Sums of products, int32, as 8-bit integers: y = round(q s).

    data of any shape, min_range and max_range (1,) -> the integers and the ends of their range.
    q represents r = q max(|min_range|, |max_range|) / (2**31 - 1).  With m the end of the
    calibrated range, else of the data, y is r 127 / m (int8) or r 255 / m (uint8), and
    the new range [-m, m] or [0, m].  `out_type` 'auto' is uint8 for a calibrated range without
    negative values, else int8.
    """

    out_type: Literal["auto", "int8", "uint8"] = "int8"
    min_calib_range: float | None = None
    max_calib_range: float | None = None

    inputs: ClassVar = ("data", "min_range", "max_range")

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        return [merge_types("data", ins[0], INT32)], self.target

    def fill(self, ins: Sequence[Any], outs: Sequence[Any], round_at: Round) -> None:
        data, low, high = ins
        step, end = sums_step(low, high), None
        if not self.calibrated:
            end = magnitude(data.min(initial=0), data.max(initial=0)) * step
        round_at(self.enter_range(outs, step, end))

    def enter_range(self, outs: Sequence[Any], step: np.float32, end: np.float32 | None = None
                    ) -> np.float32:
        """Write the output's range, [0, end] or [-end, end], by default the calibrated one; returns
        the factor of sums with this `step`."""
        if end is None:
            low, high = self.min_calib_range, self.max_calib_range
            assert low is not None and high is not None
            end = magnitude(low, high)
        set_range(outs, -end if self.target == INT8 else np.float32(0), end)
        return np.float32(step * quotient(EXACT[self.target], end))


@dataclass(frozen=True)
class QuantizeAsym(RangedOp, name="_contrib_quantize_asym"):
    """y = round(x scale + shift), uint8: a range that need not be symmetric about 0.

    data of any shape -> the integers, scale = 255 / (high - low) and shift = -low scale, (1,) each.
    [low, high] is the calibrated range if given, else that of the data.
    """

    shapes: ClassVar = "data and output the same, scale and shift (1,)"
    min_calib_range: float | None = None
    max_calib_range: float | None = None

    inputs: ClassVar = ("data",)
    outputs: ClassVar = ("output", "scale", "shift")

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        return [merge_types("data", ins[0], FLOAT)], UINT8

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        data, low, high = ins[0], self.min_calib_range, self.max_calib_range
        if low is None or high is None:
            low, high = float(data.min()), float(data.max())
        scale = quotient(255, np.float32(high) - np.float32(low))
        shift = np.float32(-np.float32(low) * scale)
        round_scaled(np.add(np.multiply(data, scale), shift), np.float32(1), outs[0])
        set_range(outs, scale, shift)
