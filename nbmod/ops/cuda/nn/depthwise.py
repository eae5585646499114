"""Depthwise convolution: each channel has its own few filters, so the product has no rows to tile.

A thread computes one element of the output in several images, and so the offsets of taps and the
weights only once for all of them.  It gathers, in the order of taps; output and data gradient
differ in what is read where:

    output           of (filter, position)    reads the filter's one channel
    data gradient    of (channel, pixel)      reads the output gradients of the channel's filters

The gradient of a filter is a sum over all positions of all images: blocks add chunks of it, each
thread with the sums of all taps in registers, and another kernel adds the chunks in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn.sliding_window import Geometry
from ..elementwise.group_stats import Groups
from ..lib.block_reduce import BLOCK_SIZE, block_reduce_function
from ..lib.epilogue import EpilogueOp
from ..lib.kernel_math import SIMULATED, cuda, kernel, minimum
from ..runtime.device_memory import Array
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from .sliding_window import ConvSpec, offset_function, tap_function, transposed_tap_function

__all__ = ["applies", "gather", "groups_of", "weight_gradient"]

MIN_GEMM_FILTERS = 16
"""Filters per channel from which GEMM is better: a quarter of the rows of its tiles."""

IMAGES = (2,) if SIMULATED else (8, 4, 2)
FULL_GRID = 16 if SIMULATED else 1 << 18
"""A thread computes as many images as leave this many threads, which keep a large GPU busy."""

TAPS = 4 if SIMULATED else 32
"""Sums that a thread keeps in registers."""


def applies(geo: Geometry) -> bool:
    """Whether these kernels are faster than GEMM."""
    return geo.group_channels == 1 and geo.group_filters < MIN_GEMM_FILTERS


@cache
def _gather_kernel(case: ConvSpec, forward: bool, op: EpilogueOp, images: int) -> CudaKernel:
    geo, real = case.geo, case.real
    window, times, taps = geo.window, geo.group_filters, geo.window.taps
    source, target = (case.x, case.y) if forward else (case.y, case.x)
    own = window.out if forward else window.image
    tap = tap_function(case) if forward else transposed_tap_function(case)
    offset, weight = offset_function(target, own), offset_function(case.w,
                                                                               window.kernel)
    planes, points = geo.filters if forward else geo.channels, own[0] * own[1] * own[2]
    sources, channels_last = 1 if forward else times, target.channel == 1
    of_image, of_plane, epilogue = source.image, source.channel, op.function(real)

    @grid_stride
    def depthwise(i, w, x, bias, addend, y, add):
        totals = cuda.local.array(images, real)
        # Adjacent threads compute adjacent elements of the target.
        plane = i % planes if channels_last else i // points % planes
        point = i // planes % points if channels_last else i % points
        first = i // (planes * points) * images
        for k in range(images):
            totals[k] = real(0)
        for m in range(sources):
            filter_ = plane if forward else plane * times + m
            base = (plane // times if forward else filter_) * of_plane
            for t in range(taps):
                inside, at = tap(point, t)
                if inside:
                    factor = real(w[weight(filter_, 0, t)])
                    for k in range(images):
                        totals[k] += factor * real(x[(first + k) * of_image + base + at])
        for k in range(images):
            at = offset(first + k, plane, point)
            total = epilogue(totals[k], bias, plane, addend, at)
            y[at] = real(y[at]) + total if add else total
    return depthwise


def gather(case: ConvSpec, forward: bool, arrays: tuple[Any, ...], op: EpilogueOp, add: bool
           ) -> list[Launch]:
    """Launches that write the output, or the gradient of the data, or add to it; `arrays` are
    those of the products of `convolution`."""
    images, size = case.geo.images, arrays[-1].size
    each_thread = next((k for k in IMAGES if images % k == 0 and size // k >= FULL_GRID), 1)
    make = _gather_kernel(case, forward, op, each_thread)
    return each(make, size // each_thread, *arrays, add)


# -- the gradient of filters --------------------------------------------------------------------


def groups_of(case: ConvSpec) -> Groups:
    """The elements of the output's gradient, grouped by filter."""
    geo, positions = case.geo, case.geo.window.positions
    if case.y.channel == 1:
        return Groups.channels((geo.positions, geo.filters), 1)
    return Groups.channels((geo.images, geo.filters, positions), 1)


def _tap_sums_function(case: ConvSpec, first: int, count: int) -> Callable:
    """add_taps(x, g, image, filter, position, totals): add to `totals` g times the pixels that
    `count` taps, from tap `first` on, cover at this position."""
    covered, times, real = tap_function(case), case.geo.group_filters, case.real
    of_image, of_channel = case.x.image, case.x.channel

    @device_function
    def add_taps(x, g, image, filter_, position, totals):
        base = image * of_image + filter_ // times * of_channel
        for t in range(count):
            inside, at = covered(position, first + t)
            if inside:
                totals[t] += g * real(x[base + at])
    return add_taps


@cache
def _weight_kernel(case: ConvSpec, groups: Groups, first: int) -> CudaKernel:
    """Gradients of up to `TAPS` taps, from tap `first` on."""
    geo, real, run, width = case.geo, case.real, groups.run, groups.width
    weight, positions = offset_function(case.w, geo.window.kernel), geo.window.positions
    count, rows = min(geo.window.taps - first, TAPS), BLOCK_SIZE // width
    add_taps, block_sum = _tap_sums_function(case, first, count), block_reduce_function(count,
                                                                                        width)
    weights = geo.filters * geo.depth

    @kernel
    def depthwise_weight(gy, x, gw, add, filters, size, outer_stride, run_stride, chunks):
        sums = cuda.shared.array((count, BLOCK_SIZE), real)
        totals = cuda.local.array(count, real)
        tid, tiles = cuda.threadIdx.x, (filters + width - 1) // width
        row, chunk_size = tid // width, (size + chunks - 1) // chunks
        for task in range(cuda.blockIdx.x, tiles * chunks, cuda.gridDim.x):
            filter_, chunk = task % tiles * width + tid % width, task // tiles
            stop = minimum(chunk * chunk_size + chunk_size, size) if filter_ < filters else 0
            for t in range(count):
                totals[t] = real(0)
            for term in range(chunk * chunk_size + row, stop, rows):
                g = real(gy[filter_ * outer_stride + term // run * run_stride + term % run])
                add_taps(x, g, term // positions, filter_, term % positions, totals)
            for t in range(count):
                sums[t, tid] = totals[t]
            block_sum(sums)
            if row == 0 and filter_ < filters:
                for t in range(count):
                    at = chunk * weights + weight(filter_, 0, first + t)
                    gw[at] = real(gw[at]) + sums[t, tid] if add else sums[t, tid]
            cuda.syncthreads()
    return depthwise_weight


def weight_gradient(case: ConvSpec, gy: Array, x: Array, gw: Array, add: bool) -> list[Launch]:
    """Launches that write the gradient of filters, or partial sums for each of the chunks of
    `groups_of`, to gw."""
    groups = groups_of(case)
    return [groups.launch(_weight_kernel(case, groups, first), gy, x, gw, add)
            for first in range(0, case.geo.window.taps, TAPS)]
