"""Convolution as implicit GEMM: the im2col matrix is indexed, never stored.

Row t = (channel, tap) and column j = (image, position) of the im2col matrix hold the pixel that
this tap of the window covers at this position, or 0 in the padding.  All three directions are
products that gather their operands, so no atomic additions are needed:

    output           weight (filter, t)               by  im2col (t, j)
    weight gradient  output gradient (filter, j)      by  im2col (t, j) transposed, split-k over j
    data gradient    weight (channel, (filter, tap))  by  output gradient ((filter, tap), pixel)

Groups of one channel and few filters are too narrow for GEMM: `depthwise` has their kernels.

The geometry, strides of the layout included, is a compile-time constant of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...dispatch import implements
from ...nn.convolution import Convolution
from ...nn.sliding_window import Geometry, Window
from ...op import Call, Spec
from ..lib.block_reduce import each_block, sum_kernel
from ..lib.epilogue import NO_EPILOGUE, Epilogue, EpilogueOp
from ..lib.gemm import (
    GemmConfig,
    GemmOperands,
    choose_config,
    gemm_grid,
    gemm_kernel,
    reduce_split_k,
)
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import SIMULATED, CudaKernel, Launch, cache
from . import depthwise
from .sliding_window import (
    ConvSpec,
    WindowStrides,
    col2im_function,
    im2col_function,
    offset_function,
)

__all__ = ["bias_kernel", "case_of", "data_gradient", "output", "weight_gradient", "weight_scratch"]

MIN_SPLIT_TERMS = 64 if SIMULATED else 4096
MAX_SPLITS = 3 if SIMULATED else 32
"""Limits of split-k for the gradient of weights: terms of a split, and splits of a sum."""

MAX_BATCH = 65535
"""Products of one launch: the limit of a grid's third dimension."""


# -- the three directions -----------------------------------------------------------------------


@cache
def _output_kernel(case: ConvSpec, op: EpilogueOp, config: GemmConfig) -> CudaKernel:
    """Outputs (w, x, bias, addend, y)."""
    geo, real = case.geo, case.real
    group_filters, group_channels = geo.group_filters, geo.group_channels
    taps, positions = geo.window.taps, geo.window.positions
    im2col, weight = im2col_function(case), offset_function(case.w, geo.window.kernel)
    offset, epilogue = offset_function(case.y, geo.window.out), op.function(real)

    def load_a(w, g, i, t, m, lda):
        return real(w[weight(g * group_filters + i, t // taps, t % taps)])

    def load_b(x, g, t, j, ldb, n):
        return im2col(x, j // positions, g * group_channels + t // taps, j % positions, t % taps)

    def store(y, bias, addend, g, split, i, j, ldc, total, add):
        filter_ = g * group_filters + i
        at = offset(j // positions, filter_, j % positions)
        y[at] = epilogue(total, bias, filter_, addend, at)

    return gemm_kernel(GemmOperands(load_a, load_b, store), config)


@cache
def _data_kernel(case: ConvSpec, op: EpilogueOp, config: GemmConfig) -> CudaKernel:
    """Gradients (w, gy, bias, addend, gx) of the data; the output of Deconvolution, which has a
    bias."""
    geo, real = case.geo, case.real
    group_filters, group_channels = geo.group_filters, geo.group_channels
    taps, image = geo.window.taps, geo.window.image
    pixels = image[0] * image[1] * image[2]
    col2im, weight = col2im_function(case), offset_function(case.w, geo.window.kernel)
    offset, epilogue = offset_function(case.x, image), op.function(real)

    def load_a(w, g, i, t, m, lda):
        return real(w[weight(g * group_filters + t // taps, i, t % taps)])

    def load_b(gy, g, t, j, ldb, n):
        return col2im(gy, j // pixels, g * group_filters + t // taps, j % pixels, t % taps)

    def store(gx, bias, addend, g, split, i, j, ldc, total, add):
        at = offset(j // pixels, g * group_channels + i, j % pixels)
        total = epilogue(total, bias, g * group_channels + i, addend, at)
        gx[at] = real(gx[at]) + total if add else total

    return gemm_kernel(GemmOperands(load_a, load_b, store, a_k_contiguous=taps > 1), config)


@cache
def _weight_kernel(case: ConvSpec, splits: int, config: GemmConfig) -> CudaKernel:
    geo, real = case.geo, case.real
    group_filters, group_channels = geo.group_filters, geo.group_channels
    taps, positions = geo.window.taps, geo.window.positions
    size = geo.filters * geo.depth
    im2col, weight = im2col_function(case), offset_function(case.w, geo.window.kernel)
    offset = offset_function(case.y, geo.window.out)

    def load_a(gy, g, i, t, m, lda):
        return real(gy[offset(t // positions, g * group_filters + i, t % positions)])

    def load_b(x, g, t, j, ldb, n):
        return im2col(x, t // positions, g * group_channels + j // taps, t % positions, j % taps)

    def store(gw, bias, addend, g, split, i, j, ldc, total, add):
        at = split * size + weight(g * group_filters + i, j // taps, j % taps)
        gw[at] = real(gw[at]) + total if add else total

    return gemm_kernel(GemmOperands(load_a, load_b, store, b_k_contiguous=True), config, splits)


@cache
def bias_kernel(strides: WindowStrides, extents: tuple[int, int, int], real: type[np.number]
                ) -> CudaKernel:
    """Sums of the gradient of the output over images and positions, of each channel."""
    positions, offset = prod(extents), offset_function(strides, extents)
    return sum_kernel(lambda gy, channel, term, channels: (
        real(gy[offset(term // positions, channel, term % positions)])), real)


def _splits(case: ConvSpec) -> int:
    """The number of partial sums of the gradient of the weights."""
    geo = case.geo
    if depthwise.applies(geo):
        return depthwise.groups_of(case).chunks
    return max(min(geo.positions // MIN_SPLIT_TERMS, MAX_SPLITS, MAX_BATCH // geo.groups), 1)


def _product(make: Callable, case: ConvSpec, arrays: tuple, sizes: tuple[int, int, int],
             flag: EpilogueOp | int, add: bool, splits: int = 1) -> Launch:
    """One of the products of a convolution, of matrices of `sizes`, by the kernel that
    `make(case, flag, config)` returns."""
    batch = case.geo.groups * splits
    config = choose_config(arrays[0].dtype, case.real, sizes, batch)
    return Launch(make(case, flag, config), gemm_grid(sizes, config.tiles, batch),
                  (config.tiles.threads,), (*arrays, *sizes, 0, 0, 0, add))


def output(case: ConvSpec, x: Array, w: Array, y: Array, epilogue: Epilogue = NO_EPILOGUE
           ) -> list[Launch]:
    """Launches that write the convolution of x and w, and its epilogue, to y."""
    geo, arrays = case.geo, (w, x, *epilogue.arrays(y), y)
    if depthwise.applies(geo):
        return depthwise.gather(case, True, arrays, epilogue.op, False)
    sizes = (geo.group_filters, geo.positions, geo.depth)
    return [_product(_output_kernel, case, arrays, sizes, epilogue.op, False)]


def data_gradient(case: ConvSpec, gy: Array, w: Array, gx: Array, add: bool,
                  epilogue: Epilogue = NO_EPILOGUE) -> list[Launch]:
    """Launches that write the gradient of the data, and its epilogue, to gx, or add it."""
    geo, arrays = case.geo, (w, gy, *epilogue.arrays(gx), gx)
    if depthwise.applies(geo):
        return depthwise.gather(case, False, arrays, epilogue.op, add)
    sizes = (geo.group_channels, gx.size // geo.channels, geo.group_filters * geo.window.taps)
    return [_product(_data_kernel, case, arrays, sizes, epilogue.op, add)]


def weight_gradient(case: ConvSpec, gy: Array, x: Array, gw: Array, scratch: Arrays, add: bool
                    ) -> list[Launch]:
    """The gradient of weights; `scratch` from `weight_scratch`."""
    geo, splits = case.geo, _splits(case)
    target, adds = (gw, add) if splits == 1 else (scratch[0], False)
    if depthwise.applies(geo):
        launches = depthwise.weight_gradient(case, gy, x, target, adds)
    else:
        sizes = (geo.group_filters, geo.depth, geo.positions)
        launches = [_product(_weight_kernel, case, (gy, x, *[target] * 3), sizes, splits, adds,
                             splits)]
    if splits > 1:
        launches += reduce_split_k(target, gw, add)
    return launches


def weight_scratch(case: ConvSpec, weight: Spec) -> list[Spec]:
    """Scratch for partial sums of the gradient of weights."""
    splits = _splits(case)
    return [Spec((1, splits, weight.size), np.dtype(case.real))] if splits > 1 else []


def case_of(op: Convolution, data: Array | Spec, output: Array | Spec,
            real: type[np.number] | None = None) -> ConvSpec:
    """The specification of a convolution of these tensors; sums are of type `real` if given."""
    layout, (kernel, stride, pad, dilate) = op.axes, op.params
    images, channels, image = layout.split(data.shape)
    window = Window.over(image, layout.split(output.shape)[2], kernel, stride, pad, dilate)
    geo = Geometry(window, images, channels, op.num_filter, op.num_group)
    return ConvSpec.of(geo, layout, real or real_of(data.dtype))


def forward(op: Convolution, ins: Arrays, y: Array, addend: Array | None = None, relu: bool = False,
            upper: float = np.inf) -> list[Launch]:
    """Launches that write the output, with the epilogue of `Epilogue`."""
    x, w, *bias = ins
    epilogue = Epilogue(bias[0] if bias else None, addend, relu, upper)
    return output(case_of(op, x, y), x, w, y, epilogue)


def _backward(op: Convolution, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    gy, x, w = ins
    case, launches = case_of(op, x, gy), []
    geo, add = case.geo, [bool(flag) for flag in (*call.add, False, False, False)]
    gx, gw, gb = (*outs, None)[:3]
    if gx is not None:
        launches += data_gradient(case, gy, w, gx, add[0])
    if gw is not None:
        launches += weight_gradient(case, gy, x, gw, call.scratch, add[1])
    if gb is not None:
        launches += each_block(bias_kernel(case.y, geo.window.out, case.real), geo.filters, gy, gb,
                               geo.positions, add[2])
    return launches


def _backward_scratch(op: Convolution, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    gy, x, w = ins
    return weight_scratch(case_of(op, x, gy), w)


implements(Convolution, "cuda", lambda op, ins, outs, call: forward(op, ins, outs[0]), _backward,
           backward_scratch=_backward_scratch)
