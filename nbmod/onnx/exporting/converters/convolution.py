"""Convolution, Deconvolution, pooling, and deformable convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Tensor, Value
from ..tensor_info import TensorInfo

CHANNELS_FIRST = (None, "NCW", "NCHW", "NCDHW")
MAX_MATRIX = 2 ** 26
"""Elements of a constant that stands for an operator."""


def channels_first(node: NodeExport, apply: Callable[[Value, TensorInfo], Value]) -> Value:
    """The result of `apply` on the data with channels second, in the layout of the data."""
    info = node.ins[0]
    if node.op.layout in CHANNELS_FIRST:
        return apply(node.x, info)
    rank = info.ndim - 2
    to_first, to_last = (0, rank + 1, *range(1, rank + 1)), (0, *range(2, rank + 2), 1)
    moved = TensorInfo(tuple(info.shape[axis] for axis in to_first), info.dtype,
                       frozenset(to_first.index(axis) for axis in info.dynamic))
    return node.transpose(apply(node.transpose(node.x, *to_first), moved), *to_last)


def filters_first(node: NodeExport) -> Value:
    """The weight as (filters, channels, *kernel)."""
    weight, ndim = node.inputs[1], node.ins[1].ndim
    if getattr(node.op, "layout", None) in CHANNELS_FIRST:
        return weight
    return node.transpose(weight, 0, ndim - 1, *range(1, ndim - 1))


def per_axis(values: Sequence[int], rank: int, default: int) -> list[int]:
    """A parameter that has a value for each axis."""
    return list(values) or [default] * rank


@converts("Convolution", "Convolution_v1")
def _convolution(node: NodeExport) -> Value:
    op, rank = node.op, len(node.op.kernel)
    pad = per_axis(op.pad, rank, 0)
    operands = [filters_first(node), *node.inputs[2:]]
    return channels_first(node, lambda x, info: node.emit(
        "Conv", x, *operands, kernel_shape=list(op.kernel), strides=per_axis(op.stride, rank, 1),
        dilations=per_axis(op.dilate, rank, 1), pads=pad * 2, group=op.num_group))


@converts("Deconvolution")
def _deconvolution(node: NodeExport) -> Value:
    op, rank = node.op, len(node.op.kernel)
    stride, dilate = per_axis(op.stride, rank, 1), per_axis(op.dilate, rank, 1)
    operands = [filters_first(node), *node.inputs[2:]]

    def transposed(x: Value, info: TensorInfo) -> Value:
        if any(op.target_shape):
            return _cropped(node, x, info, operands)
        return node.emit("ConvTranspose", x, *operands, kernel_shape=list(op.kernel),
                         strides=stride, dilations=dilate, pads=per_axis(op.pad, rank, 0) * 2,
                         output_padding=per_axis(op.adj, rank, 0), group=op.num_group)

    return channels_first(node, transposed)


def _cropped(node: NodeExport, x: Value, info: TensorInfo, operands: Sequence[Value | None]
             ) -> Value:
    """A Deconvolution of a wanted size, of which the surplus is cut off, more at the end."""
    op, rank = node.op, len(node.op.kernel)
    stride, dilate = per_axis(op.stride, rank, 1), per_axis(op.dilate, rank, 1)
    image = node.static(info, range(2, info.ndim))[2:]
    whole = [(size - 1) * s + (k - 1) * d + 1
             for size, s, k, d in zip(image, stride, op.kernel, dilate, strict=True)]
    surplus = [size - target for size, target in zip(whole, op.target_shape, strict=True)]
    begin = [(total + 1) // 2 for total in surplus]
    end = [total - first for total, first in zip(surplus, begin, strict=True)]
    return node.emit("ConvTranspose", x, *operands, kernel_shape=list(op.kernel), strides=stride,
                     dilations=dilate, pads=begin + end, group=op.num_group)


# ------------------------------------------------------------------------------------------ pooling

@converts("Pooling")
def _pooling(node: NodeExport) -> Value:
    return channels_first(node, lambda x, info: pool(node, x, info))


@converts("Pooling_v1")
def _pooling_v1(node: NodeExport) -> Value:
    """Zeros of the padding take part in maxima and means."""
    op, info = node.op, node.ins[0]
    if op.global_pool:
        return _global(node, node.x, info)
    window = _window(node, info)
    x = _padded(node, node.x, window.begin, window.end)
    if op.pool_type == "sum":
        return _window_sum(node, x, info, window)
    kind = "MaxPool" if op.pool_type == "max" else "AveragePool"
    return node.emit(kind, x, **window.geometry)


class PoolAttributes(TypedDict):
    """Attributes of ONNX's poolings."""

    kernel_shape: list[int]
    strides: list[int]


class PoolingWindow(NamedTuple):
    """Kernel and stride, and padding before and after each axis."""

    kernel: list[int]
    stride: list[int]
    pad: list[int]
    begin: list[int]
    end: list[int]
    """With what windows of the convention 'full' need beyond `pad`."""

    @property
    def geometry(self) -> PoolAttributes:
        """Kernel and stride as attributes."""
        return {"kernel_shape": self.kernel, "strides": self.stride}

    @property
    def is_wide(self) -> bool:
        """Whether a window may lie in the padding alone."""
        return any(p >= k for p, k in zip(self.begin + self.end, self.kernel * 2, strict=True))


def _window(node: NodeExport, info: TensorInfo) -> PoolingWindow:
    op, rank = node.op, len(node.op.kernel)
    kernel, stride = list(op.kernel), per_axis(op.stride, rank, 1)
    pad = [0] * rank if op.pooling_convention == "same" else per_axis(op.pad, rank, 0)
    if op.pooling_convention == "valid":
        return PoolingWindow(kernel, stride, pad, pad, pad)
    node.static(info, range(2, info.ndim))
    out = node.outs[0].shape
    out = out[2:] if getattr(op, "layout", None) in CHANNELS_FIRST else out[1:-1]
    needed = [(o - 1) * s + k - size - p for o, s, k, size, p
              in zip(out, stride, kernel, info.shape[2:], pad, strict=True)]
    end = [max(p, n) for p, n in zip(pad, needed, strict=True)]
    return PoolingWindow(kernel, stride, pad, pad, end)


def pool(node: NodeExport, x: Value, info: TensorInfo) -> Value:
    """A pooling of channels-first data."""
    op, kind = node.op, node.op.pool_type
    if op.global_pool:
        return _global(node, x, info)
    if op.pooling_convention == "full" and any(axis > 1 for axis in info.dynamic):
        return _pool_up(node, x, info)
    window = _window(node, info)
    if kind == "max":
        if window.is_wide:
            lowest = node.lowest(info.dtype)
            x = _padded(node, x, window.begin, window.end, lowest)
            return node.emit("MaxPool", x, **window.geometry)
        return node.emit("MaxPool", x, pads=window.begin + window.end, **window.geometry)
    if kind == "avg":
        return _average(node, x, window)
    power = op.p_value if kind == "lp" else 1
    powers = node.emit("Pow", x, node.scalar(power, info.dtype)) if power > 1 else x
    powers = _padded(node, powers, window.begin, window.end)
    sums = _window_sum(node, powers, info, window)
    return _root(node, sums, info) if kind == "lp" else sums


def _pool_up(node: NodeExport, x: Value, info: TensorInfo) -> Value:
    """The convention 'full' for images of any size, where ONNX has the same windows.

    ONNX leaves a last window out that starts after the image, and its means count other elements
    where there is padding.
    """
    op, rank = node.op, len(node.op.kernel)
    stride, pad = per_axis(op.stride, rank, 1), per_axis(op.pad, rank, 0)
    alike = all(s <= k - p for s, k, p in zip(stride, op.kernel, pad, strict=True))
    if op.pool_type not in ("max", "avg") or not alike or (op.pool_type == "avg" and any(pad)):
        node.static(info)
    return node.emit("MaxPool" if op.pool_type == "max" else "AveragePool", x,
                     kernel_shape=list(op.kernel), strides=stride, pads=pad * 2, ceil_mode=1)


def _average(node: NodeExport, x: Value, window: PoolingWindow) -> Value:
    """A window that ends beyond the padding is a mean of the elements that it has."""
    image_only = getattr(node.op, "count_include_pad", None) is False
    end, pads = window.end, window.begin + window.end
    if not image_only and (end != window.pad or window.is_wide):
        x = _padded(node, x, window.pad, window.pad)
        beyond = [last - p for last, p in zip(end, window.pad, strict=True)]
        pads, image_only = [0] * len(end) + beyond, True
    if any(p >= k for p, k in zip(pads, window.kernel * 2, strict=True)):
        node.refuse("a window may lie outside of the image")
    return node.emit("AveragePool", x, pads=pads, count_include_pad=int(not image_only),
                     **window.geometry)


def _padded(node: NodeExport, x: Value, begin: Sequence[int], end: Sequence[int],
            value: Value | None = None) -> Value:
    """Spatial axes padded with a value, 0 by default."""
    if not any([*begin, *end]):
        return x
    return node.emit("Pad", x, [0, 0, *begin, 0, 0, *end], value)


def _window_sum(node: NodeExport, x: Value, info: TensorInfo, window: PoolingWindow) -> Value:
    mean = node.emit("AveragePool", x, **window.geometry)
    return node.emit("Mul", mean, node.scalar(float(np.prod(window.kernel)), info.dtype))


def _root(node: NodeExport, sums: Value, info: TensorInfo) -> Value:
    power = node.op.p_value
    if power == 1:
        return sums
    return node.emit("Sqrt", sums) if power == 2 else node.emit(
        "Pow", sums, node.scalar(1 / power, info.dtype))


def _global(node: NodeExport, x: Value, info: TensorInfo) -> Value:
    kind = node.op.pool_type
    if kind in ("avg", "max"):
        return node.emit({"avg": "GlobalAveragePool", "max": "GlobalMaxPool"}[kind], x)
    axes = list(range(2, info.ndim))
    if kind == "sum":
        return node.reduce("ReduceSum", x, axes)
    power = node.op.p_value
    powers = node.emit("Pow", x, node.scalar(power, info.dtype)) if power > 1 else x
    return _root(node, node.reduce("ReduceSum", powers, axes), info)


@converts("_contrib_AdaptiveAvgPooling2D")
def _adaptive_pooling(node: NodeExport) -> Value:
    """Means over windows of equal sizes; else products with a matrix for each axis."""
    info, out = node.ins[0], node.outs[0].shape[2:]
    if out == (1, 1):
        return node.emit("GlobalAveragePool", node.x)
    image = node.static(info, (2, 3))[2:]
    if all(size % parts == 0 for size, parts in zip(image, out, strict=True)):
        window = [size // parts for size, parts in zip(image, out, strict=True)]
        return node.emit("AveragePool", node.x, kernel_shape=window, strides=window,
                         pads=[0] * 4, count_include_pad=1)
    if any(size * parts > MAX_MATRIX for size, parts in zip(image, out, strict=True)):
        node.refuse(f"averages of {image} to {out} are products with a matrix, which is too large")
    rows, columns = (_averages(size, parts).astype(info.dtype)
                     for size, parts in zip(image, out, strict=True))
    return node.emit("MatMul", rows, node.emit("MatMul", node.x, columns.T))


def _averages(size: int, parts: int) -> np.ndarray:
    """(parts, size): row i is a mean from floor(i size / parts) to ceil((i + 1) size / parts)."""
    rows = np.arange(parts)[:, None]
    begin, end = rows * size // parts, -(-(rows + 1) * size // parts)
    places = np.arange(size)
    return np.where((begin <= places) & (places < end), 1 / (end - begin), 0.0)


@converts("_contrib_ModulatedDeformableConvolution", opset=19, large_constants=True)
def _modulated_deformable_convolution(node: NodeExport) -> Value:
    return _deformed(node, node.inputs[1], node.inputs[2])


@converts("_contrib_DeformableConvolution", opset=19, large_constants=True)
def _deformable_convolution(node: NodeExport) -> Value:
    """The image ends one pixel after the last, which is repeated; ONNX's fades to zero.

    So points after the last pixel move there, and a mask removes those outside of the image.
    """
    op, info = node.op, node.ins[0]
    image, out = (node.static(each, (2, 3))[2:] for each in (info, node.outs[0]))
    base = _window_points(node, out)
    sizes = np.asarray(image, info.dtype).reshape(1, 1, 2, 1, 1)
    at = node.emit("Add", node.reshape_to(node.inputs[1], -1, *base.shape[1:]), base)
    inside = node.emit("And", node.emit("GreaterOrEqual", at, node.scalar(0)),
                       node.emit("Less", at, sizes))
    mask = node.reduce("ReduceMin", node.cast(inside, info.dtype), [2], keepdims=False)
    moved = node.emit("Sub", node.emit("Min", at, sizes - 1), base)
    channels = op.num_deformable_group * 2 * int(np.prod(op.kernel))
    return _deformed(node, node.reshape_to(moved, -1, channels, *out), mask)


def _window_points(node: NodeExport, out: Sequence[int]) -> Tensor:
    """Where taps read without offsets: (1, groups taps, 2, *out), rows and then columns."""
    op, rank = node.op, len(node.op.kernel)
    stride, dilate = per_axis(op.stride, rank, 1), per_axis(op.dilate, rank, 1)
    pad = per_axis(op.pad, rank, 0)
    lines = [np.arange(k)[:, None] * d + np.arange(o)[None] * s - p for k, d, o, s, p
             in zip(op.kernel, dilate, out, stride, pad, strict=True)]
    y = np.broadcast_to(lines[0][:, None, :, None], (*op.kernel, *out))
    x = np.broadcast_to(lines[1][None, :, None, :], (*op.kernel, *out))
    points = np.stack([y, x], axis=2).reshape(-1, 2, *out)
    return np.tile(points, (op.num_deformable_group, 1, 1, 1))[None].astype(node.ins[0].dtype)


def _deformed(node: NodeExport, offset: Value, mask: Value) -> Value:
    op, rank = node.op, len(node.op.kernel)
    inputs = dict(zip(op.list_inputs(), node.inputs, strict=True))
    return node.emit("DeformConv", node.x, inputs["weight"], offset, inputs.get("bias"), mask,
                     kernel_shape=list(op.kernel), strides=per_axis(op.stride, rank, 1),
                     dilations=per_axis(op.dilate, rank, 1), pads=per_axis(op.pad, rank, 0) * 2,
                     group=op.num_group, offset_group=op.num_deformable_group)
