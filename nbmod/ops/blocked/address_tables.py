"""Tables of offsets with which the strip and outer-product kernels compute convolutions.

A `StripTask` covers an output with strips: which taps, which pixels, which filters.  All three
directions and every geometry differ in these tables only:

    forward     a tap for every block of input channels and kernel position
    data        the convolution of the output's gradient with rotated filters.  With a stride,
                pixels of the input fall into classes: those with the same remainder see the same
                kernel positions, so each class is a convolution of stride 1
    weight      an `OuterTask`: sums over pixels, taps are rows

Output channels are processed in pairs of vectors, an odd one of a group alone.  Small images are
processed several at a time, so that strips are full.

Offsets of the pixels of one image with 2 x 3 pixels and a halo of 1, in two blocks of 4 lanes, and
the tables of its convolution with 3 x 3 filters:

    block 0     0   4   8  12  16        block 1    80  84  88  92  96
               20  24  28  32  36                  100 104 108 112 116
               40  44  48  52  56                  120 124 128 132 136
               60  64  68  72  76                  140 144 148 152 156

    taps       0 4 8  20 24 28  40 44 48    80 84 88  100 104 108  120 124 128
    pixels     0 4 8  20 24 28              the first tap of each pixel of y, row by row

A pixel of y is the sum of x[pixel + tap + lane] times the filters of the tap and lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from ..simd.conv_strip import PIXELS
from ..simd.outer_product import ROWS
from .layout import LANES, BlockedLayout

__all__ = ["OuterTask", "PackPlan", "Sliding", "StripTask", "data_pack", "data_strips", "data_work",
           "forward_pack", "forward_strips", "forward_work", "grouped", "neighbours",
           "pixel_offsets", "weight_outers"]

Pair = tuple[int, int]
FULL = 56
"""Least number of pixels of an image that has strips of its own: filters are read once for them."""
CHUNK = 112
"""Pixels of an outer product at a time: what it reads of x and g fits the L1 cache."""
KEPT = 64
"""Size of the caches of tables."""


@dataclass(frozen=True)
class Sliding:
    """Geometry of a sliding window: rows and columns of each; groups of filters and channels."""

    kernel: Pair
    stride: Pair = (1, 1)
    pad: Pair = (0, 0)
    dilate: Pair = (1, 1)
    groups: int = 1

    @property
    def taps(self) -> list[Pair]:
        return list(product(range(self.kernel[0]), range(self.kernel[1])))

    @property
    def classes(self) -> list[Pair]:
        """The remainders of input pixels by the stride."""
        return list(product(range(self.stride[0]), range(self.stride[1])))

    def along(self, axis: int, remainder: int) -> list[Pair]:
        """(kernel position, offset of the output pixel) read by input pixels with this remainder
        along an axis."""
        pad, step, wide = self.pad[axis], self.dilate[axis], self.stride[axis]
        ahead = ((tap, remainder + pad - tap * step) for tap in range(self.kernel[axis]))
        return [(tap, offset // wide) for tap, offset in ahead if offset % wide == 0]

    def seen(self, remainder: Pair) -> list[tuple[int, Pair]]:
        """(kernel position, offset of the output pixel) read by a class of input pixels."""
        rows, columns = (self.along(axis, remainder[axis]) for axis in (0, 1))
        return [(i * self.kernel[1] + j, (y, x)) for (i, y), (j, x) in product(rows, columns)]

    def data_halo(self, image: Pair, out: Pair) -> int:
        """Halo of the output's gradient that the data gradient reads."""
        most = 0
        for axis in (0, 1):
            stride, size = self.stride[axis], image[axis]
            for tap in range(self.kernel[axis]):
                ahead = self.pad[axis] - tap * self.dilate[axis]
                first = -ahead % stride     # the first pixel that reads this tap
                if first < size:
                    ahead, last = (first + ahead) // stride, (size - 1 - first) // stride
                    most = max(most, -ahead, last + ahead - out[axis] + 1)
        return most


class VectorSpan(NamedTuple):
    """One or two vectors of channels of a group."""

    group: int
    vector: int
    vectors: int


def spans(channels: int, groups: int) -> Iterator[VectorSpan]:
    """The vectors of all channels, in pairs within each group."""
    each = -(-channels // groups // LANES)
    for group, first in product(range(groups), range(0, each, 2)):
        yield VectorSpan(group, group * each + first, min(2, each - first))


class PackPlan(NamedTuple):
    """The order of packed filters: `rows` describe the source and target of their parts (see
    `conv_driver.pack`), `size` is the number of elements."""

    rows: np.ndarray
    positions: np.ndarray
    strides: Pair
    depth: int
    size: int


def forward_pack(slide: Sliding, filters: int, channels: int, depth: int) -> PackPlan:
    """Pack weight (filters, channels / groups, *kernel) for the forward pass:
    [span][block][tap][depth][vectors LANES]."""
    inner, outer, taps = channels // slide.groups, filters // slide.groups, len(slide.taps)
    rows, size = [], 0
    for span in spans(filters, slide.groups):
        first = span.vector * LANES
        have = min(span.vectors * LANES, (span.group + 1) * outer - first)
        rows.append((first * inner * taps, have, inner, span.vectors * LANES, size, 0, taps))
        size += padded_taps(-(-inner // depth) * taps, depth) * depth * span.vectors * LANES
    return PackPlan(np.array(rows), np.arange(taps), (inner * taps, taps), depth, size)


def padded_taps(taps: int, depth: int) -> int:
    """Taps, padded where tiles of the weight gradient have ROWS rows."""
    return taps if depth > 1 else -(-taps // ROWS) * ROWS


def data_pack(slide: Sliding, filters: int, channels: int) -> PackPlan:
    """Pack the weight for the data gradient: [span of channels][class][block][tap]..., and a tap of
    zeros at the end for classes that read none."""
    inner, outer, taps = channels // slide.groups, filters // slide.groups, len(slide.taps)
    rows, size = [], 0
    seen = [[position for position, _ in slide.seen(each)] for each in slide.classes]
    starts = np.cumsum([0, *map(len, seen)])
    for span in spans(channels, slide.groups):
        first = span.vector * LANES - span.group * inner
        have = min(span.vectors * LANES, inner - first)
        base = (span.group * outer * inner + first) * taps
        for start, see in zip(starts, seen, strict=False):
            if see:
                rows.append((base, have, outer, span.vectors * LANES, size, start, len(see)))
                size += -(-outer // LANES) * len(see) * LANES * span.vectors * LANES
    positions = np.array(list(chain(*seen)), np.int64)
    return PackPlan(np.array(rows), positions, (taps, inner * taps), LANES,
                    size + 2 * LANES * LANES)


class StripTask(NamedTuple):
    """Work of `conv_driver.run_strips`, without the tensors.

    `spans` has a row for every span of output channels (and class): offsets in x, w, bias and y,
    first tap, taps; first strip and strips of a group of images, and of the last group; vectors.
    `steps`: groups of images, strides of groups in x and y, stride of planes of y.
    """

    taps: np.ndarray
    offsets: np.ndarray
    spans: np.ndarray
    steps: tuple[int, ...]


def grouped(batch: int, pixels: int) -> tuple[int, int, int]:
    """Images of a group, groups, images of the last one: at least FULL pixels a group, up to twice
    as many where their strips are fuller."""
    least = max(1, min(batch, -(-FULL // max(pixels, 1))))

    def strips(each: int) -> int:
        full, rest = divmod(batch, each)
        return full * -(-each * pixels // PIXELS) + -(-rest * pixels // PIXELS)

    each = min(range(least, min(batch, 2 * least) + 1), key=strips)
    groups = -(-batch // each)
    return each, groups, batch - (groups - 1) * each


def _strips(batch: int, pixels: int | np.ndarray, most: int) -> Any:
    """Pixels of all strips, full or not, of images with `pixels` pixels, in one class or several,
    the largest of `most` pixels."""
    each, groups, last = grouped(batch, most)
    return PIXELS * ((groups - 1) * -(-each * pixels // PIXELS) + -(-last * pixels // PIXELS))


def forward_work(slide: Sliding, out: Pair, batch: int) -> int:
    """Products of a pixel and a tap of the forward pass for each pair of vectors: the size of
    `forward_strips`."""
    pixels = out[0] * out[1]
    return int(_strips(batch, pixels, pixels)) * len(slide.taps)


def data_work(slide: Sliding, image: Pair, batch: int) -> int:
    """Products of a pixel and a tap of the data gradient for each pair of vectors: taps in the halo
    count, but not the tap of zeros of pixels that read none."""
    sizes, seen = [], []
    for axis, (size, stride) in enumerate(zip(image, slide.stride, strict=True)):
        remainders = np.arange(min(size, stride))
        sizes.append(-(-(size - remainders) // stride))
        seen.append([len(slide.along(axis, int(r))) for r in remainders])
    pixels = np.multiply.outer(*sizes)
    return int((_strips(batch, pixels, int(pixels.max())) * np.multiply.outer(*seen)).sum())


class _PixelTable:
    """Offsets of pixels, strip by strip."""

    def __init__(self) -> None:
        self.tables: list[np.ndarray] = []
        self.strips = 0

    def add(self, images: int, pixels: list[np.ndarray], strides: list[int]) -> Pair:
        """(first strip, strips) of the pixels at these offsets in x and y, in `images` images."""
        flat = [(np.arange(images)[:, None] * stride + offsets).ravel()
                for offsets, stride in zip(pixels, strides, strict=True)]
        count = -(-len(flat[0]) // PIXELS)
        chosen = np.minimum(np.arange(count * PIXELS), len(flat[0]) - 1)
        self.tables.append(np.stack([row[chosen].reshape(count, PIXELS) for row in flat], axis=1))
        self.strips += count
        return self.strips - count, count

    def all(self) -> np.ndarray:
        return np.concatenate([table.ravel() for table in self.tables])


def _grid(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y, x = np.meshgrid(rows, columns, indexing="ij")
    return y.ravel(), x.ravel()


def neighbours(slide: Sliding, x: BlockedLayout) -> int:
    """Taps that pairs of vectors process at a time: those of a filter row, if they are adjacent and
    there is a kernel for their number."""
    wide = slide.kernel[1]
    return wide if x.lanes == 1 and slide.dilate[1] == 1 and wide in (3, 7) else 1


@lru_cache(maxsize=KEPT)
def forward_strips(slide: Sliding, x: BlockedLayout, y: BlockedLayout, batch: int,
                   deep: int = 0) -> StripTask:
    """y = convolution of x.  A tap has filters for `deep` channels, by default all of a block."""
    each, groups, last = grouped(batch, y.height * y.width)
    rows, columns = _grid(np.arange(y.height), np.arange(y.width))
    (down, right), (top, left) = slide.stride, slide.pad
    pixels = [x.at(rows * down - top, columns * right - left), y.at(rows, columns)]
    table = _PixelTable()
    strips = [table.add(images, pixels, [x.image, y.image]) for images in (each, last)]
    depth, inner, wide = x.lanes, x.blocks // slide.groups, neighbours(slide, x)
    taps = [b * x.plane + i * slide.dilate[0] * x.row + j * slide.dilate[1] * depth
            for b, (i, j) in product(range(inner), slide.taps)]
    weights = len(taps) * deep if deep else padded_taps(len(taps), depth) * depth
    seen = {1: (0, len(taps)), 2: (len(taps) if wide > 1 else 0, len(taps) // wide)}
    lines = [(span.group * inner * x.plane, span.vector * weights * LANES, span.vector * LANES,
              span.vector * y.plane, *seen[span.vectors], *strips[0], *strips[1], span.vectors)
             for span in spans(y.channels, slide.groups)]
    return StripTask(np.array(taps + taps[::wide] * (wide > 1)), table.all(), np.array(lines),
                     (groups, each * x.image, each * y.image, y.plane))


@lru_cache(maxsize=KEPT)
def data_strips(slide: Sliding, g: BlockedLayout, x: BlockedLayout, batch: int,
                deep: int = LANES) -> StripTask:
    """The data gradient (layout x) from that of the output (layout g)."""
    (down, right), inner, table = slide.stride, g.blocks // slide.groups, _PixelTable()
    each, groups, last = grouped(batch, -(-x.height // down) * -(-x.width // right))
    taps: list[int] = []
    lines, weight = [], 0
    strips: list[list[Pair]] = []
    ranges = []
    for remainder in slide.classes:
        rows, columns = (np.arange(r, size, s) for r, size, s in zip(
            remainder, (x.height, x.width), slide.stride, strict=True))
        pixels = [g.at(*_grid(rows // down, columns // right)), x.at(*_grid(rows, columns))]
        seen = slide.seen(remainder)
        strips.append([table.add(images, pixels, [g.image, x.image]) for images in (each, last)
                       if len(pixels[0])])
        ranges.append((len(taps), inner * len(seen)))
        taps += [b * g.plane + i * g.row + j * LANES for b, (_, (i, j)) in
                 product(range(inner), seen)] or [0]
    vectors = list(spans(x.channels, slide.groups))
    zeros = sum(span.vectors for span in vectors) * sum(c for _, c in ranges) * deep * LANES
    for span in vectors:
        for (first, count), strip in zip(ranges, strips, strict=True):
            if strip:
                lines.append((span.group * inner * g.plane, weight if count else zeros,
                              span.vector * LANES, span.vector * x.plane, first, max(count, 1),
                              *strip[0], *strip[1], span.vectors))
            weight += count * deep * span.vectors * LANES
    return StripTask(np.array(taps), table.all(), np.array(lines),
                     (groups, each * g.image, each * x.image, x.plane))


class OuterTask(NamedTuple):
    """Work of `conv_driver.run_outer_products`.

    `tiles` has a row for each ROWS rows of a gradient: offsets in x and in `rows`, and the row.
    `spans`: offsets in x, g and d, vectors.  `steps`: groups of images, pixels of a group, of the
    last one and of a chunk, strides of groups in x and g and of planes of g, and blocks of x.
    """

    rows: np.ndarray
    offsets: np.ndarray
    tiles: np.ndarray
    spans: np.ndarray
    steps: tuple[int, ...]


@lru_cache(maxsize=KEPT)
def pixel_offsets(slide: Sliding, x: BlockedLayout, g: BlockedLayout, images: int = 1
                  ) -> np.ndarray:
    """Offsets of every pixel of g, of `images` images, in x and in g: (pixels, 2)."""
    rows, columns = _grid(np.arange(g.height), np.arange(g.width))
    (down, right), (top, left) = slide.stride, slide.pad
    offsets = np.stack([x.at(rows * down - top, columns * right - left), g.at(rows, columns)], 1)
    return (np.arange(images)[:, None, None] * [x.image, g.image] + offsets).reshape(-1, 2)


@lru_cache(maxsize=KEPT)
def weight_outers(slide: Sliding, x: BlockedLayout, g: BlockedLayout, batch: int) -> OuterTask:
    """The gradient of the packed weight from x and the output's gradient."""
    pixels = g.height * g.width
    each = max(1, min(batch, CHUNK // pixels))
    groups = -(-batch // each)
    inner, depth = x.blocks // slide.groups, x.lanes
    taps = np.array([b * x.plane + i * slide.dilate[0] * x.row + j * slide.dilate[1] * depth
                     for b, (i, j) in product(range(inner), slide.taps)])
    if depth > 1:
        table = taps[:0]
        tiles = [(tap + row, 0, t * depth + row)
                 for t, tap in enumerate(taps) for row in range(0, depth // ROWS * ROWS, ROWS)]
    else:
        count = padded_taps(len(taps), 1)
        table = taps[np.minimum(np.arange(count), len(taps) - 1)]
        tiles = [(0, first, first) for first in range(0, count, ROWS)]
    weights = padded_taps(len(taps), depth) * depth
    offsets = [(span.group * inner * x.plane, span.vector * g.plane, span.vector * weights * LANES,
                span.vectors) for span in spans(g.channels, slide.groups)]
    count, last = each * pixels, (batch - (groups - 1) * each) * pixels
    return OuterTask(table, pixel_offsets(slide, x, g, each).ravel(), np.array(tiles),
                     np.array(offsets), (groups, count, last, -(-count // -(-count // CHUNK)),
                                         each * x.image, each * g.image, g.plane, inner))
