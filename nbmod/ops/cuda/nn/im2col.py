"""im2col and col2im: a thread for every element of columns, or for every pixel of images."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from ...nn.im2col import Col2im, Im2col, Windows
from ...nn.sliding_window import Geometry, Layout, Window
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Array
from ..runtime.launch import Launch, each, kernel, on_gpu, thread, threads
from .sliding_window import Case, Strides, gradient_function, place_function, seen_function


def _case(op: Windows, images: Array) -> Case:
    """The convolution whose results are columns: a filter for every tap of every channel."""
    batch, channels, *image = images.shape
    stride, dilate, pad = op.window()
    window = Window.over(image, op.positions(tuple(image)), op.kernel, stride, pad, dilate)
    layout, filters = Layout(len(image)), channels * window.taps
    pixels = Strides.of(layout, channels, window.image)
    return Case(Geometry(window, batch, channels, filters), pixels, pixels,
                Strides.of(layout, filters, window.out), real_of(images.dtype))


@cache
def _take_kernel(case: Case) -> Any:
    seen, channels = seen_function(case), case.geo.channels
    taps, positions = case.geo.window.taps, case.geo.window.positions

    @kernel
    def take_windows(x, y, count):
        for i in range(thread(), count, threads()):
            plane = i // positions // taps
            y[i] = seen(x, plane // channels, plane % channels, i % positions,
                        i // positions % taps)
    return take_windows


@cache
def _add_kernel(case: Case) -> Any:
    reached, channels, real = gradient_function(case), case.geo.channels, case.real
    taps, image = case.geo.window.taps, case.geo.window.image
    pixels, place = prod(image), place_function(case.x, image)

    @kernel
    def add_windows(x, y, count):
        for i in range(thread(), count, threads()):
            sample, channel, total = i // pixels // channels, i // pixels % channels, real(0)
            for tap in range(taps):
                total += reached(x, sample, channel * taps + tap, i % pixels, tap)
            y[place(sample, channel, i % pixels)] = total
    return add_windows


def _take(op: Windows, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return each(_take_kernel(_case(op, ins[0])), outs[0].size, ins[0], outs[0])


def _add_up(op: Windows, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return each(_add_kernel(_case(op, outs[0])), outs[0].size, ins[0], outs[0])


on_gpu(Im2col, _take, _add_up)
on_gpu(Col2im, _add_up, _take)
