"""Reductions: sums, products, extremes, norms, moments, cumulative sums."""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Value

REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin",
              "prod": "ReduceProd", "nansum": "ReduceSum", "nanprod": "ReduceProd"}


def axes_of(node: NodeExport) -> list[int]:
    """The axes that are reduced."""
    op, ndim = node.op, node.ins[0].ndim
    targets = getattr(op, "axis", None)
    targets = () if targets is None else targets if isinstance(targets, tuple) else (targets,)
    axes = sorted({axis % ndim for axis in targets}) if ndim else []
    if getattr(op, "exclude", False) and targets:
        return [axis for axis in range(ndim) if axis not in axes]
    return axes or list(range(ndim))


def reduced(node: NodeExport, op_type: str, x: Value, index: int = 0) -> Value:
    """A reduction over the axes of the operator, in the shape that MXNet gives it."""
    info, out = node.ins[0], node.outs[index]
    axes = axes_of(node)
    if not axes:
        return x
    if out.ndim == info.ndim and len(axes) < info.ndim or out.ndim == 1 == info.ndim:
        return node.reduce(op_type, x, axes)
    if out.ndim == info.ndim - len(axes) and out.ndim:
        return node.reduce(op_type, x, axes, keepdims=False)
    return node.reshape(node.reduce(op_type, x, axes), out)


@converts(*REDUCTIONS)
def _reduction(node: NodeExport) -> Value:
    op, kind = node.op, node.ins[0].dtype
    x = node.x
    if op.name.startswith("nan"):
        rest = node.scalar(op.name == "nanprod")
        if kind.kind == "f":
            x = node.emit("Where", node.emit("IsNaN", x), rest, x)
    wide = kind if kind.kind == "f" or kind in (np.int32, np.int64) else np.dtype(np.int64)
    x = node.cast_from(x, kind, wide)
    return node.cast_from(reduced(node, REDUCTIONS[op.name], x), wide, node.outs[0].dtype)


@converts("norm")
def _norm(node: NodeExport) -> Value:
    kind = {1: "ReduceL1", 2: "ReduceL2"}.get(node.op.ord)
    if kind is None:
        node.refuse(f"ord is {node.op.ord}, expected 1 or 2")
    source, target = node.ins[0].dtype, node.outs[0].dtype
    wide = target if target.kind == "f" else np.dtype(np.float64)
    total = reduced(node, kind, node.cast_from(node.x, source, wide))
    return node.cast_from(total, wide, target)


@converts("moments")
def _moments(node: NodeExport) -> list[Value]:
    op, info = node.op, node.ins[0]
    axes = sorted({info.axis(axis) for axis in op.axes or range(info.ndim)})
    mean = node.reduce("ReduceMean", node.x, axes)
    centred = node.emit("Sub", node.x, mean)
    variance = node.reduce("ReduceMean", node.emit("Mul", centred, centred), axes)
    return [value if op.keepdims else node.reshape(value, node.outs[0])
            for value in (mean, variance)]


@converts("_np_cumsum")
def _cumulative_sum(node: NodeExport) -> Value:
    op, out = node.op, node.outs[0]
    x = node.cast_from(node.x, node.ins[0].dtype, out.dtype)
    if op.axis is None:
        x = node.reshape_to(x, -1)
    return node.emit("CumSum", x, node.scalar(op.axis or 0, np.int64))


@converts("all_finite")
def _all_finite(node: NodeExport) -> Value:
    x = node.x
    wrong = node.emit("Or", node.emit("IsNaN", x), node.emit("IsInf", x))
    count = node.emit("ReduceSum", node.cast(wrong, np.int64), keepdims=0)
    return node.reshape_to(node.cast(node.emit("Equal", count, node.scalar(0, np.int64)),
                                     node.outs[0].dtype), 1)


@converts("softmax_cross_entropy")
def _softmax_cross_entropy(node: NodeExport) -> Value:
    """The sum of -log softmax at the labels that are classes."""
    info = node.ins[0]
    logs = node.emit("LogSoftmax", node.x, axis=-1)
    labels = node.axes_op("Unsqueeze", node.cast(node.inputs[1], np.int64), [1])
    classes = np.arange(node.static(info, [1])[1])
    chosen = node.emit("Where", node.emit("Equal", labels, classes), logs, node.scalar(0))
    return node.reshape_to(node.emit("Neg", node.reduce("ReduceSum", chosen, [0, 1])), 1)
