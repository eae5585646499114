"""Preprocessing of images as part of a model."""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Value


@converts("_image_to_tensor")
def _to_tensor(node: NodeExport) -> Value:
    """Channels first, divided by 255."""
    ndim = node.ins[0].ndim
    order = [*range(ndim - 3), ndim - 1, ndim - 3, ndim - 2]
    real = node.cast_from(node.transpose(node.x, *order), node.ins[0].dtype, np.float32)
    return node.emit("Div", real, node.scalar(255, np.float32))


@converts("_image_normalize")
def _normalize(node: NodeExport) -> Value:
    """The mean and the deviation of each channel, or one of all."""
    info = node.ins[0]
    if info.dtype.kind != "f":
        node.refuse(f"its elements are {info.dtype}, whose results wrap around")
    channels = node.static(info, [info.ndim - 3])[-3]
    mean, std = (np.broadcast_to(np.asarray(values[:channels] if len(values) > 1 else values),
                                 (channels,)).reshape(-1, 1, 1).astype(info.dtype)
                 for values in (node.op.mean, node.op.std))
    return node.emit("Div", node.emit("Sub", node.x, mean), std)


@converts("_image_crop")
def _crop(node: NodeExport) -> Value:
    op = node.op
    begins = [op.y, op.x]
    return node.emit("Slice", node.x, begins, [op.y + op.height, op.x + op.width], [-3, -2])


@converts("_image_flip_left_right", "_image_flip_top_bottom")
def _flip(node: NodeExport) -> Value:
    return node.emit("Slice", node.x, [-1], [np.iinfo(np.int64).min], [node.op.axis], [-1])
