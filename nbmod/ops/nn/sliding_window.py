"""Sliding windows: the geometry of convolution, deconvolution and pooling.

Images have one to three spatial axes; kernels always process three, of which missing ones come
first and have size 1: a row of pixels is a `(1, 1, W)` image.

A `Window` maps the grid of its positions to an image.  Position `o` of an axis reads image index
`o * stride - pad + tap * dilate` for every `tap` of the kernel; indices outside the image are
padding.  `Geometry` adds images, channels, filters and groups of a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from ..shape import PartialShape, ShapeMismatch, size_of, unify

__all__ = ["Window", "Geometry", "CHANNELS_FIRST", "Direction", "Layout", "expect",
           "per_axis", "sliding_size", "span_of"]

Triple = tuple[int, int, int]
Direction = Literal["forward", "data", "weight"]
"""The result of a convolution: its output, the gradient of its data, or that of its weight."""
MOST_PIXELS = 2**40
"""Along an axis, of images and windows: their products with each other fit 64 bits."""
CHANNELS_FIRST = ("NCW", "NCHW", "NCDHW")


def three(values: Sequence[int], fill: int) -> Triple:
    """`values` of one to three axes as three, with `fill` for the missing first ones."""
    first, second, third = (fill,) * (3 - len(values)) + tuple(values)
    return first, second, third


@dataclass(frozen=True)
class Window:
    """A window of `kernel` taps over an image; `out` is the number of its positions."""

    image: Triple
    out: Triple
    kernel: Triple = (1, 1, 1)
    stride: Triple = (1, 1, 1)
    pad: Triple = (0, 0, 0)
    dilate: Triple = (1, 1, 1)

    @classmethod
    def over(cls, image: Sequence[int], out: Sequence[int], kernel: Sequence[int],
             stride: Sequence[int], pad: Sequence[int], dilate: Sequence[int] = ()) -> Window:
        """From tuples with one entry per spatial axis."""
        return cls(three(image, 1), three(out, 1), three(kernel, 1), three(stride, 1),
                   three(pad, 0), three(dilate, 1))

    @classmethod
    def merged(cls, axes: list[Axis]) -> Window:
        """With the fewest axes: adjacent axes are merged where that gives the same windows."""
        axes = list(axes)
        for outer in range(len(axes) - 2, -1, -1):
            both = axes[outer].merged(axes[outer + 1])
            if both is not None:
                axes[outer:outer + 2] = [both]
        sizes = zip(*axes, strict=True) if axes else [()] * len(Axis._fields)
        return cls.over(*sizes)

    @classmethod
    def pixelwise(cls, pixels: int) -> Window:
        """One tap on every pixel, in one row."""
        return cls((1, 1, pixels), (1, 1, pixels))

    @cached_property
    def axes(self) -> list[Axis]:
        """The three axes; the dilation of a single tap is 1."""
        return [Axis(image, out, kernel, stride, pad, dilate if kernel > 1 else 1)
                for image, out, kernel, stride, pad, dilate in zip(
                    self.image, self.out, self.kernel, self.stride, self.pad, self.dilate,
                    strict=True)]

    @property
    def taps(self) -> int:
        return size_of(self.kernel)

    @property
    def pixels(self) -> int:
        return size_of(self.image)

    @property
    def positions(self) -> int:
        return size_of(self.out)

    @property
    def is_pixelwise(self) -> bool:
        return (self.kernel, self.stride, self.pad) == ((1, 1, 1), (1, 1, 1), (0, 0, 0))

    @cached_property
    def table(self) -> np.ndarray:
        """The window as kernels read it, (1 + taps, 11) integers.

        Row 0: image, out, stride (three each), taps, whether any tap meets padding.  Then one row
        per tap: its offset from position * stride for each axis, and the positions [lo, hi) of the
        last axis at which the tap is inside the image.
        """
        table = np.zeros((1 + self.taps, 11), np.int64)
        table[0] = *self.image, *self.out, *self.stride, self.taps, self.is_padded
        size, step, count = self.image[2], self.stride[2], self.out[2]
        offset = np.indices(self.kernel).reshape(3, -1).T * self.dilate - self.pad
        first = np.clip(-(offset[:, 2] // step), 0, count)
        last = np.clip((size - 1 - offset[:, 2]) // step + 1, first, count)
        table[1:, :5] = np.column_stack([offset, first, last])
        return table

    @property
    def live(self) -> tuple[range, ...]:
        """For each axis the range of taps that see the image at some position, else tap 0 only."""
        return tuple(axis.live for axis in self.axes)

    @property
    def trimmed(self) -> Window:
        """The window with its `live` taps only; its pad is negative where the image begins before
        the first of them."""
        pad = (p - taps.start * d for p, taps, d in zip(self.pad, self.live, self.dilate,
                                                        strict=True))
        return replace(self, kernel=three([len(taps) for taps in self.live], 1),
                       pad=three(list(pad), 0))

    @property
    def pixels_seen(self) -> tuple[np.ndarray, np.ndarray]:
        """(positions, taps): the pixel under each tap, and whether there is one."""
        pixel, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
        for axis in self.axes:
            index, there = axis.pixels
            shape = len(pixel) * axis.out, pixel.shape[1] * axis.kernel
            pixel = (pixel[:, None, :, None] * axis.image + index[:, None]).reshape(shape)
            inside = (inside[:, None, :, None] & there[:, None]).reshape(shape)
        return pixel, inside

    @property
    def is_padded(self) -> bool:
        ends = ((o - 1) * s + (k - 1) * d - p for o, s, k, d, p in zip(
            self.out, self.stride, self.kernel, self.dilate, self.pad, strict=True))
        return any(self.pad) or any(end >= i for end, i in zip(ends, self.image, strict=True))


class Axis(NamedTuple):
    """One spatial axis of a window."""

    image: int
    out: int
    kernel: int
    stride: int
    pad: int
    dilate: int

    @property
    def is_spanned(self) -> bool:
        """Whether the window covers the axis exactly, in a single position."""
        return (self.out == 1 and self.kernel == self.image and self.pad == 0
                and self.dilate == 1)

    @property
    def is_pixelwise(self) -> bool:
        return self.kernel == self.stride == 1 and self.pad == 0 and self.out == self.image

    @property
    def live(self) -> range:
        """The range of taps that see the image at some position, else tap 0 only."""
        seen = np.flatnonzero(self._counts())
        return range(int(seen[0]), int(seen[-1]) + 1) if len(seen) else range(1)

    @property
    def num_pixels(self) -> int:
        """Pairs of a position and a tap that see the image."""
        return int(self._counts().sum())

    def _counts(self) -> np.ndarray:
        """For every tap the number of positions at which it sees the image."""
        offset = np.arange(self.kernel) * self.dilate - self.pad
        first = np.maximum(-(offset // self.stride), 0)
        last = np.minimum((self.image - 1 - offset) // self.stride, self.out - 1)
        return np.maximum(last - first + 1, 0)

    @property
    def pixels(self) -> tuple[np.ndarray, np.ndarray]:
        """(positions, taps): the pixel under each tap, and whether there is one."""
        index = (np.arange(self.out)[:, None] * self.stride - self.pad
                 + np.arange(self.kernel) * self.dilate)
        return index, (index >= 0) & (index < self.image)

    def merged(self, inner: Axis) -> Axis | None:
        """This axis and the next inner one as a single axis; None if no such axis has the same
        windows."""
        size = inner.image
        if inner.is_spanned and self.dilate == 1:
            return Axis(self.image * size, self.out, self.kernel * size, self.stride * size,
                        self.pad * size, 1)
        if inner.is_pixelwise and self.stride == 1:
            return Axis(self.image * size, self.out * size, self.kernel, 1, self.pad * size,
                        self.dilate * size if self.kernel > 1 else 1)
        return None


@dataclass(frozen=True)
class Geometry:
    """A convolution of `images` with `channels` by `filters` in `groups`."""

    window: Window
    images: int
    channels: int
    filters: int
    groups: int = 1

    @property
    def group_channels(self) -> int:
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        return self.filters // self.groups

    @property
    def depth(self) -> int:
        """Terms of the sum of one output: channels of a group times taps."""
        return self.group_channels * self.window.taps

    @property
    def positions(self) -> int:
        """Window positions over all images."""
        return self.images * self.window.positions

    @property
    def products(self) -> int:
        """Multiplications of any direction, including those with padding."""
        return self.filters * self.depth * self.positions

    @cached_property
    def squeezed(self) -> Geometry:
        """This convolution with the fewest axes.

        Tensors are reshaped, not copied.  A first axis that the window spans is merged into the
        channels; adjacent axes are merged where a single axis has the same windows.  Filters as
        wide as the image, for example, slide over one long row with a stride of its width.
        """
        axes, channels = [axis for axis in self.window.axes if axis[:3] != (1, 1, 1)], self.channels
        while axes and axes[0].is_spanned:
            channels *= axes.pop(0).image
        return replace(self, window=Window.merged(axes), channels=channels)


@dataclass(frozen=True)
class Layout:
    """Position of the channel axis in a tensor of `rank` spatial axes: second or last."""

    rank: int
    channels_last: bool = False

    @classmethod
    def of(cls, name: str | None, rank: int) -> Layout:
        """From a layout of MXNet, such as "NHWC"; None is channels first."""
        if not 1 <= rank <= 3:
            raise ShapeMismatch(f"kernel has {rank} dimensions, expected 1 to 3")
        if name is not None and len(name) != rank + 2:
            raise ShapeMismatch(f"layout is {name}, expected {rank + 2} letters for a kernel of "
                                f"{rank} dimension(s)")
        return cls(rank, name is not None and name not in CHANNELS_FIRST)

    def split(self, shape: tuple[int, ...], what: str = "data") -> tuple[int, int, Sequence[int]]:
        """(batch, channels, image) of a tensor; also (filters, channels, kernel) of a weight."""
        if len(shape) != self.rank + 2:
            raise ShapeMismatch(f"{what} has shape {shape}, expected {self.rank + 2} dimensions: "
                                f"{self}")
        if self.channels_last:
            return shape[0], shape[-1], shape[1:-1]
        return shape[0], shape[1], shape[2:]

    def join(self, batch: int, channels: int, image: Sequence[int]) -> tuple[int, ...]:
        """The inverse of `split`."""
        tail = (*image, channels) if self.channels_last else (channels, *image)
        return (batch, *tail)

    def __str__(self) -> str:
        image = "DHW"[-self.rank:]
        return f"(N, {', '.join(image + 'C' if self.channels_last else 'C' + image)})"


def per_axis(values: Sequence[int], rank: int, name: str, default: int, least: int
             ) -> tuple[int, ...]:
    """A parameter with one entry per spatial axis; () is `default` everywhere."""
    if not values:
        return (default,) * rank
    if len(values) != rank:
        raise ShapeMismatch(f"{name} is {tuple(values)}, expected {rank} entries, as many as "
                            "kernel has")
    if min(values) < least:
        raise ShapeMismatch(f"{name} is {tuple(values)}, expected entries of at least {least}")
    if max(values) > MOST_PIXELS:
        raise ShapeMismatch(f"{name} is {tuple(values)}, expected entries of at most "
                            f"{MOST_PIXELS:,}")
    return tuple(values)


def span_of(kernel: Sequence[int], dilate: Sequence[int]) -> tuple[int, ...]:
    """Image pixels from a window's first tap to its last, per axis."""
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilate, strict=True))


def sliding_size(image: Sequence[int], span: Sequence[int], stride: Sequence[int],
                 pad: Sequence[int], up: bool = False) -> tuple[int, ...]:
    """Positions of a window per axis; 0 where the image size is 0, that is unknown.

    With `up`, a last window that does not fit counts.
    """
    for size, wide, border in zip(image, span, pad, strict=True):
        if size and size + 2 * border < wide:
            raise ShapeMismatch(f"the window spans {tuple(span)} pixels, more than the image "
                                f"{tuple(image)} with pad {tuple(pad)} on either side")
    return tuple((size + 2 * border - wide + (step - 1) * up) // step + 1 if size else 0
                 for size, wide, step, border in zip(image, span, stride, pad, strict=True))


def expect(name: str, shape: PartialShape, expected: tuple[int, ...], data: PartialShape
           ) -> PartialShape:
    """`shape` and `expected` unified; a ShapeMismatch that says where `expected` comes from."""
    try:
        return unify(shape, expected)
    except ShapeMismatch:
        raise ShapeMismatch(f"{name} has shape {shape}, expected {expected} from data {data}"
                            ) from None
