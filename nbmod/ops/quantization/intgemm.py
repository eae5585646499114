"""Dense layers on int8 matrices that are quantized by their largest magnitude: `intgemm_*`.

The steps of an element are 127 to the largest magnitude m of its matrix: q = round(127 x / m), from
-127 to 127.  MXNet stores prepared weights in an order that depends on the processor; here they are
rows of int8, as they were given, so that they can be saved and read anywhere, and matrices of any
size are taken.  (MXNet's packages for 1.9.1 are built without these operators.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..nn.fully_connected import FullyConnected
from ..op import Call, Op, PartialType, Run, Spec, Types
from ..shape import PartialShape, Shapes
from ..tensor.gather_scatter import in_range
from .integer_sums import row_products, row_products_by_numpy
from .quantize import Round
from .ranges import (
    FLOAT,
    INT8,
    INT32,
    S8,
    Bound,
    RangedOp,
    expect_type,
    merge_types,
    prepared_round,
    quotient,
    round_scaled,
)

__all__ = ["IntgemmFullyConnected", "IntgemmMaxAbsolute", "IntgemmPrepareData",
           "IntgemmPrepareWeight", "IntgemmTakeWeight"]


def max_absolute(data: np.ndarray) -> np.float32:
    """The largest magnitude of an array."""
    return np.float32(max(data.max(), -data.min()))


def quantize(data: np.ndarray, end: Bound, out: np.ndarray, round_at: Round) -> None:
    """out (int8) = data in steps of end / 127; -128 does not occur."""
    round_at(quotient(S8, np.ravel(end)[0]))
    np.maximum(out, -S8.astype(INT8), out=out)


@dataclass(frozen=True)
class IntgemmMaxAbsolute(RangedOp, name="_contrib_intgemm_maxabsolute"):
    """The largest magnitude of float32 data of any shape: (1,)."""

    inputs: ClassVar = ("data",)
    outputs: ClassVar = ("output",)

    def tensor_shapes(self, ins: Shapes, out: PartialShape) -> tuple[Shapes, PartialShape]:
        return ins, (1,)

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        return [merge_types("data", ins[0], FLOAT)], FLOAT

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        outs[0][0] = max_absolute(ins[0])


class _Prepare(RangedOp):
    """Base of operators that quantize a float32 tensor whose largest magnitude is an input."""

    outputs: ClassVar = ("output",)

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        quantize(ins[0], ins[1], outs[0], lambda scale: round_scaled(ins[0], scale, outs[0]))

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(quantize, ins[0], ins[1], outs[0], prepared_round(ins[0], outs[0]))


@dataclass(frozen=True)
class IntgemmPrepareData(_Prepare, name="_contrib_intgemm_prepare_data"):
    """y = round(127 x / maxabs) as int8, at most 127 in magnitude.

    data of any shape, maxabs (1,): its largest magnitude, or less to saturate.
    """

    shapes: ClassVar = "data and output the same, maxabs (1,)"
    inputs: ClassVar = ("data", "maxabs")

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        return [merge_types("data", ins[0], FLOAT)], INT8


@dataclass(frozen=True)
class IntgemmPrepareWeight(_Prepare, name="_contrib_intgemm_prepare_weight"):
    """The weight of a dense layer as `intgemm_fully_connected` reads it: int8, of the same shape.

    Float32 weights are quantized as by `intgemm_prepare_data`, with maxabs (1,).  Weights that are
    int8 stay as they are, with `already_quantized`; there is no maxabs then.
    """

    already_quantized: bool = False

    shapes: ClassVar = "weight and output the same, maxabs (1,)"
    inputs: ClassVar = ("weight", "maxabs")

    def list_inputs(self) -> tuple[str, ...]:
        return self.inputs[:1] if self.already_quantized else self.inputs

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        return [merge_types("weight", ins[0], INT8 if self.already_quantized else FLOAT)], INT8

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        if self.already_quantized:
            np.copyto(outs[0], ins[0])
        else:
            super().forward(ins, outs, call)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if self.already_quantized:
            return partial(np.copyto, outs[0], ins[0])
        return super().prepare(ins, outs, call)


@dataclass(frozen=True)
class IntgemmTakeWeight(Op, name="_contrib_intgemm_take_weight"):
    """The rows of a prepared weight that compute some of its outputs.

    weight (N, ...) int8, indices (M,) int32 -> (M, ...).  An index out of range is an error.
    """

    inputs: ClassVar = ("weight", "indices")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        weight, indices = ins
        if weight is None or indices is None:
            return list(ins), list(outs)
        return [weight, indices], [(*indices[:1], *weight[1:])]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        return [merge_types("weight", ins[0], INT8),
                merge_types("indices", ins[1], INT32)], [INT8]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        weight, indices = ins
        np.take(weight, in_range(indices, len(weight), "raise"), axis=0, out=outs[0], mode="clip")


@dataclass(frozen=True)
class IntgemmFullyConnected(Op, name="_contrib_intgemm_fully_connected"):
    """y = scaling x W^T + b of int8 matrices: a dense layer whose sums are exact.

    Shapes are those of FullyConnected, `scaling` (1,); W is from `intgemm_prepare_weight`.  Data is
    int8 from `intgemm_prepare_data`, or float32, which is quantized by its own largest magnitude m;
    the sums then count m / 127 each.  So `scaling` is that of the weight, maxabs / 127, and for
    int8 data also that of the data.  The bias has the type of the output.  With `out_type` 'int32'
    there is no `scaling`, nothing is rescaled, and a bias is given by name.
    """

    num_hidden: int
    no_bias: bool = False
    flatten: bool = True
    out_type: Literal["float32", "int32"] = "float32"

    inputs: ClassVar = ("data", "weight", "scaling", "bias")

    @property
    def is_scaled(self) -> bool:
        """Whether the output is float32."""
        return self.out_type == "float32"

    def list_inputs(self) -> tuple[str, ...]:
        return ("data", "weight", *["scaling"] * self.is_scaled, *["bias"] * (not self.no_bias))

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        layer = FullyConnected(self.num_hidden, self.no_bias, self.flatten)
        tensors = [*ins[:2], *ins[2 + self.is_scaled:]]
        (data, weight, *bias), out_shapes = layer.infer_shape(tensors, outs)
        scaling: Shapes = [(1,)] * self.is_scaled
        return [data, weight, *scaling, *bias], out_shapes

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        expect_type("data", ins[0], [FLOAT, INT8])
        out = merge_types("output", outs[0], np.dtype(self.out_type))
        rest = [merge_types(name, dtype, INT8 if name == "weight" else
                            FLOAT if name == "scaling" else out)
                for name, dtype in zip(self.list_inputs()[1:], ins[1:], strict=True)]
        return [ins[0], *rest], [out]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        """The data as int8, the sums; both empty where they are not needed."""
        quantized = ins[0].shape if ins[0].dtype == FLOAT else (0,)
        return [Spec(quantized, INT8), Spec(outs[0].shape if self.is_scaled else (0,), INT32)]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.fill(ins, outs, call.scratch, row_products_by_numpy,
                  lambda scale: round_scaled(ins[0], scale, call.scratch[0]))

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        round_at = prepared_round(ins[0], call.scratch[0]) if ins[0].dtype == FLOAT else None
        return partial(self.fill, ins, outs, call.scratch, row_products, round_at)

    def fill(self, ins: Sequence[Any], outs: Sequence[Any], scratch: Sequence[Any],
             multiply: Callable, round_at: Round | None) -> None:
        data, (out,), step = ins[0], outs, np.float32(1)
        if data.dtype == FLOAT:
            assert round_at is not None
            end = max_absolute(data)
            quantize(data, end, scratch[0], round_at)
            data, step = scratch[0], np.float32(end / S8)
        sums = (scratch[1] if self.is_scaled else out).reshape(-1, self.num_hidden)
        multiply(data.reshape(len(sums), -1), ins[1], sums)
        if self.is_scaled:
            np.multiply(scratch[1], np.float32(ins[2][0] * step), out=out, dtype=np.float32)
        if not self.no_bias:
            np.add(out, ins[-1], out=out)
