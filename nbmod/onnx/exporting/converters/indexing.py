"""Gathering and scattering by index.

MXNet's indices may have any type, are truncated, and clipped or wrapped where they are out of
range; those of ONNX are integers in range.
"""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Value


def indices(node: NodeExport, value: Value, limit: Value | int, mode: str = "clip",
            dtype: object = None) -> Value:
    """Indices as int64 in [0, limit)."""
    whole = value if dtype == np.int64 else node.cast(value, np.int64)
    if mode == "raise":
        return whole
    size = node.scalar(limit, np.int64) if isinstance(limit, int) else limit
    if mode == "wrap":
        return node.emit("Mod", whole, size)
    last = node.emit("Sub", size, node.scalar(1, np.int64)) if isinstance(limit, Value) else (
        node.scalar(limit - 1, np.int64))
    return node.emit("Max", node.emit("Min", whole, last), node.scalar(0, np.int64))


def limit_of(node: NodeExport, index: int, axis: int) -> Value | int:
    """The size of an axis of an input."""
    info = node.ins[index]
    if axis in info.dynamic:
        return node.size(node.inputs[index], info, axis)
    return info.shape[axis]


@converts("Embedding", "_contrib_SparseEmbedding")
def _embedding(node: NodeExport) -> Value:
    rows = indices(node, node.x, node.ins[1].shape[0], dtype=node.ins[0].dtype)
    return node.emit("Gather", node.inputs[1], rows, axis=0)


@converts("take")
def _take(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    axis = info.axis(op.axis)
    where = indices(node, node.inputs[1], limit_of(node, 0, axis), op.mode, node.ins[1].dtype)
    return node.emit("Gather", node.x, where, axis=axis)


@converts("batch_take")
def _batch_take(node: NodeExport) -> Value:
    info = node.ins[0]
    last = info.ndim - 1
    where = indices(node, node.inputs[1], limit_of(node, 0, last), dtype=node.ins[1].dtype)
    rows = node.reshape_to(node.x, -1, node.static(info, [last])[last])
    elements = node.emit("GatherElements", rows, node.reshape_to(where, -1, 1), axis=1)
    return node.reshape(elements, node.outs[0], node.ins[1])


@converts("pick")
def _pick(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    x, axis = node.x, 0 if op.axis is None else info.axis(op.axis)
    if op.axis is None:
        if info.ndim != 1 or node.ins[1].ndim != 1:
            node.refuse("it picks from data taken flat")
    where = indices(node, node.inputs[1], limit_of(node, 0, axis), op.mode, node.ins[1].dtype)
    if node.ins[1].ndim < info.ndim:
        where = node.axes_op("Unsqueeze", where, [axis])
    elements = node.emit("GatherElements", x, where, axis=axis)
    return elements if node.outs[0].ndim == info.ndim else node.axes_op("Squeeze", elements, [axis])


def _positions(node: NodeExport, index: int) -> Value:
    """Indices (M, ...) as ONNX has them, (..., M), from a matrix of rows."""
    info = node.ins[index]
    whole = node.inputs[index]
    if info.dtype != np.int64:
        whole = node.cast(whole, np.int64)
    return node.transpose(whole, *range(1, info.ndim), 0)


@converts("gather_nd")
def _gather_nd(node: NodeExport) -> Value:
    return node.emit("GatherND", node.x, _positions(node, 1))


@converts("scatter_nd", large_constants=True)
def _scatter_nd(node: NodeExport) -> Value:
    zeros = np.zeros(node.static(node.outs[0]), node.outs[0].dtype)
    return node.emit("ScatterND", zeros, _positions(node, 1), node.x)


@converts("_scatter_set_nd")
def _scatter_set_nd(node: NodeExport) -> Value:
    return node.emit("ScatterND", node.x, _positions(node, 2), node.inputs[1])


@converts("one_hot")
def _one_hot(node: NodeExport) -> Value:
    op, kind = node.op, node.outs[0].dtype
    wide = kind if kind in (np.float32, np.int64) else np.dtype(np.float32)
    values = np.asarray([op.off_value, op.on_value]).astype(kind).astype(wide)
    where = node.x if node.ins[0].dtype == np.int64 else node.cast(node.x, np.int64)
    # ONNX counts negative indices from the end, MXNet has no such class.
    outside = node.emit("Less", where, node.scalar(0, np.int64))
    where = node.emit("Where", outside, node.scalar(op.depth, np.int64), where)
    encoding = node.emit("OneHot", where, node.scalar(op.depth, np.int64), values, axis=-1)
    return node.cast_from(encoding, wide, kind)


@converts("_contrib_index_copy")
def _index_copy(node: NodeExport) -> Value:
    rows = node.axes_op("Unsqueeze", node.cast_from(node.inputs[1], node.ins[1].dtype, np.int64),
                        [1])
    return node.emit("ScatterND", node.x, rows, node.inputs[2])
