"""Definitions, with NumPy, of the ops that passes insert: compositions of the ops they stand for.

They are for `passes.translation_validation`, which evaluates graphs before and after a pass.  A
definition `define(op, ins, shapes, call)` returns an array for each output; `shapes` are those of
the outputs, None for one that nothing reads.  Element types are those of the inputs; those of
elementwise programs, which convert integers to reals, are those of `call.specs`.

Images in blocks of channels really are in blocks here.  Their invariants are part of the meaning of
ops that read halo or padding channels (see `blocked.layout`): if these are not zero, the results
are NaN.  Packed filters, whose layout is that of an algorithm, are the filters themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..elementwise.program import run
from ..nn.convolution import Convolution
from ..op import Call, Op
from ..param import Shape
from . import prepare_numpy_form
from .normalization import batch_norm, batch_norm_gradient
from .recurrent import recurrent_layer, recurrent_layer_gradient
from .sliding_window import convolution, convolution_gradient, pooling, pooling_gradient

if TYPE_CHECKING:
    from ..blocked.blocked_pooling import BlockedPooling
    from ..blocked.depthwise_chain import BlockedChain
    from ..blocked.int8 import BlockedInt8Layer, Int8FromBlocks, Int8IntoBlocks, PackedInt8Filters
    from ..blocked.ops import (
        BlockedConcat,
        BlockedConvolution,
        PackedFilters,
        Reorder,
        ZeroPadding,
    )
    from ..elementwise.fused_elements import FusedElements
    from ..nn.batch_norm import FusedBatchNorm
    from ..nn.batch_tiles import BatchTiles
    from ..nn.fused_epilogue import FusedLayer

__all__ = ["DEFINITIONS", "GRADIENT_DEFINITIONS"]

Shapes = Sequence["Shape | None"]
Define = Callable[[Any, Sequence[Any], Shapes, Call], list[Any]]
TINY = np.nextafter(0.0, 1.0)
"""The smallest number that ReLU passes."""

# -- blocks of channels ----------------------------------------------------------------------------


def _into_blocks(images: np.ndarray, shape: Shape, halo: int, edge: int = 0) -> Any:
    """Images (N, C, H, W) in blocks (N, blocks, H + 2 halo, W + 2 halo, lanes); halo and padding
    channels are `edge`."""
    count, channels, height, width = images.shape
    blocks, lanes = shape[1], shape[4]
    whole = np.full((count, blocks * lanes, height + 2 * halo, width + 2 * halo), edge,
                    images.dtype)
    whole[:, :channels, halo:halo + height, halo:halo + width] = images
    parts = whole.reshape(count, blocks, lanes, *whole.shape[2:])
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 4, 2))


def _unblocked(array: np.ndarray) -> Any:
    """All channels of a blocked array, with their halo."""
    count, blocks, height, width, lanes = array.shape
    return array.transpose(0, 1, 4, 2, 3).reshape(count, blocks * lanes, height, width)


def _inside(array: np.ndarray, channels: int, halo: int) -> Any:
    """The images (N, C, H, W) of a blocked array."""
    whole = _unblocked(array)
    height, width = whole.shape[2:]
    return np.ascontiguousarray(whole[:, :channels, halo:height - halo, halo:width - halo])


def _image(array: np.ndarray, channels: int, halo: int) -> Any:
    """The images for a reader of halo and padding channels: NaN if these are not zero."""
    images = _inside(array, channels, halo)
    if np.count_nonzero(array) != np.count_nonzero(images):
        return np.full_like(images, np.nan)
    return images


def _blocks_of(images: np.ndarray, op: Reorder | ZeroPadding, shapes: Shapes, call: Call
              ) -> list[Any]:
    return [_into_blocks(images, shapes[0], op.halo)]  # type: ignore[arg-type]


def _reorder_into(op: Reorder, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    return _blocks_of(ins[0], op, shapes, call)


def _reorder_from(op: Reorder, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    return [_inside(ins[0], op.channels, op.halo)]


def _clear_edges(op: ZeroPadding, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    return _blocks_of(_inside(ins[0], op.channels, op.halo), op, shapes, call)


def _joined_blocks(op: BlockedConcat, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    return [np.concatenate(ins, axis=1)]


def _joined_blocks_gradient(op: BlockedConcat, ins: Sequence[Any], shapes: Shapes, call: Call
                           ) -> list[Any]:
    counts = [shape[1] for shape in shapes if shape is not None]
    if len(counts) < len(shapes):
        raise NotImplementedError("only gradients of all images at once")
    return np.split(ins[0], np.cumsum(counts)[:-1], axis=1)


def _packed_filters(op: PackedFilters, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    return [ins[0]]


# -- convolution and pooling of blocks -------------------------------------------------------------


def _plain_convolution(op: BlockedConvolution) -> Convolution:
    slide = op.slide
    return Convolution(kernel=slide.kernel, stride=slide.stride, dilate=slide.dilate,
                       pad=slide.pad, num_filter=op.filters, num_group=slide.groups,
                       no_bias=not op.bias)


def _output_of(op: Op, tensors: Sequence[Any], more: int) -> Any:
    """An array for the output of an op of these tensors and `more` others."""
    ins = [*(tensor.shape for tensor in tensors), *[None] * more]
    shape = op.infer_shape(ins, [None])[1][0]
    assert shape is not None
    return np.empty(shape, tensors[0].dtype)


def _epilogue(op: BlockedConvolution | FusedLayer | FusedBatchNorm, y: np.ndarray,
              added: np.ndarray | None = None) -> Any:
    """Add, then clip to [0, most], as far as the op does either."""
    y = y if added is None else y + added
    return np.clip(y, 0, op.most) if op.relu else y


def _blocked_convolution(op: BlockedConvolution, ins: Sequence[Any], shapes: Shapes, call: Call
                        ) -> list[Any]:
    tensors, conv = dict(zip(op.list_inputs(), ins, strict=True)), _plain_convolution(op)
    x = _image(ins[0], op.channels, op.halo)
    y = _output_of(conv, [x], 1 + op.bias)
    convolution(conv, [x, *ins[1:2 + op.bias]], [y], call)
    added = _inside(tensors["add"], op.filters, op.out_halo) if op.add else None
    return [_into_blocks(_epilogue(op, y, added), _blocked_shape(op, y), op.out_halo)]


def _blocked_shape(op: BlockedConvolution, y: np.ndarray) -> Shape:
    from ..blocked.layout import BlockedLayout

    height, width = y.shape[2:]
    return BlockedLayout(op.filters, height, width, op.out_halo).shape(len(y))


def _blocked_convolution_gradient(op: BlockedConvolution, ins: Sequence[Any], shapes: Shapes,
                                  call: Call) -> list[Any]:
    g, x = _image(ins[0], op.filters, op.out_halo), _image(ins[1], op.channels, op.halo)
    grad_flags = [shape is not None for shape in shapes]
    if grad_flags[0] and not op.needs_data_grad:
        raise ValueError("the gradient of data is read, but needs_data_grad is False")
    outs = [np.empty(shape, x.dtype) if flag else None for flag, shape in zip(
        grad_flags, (x.shape, ins[2].shape, (op.filters,)), strict=False)]
    convolution_gradient(_plain_convolution(op), [g, x, ins[2]], outs, call)
    if grad_flags[0]:
        outs[0] = _into_blocks(outs[0], shapes[0], op.halo)  # type: ignore[arg-type]
    return outs


def _blocked_pooling(op: BlockedPooling, ins: Sequence[Any], shapes: Shapes, call: Call
                    ) -> list[Any]:
    x, shape = _inside(ins[0], op.channels, op.halo), op.out_shape(ins[0].shape)
    y = np.empty((len(x), op.channels, *(size - 2 * op.out_halo for size in shape[2:4])), x.dtype)
    pooling(op.pool, [x], [y], call)
    return [_into_blocks(y, shape, op.out_halo)]


def _blocked_pooling_gradient(op: BlockedPooling, ins: Sequence[Any], shapes: Shapes, call: Call
                             ) -> list[Any]:
    shape = shapes[0]
    assert shape is not None
    g, x = ins[0], ins[1:]
    gx = np.empty((len(g), op.channels, *(size - 2 * op.halo for size in shape[2:4])), g.dtype)
    pooling_gradient(op.pool, [_inside(g, op.channels, op.out_halo),
                               *(_inside(each, op.channels, op.halo) for each in x)], [gx], call)
    return [_into_blocks(gx, shape, op.halo)]


def _chain(op: BlockedChain, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    """BlockedChain: convolutions one after the other."""
    tensors = dict(zip(op.list_inputs(), ins, strict=True))
    data = ins[0]
    for i, link in enumerate(op.links):
        names = [f"weight{i}", *[f"bias{i}"] * link.bias, *["add"] * link.add]
        data = _blocked_convolution(link, [data, *map(tensors.__getitem__, names)], [None], call)[0]
    return [data]


def _batch_tiles(op: BatchTiles, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    """The ops one after the other, on whole batches."""
    data, rest = ins[0], iter(ins[1:])
    for each in op.chain:
        inputs = [data, *(next(rest) for _ in each.list_inputs()[1:])]
        data = _run_any(each, inputs, call)
    return [data]


def _run_any(op: Op, ins: Sequence[Any], call: Call) -> Any:
    """The first output of an op."""
    define = DEFINITIONS.get(op.name)
    if define is not None:
        return define(op, ins, [None], call)[0]
    out = np.empty(ins[0].shape, ins[0].dtype)
    prepare_numpy_form(op, ins, [out], call)()
    return out


# -- layers and batch norm with an epilogue --------------------------------------------------------


def _fused_layer(op: FusedLayer, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    own = ins[:len(ins) - op.add]
    out = _output_of(op.layer, own, 0)
    prepare_numpy_form(op.layer, own, [out], call)()
    return [_epilogue(op, out, ins[-1] if op.add else None)]


def _planes(op: Any, halo: int
           ) -> tuple[Callable[[Any], Any], Callable[[Any, Shape], Any]]:
    """Functions from the layout of a batch norm into plain images, and back."""
    if not hasattr(op, "halos"):
        return lambda array: array, lambda array, shape: array
    return (partial(_inside, channels=op.channels, halo=op.halos[halo]),
            partial(_into_blocks, halo=op.halos[halo]))


def _fused_batch_norm(op: FusedBatchNorm, ins: Sequence[Any], shapes: Shapes, call: Call
                     ) -> list[Any]:
    tensors = dict(zip(op.list_inputs(), ins, strict=True))
    plain, (back, into) = _planes(op, 0)[0], _planes(op, 1)
    x, gamma = plain(tensors["data"]), tensors["gamma"]
    outs = [np.empty_like(x), *(np.empty_like(gamma) if shape is not None else None
                                for shape in shapes[1:])]
    batch_norm(op.norm, [x, *ins[1 + op.add:]], outs, call)
    y = _epilogue(op, outs[0], back(tensors["add"]) if op.add else None)
    return [into(y, shapes[0]), *outs[1:]]  # type: ignore[arg-type]


def _fused_batch_norm_gradient(op: FusedBatchNorm, ins: Sequence[Any], shapes: Shapes, call: Call
                              ) -> list[Any]:
    (_, into), (plain, into_out) = _planes(op, 0), _planes(op, 1)
    g, x, gamma, mean, invstd, moving_mean, moving_var = ins[:7]
    g, x = plain(g), _planes(op, 0)[0](x)
    if op.relu:
        y = plain(ins[7]) if op.add else _normalized(op, x, ins, call)
        lowest = TINY if op.most == np.inf else 0
        g = np.where((y >= lowest) & (y <= op.most), g, 0)
    own = [np.empty(shape, x.dtype) if out_shape is not None else None for shape, out_shape in zip(
        (x.shape, gamma.shape, gamma.shape), (shapes[0], *shapes[1 + op.add:]), strict=False)]
    batch_norm_gradient(op.norm, [g, x, *ins[2:7]], own, call)
    if shapes[0] is not None:
        own[0] = into(own[0], shapes[0])
    added = [into_out(g, shapes[1])] if op.add and shapes[1] is not None else [None] * op.add
    return [own[0], *added, *own[1:], None, None]


def _normalized(op: FusedBatchNorm, x: np.ndarray, ins: Sequence[Any], call: Call) -> Any:
    """The values that forward clips, computed as `batch_norm` does."""
    gamma, mean, invstd, moving_mean, moving_var, beta = *ins[2:7], ins[7]
    if op.use_global_stats or not call.is_train:
        y = np.empty_like(x)
        batch_norm(op.norm, [x, gamma, beta, moving_mean, moving_var], [y, None, None], call)
        return y
    channels = [1] * x.ndim
    channels[op.axis] = -1
    scale = invstd if op.fix_gamma else gamma * invstd
    return (x - mean.reshape(channels)) * scale.reshape(channels) + beta.reshape(channels)


# -- elementwise programs --------------------------------------------------------------------------


def _fused_elements(op: FusedElements, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    in_shapes, out_shapes = op.operand_shapes[:len(ins)], op.operand_shapes[len(ins):]
    operands = [array.reshape(_fitted(shape, array.size))
                for array, shape in zip(ins, in_shapes, strict=True)]
    outs = [None if shape is None else np.empty(_fitted(own, prod(shape)), spec.dtype)
            for own, shape, spec in zip(out_shapes, shapes, call.specs, strict=True)]
    run(op.program, operands, outs, op.scalars)
    return [out if out is None else out.reshape(shape)
            for out, shape in zip(outs, shapes, strict=True)]


def _fitted(shape: Shape, size: int) -> Shape:
    """A shape for arrays of another batch: the first axis that varies is as long as it must be."""
    whole = prod(shape)
    if whole == size or not whole:
        return shape
    first, rest = divmod(shape[0] * size, whole)
    if rest:
        raise ValueError(f"{size} elements have no shape like {shape}")
    return (first, *shape[1:])


# -- layers of bytes -------------------------------------------------------------------------------


def _into_bytes(op: Int8IntoBlocks, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    """Elements keep the type of the data: 0 is 0."""
    layout = op.layout
    images = ins[0].reshape(-1, layout.channels, layout.height, layout.width)
    return [_into_blocks(images, layout.shape(len(images)), layout.halo)]


def _from_bytes(op: Int8FromBlocks, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    images = _inside(ins[0], op.layout.channels, op.layout.halo)
    return [images.reshape(-1, *op.shape[1:])]


def _packed_bytes(op: PackedInt8Filters, ins: Sequence[Any], shapes: Shapes, call: Call
                 ) -> list[Any]:
    return [ins[0], np.zeros(op.bytes.y.channels, np.int32)]


def _byte_layer(op: BlockedInt8Layer, ins: Sequence[Any], shapes: Shapes, call: Call) -> list[Any]:
    """The layer, `requantize` and ReLU, one after the other."""
    x, y = op.bytes.x, op.bytes.y
    images = _image(ins[0].astype(np.float64), x.channels, x.halo)
    if np.isnan(images).any():
        raise ValueError("the halo of the images is not zero")
    images = images.astype(op.dtype)
    is_dense = not hasattr(op.layer, "kernel")
    data = images.reshape(len(images), -1) if is_dense else _with_axes(images, op.layer)
    own = [data, ins[1], *ins[3:]]
    outs = [_output_of(op.layer, own, 0).astype(np.int32), np.empty(1), np.empty(1)]
    prepare_numpy_form(op.layer, own, outs, call)()
    if op.requantize:
        sums, outs = outs, [np.empty(outs[0].shape, op.target), *(o.copy() for o in outs[1:])]
        op.requantize.forward(sums, outs, call)
    if op.relu:
        outs[0] = np.maximum(outs[0], 0)
    blocked = outs[0].reshape(len(images), y.channels, y.height, y.width)
    return [_into_blocks(blocked, y.shape(len(images)), y.halo), *outs[1:]]


def _with_axes(images: np.ndarray, layer: Any) -> Any:
    """Images with as many axes as the kernel of a layer."""
    return images.reshape(*images.shape[:2], *images.shape[4 - len(layer.kernel):])


DEFINITIONS: dict[str, Define] = {
    "_into_blocks": _reorder_into,
    "_from_blocks": _reorder_from,
    "_clear_edges": _clear_edges,
    "_joined_blocks": _joined_blocks,
    "_packed_filters": _packed_filters,
    "_blocked_convolution": _blocked_convolution,
    "_blocked_pooling": _blocked_pooling,
    "_blocked_chain": _chain,
    "_batch_tiles": _batch_tiles,
    "_fused_layer": _fused_layer,
    "_fused_batch_norm": _fused_batch_norm,
    "_blocked_batch_norm": _fused_batch_norm,
    "_recurrent_layer": recurrent_layer,
    "fused": _fused_elements,
    "_into_bytes": _into_bytes,
    "_from_bytes": _from_bytes,
    "_packed_bytes": _packed_bytes,
    "_byte_layer": _byte_layer,
}
"""By the name of the op."""

GRADIENT_DEFINITIONS: dict[str, Define] = {
    "_into_blocks": _reorder_from,
    "_from_blocks": _reorder_into,
    "_clear_edges": _clear_edges,
    "_joined_blocks": _joined_blocks_gradient,
    "_blocked_convolution": _blocked_convolution_gradient,
    "_blocked_pooling": _blocked_pooling_gradient,
    "_fused_batch_norm": _fused_batch_norm_gradient,
    "_blocked_batch_norm": _fused_batch_norm_gradient,
    "_recurrent_layer": recurrent_layer_gradient,
}
"""Definitions of the gradients of ops, by name."""
