"""Convolution as a matrix product whose second factor is never stored.

In column j = (image, position) and row t = (channel, tap) stands the pixel that this tap of the
window sees at this position.  All three directions are such products, and each result gathers what
it depends on, so no two threads write one place:

    output    weight (filter, t)              by  seen (t, j)
    weight    head gradient (filter, j)       by  seen (t, j) transposed, split over j
    data      weight (channel, (filter, tap)) by  head gradient that reached (image, pixel)

Groups of one channel and few filters are hardly matrices: `depthwise` has kernels for those.

The geometry, strides of the layout included, is constant in a kernel.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...nn.convolution import Convolution
from ...nn.sliding_window import Geometry, Window
from ...op import Spec
from ..lib.block_reduce import each_block, sum_kernel
from ..lib.epilogue import AS_IT_IS, Ending, Tail
from ..lib.gemm import Product, Way, add_parts, grid_of, product_kernel, way_of
from ..lib.kernel_math import real_of
from ..runtime.launch import SIMULATED, Launch, device_function, on_gpu
from . import depthwise
from .sliding_window import Case, Strides, gradient_function, place_function, seen_function

__all__ = ["case_of", "data_gradient", "output", "weight_gradient", "weight_scratch"]

TERMS = 64 if SIMULATED else 4096
MAX_PARTS = 3 if SIMULATED else 32
"""The gradient of weights is split into parts of so many terms or more, and so many at most."""

MAX_BATCH = 65535
"""Products that one launch can do: the third dimension of a grid."""


# -- the three directions -----------------------------------------------------------------------


@cache
def _output_kernel(case: Case, tail: Tail, way: Way) -> Any:
    """Outputs (w, x, bias, other, y)."""
    geo, real = case.geo, case.real
    group_filters, group_channels = geo.group_filters, geo.group_channels
    taps, positions = geo.window.taps, geo.window.positions
    seen, weight = seen_function(case), place_function(case.w, geo.window.kernel)
    place, finish = place_function(case.y, geo.window.out), tail.function(real)

    @device_function
    def load_a(w, g, i, t, m, step):
        return real(w[weight(g * group_filters + i, t // taps, t % taps)])

    @device_function
    def load_b(x, g, t, j, step, n):
        return seen(x, j // positions, g * group_channels + t // taps, j % positions, t % taps)

    @device_function
    def store(y, bias, other, g, s, i, j, step, total, add):
        filter_ = g * group_filters + i
        at = place(j // positions, filter_, j % positions)
        y[at] = finish(total, bias, filter_, other, at)

    return product_kernel(Product(load_a, load_b, store), way)


@cache
def _data_kernel(case: Case, tail: Tail, way: Way) -> Any:
    """Gradients (w, gy, bias, other, gx) of images; for a Deconvolution its output, which has a
    bias."""
    geo, real = case.geo, case.real
    group_filters, group_channels = geo.group_filters, geo.group_channels
    taps, image = geo.window.taps, geo.window.image
    pixels = image[0] * image[1] * image[2]
    reached, weight = gradient_function(case), place_function(case.w, geo.window.kernel)
    data, finish = place_function(case.x, image), tail.function(real)

    @device_function
    def load_a(w, g, i, t, m, step):
        return real(w[weight(g * group_filters + t // taps, i, t % taps)])

    @device_function
    def load_b(gy, g, t, j, step, n):
        return reached(gy, j // pixels, g * group_filters + t // taps, j % pixels, t % taps)

    @device_function
    def store(gx, bias, other, g, s, i, j, step, total, add):
        at = data(j // pixels, g * group_channels + i, j % pixels)
        total = finish(total, bias, g * group_channels + i, other, at)
        gx[at] = real(gx[at]) + total if add else total

    return product_kernel(Product(load_a, load_b, store, a_inner=taps > 1), way)


@cache
def _weight_kernel(case: Case, parts: int, way: Way) -> Any:
    geo, real = case.geo, case.real
    group_filters, group_channels = geo.group_filters, geo.group_channels
    taps, positions = geo.window.taps, geo.window.positions
    size = geo.filters * geo.depth
    seen, weight = seen_function(case), place_function(case.w, geo.window.kernel)
    place = place_function(case.y, geo.window.out)

    @device_function
    def load_a(gy, g, i, t, m, step):
        return real(gy[place(t // positions, g * group_filters + i, t % positions)])

    @device_function
    def load_b(x, g, t, j, step, n):
        return seen(x, t // positions, g * group_channels + j // taps, t % positions, j % taps)

    @device_function
    def store(gw, bias, other, g, s, i, j, step, total, add):
        at = s * size + weight(g * group_filters + i, j // taps, j % taps)
        gw[at] = real(gw[at]) + total if add else total

    return product_kernel(Product(load_a, load_b, store, b_inner=True), way, parts)


@cache
def _bias_kernel(case: Case) -> Any:
    real, positions = case.real, case.geo.window.positions
    place = place_function(case.y, case.geo.window.out)

    @device_function
    def load(gy, filter_, term, filters):
        return real(gy[place(term // positions, filter_, term % positions)])

    return sum_kernel(load, real)


# -- launches -----------------------------------------------------------------------------------


def _parts(case: Case) -> int:
    """Into how many parts the gradient of the weights is split."""
    geo = case.geo
    if depthwise.applies(geo):
        return depthwise.cells_of(case).pieces
    return max(min(geo.positions // TERMS, MAX_PARTS, MAX_BATCH // geo.groups), 1)


def _product(make: Any, case: Case, arrays: tuple, sizes: tuple[int, int, int], flag: Any,
             add: bool, parts: int = 1) -> Launch:
    """One of the products of a convolution, of matrices of `sizes`, by the kernel that
    `make(case, flag, way)` makes."""
    batch = case.geo.groups * parts
    way = way_of(arrays[0].dtype, case.real, sizes, batch)
    return Launch(make(case, flag, way), grid_of(sizes, way.tiles, batch), (way.tiles.threads,),
                  (*arrays, *sizes, 0, 0, 0, add))


def output(case: Case, x: Any, w: Any, y: Any, ending: Ending = AS_IT_IS) -> list[Launch]:
    """Launches that write what the windows see, times the weight, with its ending."""
    geo, arrays = case.geo, (w, x, *ending.arrays(y), y)
    if depthwise.applies(geo):
        return depthwise.gather(case, True, arrays, ending.tail, False)
    sizes = (geo.group_filters, geo.positions, geo.depth)
    return [_product(_output_kernel, case, arrays, sizes, ending.tail, False)]


def data_gradient(case: Case, gy: Any, w: Any, gx: Any, add: bool, ending: Ending = AS_IT_IS
                  ) -> list[Launch]:
    """Launches that write the gradient of images, with its ending, or add to it."""
    geo, arrays = case.geo, (w, gy, *ending.arrays(gx), gx)
    if depthwise.applies(geo):
        return depthwise.gather(case, False, arrays, ending.tail, add)
    sizes = (geo.group_channels, gx.size // geo.channels, geo.group_filters * geo.window.taps)
    return [_product(_data_kernel, case, arrays, sizes, ending.tail, add)]


def weight_gradient(case: Case, gy: Any, x: Any, gw: Any, scratch: Any, add: bool
                    ) -> list[Launch]:
    """The gradient of weights; `scratch` from `weight_scratch`."""
    geo, parts = case.geo, _parts(case)
    target, adds = (gw, add) if parts == 1 else (scratch[0], False)
    if depthwise.applies(geo):
        launches = depthwise.weight_gradient(case, gy, x, target, adds)
    else:
        sizes = (geo.group_filters, geo.depth, geo.positions)
        launches = [_product(_weight_kernel, case, (gy, x, *[target] * 3), sizes, parts, adds,
                             parts)]
    if parts > 1:
        launches += add_parts(target, gw, add)
    return launches


def weight_scratch(case: Case, weight: Spec) -> list[Spec]:
    """Scratch for the parts of the gradient of weights."""
    parts = _parts(case)
    return [Spec((1, parts, weight.size), np.dtype(case.real))] if parts > 1 else []


# -- twins --------------------------------------------------------------------------------------


def case_of(op: Convolution, data: Any, output: Any, real: Any = None) -> Case:
    """What a convolution of these tensors is; sums are of type `real` if given."""
    layout, (kernel, stride, pad, dilate) = op.axes, op.params
    images, channels, image = layout.split(data.shape)
    window = Window.over(image, layout.split(output.shape)[2], kernel, stride, pad, dilate)
    geo = Geometry(window, images, channels, op.num_filter, op.num_group)
    return Case(geo, Strides.of(layout, channels, window.image),
                Strides.of(layout, geo.group_channels, window.kernel),
                Strides.of(layout, op.num_filter, window.out), real or real_of(data.dtype))


def forward(op: Convolution, ins: Any, y: Any, other: Any = None, **limits: Any) -> list[Launch]:
    """Launches that write the output, which may end as `Ending` says."""
    x, w, *bias = ins
    return output(case_of(op, x, y), x, w, y, Ending(bias[0] if bias else None, other, **limits))


def _forward(op: Convolution, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return forward(op, ins, outs[0])


def _backward(op: Convolution, ins: Any, outs: Any, call: Any) -> list[Launch]:
    gy, x, w = ins
    case, launches = case_of(op, x, gy), []
    geo, add = case.geo, [bool(flag) for flag in (*call.add, False, False, False)]
    gx, gw, gb = (*outs, None)[:3]
    if gx is not None:
        launches += data_gradient(case, gy, w, gx, add[0])
    if gw is not None:
        launches += weight_gradient(case, gy, x, gw, call.scratch, add[1])
    if gb is not None:
        launches += each_block(_bias_kernel(case), geo.filters, gy, gb, geo.positions, add[2])
    return launches


def _backward_scratch(op: Convolution, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    gy, x, w = ins
    return weight_scratch(case_of(op, x, gy), w)


on_gpu(Convolution, _forward, _backward, backward_scratch=_backward_scratch)
