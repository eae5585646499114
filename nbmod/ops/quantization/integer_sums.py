"""Exact sums of products of 8-bit integers.

A float32 represents every integer up to 2**24, so a float32 convolution of 8-bit data is exact as
long as no sum of absolute products can exceed that.  Deeper sums are split over channels into parts
that are added as int32.  So integer convolutions run on the float kernels.  If the taps of a single
channel are too many, float64 is used.

Dense layers use dot products of rows: `row_products`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..jit import kernel, prange
from ..nn.convolution import Convolution, convolve, fastest
from ..nn.sliding_window import Geometry
from ..op import Run, Spec
from ..param import Shape
from ..shape import size_of
from .ranges import INT32

__all__ = ["ExactConvolution", "row_products", "row_products_by_numpy"]

EXACT = 1 << 24
LARGEST_BYTES = 255 * 128
"""The largest product of an 8-bit data and weight element."""


@dataclass(frozen=True)
class ExactConvolution:
    """The sums of a convolution of integer data (N, C, *image): int32, or float32 with integer
    values.

    `workspace` is what it needs; `prepare` returns a function that computes, and its result.
    """

    conv: Convolution
    data: Shape
    largest: int = LARGEST_BYTES

    @cached_property
    def whole(self) -> Geometry:
        """All channels at once."""
        return self.conv.geometry(Spec(self.data, np.dtype(np.float32)))

    @cached_property
    def dtype(self) -> np.dtype:
        """The type that represents the sum of one channel exactly."""
        return np.dtype(np.float32 if self.whole.window.taps * self.largest <= EXACT
                        else np.float64)

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """The channels of each group, in parts."""
        taps, channels = self.whole.window.taps, self.whole.group_channels
        most = max(EXACT // (taps * self.largest), 1) if self.dtype == np.float32 else channels
        count = -(-channels // most)
        cuts = [channels * i // count for i in range(count + 1)]
        return list(zip(cuts[:-1], cuts[1:], strict=True))

    @property
    def result(self) -> Spec:
        geo = self.whole
        return Spec((geo.images, geo.filters, *geo.window.out), self.dtype)

    def part(self, channels: int) -> Geometry:
        """The convolution of `channels` channels of each group."""
        return replace(self.whole, channels=channels * self.whole.groups)

    @property
    def widths(self) -> list[int]:
        """Channels of the parts: one number, or two."""
        return sorted({stop - start for start, stop in self.ranges}, reverse=True)

    def workspace(self) -> list[Spec]:
        """Data and weight of a part, its sums, all sums if there are several parts, and
        workspace."""
        geo, wide = self.whole, self.widths[0]
        pixels = size_of(geo.window.image)
        specs = [Spec((geo.images * geo.groups * wide * pixels,), self.dtype),
                 Spec((geo.filters * wide * geo.window.taps,), self.dtype), self.result,
                 Spec(self.result.shape if len(self.ranges) > 1 else (0,), INT32)]
        for width in self.widths:
            specs += fastest(self.part(width), "forward", self.dtype).workspace
        return specs

    def prepare(self, x: np.ndarray, w: np.ndarray, scratch: Sequence[Any], exact: bool = True
                ) -> tuple[Run, Any]:
        """A function that computes the sums of x (N, C, *image) and w (F, C / G, *kernel), both of
        integers of any type, and the array with the result, (N, F, D, H, W): int32 if there are
        several parts, unless large ones may be rounded to a float (not `exact`).
        """
        geo, (data, weight, sums, total) = self.whole, scratch[:4]
        image, kernel = geo.window.image, geo.window.kernel
        x = x.reshape(geo.images, geo.groups, geo.group_channels, *image)
        w = w.reshape(geo.filters, geo.group_channels, *kernel)
        specs, parts = iter(scratch[4:]), {}
        for width in self.widths:
            part = self.part(width)
            work = [next(specs) for _ in fastest(part, "forward", self.dtype).workspace]
            xs = _view(data, (geo.images, geo.groups, width, *image))
            ws = _view(weight, (geo.filters, width, *kernel))
            flat = xs.reshape(geo.images, geo.groups * width, *image)
            parts[width] = xs, ws, convolve(part, "forward", flat, ws, sums, None, work)

        def run() -> None:
            for start, stop in self.ranges:
                xs, ws, convolve = parts[stop - start]
                np.copyto(xs, x[:, :, start:stop])
                np.copyto(ws, w[:, start:stop])
                convolve()
                if start == 0 and total.size:
                    np.copyto(total, sums, casting="unsafe")
                elif total.size:
                    np.add(total, sums, out=total, casting="unsafe")
            if total.size and not exact:
                np.copyto(sums, total, casting="same_kind")

        return run, total if total.size and exact else sums


def _view(work: np.ndarray, shape: Shape) -> Any:
    """The first elements of a flat array as an array of this shape."""
    return work[:size_of(shape)].reshape(shape)


# ----------------------------------------------------------------------------------- dense products

@kernel(parallel=True)
def row_products(x, w, y):
    """y (M, N) int32 = x (M, K) w^T, w (N, K)."""
    for j in prange(w.shape[0]):
        row = w[j]
        for i in range(x.shape[0]):
            total, data = np.int32(0), x[i]
            for k in range(row.size):
                total = np.int32(total + np.int32(data[k]) * np.int32(row[k]))
            y[i, j] = total


def row_products_by_numpy(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
    """y = x w^T with NumPy: float64 represents the sums exactly."""
    np.copyto(y, np.matmul(x.astype(np.float64), w.T.astype(np.float64)), casting="unsafe")
