"""Permutation, repetition and padding.

Each op is one strided copy: both sides are reshaped until the op is a permutation or a broadcast of
whole axes.  Backward is the inverse copy, or a reduction over the repeated axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

import numpy as np

from ..op import Op
from ..param import Shape
from ..rules import to_type
from ..shape import PartialShape, ShapeMismatch, normalize_axes, normalize_axis, unify
from .reduce import add_up
from .strided_copy import prepare_copy

__all__ = ["Permutation"]


class Permutation(Op):
    """Base of the ops whose output is a copy of a transposed view of their input."""

    needs: ClassVar = ("ograd",)

    def permuted(self, x: np.ndarray) -> np.ndarray:
        """`x` as a view whose elements are in the output's order."""
        raise NotImplementedError

    def unpermuted(self, y: np.ndarray) -> np.ndarray:
        """The inverse of `permuted`."""
        raise NotImplementedError

    def forward(self, ins, outs, call):
        view = self.permuted(ins[0])
        np.copyto(outs[0].reshape(view.shape), view)

    def backward(self, ins, outs, call):
        view = self.unpermuted(ins[0])
        np.copyto(outs[0].reshape(view.shape), view)

    def prepare(self, ins, outs, call):
        return prepare_copy(ins[0], self.permuted(ins[0]), outs[0])

    def prepare_backward(self, ins, outs, call):
        return prepare_copy(ins[0], self.unpermuted(ins[0]), outs[0])


@dataclass(frozen=True)
class Transpose(Permutation, name="transpose"):
    """Axes in the order `axes`; none given reverses them."""

    shapes: ClassVar = "data (2, 3, 4), axes=(1, 0, 2) -> (3, 2, 4)"
    axes: Shape = ()

    def infer_shape(self, ins, outs):
        data, out = ins[0], outs[0]
        if data is None and out is None:
            return ins, outs
        order = self.order(len(out) if data is None else len(data))
        if data is not None:
            out = unify(tuple(data[axis] for axis in order), out)
        data = tuple(out[order.index(axis)] for axis in range(len(out)))
        return [data], [out]

    def is_identity(self, ins, outs):
        rank = len(ins[0].shape)
        return self.order(rank) == tuple(range(rank))

    def order(self, rank: int) -> Shape:
        """For each axis of the output, the axis of the input."""
        if not self.axes:
            return tuple(range(rank))[::-1]
        if len(self.axes) != rank:
            raise ShapeMismatch(f"axes is {self.axes}, expected a permutation of {rank} axes")
        return normalize_axes(self.axes, rank, "axes")

    def permuted(self, x):
        return x.transpose(self.order(x.ndim))

    def unpermuted(self, y):
        return y.transpose(np.argsort(self.order(y.ndim)))


@dataclass(frozen=True)
class SwapAxis(Permutation, name="SwapAxis", aliases=("swapaxes",)):
    """Axes `dim1` and `dim2` exchanged."""

    shapes: ClassVar = "data (2, 3, 4), dim1=0, dim2=2 -> (4, 3, 2)"
    dim1: int = 0
    dim2: int = 0

    def infer_shape(self, ins, outs):
        data, out = ins[0], outs[0]
        if data is None and out is None:
            return ins, outs
        out = unify(self._swap(data), out)
        return [self._swap(out)], [out]

    def is_identity(self, ins, outs):
        rank = len(ins[0].shape)
        return self.dim1 % rank == self.dim2 % rank

    def _swap(self, shape: PartialShape) -> PartialShape:
        if shape is None:
            return None
        i = normalize_axis(self.dim1, len(shape), "dim1")
        j = normalize_axis(self.dim2, len(shape), "dim2")
        swapped = list(shape)
        swapped[i], swapped[j] = shape[j], shape[i]
        return tuple(swapped)

    def permuted(self, x):
        return x.swapaxes(self.dim1, self.dim2)

    unpermuted = permuted


@dataclass(frozen=True)
class Reverse(Permutation, name="reverse", aliases=("flip",)):
    """The elements in reverse order along each of `axis`."""

    shapes: ClassVar = "data and output have one shape"
    axis: Shape

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0])
        if data is not None:
            normalize_axes(self.axis, len(data))
        return [data], [data]

    def permuted(self, x):
        return np.flip(x, self.axis)

    unpermuted = permuted


@dataclass(frozen=True)
class DepthToSpace(Permutation, name="depth_to_space"):
    """(N, b b C, H, W) to (N, C, H b, W b): channel (i b + j) C + c goes to offset (i, j)."""

    block_size: int

    def infer_shape(self, ins, outs):
        return ins, [_blocks(ins[0], self.block_size, deep=True)] if ins[0] else outs

    def permuted(self, x):
        n, c, h, w = x.shape
        b = self.block_size
        return x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)

    def unpermuted(self, y):
        return SpaceToDepth(self.block_size).permuted(y)


@dataclass(frozen=True)
class SpaceToDepth(Permutation, name="space_to_depth"):
    """(N, C, H b, W b) to (N, b b C, H, W): the inverse of depth_to_space."""

    block_size: int

    def infer_shape(self, ins, outs):
        return ins, [_blocks(ins[0], self.block_size, deep=False)] if ins[0] else outs

    def permuted(self, x):
        n, c, h, w = x.shape
        b = self.block_size
        return x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)

    def unpermuted(self, y):
        return DepthToSpace(self.block_size).permuted(y)


def _blocks(data: Shape, block: int, deep: bool) -> Shape:
    """Output shape of depth_to_space (`deep`) or space_to_depth."""
    if len(data) != 4 or block < 1:
        raise ShapeMismatch(f"data has shape {data} and block_size is {block}, expected "
                            "(N, C, H, W) and at least 1")
    n, c, h, w = data
    if any(size % divisor for size, divisor in
           ([(c, block * block)] if deep else [(h, block), (w, block)])):
        raise ShapeMismatch(f"block_size {block} does not fit data of shape {data}")
    if deep:
        return n, c // block ** 2, h * block, w * block
    return n, c * block ** 2, h // block, w // block


# -- repetition -----------------------------------------------------------------------------

@dataclass(frozen=True)
class Tile(Op, name="tile"):
    """The whole of `data` `reps[i]` times along axis i; the shorter of shape and reps is filled
    with ones at the left."""

    reps: Shape

    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins, outs):
        if any(rep < 1 for rep in self.reps):
            raise ShapeMismatch(f"reps is {self.reps}, expected positive integers")
        if ins[0] is None:
            return ins, outs
        return ins, [tuple(rep * dim for rep, dim in self._pairs(ins[0]))]

    def _pairs(self, shape: Shape) -> list[tuple[int, int]]:
        """(repetitions, size) of every axis of the output."""
        rank = max(len(shape), len(self.reps))
        reps = (1,) * (rank - len(self.reps)) + self.reps
        dims = (1,) * (rank - len(shape)) + shape
        return list(zip(reps, dims, strict=True))

    def _interleaved(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both with two axes per axis of the output: repetitions (1 in x), then positions."""
        pairs = self._pairs(x.shape)
        return (x.reshape([n for _, dim in pairs for n in (1, dim)]),
                y.reshape([n for pair in pairs for n in pair]))

    def forward(self, ins, outs, call):
        x, y = self._interleaved(ins[0], outs[0])
        np.copyto(y, x)

    def backward(self, ins, outs, call):
        gx, g = self._interleaved(outs[0], ins[0])
        add_up(g, range(0, g.ndim, 2), gx)


@dataclass(frozen=True)
class Repeat(Op, name="repeat"):
    """Every index along `axis` `repeats` times in a row; axis None: every element, flattened."""

    shapes: ClassVar = "data (2, 3), repeats=2, axis=1 -> (2, 6)"
    repeats: int
    axis: int | None = None

    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins, outs):
        if self.repeats < 1:
            raise ShapeMismatch(f"repeats is {self.repeats}, expected at least 1")
        data = ins[0]
        if data is None:
            return ins, outs
        if self.axis is None:
            return ins, [(prod(data) * self.repeats,)]
        axis = normalize_axis(self.axis, len(data))
        return ins, [(*data[:axis], data[axis] * self.repeats, *data[axis + 1:])]

    def _folded(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both as (before and at the axis, repetitions (1 in x), after the axis)."""
        axis = x.ndim - 1 if self.axis is None else self.axis % x.ndim
        rows = prod(x.shape[:axis + 1])
        return x.reshape(rows, 1, -1), y.reshape(rows, self.repeats, -1)

    def forward(self, ins, outs, call):
        x, y = self._folded(ins[0], outs[0])
        np.copyto(y, x)

    def backward(self, ins, outs, call):
        gx, g = self._folded(outs[0], ins[0])
        if g.shape[2] == 1:
            add_up(g[:, :, 0], (1,), gx[:, :, 0])
        else:
            add_up(g, (1,), gx)


# -- padding --------------------------------------------------------------------------------

@dataclass(frozen=True)
class Pad(Op, name="Pad", aliases=("pad",)):
    """`data` with padding: `pad_width` is (before, after) of every axis, flat.

    constant: filled with `constant_value`; edge: the nearest element; reflect: mirrored at the
    outermost element, which is not repeated.
    """

    mode: Literal["constant", "edge", "reflect"]
    pad_width: Shape
    constant_value: float = 0.0

    numbers: ClassVar = ("constant_value",)
    placement: ClassVar = ("pad_width",)
    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins, outs):
        data = ins[0]
        if data is None:
            return ins, outs
        if len(self.pad_width) != 2 * len(data) or min(self.pad_width) < 0:
            raise ShapeMismatch(f"pad_width is {self.pad_width}, expected two sizes (before, after)"
                                f" for each of the {len(data)} axes of data {data}")
        if self.mode == "reflect":
            for axis, (dim, widths) in enumerate(zip(data, self._widths(), strict=True)):
                if dim and max(widths) >= dim:
                    raise ShapeMismatch(f"pad_width {widths} of axis {axis} is too wide to reflect "
                                        f"{dim} element(s)")
        return ins, [tuple(dim + sum(widths) if dim else 0
                           for dim, widths in zip(data, self._widths(), strict=True))]

    def _widths(self) -> list[tuple[int, int]]:
        return list(zip(self.pad_width[::2], self.pad_width[1::2], strict=True))

    def _inside(self, padded: np.ndarray) -> np.ndarray:
        return padded[tuple(slice(before, size - after) for (before, after), size
                            in zip(self._widths(), padded.shape, strict=True))]

    def forward(self, ins, outs, call):
        y = outs[0]
        if self.mode == "constant":
            y.fill(to_type(self.constant_value, y.dtype))
        np.copyto(self._inside(y), ins[0])
        if self.mode != "constant":
            # Axis by axis, whole slabs are copied: these include the padding of the axes before.
            for axis, widths in enumerate(self._widths()):
                for border, source in _mirror(y, axis, widths, self.mode):
                    np.copyto(border, source)

    def backward_scratch(self, ins, outs):
        return [] if self.mode == "constant" else [ins[0]]

    def backward(self, ins, outs, call):
        g = ins[0]
        if self.mode != "constant":
            g = call.scratch[0]
            np.copyto(g, ins[0])
            for axis, widths in reversed(list(enumerate(self._widths()))):
                for border, source in _mirror(g, axis, widths, self.mode):
                    if self.mode == "edge":
                        border = border.sum(axis, keepdims=True, dtype=g.dtype)
                    source += border
        np.copyto(outs[0], self._inside(g))


def _mirror(y: np.ndarray, axis: int, widths: tuple[int, int], mode: str
            ) -> list[tuple[np.ndarray, np.ndarray]]:
    """(border, where its values come from) before and after `axis`, as slabs of `y`."""
    before, after = widths
    slabs = np.moveaxis(y, axis, 0)
    end = len(slabs) - after
    if mode == "edge":
        sources = slabs[before:before + 1], slabs[end - 1:end]
    else:
        sources = slabs[before + 1:2 * before + 1][::-1], slabs[end - 1 - after:end - 1][::-1]
    pairs = (slabs[:before], sources[0]), (slabs[end:], sources[1])
    return [(np.moveaxis(border, 0, axis), np.moveaxis(source, 0, axis))
            for border, source in pairs if len(border)]


@dataclass(frozen=True)
class Diag(Op, name="diag"):
    """Diagonal `k` of the planes (axis1, axis2), as last axis; of a vector, the matrix that has it
    on diagonal `k`."""

    k: int = 0
    axis1: int = 0
    axis2: int = 1

    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins, outs):
        data = ins[0]
        if data is None:
            return ins, outs
        if len(data) == 1:
            size = data[0] + abs(self.k) if data[0] else 0
            return ins, [(size, size)]
        i, j = normalize_axes((self.axis1, self.axis2), len(data), "(axis1, axis2)")
        rest = tuple(dim for axis, dim in enumerate(data) if axis not in (i, j))
        if not (data[i] and data[j]):
            return ins, [(*rest, 0)]
        length = min(data[i] + min(self.k, 0), data[j] - max(self.k, 0))
        if length < 1:
            raise ShapeMismatch(f"data {data} has no diagonal {self.k} over axes {i} and {j}")
        return ins, [(*rest, length)]

    def forward(self, ins, outs, call):
        if ins[0].ndim == 1:
            outs[0].fill(0)
            np.copyto(_diagonal(outs[0], self.k), ins[0])
        else:
            np.copyto(outs[0], _diagonal(ins[0], self.k, self.axis1, self.axis2))

    def backward(self, ins, outs, call):
        if outs[0].ndim == 1:
            np.copyto(outs[0], _diagonal(ins[0], self.k))
        else:
            outs[0].fill(0)
            np.copyto(_diagonal(outs[0], self.k, self.axis1, self.axis2), ins[0])


def _diagonal(x: np.ndarray, k: int, axis1: int = 0, axis2: int = 1) -> np.ndarray:
    """A writable view of diagonal `k`."""
    view = np.diagonal(x, k, axis1, axis2)
    view.flags.writeable = x.flags.writeable
    return view
