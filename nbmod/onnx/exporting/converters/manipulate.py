"""Other shapes, orders of axes, repetitions and padding."""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Value


@converts("Reshape")
def _reshape(node: NodeExport) -> Value:
    return node.reshape(node.x, node.outs[0])


@converts("reshape_like")
def _reshape_like(node: NodeExport) -> Value:
    op, out = node.op, node.outs[0]
    whole = op.lhs_begin is None and op.lhs_end is None and op.rhs_begin is None and (
        op.rhs_end is None)
    if node.ins[0] == out:
        return node.x
    if out.dynamic and whole:
        return node.emit("Reshape", node.x, node.emit("Shape", node.inputs[1]))
    return node.reshape(node.x, out)


@converts("Flatten")
def _flatten(node: NodeExport) -> Value:
    if node.ins[0].ndim == 2:
        return node.x
    if node.ins[0].ndim < 2:
        return node.reshape(node.x, node.outs[0])
    return node.emit("Flatten", node.x, axis=1)


@converts("transpose")
def _transpose(node: NodeExport) -> Value:
    ndim = node.ins[0].ndim
    axes = [axis % ndim for axis in node.op.axes] or list(range(ndim))[::-1]
    return node.transpose(node.x, *axes)


@converts("SwapAxis")
def _swap_axes(node: NodeExport) -> Value:
    info = node.ins[0]
    axes = list(range(info.ndim))
    first, second = info.axis(node.op.dim1), info.axis(node.op.dim2)
    axes[first], axes[second] = second, first
    return node.transpose(node.x, *axes)


@converts("expand_dims")
def _expand_dims(node: NodeExport) -> Value:
    return node.axes_op("Unsqueeze", node.x, [node.op.axis % node.outs[0].ndim])


@converts("squeeze")
def _squeeze(node: NodeExport) -> Value:
    return node.reshape(node.x, node.outs[0])


@converts("Pad")
def _pad(node: NodeExport) -> Value:
    op = node.op
    widths = [*op.pad_width[::2], *op.pad_width[1::2]]
    if op.mode == "constant":
        return node.emit("Pad", node.x, widths, node.scalar(op.constant_value))
    return node.emit("Pad", node.x, widths, mode=op.mode)


@converts("tile")
def _tile(node: NodeExport) -> Value:
    info, reps = node.ins[0], list(node.op.reps)
    reps = [1] * (info.ndim - len(reps)) + reps
    x = node.x
    if len(reps) > info.ndim:
        x = node.axes_op("Unsqueeze", x, range(len(reps) - info.ndim))
    return node.emit("Tile", x, reps)


@converts("repeat")
def _repeat(node: NodeExport) -> Value:
    """Each element in turn: a new axis that is tiled and merged."""
    op, info, out = node.op, node.ins[0], node.outs[0]
    axis = 0 if op.axis is None else info.axis(op.axis)
    x = node.reshape_to(node.x, -1) if op.axis is None else node.x
    ndim = 1 if op.axis is None else info.ndim
    reps = [1] * (ndim + 1)
    reps[axis + 1] = op.repeats
    tiled = node.emit("Tile", node.axes_op("Unsqueeze", x, [axis + 1]), reps)
    if op.axis is None:
        return node.reshape_to(tiled, -1)
    return node.reshape(tiled, out)


@converts("broadcast_to", "broadcast_axis")
def _broadcast(node: NodeExport) -> Value:
    """Sizes of 1 in the wanted shape keep those of the data."""
    out = node.outs[0]
    sizes = [1 if axis in out.dynamic else size for axis, size in enumerate(out.shape)]
    return node.emit("Expand", node.x, sizes)


@converts("broadcast_like")
def _broadcast_like(node: NodeExport) -> Value:
    out = node.outs[0]
    if not out.dynamic:
        return node.emit("Expand", node.x, out.shape)
    if node.op.lhs_axes is None:
        return node.emit("Expand", node.x, node.emit("Shape", node.inputs[1]))
    return node.refuse("it broadcasts single axes to dynamic sizes")


@converts("reverse")
def _reverse(node: NodeExport) -> Value:
    axes = node.op.axis if isinstance(node.op.axis, tuple) else (node.op.axis,)
    last = np.iinfo(np.int64).min
    return node.emit("Slice", node.x, [-1] * len(axes), [last] * len(axes),
                     [node.ins[0].axis(axis) for axis in axes], [-1] * len(axes))


@converts("depth_to_space")
def _depth_to_space(node: NodeExport) -> Value:
    return node.emit("DepthToSpace", node.x, blocksize=node.op.block_size, mode="DCR")


@converts("space_to_depth")
def _space_to_depth(node: NodeExport) -> Value:
    return node.emit("SpaceToDepth", node.x, blocksize=node.op.block_size)


@converts("Concat", "_rnn_param_concat")
def _concat(node: NodeExport) -> Value:
    return node.emit("Concat", *node.inputs, axis=node.ins[0].axis(node.op.dim))


@converts("stack")
def _stack(node: NodeExport) -> Value:
    axis = node.op.axis % node.outs[0].ndim
    return node.emit("Concat", *[node.axes_op("Unsqueeze", value, [axis])
                                 for value in node.inputs], axis=axis)


@converts("diag", large_constants=True)
def _diag(node: NodeExport) -> Value:
    """A vector becomes a diagonal; of a matrix, the diagonal is gathered."""
    op, info, out = node.op, node.ins[0], node.outs[0]
    if info.ndim == 1:
        size = node.static(info)[0]
        mask = np.eye(size + abs(op.k), k=op.k, dtype=info.dtype)
        before, after = max(-op.k, 0), max(op.k, 0)
        column = node.axes_op("Unsqueeze", node.emit("Pad", node.x, [before, after]), [1])
        return node.emit("Mul", mask, column)
    first, second = info.axis(op.axis1), info.axis(op.axis2)
    rows, columns = (node.static(info, [axis])[axis] for axis in (first, second))
    rest = [axis for axis in range(info.ndim) if axis not in (first, second)]
    flat = node.reshape_to(node.transpose(node.x, *rest, first, second),
                           *[0] * len(rest), rows * columns)
    count = out.shape[-1]
    start = max(-op.k, 0) * columns + max(op.k, 0)
    places = start + np.arange(count) * (columns + 1)
    return node.emit("Gather", flat, places.astype(np.int64), axis=len(rest))
