"""Bilinear interpolation at the sampling points of regions: values, and weights of pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..lib.kernel_math import maximum, minimum
from ..runtime.launch import cache, device_function

__all__ = ["between_function", "corner_function", "near_function", "pixel_weight",
           "weight_function"]


@cache
def corner_function(real: type[np.floating]) -> Callable:
    """corners(at, size): the pixels before and after a coordinate, and the weight of the second."""
    none = real(0)

    @device_function
    def corners(at, size):
        at = maximum(at, none)
        low = minimum(np.int32(minimum(at, real(size))), size - 1)
        high = minimum(low + 1, size - 1)
        return low, high, at - real(low) if high > low else none
    return corners


@device_function
def pixel_weight(pixel, low, high, after, one):
    """The weight of a pixel in an interpolation between two, where that of `high` is `after`."""
    weight = one - one
    if low == pixel:
        weight += one - after
    if high == pixel:
        weight += after
    return weight


@cache
def weight_function(real: type[np.floating]) -> Callable:
    """weight(at, pixel, size): the weight of a pixel at a coordinate."""
    corners, one = corner_function(real), real(1)

    @device_function
    def weight(at, pixel, size):
        low, high, after = corners(at, size)
        return pixel_weight(pixel, low, high, after, one)
    return weight


@cache
def between_function(height: int, width: int, real: type[np.floating]) -> Callable:
    """between(x, first, v, u): the value at a point of the image that starts at x[first]."""
    corners, one = corner_function(real), real(1)

    @device_function
    def between(x, first, v, u):
        top, bottom, down = corners(v, height)
        left, right, across = corners(u, width)
        upper, lower = first + top * width, first + bottom * width
        return ((one - down) * ((one - across) * real(x[upper + left])
                                + across * real(x[upper + right]))
                + down * ((one - across) * real(x[lower + left])
                          + across * real(x[lower + right])))
    return between


def near_function(border: float, real: type[np.floating]) -> Callable:
    """near(at, size): whether a coordinate is at most `border` outside of the pixels of an axis."""
    most, one = real(border), real(1)

    @device_function
    def near(at, size):
        return -most <= at <= real(size) - one + most
    return near
