"""Shapes: reshape, transpose, slices, joins, padding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ....ops.param import Shape
from ....ops.shape import normalize_axes, size_of
from ..composition import expand, numeric
from ..constant_folding import reshaped, slice_parts
from ..imported_tensor import ImportedTensor
from ..node_import import NodeImport, imports
from ..tensor_data import element_type

OPEN_END = 2 ** 31 - 1
"""Ends from here on mean the end of any axis."""


@imports("Reshape")
def reshape(node: NodeImport) -> ImportedTensor:
    """Another shape; 0 and -1 stay in it, so that it fits other batches."""
    data, target = node.data, _open_shape(node) or node.integer_list(1, "shape")
    if target is None:
        node.refuse("shape is missing")
    zero = bool(node.attribute("allowzero", 0))
    if zero and 0 in target:
        node.refuse("tensors without elements have no counterpart")
    if data.is_static and data.shape is not None:
        full = reshaped(data.shape, target)
        if size_of(full) != size_of(data.shape):
            node.refuse(f"shape {data.shape} has another number of elements than {target}")
        if not full or data.shape == () or data.array is not None:
            return node.reshape(data, full)
        if any(size == 0 and i >= len(data.shape) for i, size in enumerate(target)):
            return node.reshape(data, full)
    result = node.emit("Reshape", data, shape=target)
    return result.typed(data.dtype)


def _open_shape(node: NodeImport) -> Shape | None:
    """A shape with open sizes: 0 for one of the input, -1 for another."""
    sizes = node.open_sizes(1)
    return None if sizes is None or sizes.count(-1) > 1 else tuple(each or 0 for each in sizes)


@imports("Flatten")
def flatten(node: NodeImport) -> ImportedTensor:
    """A matrix of the axes before and after `axis`."""
    axis = int(node.attribute("axis", 1))
    if axis == 1 and node.rank() > 1:
        return node.emit("Flatten", node.data).typed(node.data.dtype)
    shape = node.static()
    axis %= len(shape) or 1
    return node.reshape(node.data, (size_of(shape[:axis]), size_of(shape[axis:])))


@imports("Transpose")
def transpose(node: NodeImport) -> ImportedTensor:
    """Axes in another order."""
    axes = tuple(range(node.rank()))
    order = node.integers("perm") or axes[::-1]
    if tuple(sorted(order)) != axes:
        node.refuse(f"perm is {order} for {len(axes)} axes")
    return node.transpose(node.data, order)


@imports("Unsqueeze")
def unsqueeze(node: NodeImport) -> ImportedTensor:
    """New axes of length 1."""
    data, axes = node.data, node.integer_list(1, "axes") or ()
    axes = normalize_axes(axes, node.rank() + len(axes))
    if not node.rank() or data.array is not None:
        return node.reshape(data, (1,) * len(axes))
    tensor = data
    for axis in sorted(axes):
        tensor = node.emit("expand_dims", tensor, axis=axis)
    return tensor.typed(data.dtype)


@imports("Squeeze")
def squeeze(node: NodeImport) -> ImportedTensor:
    """Without axes of length 1."""
    data, axes = node.data, node.integer_list(1, "axes")
    shape = node.static() if axes is None else data.shape
    rank = node.rank()
    if axes is None:
        axes = tuple(i for i, size in enumerate(shape or ()) if size == 1)
    axes = normalize_axes(axes, rank)
    if not axes:
        return data
    if len(axes) == rank:
        return node.reshape(data, ())
    return node.emit("squeeze", data, axis=axes).typed(data.dtype)


@imports("Concat")
def concat(node: NodeImport) -> ImportedTensor:
    """Tensors joined along an axis."""
    tensors = [each for each in node.inputs if each is not None and (
        each.array is None or each.array.size)]
    axis, dtype = node.axis(1, tensors[0]), tensors[0].dtype
    operands = [node.plain(each) for each in tensors]
    if len(operands) == 1 < len(node.inputs):
        return operands[0]
    return node.emit("Concat", *operands, dim=axis, num_args=len(operands)).typed(dtype)


@imports("Split")
def split(node: NodeImport) -> Sequence[ImportedTensor]:
    """Parts along an axis."""
    axis, count = node.axis(0), len(node.outputs)
    sizes = node.integer_list(1, "split")
    if sizes is None and count == 1:
        return [node.data]
    length = (node.data.shape or (0,))[axis]
    if sizes is None and length and length % count:
        part = -(-length // count)
        sizes = tuple(min(part, length - i * part) for i in range(count))
    if sizes is None or len(set(sizes)) == 1 < count:
        return [each.typed(node.data.dtype) for each in
                node.emit_all("SliceChannel", node.data, num_outputs=count, axis=axis)]
    if len(sizes) != count:
        node.refuse(f"split is {sizes} for {count} outputs")
    if 0 in sizes:
        return _with_empty_parts(node, sizes, axis)
    if count == 1:
        return [node.data]
    bounds = (0, *tuple(accumulate(sizes))[:-1])
    return [each.typed(node.data.dtype) for each in
            node.emit_all("_split_v2", node.data, indices=bounds, axis=axis)]


def _with_empty_parts(node: NodeImport, sizes: Shape, axis: int) -> list[ImportedTensor]:
    shape, parts, begin = list(node.static()), [], 0
    for size in sizes:
        shape[axis] = size
        part = node.emit("slice_axis", node.data, axis=axis, begin=begin, end=begin + size
                         ).typed(node.data.dtype) if size else node.empty(
                             tuple(shape), node.data.dtype)
        parts.append(part)
        begin += size
    return parts


@imports("Slice")
def slices(node: NodeImport) -> ImportedTensor:
    """A range of one or more axes."""
    data, rank = node.data, node.rank()
    parts = slice_parts(node, rank)
    shape = node.static() if any(part.step < 0 for part in parts.values()) else data.shape or ()
    if len(parts) == 1 and next(iter(parts.values())).step == 1:
        return _along_axis(node, *next(iter(parts.items()))).typed(data.dtype)
    begin: list[int | None] = [None] * rank
    end, step = begin.copy(), [1] * rank
    for axis, part in parts.items():
        low, high, stride = part.indices(shape[axis]) if shape[axis] else (
            part.start, part.stop, part.step)
        if shape[axis] and not len(range(low, high, stride)):
            return _nothing(node, parts)
        begin[axis], step[axis] = low, stride
        is_open = high < 0 if stride < 0 else part.stop is None or part.stop >= OPEN_END
        end[axis] = None if is_open else high
    return node.emit("slice", data, begin=tuple(begin), end=tuple(end), step=tuple(step)
                     ).typed(data.dtype)


def _nothing(node: NodeImport, parts: dict[int, slice]) -> ImportedTensor:
    """A slice without elements."""
    shape = tuple(len(range(*parts.get(axis, slice(None)).indices(size)))
                  for axis, size in enumerate(node.static()))
    return node.empty(shape, node.data.dtype)


def _along_axis(node: NodeImport, axis: int, part: slice) -> ImportedTensor:
    size = (node.data.shape or ())[axis]
    low, high, _ = part.indices(size) if size else (part.start, part.stop, 1)
    if size and low >= high:
        return _nothing(node, {axis: part})
    if size and (low, high) == (0, size):
        return node.data
    open_end = part.stop is None or part.stop >= OPEN_END
    return node.emit("slice_axis", node.data, axis=axis, begin=low, end=None if open_end else high)


@imports("Expand")
def expanded(node: NodeImport) -> ImportedTensor:
    """Broadcast to a shape."""
    target = node.integer_list(1)
    if target is None:
        node.refuse("shape is missing")
    if all(size == 1 for size in target) and len(target) <= node.rank():
        return node.data
    return expand(node, node.data, np.broadcast_shapes(node.static(), target))


@imports("Tile")
def tile(node: NodeImport) -> ImportedTensor:
    """Repeated along axes."""
    counts = node.integer_list(1)
    if not counts:
        return node.data
    return node.emit("tile", node.data, reps=counts).typed(node.data.dtype)


@imports("Pad")
def pad(node: NodeImport) -> ImportedTensor:
    """A border around a tensor; negative widths cut it."""
    data, pads = node.data, node.integer_list(1, "pads")
    rank, mode = node.rank(), node.attribute("mode", "constant")
    axes = node.integer_list(3)
    if pads is None:
        node.refuse("pads is missing")
    chosen = range(rank) if axes is None else normalize_axes(axes, rank)
    before, after = [0] * rank, [0] * rank
    for axis, low, high in zip(chosen, pads[:len(pads) // 2], pads[len(pads) // 2:], strict=True):
        before[axis], after[axis] = low, high
    value = node.constant(2, "value")
    data = _cropped(node, numeric(node, data), before, after)
    before, after = [max(each, 0) for each in before], [max(each, 0) for each in after]
    if mode == "wrap":
        return _wrapped(node, data, before, after).typed(node.data.dtype)
    if not any(before + after):
        return data.typed(node.data.dtype)
    widths = tuple(width for pair in zip(before, after, strict=True) for width in pair)
    fill = 0.0 if value is None else float(value.ravel()[0])
    return node.emit("Pad", data, mode=mode, pad_width=widths, constant_value=fill
                     ).typed(node.data.dtype)


def _cropped(node: NodeImport, data: ImportedTensor, before: Sequence[int], after: Sequence[int]
             ) -> ImportedTensor:
    if min(*before, *after) >= 0:
        return data
    return node.emit("slice", data, begin=tuple(max(-low, 0) for low in before),
                     end=tuple(min(high, 0) or None for high in after))


def _wrapped(node: NodeImport, data: ImportedTensor, before: Sequence[int], after: Sequence[int]
             ) -> ImportedTensor:
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        size = node.static(data)[axis]
        node.owner.reserve((low + size + high,), np.dtype(np.int64))
        if low or high:
            index = node.new_constant(np.arange(-low, size + high) % size, np.dtype(np.int64))
            data = node.emit("take", data, index, axis=axis)
    return data


@imports("DepthToSpace")
def depth_to_space(node: NodeImport) -> ImportedTensor:
    """Channels moved into blocks of pixels."""
    size = int(node.attribute("blocksize"))
    if node.attribute("mode", "DCR") == "DCR":
        return node.emit("depth_to_space", node.data, block_size=size)
    batch, channels, height, width = node.static()
    split_shape: Shape = (batch, channels // size ** 2, size, size, height, width)
    parts = node.transpose(node.reshape(node.data, split_shape), (0, 1, 4, 2, 5, 3))
    return node.reshape(parts, (batch, channels // size ** 2, height * size, width * size))


@imports("SpaceToDepth")
def space_to_depth(node: NodeImport) -> ImportedTensor:
    """Blocks of pixels moved into channels."""
    size = int(node.attribute("blocksize"))
    if node.attribute("mode", "DCR") == "DCR":
        return node.emit("space_to_depth", node.data, block_size=size)
    batch, channels, height, width = node.static()
    split_shape: Shape = (batch, channels, height // size, size, width // size, size)
    parts = node.transpose(node.reshape(node.data, split_shape), (0, 1, 3, 5, 2, 4))
    return node.reshape(parts, (batch, channels * size ** 2, height // size, width // size))


@imports("ReverseSequence")
def reverse_sequence(node: NodeImport) -> ImportedTensor:
    """The first steps of each sample in reverse."""
    data, lengths = node.input(0), node.input(1)
    order = [node.attribute("time_axis", 0), node.attribute("batch_axis", 1)]
    order += [axis for axis in range(node.rank()) if axis not in order]
    first = node.transpose(data, order)
    sequences = node.emit("SequenceReverse", first, node.cast(lengths, np.dtype(np.int32)),
                          use_sequence_length=True)
    return node.transpose(sequences, [int(i) for i in np.argsort(order)])


@imports("EyeLike")
def eye_like(node: NodeImport) -> ImportedTensor:
    """A matrix with ones on a diagonal."""
    rows, columns = node.static()
    dtype = (element_type(int(node.attribute("dtype")), "attribute 'dtype'")
             if "dtype" in node.attributes else node.data.dtype)
    matrix = node.emit("_eye", N=rows, M=columns, k=int(node.attribute("k", 0)),
                       dtype="float32" if dtype == np.dtype(bool) else dtype.name)
    return matrix.typed(dtype)


@imports("Constant", "ConstantOfShape", "Range", "Shape", "Size")
def needs_values(node: NodeImport) -> ImportedTensor:
    """Nodes that are folded, unless a shape or a value is not known."""
    if node.operator in ("Shape", "Size"):
        node.static()
    for index in range(len(node.inputs)):
        node.constant(index)
    return node.refuse("this constant is not supported")
