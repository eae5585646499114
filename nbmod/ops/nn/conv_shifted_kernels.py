"""Kernels of `conv_shifted`: weighted sums of shifted planes, and dot products of shifted runs.

All arrays are flat.  `sizes` are channels and filters of a group, taps and positions of the window;
`form` and `tables` are those of `ShiftedLayout`, `plan` divides the work into jobs, and
`taps` holds the weight index and the offset of each tap.
"""

from __future__ import annotations

import numpy as np

from ..jit import inlined, kernel, prange
from ..simd.host import lanes
from ..simd.raw_arrays import STEP, stack_buffer
from .window_planes import move

__all__ = ["SPAN", "transposed_sums", "shifted_sums", "correlate"]

SPAN = 2 * lanes(np.float32)
"""Accumulators of each of four results computed together, at most STEP."""


@inlined(fastmath=True)
def _sums(source, start, w, at, terms, taps, seen, value, into, to):
    """STEP sums from into[to] on: `value` + sum over planes and taps [seen[0], seen[1]) of weight
    times shifted element; terms: number of planes, their pitch in source and in w."""
    count, far, step = terms
    total = stack_buffer(source.dtype)
    for k in range(STEP):
        total[k] = value
    for j in range(count):
        for t in range(seen[0], seen[1]):
            factor = w[np.uintp(at + j * step + taps[t, 0])]
            offset = np.uintp(start + j * far + taps[t, 1])
            for k in range(STEP):
                total[k] += factor * source[offset + np.uintp(k)]
    for k in range(STEP):
        into[np.uintp(to) + np.uintp(k)] = total[k]


@inlined(fastmath=True)
def _four_sums(source, start, w, at, terms, taps, seen, values, into, to):
    """SPAN sums of each of four results; at[1] is the pitch of their weights, to[1] their own."""
    count, far, step = terms
    kind = source.dtype
    total0, total1 = stack_buffer(kind), stack_buffer(kind)
    total2, total3 = stack_buffer(kind), stack_buffer(kind)
    for k in range(SPAN):
        total0[k], total1[k], total2[k], total3[k] = values[0], values[1], values[2], values[3]
    for j in range(count):
        for t in range(seen[0], seen[1]):
            first = np.uintp(at[0] + j * step + taps[t, 0])
            offset, other = np.uintp(start + j * far + taps[t, 1]), np.uintp(at[1])
            w0, w1 = w[first], w[first + other]
            w2, w3 = w[first + other + other], w[first + other + other + other]
            for k in range(SPAN):
                element = source[offset + np.uintp(k)]
                total0[k] += w0 * element
                total1[k] += w1 * element
                total2[k] += w2 * element
                total3[k] += w3 * element
    first, other = np.uintp(to[0]), np.uintp(to[1])
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
    """Sums [within[0], within[1]) of within[2], of one result or of four; `base` holds their
    initial values."""
    if many == 4:
        for s in range(within[0], within[1], SPAN):
            now = min(s, max(within[2] - SPAN, 0))
            _four_sums(source, start + now, w, at, terms, taps, seen,
                       (base[0], base[1], base[2], base[3]), into, (to[0] + now, to[1]))
    else:
        for s in range(within[0], within[1], STEP):
            now = min(s, max(within[2] - STEP, 0))
            _sums(source, start + now, w, at[0], terms, taps, seen, base[0], into, to[0] + now)


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
    found = zero
    for k in range(STEP):
        found += total[k]
    for i in range(whole, count):
        found += a[one + np.uintp(i)] * b[other + np.uintp(i)]
    return found


@inlined(fastmath=True)
def _four_dots(a, at, b, offsets, count):
    """The same for four offsets in b."""
    kind, zero, one = a.dtype, a.dtype.type(0), np.uintp(at)
    p0, p1, p2, p3 = (np.uintp(offsets[0]), np.uintp(offsets[1]), np.uintp(offsets[2]),
                      np.uintp(offsets[3]))
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
def _to_layout(x, work, channel, images, channels, form, tables):
    """Copy planes of a channel of some images to the layout in `work`."""
    for n in range(images[0], images[1]):
        move(x, (n * channels + channel) * form[0], work[(n - images[0]) * form[3]:], tables,
             form[1], True)


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
def _job_range(job, plan):
    """Images [first, last), group, and filters or channels [first, last) of a job."""
    images, together, groups, parts, whole = plan[0], plan[1], plan[2], plan[3], plan[4]
    part, group, first = job % parts, job // parts % groups, job // (parts * groups) * together
    return ((first, min(first + together, images)), group,
            (part * whole // parts, (part + 1) * whole // parts))


@inlined
def _forward_job(x, w, y, base, sizes, form, plan, tables, taps, share, work):
    """Lay out the input channels, then compute the filters of a job, four at a time."""
    images, group, part = share
    deep, outer, every, positions = sizes
    area, _, columns, whole, run, elements, in_place, direct, block, pitch = form
    source, far, begin, seen = work, elements, 0, (0, len(taps))
    if in_place:
        source, far, begin = x, area, (images[0] * plan[2] + group) * deep * area
    else:
        for c in range(deep):
            _to_layout(x, work[c * elements:], group * deep + c, images, plan[2] * deep, form,
                       tables)
    run += (images[1] - images[0] - 1) * whole
    found = work[0 if in_place else deep * elements + STEP:]
    terms, size = (deep, far, every), plan[2] * outer * positions
    for first in range(0, run if direct else 1, block):
        within, i = (first, min(first + block, run), run), part[0]
        while i < part[1]:
            f, many = group * outer + i, _num_together(i, part[1])
            into, to = (y, images[0] * size + f * positions) if direct else (found, 0)
            _sum_run(source, begin, w, (f * deep * every, deep * every), terms, taps, seen,
                     base[f:], into, (to, positions if direct else pitch), within, many)
            for one in range(0 if direct else many):
                for n in range(images[0], images[1]):
                    _from_plane(found[one * pitch + (n - images[0]) * whole:], y,
                             n * size + (f + one) * positions, tables[2], columns)
            i += many


@kernel(parallel=True)
def shifted_sums(x, w, y, base, sizes, form, plan, tables, taps, jobs, work):
    """y = base + w x, all flat."""
    workers = len(work)
    for worker in prange(workers):
        mine = work[worker]
        for i in range(mine.size):
            mine[i] = 0
        for job in range(np.int64(worker), jobs, workers):
            _forward_job(x, w, y, base, sizes, form, plan, tables, taps, _job_range(job, plan),
                         mine)


@inlined
def _store_gradient(planes, gx, begin, value, form, tables):
    """Copy a plane of the gradient of the data back; pixels that no window sees get `value`."""
    seen = 0
    for run in range(len(tables[1])):
        seen += tables[1][run, 2]
    if seen * len(tables[0]) < form[0]:
        for i in range(begin, begin + form[0]):
            gx[np.uintp(i)] = value
    move(gx, begin, planes, tables, form[1], False)


@inlined
def _data_job(gy, w, gx, base, sizes, form, plan, tables, taps, share, work):
    """Lay out the output gradients, then compute the channels of a job, phase by phase."""
    images, group, part = share
    deep, outer, every, positions = sizes
    area, _, columns, whole, run, elements, in_place, direct, block, pitch = form
    ahead, span = whole - run, plan[1] * whole
    source, far, begin = work, ahead + span + STEP, ahead
    if in_place:
        source, far, begin = gy, positions, (images[0] * plan[2] + group) * outer * positions
    else:
        for i in range(outer):
            for n in range(images[0], images[1]):
                _to_plane(gy, ((n * plan[2] + group) * outer + i) * positions,
                        work[i * far + ahead + (n - images[0]) * whole:], tables[2], columns)
    planes = work[0 if in_place else outer * far:]
    first, length = tables[4], (images[1] - images[0]) * whole
    terms, size = (outer, far, deep * every), plan[2] * deep * area
    for b in range(0, length if direct else 1, block):
        within, i = (b, min(b + block, length), length), part[0]
        while i < part[1]:
            c, many = group * deep + i, _num_together(i, part[1])
            into, to = (gx, images[0] * size + c * area) if direct else (planes, 0)
            for phase in range(len(first) - 1):
                _sum_run(source, begin, w, ((group * outer * deep + i) * every, every), terms, taps,
                         (first[phase], first[phase + 1]), base[c:], into,
                         (to + phase * span, area if direct else pitch), within, many)
            for one in range(0 if direct else many):
                for n in range(images[0], images[1]):
                    _store_gradient(planes[one * pitch + (n - images[0]) * whole:], gx,
                               n * size + (c + one) * area, base[c + one], form, tables)
            i += many


@kernel(parallel=True)
def transposed_sums(gy, w, gx, base, sizes, form, plan, tables, taps, jobs, work):
    """gx = base + w gy with reversed taps; all flat."""
    workers = len(work)
    for worker in prange(workers):
        mine = work[worker]
        for i in range(mine.size):
            mine[i] = 0
        for job in range(np.int64(worker), jobs, workers):
            _data_job(gy, w, gx, base, sizes, form, plan, tables, taps, _job_range(job, plan), mine)


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
def _weight_job(x, gy, gw, sizes, form, plan, tables, taps, share, channels, work):
    """Lay out the channels of a job, then add dot products with the gradient of each filter."""
    images, group, part = share
    deep, outer, every, positions = sizes
    area, _, columns, whole, run, elements, in_place, direct, block, pitch = form
    source, far, begin = work, elements, 0
    if in_place:
        source, far, begin = x, area, (images[0] * plan[2] + group) * deep * area
    else:
        for c in range(channels[0], channels[1]):
            _to_layout(x, work[c * elements:], group * deep + c, images, plan[2] * deep, form,
                       tables)
    count = run + (images[1] - images[0] - 1) * whole
    grad_plane = work[0 if in_place else deep * elements + STEP:]
    for i in range(part[0], part[1]):
        f = group * outer + i
        grad, at = grad_plane, 0
        if direct:
            grad, at = gy, (images[0] * plan[2] * outer + f) * positions
        else:
            for n in range(images[0], images[1]):
                _to_plane(gy, (n * plan[2] * outer + f) * positions,
                        grad_plane[(n - images[0]) * whole:], tables[2], columns)
        for c in range(channels[0], channels[1]):
            _dots_of(grad, at, source, begin + c * far, gw, (f * deep + c) * every, taps, count)


@kernel(parallel=True)
def correlate(x, gy, gw, sizes, form, plan, tables, taps, jobs, work):
    """gw = dot products of shifted x and gy; all flat; jobs: number of jobs, parts of channels."""
    workers = len(work)
    for worker in prange(workers):
        mine, (count, pieces) = work[worker], jobs
        for i in range(mine.size):
            mine[i] = 0
        for job in range(np.int64(worker), count, workers):
            piece, (_, group, part) = job % pieces, _job_range(job // pieces, plan)
            channels = piece * sizes[0] // pieces, (piece + 1) * sizes[0] // pieces
            for f in range(group * sizes[1] + part[0], group * sizes[1] + part[1]):
                for k in range(channels[0] * sizes[2], channels[1] * sizes[2]):
                    gw[np.uintp(f * sizes[0] * sizes[2] + k)] = 0
            for first in range(0, plan[0], plan[1]):
                images = first, min(first + plan[1], plan[0])
                _weight_job(x, gy, gw, sizes, form, plan, tables, taps, (images, group, part),
                            channels, mine)
