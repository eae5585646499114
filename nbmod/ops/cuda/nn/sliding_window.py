"""Offsets of elements of images in any layout, and of the pixels that a sliding window covers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...nn.sliding_window import Geometry, Layout, Window
from ..runtime.launch import device_function

__all__ = ["ConvSpec", "WindowStrides", "col2im_function", "im2col_function", "offset_function",
           "tap_function", "transposed_tap_function"]


class WindowStrides(NamedTuple):
    """Strides in elements: of images (or filters), channels, and the spatial axes."""

    image: int
    channel: int
    z: int
    y: int
    x: int

    @classmethod
    def of(cls, layout: Layout, channels: int, pixels: tuple[int, int, int]) -> WindowStrides:
        _, height, width = pixels
        area = pixels[0] * height * width
        if layout.channels_last:
            return cls(area * channels, 1, height * width * channels, width * channels, channels)
        return cls(area * channels, area, height * width, width, 1)


def offset_function(strides: WindowStrides, extents: tuple[int, int, int]) -> Callable:
    """offset(image, channel, pixel) of an element; `pixel` is a flat index over `extents`."""
    _, height, width = extents
    of_image, of_channel, of_z, of_y, of_x = strides

    @device_function
    def offset(image, channel, pixel):
        return (image * of_image + channel * of_channel + pixel // (width * height) * of_z
                + pixel // width % height * of_y + pixel % width * of_x)
    return offset


class ConvSpec(NamedTuple):
    """Constants of a kernel of a convolution: geometry, layouts, type of sums."""

    geo: Geometry
    x: WindowStrides
    w: WindowStrides
    y: WindowStrides
    real: type[np.number]

    @classmethod
    def of(cls, geo: Geometry, layout: Layout, real: type[np.number]) -> ConvSpec:
        window = geo.window
        return cls(geo, WindowStrides.of(layout, geo.channels, window.image),
                   WindowStrides.of(layout, geo.group_channels, window.kernel),
                   WindowStrides.of(layout, geo.filters, window.out), real)


def _steps(window: Window) -> tuple[tuple[int, ...], ...]:
    """Rows and columns of taps; strides, padding and dilation of the three axes."""
    return window.kernel[1:], window.stride, window.pad, window.dilate


def tap_function(case: ConvSpec) -> Callable:
    """covered(position, tap): whether the tap covers a pixel of the image at this position, and the
    pixel's offset in its channel."""
    (depth, height, width), (_, oheight, owidth) = case.geo.window.image, case.geo.window.out
    (kh, kw), (sz, sy, sx), (pz, py, px), (dz, dy, dx) = _steps(case.geo.window)
    _, _, of_z, of_y, of_x = case.x

    @device_function
    def covered(position, tap):
        ix = position % owidth * sx - px + tap % kw * dx
        iy = position // owidth % oheight * sy - py + tap // kw % kh * dy
        iz = position // (owidth * oheight) * sz - pz + tap // (kw * kh) * dz
        inside = 0 <= ix < width and 0 <= iy < height and 0 <= iz < depth
        return inside, iz * of_z + iy * of_y + ix * of_x
    return covered


def transposed_tap_function(case: ConvSpec) -> Callable:
    """covering(pixel, tap): whether there is a position at which the tap covers this pixel, and the
    position's offset in its filter's output."""
    (_, height, width), (odepth, oheight, owidth) = case.geo.window.image, case.geo.window.out
    (kh, kw), (sz, sy, sx), (pz, py, px), (dz, dy, dx) = _steps(case.geo.window)
    _, _, of_z, of_y, of_x = case.y

    @device_function
    def covering(pixel, tap):
        ox = pixel % width + px - tap % kw * dx
        oy = pixel // width % height + py - tap // kw % kh * dy
        oz = pixel // (width * height) + pz - tap // (kw * kh) * dz
        inside = (0 <= ox < owidth * sx and 0 <= oy < oheight * sy and 0 <= oz < odepth * sz
                  and ox % sx == 0 and oy % sy == 0 and oz % sz == 0)
        return inside, oz // sz * of_z + oy // sy * of_y + ox // sx * of_x
    return covering


def im2col_function(case: ConvSpec) -> Callable:
    """im2col(x, image, channel, position, tap): the covered pixel, 0 outside the image."""
    return _element_function(tap_function(case), case.x, case.real)


def col2im_function(case: ConvSpec) -> Callable:
    """col2im(gy, image, filter, pixel, tap): the output gradient at the position where the tap
    covers this pixel, 0 if there is none."""
    return _element_function(transposed_tap_function(case), case.y, case.real)


def _element_function(offset: Callable, strides: WindowStrides, real: type[np.number]) -> Callable:
    of_image, of_plane = strides.image, strides.channel

    @device_function
    def element(tensor, image, plane, point, tap):
        inside, at = offset(point, tap)
        return real(tensor[image * of_image + plane * of_plane + at]) if inside else real(0)
    return element
