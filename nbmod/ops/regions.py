"""Regions of tensors, and tensors side by side in the rows of another one: pieces along an axis."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from .param import Ints, Shape
from .shape import ShapeMismatch

__all__ = ["Region", "Rows", "along", "cut_rows", "region_shape", "side_by_side", "slice_region"]

Region = tuple[slice, ...]


def along(axis: int, start: int, stop: int) -> Region:
    """The region of indices [start, stop) along `axis`, whole in all other directions."""
    return (slice(None),) * axis + (slice(start, stop),)


class Rows(NamedTuple):
    """Tensors side by side in `number` rows; each begins so many numbers into every row."""

    number: int
    offsets: tuple[int, ...]


def side_by_side(shape: Shape, axis: int, pieces: Iterable[tuple[int, int]]) -> Rows:
    """The pieces [start, stop) of an axis of a tensor."""
    inner = prod(shape[axis + 1:])
    return Rows(prod(shape[:axis]), tuple(start * inner for start, _ in pieces))


def cut_rows(shape: Shape, region: Region) -> Rows | None:
    """A region that is a piece of rows: indices in order along one axis, all along the others."""
    ranges = [part.indices(size) for part, size in zip(region, shape, strict=False)]
    cut = [axis for axis, ends in enumerate(ranges) if ends != (0, shape[axis], 1)]
    if len(cut) > 1 or any(ranges[axis][2] != 1 for axis in cut):
        return None
    axis = cut[0] if cut else 0
    return side_by_side(shape, axis, [ranges[axis][:2]] if shape else [(0, 0)])


def slice_region(data: Shape, begin: Ints, end: Ints, step: Ints) -> Region:
    """The region of `slice`'s parameters, which mean what they mean in Python."""
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
