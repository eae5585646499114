"""Kernels of pooling: windows over planes, in long runs of neighbours.

A plane is first laid out anew (see `planes`).  What windows are reduced to are runs of memory,
shifted and joined, and so is the gradient of the image: what the windows that see a pixel give to
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..op import Spec
from ..shape import size_of
from ..simd.pixel_rows import fetch
from ..simd.raw_arrays import STEP, room
from .window_planes import Planes, move

__all__ = ["AVG", "CUBE", "MAX", "SQUARE", "SUM", "pool", "pool_back", "pool_back_room",
           "pool_room"]

MAX, AVG, SUM, SQUARE, CUBE = range(5)
"""What windows are reduced to; SQUARE and CUBE are lp pooling with p 2 and 3, SUM with p 1."""
LINE = 16
"""Numbers that `fetch` brings, or more."""
EACH = 24
"""Pixels to which a tap is compared in the time in which a window finds the one it gives to."""
SOON = 1 << 16
"""Numbers of a plane that are brought ahead: what second caches hold."""


def pool_room(planes: Planes, dtype: Any) -> Spec:
    """Scratch memory of `pool`: for every thread a plane, and its reduced windows."""
    return Spec((num_threads(), planes.numbers + planes.form[3] + 2 * STEP), dtype)


def pool_back_room(planes: Planes, dtype: Any) -> Spec:
    """Scratch memory of `pool_back`: a plane; what windows give, and to which tap."""
    padded = planes.form[4] + size_of(planes.size) + STEP
    return Spec((num_threads(), planes.numbers + STEP + 2 * padded), dtype)


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
        move(x, plane * area, planes, tables, step, True)
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
    move(gx, begin, planes, tables, step, False)
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
            move(x, plane * area, planes, tables, step, True)
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
