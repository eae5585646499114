"""Kernels of pooling: windows over planes, in long runs of neighbours.

A plane is first laid out anew (`Planes`): with its padding, and in phases, so that pixels which lie
a stride apart are neighbours.  There tap t of every window is at one distance from the window's
position, whatever the stride, and no window asks where the image ends.  So what windows are reduced
to are runs of memory, shifted and joined, and so is the gradient of the image: what the windows
that see a pixel give to it.  Runs go over the gaps between rows, where nobody reads the results.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class Planes:
    """How planes of an image under a window are laid out.

    Pixel c of an axis, counted from where the padding begins, is number c // stride of phase
    c % stride.
    """

    window: Window

    @cached_property
    def size(self) -> tuple[int, ...]:
        """Numbers of a phase along each axis: one for all positions and taps, and all pixels."""
        w = self.window
        return tuple(max(out + (wide - 1) // step, (size + pad - 1) // step + 1)
                     for out, wide, step, size, pad in zip(
                         w.out, w.kernel, w.stride, w.image, w.pad, strict=True))

    @property
    def phases(self) -> int:
        return size_of(self.window.stride)

    def at(self, z: Any, y: Any, x: Any) -> Any:
        """Where number (z, y, x) of a phase is; numbers or arrays."""
        return (z * self.size[1] + y) * self.size[2] + x

    def split(self, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The phases of pixels (3, count), and where they are in them."""
        step = np.array(self.window.stride)
        z, y, x = pixels % step[:, None]
        return (z * step[1] + y) * step[2] + x, self.at(*(pixels // step[:, None]))

    @property
    def form(self) -> tuple[int, ...]:
        """What kernels read: stride, width, width of the output; numbers from the first position to
        the last, of a phase, from a position to its last tap at most; blocks of these runs."""
        w, whole = self.window, size_of(self.size)
        run = int(self.at(*(out - 1 for out in w.out))) + 1
        ahead = int(self.at(*((k - 1) // s for k, s in zip(w.kernel, w.stride, strict=True))))
        return w.stride[2], w.image[2], w.out[2], run, whole, ahead

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        """Where the first pixels of every row of the image are, one for each remainder; where rows
        of positions are; (taps, 3), their phases, where they are in them, and the taps in the order
        of phases; in that, where phases begin, and the last ends."""
        w, whole = self.window, size_of(self.size)
        rows = np.indices((*w.image[:2], w.stride[2])).reshape(3, -1) + np.array(w.pad)[:, None]
        phase, number = self.split(rows)
        z, y = np.indices(w.out[:2]).reshape(2, -1)
        taps = self.split(np.indices(w.kernel).reshape(3, -1))
        order = np.argsort(taps[0], kind="stable")
        begin = np.searchsorted(taps[0][order], np.arange(self.phases + 1))
        return ((phase * whole + number).reshape(-1, w.stride[2]), self.at(z, y, 0),
                np.stack([*taps, order], 1), begin)

    def room(self, dtype: Any) -> Spec:
        """Scratch memory of `pool`: for every thread a plane, and its reduced windows."""
        run, whole = self.form[3:5]
        return Spec((num_threads(), self.phases * whole + run + 2 * STEP), dtype)

    def room_back(self, dtype: Any) -> Spec:
        """Scratch memory of `pool_back`: a plane; what windows give, and to which tap."""
        whole, ahead = self.form[4:6]
        padded = ahead + whole + STEP
        return Spec((num_threads(), self.phases * whole + STEP + 2 * padded), dtype)


# Unsigned indices spare the compiler the question whether they count from the end, and flat arrays
# the counting of references to parts of them.

@inlined
def _pack(image, begin, planes, places, form):
    """Lay out the pixels of a plane of `image` that begins there."""
    step, width = form[0], form[1]
    pairs = width // 2 if step == 2 and width >= 2 * LEAST else 0
    for row in range(len(places)):
        line, into = np.uintp(begin + row * width), np.uintp(places[row, 0])
        if step == 1:
            for i in range(width):
                planes[into + np.uintp(i)] = image[line + np.uintp(i)]
            continue
        if pairs:
            split(image, planes, (line, into, places[row, 1]), pairs)
        for r in range(step):
            into = np.uintp(places[row, r])
            for i in range(pairs, (width + step - 1 - r) // step):
                planes[into + np.uintp(i)] = image[line + np.uintp(r + i * step)]


@inlined
def _unpack(planes, image, begin, places, form):
    """The other way round."""
    step, width = form[0], form[1]
    pairs = width // 2 if step == 2 and width >= 2 * LEAST else 0
    for row in range(len(places)):
        line, source = np.uintp(begin + row * width), np.uintp(places[row, 0])
        if step == 1:
            for i in range(width):
                image[line + np.uintp(i)] = planes[source + np.uintp(i)]
            continue
        if pairs:
            join(planes, image, (source, places[row, 1], line), pairs)
        for r in range(step):
            source = np.uintp(places[row, r])
            for i in range(pairs, (width + step - 1 - r) // step):
                image[line + np.uintp(r + i * step)] = planes[source + np.uintp(i)]


@inlined
def _fetch(array, begin, size, part, parts):
    """Begin to bring one of the `parts` of a plane into the cache."""
    share = size // parts
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
    places, starts, taps, _ = tables
    _, width, columns, run, whole, _ = form
    area, out = len(places) * width, len(starts) * columns
    planes, found = work[:work.size - run - STEP], work[work.size - run - STEP:]
    neutral = x.dtype.type(lowest)
    for i in range(work.size):
        work[i] = neutral
    for plane in range(jobs[0], y.size // out, jobs[1]):
        _pack(x, plane * area, planes, places, form)
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
def _find_all(x, soon, planes, which, taps, form, places):
    """The first maxima of all windows of a plane."""
    run, whole, area = form[3], form[4], len(places) * form[1]
    for start in range(0, run, STEP):
        _find(planes, which, start, taps, whole)
        _fetch(x, soon, area, start // STEP, run // STEP + 1)


@inlined
def _back_some(jobs, gy, x, y, gx, mode, size, tables, form, work):
    places, starts, taps, first = tables
    _, width, columns, _, whole, ahead = form
    area, out, padded = len(places) * width, len(starts) * columns, ahead + whole + STEP
    shares, which, planes = work[:padded], work[padded:2 * padded], work[2 * padded:]
    given, found = shares[ahead:], which[ahead:]
    blocks = whole // STEP + 1
    for i in range(2 * padded):
        work[i] = 0
    for plane in range(jobs[0], gy.size // out, jobs[1]):
        _share(mode, gy, y, plane * out, size, given, starts, columns)
        if mode == MAX:
            for i in range(planes.size):
                planes[i] = -np.inf
            _pack(x, plane * area, planes, places, form)
            _find_all(x, (plane + jobs[1]) * area, planes, found, taps, form, places)
        for phase in range(len(first) - 1):
            seen = first[phase], first[phase + 1]
            for start in range(0, whole, STEP):
                if mode == MAX:
                    _give_one(shares, which, planes, phase * whole + start, start + ahead, taps,
                              seen)
                else:
                    _give(shares, planes, phase * whole + start, start + ahead, taps, seen)
                _fetch(gx, plane * area, area, phase * blocks + start // STEP,
                       (len(first) - 1) * blocks)
        _unpack(planes, gx, plane * area, places, form)
        if mode == SQUARE or mode == CUBE:
            for i in range(plane * area, (plane + 1) * area):
                gx[i] *= x[i] if mode == SQUARE else x[i] * x[i]


@kernel(parallel=True)
def pool_back(gy, x, y, gx, mode, size, tables, form, work):
    """gx from gy; x is read for maxima and lp pooling, y for the latter only.  The gradient of a
    maximum goes to the first of equal pixels."""
    for worker in prange(len(work)):
        _back_some((np.int64(worker), len(work)), gy, x, y, gx, mode, size, tables, form,
                   work[worker])
