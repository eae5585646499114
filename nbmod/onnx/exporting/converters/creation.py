"""Tensors that depend on parameters and shapes only: they become constants.

nbmod computes them when the model is exported.  Those that follow a dynamic axis are computed by
the runtime where ONNX has a node for it.
"""

from __future__ import annotations

import numpy as np

from ....context import cpu
from ....ndarray.eager import execute
from ....ops.device import device_of
from ..converter import NodeExport, converts
from ..onnx_graph import Value


def folded(node: NodeExport) -> Value:
    """The value that nbmod computes of inputs with these shapes."""
    if node.outs[0].dynamic or any(info.dynamic for info in node.ins):
        node.refuse("its elements depend on the size of a dynamic axis; export with static shapes")
    inputs = [np.zeros(info.shape, info.dtype) for info in node.ins]
    out = np.empty(node.outs[0].shape, node.outs[0].dtype)
    execute(node.op, inputs, device_of(cpu()), [out])
    return node.graph.constant(out, node.name)


@converts("_arange", "_eye", "_full", "_linspace", "_ones", "_zeros", "_zeros_without_dtype",
          "_contrib_MultiBoxPrior", "_contrib_GenAnchor", "_contrib_index_array")
def _constant(node: NodeExport) -> Value:
    return folded(node)


@converts("shape_array", "size_array")
def _shape_array(node: NodeExport) -> Value:
    if not node.ins[0].dynamic:
        return folded(node)
    if node.op.name == "shape_array":
        return node.emit("Shape", node.x)
    return node.reshape_to(node.emit("Size", node.x), 1)


@converts("zeros_like", "ones_like")
def _filled_like(node: NodeExport) -> Value:
    if not node.ins[0].dynamic:
        return folded(node)
    value = np.full(1, node.op.name == "ones_like", node.outs[0].dtype)
    return node.emit("ConstantOfShape", node.emit("Shape", node.x), value=value)


@converts("_contrib_arange_like")
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
