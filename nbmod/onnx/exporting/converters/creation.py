"""Tensors that depend on parameters and shapes only: they become constants.

nbmod computes them when the model is exported.  Those that follow a dynamic axis are computed by
the runtime where ONNX has a node for it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ....context import cpu
from ....ndarray.eager import execute
from ....ops.device import device_of
from ....ops.rules import to_type
from ..converter import STATIC, NodeExport, converts
from ..onnx_graph import Tensor, Value


def folded(node: NodeExport, axes: Iterable[int] | None = None) -> Value:
    """The value that nbmod computes of inputs with these sizes along `axes` (None: all)."""
    read = [info.dynamic if axes is None else info.dynamic.intersection(axes) for info in node.ins]
    if node.outs[0].dynamic or any(read):
        node.refuse(f"its elements depend on the size of a dynamic axis; {STATIC}")
    return node.graph.constant(_computed(node), node.name)


def _computed(node: NodeExport) -> Tensor:
    inputs = [np.zeros(info.shape, info.dtype) for info in node.ins]
    out = np.empty(node.outs[0].shape, node.outs[0].dtype)
    execute(node.op, inputs, device_of(cpu()), [out])
    return out


@converts("_arange", "_eye", "_linspace", "_contrib_index_array", large_constants=True)
def _constant(node: NodeExport) -> Value:
    return folded(node)


@converts("_contrib_MultiBoxPrior", "_contrib_GenAnchor", large_constants=True)
def _anchors(node: NodeExport) -> Value:
    """Anchors for the cells of an image, independent of the batch."""
    return folded(node, (2, 3))


@converts("_full", "_ones", "_zeros", "_zeros_without_dtype", large_constants=True)
def _filled(node: NodeExport) -> Value:
    out, followed = node.outs[0], dict(node.outs[0].followed)
    if not out.dynamic or followed.keys() != out.dynamic:
        return folded(node)
    sizes = [node.size_of_input(*followed[axis], size) if axis in followed else [size]
             for axis, size in enumerate(out.shape)]
    value = np.full(1, to_type(node.op.fill_value(), out.dtype), out.dtype)
    return node.emit("ConstantOfShape", node.emit("Concat", *sizes, axis=0), value=value)


@converts("shape_array", "size_array", large_constants=True)
def _shape_array(node: NodeExport) -> Value:
    if not node.ins[0].dynamic:
        return folded(node)
    if node.op.name == "shape_array":
        return node.emit("Shape", node.x)
    return node.reshape_to(node.emit("Size", node.x), 1)


@converts("zeros_like", "ones_like", large_constants=True)
def _filled_like(node: NodeExport) -> Value:
    if not node.ins[0].dynamic:
        return folded(node)
    value = np.full(1, node.op.name == "ones_like", node.outs[0].dtype)
    return node.emit("ConstantOfShape", node.emit("Shape", node.x), value=value)


@converts("_contrib_arange_like", large_constants=True)
def _arange_like(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    if not info.dynamic or op.repeat != 1:
        return folded(node)
    kind = node.outs[0].dtype
    count = node.emit("Size", node.x) if op.axis is None else node.emit(
        "Squeeze", node.size(node.x, info, op.axis))
    steps = node.cast(node.emit("Range", node.scalar(0, np.int64), count,
                                node.scalar(1, np.int64)), kind)
    line = node.emit("Add", node.emit("Mul", steps, node.scalar(op.step, kind)),
                     node.scalar(op.start, kind))
    return line if op.axis is not None else node.emit("Reshape", line, node.emit("Shape", node.x))
