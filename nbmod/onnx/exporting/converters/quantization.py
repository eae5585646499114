"""8-bit layers as QDQ: each layer between DequantizeLinear and QuantizeLinear nodes.

Runtimes turn this form into kernels over integers.  Ranges that calibration has found are
constants; one that follows from the data is computed by the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ....ops.nn.activation import Activation
from ....ops.nn.pooling import Pooling
from ....ops.onednn.fused_base import folded
from ....ops.op import Op
from ....ops.quantization.ranges import FLOAT, INT8, INT32, LEVELS, limits, magnitude, per_unit
from ..converter import NodeExport, converts
from ..onnx_graph import Tensor, Value
from ..tensor_info import TensorInfo


class ValueRange(NamedTuple):
    """The ends of the range of a tensor, (1,) each: constants, or computed from the data."""

    low: Value
    high: Value


def range_of(node: NodeExport, *names: str) -> ValueRange:
    """The range of a tensor, whose ends are inputs of these names."""
    inputs = dict(zip(node.op.list_inputs(), node.inputs, strict=True))
    return ValueRange(*[inputs[name] for name in names])


def constant_range(node: NodeExport, low: float, high: float) -> ValueRange:
    """A range that is known."""
    return ValueRange(*[node.graph.constant(np.asarray([end], FLOAT), f"{node.name}/range")
                   for end in (low, high)])


def step_of(node: NodeExport, dtype: Any, ends: ValueRange) -> Value:
    """The real number, a scalar, that one step of an integer type represents."""
    levels = LEVELS[np.dtype(dtype)]
    if ends.low.array is not None and ends.high.array is not None:
        known = magnitude(ends.low.array, ends.high.array) / levels
        return node.graph.constant(np.asarray(known or 1.0, FLOAT), f"{node.name}/step")
    end = node.emit("Max", node.emit("Abs", ends.low), node.emit("Abs", ends.high))
    step = node.emit("Squeeze", node.emit("Div", end, node.scalar(float(levels), FLOAT)))
    empty = node.emit("Equal", step, node.scalar(0, FLOAT))
    return node.emit("Where", empty, node.scalar(1, FLOAT), step)


def dequantized(node: NodeExport, value: Value, dtype: Any, ends: ValueRange) -> Value:
    """The real numbers that integers represent."""
    return node.emit("DequantizeLinear", value, step_of(node, dtype, ends), np.zeros((), dtype))


def quantized(node: NodeExport, value: Value, dtype: Any, ends: ValueRange) -> Value:
    """Real numbers as integers."""
    return node.emit("QuantizeLinear", value, step_of(node, dtype, ends), np.zeros((), dtype))


@converts("_contrib_quantize_v2")
def _quantize(node: NodeExport) -> list[Value]:
    op, kind = node.op, node.outs[0].dtype
    if node.ins[0].dtype != FLOAT:
        if not op.calibrated:
            node.refuse("its data are integers without a range")
        return [node.x, *constant_range(node, op.min_calib_range, op.max_calib_range)]
    if op.calibrated:
        end = float(magnitude(op.min_calib_range, op.max_calib_range))
        low, high = (-end, end) if kind == INT8 else (op.min_calib_range, op.max_calib_range)
        ends = constant_range(node, low, high)
    else:
        ends = _range_of_data(node, kind)
    return [quantized(node, node.x, kind, ends), *ends]


def _range_of_data(node: NodeExport, kind: Any) -> ValueRange:
    axes = list(range(node.ins[0].ndim))
    low, high = (node.reshape_to(node.reduce(each, node.x, axes), 1)
                 for each in ("ReduceMin", "ReduceMax"))
    if kind != INT8:
        return ValueRange(low, high)
    end = node.emit("Max", node.emit("Abs", low), node.emit("Abs", high))
    return ValueRange(node.emit("Neg", end), end)


@converts("_contrib_dequantize")
def _dequantize(node: NodeExport) -> Value:
    return dequantized(node, node.x, node.ins[0].dtype, range_of(node, "min_range", "max_range"))


@converts("_contrib_quantized_pooling", "_contrib_quantized_flatten", "_contrib_quantized_act")
def _quantized_shape(node: NodeExport) -> list[Value]:
    """Operators whose output has the range of their input: they are computed in its steps."""
    op, ends = node.op, range_of(node, "min_data", "max_data")
    if op.name == "_contrib_quantized_flatten":
        return [node.emit("Flatten", node.x, axis=1), *ends]
    one, zero = np.ones((), FLOAT), np.zeros((), node.ins[0].dtype)
    info, out = (each._replace(dtype=FLOAT) for each in (node.ins[0], node.outs[0]))
    layer = Activation(op.act_type) if op.name == "_contrib_quantized_act" else op.layer
    area = None
    if isinstance(layer, Pooling) and layer.pool_type == "avg" and (
            layer.count_include_pad is not False):
        # A mean is over the whole window, also where it ends beyond the padding.
        window = layer.window(node.static(info, range(2, info.ndim))[2:])
        layer, area = replace(layer, pool_type="sum"), float(np.prod(window.kernel))
    y = node.apply(layer, [node.emit("DequantizeLinear", node.x, one, zero)], [info], out)
    if area is not None:
        y = node.emit("Div", y, node.scalar(area, FLOAT))
    return [node.emit("QuantizeLinear", y, one, zero), *ends]


# ------------------------------------------------------------------------------------- fused layers

@converts("_sg_mkldnn_conv", "_sg_mkldnn_fully_connected")
def _fused_layer(node: NodeExport) -> Value | list[Value]:
    """Convolution or dense layer with its epilogue, in floating point or quantised."""
    op = node.op
    inputs = dict(zip(op.list_inputs(), node.inputs, strict=True))
    infos = dict(zip(op.list_inputs(), node.ins, strict=True))
    if op.quantized and op.out_type == INT32:
        node.refuse("its output is a sum of int32; calibrate the model")
    x, data = inputs["data"], infos["data"]._replace(dtype=FLOAT)
    if op.quantized:
        names = ("data_min", "data_max") if "data_min" in inputs else ("min_data", "max_data")
        step = step_of(node, infos["data"].dtype, range_of(node, *names))
        x = node.emit("DequantizeLinear", x, step, np.zeros((), infos["data"].dtype))
        weight, bias = _quantized_weights(node, inputs, step)
    else:
        weight, bias = (node.graph.constant(array, f"{node.name}/folded")
                        for array in _folded(node, inputs))
    y = _epilogue(node, _layer(node, [x, weight, bias], data), inputs, infos)
    if not op.quantized or op.out_type == FLOAT:
        return y
    ends = constant_range(node, op.min_calib_range, op.max_calib_range)
    return [quantized(node, y, op.out_type, ends), *ends]


def _layer(node: NodeExport, operands: list[Value], data: TensorInfo) -> Value:
    """The layer with a bias."""
    layer = replace(node.op.chain.layer, no_bias=False)
    infos = dict(zip(node.op.list_inputs(), node.ins, strict=True))
    weight = infos["weight"]._replace(dtype=FLOAT)
    bias = TensorInfo(weight.shape[:1], FLOAT)
    return node.apply(layer, operands, [data, weight, bias], node.outs[0]._replace(dtype=FLOAT))


def _epilogue(node: NodeExport, y: Value, inputs: dict[str, Value], infos: dict[str, TensorInfo]
              ) -> Value:
    """Activation, sum and second activation."""
    op, chain, out = node.op, node.op.chain, node.outs[0]._replace(dtype=FLOAT)
    if op.quantized and not (op.finish.simple or op.finish.real):
        node.refuse("MXNet applies its activation to integers as if they were real numbers")
    y = _activated(node, chain.before, y, out)
    if not chain.adds:
        return y
    other = inputs["sum"]
    if not op.quantized:
        return _activated(node, chain.after, node.emit("Add", y, other), out)
    kind = infos["sum"].dtype
    other = dequantized(node, other, kind, range_of(node, "sum_min", "sum_max"))
    y = _activated(node, chain.after, node.emit("Add", y, other), out)
    if kind == op.out_type:
        return y
    # MXNet adds in place of the other tensor, so the limits of its type apply, too.
    step = per_unit(op.out_type, op.min_calib_range, op.max_calib_range)
    ends = [np.asarray(end / step, FLOAT) for end in limits(kind)]
    return node.emit("Clip", y, *ends)


def _activated(node: NodeExport, act: Op | None, y: Value, out: TensorInfo) -> Value:
    return y if act is None else node.apply(act, [y], [out], out)


def _constant(node: NodeExport, value: Value) -> Tensor:
    if value.array is None:
        node.refuse("a weight is computed; it must be a parameter of the model")
    return value.array


def _folded(node: NodeExport, inputs: dict[str, Value]) -> tuple[Tensor, Tensor]:
    """Weight and bias with BatchNorm folded into them."""
    chain = node.op.chain
    weight = _constant(node, inputs["weight"])
    bias = _constant(node, inputs["bias"]) if "bias" in inputs else None
    norm = [] if chain.norm is None else [
        _constant(node, inputs[name]) for name in ("gamma", "beta", "moving_mean", "moving_var")]
    factor, offset = folded(chain.norm, bias, norm, len(weight))
    return weight * factor.reshape(-1, *[1] * (weight.ndim - 1)), offset


def _quantized_weights(node: NodeExport, inputs: dict[str, Value], step: Value
                       ) -> tuple[Value, Value]:
    """Weight and bias, rounded and dequantised; `step` is that of the data.

    Each filter of the weight has a step of its own, and its bias the step of its sums.
    """
    if node.op.weight_type("weight") == INT8:
        return _stored_weights(node, inputs, step)
    weight, offset = _folded(node, inputs)
    largest = np.abs(weight.reshape(len(weight), -1)).max(axis=1)
    units = np.where(largest > 0, LEVELS[INT8] / np.where(largest > 0, largest, 1), 1)
    units = units.astype(FLOAT)
    rows = np.rint(weight * units.reshape(-1, *[1] * (weight.ndim - 1)))
    return (_rows(node, np.minimum(rows, 127).astype(INT8), units),
            _rounded(node, offset, _sum_step(node, units, step)))


def _stored_weights(node: NodeExport, inputs: dict[str, Value], step: Value
                    ) -> tuple[Value, Value]:
    """Weights and bias that the model holds as int8."""
    weight = _constant(node, inputs["weight"])
    unit = per_unit(INT8, *_known(node, "min_weight", "max_weight")) or np.float32(1)
    units = np.full(len(weight), unit, FLOAT)
    bias = np.zeros(len(weight), FLOAT)
    if "bias" in inputs:
        bias_unit = per_unit(INT8, *_known(node, "min_bias", "max_bias"))
        bias = _constant(node, inputs["bias"]).astype(FLOAT) * (
            1 / bias_unit if bias_unit else np.float32(0))
    return _rows(node, weight, units), _rounded(node, bias, _sum_step(node, units, step))


def _known(node: NodeExport, *names: str) -> list[Tensor]:
    return [_constant(node, end) for end in range_of(node, *names)]


def _rows(node: NodeExport, weight: Tensor, units: Tensor) -> Value:
    """int8 weights dequantised, each row by its own step."""
    return node.emit("DequantizeLinear", weight, (1 / units).astype(FLOAT),
                     np.zeros(len(weight), INT8), axis=0)


def _sum_step(node: NodeExport, units: Tensor, step: Value) -> Value:
    """The real number that a step of the sums of each row represents."""
    if step.array is not None:
        return node.graph.constant((step.array / units).astype(FLOAT), f"{node.name}/sum_step")
    return node.emit("Div", step, units)


def _rounded(node: NodeExport, bias: Tensor, steps: Value) -> Value:
    """A bias rounded to whole steps, as int32 where the steps are known."""
    if steps.array is None:
        return node.emit("Mul", node.emit("Round", node.emit("Div", bias, steps)), steps)
    whole = np.rint(bias / steps.array).astype(INT32)
    return node.emit("DequantizeLinear", whole, steps, np.zeros(len(bias), INT32), axis=0)
