"""Elementwise operators on 8-bit integers, each with its range.

Also concatenation, embedding, and BatchNorm by moving statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ..nn.batch_norm import BatchNormParameters
from ..op import Call, PartialType, Types
from ..param import DType
from ..shape import PartialShape, ShapeMismatch, Shapes, unify
from ..tensor.indexing import Embedding
from ..tensor.slicing import Concat
from .ranges import (
    BYTES,
    FLOAT,
    INT8,
    INT32,
    LEVELS,
    S8,
    UINT8,
    Calibrated,
    RangedOp,
    expect_type,
    limits,
    magnitude,
    merge_types,
    per_unit,
    product_range,
    quotient,
    round_scaled,
    set_range,
)

__all__ = ["QuantizedBatchNorm", "QuantizedConcat", "QuantizedElementwiseAdd",
           "QuantizedElementwiseMul", "QuantizedEmbedding"]


@dataclass(frozen=True)
class QuantizedConcat(RangedOp, name="_contrib_quantized_concat"):
    """Tensors concatenated along axis `dim`, all rescaled to the range that includes theirs.

    num_args tensors, then the two bounds of the range of each.  The new range is from the least to
    the largest bound; the output is uint8 if all tensors are, else int8.
    """

    shapes: ClassVar = "tensors (..., k_i, ...) -> (..., sum of k_i, ...), ranges (1,)"
    num_args: int
    dim: int = 1

    inputs: ClassVar = ("data",)
    variadic: ClassVar = "num_args"

    @classmethod
    def count_inputs(cls, params: dict[str, Any], count: int) -> None:
        params.setdefault("num_args", str(count // 3))

    @property
    def num_tensors(self) -> int:
        return self.num_args

    def list_inputs(self) -> tuple[str, ...]:
        count = range(self.num_args)
        return (*(f"arg{i}" for i in count),
                *(f"arg{i}_{end}" for i in count for end in ("min", "max")))

    @property
    def layer(self) -> Concat:
        return Concat(self.num_args, self.dim)

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        for number, dtype in enumerate(ins):
            expect_type(f"arg{number}", dtype, BYTES)
        return ins, INT8 if INT8 in ins else None if None in ins else UINT8

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        count, out = self.num_args, outs[0]
        ends = [float(end[0]) for end in ins[count:]]
        low, high = min(ends[::2]), max(ends[1::2])
        cuts = np.cumsum([array.shape[self.dim] for array in ins[:count]])[:-1]
        for data, part, *own in zip(ins, np.split(out, cuts, self.dim), ends[::2], ends[1::2],
                                    strict=False):
            scale = quotient(per_unit(out.dtype, low, high), per_unit(data.dtype, *own))
            if scale == 1 and data.dtype == out.dtype:
                np.copyto(part, data)
            else:
                round_scaled(data, scale, part)
        set_range(outs, low, high)


class _Pair(Calibrated, RangedOp):
    """Base of operators on two tensors of equal shape."""

    inputs: ClassVar = ("lhs", "rhs", "lhs_min", "lhs_max", "rhs_min", "rhs_max")
    tensors: ClassVar = 2


@dataclass(frozen=True)
class QuantizedElementwiseAdd(_Pair, name="_contrib_quantized_elemwise_add"):
    """The sum of two tensors of 8-bit integers, each with its range.

    With a calibrated range the output is 8-bit: uint8 if both tensors are, else int8; of a uint8
    and an int8 tensor the former is rescaled to the output's range and rounded before the sum.
    Otherwise it is int32, in the range [-m, m] with m the sum of both ends.
    """

    shapes: ClassVar = "lhs, rhs and output the same, ranges (1,)"
    min_calib_range: float | None = None
    max_calib_range: float | None = None

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        expect_type("lhs", ins[0], BYTES)
        expect_type("rhs", ins[1], BYTES)
        if not self.calibrated:
            return ins, INT32
        return ins, INT8 if INT8 in ins else None if None in ins else UINT8

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        ends = [magnitude(*ins[2:4]), magnitude(*ins[4:6])]
        low, high = self.min_calib_range, self.max_calib_range
        if low is None or high is None:
            high = float(np.float32(ends[0] + ends[1]))
            low = -high
        self._add(ins[:2], outs[0], ends, magnitude(low, high))
        set_range(outs, low, high)

    def _add(self, pair: Sequence[Any], out: np.ndarray, ends: Sequence[Any], end: np.float32
             ) -> None:
        per_one = quotient(LEVELS[out.dtype], end)
        scales = [quotient(per_one, per_unit(data.dtype, own, own))
                  for data, own in zip(pair, ends, strict=True)]
        parts = [np.multiply(data, scale, dtype=np.float32)
                 for data, scale in zip(pair, scales, strict=True)]
        if out.dtype == INT32:
            total = np.add(*parts, dtype=np.float64)
            np.copyto(out, np.clip(np.rint(total), -2.0 ** 31, 2.0 ** 31 - 1), casting="unsafe")
            return
        if pair[0].dtype != pair[1].dtype:
            unsigned = parts[0 if pair[0].dtype == UINT8 else 1]
            np.clip(np.rint(unsigned, out=unsigned), *limits(out.dtype), out=unsigned)
        round_scaled(np.add(*parts), np.float32(1), out)


@dataclass(frozen=True)
class QuantizedElementwiseMul(_Pair, name="_contrib_quantized_elemwise_mul"):
    """The product of two tensors of int8 integers, each with its range.

    `enable_float_output` gives real values; a calibrated range int8, truncated;
    otherwise the output is the products, int32, with the range of a product of int8 values.
    """

    shapes: ClassVar = "lhs, rhs and output the same, ranges (1,)"
    min_calib_range: float | None = None
    max_calib_range: float | None = None
    enable_float_output: bool = False

    def list_outputs(self) -> tuple[str, ...]:
        return self.outputs[:1] if self.enable_float_output else self.outputs

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        tensors = [merge_types(name, dtype, INT8) for name, dtype in
                   zip(self.inputs, ins, strict=False)]
        out = FLOAT if self.enable_float_output else INT8 if self.calibrated else INT32
        return [*tensors], out

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        (x, y), out = ins[:2], outs[0]
        ends = magnitude(*ins[2:4]), magnitude(*ins[4:6])
        if out.dtype == INT32:
            np.multiply(x, y, out=out, dtype=np.int32)
            end = product_range(S8, ins[2:4], ins[4:6])
            set_range(outs, -end, end)
            return
        scale = quotient(1, per_unit(INT8, ends[0], ends[0]) * per_unit(INT8, ends[1], ends[1]))
        product = np.multiply(x, y, dtype=np.float32)
        if out.dtype == FLOAT:
            np.multiply(product, scale, out=out)
            return
        low, high = self.min_calib_range, self.max_calib_range
        assert low is not None and high is not None
        product *= np.float32(per_unit(INT8, low, high) * scale)
        np.copyto(out, np.clip(np.trunc(product), *limits(INT8)), casting="unsafe")
        set_range(outs, low, high)


@dataclass(frozen=True)
class QuantizedBatchNorm(BatchNormParameters, RangedOp,
                         name="_contrib_quantized_batch_norm"):
    """BatchNorm of 8-bit data by its moving statistics: int8, in the calibrated range.

    y = gamma (x - mean) / sqrt(var + eps) + beta, per channel along axis 1; gamma, beta,
    moving_mean and moving_var are (C,).  As in MXNet gamma counts even with `fix_gamma`, the slope
    is divided by sqrt(1 + eps) once more, and uint8 data loses its lowest bit.
    """

    shapes: ClassVar = "data and output (N, C, ...), ranges (1,), all others (C,)"

    inputs: ClassVar = ("data", "gamma", "beta", "moving_mean", "moving_var", "min_data",
                        "max_data")
    aux: ClassVar = ("moving_mean", "moving_var")
    init: ClassVar = {"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'}
    tensors: ClassVar = 5

    @property
    def is_pure(self) -> bool:
        return True

    def tensor_shapes(self, ins: Shapes, out: PartialShape) -> tuple[Shapes, PartialShape]:
        data = unify(ins[0], out, "data and output")
        if data is None:
            return ins, out
        if self.axis != 1 or len(data) < 2:
            raise ShapeMismatch(f"axis is {self.axis} and data {data}, expected channels second")
        return [data, *[(data[1],)] * 4], data

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        if self.min_calib_range is None or self.max_calib_range is None:
            raise MXNetError("min_calib_range and max_calib_range are not given, expected both: "
                             "quantized BatchNorm must be calibrated")
        expect_type("data", ins[0], BYTES)
        names = self.inputs[1:5]
        rest = [merge_types(name, dtype, FLOAT) for name, dtype in zip(names, ins[1:],
                                                                       strict=True)]
        return [ins[0], *rest], INT8

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        data, gamma, beta, mean, var, *ends = ins
        low, high = self.min_calib_range, self.max_calib_range
        assert low is not None and high is not None
        slope = gamma / np.sqrt(var.astype(np.float64) + self.eps)
        out_scale = per_unit(INT8, low, high)
        step = quotient(magnitude(*ends), LEVELS[INT8])
        factor = slope * step * out_scale / np.sqrt(1 + self.eps)
        offset = (beta - mean * slope) * out_scale
        x = data >> 1 if data.dtype == UINT8 else data
        per_channel = (-1, *[1] * (data.ndim - 2))
        y = np.multiply(x, factor.astype(np.float32).reshape(per_channel), dtype=np.float32)
        y += offset.astype(np.float32).reshape(per_channel)
        round_scaled(y, np.float32(1), outs[0])
        set_range(outs, low, high)


@dataclass(frozen=True)
class QuantizedEmbedding(RangedOp, name="_contrib_quantized_embedding"):
    """Rows of an int8 table: y[i] = weight[data[i]]; the range is that of the table.

    data of any shape and type, weight (input_dim, output_dim) -> (*data, output_dim).  Indices
    outside of the table are clipped to its first or last row.
    """

    input_dim: int
    output_dim: int
    dtype: DType = "float32"
    sparse_grad: bool = False

    inputs: ClassVar = ("data", "weight", "min_weight", "max_weight")
    tensors: ClassVar = 2

    @property
    def layer(self) -> Embedding:
        return Embedding(self.input_dim, self.output_dim)

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        return [ins[0], merge_types("weight", ins[1], INT8)], INT8

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        rows = np.clip(ins[0].astype(np.int64), 0, self.input_dim - 1)
        np.take(ins[1], rows, axis=0, out=outs[0])
        set_range(outs, ins[2], ins[3])
