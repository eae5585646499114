"""Kernels of `conv_shifted`: weighted sums of shifted planes, and dot products of shifted runs.

All arrays are flat.  `taps` holds the weight index and the offset of each tap; `tables` are
`PlaneTables`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit import inlined, kernel, prange
from ..simd.host import lanes
from ..simd.raw_arrays import STEP, stack_buffer
from .window_planes import PlaneTables, move

__all__ = ["SPAN", "ShiftedForm", "ShiftedPlan", "ShiftedSizes", "correlate", "shifted_sums",
           "transposed_sums"]

SPAN = 2 * lanes(np.float32)
"""Accumulators of each of four results computed together, at most STEP."""


class ShiftedSizes(NamedTuple):
    """Channels and filters of a group, taps and positions of the window."""

    channels: int
    filters: int
    taps: int
    positions: int


class ShiftedForm(NamedTuple):
    """Layout parameters of the kernels.

    area     pixels of an image; `step` the stride along a row, `columns` positions of a row
    whole    elements of an image in a phase; `run` from its first position to its last
    elements  elements of a channel
    in_place  images are read in place; `direct`: the result is written in place
    block    elements of the result per pass over the channels or filters
    pitch    distance of consecutive results in the workspace
    """

    area: int
    step: int
    columns: int
    whole: int
    run: int
    elements: int
    in_place: bool
    direct: bool
    block: int
    pitch: int


class ShiftedPlan(NamedTuple):
    """Images, images laid out together, groups, parts into which the filters of a group (for the
    gradient of the data, its channels) are divided, and their number."""

    images: int
    together: int
    groups: int
    parts: int
    whole: int


class ShiftedJob(NamedTuple):
    """Images [image, end), group, and filters or channels [first, last) of it."""

    image: int
    end: int
    group: int
    first: int
    last: int


@inlined(fastmath=True)
def _sums(source, start, w, at, terms, taps, seen, value, into, to):
    """STEP sums from into[to] on: `value` + sum over planes and taps `seen`, first and last, of
    weight times shifted element; terms: number of planes, their pitch in source and in w."""
    (count, far, step), (first, last) = terms, seen
    total = stack_buffer(source.dtype)
    for k in range(STEP):
        total[k] = value
    for j in range(count):
        for t in range(first, last):
            factor = w[np.uintp(at + j * step + taps[t, 0])]
            offset = np.uintp(start + j * far + taps[t, 1])
            for k in range(STEP):
                total[k] += factor * source[offset + np.uintp(k)]
    for k in range(STEP):
        into[np.uintp(to) + np.uintp(k)] = total[k]


@inlined(fastmath=True)
def _four_sums(source, start, w, at, terms, taps, seen, values, into, to):
    """SPAN sums of each of four results; `at` and `to` have the pitches of their weights and their
    own."""
    (count, far, step), (begin, end), (v0, v1, v2, v3) = terms, seen, values
    (w_at, w_pitch), (into_at, into_pitch), kind = at, to, source.dtype
    total0, total1 = stack_buffer(kind), stack_buffer(kind)
    total2, total3 = stack_buffer(kind), stack_buffer(kind)
    for k in range(SPAN):
        total0[k], total1[k], total2[k], total3[k] = v0, v1, v2, v3
    for j in range(count):
        for t in range(begin, end):
            first = np.uintp(w_at + j * step + taps[t, 0])
            offset, other = np.uintp(start + j * far + taps[t, 1]), np.uintp(w_pitch)
            w0, w1 = w[first], w[first + other]
            w2, w3 = w[first + other + other], w[first + other + other + other]
            for k in range(SPAN):
                element = source[offset + np.uintp(k)]
                total0[k] += w0 * element
                total1[k] += w1 * element
                total2[k] += w2 * element
                total3[k] += w3 * element
    first, other = np.uintp(into_at), np.uintp(into_pitch)
    for k in range(SPAN):
        into[first + np.uintp(k)] = total0[k]
    for k in range(SPAN):
        into[first + other + np.uintp(k)] = total1[k]
    for k in range(SPAN):
        into[first + other + other + np.uintp(k)] = total2[k]
    for k in range(SPAN):
        into[first + other + other + other + np.uintp(k)] = total3[k]


@inlined
def _sum_run(source, start, w, at, terms, taps, seen, base, into, to, within, many):
    """Sums `within`, first and last of how many, of one result or of four; `base` holds their
    initial values."""
    (first, last, length), (w_at, _), (into_at, pitch) = within, at, to
    if many == 4:
        v0, v1, v2, v3 = base[:4]
        for s in range(first, last, SPAN):
            now = min(s, max(length - SPAN, 0))
            _four_sums(source, start + now, w, at, terms, taps, seen, (v0, v1, v2, v3), into,
                       (into_at + now, pitch))
    else:
        for s in range(first, last, STEP):
            now = min(s, max(length - STEP, 0))
            _sums(source, start + now, w, w_at, terms, taps, seen, base[0], into, into_at + now)


@inlined(fastmath=True)
def _dot(a, at, b, to, count):
    """Sum of a[at + i] b[to + i]."""
    total, one, other, zero = stack_buffer(a.dtype), np.uintp(at), np.uintp(to), a.dtype.type(0)
    for k in range(STEP):
        total[k] = zero
    whole = count // STEP * STEP
    for i in range(0, whole, STEP):
        for k in range(STEP):
            total[k] += a[one + np.uintp(i + k)] * b[other + np.uintp(i + k)]
    product = zero
    for k in range(STEP):
        product += total[k]
    for i in range(whole, count):
        product += a[one + np.uintp(i)] * b[other + np.uintp(i)]
    return product


@inlined(fastmath=True)
def _four_dots(a, at, b, offsets, count):
    """Four sums of a[at + i] b[offset + i], for four offsets in b."""
    kind, zero, one, (o0, o1, o2, o3) = a.dtype, a.dtype.type(0), np.uintp(at), offsets
    p0, p1, p2, p3 = np.uintp(o0), np.uintp(o1), np.uintp(o2), np.uintp(o3)
    total0, total1 = stack_buffer(kind), stack_buffer(kind)
    total2, total3 = stack_buffer(kind), stack_buffer(kind)
    for k in range(SPAN):
        total0[k], total1[k], total2[k], total3[k] = zero, zero, zero, zero
    whole = count // SPAN * SPAN
    for start in range(0, whole, SPAN):
        for k in range(SPAN):
            i = np.uintp(start + k)
            total0[k] += a[one + i] * b[p0 + i]
            total1[k] += a[one + i] * b[p1 + i]
            total2[k] += a[one + i] * b[p2 + i]
            total3[k] += a[one + i] * b[p3 + i]
    s0, s1, s2, s3 = zero, zero, zero, zero
    for k in range(SPAN):
        s0, s1, s2, s3 = s0 + total0[k], s1 + total1[k], s2 + total2[k], s3 + total3[k]
    for last in range(whole, count):
        i = np.uintp(last)
        s0, s1 = s0 + a[one + i] * b[p0 + i], s1 + a[one + i] * b[p1 + i]
        s2, s3 = s2 + a[one + i] * b[p2 + i], s3 + a[one + i] * b[p3 + i]
    return s0, s1, s2, s3


@inlined
def _to_layout(x, work, channel, job, channels, form, tables):
    """Copy planes of a channel of the images of a job to the layout in `work`."""
    for n in range(job.image, job.end):
        move(x, (n * channels + channel) * form.area, work[(n - job.image) * form.whole:], tables,
             form.step, True)


@inlined
def _to_plane(gy, begin, work, starts, columns):
    """Copy the positions of an output to their elements of a plane."""
    for row in range(len(starts)):
        source, target = np.uintp(begin + row * columns), np.uintp(starts[row])
        for i in range(columns):
            work[target + np.uintp(i)] = gy[source + np.uintp(i)]


@inlined
def _from_plane(work, y, begin, starts, columns):
    """The inverse of `_to_plane`."""
    for row in range(len(starts)):
        source, target = np.uintp(starts[row]), np.uintp(begin + row * columns)
        for i in range(columns):
            y[target + np.uintp(i)] = work[source + np.uintp(i)]


@inlined
def _num_together(i, end):
    """Number of results accumulated together from result i on."""
    return 4 if i + 4 <= end else 1


@inlined
def _nth_job(job, plan):
    part, group = job % plan.parts, job // plan.parts % plan.groups
    image = job // (plan.parts * plan.groups) * plan.together
    return ShiftedJob(image, min(image + plan.together, plan.images), group,
                      part * plan.whole // plan.parts, (part + 1) * plan.whole // plan.parts)


@inlined
def _forward_job(x, w, y, base, sizes, form, groups, tables, taps, job, work):
    """Lay out the input channels, then compute the filters of a job, four at a time."""
    deep, outer, every, positions = sizes
    source, far, begin, seen = work, form.elements, 0, (0, len(taps))
    if form.in_place:
        source, far, begin = x, form.area, (job.image * groups + job.group) * deep * form.area
    else:
        for c in range(deep):
            _to_layout(x, work[c * form.elements:], job.group * deep + c, job, groups * deep, form,
                       tables)
    run = form.run + (job.end - job.image - 1) * form.whole
    planes = work[0 if form.in_place else deep * form.elements + STEP:]
    terms, size = (deep, far, every), groups * outer * positions
    for first in range(0, run if form.direct else 1, form.block):
        within, i = (first, min(first + form.block, run), run), job.first
        while i < job.last:
            f, many = job.group * outer + i, _num_together(i, job.last)
            into, to = (y, job.image * size + f * positions) if form.direct else (planes, 0)
            _sum_run(source, begin, w, (f * deep * every, deep * every), terms, taps, seen,
                     base[f:], into, (to, positions if form.direct else form.pitch), within, many)
            for one in range(0 if form.direct else many):
                for n in range(job.image, job.end):
                    _from_plane(planes[one * form.pitch + (n - job.image) * form.whole:], y,
                                n * size + (f + one) * positions, tables.starts, form.columns)
            i += many


@kernel(parallel=True)
def shifted_sums(x, w, y, base, sizes, form, plan, tables, taps, jobs, work):
    """y = base + w x, all flat; see `ShiftedSizes`, `ShiftedForm`, `ShiftedPlan`."""
    form, plan, tables = ShiftedForm(*form), ShiftedPlan(*plan), PlaneTables(*tables)
    workers = len(work)
    for worker in prange(workers):
        mine = work[worker]
        for i in range(mine.size):
            mine[i] = 0
        for job in range(np.int64(worker), jobs, workers):
            _forward_job(x, w, y, base, sizes, form, plan.groups, tables, taps,
                         _nth_job(job, plan), mine)


@inlined
def _store_gradient(planes, gx, begin, value, form, tables):
    """Copy a plane of the gradient of the data back; pixels that no window sees get `value`."""
    if tables.runs[:, 2].sum() * len(tables.rows) < form.area:
        for i in range(begin, begin + form.area):
            gx[np.uintp(i)] = value
    move(gx, begin, planes, tables, form.step, False)


@inlined
def _data_job(gy, w, gx, base, sizes, form, plan, tables, taps, job, work):
    """Lay out the output gradients, then compute the channels of a job, phase by phase."""
    deep, outer, every, positions = sizes
    area, whole, pitch, groups = form.area, form.whole, form.pitch, plan.groups
    ahead, span = whole - form.run, plan.together * whole
    source, far, begin = work, ahead + span + STEP, ahead
    if form.in_place:
        source, far, begin = gy, positions, (job.image * groups + job.group) * outer * positions
    else:
        for i in range(outer):
            for n in range(job.image, job.end):
                _to_plane(gy, ((n * groups + job.group) * outer + i) * positions,
                          work[i * far + ahead + (n - job.image) * whole:], tables.starts,
                          form.columns)
    planes = work[0 if form.in_place else outer * far:]
    bounds, length = tables.bounds, (job.end - job.image) * whole
    terms, size = (outer, far, deep * every), groups * deep * area
    for b in range(0, length if form.direct else 1, form.block):
        within, i = (b, min(b + form.block, length), length), job.first
        while i < job.last:
            c, many = job.group * deep + i, _num_together(i, job.last)
            into, to = (gx, job.image * size + c * area) if form.direct else (planes, 0)
            for phase in range(len(bounds) - 1):
                _sum_run(source, begin, w, ((job.group * outer * deep + i) * every, every), terms,
                         taps, (bounds[phase], bounds[phase + 1]), base[c:], into,
                         (to + phase * span, area if form.direct else pitch), within, many)
            for one in range(0 if form.direct else many):
                for n in range(job.image, job.end):
                    _store_gradient(planes[one * pitch + (n - job.image) * whole:], gx,
                                    n * size + (c + one) * area, base[c + one], form, tables)
            i += many


@kernel(parallel=True)
def transposed_sums(gy, w, gx, base, sizes, form, plan, tables, taps, jobs, work):
    """gx = base + w gy with reversed taps; all flat."""
    form, plan, tables = ShiftedForm(*form), ShiftedPlan(*plan), PlaneTables(*tables)
    workers = len(work)
    for worker in prange(workers):
        mine = work[worker]
        for i in range(mine.size):
            mine[i] = 0
        for job in range(np.int64(worker), jobs, workers):
            _data_job(gy, w, gx, base, sizes, form, plan, tables, taps, _nth_job(job, plan), mine)


@inlined
def _dots_of(grad, at, source, begin, gw, to, taps, count):
    """Add to the gradient of all taps of a filter over a channel."""
    t = 0
    while t + 4 <= len(taps):
        s0, s1, s2, s3 = _four_dots(grad, at, source, (
            begin + taps[t, 1], begin + taps[t + 1, 1], begin + taps[t + 2, 1],
            begin + taps[t + 3, 1]), count)
        gw[np.uintp(to + taps[t, 0])] += s0
        gw[np.uintp(to + taps[t + 1, 0])] += s1
        gw[np.uintp(to + taps[t + 2, 0])] += s2
        gw[np.uintp(to + taps[t + 3, 0])] += s3
        t += 4
    while t < len(taps):
        gw[np.uintp(to + taps[t, 0])] += _dot(grad, at, source, begin + taps[t, 1], count)
        t += 1


@inlined
def _weight_job(x, gy, gw, sizes, form, groups, tables, taps, job, channels, work):
    """Lay out the channels of a job, then add dot products with the gradient of each filter."""
    (deep, outer, every, positions), (low, high) = sizes, channels
    source, far, begin = work, form.elements, 0
    if form.in_place:
        source, far, begin = x, form.area, (job.image * groups + job.group) * deep * form.area
    else:
        for c in range(low, high):
            _to_layout(x, work[c * form.elements:], job.group * deep + c, job, groups * deep, form,
                       tables)
    count = form.run + (job.end - job.image - 1) * form.whole
    grad_plane = work[0 if form.in_place else deep * form.elements + STEP:]
    for i in range(job.first, job.last):
        f = job.group * outer + i
        grad, at = grad_plane, 0
        if form.direct:
            grad, at = gy, (job.image * groups * outer + f) * positions
        else:
            for n in range(job.image, job.end):
                _to_plane(gy, (n * groups * outer + f) * positions,
                          grad_plane[(n - job.image) * form.whole:], tables.starts, form.columns)
        for c in range(low, high):
            _dots_of(grad, at, source, begin + c * far, gw, (f * deep + c) * every, taps, count)


@kernel(parallel=True)
def correlate(x, gy, gw, sizes, form, plan, tables, taps, jobs, work):
    """gw = dot products of shifted x and gy; all flat; jobs: number of jobs, parts of channels."""
    form, plan, tables = ShiftedForm(*form), ShiftedPlan(*plan), PlaneTables(*tables)
    workers, (deep, outer, every, _) = len(work), sizes
    for worker in prange(workers):
        mine, (count, pieces) = work[worker], jobs
        for i in range(mine.size):
            mine[i] = 0
        for job in range(np.int64(worker), count, workers):
            piece, whole = job % pieces, _nth_job(job // pieces, plan)
            low, high = piece * deep // pieces, (piece + 1) * deep // pieces
            for f in range(whole.group * outer + whole.first, whole.group * outer + whole.last):
                for k in range(low * every, high * every):
                    gw[np.uintp(f * deep * every + k)] = 0
            for image in range(0, plan.images, plan.together):
                some = ShiftedJob(image, min(image + plan.together, plan.images), whole.group,
                                  whole.first, whole.last)
                _weight_job(x, gy, gw, sizes, form, plan.groups, tables, taps, some, (low, high),
                            mine)
