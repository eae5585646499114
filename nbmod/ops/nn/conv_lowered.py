"""Convolution lowered along its first axis: im2col of whole planes (after MEC, Cho & Brand 2017).

Along the first axis the taps of a window become channels,

    x' (N positions, C taps, other axes)        w' (F, C taps, other kernel)

and the best algorithm computes the convolution over the other axes: of three axes two remain, which
vectorised kernels for images can process.  Positions that see the same taps form a part with a
convolution of its own, so that taps in the padding are not multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import groupby, zip_longest
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from ..dispatch import Choice
from ..jit import inlined, kernel, prange
from ..op import Run, Spec, all_of
from ..shape import size_of
from ..simd.host import lanes
from .batch_tiles import divisors_up_to
from .convolution import convolve, fastest
from .sliding_window import Axis, Direction, Geometry, Window

__all__ = ["cost", "parts", "prepare", "workspace"]

MOST, NEAR = 1 << 23, 1 << 21
"""Elements of x' at most, and elements for which more images than one are lowered together."""
MAX_PARTS = 6
"""Parts at most."""
LIVE = 0.8
"""Share of taps that see the image above which images of two axes are not lowered."""


# ------------------------------------------------------------------------------------------ kernels

class LoweredPlanes(NamedTuple):
    """Planes of (N, channels, depth, pixels) as (N, positions, channels, taps, width): tap t of
    position p is plane start + p stride + t dilate, after `pad` zeros."""

    images: int
    channels: int
    depth: int
    pixels: int
    positions: int
    taps: int
    start: int
    stride: int
    dilate: int
    pad: int
    width: int


@inlined
def _inside(planes):
    """Elements [lo, hi) of a lowered plane that are pixels."""
    lo = max(planes.pad, 0)
    return lo, max(lo, min(planes.pad + planes.pixels, planes.width))


@kernel(parallel=True)
def _gather(x, lowered, planes):
    """Copy planes of x to `lowered`, zeros outside the image; both flat."""
    lo, hi = _inside(planes)
    for job in prange(planes.images * planes.positions):
        n, p = np.int64(job) // planes.positions, np.int64(job) % planes.positions
        for c in range(planes.channels):
            for t in range(planes.taps):
                z = planes.start + p * planes.stride + t * planes.dilate
                to = np.uintp(((job * planes.channels + c) * planes.taps + t) * planes.width)
                first, stop = (lo, hi) if z >= 0 and z < planes.depth else (0, 0)
                at = ((n * planes.channels + c) * planes.depth + z) * planes.pixels - planes.pad
                for i in range(first):
                    lowered[to + np.uintp(i)] = 0
                for i in range(first, stop):
                    lowered[to + np.uintp(i)] = x[np.uintp(at + i)]
                for i in range(stop, planes.width):
                    lowered[to + np.uintp(i)] = 0


@kernel(parallel=True)
def _scatter_add(lowered, x, planes):
    """The adjoint: add planes of `lowered` to those of x."""
    lo, hi = _inside(planes)
    for job in prange(planes.images * planes.channels):
        n, c = np.int64(job) // planes.channels, np.int64(job) % planes.channels
        for p in range(planes.positions):
            for t in range(planes.taps):
                z = planes.start + p * planes.stride + t * planes.dilate
                if z >= 0 and z < planes.depth:
                    row = ((n * planes.positions + p) * planes.channels + c) * planes.taps + t
                    at = np.uintp(row * planes.width)
                    to = (job * planes.depth + z) * planes.pixels - planes.pad
                    for i in range(lo, hi):
                        x[np.uintp(to + i)] += lowered[at + np.uintp(i)]


# -------------------------------------------------------------------------------------------- parts

class LoweredPart(NamedTuple):
    """The convolution `geo` of `images` images at some positions: the `taps` along each axis that
    these see, and the planes of x' and of y'."""

    images: int
    taps: tuple[slice, ...]
    planes: tuple[LoweredPlanes, LoweredPlanes]
    geo: Geometry

    def adjacent(self, kernel: tuple[int, ...]) -> int:
        """How many of these taps of a weight are stored one after another."""
        sizes = [taps.stop - taps.start for taps in self.taps]
        whole = next((number for number in range(len(kernel) - 1, 0, -1)
                      if sizes[number] < kernel[number]), 0)
        return prod(sizes[whole:])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Elements of x', y' and w'."""
        geo = self.geo
        return (geo.images * geo.channels * geo.window.pixels,
                geo.images * geo.filters * geo.window.positions, geo.filters * geo.depth)


@lru_cache(maxsize=256)
def _parts(geo: Geometry, pads: bool) -> list[LoweredPart]:
    """The parts, none where there is nothing to lower; `pads`: a single axis that remains is padded
    as it is copied."""
    used = [number for number, axis in enumerate(geo.window.axes) if axis[:3] != (1, 1, 1)]
    if len(used) < 2 or not geo.images or not geo.positions:
        return []
    seen = size_of(axis.num_pixels for axis in geo.window.axes)
    if len(used) == 2 and seen > LIVE * geo.window.taps * geo.window.positions:
        return []
    # A single axis that remains loses its dead taps.
    window = geo.window.trimmed if len(used) == 2 else geo.window
    live = geo.window.live if len(used) == 2 else tuple(map(range, geo.window.kernel))
    axis, *others = (window.axes[number] for number in used)
    rest, pixels, pad = Window.merged(others), size_of(other.image for other in others), 0
    if len(used) == 2 and pads:
        last = others[0]
        width = (last.out - 1) * last.stride + (last.kernel - 1) * last.dilate + 1
        rest, pad = Window.merged([last._replace(image=width, pad=0)]), last.pad
    if axis.kernel * axis.out > MOST:
        return []
    runs = _runs(axis)
    area = geo.channels * rest.pixels * max(len(taps) * count for taps, count in runs)
    if area > MOST:
        return []
    images = max(divisors_up_to(geo.images, max(NEAR // area, 1)))
    parts, first = [], 0
    for taps, count in runs:
        start = first * axis.stride - axis.pad + taps.start * axis.dilate
        planes = (LoweredPlanes(images, geo.channels, axis.image, pixels, count, len(taps), start,
                                axis.stride, axis.dilate, pad, rest.pixels),
                  LoweredPlanes(images, geo.filters, axis.out, rest.positions, count, 1, first, 1,
                                0, 0, rest.positions))
        seen_taps = [slice(each.start, each.stop) for each in live]
        begin = live[used[0]].start
        seen_taps[used[0]] = slice(begin + taps.start, begin + taps.stop)
        lowered = replace(geo, window=rest, images=images * count,
                          channels=geo.channels * len(taps))
        parts.append(LoweredPart(images, tuple(seen_taps), planes, lowered))
        first += count
    return parts


def _runs(axis: Axis) -> list[tuple[range, int]]:
    """Runs of adjacent positions: the taps that see the image, else tap 0, and their number."""
    inside = axis.pixels[1]
    inside[:, 0] |= ~inside.any(axis=1)
    first, stop = inside.argmax(axis=1), axis.kernel - inside[:, ::-1].argmax(axis=1)
    ranges = [range(*both) for both in zip(first.tolist(), stop.tolist(), strict=True)]
    runs = [(taps, len(list(same))) for taps, same in groupby(ranges)]
    size = -(-len(runs) // MAX_PARTS)
    merged = [runs[i:i + size] for i in range(0, len(runs), size)]
    return [(range(min(taps.start for taps, _ in some), max(taps.stop for taps, _ in some)),
             sum(count for _, count in some)) for some in merged]


# ------------------------------------------------------------------------------- cost and functions

CALL, PLANE, STORE, TAPS, WEIGHT = 15_000, 6, 1.5, 4, 1.2
"""Nanoseconds (see `convolution`) of a part; to copy a plane; to load or store a vector of it, or
twice that far from the caches; to copy adjacent taps of a weight.  The factor by which the gradient
of a weight takes longer than estimated, because each tile adds to all of it."""


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds of a direction, inf where there is nothing to lower."""
    total = 0.0
    for part in _parts(geo, direction != "data"):
        planes = part.geo.images * (part.geo.channels + part.geo.filters)
        x, y, w = part.sizes
        far = 2 if x > NEAR else 1
        moved = (PLANE * planes + 2 * far * STORE * (x + y + w) / lanes(dtype)
                 + TAPS * w / part.adjacent(geo.window.kernel))
        tiles = geo.images // part.images
        inner = fastest(part.geo, direction, dtype).cost
        total += tiles * (CALL + moved + inner * (WEIGHT if direction == "weight" else 1))
    return total or inf


def parts(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Choice]:
    """The choices of the parts' algorithms."""
    return [fastest(part.geo, direction, dtype) for part in _parts(geo, direction != "data")]


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """x', y', w' and the workspace of a convolution, which all parts share."""
    sizes = []
    for part in _parts(geo, direction != "data"):
        inner = fastest(part.geo, direction, dtype).workspace
        sizes.append([*part.sizes, *(prod(spec.shape) for spec in inner)])
    return [Spec((max(each),), dtype) for each in zip_longest(*sizes, fillvalue=0)]


def prepare(geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
            scratch: Sequence[Any]) -> Run:
    """A function that computes a direction part by part: it copies x', y' and w', as far as they
    are read, and adds the one that is computed to x, y or w, which starts as bias or 0."""
    target = {"forward": y, "data": x, "weight": w}[direction]
    start = partial(target.fill, 0) if bias is None else partial(
        np.copyto, target.reshape(*target.shape[:2], -1), bias[:, None])
    runs: list[Run] = [start]
    filters = w.reshape(geo.filters, geo.group_channels, *geo.window.kernel)
    for part in _parts(geo, direction != "data"):
        taps = filters[(..., *part.taps)]
        inner = [work[:prod(spec.shape)].reshape(spec.shape) for work, spec in zip(
            scratch[3:], fastest(part.geo, direction, x.dtype).workspace, strict=False)]
        some_x, some_y, some_w = (work[:size] for work, size in zip(scratch, part.sizes,
                                                                    strict=False))
        some_w = some_w.reshape(taps.shape)
        if direction != "weight" and taps.flags.c_contiguous:
            some_w = taps
        elif direction != "weight":
            runs.append(partial(np.copyto, some_w, taps))
        compute = convolve(part.geo, direction, some_x, some_w, some_y, None, inner)
        for n in range(0, geo.images, part.images):
            images, outputs = (array[n:n + part.images].reshape(-1) for array in (x, y))
            of_x, of_y = part.planes
            if direction != "data":
                runs.append(partial(_gather, images, some_x, of_x))
            if direction != "forward":
                runs.append(partial(_gather, outputs, some_y, of_y))
            runs.append(compute)
            runs.append({"forward": partial(_scatter_add, some_y, outputs, of_y),
                         "data": partial(_scatter_add, some_x, images, of_x),
                         "weight": partial(np.add, taps, some_w, taps)}[direction])
    return all_of(runs)
