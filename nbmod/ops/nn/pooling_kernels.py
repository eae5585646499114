"""Kernels of pooling: reductions of windows over planes, vectorised along positions.

A plane is first copied to a padded polyphase layout (see `window_planes`), in which a tap is a
constant offset: the sum of a window, and the gradient of a pixel, are sums of shifted runs.

Sums and maxima of windows are separable: where windows are large, one pass reduces along each axis,
with kx + ky + kz terms instead of kx ky kz.  A maximum of k elements is one of the maxima of blocks
that cover them, of which all windows together need few: about 2 sqrt(k) terms instead of k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..op import Spec
from ..shape import size_of
from ..simd.pixel_rows import prefetch_line
from ..simd.raw_arrays import STEP
from .pooling_reductions import add, add_labelled, find_along, find_largest, largest
from .sliding_window import Triple, three
from .window_planes import PlaneTables, WindowPlanes, flat, move

__all__ = ["AVG", "CUBE", "MAX", "SQUARE", "SUM", "PoolPass", "Passes", "axis_passes",
           "backward_passes", "forward_passes", "pool", "pool_back", "terms", "workspace"]

MAX, AVG, SUM, SQUARE, CUBE = range(5)
"""Reductions of windows; SQUARE and CUBE are lp pooling with p 2 and 3, SUM with p 1."""
LINE = 16
"""Elements of a cache line, at least."""
SCATTER_PIXELS = 24
"""Pixels that a tap is compared with in the time that a window takes to scatter its gradient."""
SUM_TERMS = 3
"""Terms that are computed in the time that a sum takes to begin and to be stored."""
PREFETCHED = 1 << 16
"""Most elements of a plane that is prefetched: it fits the L2 cache."""
PLANES, SHARES, SUMS, LABELS = 0, 1, 2, 4
"""Buffers of a thread in backward: planes, gradients of windows; from here on two partial
reductions; two arrays of labels."""


# ------------------------------------------------------------------------------------------- tables

class Passes(NamedTuple):
    """Reductions of planes, one after another.

    sizes    (passes, 4): planes, phases that each is reduced from (backward: spread to), the first
             span of each pass, and whether its terms are reductions of blocks
    offsets  of the taps
    labels   index of each tap in the whole window, taps of other axes being 0
    spans    bounds of the taps of each span in `offsets`; a span has all phases in forward, one in
             backward
    """

    sizes: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    spans: np.ndarray


class PoolPass(NamedTuple):
    """A reduction along one axis, or along all of them.

    taps (3, n); the phases that it reduces to one along each axis; sums of each plane in forward;
    whether its terms are reductions of blocks, which overlap or alternate.
    """

    taps: np.ndarray
    phases: Triple
    sums: int
    of_blocks: bool = False

    @property
    def cost(self) -> int:
        """Terms of all sums, and what each sum takes besides."""
        return (self.taps.shape[1] + SUM_TERMS) * self.sums


def axis_passes(planes: WindowPlanes, is_max: bool = False) -> list[PoolPass]:
    """The passes of forward: all axes at once, or one after another where that takes fewer terms.

    Windows of maxima may be covered by overlapping blocks: a first pass reduces these, a second one
    the blocks of a window.
    """
    return min(_candidates(planes, is_max), key=terms)


def _candidates(planes: WindowPlanes, is_max: bool) -> list[list[PoolPass]]:
    """The passes over all axes at once, and those over one after another."""
    kernel, whole, run = planes.window.kernel, size_of(planes.size), planes.form.run
    phases = three(planes.phases, 1)
    direct = [PoolPass(np.indices(kernel).reshape(3, -1), phases, run)]
    axes = [axis for axis in (2, 1, 0) if kernel[axis] > 1]
    split = []
    for axis in axes:
        sums = run if axis == axes[-1] else whole * size_of(phases[:axis])
        taps = np.indices(_along(axis, kernel)).reshape(3, -1)
        one = [PoolPass(taps, _along(axis, phases), sums)]
        split += _in_blocks(one[0], axis, planes) if is_max else one
    return [direct, split] if split else [direct]


def _along(axis: int, values: Triple) -> Triple:
    """The value of an axis, and 1 for the others."""
    first, second, third = (value if i == axis else 1 for i, value in enumerate(values))
    return first, second, third


def _in_blocks(one: PoolPass, axis: int, planes: WindowPlanes) -> list[PoolPass]:
    """The reduction of maxima along an axis by way of blocks, if that is estimated to be faster."""
    taps, step = planes.window.kernel[axis], planes.window.stride[axis]
    blocks = size_of(planes.phases[:axis + 1]) * size_of(planes.size)
    of_phase = [-(-(taps - first) // step) for first in range(planes.phases[axis])]
    costs = {size: (size + SUM_TERMS) * blocks
             + (sum(-(-count // size) for count in of_phase) + SUM_TERMS) * one.sums
             for size in range(2, of_phase[-1] + 1)}
    size = min(costs, key=lambda size: costs[size], default=0)
    if not size or costs[size] >= one.cost:
        return [one]
    # blocks of each phase, the last of which ends where the phase does
    first = [(phase + step * min(start, count - size)) for phase, count in enumerate(of_phase)
             for start in range(0, count, size)]
    unit = np.eye(3, dtype=np.int64)[:, axis, None]
    return [PoolPass(unit * np.arange(size) * step, (1, 1, 1), blocks),
            PoolPass(unit * np.array(first), one.phases, one.sums, True)]


def terms(passes: list[PoolPass]) -> int:
    """Terms of all sums of a plane in forward."""
    return sum(each.taps.shape[1] * each.sums for each in passes)


def _terms_back(passes: list[PoolPass]) -> int:
    """Terms of a pixel's gradient, and of the partial sums that it needs: all pixels of a phase
    have one for each tap of the phase, whether a window is there or not."""
    terms, phases = 0, 1
    for each in reversed(passes):
        terms += each.taps.shape[1] * phases
        phases *= size_of(each.phases)
    return terms


def forward_passes(planes: WindowPlanes, is_max: bool) -> Passes:
    """From all phases of a plane to its windows; the last axis first, or all axes at once."""
    return _passes(planes, axis_passes(planes, is_max), False)


def backward_passes(planes: WindowPlanes, at_once: bool) -> Passes:
    """From gradients of windows to all phases of a plane; the first axis first, or all at once."""
    candidates = _candidates(planes, False)[:1 if at_once else 2]
    return _passes(planes, min(candidates, key=_terms_back)[::-1], True)


def _passes(planes: WindowPlanes, passes: list[PoolPass], backward: bool) -> Passes:
    """Tables of the passes; backward, taps are sorted by phase and offsets negated."""
    whole, left, before = size_of(planes.size), size_of(planes.phases), 1
    step, far = (np.array(each)[:, None] for each in (planes.window.stride, planes.window.dilate))
    sizes, offsets, labels, spans = [], [], [], [0]
    for taps, phases, _, of_blocks in passes:
        count = size_of(phases)
        label = flat([*taps], planes.window.kernel)
        phase, number = flat([*taps * far % step], phases), flat([*taps * far // step], planes.size)
        left //= count
        sizes.append((before if backward else left, count, len(spans) - 1, of_blocks))
        before *= count
        if backward:
            order = np.argsort(phase, kind="stable")
            ends = np.searchsorted(phase[order], np.arange(count), "right")
            labels.append(label[order])
            offsets.append(-number[order])
        else:
            ends = np.array([len(phase)])
            labels.append(label)
            offsets.append(phase * whole + number)
        spans += (spans[-1] + ends).tolist()
    return Passes(np.array(sizes), np.concatenate(offsets), np.concatenate(labels),
                  np.array(spans))


def workspace(planes: WindowPlanes, dtype: np.dtype, mode: int, backward: bool) -> Spec:
    """Buffers of every thread: a plane and up to two partial reductions; backward also gradients of
    windows, and for maxima two arrays of labels.

    The last vectors of a pass read beyond what the pass before has written: `form.ahead` elements,
    and in backward as many again, because planes begin after the zeros that taps read there.
    """
    buffers = 1 + min(len(axis_passes(planes, is_max=mode == MAX)), 2)
    margin = planes.form.ahead
    if backward:
        buffers, margin = 6 if mode == MAX else 4, 2 * margin
    return Spec((num_threads(), buffers, margin + planes.elements + 2 * STEP), dtype)


@inlined
def _prefetch_part(array, begin, size, part, parts):
    """Prefetch one of the `parts` of a plane, or of as much as the cache holds."""
    share = min(size, PREFETCHED) // parts
    for i in range(begin + part * share, begin + (part + 1) * share, LINE):
        prefetch_line(array, i)


# ------------------------------------------------------------------------------------ padded planes

@inlined
def _finish(mode, windows, y, begin, size, starts, columns):
    """Write reduced windows to a plane of y: divide means, take roots."""
    for row in range(len(starts)):
        source, line = np.uintp(starts[row]), np.uintp(row * columns)
        out = line + np.uintp(begin)
        if mode == AVG:
            for i in range(columns):
                y[out + np.uintp(i)] = windows[source + np.uintp(i)] / size[line + np.uintp(i)]
        elif mode == SQUARE:
            for i in range(columns):
                y[out + np.uintp(i)] = np.sqrt(windows[source + np.uintp(i)])
        elif mode == CUBE:
            for i in range(columns):
                y[out + np.uintp(i)] = np.cbrt(windows[source + np.uintp(i)])
        else:
            for i in range(columns):
                y[out + np.uintp(i)] = windows[source + np.uintp(i)]


@inlined
def _pool_some(worker, workers, x, y, lowest, size, mode, tables, form, passes, work):
    """Pool planes `worker`, worker + workers, ...: lay out, reduce pass by pass, finish."""
    tables, passes = PlaneTables(*tables), Passes(*passes)
    step, area, columns, run, ahead = form
    whole, out, last = run + ahead, len(tables.starts) * columns, len(passes.sizes) - 1
    planes, neutral = work[PLANES], x.dtype.type(lowest)
    for i in range(planes.size):
        planes[i] = neutral
    for plane in range(worker, y.size // out, workers):
        move(x, plane * area, planes, tables, step, True)
        if mode == SQUARE or mode == CUBE:
            for i in range(planes.size):
                planes[i] *= planes[i] if mode == SQUARE else planes[i] * planes[i]
        source = planes
        for p in range(last + 1):
            into = work[1 + p % 2]
            count, phases, span, _ = passes.sizes[p]
            taps = passes.spans[span], passes.spans[span + 1]
            length = run if p == last else whole
            for q in range(count):
                for start in range(0, length, STEP):
                    first, to = q * phases * whole + start, q * whole + start
                    if mode == MAX:
                        largest(source, first, passes.offsets, taps, neutral, into, to)
                    else:
                        add(source, first, passes.offsets, taps, into, to)
                    if p == last:
                        parts = run // STEP + 1
                        _prefetch_part(x, (plane + workers) * area, area, start // STEP, parts)
                        _prefetch_part(y, plane * out, out, start // STEP, parts)
            source = into
        _finish(mode, source, y, plane * out, size, tables.starts, columns)


@kernel(parallel=True)
def pool(x, y, lowest, size, mode, tables, form, passes, work):
    """y from x, planes one after another; a reduction starts with `lowest`, a mean is divided by
    the `size` of its window."""
    for worker in prange(len(work)):
        _pool_some(np.int64(worker), len(work), x, y, lowest, size, mode, tables, form, passes,
                   work[worker])


@inlined
def _window_gradients(mode, gy, y, begin, size, shares, starts, columns):
    """Gradient that each window of a plane passes to its pixels, without the powers of lp."""
    zero = gy.dtype.type(0)
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
                shares[into + np.uintp(i)] = share if power != 0 else zero
        else:
            for i in range(columns):
                shares[into + np.uintp(i)] = gy[grad + np.uintp(i)]


@inlined
def _scatter_singly(shares, which, planes, layout, taps, starts, columns):
    """Scatter the gradient of each window to its one tap: for many taps, or few windows."""
    zero, (ahead, whole) = planes.dtype.type(0), layout
    for i in range(planes.size):
        planes[i] = zero
    for row in range(len(starts)):
        for i in range(ahead + starts[row], ahead + starts[row] + columns):
            t = np.int64(which[np.uintp(i)])
            if t >= 0:
                planes[np.uintp(taps[t, 0] * whole + taps[t, 1] + i)] += shares[np.uintp(i)]


@inlined
def _store_gradient(planes, gx, x, begin, mode, tables, step, area):
    """Copy the gradient of a plane back, 0 where no window sees a pixel; for lp pooling, multiply
    by powers of the pixels."""
    rows, runs = tables.rows, tables.runs
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
def _find_maxima(planes, work, find, whole, run, ahead):
    """The labels of the first maxima of all windows of a plane."""
    source, which, last = planes, work[LABELS], len(find.sizes) - 1
    for p in range(last + 1):
        into, labels = work[SUMS + p % 2], work[LABELS + p % 2]
        count, phases, span, of_blocks = find.sizes[p]
        taps = find.spans[span], find.spans[span + 1]
        for q in range(count):
            for start in range(ahead, ahead + (run if p == last else whole), STEP):
                first, to = q * phases * whole + start, q * whole + start
                if p == 0:
                    find_largest(source, first, find.offsets, find.labels, taps, into, labels, to)
                elif of_blocks:
                    find_along(source, which, first, find.offsets, find.labels, taps, into, labels,
                               to, True)
                else:
                    find_along(source, which, first, find.offsets, find.labels, taps, into, labels,
                               to, False)
        source, which = into, labels
    return which


@inlined
def _scatter_passes(shares, which, work, scatter, mode, whole, ahead, gx, begin, area):
    """The gradient of a plane, along one axis after another, while gx is prefetched."""
    source, last, blocks = shares, len(scatter.sizes) - 1, whole // STEP + 1
    for p in range(last + 1):
        into = work[PLANES] if p == last else work[SUMS + p % 2]
        count, phases, span, _ = scatter.sizes[p]
        for q in range(count * phases):
            one = span + q % phases
            taps = scatter.spans[one], scatter.spans[one + 1]
            for start in range(ahead, ahead + whole, STEP):
                first, to = q // phases * whole + start, q * whole + start
                if mode == MAX:
                    add_labelled(source, which, first, scatter.offsets, scatter.labels, taps, into,
                                 to)
                else:
                    add(source, first, scatter.offsets, taps, into, to)
                if p == last:
                    _prefetch_part(gx, begin, area, q * blocks + (start - ahead) // STEP,
                           count * phases * blocks)
        source = into


@inlined
def _back_some(worker, gy, x, y, gx, size, mode, tables, form, passes, work):
    """Gradients of planes `worker`, worker + len(work), ...: find the maxima, scatter, finish."""
    workers, work, tables, (find, scatter) = len(work), work[worker], PlaneTables(*tables), passes
    find, scatter, (step, area, columns, run, ahead) = Passes(*find), Passes(*scatter), form
    whole, starts = run + ahead, tables.starts
    out, blocks = len(starts) * columns, whole // STEP + 1
    planes, shares, which = work[PLANES], work[SHARES], work[-1]
    singly = mode == MAX and SCATTER_PIXELS * out < len(tables.taps) * blocks * STEP
    for buffer in range(SHARES, len(work)):
        for i in range(shares.size if buffer == SHARES else ahead):
            work[buffer, i] = 0
    for plane in range(worker, gy.size // out, workers):
        _window_gradients(mode, gy, y, plane * out, size, shares[ahead:], starts, columns)
        if mode == MAX:
            for i in range(planes.size):
                planes[i] = -np.inf
            move(x, plane * area, planes[ahead:], tables, step, True)
            which = _find_maxima(planes, work, find, whole, run, ahead)
        if singly:
            _scatter_singly(shares, which, planes, (ahead, whole), tables.taps, starts, columns)
        else:
            _scatter_passes(shares, which, work, scatter, mode, whole, ahead, gx, plane * area,
                            area)
        _store_gradient(planes[ahead:], gx, x, plane * area, mode, tables, step, area)


@kernel(parallel=True)
def pool_back(gy, x, y, gx, size, mode, tables, form, passes, work):
    """gx from gy; x is read for maxima and lp pooling, y for the latter only.  The gradient of a
    maximum goes to the first of equal pixels; `passes` find maxima, and scatter gradients."""
    for worker in prange(len(work)):
        _back_some(np.int64(worker), gy, x, y, gx, size, mode, tables, form, passes, work)
