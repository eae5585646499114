"""Layers on 8-bit integers that represent real numbers: convolution, dense layers, pooling.

See `ranges` for the representation.  Every tensor comes with the two bounds of its range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ...base import MXNetError
from ..nn.convolution import Convolution, ConvolutionParameters
from ..nn.fully_connected import FullyConnected
from ..nn.pooling import AVG, Pooling, PoolingParameters
from ..op import Call, PartialType, Run, Spec, Types, all_of
from ..param import Shape
from ..shape import ShapeMismatch, size_of
from ..tensor.manipulate import Flatten
from .integer_sums import ExactConvolution, row_products, row_products_by_numpy
from .ranges import (
    BYTES,
    FLOAT,
    INT8,
    INT32,
    LEVELS,
    S8,
    RangedOp,
    expect_type,
    magnitude,
    merge_types,
    per_unit,
    product_range,
    quotient,
    set_range,
)

__all__ = ["QuantizedActivation", "QuantizedConvolution", "QuantizedFlatten",
           "QuantizedFullyConnected", "QuantizedPooling"]


class _QuantizedLayer(RangedOp):
    """A layer with weights: data, weight and bias, then the range of each."""

    inputs: ClassVar = ("data", "weight", "bias", "min_data", "max_data", "min_weight",
                        "max_weight", "min_bias", "max_bias")
    no_bias: bool

    @property
    def num_tensors(self) -> int:
        return 2 if self.no_bias else 3

    def list_inputs(self) -> tuple[str, ...]:
        return tuple(n for n in self.inputs if "bias" not in n) if self.no_bias else self.inputs

    def levels(self, data: np.dtype) -> Any:
        """Steps of the data to the bound of its range, as used for the output's range."""
        return S8 if data == INT8 else 255

    def sums_end(self, data: np.dtype, ends: Sequence[Any]) -> np.float32:
        """The bound of the output's range; `ends` are those of data and weight, and maybe more."""
        return product_range(self.levels(data), ends[:2], ends[2:4])

    def in_sums(self, bias: np.ndarray, data: np.dtype, ends: Sequence[Any]) -> Any:
        """An int8 bias, rescaled to the steps of the sums; `ends` of data, weight and bias."""
        step = quotient(magnitude(*ends[4:6]), LEVELS[INT8])
        scale = step * (per_unit(data, *ends[:2]) * per_unit(INT8, *ends[2:4]))
        return (bias * np.float32(scale)).astype(np.int32)

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        expect_type("data", ins[0], BYTES)
        rest = [merge_types(name, dtype, INT8)
                for name, dtype in zip(("weight", "bias"), ins[1:], strict=False)]
        return [ins[0], *rest], INT32


@dataclass(frozen=True, kw_only=True)
class QuantizedConvolution(ConvolutionParameters, _QuantizedLayer,
                           name="_contrib_quantized_conv"):
    """Convolution of 8-bit data with int8 filters: exact sums, int32.

    Shapes are those of Convolution, ranges (1,).  The output's range is 2**31 - 1 steps of
    (m_data / R) (m_weight / 127), R being 127 for int8 and 255 for uint8 data.  `bias` is rescaled
    to the steps of the sums and truncated.  MXNet does so on a GPU; on a CPU it takes R to be 127
    for uint8 data and adds `bias` as it is, which distorts results.
    """

    @property
    def layer(self) -> Convolution:
        params = {field.name: getattr(self, field.name) for field in fields(Convolution)}
        conv = Convolution(**params)
        if conv.channels_last:
            raise ShapeMismatch(f"layout is {self.layout}, expected channels second")
        return conv

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return ExactConvolution(self.layer, ins[0].shape).workspace()

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        exact = ExactConvolution(self.layer, ins[0].shape)
        add, sums = exact.prepare(ins[0], ins[1], call.scratch)
        return all_of([add, partial(self.store, sums.reshape(outs[0].shape), ins, outs)])

    def store(self, sums: np.ndarray, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Write the sums, which may be of a floating type, with the bias, and their range."""
        ends = ins[self.num_tensors:]
        np.copyto(outs[0], sums, casting="unsafe")
        if not self.no_bias:
            bias = self.in_sums(ins[2], ins[0].dtype, ends)
            np.add(outs[0], bias.reshape(-1, *[1] * len(self.kernel)), out=outs[0])
        end = self.sums_end(ins[0].dtype, ends)
        set_range(outs, -end, end)


@dataclass(frozen=True)
class QuantizedFullyConnected(_QuantizedLayer, name="_contrib_quantized_fully_connected"):
    """A dense layer of 8-bit data and int8 weights: exact sums, int32.

    Shapes are those of FullyConnected, ranges (1,).  The output's range is 2**31 - 1 steps of
    (m_data / R) (m_weight / 127), R being 127 for int8 and 255 for uint8 data.  `bias` is rescaled
    to the steps of the sums and truncated.
    """

    num_hidden: int
    no_bias: bool = False
    flatten: bool = True

    @property
    def layer(self) -> FullyConnected:
        return FullyConnected(self.num_hidden, self.no_bias, self.flatten)

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.fill(ins, outs, row_products_by_numpy)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(self.fill, ins, outs, row_products)

    def fill(self, ins: Sequence[Any], outs: Sequence[Any], multiply: Callable) -> None:
        data, weight, ends = ins[0], ins[1], ins[self.num_tensors:]
        sums = outs[0].reshape(-1, self.num_hidden)
        multiply(data.reshape(len(sums), -1), weight, sums)
        if not self.no_bias:
            np.add(sums, self.in_sums(ins[2], data.dtype, ends), out=sums)
        end = self.sums_end(data.dtype, ends)
        set_range(outs, -end, end)


class _Keeping(RangedOp):
    """Base of operators whose output has the type and the range of their data."""

    inputs: ClassVar = ("data", "min_data", "max_data")

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        expect_type("data", ins[0], BYTES)
        return ins, ins[0]


@dataclass(frozen=True)
class QuantizedFlatten(_Keeping, name="_contrib_quantized_flatten"):
    """The integers as a matrix: (N, ...) -> (N, product of the rest); the range stays."""

    @property
    def layer(self) -> Flatten:
        return Flatten()

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        np.copyto(outs[0], ins[0].reshape(outs[0].shape))
        set_range(outs, *ins[-2:])


@dataclass(frozen=True)
class QuantizedActivation(_Keeping, name="_contrib_quantized_act"):
    """y = max(q, 0): ReLU, the only activation supported; the range stays.

    The output has the type of the data.  (MXNet's is int8 always, so that values of uint8 data from
    128 on become negative.)
    """

    shapes: ClassVar = "data and output the same, ranges (1,)"
    act_type: Literal["relu", "sigmoid", "softrelu", "softsign", "tanh"]

    def tensor_types(self, ins: Types) -> tuple[Types, PartialType]:
        if self.act_type != "relu":
            raise MXNetError(f"act_type is {self.act_type!r}, expected 'relu'; dequantize the "
                             "data for others")
        return super().tensor_types(ins)

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        np.maximum(ins[0], 0, out=outs[0])
        set_range(outs, *ins[-2:])


@dataclass(frozen=True)
class QuantizedPooling(PoolingParameters, _Keeping, name="_contrib_quantized_pooling"):
    """Pooling of 8-bit data: maxima as they are, means rounded (halves to even); the range stays.

    Shapes are those of Pooling, ranges (1,); `pool_type` is 'max' or 'avg'.  A mean is over all
    pixels of the window, padding included; with `count_include_pad` False padding is excluded.
    """

    @property
    def layer(self) -> Pooling:
        if self.pool_type not in ("max", "avg"):
            raise ShapeMismatch(f"pool_type is {self.pool_type!r}, expected 'max' or 'avg'")
        pooling = Pooling(**{field.name: getattr(self, field.name) for field in fields(Pooling)})
        if pooling.channels_last:
            raise ShapeMismatch(f"layout is {self.layout}, expected channels second")
        return pooling

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        data, values = Spec(ins[0].shape, FLOAT), Spec(outs[0].shape, FLOAT)
        return [data, values, *self.layer.scratch([data], [values])]

    def summing(self, data: Shape) -> tuple[Pooling, int]:
        """The layer that finds maxima or sums, and by what its results are divided."""
        layer = self.layer
        if layer.mode == AVG and self.count_include_pad is not False:
            return replace(layer, pool_type="sum"), size_of(layer.window(data[2:]).kernel)
        return layer, 1

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        data, values, *workspace = call.scratch
        layer, area = self.summing(data.shape)
        return all_of([partial(np.copyto, data, ins[0]),
                       layer.prepare([data], [values], Call(scratch=workspace)),
                       partial(self.store, values, area, ins, outs)])

    def store(self, values: np.ndarray, area: int, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Write float32 maxima or sums, divided and rounded, and the range."""
        if self.pool_type == "avg":
            np.divide(values, np.float32(area), out=values)
            np.rint(values, out=values)
        np.copyto(outs[0], values, casting="unsafe")
        set_range(outs, *ins[-2:])
