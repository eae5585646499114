"""Reshaping: the same elements in the same order, in another shape.

They are views: the memory planner aliases output and input, and the executor runs no step, forward
or backward.  What remains is shape inference in both directions: the number of elements is the
same, so one unknown dimension on either side follows from all the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...graph import Entry, Node
from ..op import Backward, Op
from ..param import Shape
from ..rules import data_type
from ..shape import PartialShape, ShapeMismatch, is_known, normalize_axes, size_of, unify

__all__ = ["reshape_target", "same_size"]


def same_size(data: PartialShape, out: PartialShape) -> tuple[PartialShape, PartialShape]:
    """Both shapes, with the one unknown dimension of either filled in from the other's size."""
    if data is None or out is None:
        return data, out
    if is_known(out):
        data = _fill(data, size_of(out))
    if is_known(data):
        out = _fill(out, size_of(data))
    if is_known(data) and is_known(out) and size_of(data) != size_of(out):
        raise ShapeMismatch(f"data has shape {data}, {size_of(data)} element(s), which cannot be "
                            f"reshaped to {out} with {size_of(out)}")
    return data, out


def _fill(shape: Shape, size: int) -> Shape:
    """`shape` with its only unknown dimension chosen so that it has `size` elements."""
    if shape.count(0) != 1:
        return shape
    rest = size_of(dim for dim in shape if dim)
    if size % rest:
        raise ShapeMismatch(f"{size} element(s) cannot have shape "
                            f"({', '.join(str(dim or '?') for dim in shape)})")
    return tuple(dim or size // rest for dim in shape)


def reshape_target(shape: Shape, codes: Shape, reverse: bool = False) -> Shape:
    """The shape that Reshape's `codes` make of `shape`, 0 where it depends on unknown dimensions.

    0 copies a dimension, -1 is inferred, -2 copies all that are left, -3 merges two, -4 splits one
    into the two that follow; `reverse` matches from the right.
    """
    if reverse:
        return reshape_target(shape[::-1], codes[::-1])[::-1]
    target: list[int] = []
    left, rest = shape, iter(codes)
    for code in rest:
        dims, matched = _decode(code, left, rest)
        target += dims
        left = left[matched:]
    if target.count(-1) > 1:
        raise ShapeMismatch(f"shape {codes} leaves more than one dimension to be inferred")
    known = 0 not in shape and 0 not in target
    filled = tuple(0 if dim == -1 else dim for dim in target)
    return _fill(filled, size_of(shape)) if known else filled


def _decode(code: int, left: Shape, codes: Iterator[int]) -> tuple[list[int], int]:
    """One code applied to the dimensions not yet matched: (new dimensions, number matched)."""
    if code > 0 or code == -1:
        return [code], 1
    if code == -2:
        return list(left), len(left)
    count = 2 if code == -3 else 1
    if code < -4:
        raise ShapeMismatch(f"shape contains {code}, expected sizes and codes from -4 to 0")
    if len(left) < count:
        raise ShapeMismatch(f"shape contains {code} where data has {len(left)} dimension(s) left, "
                            f"expected {count}")
    if code == -4:
        return _split(left[0], next(codes, 0), next(codes, 0)), 1
    return [size_of(left[:count])], count


def _split(dim: int, first: int, second: int) -> list[int]:
    if (first, second) == (-1, -1) or min(first, second) < -1 or 0 in (first, second):
        raise ShapeMismatch("code -4 in shape must be followed by two sizes, one of which may be "
                            f"-1, not {first} and {second}")
    if first == -1:
        first = dim // second
    elif second == -1:
        second = dim // first
    if dim and first * second != dim:
        raise ShapeMismatch(f"code -4 cannot split {dim} into {first} x {second}")
    return [first, second]


@dataclass(frozen=True)
class _View(Op):
    needs: ClassVar = ("ograd",)
    view: ClassVar = True


@dataclass(frozen=True)
class Reshape(_View, name="Reshape", aliases=("reshape",)):
    """A tensor in another shape: its elements keep their order.

    `shape` holds sizes and codes (see `reshape_target`).  In the older `target_shape` 0 is the
    dimension to infer, and `keep_highest` copies the first dimension in any case.
    """

    shape: Shape = ()
    reverse: bool = False
    target_shape: Shape = ()
    keep_highest: bool = False

    def infer_shape(self, ins, outs):
        if not self.shape and not self.target_shape:
            raise ShapeMismatch("shape is not given")
        if ins[0] is None:
            return ins, outs
        data, out = same_size(ins[0], unify(self._target(ins[0]), outs[0]))
        return [data], [out]

    def _target(self, data: Shape) -> Shape:
        if self.shape:
            return reshape_target(data, self.shape, self.reverse)
        codes = tuple(dim or -1 for dim in self.target_shape)
        return reshape_target(data, (0, *codes[1:]) if self.keep_highest else codes)


class Flatten(_View, name="Flatten", aliases=("flatten",)):
    """(N, ...) to (N, all the rest)."""

    def infer_shape(self, ins, outs):
        if ins[0] is None:
            return ins, outs
        data = ins[0]
        if not data:
            raise ShapeMismatch("data is a scalar, expected at least one axis")
        out = unify((data[0], size_of(data[1:])), outs[0])
        assert out is not None
        data = unify(data, (out[0], *data[1:]))
        data, out = same_size(data, out)
        return [data], [out]


@dataclass(frozen=True)
class ExpandDims(_View, name="expand_dims"):
    """A dimension of size 1 inserted before `axis` (-1: at the end)."""

    axis: int

    shapes: ClassVar = "data (2, 3), axis=1 -> (2, 1, 3)"

    def infer_shape(self, ins, outs):
        data, out = ins[0], outs[0]
        if data is None and out is None:
            return ins, outs
        rank = len(out) if data is None else len(data) + 1
        axis = normalize_axes((self.axis,), rank)[0]
        if data is not None:
            out = unify((*data[:axis], 1, *data[axis:]), out)
        if out[axis] not in (0, 1):
            raise ShapeMismatch(f"output has size {out[axis]} along axis {axis}, expected 1")
        data = unify(data, out[:axis] + out[axis + 1:])
        assert data is not None
        return [data], [(*data[:axis], 1, *data[axis:])]


@dataclass(frozen=True)
class Squeeze(_View, name="squeeze"):
    """Without the dimensions `axis`, which must have size 1; None: without all of size 1.

    If nothing remains the shape is (1,).
    """

    axis: Shape | None = None

    def infer_shape(self, ins, outs):
        data, out = ins[0], outs[0]
        if data is None or (self.axis is None and not is_known(data)):
            return ins, outs
        axes = self._axes(data)
        data = tuple(1 if i in axes else dim for i, dim in enumerate(data))
        others = [i for i in range(len(data)) if i not in axes]
        out = unify(tuple(data[i] for i in others) or (1,), out)
        if others:
            assert out is not None
            sizes = dict(zip(others, out, strict=True))
            data = tuple(sizes.get(i, 1) for i in range(len(data)))
        return [data], [out]

    def _axes(self, data: Shape) -> tuple[int, ...]:
        if self.axis is None:
            return tuple(i for i, dim in enumerate(data) if dim == 1)
        axes = normalize_axes(self.axis, len(data))
        for axis in axes:
            if data[axis] > 1:
                raise ShapeMismatch(f"axis {axis} of data {data} has size {data[axis]}, only "
                                    "dimensions of size 1 can be squeezed out")
        return axes


@dataclass(frozen=True)
class ReshapeLike(_View, name="reshape_like"):
    """`lhs` in the shape of `rhs`.

    With `lhs_begin`, ... dimensions [lhs_begin, lhs_end) of lhs are replaced by dimensions
    [rhs_begin, rhs_end) of rhs; None is the first and the one past the last.
    """

    lhs_begin: int | None = None
    lhs_end: int | None = None
    rhs_begin: int | None = None
    rhs_end: int | None = None

    inputs: ClassVar = ("lhs", "rhs")

    def infer_shape(self, ins, outs):
        lhs, rhs = ins
        if lhs is None or rhs is None:
            return ins, outs
        first, last = _range(self.lhs_begin, self.lhs_end, len(lhs), "lhs")
        start, stop = _range(self.rhs_begin, self.rhs_end, len(rhs), "rhs")
        out = unify(lhs[:first] + rhs[start:stop] + lhs[last:], outs[0])
        lhs, out = same_size(lhs, out)
        return [lhs, rhs], [out]

    def infer_type(self, ins, outs):
        return data_type(ins, outs)

    def gradient(self, node, ograds):
        # No step runs for a view, so zeros for rhs need a node of their own.
        assert ograds[0] is not None
        back = Node(Backward(self, 2, ("ograd",)), f"{node.name}_backward", [ograds[0]],
                    source=node)
        return [Entry(back, 0), None]


def _range(begin: int | None, end: int | None, rank: int, name: str) -> tuple[int, int]:
    first = 0 if begin is None else begin + rank * (begin < 0)
    last = rank if end is None else end + rank * (end < 0)
    if not 0 <= first < last <= rank:
        raise ShapeMismatch(f"{name}_begin is {begin} and {name}_end is {end}, expected a range "
                            f"within {rank} dimension(s)")
    return first, last


@dataclass(frozen=True)
class ShapeArray(Op, name="shape_array"):
    """The shape of `data` as a 1-D int64 array.  No gradient."""

    reads_shapes: ClassVar = True

    def infer_shape(self, ins, outs):
        return ins, [None if ins[0] is None else (len(ins[0]),)]

    def infer_type(self, ins, outs):
        return ins, [np.dtype(np.int64)]

    def forward(self, ins, outs, call):
        outs[0][:] = ins[0].shape


class SizeArray(ShapeArray, name="size_array"):
    """The number of elements of `data` as a (1,) int64 array.  No gradient."""

    def infer_shape(self, ins, outs):
        return ins, [(1,)]

    def forward(self, ins, outs, call):
        outs[0][0] = ins[0].size
