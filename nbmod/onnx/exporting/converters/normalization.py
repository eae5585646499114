"""Normalization over batches, layers, groups, instances and windows of channels."""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Value


@converts("BatchNorm", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
def _batch_norm(node: NodeExport) -> Value | list[Value]:
    """By the moving statistics; gamma is ones where the layer fixes it."""
    op, info = node.op, node.ins[0]
    _, gamma, beta, mean, variance = node.inputs
    if op.fix_gamma:
        gamma = node.graph.constant(np.ones(node.ins[1].shape, node.ins[1].dtype), gamma.hint)
    axis = info.axis(op.axis)
    order = list(range(info.ndim))
    order.insert(1, order.pop(axis))
    x = node.x if axis == 1 else node.transpose(node.x, *order)
    if info.ndim == 1:
        node.refuse("its data have no axis of channels")
    y = node.emit("BatchNormalization", x, gamma, beta, mean, variance, epsilon=op.eps)
    if op.relu:
        y = node.emit("Relu", y)
    y = y if axis == 1 else node.transpose(y, *np.argsort(order).tolist())
    return [y, mean, _second_moment(node, variance)] if op.num_visible == 3 else y


def _second_moment(node: NodeExport, variance: Value) -> Value:
    """The third output: the variance, or the reciprocal of the standard deviation."""
    if node.op.shows_variance:
        return variance
    wide = node.ins[4].dtype
    shifted = node.emit("Add", variance, node.scalar(node.op.eps, wide))
    return node.emit("Reciprocal", node.emit("Sqrt", shifted))


@converts("LayerNorm")
def _layer_norm(node: NodeExport) -> Value | list[Value]:
    op, info = node.op, node.ins[0]
    axis = info.axis(op.axis)
    if axis == info.ndim - 1 and not op.output_mean_var:
        return node.emit("LayerNormalization", *node.inputs, axis=-1, epsilon=op.eps)
    y, mean, std = _normalized(node, node.x, [axis], op.eps)
    shape = [1] * info.ndim
    shape[axis] = -1
    scaled = node.emit("Mul", y, node.reshape_to(node.inputs[1], *shape))
    result = node.emit("Add", scaled, node.reshape_to(node.inputs[2], *shape))
    if not op.output_mean_var:
        return result
    return [result, *[node.axes_op("Squeeze", value, [axis]) if node.outs[1].ndim < info.ndim
                      else value for value in (mean, std)]]


def _normalized(node: NodeExport, x: Value, axes: list[int], eps: float
                ) -> tuple[Value, Value, Value]:
    """(x - mean) / std over `axes`, the mean and std = sqrt(variance + eps)."""
    mean = node.reduce("ReduceMean", x, axes)
    centred = node.emit("Sub", x, mean)
    variance = node.reduce("ReduceMean", node.emit("Mul", centred, centred), axes)
    std = node.emit("Sqrt", node.emit("Add", variance, node.scalar(eps)))
    return node.emit("Div", centred, std), mean, std


@converts("InstanceNorm")
def _instance_norm(node: NodeExport) -> Value:
    return node.emit("InstanceNormalization", *node.inputs, epsilon=node.op.eps)


@converts("GroupNorm", "_contrib_GroupNorm")
def _group_norm(node: NodeExport) -> Value | list[Value]:
    """InstanceNormalization of groups, then a factor and an offset per group or channel."""
    op, info = node.op, node.ins[0]
    groups = op.num_groups if hasattr(op, "num_groups") else op.num_group
    flat = node.reshape_to(node.x, 0, groups, -1)
    kind = info.dtype
    y = node.emit("InstanceNormalization", flat, np.ones(groups, kind), np.zeros(groups, kind),
                  epsilon=op.eps)
    parameters = node.ins[1].shape[0]
    spread = [1, parameters] + [1] * (info.ndim - 2)
    if parameters == info.shape[1]:
        y = node.reshape(y, info)
    else:
        spread = [1, parameters, 1]
    gamma, beta = (node.reshape_to(value, *spread) for value in node.inputs[1:3])
    y = node.emit("Add", node.emit("Mul", y, gamma), beta)
    y = y if parameters == info.shape[1] else node.reshape(y, info)
    if op.num_visible == 1:
        return y
    _, mean, std = _normalized(node, flat, [2], op.eps)
    return [y, *[node.axes_op("Squeeze", value, [2]) for value in (mean, std)]]


@converts("LRN")
def _local_response_norm(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    if op.nsize % 2 == 0:
        node.refuse(f"nsize is {op.nsize}, expected an odd number")
    if info.ndim != 4:  # runtimes have it for images only
        flat = node.reshape_to(node.x, 0, 0, -1, 1)
        y = node.emit("LRN", flat, alpha=op.alpha, beta=op.beta, bias=op.knorm, size=op.nsize)
        return node.reshape(y, info)
    return node.emit("LRN", node.x, alpha=op.alpha, beta=op.beta, bias=op.knorm, size=op.nsize)


@converts("L2Normalization")
def _l2_normalization(node: NodeExport) -> Value:
    """x / sqrt(sum of squares + eps) over the whole sample, the channels, or the pixels."""
    op, info = node.op, node.ins[0]
    axes = {"instance": range(1, info.ndim), "channel": [1], "spatial": range(2, info.ndim)}
    summed = list(axes[op.mode])
    squares = node.reduce("ReduceSumSquare", node.x, summed) if summed else node.emit(
        "Mul", node.x, node.x)
    return node.emit("Div", node.x, node.emit(
        "Sqrt", node.emit("Add", squares, node.scalar(op.eps))))


@converts("_contrib_div_sqrt_dim")
def _div_sqrt_dim(node: NodeExport) -> Value:
    size = node.static(node.ins[0], [node.ins[0].ndim - 1])[-1]
    if node.ins[0].dtype.kind != "f":
        node.refuse(f"its elements are {node.ins[0].dtype}, expected floating-point numbers")
    return node.emit("Div", node.x, node.scalar(np.sqrt(size)))
