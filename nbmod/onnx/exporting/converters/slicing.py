"""Regions of tensors: slices, splits, crops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ops.regions import slice_region
from ..converter import NodeExport, converts
from ..onnx_graph import Value

END = np.iinfo(np.int64).max
BEGIN = np.iinfo(np.int64).min


def sliced(node: NodeExport, value: Value, parts: Sequence[tuple[int, int, int, int]]) -> Value:
    """`value[begin:end:step]` along axes: (axis, begin, end, step) each."""
    if not parts:
        return node.emit("Identity", value)
    axes, begins, ends, steps = (list(column) for column in zip(*parts, strict=True))
    return node.emit("Slice", value, begins, ends, axes, steps)


@converts("slice")
def _slice_op(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    parts = []
    steps = list(op.step) or [None] * len(op.begin)
    for axis, (begin, end, step) in enumerate(zip(op.begin, op.end, steps, strict=True)):
        step = 1 if step in (None, 0) else step
        if (begin, end, step) == (None, None, 1):
            continue
        first, last = (0, END) if step > 0 else (-1, BEGIN)
        parts.append((axis, first if begin is None else begin, last if end is None else end, step))
    return sliced(node, node.x, parts) if info.ndim else node.x


@converts("slice_axis")
def _slice_axis(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    return sliced(node, node.x, [(info.axis(op.axis), op.begin, END if op.end is None else op.end,
                                  1)])


@converts("slice_like")
def _slice_like(node: NodeExport) -> Value:
    op, info, like = node.op, node.ins[0], node.ins[1]
    axes = [info.axis(axis) for axis in op.axes] or list(range(min(info.ndim, like.ndim)))
    if not like.dynamic.intersection(axes):
        return node.emit("Slice", node.x, [0] * len(axes), [like.shape[axis] for axis in axes],
                         axes)
    sizes = node.emit("Gather", node.emit("Shape", node.inputs[1]), np.asarray(axes, np.int64))
    return node.emit("Slice", node.x, [0] * len(axes), sizes, axes)


@converts("SliceChannel", "_split_v2")
def _split(node: NodeExport) -> list[Value]:
    op, info = node.op, node.ins[0]
    axis = info.axis(op.axis)
    bounds = op.bounds(node.static(info, [axis])[axis])
    if op.name == "SliceChannel" or bounds == sorted(bounds) and bounds[0][0] == 0:
        parts = node.split(node.x, [end - begin for begin, end in bounds], axis)
    else:
        parts = [node.part(node.x, begin, end, axis) for begin, end in bounds]
    if op.squeeze_axis:
        return [node.axes_op("Squeeze", part, [axis]) for part in parts]
    return parts if len(parts) > 1 else [node.emit("Identity", parts[0])]


@converts("Crop")
def _crop(node: NodeExport) -> Value:
    """Height and width of the second input, or `h_w`; in the centre, or at `offset`."""
    op, info = node.op, node.ins[0]
    sizes = node.static(node.outs[0], (2, 3))[2:]
    if op.center_crop:
        image = node.static(info, (2, 3))[2:]
        begins = [(size - part) // 2 for size, part in zip(image, sizes, strict=True)]
    else:
        begins = list(op.offset)
    return sliced(node, node.x, [(axis, begin, begin + size, 1) for axis, begin, size
                                 in zip((2, 3), begins, sizes, strict=True)])


@converts("_slice_assign", "_slice_assign_scalar", large_constants=True)
def _slice_assign(node: NodeExport) -> Value:
    """ScatterND at the positions of the region."""
    op, info = node.op, node.ins[0]
    shape = node.static(info)
    region = slice_region(shape, op.begin, op.end, op.step)
    places = np.stack(np.meshgrid(*[np.arange(size)[part] for size, part in zip(
        shape, (*region, *[slice(None)] * (len(shape) - len(region))), strict=True)],
        indexing="ij"), axis=-1).astype(np.int64)
    if op.name == "_slice_assign":
        return node.emit("ScatterND", node.x, places, node.inputs[1])
    return node.emit("ScatterND", node.x, places,
                     np.full(places.shape[:-1], op.scalar).astype(info.dtype))
