"""Where the elements of images stand in memory, in any layout."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..geometry import Layout
from .launch import device_function

__all__ = ["Strides", "place_function"]


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
