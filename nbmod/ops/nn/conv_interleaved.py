"""Direct convolution of small images, which are interleaved: vector lanes are images.

In the layout (channels, pixels, images), CHWN of cuda-convnet (Krizhevsky 2012), the output and the
gradient of the data are sums over channels and taps of weights times vectors of images.  Where
adjacent results see adjacent pixels under the same taps, they form a run, one longer vector.
Tables list the pixels that each run sees: taps in the padding cost nothing, rows of a few pixels
and strides no more than others.  That suits images of some pixels in batches of some vectors.

Every sum is formed by one worker in an order that depends on shapes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..op import Run, Spec
from ..simd.host import lanes
from ..simd.image_lanes import (
    ROWS,
    VECTORS,
    LaneStart,
    LaneSums,
    lane_sums1,
    lane_sums2,
    lane_sums3,
)
from ..simd.transpose import transpose, transpose_scatter
from .sliding_window import Direction, Geometry, Window

__all__ = ["cost", "prepare", "workspace"]

PAIRS = 1 << 18
"""Most pairs of a position and a tap."""
MOST = 1 << 18
"""Elements of interleaved images: they stay in the L2 cache."""
LEAST = 4
"""Fewest images that are interleaved."""


# -------------------------------------------------------------------------------------------- runs

class Runs(NamedTuple):
    """Runs of adjacent results that see adjacent source pixels under the same taps.

    table  of each run: its first result, results, first entry and entries
    taps   entries: index of the tap in the weight, pixel that the first result of the run sees
    """

    table: np.ndarray
    taps: np.ndarray


@lru_cache(maxsize=256)
def _runs(window: Window, direction: Direction) -> Runs:
    """Runs of positions, which see pixels; or of pixels, which positions see."""
    pixel, inside = window.trimmed.pixels_seen
    result, tap = np.nonzero(inside)
    source, count = pixel[inside], window.positions
    tap = _live_taps(window)[tap]
    if direction == "data":
        order = np.argsort(source, kind="stable")
        result, source, tap, count = source[order], result[order], tap[order], window.pixels
    entries = np.bincount(result, minlength=count)
    before = np.arange(len(result)) - entries[result]
    differs = (tap != tap[before]) | (source != source[before] + 1)
    begins = np.bincount(result, differs, count) > 0
    begins[1:] |= entries[1:] != entries[:-1]
    begins[0] = True
    first, mask = np.flatnonzero(begins), begins[result]
    entries = entries[first]
    return Runs(np.stack([first, np.diff(first, append=count), np.cumsum(entries) - entries,
                          entries], 1), np.stack([tap[mask], source[mask]], 1))


def _live_taps(window: Window) -> np.ndarray:
    """The indices of live taps among all taps."""
    return np.arange(window.taps).reshape(window.kernel)[np.ix_(*window.live)].ravel()


# ------------------------------------------------------------------------------------------ kernels

class InterleavedPlan(NamedTuple):
    """Sizes of the work, and its division into jobs.

    images    of the batch, `together` in a tile; `pitch` lanes of a pixel, `width` of a vector
    groups    of `channels` that are summed and `results`, divided into `parts`
    area      source pixels of a channel; `out` those of a result; `gap` lanes after these
    w_channel, w_row, w_group  distances of channels, results and groups in the weight
    """

    images: int
    together: int
    pitch: int
    width: int
    groups: int
    channels: int
    results: int
    parts: int
    area: int
    out: int
    gap: int
    w_channel: int
    w_row: int
    w_group: int


@inlined
def _load(array, begin, apart, count, tile, plan):
    """Interleave `count` elements of images that are `apart`, from array[begin] on."""
    width, pitch, images = plan.width, plan.pitch, plan.together
    if count < width:
        for i in range(count):
            for n in range(images):
                tile[np.uintp(i * pitch + n)] = array[np.uintp(begin + n * apart + i)]
    else:
        # of fewer images than lanes the last one is repeated, where the next pixels follow
        for i in range(0, count, width):
            first = min(i, count - width)
            for k in range(0, pitch, width):
                n = min(k, max(pitch - width, 0))
                transpose(array, tile, (begin + n * apart + first, first * pitch + n),
                          (apart, pitch, images - n))


@inlined
def _store(tile, at, array, begin, apart, count, rows, plan):
    """The inverse; `rows` are those of a square that are images."""
    width, pitch, images = plan.width, plan.pitch, plan.together
    if count < width:
        for n in range(images):
            for i in range(count):
                array[np.uintp(begin + n * apart + i)] = tile[np.uintp(at + i * pitch + n)]
    elif images < width:
        for i in range(0, count, width):
            first = min(i, count - width)
            transpose_scatter(tile, array, rows, (at + first * pitch, begin + first, 0),
                              (pitch, apart))
    else:
        for i in range(0, count, width):
            first = min(i, count - width)
            for k in range(0, images, width):
                n = min(k, images - width)
                transpose(tile, array, (at + first * pitch + n, begin + n * apart + first),
                          (pitch, apart))


@inlined
def _sum_up(x, w, base, results, taps, table, begin, sums, width):
    """All runs of some results, whose weights and base are at begin[0] and begin[1]."""
    for run in range(len(table)):
        entries, source, left = table[run, 3], 0, (table[run, 1] + width - 1) // width
        steps = LaneSums(sums.channels if entries else 0, entries, sums.x_channel, sums.w_channel,
                         sums.w_row, sums.y_row, sums.rows)
        while left:
            at = LaneStart(source, begin[0], begin[1], table[run, 0] + source, 2 * table[run, 2])
            done = 3 if left == 3 or left > 4 else min(left, 2)
            if done == 3:
                lane_sums3(x, w, base, results, taps, at, steps)
            elif done == 2:
                lane_sums2(x, w, base, results, taps, at, steps)
            else:
                lane_sums1(x, w, base, results, taps, at, steps)
            source, left = source + done * width, left - done


@inlined
def _job(job, x, w, base, y, table, taps, rows, plan, work):
    """Interleave a tile of images of a group, then compute a part of its results."""
    part, group = job % plan.parts, job // plan.parts % plan.groups
    n = min(job // (plan.parts * plan.groups) * plan.together, plan.images - plan.together)
    planes, line = plan.channels * plan.area, plan.out * plan.pitch + plan.gap
    _load(x, (n * plan.groups + group) * planes, plan.groups * planes, planes, work, plan)
    results = work[planes * plan.pitch + VECTORS * plan.width:]
    apart, stop = plan.groups * plan.results * plan.out, (part + 1) * plan.results // plan.parts
    for i in range(part * plan.results // plan.parts, stop, ROWS):
        many, result = min(ROWS, stop - i), group * plan.results + i
        sums = LaneSums(plan.channels, 0, plan.area * plan.pitch, plan.w_channel, plan.w_row, line,
                        many)
        at = group * plan.w_group + i * plan.w_row, result
        _sum_up(work, w, base, results, taps, table, at, sums, plan.width)
        begin = n * apart + result * plan.out
        if plan.gap:
            for r in range(many):
                _store(results, r * line, y, begin + r * plan.out, apart, plan.out, rows, plan)
        else:
            _store(results, 0, y, begin, apart, many * plan.out, rows, plan)


@kernel(parallel=True)
def _convolve(x, w, base, y, table, taps, rows, plan, jobs, work):
    """y = base + sums of w times x; all flat."""
    workers = len(work)
    for worker in prange(workers):
        for job in range(np.int64(worker), jobs, workers):
            _job(job, x, w, base, y, table, taps, rows, plan, work[worker])


# ------------------------------------------------------------------------------------------- layout

@dataclass(frozen=True)
class InterleavedLayout:
    """Division of a direction into tiles of images."""

    geo: Geometry
    direction: Direction
    width: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Channels that are summed and results, of a group; pixels of a channel and of a result."""
        geo, window = self.geo, self.geo.window
        if self.direction == "data":
            return geo.group_filters, geo.group_channels, window.positions, window.pixels
        return geo.group_channels, geo.group_filters, window.pixels, window.positions

    @property
    def runs(self) -> Runs:
        return _runs(self.geo.window, self.direction)

    @cached_property
    def together(self) -> int:
        """Images of a tile."""
        channels, _, area, out = self.sizes
        most = max(MOST // (channels * area + ROWS * out), 1)
        return -(-self.geo.images // -(-self.geo.images // most))

    @property
    def tiles(self) -> int:
        return -(-self.geo.images // self.together)

    @cached_property
    def pitch(self) -> int:
        """Lanes of a pixel: images of a tile, or whole vectors where that takes no longer."""
        whole = -(-self.together // self.width) * self.width
        return min(whole, self.together, key=self.terms)

    def terms(self, pitch: int) -> int:
        """Vectors that are multiplied for a result and a channel."""
        _, length, _, entries = self.runs.table.T
        return int((-(-length * pitch // self.width) * entries).sum())

    @property
    def calls(self) -> int:
        """Calls of a micro-kernel for some results."""
        vectors = -(-self.runs.table[:, 1] * self.pitch // self.width)
        return int((-(-vectors // VECTORS)).sum())

    @property
    def gap(self) -> int:
        """Lanes after a result that its last vector may overwrite."""
        return self.width if self.pitch % self.width else 0

    @property
    def work(self) -> int:
        """Workspace elements of a worker."""
        channels, _, area, out = self.sizes
        return (channels * area * self.pitch + 2 * VECTORS * self.width
                + ROWS * (out * self.pitch + self.gap))

    def plan(self, workers: int) -> InterleavedPlan:
        geo, (channels, results, area, out) = self.geo, self.sizes
        parts = min(results, -(-workers // (self.tiles * geo.groups)))
        deep = geo.group_channels * geo.window.taps
        w_channel, w_row = geo.window.taps, deep
        if self.direction == "data":
            w_channel, w_row = w_row, w_channel
        return InterleavedPlan(geo.images, self.together, self.pitch, self.width, geo.groups,
                               channels, results, parts, area, out, self.gap, w_channel, w_row,
                               geo.group_filters * deep)


@lru_cache(maxsize=256)
def _layout(geo: Geometry, direction: Direction, width: int) -> InterleavedLayout:
    return InterleavedLayout(geo, direction, width)


# ------------------------------------------------------------------------------- cost and functions

CALL, TERM, START, MOVE, WEIGHT, FAR = 5000, 0.27, 10, 0.32, 0.2, 0.5
"""Nanoseconds (see `convolution`) of a call; of a vector multiply-add; of a call of a micro-kernel;
to interleave an element; to read a weight, and one for the gradient of the data, for which those of
a result are far apart."""
CACHED = 1 << 18
"""Elements of a tile of images beyond which they do not stay in the L2 cache, and a multiply-add
takes 1.3 times as long."""


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds of a direction, inf for gradients of the weight, for few
    or large images, and for large tables."""
    window, layout = geo.window, _layout(geo, direction, lanes(dtype))
    if direction == "weight" or geo.images < LEAST or not geo.positions or (
            layout.together < LEAST or window.positions * window.trimmed.taps > PAIRS):
        return inf
    channels, results, area, out = layout.sizes
    rounds = layout.tiles * geo.groups * -(-results // ROWS)
    terms = ROWS * channels * layout.terms(layout.pitch)
    moved = geo.images * geo.groups * (channels * area + results * out)
    weights = layout.tiles * geo.filters * geo.group_channels * window.trimmed.taps
    term = TERM * (1.3 if channels * area * lanes(dtype) > CACHED else 1)
    return (CALL + rounds * (terms * term + layout.calls * START) + moved * MOVE
            + weights * (FAR if direction == "data" else WEIGHT))


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """Workspace of a direction."""
    return [Spec((num_threads(), _layout(geo, direction, lanes(dtype)).work), np.dtype(dtype))]


def prepare(geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
            scratch: Sequence[Any]) -> Run:
    """A function that computes a direction; see `convolution.convolve`."""
    layout, work = _layout(geo, direction, lanes(x.dtype)), scratch[0]
    plan, pitch = layout.plan(len(work)), layout.pitch
    source, target = (y, x) if direction == "data" else (x, y)
    base = np.zeros(target.shape[1], w.dtype) if bias is None else bias
    table, taps = layout.runs.table * [pitch, pitch, 1, 1], layout.runs.taps * [1, pitch]
    rows = np.minimum(np.arange(layout.width), layout.together - 1)
    jobs = layout.tiles * plan.groups * plan.parts
    return partial(_convolve, source.reshape(-1), w.reshape(-1), base, target.reshape(-1), table,
                   taps.reshape(-1), rows, plan, jobs, work)
