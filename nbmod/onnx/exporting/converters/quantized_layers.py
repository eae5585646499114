"""Layers over 8-bit integers with sums of int32, and what brings those back to 8 bits.

The sums are exact, so these layers are ConvInteger and MatMulInteger; ranges that are known become
constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.quantization.quantize import EXACT
from ....ops.quantization.ranges import FLOAT, INT8, INT32, LEVELS, S8, magnitude
from ..converter import NodeExport, converts
from ..onnx_graph import Tensor, Value
from .convolution import per_axis
from .quantization import ValueRange, constant_range, dequantized, range_of, step_of


def end_of(node: NodeExport, ends: ValueRange) -> Value:
    """The larger end of a range, (1,)."""
    if ends.low.array is not None and ends.high.array is not None:
        end = magnitude(ends.low.array, ends.high.array)
        return node.graph.constant(np.asarray([end], FLOAT), f"{node.name}/range")
    return node.emit("Max", node.emit("Abs", ends.low), node.emit("Abs", ends.high))


def scaled(node: NodeExport, value: Value, factor: float) -> Value:
    """A range times a number."""
    if value.array is not None:
        return node.graph.constant(value.array * np.float32(factor), f"{node.name}/range")
    return node.emit("Mul", value, node.scalar(factor, FLOAT))


def product(node: NodeExport, a: Value, b: Value) -> Value:
    """The product of two ranges."""
    if a.array is not None and b.array is not None:
        return node.graph.constant(a.array * b.array, f"{node.name}/range")
    return node.emit("Mul", a, b)


def levels_of(dtype: Any) -> float:
    """Steps of an 8-bit type to the end of its range."""
    return float(EXACT[np.dtype(dtype)])


def symmetric(node: NodeExport, end: Value) -> list[Value]:
    """The range from -end to end."""
    return [scaled(node, end, -1.0), end]


# ------------------------------------------------------------------------------------------- layers

@converts("_contrib_quantized_conv")
def _quantized_conv(node: NodeExport) -> list[Value]:
    op, rank = node.op, len(node.op.kernel)
    sums = node.emit(
        "ConvInteger", node.x, node.inputs[1], kernel_shape=list(op.kernel),
        strides=per_axis(op.stride, rank, 1), dilations=per_axis(op.dilate, rank, 1),
        pads=per_axis(op.pad, rank, 0) * 2, group=op.num_group)
    return _with_bias(node, sums, rank)


@converts("_contrib_quantized_fully_connected")
def _quantized_fully_connected(node: NodeExport) -> list[Value]:
    info, x = node.ins[0], node.x
    if node.op.flatten and info.ndim != 2:
        x = node.emit("Flatten", node.x, axis=1) if info.ndim > 2 else node.axes_op(
            "Unsqueeze", node.x, [1])
    weight = node.constant(1)
    columns = node.transpose(node.inputs[1], 1, 0) if weight is None else node.graph.constant(
        weight.T, f"{node.name}/weight")
    return _with_bias(node, node.emit("MatMulInteger", x, columns), 0)


def _with_bias(node: NodeExport, sums: Value, rank: int) -> list[Value]:
    """The sums with the bias in their steps, and the range that they represent."""
    data, weight = (range_of(node, f"min_{name}", f"max_{name}") for name in ("data", "weight"))
    kind = node.ins[0].dtype
    if not node.op.no_bias:
        bias = dequantized(node, node.inputs[2], INT8, range_of(node, "min_bias", "max_bias"))
        steps = product(node, step_of(node, kind, data), step_of(node, INT8, weight))
        whole = node.cast(node.emit("Div", bias, steps), INT32)  # truncates
        sums = node.emit("Add", sums, node.reshape_to(whole, -1, *[1] * rank))
    levels = float(node.op.levels(kind)) * float(S8)
    end = scaled(node, product(node, end_of(node, data), end_of(node, weight)),
                 float(LEVELS[INT32]) / levels)
    return [sums, *symmetric(node, end)]


# ----------------------------------------------------------------------------------------- 8 bits

@converts("_contrib_quantize")
def _quantize(node: NodeExport) -> list[Value]:
    ends, kind = range_of(node, "min_range", "max_range"), node.outs[0].dtype
    end = end_of(node, ends)
    shown = symmetric(node, end) if kind == INT8 else list(ends)
    return [_rounded(node, node.x, kind, scaled(node, end, 1 / levels_of(kind))), *shown]


def _rounded(node: NodeExport, x: Value, kind: Any, step: Value) -> Value:
    """Real numbers in steps, (1,), of an integer type."""
    scalar = node.emit("Squeeze", step) if step.array is None else node.graph.constant(
        step.array.reshape(()), f"{node.name}/step")
    return node.emit("QuantizeLinear", x, scalar, np.zeros((), kind))


@converts("_contrib_requantize")
def _requantize(node: NodeExport) -> list[Value]:
    """Sums of int32 in a new range: the calibrated one, or that of the sums."""
    op, kind = node.op, node.outs[0].dtype
    step = scaled(node, end_of(node, range_of(node, "min_range", "max_range")),
                  1 / float(LEVELS[INT32]))
    real = node.emit("Mul", node.cast(node.x, FLOAT), step)
    if op.calibrated:
        end = np.asarray([magnitude(op.min_calib_range, op.max_calib_range)], FLOAT)
        new = node.graph.constant(end, f"{node.name}/range")
    else:
        axes = list(range(node.ins[0].ndim))
        new = node.reshape_to(node.reduce("ReduceMax", node.emit("Abs", real), axes), 1)
    y = _rounded(node, real, kind, scaled(node, new, 1 / levels_of(kind)))
    return [y, *(symmetric(node, new) if kind == INT8 else [scaled(node, new, 0.0), new])]


@converts("_contrib_quantized_concat")
def _quantized_concat(node: NodeExport) -> list[Value]:
    """Tensors in the range that includes theirs."""
    op, kind, count = node.op, node.outs[0].dtype, node.op.num_args
    ends = [ValueRange(node.inputs[count + 2 * i], node.inputs[count + 2 * i + 1])
            for i in range(count)]
    both = ValueRange(_extreme(node, "Min", [each.low for each in ends]),
                      _extreme(node, "Max", [each.high for each in ends]))
    parts = [node.emit("QuantizeLinear", dequantized(node, value, info.dtype, own),
                       step_of(node, kind, both), np.zeros((), kind))
             for value, info, own in zip(node.inputs, node.ins, ends, strict=False)]
    return [node.emit("Concat", *parts, axis=node.ins[0].axis(op.dim)), *both]


def _extreme(node: NodeExport, kind: str, values: list[Value]) -> Value:
    arrays = [value.array for value in values]
    known: list[Tensor] = [array for array in arrays if array is not None]
    if len(known) < len(values):
        return node.emit(kind, *values)
    extreme = np.min(known, axis=0) if kind == "Min" else np.max(known, axis=0)
    return node.graph.constant(extreme, f"{node.name}/range")


@converts("_contrib_quantized_elemwise_add")
def _quantized_add(node: NodeExport) -> list[Value]:
    op, kind = node.op, node.outs[0].dtype
    ends = [range_of(node, f"{name}_min", f"{name}_max") for name in ("lhs", "rhs")]
    pair = [dequantized(node, value, info.dtype, own)
            for value, info, own in zip(node.inputs, node.ins, ends, strict=False)]
    if op.calibrated:
        if node.ins[0].dtype != node.ins[1].dtype:
            node.refuse("of tensors of different types MXNet rounds one before the sum")
        new = constant_range(node, op.min_calib_range, op.max_calib_range)
        return [node.emit("QuantizeLinear", node.emit("Add", *pair), step_of(node, kind, new),
                          np.zeros((), kind)), *new]
    limits = [end_of(node, own) for own in ends]
    new = ValueRange(*symmetric(node, _sum(node, *limits)))
    steps = node.emit("Div", node.emit("Add", *pair), step_of(node, INT32, new))
    return [node.cast(node.emit("Round", steps), INT32), *new]


def _sum(node: NodeExport, a: Value, b: Value) -> Value:
    if a.array is not None and b.array is not None:
        return node.graph.constant(a.array + b.array, f"{node.name}/range")
    return node.emit("Add", a, b)


@converts("_contrib_quantized_elemwise_mul")
def _quantized_mul(node: NodeExport) -> list[Value]:
    op, ends = node.op, [range_of(node, f"{name}_min", f"{name}_max") for name in ("lhs", "rhs")]
    if node.outs[0].dtype == INT32:
        sums = node.emit("Mul", *[node.cast(value, INT32) for value in node.inputs[:2]])
        end = product(node, *[end_of(node, own) for own in ends])
        return [sums, *symmetric(node, scaled(node, end, float(LEVELS[INT32]) / float(S8) ** 2))]
    pair = [dequantized(node, value, INT8, own)
            for value, own in zip(node.inputs, ends, strict=False)]
    real = node.emit("Mul", *pair)
    if op.enable_float_output:
        return [real]
    return node.refuse("its product is truncated to 8 bits")


@converts("_contrib_quantized_embedding")
def _quantized_embedding(node: NodeExport) -> list[Value]:
    whole = node.cast_from(node.x, node.ins[0].dtype, np.int64)
    last = node.scalar(node.op.input_dim - 1, np.int64)
    rows = node.emit("Max", node.emit("Min", whole, last), node.scalar(0, np.int64))
    return [node.emit("Gather", node.inputs[1], rows, axis=0), *node.inputs[2:4]]
