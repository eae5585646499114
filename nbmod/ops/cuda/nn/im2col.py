"""im2col and col2im: a thread per element of the columns, or per pixel of the images."""

from __future__ import annotations

from math import prod

from ...dispatch import implements
from ...nn.im2col import Col2im, Im2col, Windows
from ...nn.sliding_window import Geometry, Layout, Window
from ...op import Call
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, each, grid_stride
from .sliding_window import ConvSpec, col2im_function, im2col_function, offset_function


def _case(op: Windows, images: Array) -> ConvSpec:
    """The convolution whose outputs are the columns: one filter per tap of each channel."""
    batch, channels, *image = images.shape
    stride, dilate, pad = op.window()
    window = Window.over(image, op.positions(tuple(image)), op.kernel, stride, pad, dilate)
    geo = Geometry(window, batch, channels, channels * window.taps)
    return ConvSpec.of(geo, Layout(len(image)), real_of(images.dtype))


@cache
def _take_kernel(case: ConvSpec) -> CudaKernel:
    im2col, channels = im2col_function(case), case.geo.channels
    taps, positions = case.geo.window.taps, case.geo.window.positions

    @grid_stride
    def take_windows(i, x, y):
        plane = i // positions // taps
        y[i] = im2col(x, plane // channels, plane % channels, i % positions, i // positions % taps)
    return take_windows


@cache
def _add_kernel(case: ConvSpec) -> CudaKernel:
    col2im, channels, real = col2im_function(case), case.geo.channels, case.real
    taps, image = case.geo.window.taps, case.geo.window.image
    pixels, offset = prod(image), offset_function(case.x, image)

    @grid_stride
    def add_windows(i, x, y):
        sample, channel, total = i // pixels // channels, i // pixels % channels, real(0)
        for tap in range(taps):
            total += col2im(x, sample, channel * taps + tap, i % pixels, tap)
        y[offset(sample, channel, i % pixels)] = total
    return add_windows


def _take(op: Windows, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return each(_take_kernel(_case(op, ins[0])), outs[0].size, ins[0], outs[0])


def _add_up(op: Windows, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return each(_add_kernel(_case(op, outs[0])), outs[0].size, ins[0], outs[0])


implements(Im2col, "cuda", _take, _add_up)
implements(Col2im, "cuda", _add_up, _take)
