"""Images of other sizes, and sampling at positions that a grid gives."""

from __future__ import annotations

import numpy as np

from ..converter import NodeExport, converts
from ..onnx_graph import Value


@converts("UpSampling")
def _up_sampling(node: NodeExport) -> Value:
    op = node.op
    if op.sample_type == "bilinear":
        size, pad = 2 * op.scale - op.scale % 2, op.scale // 2
        return node.emit("ConvTranspose", node.x, node.inputs[1], kernel_shape=[size] * 2,
                         strides=[op.scale] * 2, pads=[pad] * 4, group=node.ins[0].shape[1])
    height = node.ins[0].shape[2] * op.scale
    parts = [_repeated(node, value, height // info.shape[2])
             for value, info in zip(node.inputs, node.ins, strict=True)]
    if len(parts) == 1:
        return parts[0]
    if op.multi_input_mode == "sum":
        return node.emit("Sum", *parts)
    return node.emit("Concat", *parts, axis=1)


def _repeated(node: NodeExport, value: Value, factor: int) -> Value:
    scales = np.asarray([1, 1, factor, factor], np.float32)
    return node.emit("Resize", value, None, scales, mode="nearest", nearest_mode="floor",
                     coordinate_transformation_mode="asymmetric")


@converts("_contrib_BilinearResize2D")
def _bilinear_resize(node: NodeExport) -> Value:
    """Sizes are those that the operator computes; of dynamic images they would be others."""
    op, x = node.op, node.x
    if not op.align_corners:
        for axis in (2, 3):  # one pixel is the first one, not that in the middle
            if node.outs[0].shape[axis] == 1:
                x = node.part(x, 0, 1, axis)
    if op.mode == "like" and node.outs[0].dynamic & {2, 3}:
        image = node.emit("Shape", node.inputs[1], start=2, end=4)
        sizes: Value | list[int] = node.emit("Concat", node.emit("Shape", node.x, start=0, end=2),
                                             image, axis=0)
    elif 0 in node.ins[0].dynamic:
        image_sizes = np.asarray(node.static(node.outs[0], (2, 3))[2:], np.int64)
        sizes = node.emit("Concat", node.emit("Shape", node.x, start=0, end=2), image_sizes,
                          axis=0)
    else:
        sizes = list(node.static(node.outs[0]))
    mode = "align_corners" if op.align_corners else "half_pixel"
    return node.emit("Resize", x, None, None, sizes, mode="linear",
                     coordinate_transformation_mode=mode)


@converts("BilinearSampler")
def _bilinear_sampler(node: NodeExport) -> Value:
    """The grid (N, 2, H, W) holds x and y in [-1, 1]; outside of the image is 0."""
    return sampled(node, node.x, node.transpose(node.inputs[1], 0, 2, 3, 1))


def sampled(node: NodeExport, image: Value, grid: Value) -> Value:
    """`image` at the positions `grid` (N, H, W, 2)."""
    mode = "bilinear" if node.opset < 20 else "linear"
    return node.emit("GridSample", image, grid, mode=mode, padding_mode="zeros", align_corners=1)


@converts("GridGenerator", large_constants=True)
def _grid_generator(node: NodeExport) -> Value:
    op = node.op
    if op.transform_type == "warp":
        return _warped(node)
    height, width = op.target_shape
    return node.transpose(_affine_grid(node, node.x, height, width), 0, 3, 1, 2)


def _affine_grid(node: NodeExport, matrix: Value, height: int, width: int) -> Value:
    """Positions (N, H, W, 2) of the pixels, by matrices of 2 x 3 elements each."""
    y, x = np.meshgrid(_line(height), _line(width), indexing="ij")
    points = np.stack([x.ravel(), y.ravel(), np.ones(height * width)])
    positions = node.emit("MatMul", node.reshape_to(matrix, -1, 2, 3),
                          points.astype(node.ins[0].dtype))
    return node.reshape_to(node.transpose(positions, 0, 2, 1), -1, height, width, 2)


def _line(size: int) -> np.ndarray:
    """Centres of the pixels of an axis, from -1 to 1."""
    return -1 + np.arange(size) * (2.0 / max(size - 1, 1))


def _warped(node: NodeExport) -> Value:
    """The flow (N, 2, H, W) in pixels is added to each pixel's own position."""
    info = node.ins[0]
    height, width = node.static(info, (2, 3))[2:]
    if 1 in (height, width):
        node.refuse("its flow has an axis of one pixel, whose position is not defined")
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    moved = node.emit("Add", node.x, np.stack([x, y]).astype(info.dtype)[None])
    steps = np.asarray([2.0 / max(width - 1, 1), 2.0 / max(height - 1, 1)]).reshape(1, 2, 1, 1)
    scaled = node.emit("Mul", moved, steps.astype(info.dtype))
    return node.emit("Sub", scaled, node.scalar(1.0))


@converts("SpatialTransformer", large_constants=True)
def _spatial_transformer(node: NodeExport) -> Value:
    height, width = node.op.target_shape if any(node.op.target_shape) else node.static(
        node.ins[0], (2, 3))[2:]
    return sampled(node, node.x, _affine_grid(node, node.inputs[1], height, width))
