"""Kernels of pooling: windows over planes, in long runs of neighbours.

A plane is first laid out anew (`Planes`): with its padding, and in phases, so that pixels which lie
a stride apart are neighbours.  There tap t of every window is at one distance from the window's
position, whatever the stride, and no window asks where the image ends.  So what windows are reduced
to are runs of memory, shifted and joined, and so is the gradient of the image: what the windows
that see a pixel give to it.  Runs go over the gaps between rows, where nobody reads the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .geometry import Window
from .jit import inlined, kernel, num_threads, prange
from .op import Spec
from .shape import size_of
from .simd.address import STEP, room
from .simd.pixels import LEAST, fetch, join, split

__all__ = ["AVG", "CUBE", "MAX", "SQUARE", "SUM", "Planes", "pool", "pool_back"]

MAX, AVG, SUM, SQUARE, CUBE = range(5)
"""What windows are reduced to; SQUARE and CUBE are lp pooling with p 2 and 3, SUM with p 1."""
LINE = 16
"""Numbers that `fetch` brings, or more."""
ROWS = 8
"""Rows whose pixels are laid out together: they stay in the first cache."""
EACH = 24
"""Pixels to which a tap is compared in the time in which a window finds the one it gives to."""
SOON = 1 << 16
"""Numbers of a plane that are brought ahead: what second caches hold."""


@dataclass(frozen=True)
class Planes:
    """How planes of an image under a window are laid out.

    Pixel c of an axis, counted from where the padding begins, is number c // stride of phase
    c % stride.  Pixels that no window sees have no place.
    """

    window: Window

    @cached_property
    def phases(self) -> tuple[int, ...]:
        """Phases along each axis."""
        return tuple(map(min, self.window.kernel, self.window.stride))

    @cached_property
    def size(self) -> tuple[int, ...]:
        """Numbers of a phase along each axis: one for all positions and taps."""
        w = self.window
        return tuple(out + (wide - 1) // step
                     for out, wide, step in zip(w.out, w.kernel, w.stride, strict=True))

    def at(self, phase: Any, number: Any) -> Any:
        """Where number (z, y, x) of phase (z, y, x) is; numbers or arrays."""
        return _flat(phase, self.phases) * size_of(self.size) + _flat(number, self.size)

    @property
    def form(self) -> tuple[int, ...]:
        """What kernels read: stride, pixels of a plane of the image, width of the output; numbers
        from the first position to the last, from a position to its last tap at most."""
        w = self.window
        run = _flat([out - 1 for out in w.out], self.size) + 1
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
        return np.stack(rows, 2).reshape(-1, 2), self.runs, _flat((z, y, 0), self.size), taps, first

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
        phase, number = _flat(taps % step, self.phases), _flat(taps // step, self.size)
        return np.stack([phase, number, np.argsort(phase, kind="stable")], 1)

    def seen(self, axis: int) -> np.ndarray:
        """The pixels of an axis of the image that windows see, their phases, and their numbers in
        these: (3, count)."""
        w = self.window
        step, wide, pad = w.stride[axis], w.kernel[axis], w.pad[axis]
        pixels = np.arange(pad, min(pad + w.image[axis], (w.out[axis] - 1) * step + wide))
        pixels = pixels[pixels % step < wide]
        return np.stack([pixels - pad, pixels % step, pixels // step])

    def room(self, dtype: Any) -> Spec:
        """Scratch memory of `pool`: for every thread a plane, and its reduced windows."""
        run = self.form[3]
        return Spec((num_threads(), self.numbers + run + 2 * STEP), dtype)

    def room_back(self, dtype: Any) -> Spec:
        """Scratch memory of `pool_back`: a plane; what windows give, and to which tap."""
        padded = self.form[4] + size_of(self.size) + STEP
        return Spec((num_threads(), self.numbers + STEP + 2 * padded), dtype)

    @property
    def numbers(self) -> int:
        """All that is laid out of a plane."""
        return size_of(self.phases) * size_of(self.size)


def _flat(index: Sequence[Any], size: Sequence[int]) -> Any:
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
        split(image, planes, (pixel, first, second), count)
    else:
        join(planes, image, (first, second, pixel), count)


@inlined(always=True)
def _move_rows(image, begin, planes, tables, near, step, inward):
    """The pixels of rows near[0] to near[1]."""
    rows, runs = tables[0], tables[1]
    pairs = min(runs[0, 2], runs[1, 2]) if step == 2 and len(runs) == 2 else 0
    pairs = pairs if pairs >= LEAST else 0
    if pairs:
        for row in range(near[0], near[1]):
            place = rows[row, 1]
            at = begin + rows[row, 0], place + runs[0, 1], place + runs[1, 1]
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
def _move(image, begin, planes, tables, step, inward):
    """Lay out the pixels of a plane of `image` that begins there, or take them back."""
    count = len(tables[0])
    for top in range(0, count, ROWS):
        _move_rows(image, begin, planes, tables, (top, min(top + ROWS, count)), step, inward)


@inlined
def _fetch(array, begin, size, part, parts):
    """Begin to bring one of the `parts` of a plane into the cache, or of what one holds."""
    share = min(size, SOON) // parts
    for i in range(begin + part * share, begin + (part + 1) * share, LINE):
        fetch(array, i)


@inlined
def _add(planes, found, start, taps, whole):
    """The sums of STEP windows."""
    zero = planes.dtype.type(0)
    total = room(planes.dtype)
    for k in range(STEP):
        total[k] = zero
    for t in range(len(taps)):
        at = np.uintp(taps[t, 0] * whole + taps[t, 1] + start)
        for k in range(STEP):
            total[k] += planes[at + np.uintp(k)]
    for k in range(STEP):
        found[np.uintp(start) + np.uintp(k)] = total[k]


@inlined
def _largest(planes, found, start, taps, whole, lowest):
    """The largest pixels of STEP windows."""
    best = room(planes.dtype)
    for k in range(STEP):
        best[k] = lowest
    for t in range(len(taps)):
        at = np.uintp(taps[t, 0] * whole + taps[t, 1] + start)
        for k in range(STEP):
            pixel = planes[at + np.uintp(k)]
            best[k] = pixel if pixel > best[k] else best[k]
    for k in range(STEP):
        found[np.uintp(start) + np.uintp(k)] = best[k]


@inlined
def _finish(mode, found, y, begin, size, starts, columns):
    """Reduced windows become numbers of a plane of y."""
    for row in range(len(starts)):
        source, line = np.uintp(starts[row]), np.uintp(row * columns)
        out = line + np.uintp(begin)
        if mode == AVG:
            for i in range(columns):
                y[out + np.uintp(i)] = found[source + np.uintp(i)] / size[line + np.uintp(i)]
        elif mode == SQUARE:
            for i in range(columns):
                y[out + np.uintp(i)] = np.sqrt(found[source + np.uintp(i)])
        elif mode == CUBE:
            for i in range(columns):
                y[out + np.uintp(i)] = np.cbrt(found[source + np.uintp(i)])
        else:
            for i in range(columns):
                y[out + np.uintp(i)] = found[source + np.uintp(i)]


@inlined
def _pool_some(jobs, x, y, mode, lowest, size, tables, form, work):
    starts, taps = tables[2], tables[3]
    step, area, columns, run, ahead = form
    whole, out = run + ahead, len(starts) * columns
    planes, found = work[:work.size - run - STEP], work[work.size - run - STEP:]
    neutral = x.dtype.type(lowest)
    for i in range(work.size):
        work[i] = neutral
    for plane in range(jobs[0], y.size // out, jobs[1]):
        _move(x, plane * area, planes, tables, step, True)
        if mode == SQUARE or mode == CUBE:
            for i in range(planes.size):
                planes[i] *= planes[i] if mode == SQUARE else planes[i] * planes[i]
        for start in range(0, run, STEP):
            if mode == MAX:
                _largest(planes, found, start, taps, whole, neutral)
            else:
                _add(planes, found, start, taps, whole)
            _fetch(x, (plane + jobs[1]) * area, area, start // STEP, run // STEP + 1)
            _fetch(y, plane * out, out, start // STEP, run // STEP + 1)
        _finish(mode, found, y, plane * out, size, starts, columns)


@kernel(parallel=True)
def pool(x, y, mode, lowest, size, tables, form, work):
    """y from x, planes behind each other; a reduction starts with `lowest`, a mean is divided by
    the `size` of its window."""
    for worker in prange(len(work)):
        _pool_some((np.int64(worker), len(work)), x, y, mode, lowest, size, tables, form,
                   work[worker])


@inlined
def _find(planes, which, start, taps, whole):
    """Which tap is the first maximum of STEP windows, -1 where none is above minus infinity."""
    kind = planes.dtype.type
    lowest, nowhere = kind(-np.inf), kind(-1)
    best, tap = room(planes.dtype), room(planes.dtype)
    for k in range(STEP):
        best[k], tap[k] = lowest, nowhere
    for t in range(len(taps)):
        at, number = np.uintp(taps[t, 0] * whole + taps[t, 1] + start), kind(t)
        for k in range(STEP):
            pixel = planes[at + np.uintp(k)]
            larger = pixel > best[k]
            best[k] = pixel if larger else best[k]
            tap[k] = number if larger else tap[k]
    for k in range(STEP):
        which[np.uintp(start) + np.uintp(k)] = tap[k]


@inlined
def _share(mode, gy, y, begin, size, shares, starts, columns):
    """What windows of a plane give to each of their pixels, but for powers of these."""
    nothing = gy.dtype.type(0)
    for row in range(len(starts)):
        into, line = np.uintp(starts[row]), np.uintp(row * columns)
        grad = line + np.uintp(begin)
        if mode == AVG:
            for i in range(columns):
                shares[into + np.uintp(i)] = gy[grad + np.uintp(i)] / size[line + np.uintp(i)]
        elif mode == SQUARE or mode == CUBE:
            for i in range(columns):
                root = y[grad + np.uintp(i)]
                power = root if mode == SQUARE else root * root
                share = gy[grad + np.uintp(i)] / power
                shares[into + np.uintp(i)] = share if power != 0 else nothing
        else:
            for i in range(columns):
                shares[into + np.uintp(i)] = gy[grad + np.uintp(i)]


@inlined
def _give(shares, planes, into, start, taps, seen):
    """What STEP pixels are given by the windows that see them, by the taps seen[0] to seen[1]."""
    nothing = planes.dtype.type(0)
    total = room(planes.dtype)
    for k in range(STEP):
        total[k] = nothing
    for i in range(seen[0], seen[1]):
        at = np.uintp(start - taps[taps[i, 2], 1])
        for k in range(STEP):
            total[k] += shares[at + np.uintp(k)]
    for k in range(STEP):
        planes[np.uintp(into) + np.uintp(k)] = total[k]


@inlined
def _give_one(shares, which, planes, into, start, taps, seen):
    """The same where windows give to one tap each."""
    nothing = planes.dtype.type(0)
    total = room(planes.dtype)
    for k in range(STEP):
        total[k] = nothing
    for i in range(seen[0], seen[1]):
        t = taps[i, 2]
        at, number = np.uintp(start - taps[t, 1]), planes.dtype.type(t)
        for k in range(STEP):
            share, tap = shares[at + np.uintp(k)], which[at + np.uintp(k)]
            total[k] += share if tap == number else nothing
    for k in range(STEP):
        planes[np.uintp(into) + np.uintp(k)] = total[k]


@inlined
def _give_each(given, which, planes, taps, starts, columns, whole):
    """What windows give to one tap each, window by window: for many taps, or few windows."""
    nothing = planes.dtype.type(0)
    for i in range(planes.size):
        planes[i] = nothing
    for row in range(len(starts)):
        for i in range(starts[row], starts[row] + columns):
            t = np.int64(which[np.uintp(i)])
            if t >= 0:
                planes[np.uintp(taps[t, 0] * whole + taps[t, 1] + i)] += given[np.uintp(i)]


@inlined
def _find_all(x, soon, planes, which, taps, form):
    """The first maxima of all windows of a plane."""
    area, run, whole = form[1], form[3], form[3] + form[4]
    for start in range(0, run, STEP):
        _find(planes, which, start, taps, whole)
        _fetch(x, soon, area, start // STEP, run // STEP + 1)


@inlined
def _settle(planes, gx, x, begin, mode, tables, form):
    """The gradient of a plane from what its pixels are given, 0 where no window sees them; that of
    lp pooling is times powers of them."""
    rows, runs, step, area = tables[0], tables[1], form[0], form[1]
    if len(rows) * runs[:, 2].sum() < area:
        for i in range(area):
            gx[np.uintp(begin) + np.uintp(i)] = 0
    _move(gx, begin, planes, tables, step, False)
    if mode == SQUARE or mode == CUBE:
        for row in range(len(rows)):
            for run in range(len(runs)):
                first = np.uintp(begin + rows[row, 0] + runs[run, 0])
                for i in range(runs[run, 2]):
                    pixel = x[first + np.uintp(i * step)]
                    gx[first + np.uintp(i * step)] *= pixel if mode == SQUARE else pixel * pixel


@inlined
def _back_some(jobs, gy, x, y, gx, mode, size, tables, form, work):
    starts, taps, first = tables[2:]
    step, area, columns, run, ahead = form
    whole, out = run + ahead, len(starts) * columns
    padded = ahead + whole + STEP
    shares, which, planes = work[:padded], work[padded:2 * padded], work[2 * padded:]
    given, found = shares[ahead:], which[ahead:]
    blocks = whole // STEP + 1
    singly = mode == MAX and EACH * len(starts) * columns < len(taps) * blocks * STEP
    for i in range(2 * padded):
        work[i] = 0
    for plane in range(jobs[0], gy.size // out, jobs[1]):
        _share(mode, gy, y, plane * out, size, given, starts, columns)
        if mode == MAX:
            for i in range(planes.size):
                planes[i] = -np.inf
            _move(x, plane * area, planes, tables, step, True)
            _find_all(x, (plane + jobs[1]) * area, planes, found, taps, form)
        if singly:
            _give_each(given, found, planes, taps, starts, columns, whole)
        for phase in range(0 if singly else len(first) - 1):
            seen = first[phase], first[phase + 1]
            for start in range(0, whole, STEP):
                if mode == MAX:
                    _give_one(shares, which, planes, phase * whole + start, start + ahead, taps,
                              seen)
                else:
                    _give(shares, planes, phase * whole + start, start + ahead, taps, seen)
                _fetch(gx, plane * area, area, phase * blocks + start // STEP,
                       (len(first) - 1) * blocks)
        _settle(planes, gx, x, plane * area, mode, tables, form)


@kernel(parallel=True)
def pool_back(gy, x, y, gx, mode, size, tables, form, work):
    """gx from gy; x is read for maxima and lp pooling, y for the latter only.  The gradient of a
    maximum goes to the first of equal pixels."""
    for worker in prange(len(work)):
        _back_some((np.int64(worker), len(work)), gy, x, y, gx, mode, size, tables, form,
                   work[worker])
