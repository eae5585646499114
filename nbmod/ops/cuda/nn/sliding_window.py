"""Where the elements of images stand in memory, in any layout, and which of them a window sees."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...nn.sliding_window import Geometry, Layout, Window
from ..runtime.launch import device_function

__all__ = ["Case", "Strides", "gradient_function", "place_function", "reaches_function",
           "seen_function", "sees_function"]


class Strides(NamedTuple):
    """Elements from one index to the next: image (or filter), channel, and the pixels' axes."""

    image: int
    channel: int
    z: int
    y: int
    x: int

    @classmethod
    def of(cls, layout: Layout, channels: int, pixels: tuple[int, int, int]) -> Strides:
        _, height, width = pixels
        area = pixels[0] * height * width
        if layout.channels_last:
            return cls(area * channels, 1, height * width * channels, width * channels, channels)
        return cls(area * channels, area, height * width, width, 1)


def place_function(strides: Strides, extents: tuple[int, int, int]) -> Any:
    """place(image, channel, pixel): where an element stands, `pixel` counting over `extents`."""
    _, height, width = extents
    of_image, of_channel, of_z, of_y, of_x = strides

    @device_function
    def place(image, channel, pixel):
        return (image * of_image + channel * of_channel + pixel // (width * height) * of_z
                + pixel // width % height * of_y + pixel % width * of_x)
    return place


class Case(NamedTuple):
    """All that a kernel of a convolution is specialised to."""

    geo: Geometry
    x: Strides
    w: Strides
    y: Strides
    real: Any


def _steps(window: Window) -> tuple[tuple[int, ...], ...]:
    """Rows and columns of taps; strides, padding and dilation of the three axes."""
    return window.kernel[1:], window.stride, window.pad, window.dilate


def sees_function(case: Case) -> Any:
    """sees(position, tap): whether a pixel of the image is there, and where in a channel."""
    (depth, height, width), (_, oheight, owidth) = case.geo.window.image, case.geo.window.out
    (kh, kw), (sz, sy, sx), (pz, py, px), (dz, dy, dx) = _steps(case.geo.window)
    _, _, of_z, of_y, of_x = case.x

    @device_function
    def sees(position, tap):
        ix = position % owidth * sx - px + tap % kw * dx
        iy = position // owidth % oheight * sy - py + tap // kw % kh * dy
        iz = position // (owidth * oheight) * sz - pz + tap // (kw * kh) * dz
        inside = 0 <= ix < width and 0 <= iy < height and 0 <= iz < depth
        return inside, iz * of_z + iy * of_y + ix * of_x
    return sees


def reaches_function(case: Case) -> Any:
    """reaches(pixel, tap): whether there is a position at which this tap sees this pixel, and where
    in a filter's output it is."""
    (_, height, width), (odepth, oheight, owidth) = case.geo.window.image, case.geo.window.out
    (kh, kw), (sz, sy, sx), (pz, py, px), (dz, dy, dx) = _steps(case.geo.window)
    _, _, of_z, of_y, of_x = case.y

    @device_function
    def reaches(pixel, tap):
        ox = pixel % width + px - tap % kw * dx
        oy = pixel // width % height + py - tap // kw % kh * dy
        oz = pixel // (width * height) + pz - tap // (kw * kh) * dz
        inside = (0 <= ox < owidth * sx and 0 <= oy < oheight * sy and 0 <= oz < odepth * sz
                  and ox % sx == 0 and oy % sy == 0 and oz % sz == 0)
        return inside, oz // sz * of_z + oy // sy * of_y + ox // sx * of_x
    return reaches


def seen_function(case: Case) -> Any:
    """seen(x, image, channel, position, tap): a pixel, 0 outside the image."""
    return _element_function(sees_function(case), case.x, case.real)


def gradient_function(case: Case) -> Any:
    """reached(gy, image, filter, pixel, tap): the gradient of the position at which this tap sees
    this pixel, 0 if there is none."""
    return _element_function(reaches_function(case), case.y, case.real)


def _element_function(where: Any, strides: Strides, real: Any) -> Any:
    of_image, of_plane = strides.image, strides.channel

    @device_function
    def element(tensor, image, plane, point, tap):
        inside, at = where(point, tap)
        return real(tensor[image * of_image + plane * of_plane + at]) if inside else real(0)
    return element
