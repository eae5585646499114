"""im2col and col2im: windows of images as columns of a matrix, and its adjoint.

The pixels under a tap, over all positions of the window, are a strided region of the padded image.
im2col copies these regions, col2im accumulates them; each is the other's gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import FloatOp
from ..op import Call
from ..param import Shape
from ..shape import ShapeMismatch, size_of, unify
from .sliding_window import Layout, per_axis, sliding_size, span_of

__all__ = ["Im2col", "Col2im"]


class Windows(FloatOp):
    """Base: parameters, and both directions."""

    kernel: Shape
    stride: Shape
    dilate: Shape
    pad: Shape
    needs: ClassVar = ("ograd",)

    def window(self) -> tuple[Shape, Shape, Shape]:
        """stride, dilate and pad of every axis."""
        rank = len(self.kernel)
        Layout.of(None, rank)
        per_axis(self.kernel, rank, "kernel", 1, 1)
        return (per_axis(self.stride, rank, "stride", 1, 1),
                per_axis(self.dilate, rank, "dilate", 1, 1),
                per_axis(self.pad, rank, "pad", 0, 0))

    def positions(self, image: Shape) -> Shape:
        """Positions of the window along each axis of `image`, 0 where unknown."""
        stride, dilate, pad = self.window()
        return sliding_size(image, span_of(self.kernel, dilate), stride, pad)

    def _padded(self, image: Shape) -> tuple[Shape, tuple[slice, ...]]:
        """(size of the padded image, slices of the image in it)."""
        pad = self.window()[2]
        return (tuple(size + 2 * border for size, border in zip(image, pad, strict=True)),
                tuple(slice(border, border + size) for size, border in zip(image, pad,
                                                                           strict=True)))

    def _regions(self, image: Shape) -> Iterator[tuple[slice, ...]]:
        """Slices of the padded image under each tap."""
        stride, dilate, _ = self.window()
        counts = self.positions(image)
        for tap in product(*map(range, self.kernel)):
            yield tuple(slice(t * d, t * d + (n - 1) * s + 1, s)
                        for t, d, n, s in zip(tap, dilate, counts, stride, strict=True))

    def take(self, images: np.ndarray, columns: np.ndarray) -> None:
        """im2col: columns (N, C taps, positions) of images (N, C, ...)."""
        batch, channels, *image = images.shape
        size, inside = self._padded(tuple(image))
        padded: Any = images
        if any(self.pad):
            padded = np.zeros((batch, channels, *size), images.dtype)
            padded[(..., *inside)] = images
        parts = columns.reshape(batch, channels, -1, *self.positions(tuple(image)))
        for tap, region in enumerate(self._regions(tuple(image))):
            parts[:, :, tap] = padded[(..., *region)]

    def add_up(self, columns: np.ndarray, images: np.ndarray) -> None:
        """col2im: images (N, C, ...), each pixel the sum of its elements of columns."""
        batch, channels, *image = images.shape
        size, inside = self._padded(tuple(image))
        padded: Any = np.zeros((batch, channels, *size), images.dtype)
        parts = columns.reshape(batch, channels, -1, *self.positions(tuple(image)))
        for tap, region in enumerate(self._regions(tuple(image))):
            padded[(..., *region)] += parts[:, :, tap]
        images[...] = padded[(..., *inside)]


@dataclass(frozen=True)
class Im2col(Windows, name="im2col"):
    """data (N, C, ...) -> (N, C taps, positions): what every window of size `kernel` shows.

    One to three spatial axes; a convolution is the product of its weight with these columns.
    """

    kernel: Shape
    stride: Shape = ()
    dilate: Shape = ()
    pad: Shape = ()

    def infer_shape(self, ins, outs):
        if ins[0] is None:
            return ins, outs
        batch, channels, image = Layout.of(None, len(self.kernel)).split(ins[0])
        columns = (batch, channels * size_of(self.kernel), size_of(self.positions(tuple(image))))
        return ins, [unify(columns, outs[0], "computed and wanted output")]

    def forward(self, ins, outs, call):
        self.take(ins[0], outs[0])

    def backward(self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None], call: Call
                 ) -> None:
        if outs[0] is not None:
            self.add_up(ins[0], outs[0])


@dataclass(frozen=True)
class Col2im(Windows, name="col2im"):
    """data (N, C taps, positions) -> (N, C, *output_size): columns of im2col added up."""

    output_size: Shape
    kernel: Shape
    stride: Shape = ()
    dilate: Shape = ()
    pad: Shape = ()

    def infer_shape(self, ins, outs):
        if len(self.output_size) != len(self.kernel):
            raise ShapeMismatch(f"output_size is {self.output_size}, expected {len(self.kernel)} "
                                "entries, as many as kernel has")
        positions, taps = size_of(self.positions(self.output_size)), size_of(self.kernel)
        data = unify(ins[0], (0, 0, positions), f"data and its {positions} positions")
        assert data is not None
        if data[1] % taps:
            raise ShapeMismatch(f"data has shape {data}, expected a multiple of {taps} rows, the "
                                "taps of the kernel")
        return [data], [unify((data[0], data[1] // taps, *self.output_size), outs[0],
                              "computed and wanted output")]

    def forward(self, ins, outs, call):
        self.add_up(ins[0], outs[0])

    def backward(self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray | None], call: Call
                 ) -> None:
        if outs[0] is not None:
            self.take(ins[0], outs[0])
