"""Padded polyphase layout of planes for sliding windows.

A phase holds the pixels with equal coordinates modulo the stride, so that pixels a stride apart are
contiguous.  Tap t of every window is then at one offset from the window's position, whatever the
stride, and no window needs a bounds check: what a tap reads at all positions is a shifted run of
memory.  Runs include the gaps between rows, whose results are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..jit import inlined
from ..shape import size_of
from ..simd.pixel_rows import MIN_COUNT, deinterleave, interleave
from .sliding_window import Window, span_of

__all__ = ["PlaneForm", "PlaneTables", "WindowPlanes", "flat", "move"]

ROWS = 8
"""Rows whose pixels are copied together: they stay in the L1 cache."""


class PlaneForm(NamedTuple):
    """Stride, pixels of a plane, width of the output; elements from the first position to the last,
    and at most from a position to its last tap."""

    step: int
    area: int
    columns: int
    run: int
    ahead: int


class PlaneTables(NamedTuple):
    """Tables of the layout of a plane.

    rows    offsets of each row in the image and in a phase
    runs    strided pixels of a row, one run per phase, sorted by first pixel: first pixel, its
            offset from that of the row, count
    starts  offsets of the rows of positions
    taps    phase of each tap, its offset in the phase, and the taps sorted by phase
    bounds  of the phases in that order
    """

    rows: np.ndarray
    runs: np.ndarray
    starts: np.ndarray
    taps: np.ndarray
    bounds: np.ndarray


@dataclass(frozen=True)
class WindowPlanes:
    """Layout of the planes of `together` images under a window.

    Pixel c of an axis, counted from the start of the padding, is element c // stride of phase
    c % stride.  Pixels that no window sees are left out.  A phase of one image is followed by the
    same phase of the next image.
    """

    window: Window
    together: int = 1

    @cached_property
    def span(self) -> tuple[int, ...]:
        """Pixels from the first tap to the last along each axis."""
        return span_of(self.window.kernel, self.window.dilate)

    @cached_property
    def phases(self) -> tuple[int, ...]:
        """Phases along each axis."""
        return tuple(map(min, self.span, self.window.stride))

    @cached_property
    def size(self) -> tuple[int, ...]:
        """Elements of a phase along each axis, for all positions and taps."""
        w = self.window
        return tuple(out + (wide - 1) // step
                     for out, wide, step in zip(w.out, self.span, w.stride, strict=True))

    def at(self, phase: Sequence[int | np.ndarray], number: Sequence[int | np.ndarray]) -> Any:
        """Offset of element (z, y, x) of phase (z, y, x); scalars or arrays."""
        return flat(phase, self.phases) * self.together * size_of(self.size) + flat(
            number, self.size)

    @property
    def form(self) -> PlaneForm:
        w = self.window
        run = flat([out - 1 for out in w.out], self.size) + 1
        return PlaneForm(w.stride[2], size_of(w.image), w.out[2], run, size_of(self.size) - run)

    @property
    def tables(self) -> PlaneTables:
        (z, *planes), (y, *lines) = self.seen(0)[:, :, None], self.seen(1)[:, None]
        begin = (z * self.window.image[1] + y) * self.window.image[2]
        rows = begin, self.at(*((*both, 0) for both in zip(planes, lines, strict=True)))
        z, y = np.indices(self.window.out[:2]).reshape(2, -1)
        taps = self.taps
        bounds = np.searchsorted(taps[taps[:, 2], 0], np.arange(size_of(self.phases) + 1))
        return PlaneTables(np.stack(rows, 2).reshape(-1, 2), self.runs, flat((z, y, 0), self.size),
                           taps, bounds)

    @property
    def runs(self) -> np.ndarray:
        pixel, phase, number = self.seen(2)
        _, first, count = np.unique(phase, return_index=True, return_counts=True)
        offsets = self.at((0, 0, phase[first]), (0, 0, number[first]))
        return np.stack([pixel[first], offsets, count], 1)[np.argsort(first)]

    @property
    def taps(self) -> np.ndarray:
        step = np.array(self.window.stride)[:, None]
        taps = np.indices(self.window.kernel).reshape(3, -1)
        taps *= np.array(self.window.dilate)[:, None]
        phase, number = flat(taps % step, self.phases), flat(taps // step, self.size)
        return np.stack([phase, number, np.argsort(phase, kind="stable")], 1)

    def seen(self, axis: int) -> np.ndarray:
        """(3, count): the pixels of an axis that windows see, their phases, and their indices in
        these."""
        w = self.window
        step, wide, pad = w.stride[axis], self.span[axis], w.pad[axis]
        pixels = np.arange(max(pad, 0), min(pad + w.image[axis], (w.out[axis] - 1) * step + wide))
        pixels = pixels[pixels % step < wide]
        return np.stack([pixels - pad, pixels % step, pixels // step])

    @property
    def elements(self) -> int:
        """Elements of the layout of one plane of each image."""
        return size_of(self.phases) * self.together * size_of(self.size)


def flat(index: Sequence[Any], size: Sequence[int]) -> Any:
    """Row-major offset of index (z, y, x); scalars or arrays."""
    z, y, x = index
    return (z * size[1] + y) * size[2] + x


# Unsigned indices avoid the check for negative ones, flat arrays the reference counts of subarrays.

@inlined(always=True)
def _move_run(image, planes, pixel, number, step, count, inward):
    """Copy pixels `pixel`, pixel + step, ... of the image to planes[number:], or back."""
    pixel, number = np.uintp(pixel), np.uintp(number)
    for i in range(count):
        if inward:
            planes[number + np.uintp(i)] = image[pixel + np.uintp(i * step)]
        else:
            image[pixel + np.uintp(i * step)] = planes[number + np.uintp(i)]


@inlined(always=True)
def _move_pairs(image, planes, pixel, first, second, count, inward):
    """Deinterleave pixels from `pixel` on: even ones to `first`, odd ones to `second`; or back."""
    pixel, first, second = np.uintp(pixel), np.uintp(first), np.uintp(second)
    if inward:
        deinterleave(image, planes, (pixel, first, second), count)
    else:
        interleave(planes, image, (first, second, pixel), count)


@inlined(always=True)
def _move_rows(image, begin, planes, rows, runs, step, inward):
    pairs = min(runs[0, 2], runs[1, 2]) if step == 2 and len(runs) == 2 else 0
    pairs = pairs if pairs >= MIN_COUNT else 0
    if pairs:
        for row in range(len(rows)):
            offset = rows[row, 1]
            _move_pairs(image, planes, begin + rows[row, 0] + runs[0, 0], offset + runs[0, 1],
                        offset + runs[1, 1], pairs, inward)
    for run in range(len(runs)):
        pixel, offset = runs[run, 0] + pairs * step, runs[run, 1] + pairs
        count = runs[run, 2] - pairs
        if count == 0:
            continue
        for row in range(len(rows)):
            first, number = begin + rows[row, 0] + pixel, rows[row, 1] + offset
            if step == 1:
                _move_run(image, planes, first, number, 1, count, inward)
            else:
                _move_run(image, planes, first, number, step, count, inward)


@inlined
def move(image, begin, planes, tables, step, inward):
    """Copy the plane of `image` at offset `begin` to the layout, or back without `inward`."""
    for top in range(0, len(tables.rows), ROWS):
        _move_rows(image, begin, planes, tables.rows[top:top + ROWS], tables.runs, step, inward)
