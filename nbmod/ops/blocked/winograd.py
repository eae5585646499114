"""Convolutions of 3 x 3 filters by Winograd's minimal filtering: F(4x4, 3x3) and F(2x2, 3x3).

The transforms are those of `simd.winograd_transforms` (A. Lavin and S. Gray, 2015).  Tiles of all
images are numbered consecutively, PIXELS of them to a strip.  With e < 36 (or 16) the elements of a
transformed tile, there are three stages:

    V   (strips, e, blocks of channels, PIXELS, LANES)          input transform of the tiles
    M   (strips, e, 1 or 2 vectors of filters, PIXELS, LANES)   products with U, the filter
                                                                transform
    y                                                           output transform of M, with epilogue

The products are convolutions with one tap of V[s, e] for each strip and e, which the strip kernel
computes; its pixels are tiles.  M is made for two vectors of filters at a time, all e of them, so
that it is still in the cache for the output transform.  The work is divided in one of two ways:

    split tiles     With few channels V of a few strips fits a core's cache, too.  Every worker
                    takes some strips of tiles through all stages.
    split filters   With many channels the memory traffic of U dominates, which has four times as
                    many elements as the filters, or two.  So all workers make one V of as many
                    strips as the workspace holds, then each multiplies it with filters of its own:
                    they are read once.  Where filters change with every run (`fresh`), that worker
                    transforms them, too, two vectors at a time, and U is never stored.

The result of a tile depends neither on the other tiles of its strip nor on the number of workers.
The data gradient is the convolution of the output's gradient with rotated filters.  For the weight
gradient see `winograd_weight_grad`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..op import Run
from ..simd.conv_strip import PIXELS, ConvStart, ConvSteps, strip1, strip2
from ..simd.winograd_transforms import FOUR, TWO
from ..simd.work_queue import job_counters, take_job
from .address_tables import Pair, Sliding
from .layout import LANES, BlockedLayout, flat

__all__ = ["WinogradTiling", "fits", "input_transform"]

input4, filter4, output4 = FOUR.input_tile, FOUR.filter_tile, FOUR.output_tile
input2, filter2, output2 = TWO.input_tile, TWO.filter_tile, TWO.output_tile

L2_ELEMENTS = 3 * 2 ** 16
"""Elements of V and M that a worker has at a time when tiles are split, and of M when filters are:
they stay in the L2 cache."""
LEAST_STRIPS = -(-28 // PIXELS)
"""Strips that a worker has at a time at least when tiles are split, since U is read for each time:
those of 28 tiles."""
SHARED_ELEMENTS = 2 ** 21
"""Elements of V at a time, unless one strip has more, when filters are split."""


def fits(slide: Sliding) -> bool:
    """Whether Winograd's algorithm applies to a convolution."""
    return (slide.kernel == (3, 3) and slide.stride == slide.dilate == (1, 1)
            and slide.groups == 1 and max(slide.pad) <= 2)


class WinogradConfig(NamedTuple):
    """Tile size, blocks of channels, vectors of filters, `WinogradTiling.rotated`; strides of e in
    V and M."""

    out: int
    blocks: int
    vectors: int
    rotated: bool
    v_row: int
    m_row: int


class WinogradStrides(NamedTuple):
    """Strides of planes and rows of x and y; flags of the strip kernel."""

    x_plane: int
    x_row: int
    y_plane: int
    y_row: int
    flags: int


class WinogradSchedule(NamedTuple):
    """Strips, in all and at a time; workers; elements of the shared V and of each worker; strips of
    M in the L2 cache; whether workers transform filters."""

    strips: int
    at_once: int
    workers: int
    shared: int
    own: int
    l2_strips: int
    fresh: bool


@dataclass(frozen=True)
class WinogradTiling:
    """A convolution from images of layout `source`, padded by `pad`, to layout `target`, by tiles
    of `out` x `out` pixels; `fresh`: filters change with every run, `rotated`: those of the data
    gradient."""

    source: BlockedLayout
    target: BlockedLayout
    pad: Pair
    batch: int
    out: int
    fresh: bool = False
    rotated: bool = False

    @property
    def elements(self) -> int:
        """Elements of a transformed tile."""
        return (self.out + 2) ** 2

    @property
    def filters(self) -> int:
        """Elements of U: [pair of vectors][e][channel][vectors LANES]."""
        return self.elements * self.source.blocks * self.target.blocks * LANES ** 2

    @cached_property
    def tiles(self) -> np.ndarray:
        """For each tile: its offset in x, rows and columns within the image; the same in y."""
        x, y = self.source, self.target
        down, right = (np.arange(0, size, self.out) for size in (y.height, y.width))
        (top, left), images = self.pad, np.arange(self.batch)
        n, i, j = (axis.ravel() for axis in np.meshgrid(images, down, right, indexing="ij"))
        return np.stack([n * x.image + x.at(i - top, j - left), x.height + x.halo - (i - top),
                         x.width + x.halo - (j - left), n * y.image + y.at(i, j), y.height - i,
                         y.width - j], axis=1).astype(np.int64)

    @property
    def strips(self) -> int:
        """Strips of tiles of all images."""
        each = -(-self.target.height // self.out) * -(-self.target.width // self.out)
        return -(-self.batch * each // PIXELS)

    @property
    def strip_strides(self) -> Pair:
        """Strides of e in V and in M.

        Padded by one vector: for many channel counts the stride would be a multiple of a page
        otherwise, and map to the same cache sets.
        """
        return (self.source.blocks * PIXELS + 1) * LANES, (2 * PIXELS + 1) * LANES

    @property
    def splits_tiles(self) -> bool:
        """Whether workers have a V each."""
        return LEAST_STRIPS * self.elements * sum(self.strip_strides) <= L2_ELEMENTS

    @property
    def max_strips(self) -> int:
        """Most strips at a time."""
        v, both = self.elements * self.strip_strides[0], self.elements * sum(self.strip_strides)
        return max(1, L2_ELEMENTS // both if self.splits_tiles else SHARED_ELEMENTS // v)

    def workers(self, threads: int) -> int:
        """Workers for a number of threads."""
        jobs = self.strips if self.splits_tiles else self.strips * -(-self.target.blocks // 2)
        return min(threads, jobs)

    def strips_at_once(self, workers: int) -> int:
        """Strips at a time."""
        each = -(-self.strips // workers) if self.splits_tiles else self.strips
        return -(-each // -(-each // self.max_strips))

    def sizes(self, workers: int) -> Pair:
        """Elements of the shared V, and of what each worker has of its own."""
        v, m = (self.elements * row for row in self.strip_strides)
        strips = self.strips_at_once(workers)
        if self.splits_tiles:
            return 0, strips * (v + m)
        return strips * v, (min(strips, self.l2_strips) * m
                            + self.fresh * self.elements * self.source.blocks * 2 * LANES ** 2)

    @property
    def l2_strips(self) -> int:
        """Strips whose M stays in the L2 cache, where V does not."""
        return max(1, L2_ELEMENTS // (self.elements * self.strip_strides[1]))

    @property
    def workspace(self) -> int:
        """Elements of the workspace of all workers."""
        workers = self.workers(num_threads())
        shared, own = self.sizes(workers)
        return shared + workers * own

    def transform(self, packed: np.ndarray, filters: np.ndarray) -> None:
        """U from filters packed for the strip kernel."""
        _transform_filters(packed, filters, tuple(self._config))

    @property
    def _config(self) -> WinogradConfig:
        return WinogradConfig(self.out, self.source.blocks, self.target.blocks, self.rotated,
                              *self.strip_strides)

    def compute(self, x: np.ndarray, filters: np.ndarray, bias: np.ndarray, r: np.ndarray,
                y: np.ndarray, flags: int, workspace: np.ndarray) -> Run:
        """A function that computes y, with the flags of the strip kernel.

        The workspace may be for fewer workers than there are threads now.
        """
        workers = self.workers(num_threads())
        while sum(np.multiply(self.sizes(workers), (1, workers))) > workspace.size:
            workers -= 1
        tables = (np.arange(self.source.blocks) * PIXELS * LANES,
                  np.tile(np.arange(PIXELS) * LANES, 2))
        strides = WinogradStrides(self.source.plane, self.source.row, self.target.plane,
                                  self.target.row, flags)
        at_once = self.strips_at_once(workers)
        schedule = WinogradSchedule(self.strips, at_once, workers, *self.sizes(workers),
                                    self.l2_strips, self.fresh and not self.splits_tiles)
        times = 1 if self.splits_tiles else -(-self.strips // at_once)
        arguments = (flat(x), filters, bias, flat(r), flat(y), workspace, self.tiles, tables,
                     tuple(self._config), tuple(strides), tuple(schedule))

        def run() -> None:
            counters = job_counters(times * workers)
            if self.splits_tiles:
                _split_tiles(*arguments, counters)
            else:
                _split_filters(*arguments, counters.reshape(times, -1))

        return run


@inlined
def _filter_transform(packed, target, start, o, b, config):
    """U = G w G' for a block b of channels and the vectors o, o + 1 of filters, to `start` on."""
    width = min(2, config.vectors - o) * LANES
    tap, step = width * LANES, width * LANES * config.blocks
    # the data gradient reads the taps of a filter backwards: rotated by 180 degrees
    source = 9 * (o * config.blocks * LANES ** 2 + b * tap) + (8 * tap if config.rotated else 0)
    by = -tap if config.rotated else tap
    for k in range(0, tap, LANES):
        at, steps = (source + k, start + b * tap + k), (3 * by, by, step, 3, 3)
        if config.out == 4:
            filter4(packed, target, at, steps)
        else:
            filter2(packed, target, at, steps)


@kernel(parallel=True)
def _transform_filters(packed, filters, config):
    """All transformed filters."""
    config = WinogradConfig(*config)
    elements = (config.out + 2) ** 2
    for job in prange((config.vectors + 1) // 2 * config.blocks):
        o, b = 2 * (np.int64(job) // config.blocks), np.int64(job) % config.blocks
        _filter_transform(packed, filters, elements * o * config.blocks * LANES ** 2, o, b, config)


@inlined
def input_transform(x, work, start, tiles, b, config, strides):
    """V = B' x B for some tiles and a block b of channels, to `start` on."""
    for p in range(len(tiles)):
        at = (tiles[p, 0] + b * strides.x_plane, start + p * LANES)
        steps = (strides.x_row, LANES, config.v_row, tiles[p, 1], tiles[p, 2])
        if config.out == 4:
            input4(x, work, at, steps)
        else:
            input2(x, work, at, steps)


@inlined
def _multiply_tiles(work, filters, at, strips, span, config, tables):
    """M = V U for one or two vectors (`span`) of filters; `at`: offsets of V, U and M.

    For each element e of a tile this is a convolution with one tap, whose pixels are tiles.
    """
    (v, u, m), (taps, offsets), elements = at, tables, (config.out + 2) ** 2
    steps = ConvSteps(config.blocks, PIXELS * LANES, 0, elements * config.v_row)
    for e in range(elements):
        f = u + e * span * config.blocks * LANES ** 2
        for k in range(e, e + strips * elements, elements):
            at = ConvStart(v + k * config.v_row, f, 0, m + k * config.m_row, 0, 0)
            if span == 2:
                strip2(work, filters, filters, work, work, taps, offsets, at, steps)
            else:
                strip1(work, filters, filters, work, work, taps, offsets, at, steps)


@inlined
def _output_transform(work, m, tensors, tiles, first, span, config, strides):
    """y = A' M A of `span` vectors from `first` on, with bias and epilogue; M begins at m."""
    (bias, r, y), elements = tensors, (config.out + 2) ** 2
    for t in range(len(tiles)):
        start = m + t // PIXELS * elements * config.m_row + t % PIXELS * LANES
        for i in range(span):
            o = first + i
            at = (start + i * PIXELS * LANES, o * LANES, tiles[t, 3] + o * strides.y_plane)
            steps = (config.m_row, strides.y_row, tiles[t, 4], tiles[t, 5], strides.flags)
            if config.out == 4:
                output4(work, bias, r, y, at, steps)
            else:
                output2(work, bias, r, y, at, steps)


@kernel(parallel=True)
def _split_tiles(x, u, bias, r, y, work, tiles, tables, config, strides, schedule, queue):
    """y; each job takes some strips of tiles through all stages (see `simd.work_queue`)."""
    config, strides = WinogradConfig(*config), WinogradStrides(*strides)
    schedule = WinogradSchedule(*schedule)
    elements, strips, workers = (config.out + 2) ** 2, schedule.strips, schedule.workers
    v_strip, u_vector = elements * config.v_row, elements * config.blocks * LANES ** 2
    each = (strips + workers - 1) // workers
    jobs = workers * ((each + schedule.at_once - 1) // schedule.at_once)
    for worker in prange(workers):
        v = np.int64(worker) * schedule.own
        job, turn = take_job(queue, np.int64(worker), 0, jobs)
        while job >= 0:
            s, end = job * strips // jobs, (job + 1) * strips // jobs
            m, some = v + (end - s) * v_strip, tiles[s * PIXELS:end * PIXELS]
            for i in range(end - s):
                for b in range(config.blocks):
                    input_transform(x, work, v + i * v_strip + b * PIXELS * LANES,
                                    some[i * PIXELS:(i + 1) * PIXELS], b, config, strides)
            for o in range(0, config.vectors, 2):
                span = min(2, config.vectors - o)
                _multiply_tiles(work, u, (v, o * u_vector, m), end - s, span, config, tables)
                _output_transform(work, m, (bias, r, y), some, o, span, config, strides)
            job, turn = take_job(queue, np.int64(worker), turn, jobs)


@kernel(parallel=True)
def _split_filters(x, w, bias, r, y, work, tiles, tables, config, strides, schedule, queues):
    """y; each job takes a pair of vectors of filters, or some of the strips for them.

    `w` is U, or the packed filters that are transformed here where they are `fresh`.
    """
    config, strides = WinogradConfig(*config), WinogradStrides(*strides)
    schedule = WinogradSchedule(*schedule)
    elements, workers = (config.out + 2) ** 2, schedule.workers
    v_strip, u_vector = elements * config.v_row, elements * config.blocks * LANES ** 2
    pairs, fresh = (config.vectors + 1) // 2, schedule.fresh
    for s in range(0, schedule.strips, schedule.at_once):
        # input transform of some strips, V shared by all workers
        here = min(schedule.at_once, schedule.strips - s)
        for job in prange(here * config.blocks):
            i, b = np.int64(job) // config.blocks, np.int64(job) % config.blocks
            input_transform(x, work, i * v_strip + b * PIXELS * LANES,
                            tiles[(s + i) * PIXELS:(s + i + 1) * PIXELS], b, config, strides)
        # products and output transform of a pair of vectors, M in the worker's L2 cache
        parts = min(here, max((here + schedule.l2_strips - 1) // schedule.l2_strips,
                              (workers + pairs - 1) // pairs))
        jobs, queue = pairs * parts, queues[s // schedule.at_once]
        for worker in prange(workers):
            u, transformed = schedule.shared + np.int64(worker) * schedule.own, -1
            m = u + 2 * u_vector * fresh
            job, turn = take_job(queue, np.int64(worker), 0, jobs)
            while job >= 0:
                o, part = 2 * (job // parts), job % parts
                first, end = part * here // parts, (part + 1) * here // parts
                span, v = min(2, config.vectors - o), first * v_strip
                if not fresh:
                    _multiply_tiles(work, w, (v, o * u_vector, m), end - first, span, config,
                                    tables)
                else:
                    for b in range(config.blocks if o != transformed else 0):
                        _filter_transform(w, work, u, o, b, config)
                    _multiply_tiles(work, work, (v, u, m), end - first, span, config, tables)
                transformed = o
                _output_transform(work, m, (bias, r, y),
                                  tiles[(s + first) * PIXELS:(s + end) * PIXELS], o, span, config,
                                  strides)
                job, turn = take_job(queue, np.int64(worker), turn, jobs)
