"""Bilinear interpolation of planes at fractional points, its derivatives, and its gradient.

The gradient gathers.  A cell is the square between four pixels; cells extend beyond the edges, so
every pixel is a corner of four of them.  Points are sorted by cell, once for all channels that
share them; then each pixel sums the contributions of the points in its cells, in order, so results
do not depend on scheduling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...op import Spec
from ..lib.kernel_math import MATH, maximum, minimum
from ..lib.merge_sort import find_starts, sort_rows, sort_scratch
from ..runtime.device_memory import Array
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

__all__ = ["Plane", "Points", "functions", "gather", "gather_scratch"]

INT32 = np.dtype(np.int32)
floor = MATH["floor"]


class Plane(NamedTuple):
    """Constants of a kernel: the size of planes, and their boundary.

    Planes are 0 outside.  If `clamped`, a plane extends from the first pixel to one after the last,
    which is repeated; otherwise it fades to 0 within a pixel on either side.  With `strict` a
    coordinate that is not finite makes the value NaN, otherwise it is outside.
    """

    height: int
    width: int
    real: type[np.floating]
    clamped: bool = False
    strict: bool = False

    @property
    def cells(self) -> int:
        return (self.height + 1) * (self.width + 1)

    def axis(self, size: int) -> tuple[Callable, Callable]:
        """Device functions of an axis of `size` pixels.

        inside(at): whether a coordinate is in the plane.
        around(at): the two adjacent pixels, their weights, and the slopes of the weights: the first
        falls by the fifth result, the second grows by the sixth.
        """
        real, clamped, strict, last = self.real, self.clamped, self.strict, np.int32(size - 1)
        none, one, end, border = real(0), real(1), real(size), real(-1)

        @device_function
        def inside(at):
            return border < at < end and not (clamped and at < none)

        @device_function
        def around(at):
            if not inside(at):
                nothing = at * none if strict else none
                return np.int32(0), np.int32(0), nothing, nothing, nothing, nothing
            low = np.int32(floor(at))
            after = at - real(low)
            has_low = one if low >= 0 else none
            has_high = one if clamped or low < last else none
            return (np.int32(maximum(low, 0)), np.int32(minimum(low + 1, last)),
                    (one - after) * has_low, after * has_high, has_low, has_high)
        return inside, around

    def share(self, size: int) -> Callable:
        """share(pixel, at): the weight of a pixel adjacent to a coordinate in the plane."""
        real, clamped, last, one = self.real, self.clamped, size - 1, self.real(1)

        @device_function
        def share(pixel, at):
            low = np.int32(floor(at))
            if clamped and low == last:
                return one
            after = at - real(low)
            return one - after if low == pixel else after
        return share


@cache
def functions(plane: Plane) -> tuple[Callable, Callable, Callable]:
    """Device functions that read planes.

    spot(v, u): the pixels and weights of the point at row v and column u.
    interpolate(x, first, spot): the interpolated value of the plane that begins at x[first].
    slopes(x, first, spot): the value, and its derivatives by v and u.
    """
    real, width = plane.real, plane.width
    (_, around_v), (_, around_u) = plane.axis(plane.height), plane.axis(width)

    @device_function
    def spot(v, u):
        top, bottom, above, below, up, down = around_v(v)
        left, right, before, after, west, east = around_u(u)
        return (top * width + left, top * width + right, bottom * width + left,
                bottom * width + right, above, below, before, after, up, down, west, east)

    @device_function
    def interpolate(x, first, spot):
        a, b, c, d, above, below, before, after, _, _, _, _ = spot
        return (above * (before * real(x[first + a]) + after * real(x[first + b]))
                + below * (before * real(x[first + c]) + after * real(x[first + d])))

    @device_function
    def slopes(x, first, spot):
        at_a, at_b, at_c, at_d, above, below, before, after, up, down, west, east = spot
        a, b, c, d = (real(x[first + at_a]), real(x[first + at_b]), real(x[first + at_c]),
                      real(x[first + at_d]))
        upper, lower = before * a + after * b, before * c + after * d
        return (above * upper + below * lower, down * lower - up * upper,
                above * (east * b - west * a) + below * (east * d - west * c))

    return spot, interpolate, slopes


class Points(NamedTuple):
    """`rows` sets of `number` points in planes; the device function locate(array, row, k) returns
    row and column of point k."""

    locate: Callable
    array: Array
    rows: int
    number: int
    plane: Plane


@cache
def _cell_function(locate: Callable, plane: Plane) -> Callable:
    """The index of the cell of a point; the number of cells for points outside."""
    (inside_v, _), (inside_u, _) = plane.axis(plane.height), plane.axis(plane.width)
    across, outside = plane.width + 1, np.int32(plane.cells)

    @device_function
    def cell(array, row, k, a, b):
        v, u = locate(array, row, k)
        if inside_v(v) and inside_u(u):
            return (np.int32(floor(v)) + 1) * across + np.int32(floor(u)) + 1
        return outside
    return cell


@cache
def _gather_kernel(locate: Callable, plane: Plane, give: Callable) -> CudaKernel:
    width, area, across = plane.width, plane.height * plane.width, plane.width + 1
    spread, real = plane.cells + 1, plane.real
    share_v, share_u = plane.share(plane.height), plane.share(plane.width)

    @grid_stride
    def gather_points(i, array, where, starts, g, scale, gx, channels, number):
        v, u, row = i // width % (area // width), i % width, i // area // channels
        total = real(0)
        for lower in range(2):
            cell = row * spread + (v + lower) * across + u
            for at in range(starts[cell], starts[cell + 2]):
                k = where[row * number + at]
                y, x = locate(array, row, k)
                total += (share_v(v, y) * share_u(u, x)
                          * give(g, scale, row, i // area % channels, k))
        gx[i] = total
    return gather_points


def gather_scratch(rows: int, number: int, plane: Plane) -> list[Spec]:
    """The scratch of `gather`."""
    return [Spec((rows * (plane.cells + 1),), INT32), *sort_scratch(rows, number, INT32)]


def gather(points: Points, give: Callable, g: Array, scale: Array, gx: Array,
           scratch: Sequence[Array]) -> list[Launch]:
    """gx (rows, channels, height, width): the gradient of interpolated planes.

    give(g, scale, row, channel, k) is the gradient of the value at point k.
    """
    locate, array, rows, number, plane = points
    starts = scratch[0].part(0, (rows, plane.cells + 1))
    launches, (cells, where) = sort_rows(_cell_function(locate, plane), array, (rows, number),
                                         (0, 0), scratch[1:])
    channels = gx.size // (rows * plane.height * plane.width)
    return [*launches, *find_starts(cells, starts, number),
            *each(_gather_kernel(locate, plane, give), gx.size, array, where, starts, g, scale, gx,
                  channels, number)]
