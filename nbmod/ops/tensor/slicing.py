"""Slicing, splitting and concatenation.

Every op here is a set of rectangular regions: forward copies regions out of (or into) one large
tensor, backward copies the same regions the other way.  A region is a tuple of Python slices.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np

from ...base import MXNetError
from ..op import Op
from ..param import Ints, Shape
from ..regions import Region, along, cut_rows, region_shape, side_by_side, slice_region
from ..rules import common_type, copy_over, data_type, fill_zero, to_type
from ..shape import PartialShape, ShapeMismatch, Shapes, normalize_axis, unify, unify_all
from .strided_copy import prepare_moves

__all__ = ["Region", "along"]


class Cut(Op):
    """Base of the ops whose output is one region of their first input."""

    needs: ClassVar = ("ograd",)

    def region(self, data: Shape, out: Shape) -> Region:
        raise NotImplementedError

    def is_identity(self, ins, outs):
        shape = ins[0].shape
        return shape == outs[0].shape and all(
            part.indices(size)[2] > 0
            for part, size in zip(self.region(shape, shape), shape, strict=False))

    def infer_type(self, ins, outs):
        return data_type(ins, outs)

    def split_offsets(self, ins, outs):
        return cut_rows(ins[0].shape, self.region(ins[0].shape, outs[0].shape))

    def forward(self, ins, outs, call):
        np.copyto(outs[0], ins[0][self.region(ins[0].shape, outs[0].shape)])

    def backward(self, ins, outs, call):
        fill_zero(outs)
        if outs[0] is not None:
            outs[0][self.region(outs[0].shape, ins[0].shape)] = ins[0]


@dataclass(frozen=True)
class Slice(Cut, name="slice", aliases=("_sparse_slice", "crop")):
    """data[begin[0]:end[0]:step[0], ...] as in Python, None and negative values included."""

    shapes: ClassVar = "data (5, 4), begin=(1, None), end=(3, None) -> (2, 4)"
    placement: ClassVar = ("begin", "end", "step")
    begin: Ints
    end: Ints
    step: Ints = ()

    def infer_shape(self, ins, outs):
        return ins, outs if ins[0] is None else [region_shape(ins[0], self.region(ins[0], ()))]

    def region(self, data, out):
        return slice_region(data, self.begin, self.end, self.step)


@dataclass(frozen=True)
class SliceAssign(Op, name="_slice_assign", aliases=("_crop_assign",)):
    """`lhs` with the region that `slice` selects replaced by `rhs`."""

    shapes: ClassVar = "lhs and output have one shape, rhs that of the region"
    begin: Ints
    end: Ints
    step: Ints = ()

    inputs: ClassVar = ("lhs", "rhs")
    needs: ClassVar = ("ograd",)
    inplace: ClassVar = (("lhs", "output"),)

    def infer_shape(self, ins, outs):
        lhs = unify(ins[0], outs[0])
        if lhs is None:
            return ins, outs
        part = region_shape(lhs, slice_region(lhs, self.begin, self.end, self.step))
        return [lhs, unify(part, ins[1], "rhs and the region")], [lhs]

    def forward(self, ins, outs, call):
        copy_over(ins[0], outs[0])
        outs[0][slice_region(outs[0].shape, self.begin, self.end, self.step)] = ins[1]

    def backward(self, ins, outs, call):
        region = slice_region(ins[0].shape, self.begin, self.end, self.step)
        if outs[0] is not None:
            np.copyto(outs[0], ins[0])
            outs[0][region] = 0
        if outs[1] is not None:
            np.copyto(outs[1], ins[0][region])


@dataclass(frozen=True, kw_only=True)
class SliceAssignScalar(Op, name="_slice_assign_scalar", aliases=("_crop_assign_scalar",)):
    """`data` with the region that `slice` selects set to `scalar`."""

    shapes: ClassVar = "data and output have one shape"
    scalar: float = 0.0
    begin: Ints
    end: Ints
    step: Ints = ()

    needs: ClassVar = ("ograd",)
    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = (("ograd", "data"),)

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0])
        if data is not None:
            region_shape(data, slice_region(data, self.begin, self.end, self.step))
        return [data], [data]

    def forward(self, ins, outs, call):
        self._set(ins[0], outs[0], self.scalar)

    def backward(self, ins, outs, call):
        self._set(ins[0], outs[0], 0.0)

    def _set(self, x: np.ndarray, y: np.ndarray, value: float) -> None:
        copy_over(x, y)
        y[slice_region(y.shape, self.begin, self.end, self.step)] = to_type(value, y.dtype)


@dataclass(frozen=True)
class SliceAxis(Cut, name="slice_axis"):
    """Indices [begin, end) along `axis`; negative ones count from the end, end None is the end."""

    shapes: ClassVar = "data (5, 4), axis=0, begin=1, end=-1 -> (3, 4)"
    placement: ClassVar = ("begin", "end")
    axis: int
    begin: int
    end: int | None

    def infer_shape(self, ins, outs):
        data = ins[0]
        if data is None:
            return ins, outs
        axis = normalize_axis(self.axis, len(data))
        shape = list(data)
        if data[axis]:
            begin, end = self._range(data[axis])
            shape[axis] = end - begin
        return ins, [tuple(shape)]

    def _range(self, size: int) -> tuple[int, int]:
        begin = self.begin + size * (self.begin < 0)
        end = size if self.end is None else self.end + size * (self.end < 0)
        if not 0 <= begin < end <= size:
            raise ShapeMismatch(f"begin is {self.begin} and end is {self.end}, expected a range "
                                f"within the {size} indices of axis {self.axis}")
        return begin, end

    def region(self, data, out):
        axis = normalize_axis(self.axis, len(data))
        return along(axis, *self._range(data[axis]))


@dataclass(frozen=True)
class SliceLike(Cut, name="slice_like"):
    """The leading part of `data`, as large as `shape_like` along `axes` (none: along all).

    Negative axes count from the end of `data`, for both.
    """

    axes: Shape = ()

    shapes: ClassVar = "data (5, 4), shape_like (2, 3), axes=(1,) -> (5, 3)"
    inputs: ClassVar = ("data", "shape_like")

    def infer_shape(self, ins, outs):
        data, like = ins
        if data is None or like is None:
            return ins, outs
        if not self.axes and len(data) != len(like):
            raise ShapeMismatch(f"data {data} and shape_like {like} differ in rank; name the axes")
        shape = list(data)
        for axis in self.axes or range(len(data)):
            axis = normalize_axis(axis, len(data), "axes")
            size = like[normalize_axis(axis, len(like), "axes")]
            if 0 < data[axis] < size:
                raise ShapeMismatch(f"data {data} is smaller along axis {axis} than shape_like "
                                    f"{like}")
            shape[axis] = size
        return ins, [tuple(shape)]

    def region(self, data, out):
        return tuple(slice(0, dim) for dim in out)


@dataclass(frozen=True)
class Crop(Cut, name="Crop"):
    """A window of the last two axes of (N, C, H, W).

    Its size is that of the second input, or `h_w` if there is one input; it starts at `offset`, or
    is centered if `center_crop`.
    """

    num_args: int
    offset: Shape = (0, 0)
    h_w: Shape = (0, 0)
    center_crop: bool = False

    variadic: ClassVar = "num_args"

    def infer_type(self, ins, outs):
        return Op.infer_type(self, ins, outs)

    def infer_shape(self, ins, outs):
        if self.num_args not in (1, 2):
            raise ShapeMismatch(f"num_args is {self.num_args}, expected 1 or 2")
        if len(self.offset) != 2:
            raise ShapeMismatch(f"offset is {self.offset}, expected two positions")
        if None in ins:
            return ins, outs
        for name, shape in zip(self.list_inputs(), ins, strict=True):
            if len(shape) != 4:
                raise ShapeMismatch(f"{name} has shape {shape}, expected (N, C, H, W)")
        window = ins[1][2:] if self.num_args == 2 else self.h_w
        if len(window) != 2 or (self.num_args == 1 and min(window) < 1):
            raise ShapeMismatch(f"h_w is {self.h_w}, expected two sizes of at least 1")
        out = (*ins[0][:2], *window)
        self.region(ins[0], out)
        return ins, [out]

    def region(self, data, out):
        parts = [slice(None), slice(None)]
        for axis in (2, 3):
            size, window = data[axis], out[axis]
            start = (size - window) // 2 if self.center_crop else self.offset[axis - 2]
            if size and window and not 0 <= start <= size - window:
                raise ShapeMismatch(f"a window of {window} at {start} does not fit axis {axis} of "
                                    f"data {data}")
            parts.append(slice(start, start + window))
        return tuple(parts)


# --------------------------------------------------------------------------- joining and splitting

def _bounds(sizes: list[int]) -> list[tuple[int, int]]:
    """[start, stop) of consecutive pieces."""
    return list(pairwise(accumulate(sizes, initial=0)))


def _resized(shape: PartialShape, axis: int, size: int = 0) -> PartialShape:
    """`shape` with another size, or an unknown one, along `axis`."""
    return None if shape is None else (*shape[:axis], size, *shape[axis + 1:])


def _rank(shapes: Shapes) -> int | None:
    return next((len(shape) for shape in shapes if shape is not None), None)


@dataclass(frozen=True)
class Concat(Op, name="Concat", aliases=("_sparse_concat", "concat")):
    """The inputs concatenated along `dim`; they agree in all other dimensions."""

    shapes: ClassVar = "data (2, 3), (2, 4), dim=1 -> (2, 7)"
    num_args: int
    dim: int = 1

    variadic: ClassVar = "num_args"
    needs: ClassVar = ("ograd",)
    has_equal_rests: ClassVar = False
    """Whether inputs of unknown sizes have equal ones."""

    def infer_shape(self, ins, outs):
        rank = _rank([*ins, *outs])
        if rank is None:
            return ins, outs
        axis = normalize_axis(self.dim, rank, "dim")
        rest = None
        for name, shape in zip([*self.list_inputs(), "output"], [*ins, *outs], strict=True):
            if shape is not None and len(shape) != rank:
                raise ShapeMismatch(f"{name} has shape {shape}, expected {rank} dimension(s), as "
                                    "the others have")
            rest = unify(rest, _resized(shape, axis),
                         f"(size along dim {self.dim} aside) the inputs' shape and that of {name},")
        sizes = [shape[axis] if shape is not None else 0 for shape in ins]
        total = outs[0][axis] if outs[0] is not None else 0
        unknown = sizes.count(0)
        if not unknown:
            total = sum(sizes)
        elif total > sum(sizes) and (unknown == 1 or self.has_equal_rests):
            share, left = divmod(total - sum(sizes), unknown)
            sizes = sizes if left else [size or share for size in sizes]
        return [_resized(rest, axis, size) for size in sizes], [_resized(rest, axis, total)]

    def concat_offsets(self, ins, outs):
        shape = outs[0].shape
        axis = normalize_axis(self.dim, len(shape), "dim")
        return side_by_side(shape, axis, _bounds([spec.shape[axis] for spec in ins]))

    def forward(self, ins, outs, call):
        np.concatenate(ins, axis=self.dim, out=outs[0])

    def backward(self, ins, outs, call):
        for part, gx in self._pairs(ins[0], outs, call.specs or outs):
            np.copyto(gx, part)

    def prepare(self, ins, outs, call):
        return prepare_moves((x, part) for part, x in self._pairs(outs[0], ins, ins))

    def prepare_backward(self, ins, outs, call):
        return prepare_moves(self._pairs(ins[0], outs, call.specs))

    def _pairs(self, whole, pieces, specs):
        """(region of the whole, piece) of all pieces that are not None."""
        axis = self.dim % whole.ndim
        bounds = _bounds([spec.shape[axis] for spec in specs])
        return [(whole[along(axis, *ends)], piece) for ends, piece
                in zip(bounds, pieces, strict=True) if piece is not None]


class RnnParamConcat(Concat, name="_rnn_param_concat"):
    """Concat under the name that Gluon gives to the packing of RNN parameters.

    The unknown sizes are those of weights for inputs, one for each direction.
    """

    has_equal_rests: ClassVar = True


@dataclass(frozen=True, kw_only=True)
class Stack(Op, name="stack"):
    """Inputs of one shape stacked along a new `axis`."""

    axis: int = 0
    num_args: int

    variadic: ClassVar = "num_args"
    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins, outs):
        data, out = unify_all(ins, "shapes of the inputs"), outs[0]
        if data is None and out is None:
            return ins, outs
        rank = len(out) if data is None else len(data) + 1
        axis = normalize_axis(self.axis, rank)
        if out is not None:
            data = unify(data, out[:axis] + out[axis + 1:], "the inputs' shape and the output's,")
        assert data is not None
        return [data] * len(ins), [(*data[:axis], len(ins), *data[axis:])]

    def forward(self, ins, outs, call):
        np.stack(ins, axis=self.axis, out=outs[0])

    def backward(self, ins, outs, call):
        pieces = np.moveaxis(ins[0], self.axis, 0)
        for gx, piece in zip(outs, pieces, strict=True):
            if gx is not None:
                np.copyto(gx, piece)


class Split(Op):
    """Base of the ops that split their data along one axis into consecutive pieces."""

    axis: int
    squeeze_axis: bool

    needs: ClassVar = ("ograds",)

    def bounds(self, size: int) -> list[tuple[int, int]]:
        """[start, stop) of every piece of an axis of `size` indices."""
        raise NotImplementedError

    def whole(self, pieces: list[int]) -> int:
        """Size of the axis, from those of its pieces; 0 if unknown."""
        return sum(pieces) if 0 not in pieces else 0

    def infer_type(self, ins, outs):
        dtype = common_type([*ins, *outs])
        return [dtype], [dtype] * len(outs)

    def infer_shape(self, ins, outs):
        rank, out_rank = _rank(ins), _rank(outs)
        if rank is None:
            if out_rank is None:
                return ins, outs
            rank = out_rank + self.squeeze_axis
        axis = normalize_axis(self.axis, rank)
        wide = [(*out[:axis], 1, *out[axis:]) if out is not None and self.squeeze_axis else out
                for out in outs]
        rest = unify_all([_resized(shape, axis) for shape in (*ins, *wide)],
                         f"(size along axis {self.axis} aside) shapes of data and outputs")
        size = ins[0][axis] if ins[0] is not None else 0
        size = size or self.whole([out[axis] if out is not None else 0 for out in wide])
        sizes = self._sizes(size) if size else [0] * len(outs)
        assert rest is not None
        return [_resized(rest, axis, size)], [
            rest[:axis] + rest[axis + 1:] if self.squeeze_axis else _resized(rest, axis, each)
            for each in sizes]

    def _sizes(self, size: int) -> list[int]:
        bounds = self.bounds(size)
        if bounds[0][0] != 0 or any(not start < stop <= size for start, stop in bounds):
            raise ShapeMismatch(f"axis {self.axis} of size {size} cannot be cut into the pieces "
                                f"{bounds}")
        if self.squeeze_axis and any(stop - start != 1 for start, stop in bounds):
            raise ShapeMismatch(f"axis {self.axis} of size {size} gives pieces {bounds}; "
                                "squeeze_axis needs pieces of size 1")
        return [stop - start for start, stop in bounds]

    def regions(self, shape: Shape) -> list[tuple]:
        """The region of every piece."""
        axis = self.axis % len(shape)
        bounds = self.bounds(shape[axis])
        if self.squeeze_axis:
            return [(slice(None),) * axis + (start,) for start, _ in bounds]
        return [along(axis, *ends) for ends in bounds]

    def split_offsets(self, ins, outs):
        shape = ins[0].shape
        axis = normalize_axis(self.axis, len(shape))
        return side_by_side(shape, axis, self.bounds(shape[axis]))

    def _pairs(self, whole, pieces):
        """(slice of the whole, piece) of all pieces that are not None."""
        return [(whole[region], piece) for region, piece
                in zip(self.regions(whole.shape), pieces, strict=True) if piece is not None]

    def forward(self, ins, outs, call):
        for part, out in self._pairs(ins[0], outs):
            np.copyto(out, part)

    def backward(self, ins, outs, call):
        for part, g in self._pairs(outs[0], ins):
            np.copyto(part, g)

    def prepare(self, ins, outs, call):
        return prepare_moves(self._pairs(ins[0], outs))

    def prepare_backward(self, ins, outs, call):
        return prepare_moves((g, part) for part, g in self._pairs(outs[0], ins))


@dataclass(frozen=True)
class SliceChannel(Split, name="SliceChannel", aliases=("split",)):
    """`num_outputs` equal pieces along `axis`; `squeeze_axis` drops it where they have size 1."""

    shapes: ClassVar = "data (2, 6), num_outputs=3, axis=1 -> three times (2, 2)"
    num_outputs: int
    axis: int = 1
    squeeze_axis: bool = False

    def __post_init__(self):
        if self.num_outputs < 1:
            raise MXNetError(f"SliceChannel: parameter num_outputs is {self.num_outputs}, expected "
                             "at least 1")

    def list_outputs(self):
        return tuple(f"output{i}" for i in range(self.num_outputs))

    def bounds(self, size):
        if size % self.num_outputs:
            raise ShapeMismatch(f"axis {self.axis} has size {size}, which num_outputs "
                                f"{self.num_outputs} does not divide")
        return _bounds([size // self.num_outputs] * self.num_outputs)

    def whole(self, pieces):
        return max(pieces) * self.num_outputs


@dataclass(frozen=True)
class SplitV2(Split, name="_split_v2"):
    """Pieces along `axis` that start at `indices`, or `sections` pieces as equal as can be.

    `indices` begins with 0: MXNet's `split_v2` puts it there.
    """

    shapes: ClassVar = "data (6, 2), indices=(0, 1, 4) -> (1, 2), (3, 2), (2, 2)"
    indices: Shape
    axis: int = 1
    squeeze_axis: bool = False
    sections: int = 0

    def __post_init__(self):
        if self.sections < 0 or not (self.sections or self.indices):
            raise MXNetError(f"_split_v2: sections is {self.sections} and indices are "
                             f"{self.indices}, expected a positive number, or 0 and indices")

    def list_outputs(self):
        return tuple(f"output{i}" for i in range(self.sections or len(self.indices)))

    def bounds(self, size):
        if self.sections:
            each, extra = divmod(size, self.sections)
            return _bounds([each + (i < extra) for i in range(self.sections)])
        return list(pairwise([*self.indices, size]))
