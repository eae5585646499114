"""Regions of tensors, and slices along an axis as columns of a matrix of rows."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from .param import Ints, Shape
from .shape import ShapeMismatch

__all__ = ["Region", "RowSlices", "along", "cut_rows", "region_shape", "side_by_side",
           "slice_region"]

Region = tuple[slice, ...]


def along(axis: int, start: int, stop: int) -> Region:
    """The region of indices [start, stop) along `axis` and all indices along the others."""
    return (slice(None),) * axis + (slice(start, stop),)


class RowSlices(NamedTuple):
    """Slices of a matrix of `number` rows; each begins at an offset, in elements, in every row."""

    number: int
    offsets: tuple[int, ...]


def side_by_side(shape: Shape, axis: int, pieces: Iterable[tuple[int, int]]) -> RowSlices:
    """The slices [start, stop) along an axis of a tensor."""
    inner = prod(shape[axis + 1:])
    return RowSlices(prod(shape[:axis]), tuple(start * inner for start, _ in pieces))


def cut_rows(shape: Shape, region: Region) -> RowSlices | None:
    """The rows of a region that is a slice [start, stop) along one axis; None for others."""
    ranges = [part.indices(size) for part, size in zip(region, shape, strict=False)]
    cut = [axis for axis, ends in enumerate(ranges) if ends != (0, shape[axis], 1)]
    if len(cut) > 1 or any(ranges[axis][2] != 1 for axis in cut):
        return None
    axis = cut[0] if cut else 0
    return side_by_side(shape, axis, [ranges[axis][:2]] if shape else [(0, 0)])


def slice_region(data: Shape, begin: Ints, end: Ints, step: Ints) -> Region:
    """The region of the parameters of the op `slice`, which are those of Python slices."""
    if len(begin) != len(end) or len(step) not in (0, len(begin)):
        raise ShapeMismatch(f"begin {begin}, end {end} and step {step} differ in length")
    if not begin or len(begin) > len(data):
        raise ShapeMismatch(f"begin is {begin}, expected 1 to {len(data)} axes of data {data}")
    if 0 in step:
        raise ShapeMismatch(f"step is {step}, expected no 0")
    steps = step or (None,) * len(begin)
    return tuple(slice(*part) for part in zip(begin, end, steps, strict=True))


def region_shape(data: Shape, region: Region) -> Shape:
    """Shape of `data[region]`; 0 where data is unknown.  An empty region is an error."""
    shape = list(data)
    for axis, part in enumerate(region):
        if data[axis]:
            shape[axis] = len(range(*part.indices(data[axis])))
            if not shape[axis]:
                raise ShapeMismatch(f"begin {part.start}, end {part.stop}, step {part.step} select "
                                    f"nothing along axis {axis} of data {data}")
    return tuple(shape)
