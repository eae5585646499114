"""Planes laid out for windows: with their padding, and in phases.

In a phase, pixels that lie a stride apart are neighbours.  There tap t of every window is at one
distance from the window's position, whatever the stride, and no window asks where the image ends.
So what windows see are runs of memory, shifted.  Runs go over the gaps between rows, where nobody
reads the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..jit import inlined
from ..shape import size_of
from ..simd.pixel_rows import MIN_COUNT, deinterleave, interleave
from .sliding_window import Window, span_of

__all__ = ["Planes", "flat", "move"]

ROWS = 8
"""Rows whose pixels are laid out together: they stay in the first cache."""


@dataclass(frozen=True)
class Planes:
    """How planes of an image under a window are laid out, those of some images `together`.

    Pixel c of an axis, counted from where the padding begins, is number c // stride of phase
    c % stride.  Pixels that no window sees have no place.  A phase of one image is followed by that
    of the next.
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
        """Numbers of a phase along each axis: one for all positions and taps."""
        w = self.window
        return tuple(out + (wide - 1) // step
                     for out, wide, step in zip(w.out, self.span, w.stride, strict=True))

    def at(self, phase: Any, number: Any) -> Any:
        """Where number (z, y, x) of phase (z, y, x) is; numbers or arrays."""
        return flat(phase, self.phases) * self.together * size_of(self.size) + flat(
            number, self.size)

    @property
    def form(self) -> tuple[int, ...]:
        """What kernels read: stride, pixels of a plane of the image, width of the output; numbers
        from the first position to the last, from a position to its last tap at most."""
        w = self.window
        run = flat([out - 1 for out in w.out], self.size) + 1
        return w.stride[2], size_of(w.image), w.out[2], run, size_of(self.size) - run

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        """Where rows of the image begin there, and in a phase; `runs` of each row; where rows of
        positions are; `taps`, and where phases begin in their order, and the last ends."""
        (z, *planes), (y, *lines) = self.seen(0)[:, :, None], self.seen(1)[:, None]
        begin = (z * self.window.image[1] + y) * self.window.image[2]
        rows = begin, self.at(*((*both, 0) for both in zip(planes, lines, strict=True)))
        z, y = np.indices(self.window.out[:2]).reshape(2, -1)
        taps = self.taps
        first = np.searchsorted(taps[taps[:, 2], 0], np.arange(size_of(self.phases) + 1))
        return np.stack(rows, 2).reshape(-1, 2), self.runs, flat((z, y, 0), self.size), taps, first

    @property
    def runs(self) -> np.ndarray:
        """Pixels of a row that are a stride apart: the first, where it is from where the row is,
        how many; in the order of the first."""
        pixel, phase, number = self.seen(2)
        _, first, count = np.unique(phase, return_index=True, return_counts=True)
        places = self.at((0, 0, phase[first]), (0, 0, number[first]))
        return np.stack([pixel[first], places, count], 1)[np.argsort(first)]

    @property
    def taps(self) -> np.ndarray:
        """(taps, 3), their phases, where they are in them, and the taps in the order of phases."""
        step = np.array(self.window.stride)[:, None]
        taps = np.indices(self.window.kernel).reshape(3, -1)
        taps *= np.array(self.window.dilate)[:, None]
        phase, number = flat(taps % step, self.phases), flat(taps // step, self.size)
        return np.stack([phase, number, np.argsort(phase, kind="stable")], 1)

    def seen(self, axis: int) -> np.ndarray:
        """The pixels of an axis of the image that windows see, their phases, and their numbers in
        these: (3, count)."""
        w = self.window
        step, wide, pad = w.stride[axis], self.span[axis], w.pad[axis]
        pixels = np.arange(max(pad, 0), min(pad + w.image[axis], (w.out[axis] - 1) * step + wide))
        pixels = pixels[pixels % step < wide]
        return np.stack([pixels - pad, pixels % step, pixels // step])

    @property
    def numbers(self) -> int:
        """All that is laid out of a plane of each image."""
        return size_of(self.phases) * self.together * size_of(self.size)


def flat(index: Sequence[Any], size: Sequence[int]) -> Any:
    """The place of (z, y, x) in what has this size; numbers or arrays."""
    z, y, x = index
    return (z * size[1] + y) * size[2] + x


# Unsigned indices spare the compiler the question whether they count from the end, and flat arrays
# the counting of references to parts of them.

@inlined(always=True)
def _move_run(image, planes, at, step, count, inward):
    """Pixels at[0], at[0] + step, ... of the image to neighbours from at[1] on, or back."""
    pixel, number = np.uintp(at[0]), np.uintp(at[1])
    for i in range(count):
        if inward:
            planes[number + np.uintp(i)] = image[pixel + np.uintp(i * step)]
        else:
            image[pixel + np.uintp(i * step)] = planes[number + np.uintp(i)]


@inlined(always=True)
def _move_pairs(image, planes, at, count, inward):
    """Pairs of pixels from at[0] on: their first to at[1], their second to at[2], or back."""
    pixel, first, second = np.uintp(at[0]), np.uintp(at[1]), np.uintp(at[2])
    if inward:
        deinterleave(image, planes, (pixel, first, second), count)
    else:
        interleave(planes, image, (first, second, pixel), count)


@inlined(always=True)
def _move_rows(image, begin, planes, tables, near, step, inward):
    """The pixels of rows near[0] to near[1]."""
    rows, runs = tables[0], tables[1]
    pairs = min(runs[0, 2], runs[1, 2]) if step == 2 and len(runs) == 2 else 0
    pairs = pairs if pairs >= MIN_COUNT else 0
    if pairs:
        for row in range(near[0], near[1]):
            place = rows[row, 1]
            at = begin + rows[row, 0] + runs[0, 0], place + runs[0, 1], place + runs[1, 1]
            _move_pairs(image, planes, at, pairs, inward)
    for run in range(len(runs)):
        pixel, place = runs[run, 0] + pairs * step, runs[run, 1] + pairs
        count = runs[run, 2] - pairs
        if count == 0:
            continue
        for row in range(near[0], near[1]):
            start = begin + rows[row, 0] + pixel, rows[row, 1] + place
            if step == 1:
                _move_run(image, planes, start, 1, count, inward)
            else:
                _move_run(image, planes, start, step, count, inward)


@inlined
def move(image, begin, planes, tables, step, inward):
    """Lay out the pixels of a plane of `image` that begins there, or take them back."""
    count = len(tables[0])
    for top in range(0, count, ROWS):
        _move_rows(image, begin, planes, tables, (top, min(top + ROWS, count)), step, inward)
