"""Repetition of tensors along axes of size 1: the transpose of a sum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ..elementwise.formula_op import kernels
from ..elementwise.reduction_programs import COPY, fold
from ..op import Op, all_of
from ..param import Shape
from ..rules import data_type, fill_zero
from ..shape import ShapeMismatch, normalize_axes, normalize_axis, require_sizes, unify
from .reduce import add_up

__all__ = ["BroadcastAxes"]


class BroadcastAxes(Op):
    """Base of the ops that repeat their data along axes of size 1; backward sums over those."""

    needs: ClassVar = ("ograd",)

    def infer_type(self, ins, outs):
        return data_type(ins, outs)

    def forward(self, ins, outs, call):
        np.copyto(outs[0], ins[0])

    def backward(self, ins, outs, call):
        g, gx = ins[0], outs[0]
        fill_zero(outs[1:])
        if gx is not None:
            axes = [i for i, dim in enumerate(gx.shape) if dim != g.shape[i]]
            add_up(g, axes, gx)

    def prepare(self, ins, outs, call):
        return kernels().prepare(COPY, ins[:1], outs)

    def prepare_backward(self, ins, outs, call):
        total = outs[0] is not None and fold(ins[0], outs[0])
        if not total:
            return super().prepare_backward(ins, outs, call)
        return all_of([total, partial(fill_zero, outs[1:])])


@dataclass(frozen=True)
class BroadcastTo(BroadcastAxes, name="broadcast_to"):
    """`data` repeated to `shape`, of the same rank; 0 there keeps the dimension."""

    shape: Shape = ()

    def infer_shape(self, ins, outs):
        require_sizes(self.shape, "shape")
        data = ins[0]
        if data is None:
            return ins, outs
        if len(data) != len(self.shape):
            raise ShapeMismatch(f"shape is {self.shape}, expected {len(data)} dimensions as in "
                                f"data {data}")
        if any(d != s and s and d > 1 for d, s in zip(data, self.shape, strict=True)):
            raise ShapeMismatch(f"data has shape {data}, which cannot be broadcast to {self.shape}")
        return ins, [tuple(s or d for d, s in zip(data, self.shape, strict=True))]


@dataclass(frozen=True)
class BroadcastAxis(BroadcastAxes, name="broadcast_axis", aliases=("broadcast_axes",)):
    """`data` repeated `size[i]` times along `axis[i]`, where it must have size 1."""

    shapes: ClassVar = "data (2, 1), axis=(1,), size=(3,) -> (2, 3)"
    axis: Shape = ()
    size: Shape = ()

    def infer_shape(self, ins, outs):
        require_sizes(self.size, "size")
        if len(self.axis) != len(self.size):
            raise ShapeMismatch(f"axis {self.axis} and size {self.size} differ in length")
        if ins[0] is None:
            return ins, outs
        shape = list(ins[0])
        axes = normalize_axes(self.axis, len(shape))
        for axis, size in zip(axes, self.size, strict=True):
            if shape[axis] > 1:
                raise ShapeMismatch(f"data has size {shape[axis]} along axis {axis}, expected 1")
            shape[axis] = size
        return ins, [tuple(shape)]


@dataclass(frozen=True)
class BroadcastLike(BroadcastAxes, name="broadcast_like"):
    """`lhs` repeated to the shape of `rhs`, along all axes or from `rhs_axes` to `lhs_axes`."""

    lhs_axes: Shape | None = None
    rhs_axes: Shape | None = None

    inputs: ClassVar = ("lhs", "rhs")

    def infer_shape(self, ins, outs):
        lhs, rhs = ins
        if lhs is None or rhs is None:
            return ins, outs
        return ins, [unify(self._target(lhs, rhs), outs[0])]

    def _target(self, lhs: Shape, rhs: Shape) -> Shape:
        pairs = self._pairs(len(lhs), len(rhs))
        shape = list(lhs)
        for a, b in pairs:
            if shape[a] > 1 and rhs[b] and shape[a] != rhs[b]:
                raise ShapeMismatch(f"lhs {lhs} cannot be broadcast to rhs {rhs}: axis {a} has "
                                    f"size {shape[a]}, expected 1 or {rhs[b]}")
            shape[a] = rhs[b]
        return tuple(shape)

    def _pairs(self, lhs_rank: int, rhs_rank: int) -> list[tuple[int, int]]:
        """(axis of lhs, axis of rhs) that must agree."""
        if self.lhs_axes is None or self.rhs_axes is None:
            if lhs_rank != rhs_rank:
                raise ShapeMismatch(f"lhs has {lhs_rank} dimensions, expected {rhs_rank} as rhs")
            return [(axis, axis) for axis in range(lhs_rank)]
        if len(self.lhs_axes) != len(self.rhs_axes) or not self.lhs_axes:
            raise ShapeMismatch(f"lhs_axes {self.lhs_axes} and rhs_axes {self.rhs_axes} must have "
                                "the same length, at least 1")
        return [(normalize_axis(a, lhs_rank, "lhs_axes"), normalize_axis(b, rhs_rank, "rhs_axes"))
                for a, b in zip(self.lhs_axes, self.rhs_axes, strict=True)]
