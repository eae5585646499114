"""Depthwise convolution in the blocked layout: a vector of filters for each block and tap.

Filters of 3 x 3 and 5 x 5 process planes row by row (`DepthwiseRows`).  All others use the tables
of strips: each block of channels is a group, of one block in and one out, whose taps are one
vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import ClassVar

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..nn.sliding_window import Direction, Geometry
from ..op import Run, Spec, all_of
from ..simd.depthwise_rows import SIZES, STRIDES, RowStart, RowSteps, RowTaps, row_of
from ..simd.depthwise_taps import TAPS, depthwise_weight_sums
from .address_tables import (
    PackPlan,
    Sliding,
    data_work,
    forward_work,
    pixel_offsets,
)
from .blocked_convolution import FLOAT, NO_WORKSPACE, Kernels, is_planar, sliding_of
from .conv_driver import DEPTHWISE, JOBS, unpack
from .layout import LANES, BlockedLayout

__all__ = ["Depthwise", "fills_lanes", "is_depthwise", "kernels_of", "sums_cost"]

SHARE = 0.5
"""Least share of lanes that hold a channel for blocks to pay off."""


@kernel(parallel=True)
def _sums(x, g, d, rows, offsets, steps):
    """d (images, blocks, rows, LANES), separately for every image."""
    images, blocks, x_plane, g_plane = steps
    for job in prange(images * blocks):
        plane = np.int64(job)
        for first in range(0, len(rows), TAPS):
            at = (plane * x_plane, plane * g_plane, (plane * len(rows) + first) * LANES, first, 0)
            depthwise_weight_sums(x, g, d, rows, offsets, at, len(offsets) // 2)


def _pack(slide: Sliding, channels: int, seen: Sequence[Sequence[int]], positions: int) -> PackPlan:
    """Pack weight (channels, 1, *kernel): [block][class][position that it reads][LANES]; a block
    has space for `positions`, and LANES zeros follow at the end."""
    rows, taps = [], len(slide.taps)
    starts = np.cumsum([0, *map(len, seen)])
    for block, first in enumerate(range(0, channels, LANES)):
        have = min(LANES, channels - first)
        rows += [(first * taps, have, 1, LANES, (block * positions + start) * LANES, start,
                  len(see))
                 for start, see in zip(starts, seen, strict=False) if see]
    size = -(-channels // LANES) * positions * LANES + LANES
    return PackPlan(np.array(rows), np.array(list(chain(*seen)), np.int64), (taps, taps), 1, size)


@dataclass(frozen=True)
class Depthwise(Kernels):
    """A depthwise convolution."""

    kind: ClassVar = DEPTHWISE
    depth: ClassVar = 1
    zeros: ClassVar = LANES

    @property
    def strip_slide(self) -> Sliding:
        """Each block is a group."""
        return replace(self.slide, groups=self.x.blocks)

    @cached_property
    def packing(self) -> PackPlan:
        return _pack(self.slide, self.x.channels, [range(len(self.slide.taps))],
                     len(self.slide.taps))

    @cached_property
    def data_packing(self) -> PackPlan:
        seen = [[position for position, _ in self.slide.seen(each)] for each in self.slide.classes]
        return _pack(self.slide, self.x.channels, seen, len(self.slide.taps))

    @cached_property
    def rows(self) -> np.ndarray:
        """Offsets of taps, TAPS at a time; the last is repeated to fill up."""
        taps = np.array([self.x.row * i * self.slide.dilate[0] + LANES * j * self.slide.dilate[1]
                         for i, j in self.slide.taps])
        return taps[np.minimum(np.arange(-(-len(taps) // TAPS) * TAPS), len(taps) - 1)]

    @property
    def summed(self) -> Spec:
        return Spec((self.batch, self.x.blocks, len(self.rows), LANES), FLOAT)

    def weight(self, x: np.ndarray, g: np.ndarray, packed: np.ndarray, gw: np.ndarray,
               adds: bool = False, workspace: np.ndarray = NO_WORKSPACE) -> Run:
        rows, offsets = self.rows, pixel_offsets(self.slide, self.x, self.y).ravel()
        taps = len(self.slide.taps)
        plan = _pack(self.slide, self.x.channels, [range(taps)], len(rows))
        steps = (self.batch, self.x.blocks, self.x.plane, self.y.plane)
        sums = packed.reshape(-1)
        return all_of([partial(_sums, x.reshape(-1), g.reshape(-1), sums, rows, offsets, steps),
                       partial(np.sum, packed, axis=0, out=packed[0]),
                       partial(unpack, plan, sums, gw, adds)])


# -- kernels by rows ------------------------------------------------------------------------------

row3, row5 = (row_of(RowTaps.forward(size, 1)) for size in SIZES)
row3by2, row5by2 = (row_of(RowTaps.forward(size, 2)) for size in SIZES)
back3, back5 = (row_of(RowTaps.backward(size, 1)) for size in SIZES)
back3by2, back5by2 = (row_of(RowTaps.backward(size, 2)) for size in SIZES)


@inlined
def depthwise_row(x, w, bias, r, y, at, steps, size, stride):
    """A row of a plane; with a negative stride, of the data gradient."""
    if size == 3:
        if stride == 1:
            row3(x, w, bias, r, y, at, steps)
        elif stride == 2:
            row3by2(x, w, bias, r, y, at, steps)
        elif stride == -1:
            back3(x, w, bias, r, y, at, steps)
        else:
            back3by2(x, w, bias, r, y, at, steps)
    elif stride == 1:
        row5(x, w, bias, r, y, at, steps)
    elif stride == 2:
        row5by2(x, w, bias, r, y, at, steps)
    elif stride == -1:
        back5(x, w, bias, r, y, at, steps)
    else:
        back5by2(x, w, bias, r, y, at, steps)


@kernel(parallel=True)
def _lines(x, w, bias, r, y, table, planes, options):
    """y, flat.  A job is a part of the rows of one plane; `table` has offsets in x, in the filters
    and in y, and the number of rows of the filter that a row reads."""
    (count, blocks, x_plane, y_plane, parts), (size, stride, pixels, x_row, w_row, flags) = (
        planes, options)
    for job in prange(count * parts):
        plane, part, rows = np.int64(job) // parts, np.int64(job) % parts, len(table)
        b = plane % blocks
        for k in range(part * rows // parts, (part + 1) * rows // parts):
            x_at, w_at, y_at, taps = table[k]
            at = RowStart(plane * x_plane + x_at, b * size * size * LANES + w_at, b * LANES,
                          plane * y_plane + y_at)
            depthwise_row(x, w, bias, r, y, at, RowSteps(pixels, taps, x_row, w_row, flags), size,
                          stride)


@dataclass(frozen=True)
class DepthwiseRows(Depthwise):
    """Square filters with row kernels, padded by half their size.

    The data gradient of strided planes of odd width uses tables.
    """

    @property
    def size(self) -> int:
        return self.slide.kernel[0]

    @property
    def stride(self) -> int:
        return self.slide.stride[0]

    @property
    def is_whole(self) -> bool:
        """Whether every pixel of the output corresponds to `stride` pixels of a row."""
        return self.x.width % self.stride == 0

    @cached_property
    def data_packing(self) -> PackPlan:
        return self.packing if self.is_whole else super().data_packing

    def lines(self) -> np.ndarray:
        """The table of `_lines`."""
        y = np.arange(self.y.height)
        pad = self.size // 2
        return np.stack([self.x.at(y * self.stride - pad, -pad), 0 * y, self.y.at(y, 0),
                         0 * y + self.size], 1)

    def lines_back(self) -> np.ndarray:
        """The table of `_lines` for the data gradient: rows of the output below come first."""
        y, pad = np.arange(self.x.height), self.size // 2
        first = (y + pad) % self.stride
        return np.stack([self.y.at((y + pad - first) // self.stride, 0),
                         first * self.size * LANES, self.x.at(y, 0),
                         -(-(self.size - first) // self.stride)], 1)

    def _planes(self, source: BlockedLayout, target: BlockedLayout) -> tuple[int, ...]:
        """(planes, blocks, plane strides of source and of target, parts of a plane)."""
        count = self.batch * source.blocks
        parts = 1 if count >= JOBS * num_threads() else min(JOBS, target.height)
        return count, source.blocks, source.plane, target.plane, parts

    def sums(self, x: np.ndarray, filters: np.ndarray, bias: np.ndarray, r: np.ndarray,
             y: np.ndarray, flags: int, workspace: np.ndarray) -> Run:
        options = (self.size, self.stride, self.y.width, self.x.row, self.size * LANES, flags)
        return partial(_lines, x.reshape(-1), filters, bias, r.reshape(-1), y.reshape(-1),
                       self.lines(), self._planes(self.x, self.y), options)

    def data_sums(self, g: np.ndarray, filters: np.ndarray, bias: np.ndarray, gx: np.ndarray,
                  flags: int, workspace: np.ndarray) -> Run:
        if not self.is_whole:
            return super().data_sums(g, filters, bias, gx, flags, workspace)
        options = (self.size, -self.stride, self.x.width // self.stride, -self.y.row,
               self.stride * self.size * LANES, flags)
        flat = gx.reshape(-1)
        return partial(_lines, g.reshape(-1), filters, bias, flat, flat, self.lines_back(),
                       self._planes(self.y, self.x), options)


def kernels_of(slide: Sliding, x: BlockedLayout, y: BlockedLayout, batch: int) -> Kernels:
    """The kernels of a convolution."""
    kind = Kernels
    if is_depthwise(slide, x.channels, y.channels):
        kind = DepthwiseRows if has_row_kernels(slide) else Depthwise
    return kind(slide, x, y, batch)


def has_row_kernels(slide: Sliding) -> bool:
    """Whether a depthwise convolution has row kernels."""
    size, stride = slide.kernel[0], slide.stride[0]
    return (size in SIZES and stride in STRIDES and slide.kernel == (size, size)
            and slide.stride == (stride, stride) and slide.pad == (size // 2, size // 2)
            and slide.dilate == (1, 1))


def is_depthwise(slide: Sliding, channels: int, filters: int) -> bool:
    """Whether every channel has one filter of its own."""
    return slide.groups == channels == filters > 1


def fills_lanes(geo: Geometry, blocked: bool) -> bool:
    """Whether a convolution is depthwise, and its images are `blocked` already or its channels fill
    most lanes."""
    return (is_depthwise(sliding_of(geo), geo.channels, geo.filters) and is_planar(geo)
            and (blocked or geo.channels >= SHARE * LANES * -(-geo.channels // LANES)))


PRODUCT = 0.5
"""Nanoseconds of a vector FMA (see `nn.convolution`)."""


def sums_cost(geo: Geometry, direction: Direction) -> float:
    """Estimated nanoseconds of a direction of a depthwise convolution in blocks."""
    slide, blocks = sliding_of(geo), -(-geo.channels // LANES)
    if direction == "data":
        return PRODUCT * blocks * data_work(slide, geo.window.image[1:], geo.images)
    return PRODUCT * blocks * forward_work(slide, geo.window.out[1:], geo.images)
