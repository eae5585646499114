"""Sorting, the k largest, and positions of extremes."""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Value


def flat_if(node: NodeExport, axis: int | None) -> tuple[Value, int, int | None]:
    """The data, the axis to order along, and its size, None if dynamic; flat without an axis."""
    info = node.ins[0]
    if axis is None:
        return node.reshape_to(node.x, -1), 0, None if info.dynamic else int(np.prod(info.shape))
    axis = info.axis(axis)
    return node.x, axis, None if axis in info.dynamic else info.shape[axis]


def _top(node: NodeExport, k: int) -> tuple[Value, Value, Value, int]:
    """The data, values and positions of the first `k` elements in order, and the axis."""
    op, info = node.op, node.ins[0]
    x, axis, size = flat_if(node, op.axis)
    wide = info.dtype if info.dtype.kind == "f" or info.dtype.itemsize >= 4 else np.dtype(np.int32)
    ordered = node.cast_from(x, info.dtype, wide)
    if k < 1 and size is None:
        count = node.emit("Size", x) if op.axis is None else node.size(x, info, axis)
        operand: Value | list[int] = node.reshape_to(count, 1)
    else:
        operand = [size if k < 1 and size is not None else k]
    values, places = node.emit_many("TopK", 2, ordered, operand, axis=axis,
                                    largest=int(not op.is_ascend), sorted=1)
    return x, node.cast_from(values, wide, info.dtype), places, axis


@converts("topk")
def _topk(node: NodeExport) -> Value | list[Value]:
    op = node.op
    x, values, places, axis = _top(node, op.k)
    if op.ret_typ == "value":
        return values
    if op.ret_typ == "mask":
        return _mask(node, x, places, axis)
    shown = node.cast(places, op.index_type())
    return [values, shown] if op.ret_typ == "both" else shown


def _mask(node: NodeExport, x: Value, places: Value, axis: int) -> Value:
    kind = node.outs[0].dtype
    zeros = node.emit("ConstantOfShape", node.emit("Shape", x), value=np.zeros(1, kind))
    ones = node.emit("ConstantOfShape", node.emit("Shape", places), value=np.ones(1, kind))
    mask = node.emit("ScatterElements", zeros, places, ones, axis=axis)
    return mask if node.op.axis is not None else node.reshape(mask, node.outs[0])


@converts("sort")
def _sort(node: NodeExport) -> Value:
    return _top(node, 0)[1]


@converts("argsort")
def _argsort(node: NodeExport) -> Value:
    return node.cast(_top(node, 0)[2], node.op.index_type())


@converts("argmax", "argmin", "argmax_channel")
def _argmax(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    kind = "ArgMin" if op.name == "argmin" else "ArgMax"
    axis = 1 if op.name == "argmax_channel" else op.axis
    keep = bool(getattr(op, "keepdims", False))
    x, axis, _ = flat_if(node, axis)
    positions = node.cast(node.emit(kind, x, axis=axis, keepdims=int(keep)), node.outs[0].dtype)
    if getattr(op, "axis", 1) is None or node.outs[0].ndim != info.ndim - (not keep):
        return node.reshape(positions, node.outs[0])
    return positions
