"""Indexing: gather, scatter, sorting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....graph import Entry
from ....ops.param import Shape
from ....ops.shape import size_of
from ..composition import binary, expand, numeric, subtract
from ..imported_tensor import INT64, Array, DType, ImportedTensor
from ..node_import import NodeImport, imports

MAX_TABLE = 2 ** 24


@imports("Gather")
def gather(node: NodeImport) -> ImportedTensor:
    """Slices at indices along an axis."""
    data, index = node.data, node.input(1)
    axis = node.axis(0)
    size = (data.shape or ())[axis]
    if index.array is not None and index.array.ndim == 0:
        return _one(node, axis, int(index.array))
    if not size and (index.array is None or (index.array < 0).any()):
        size = node.static()[axis]
    if (whole := _before_clip(index, size)) is not None:
        return node.emit("take", data, whole, axis=axis, mode="clip").typed(data.dtype)
    index = node.indices(index, size) if size else index
    slices = node.emit("take", data, index, axis=axis).typed(data.dtype)
    return _without(node, slices, axis) if index.shape == () else slices


def _before_clip(index: ImportedTensor, size: int) -> ImportedTensor | None:
    """Indices before they are limited to those of an axis, which `take` does itself."""
    last = _scalar_input(index.entry, "_maximum_scalar", 0)
    before = _scalar_input(last, "_minimum_scalar", size - 1)
    if before is None or not size or index.shape == ():
        return None
    maker = before.node
    if not maker.is_variable and maker.op_name == "Cast" and _parameter(before, "dtype") == "int64":
        before = maker.inputs[0]  # of a type that does not matter to `take`
    return replace(index, entry=before)


def _scalar_input(entry: Entry | None, op: str, scalar: int) -> Entry | None:
    """The input of an operator with this scalar, if it computes the entry."""
    if entry is None or entry.node.is_variable or entry.node.op_name != op:
        return None
    return entry.node.inputs[0] if _parameter(entry, "scalar") == scalar else None


def _parameter(entry: Entry, name: str) -> object:
    return getattr(entry.node.required_op, name)


def _one(node: NodeImport, axis: int, at: int) -> ImportedTensor:
    """One slice, without its axis."""
    end = at + 1 or None
    part = node.emit("slice_axis", node.data, axis=axis, begin=at, end=end)
    return _without(node, part.typed(node.data.dtype), axis)


def _without(node: NodeImport, tensor: ImportedTensor, axis: int) -> ImportedTensor:
    if len(tensor.shape or ()) == 1:
        return tensor.shaped(())
    return node.emit("squeeze", tensor, axis=axis).typed(tensor.dtype)


def _positions(shape: Shape, axis: int) -> Array:
    """(1, *shape): the index of every element along an axis."""
    ranges = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(ranges, shape)[None]


def _grid(node: NodeImport, index: ImportedTensor, axis: int, size: int) -> ImportedTensor:
    """(rank, *shape of index): positions of elements, with `index` along an axis."""
    shape = node.static(index)
    node.owner.reserve((len(shape), *shape), INT64)
    own = node.indices(index, size)
    parts = []
    for i in range(len(shape)):
        if i == axis:
            parts.append(node.reshape(own, (1, *shape)))
            continue
        parts.append(node.new_constant(_positions(shape, i), INT64))
    if len(parts) == 1:
        return parts[0]
    positions = [node.cast(each, INT64) for each in parts]
    return node.emit("Concat", *positions, dim=0, num_args=len(positions))


@imports("GatherElements")
def gather_elements(node: NodeImport) -> ImportedTensor:
    """The element at an index along an axis, for every position."""
    axis = node.axis(0)
    grid = _grid(node, node.input(1), axis, node.static()[axis])
    return node.emit("gather_nd", node.data, grid).typed(node.data.dtype)


@imports("GatherND")
def gather_nd(node: NodeImport) -> ImportedTensor:
    """Slices at tuples of indices."""
    data, index = node.data, node.input(1)
    shape, batch = node.static(index), int(node.attribute("batch_dims", 0))
    columns = _columns(node, index, shape)
    if batch:
        node.owner.reserve((batch, *shape), INT64)
        parts = [node.new_constant(_positions(shape[:-1], i), INT64) for i in range(batch)]
        columns = node.emit("Concat", *parts, columns, dim=0, num_args=batch + 1)
    slices = node.emit("gather_nd", data, columns).typed(data.dtype)
    rank = len(shape) - 1 + node.rank() - batch - shape[-1]
    return slices if rank else slices.shaped(())


def _columns(node: NodeImport, index: ImportedTensor, shape: Shape) -> ImportedTensor:
    """Tuples of indices along the first axis instead of the last."""
    rank = len(shape)
    columns = node.transpose(node.cast(index, INT64), [rank - 1, *range(rank - 1)])
    return node.reshape(columns, (shape[0], 1)) if rank == 1 else columns


@imports("ScatterND")
def scatter_nd(node: NodeImport) -> ImportedTensor:
    """A tensor with slices replaced."""
    data, index, updates = [node.input(i) for i in range(3)]
    shape, full = node.static(index), node.static()
    if shape[-1] > len(full):
        node.refuse(f"indices have {shape[-1]} columns for {len(full)} axes")
    columns = _columns(node, index, shape)
    if len(shape) == 1:
        updates = node.reshape(updates, (1, *node.static(updates)))
    return _scattered(node, data, updates, columns)


def _scattered(node: NodeImport, data: ImportedTensor, updates: ImportedTensor,
               columns: ImportedTensor) -> ImportedTensor:
    """Updates at columns (M, ...) of indices; negative ones count from the end."""
    shape, how = node.static(data), node.attribute("reduction", "none")
    columns = _positive(node, columns, shape)
    if how == "none":
        return node.emit("_scatter_set_nd", numeric(node, data), numeric(node, updates), columns,
                         shape=shape).typed(data.dtype)
    count = (columns.shape or (0,))[0]
    return _reduced(node, data, updates, columns, shape[:count])


def _positive(node: NodeImport, columns: ImportedTensor, shape: Shape) -> ImportedTensor:
    count = (columns.shape or (0,))[0]
    sizes = np.array(shape[:count]).reshape(-1, *[1] * (len(columns.shape or ()) - 1))
    if columns.array is not None:
        array = np.where(columns.array < 0, columns.array + sizes, columns.array)
        return ImportedTensor.constant(array.astype(INT64))
    negative = node.emit("_lesser_scalar", columns, scalar=0)
    shift = node.emit("broadcast_mul", negative, node.new_constant(sizes, INT64))
    return node.emit("broadcast_add", columns, shift)


REDUCTIONS: Mapping[str, tuple[str, str, Callable[[DType], float]]] = {
    "add": ("sum", "broadcast_add", lambda dtype: 0), "mul": ("prod", "broadcast_mul", lambda _: 1),
    "max": ("max", "broadcast_maximum", lambda dtype: float(_limits(dtype).min)),
    "min": ("min", "broadcast_minimum", lambda dtype: float(_limits(dtype).max))}
"""Reduction of ONNX -> the operator over all updates, that with the data, and what is neutral."""


def _limits(dtype: DType) -> np.finfo[Any] | np.iinfo[Any]:
    return np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)


def _reduced(node: NodeImport, data: ImportedTensor, updates: ImportedTensor,
             columns: ImportedTensor, sizes: Shape) -> ImportedTensor:
    """Updates reduced where they meet: a table of all updates at all positions."""
    how = node.attribute("reduction")
    if how not in REDUCTIONS:
        node.refuse(f"reduction {how!r} has no counterpart")
    op, join, neutral = REDUCTIONS[how]
    total, rest = size_of(sizes), size_of(node.static(data)[len(sizes):])
    count = size_of(node.static(columns)[1:])
    if total * count * rest > MAX_TABLE:
        node.refuse(f"a table of {count} updates at {total * rest} positions is too large")
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1]
    strides = strides.reshape(-1, *[1] * (len(columns.shape or ()) - 1))
    flat = node.emit("broadcast_mul", node.cast(columns, INT64), node.new_constant(strides, INT64))
    position = node.reshape(node.emit("sum", flat, axis=0), (count,))
    hot = node.emit("one_hot", position, depth=total, dtype=data.dtype.name)
    table = (count, total, rest)
    chosen = expand(node, node.reshape(hot, (count, total, 1)), table)
    values = expand(node, node.reshape(updates, (count, 1, rest)), table)
    nothing = node.emit("_full", shape=table, value=float(neutral(data.dtype)),
                        dtype=data.dtype.name)
    reduced = node.emit(op, node.emit("where", chosen, values, nothing), axis=0)
    return binary(node, join, data, node.reshape(reduced, node.static(data)))


@imports("ScatterElements", "Scatter")
def scatter_elements(node: NodeImport) -> ImportedTensor:
    """A tensor with elements replaced at indices along an axis."""
    data, index, updates = [node.input(i) for i in range(3)]
    axis = node.axis(0)
    grid = _grid(node, index, axis, node.static()[axis])
    return _scattered(node, data, updates, grid)


@imports("Compress")
def compress(node: NodeImport) -> ImportedTensor:
    """Slices where a constant condition holds."""
    condition = node.constant(1)
    if condition is None:
        node.refuse("the condition is missing")
    data, axis = node.data, node.attribute("axis")
    if axis is None:
        data, axis = node.reshape(data, (size_of(node.static()),)), 0
    chosen = np.flatnonzero(condition)
    if not chosen.size:
        node.refuse("tensors without elements have no counterpart")
    return node.emit("take", data, node.new_constant(chosen, INT64),
                     axis=node.normal_axis(int(axis), data))


@imports("TopK")
def top_k(node: NodeImport) -> Sequence[ImportedTensor]:
    """The largest or smallest elements and their indices."""
    count = node.integer_list(1, "k")
    if count is None:
        node.refuse("k is missing")
    data = node.plain(node.data)
    return node.emit_all("topk", data, k=count[0], axis=node.axis(-1), ret_typ="both",
                         dtype="int64", is_ascend=not node.attribute("largest", 1))


@imports("ArgMax", "ArgMin")
def extreme_index(node: NodeImport) -> ImportedTensor:
    """The index of the largest or smallest element."""
    data, axis = numeric(node, node.data), node.axis(0)
    op = {"ArgMax": "argmax", "ArgMin": "argmin"}[node.operator]
    keep, last = bool(node.attribute("keepdims", 1)), node.attribute("select_last_index", 0)
    if last:
        data = node.emit("reverse", data, axis=axis)
    index = node.emit(op, data, axis=axis, keepdims=keep)
    if last:
        size = node.static()[axis]
        index = subtract(node, node.new_constant(size - 1, index.dtype), index)
    shape = () if node.rank() == 1 and not keep else index.shape
    return replace(index, shape=shape, dtype=INT64)
