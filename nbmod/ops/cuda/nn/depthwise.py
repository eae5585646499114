"""Depthwise convolution: every channel has its own few filters, so there is no matrix to multiply.

A thread makes one element of an output in several images: where a tap of the window looks, and what
the filter has there, is found out once for all of them.  It gathers, in the order of taps, for the
output as for the gradient of the data, which differ in what is read where:

    output    of (filter, position)    reads the one channel of that filter
    data      of (channel, pixel)      reads the gradients of the channel's filters

The gradient of a filter is a sum over all positions of all images: blocks take pieces of them, a
thread keeps the sums of all taps, and another kernel adds the pieces in order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ...nn.sliding_window import Geometry
from ..elementwise.group_stats import Cells
from ..lib.block_reduce import LANES, tree_function
from ..lib.epilogue import Tail
from ..lib.kernel_math import minimum
from ..runtime.launch import SIMULATED, Launch, cuda, device_function, each, kernel, thread, threads
from .sliding_window import Case, place_function, reaches_function, sees_function

__all__ = ["applies", "cells_of", "gather", "weight_gradient"]

FEW = 16
"""Filters of a channel from which a product is better: a quarter of the rows of its tiles."""

IMAGES = (2,) if SIMULATED else (8, 4, 2)
ENOUGH = 16 if SIMULATED else 1 << 18
"""A thread takes as many images as leave so many threads, which keep a large card busy."""

TAPS = 4 if SIMULATED else 32
"""Sums that a thread keeps in registers."""


def applies(geo: Geometry) -> bool:
    """Whether these kernels are the better ones."""
    return geo.group_channels == 1 and geo.group_filters < FEW


@cache
def _gather_kernel(case: Case, forward: bool, tail: Tail, several: int) -> Any:
    geo, real = case.geo, case.real
    window, times, taps = geo.window, geo.group_filters, geo.window.taps
    source, target = (case.x, case.y) if forward else (case.y, case.x)
    own = window.out if forward else window.image
    where = sees_function(case) if forward else reaches_function(case)
    place, weight = place_function(target, own), place_function(case.w, window.kernel)
    planes, points = geo.filters if forward else geo.channels, own[0] * own[1] * own[2]
    sources, last = 1 if forward else times, target.channel == 1
    of_image, of_plane, finish = source.image, source.channel, tail.function(real)

    @kernel
    def depthwise(w, x, bias, other, y, add, n):
        totals = cuda.local.array(several, real)
        for i in range(thread(), n, threads()):
            plane = i % planes if last else i // points % planes
            point = i // planes % points if last else i % points
            first = i // (planes * points) * several
            for k in range(several):
                totals[k] = real(0)
            for m in range(sources):
                filter_ = plane if forward else plane * times + m
                base = (plane // times if forward else filter_) * of_plane
                for t in range(taps):
                    inside, at = where(point, t)
                    if inside:
                        factor = real(w[weight(filter_, 0, t)])
                        for k in range(several):
                            totals[k] += factor * real(x[(first + k) * of_image + base + at])
            for k in range(several):
                at = place(first + k, plane, point)
                total = finish(totals[k], bias, plane, other, at)
                y[at] = real(y[at]) + total if add else total
    return depthwise


def gather(case: Case, forward: bool, arrays: tuple[Any, ...], tail: Tail, add: bool
           ) -> list[Launch]:
    """Launches that write the output, or the gradient of the data, or add to it; `arrays` are
    those of the products of `convolution`."""
    images, number = case.geo.images, arrays[-1].size
    several = next((k for k in IMAGES if images % k == 0 and number // k >= ENOUGH), 1)
    make = _gather_kernel(case, forward, tail, several)
    return each(make, number // several, *arrays, add)


# -- the gradient of filters --------------------------------------------------------------------


def cells_of(case: Case) -> Cells:
    """The elements of the output's gradient as cells, one for each filter."""
    geo, positions = case.geo, case.geo.window.positions
    if case.y.channel == 1:
        return Cells.channels((geo.positions, geo.filters), 1)
    return Cells.channels((geo.images, geo.filters, positions), 1)


def _look_function(case: Case, first: int, count: int) -> Any:
    """look(x, g, image, filter, position, totals): add to `totals` g times what taps see there."""
    sees, times, real = sees_function(case), case.geo.group_filters, case.real
    of_image, of_channel = case.x.image, case.x.channel

    @device_function
    def look(x, g, image, filter_, position, totals):
        base = image * of_image + filter_ // times * of_channel
        for t in range(count):
            inside, at = sees(position, first + t)
            if inside:
                totals[t] += g * real(x[base + at])
    return look


@cache
def _weight_kernel(case: Case, cells: Cells, first: int) -> Any:
    """Gradients of `TAPS` taps and less, from number `first` on."""
    geo, real, run, width = case.geo, case.real, cells.run, cells.width
    weight, positions = place_function(case.w, geo.window.kernel), geo.window.positions
    count, lanes, rows = min(geo.window.taps - first, TAPS), LANES, LANES // width
    look, add_up, size = _look_function(case, first, count), tree_function(count, width), (
        geo.filters * geo.depth)

    @kernel
    def depthwise_weight(gy, x, gw, add, filters, terms, outer, far, pieces):
        sums = cuda.shared.array((count, lanes), real)
        totals = cuda.local.array(count, real)
        me, groups = cuda.threadIdx.x, (filters + width - 1) // width
        row, length = me // width, (terms + pieces - 1) // pieces
        for task in range(cuda.blockIdx.x, groups * pieces, cuda.gridDim.x):
            filter_, piece = task % groups * width + me % width, task // groups
            stop = minimum(piece * length + length, terms) if filter_ < filters else 0
            for t in range(count):
                totals[t] = real(0)
            for term in range(piece * length + row, stop, rows):
                g = real(gy[filter_ * outer + term // run * far + term % run])
                look(x, g, term // positions, filter_, term % positions, totals)
            for t in range(count):
                sums[t, me] = totals[t]
            add_up(sums)
            if row == 0 and filter_ < filters:
                for t in range(count):
                    at = piece * size + weight(filter_, 0, first + t)
                    gw[at] = real(gw[at]) + sums[t, me] if add else sums[t, me]
            cuda.syncthreads()
    return depthwise_weight


def weight_gradient(case: Case, gy: Any, x: Any, gw: Any, add: bool) -> list[Launch]:
    """Launches that write the gradient of filters, or of the pieces of `cells_of`, one after
    another in `gw`."""
    cells = cells_of(case)
    return [cells.launch(_weight_kernel(case, cells, first), gy, x, gw, add)
            for first in range(0, case.geo.window.taps, TAPS)]
