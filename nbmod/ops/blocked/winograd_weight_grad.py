"""The gradient of a 3 x 3 weight by Winograd's algorithm: the adjoint of its transforms.

What `winograd` computes, y = A' [(G w G') * (B' x B)] A for every tile, has the gradient

    gw = G' [sum over tiles of (A g A') * (B' x B)] G

for tiles g of 4 x 4 (or 2 x 2) pixels of the output's gradient: 36 products instead of 144 (16
instead of 36).  With e < 36 (or 16) the elements of a transformed tile, there are three stages:

    V   (e, blocks of channels, tiles, LANES)       transformed tiles of images
    W   (e, vectors of filters, tiles, LANES)       transformed tiles of the output's gradient
    U   (job, pair of vectors, block, e, LANES, vectors LANES)      products, summed over tiles
    d   U transformed, in the order of packed filters

For each e the products are a weight gradient with one tap, which the outer-product kernel computes;
its pixels are tiles.  The work is divided in one of two ways:

    split tiles      U fits a core's cache, and tiles are many.  A job is a part of the tiles with a
                     U of its own: a worker makes V and W of a few tiles, accumulates their products
                     and continues, so only images come from beyond its L2 cache.  Then the U of all
                     parts are added.
    split channels   A job is some blocks of channels with some vectors of filters, whose U is small
                     enough.  All workers make one V and W: of fewer tiles at a time where all U
                     stays in the L2 caches, else of as many as the workspace holds, to read U less
                     often.

Tiles are added in order, in parts whose number and size depend on the number of tiles and channels
only: the result is bit-identical for any number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..linalg.gemm_plan import split_evenly
from ..op import Run
from ..simd.outer_product import ROWS, OuterStart, OuterSteps, outer1, outer2
from ..simd.winograd_transforms import FOUR, TWO
from ..simd.work_queue import job_counters, take_job
from .address_tables import CHUNK, Pair
from .layout import LANES, flat
from .winograd import WinogradTiling, input_transform

__all__ = ["WinogradWeightGrad"]

gradient4, weight4 = FOUR.gradient_tile, FOUR.weight_tile
gradient2, weight2 = TWO.gradient_tile, TWO.weight_tile

L2_U_ELEMENTS = 2 ** 20
"""Elements of U up to which it stays in the L2 caches of all cores."""
NEAR_ELEMENTS, FAR_ELEMENTS = 2 ** 21, 5 * 2 ** 20
"""Elements of V and W at a time if U does, and if it does not."""
JOB_CHANNELS = 64
"""Channels and filters of a job."""
MIN_JOBS = 32
"""Least number of jobs, if there are channels and filters enough."""
TRANSFORM_TILES = 16
"""Tiles that are transformed at a time."""
WORKER_U_ELEMENTS = 5 * 2 ** 16
"""Elements of U that fit a core's L2 cache beside V and W of PART_TILES tiles."""
PARTS, PART_TILES = 8, 64
"""Parts of the tiles when they are split, and tiles at a time."""

SUM, INVERSE, TRANSFORM, RELOAD = 4, 26, 16, 7
"""Costs (see `choose_algorithm`) besides products: to accumulate a vector of U in each pass over
tiles; to transform it; to transform an element of a vector of a tile; to read it again for a job
where channels are split."""


class WeightGradConfig(NamedTuple):
    """Tile size, blocks of channels, vectors of filters, tiles at a time; strides of e in V, W."""

    out: int
    blocks: int
    vectors: int
    chunk: int
    v_row: int
    w_row: int


class WeightGradStrides(NamedTuple):
    """Strides of planes and rows of x and g."""

    x_plane: int
    x_row: int
    g_plane: int
    g_row: int


class WeightGradSchedule(NamedTuple):
    """Workers; jobs, elements of U of each, and its blocks and pairs of vectors."""

    workers: int
    jobs: int
    area: int
    high: int
    wide: int


@dataclass(frozen=True)
class WinogradWeightGrad:
    """The weight gradient of the convolution that is computed by a `tiling`."""

    tiling: WinogradTiling

    @property
    def blocks(self) -> Pair:
        """Blocks of channels, and vectors of filters."""
        return self.tiling.source.blocks, self.tiling.target.blocks

    @property
    def u_elements(self) -> int:
        """Elements of U."""
        return self.tiling.elements * self.blocks[0] * self.blocks[1] * LANES ** 2

    @cached_property
    def splits_tiles(self) -> bool:
        """Whether workers divide tiles, not channels."""
        return self.u_elements <= WORKER_U_ELEMENTS and len(self.tiling.tiles) >= PARTS * PART_TILES

    @property
    def chunk(self) -> int:
        """Tiles at a time."""
        if self.splits_tiles:
            return split_evenly(-(-len(self.tiling.tiles) // PARTS), PART_TILES)
        each = self.tiling.elements * sum(self.blocks) * LANES
        return split_evenly(len(self.tiling.tiles), max(
            CHUNK // 2,
            (NEAR_ELEMENTS if self.u_elements <= L2_U_ELEMENTS else FAR_ELEMENTS) // each))

    @property
    def element_strides(self) -> Pair:
        """Strides of e in V and W, padded by a vector: see `WinogradTiling.strip_strides`."""
        x, g = (blocks * self.chunk * LANES + LANES for blocks in self.blocks)
        return x, g

    @property
    def job(self) -> Pair:
        """Blocks of channels and pairs of vectors of a job."""
        blocks, pairs = self.blocks[0], -(-self.blocks[1] // 2)
        if self.splits_tiles:
            return blocks, pairs
        high, wide = max(1, JOB_CHANNELS // LANES), max(1, JOB_CHANNELS // (2 * LANES))
        while -(-blocks // high) * -(-pairs // wide) < MIN_JOBS and high * wide > 1:
            high, wide = (high, wide // 2) if wide >= high else (high // 2, wide)
        return high, wide

    @property
    def jobs(self) -> Pair:
        """The number of jobs, and elements of U of each."""
        high, wide = self.job
        count = PARTS if self.splits_tiles else (
            -(-self.blocks[0] // high) * -(-self.blocks[1] // (2 * wide)))
        return count, self.tiling.elements * high * wide * 2 * LANES ** 2

    def workspace_for(self, workers: int) -> int:
        """Elements of the workspace of `workers`: U is kept only if more tiles or parts are added
        to it."""
        count, area = self.jobs
        workers = min(workers, count)
        sums = workers if self.chunk >= len(self.tiling.tiles) else count
        tiles = self.tiling.elements * sum(self.element_strides)
        return (workers if self.splits_tiles else 1) * tiles + sums * area

    @property
    def workspace(self) -> int:
        """Elements of the workspace."""
        return self.workspace_for(num_threads())

    @property
    def cost(self) -> float:
        """Estimated time in vector FMAs, as in `choose_algorithm`."""
        (blocks, vectors), (high, wide) = self.blocks, self.job
        tiles, sums = len(self.tiling.tiles), blocks * LANES * vectors
        passes = -(-tiles // min(CHUNK, self.chunk))
        read = 0 if self.splits_tiles else self.jobs[0] * (high + 2 * wide)
        return self.tiling.elements * (sums * (tiles + SUM * passes + INVERSE)
                                     + tiles * ((blocks + vectors) * TRANSFORM + read * RELOAD))

    def compute(self, x: np.ndarray, g: np.ndarray, d: np.ndarray, workspace: np.ndarray) -> Run:
        """A function that computes d, packed, from x and the output's gradient g.

        The workspace may be for fewer workers than there are threads now.
        """
        workers = num_threads()
        while workers > 1 and self.workspace_for(workers) > workspace.size:
            workers -= 1
        tiling, chunk, (count, area) = self.tiling, self.chunk, self.jobs
        tiles, workers = tiling.tiles, min(workers, count)
        times = -(-len(tiles) // chunk)
        offsets = np.repeat(np.arange(chunk) * LANES, 2)
        arguments = (
            flat(x), flat(g), d, workspace, tiles, offsets,
            tuple(WeightGradConfig(tiling.out, *self.blocks, chunk, *self.element_strides)),
            (tiling.source.plane, tiling.source.row, tiling.target.plane, tiling.target.row),
            tuple(WeightGradSchedule(workers, count, area, *self.job)))

        def run() -> None:
            if self.splits_tiles:
                _split_tiles(*arguments, job_counters(workers))
            else:
                _split_channels(*arguments, job_counters(times * workers).reshape(times, -1))

        return run


@inlined
def _transform_tiles(x, g, work, tiles, first, b, config, strides):
    """V of some tiles of a block b of channels, or W of a vector b - blocks of g."""
    if b < config.blocks:
        input_transform(x, work, (b * config.chunk + first) * LANES, tiles, b, config, strides)
        return
    o, w = b - config.blocks, (config.out + 2) ** 2 * config.v_row
    for p in range(len(tiles)):
        at = tiles[p, 3] + o * strides.g_plane, w + (o * config.chunk + first + p) * LANES
        steps = strides.g_row, LANES, config.w_row, tiles[p, 4], tiles[p, 5]
        if config.out == 4:
            gradient4(g, work, at, steps)
        else:
            gradient2(g, work, at, steps)


@inlined
def _multiply_element(near, work, offsets, at, span, tiles, adds, config):
    """U of a block and a pair of vectors for one element e, summed over the tiles of V and W.

    at   offsets of V, W and U of the block, the pair and e, and of V and W to prefetch
    """
    v, w, u, v_next, w_next = at
    for first in range(0, tiles, CHUNK):
        count = min(CHUNK, tiles - first)
        for h in range(0, LANES, ROWS):
            which = np.int64(h > 0)
            soon = (w_next if which else v_next) + first * LANES
            starts = OuterStart(v + first * LANES + h, w + first * LANES, u + h * span * LANES,
                                0, 0, soon)
            sizes = OuterSteps(count, config.chunk * LANES, np.int64(adds or first > 0), which)
            if span == 2:
                outer2(near, near, work, offsets, offsets, starts, sizes)
            else:
                outer1(near, near, work, offsets, offsets, starts, sizes)


@inlined
def _weight_transform(work, d, u, start, span, out):
    """d = G' U G of a block and a pair of vectors."""
    size, step, width = out + 2, span * LANES * LANES, span * LANES
    for c in range(LANES):
        for i in range(span):
            at = u + (c * span + i) * LANES, start + c * width + i * LANES
            steps = size * step, step, LANES * width, size, size
            if out == 4:
                weight4(work, d, at, steps)
            else:
                weight2(work, d, at, steps)


@inlined
def _compute_job(near, work, d, offsets, job, tiles, u, first, last, config, schedule):
    """U of one job for the tiles in V and W, and its part of d if they are the last ones."""
    high, wide, blocks = schedule.high, schedule.wide, config.blocks
    elements, pair = (config.out + 2) ** 2, 2 * LANES * LANES
    across = (config.vectors + 2 * wide - 1) // (2 * wide)
    b0, o0 = job // across * high, job % across * wide * 2
    b1, o1 = min(blocks, b0 + high), min(config.vectors, o0 + 2 * wide)
    for e in range(elements):
        v, w = e * config.v_row, elements * config.v_row + e * config.w_row
        for o in range(o0, o1, 2):
            span = min(2, o1 - o)
            for b in range(b0, b1):
                starts = (u + ((o - o0) // 2 * high + b - b0) * elements * pair
                         + e * span * LANES ** 2)
                at = (v + b * config.chunk * LANES, w + o * config.chunk * LANES, starts,
                      v + config.v_row + b * config.chunk * LANES,
                      w + config.w_row + (o + (b - b0) % span) * config.chunk * LANES)
                _multiply_element(near, work, offsets, at, span, tiles, not first, config)
    for o in range(o0, o1 if last else o0, 2):
        span = min(2, o1 - o)
        for b in range(b0, b1):
            start = 9 * LANES ** 2 * (o * blocks + b * span)
            _weight_transform(work, d, u + ((o - o0) // 2 * high + b - b0) * elements * pair, start,
                              span, config.out)


@kernel(parallel=True)
def _split_tiles(x, g, d, work, tiles, offsets, config, strides, schedule, queue):
    """d, packed; each job is a part of the tiles (see `simd.work_queue`)."""
    config, strides = WeightGradConfig(*config), WeightGradStrides(*strides)
    schedule = WeightGradSchedule(*schedule)
    workers, parts, blocks, vectors = (schedule.workers, schedule.jobs, config.blocks,
                                       config.vectors)
    elements = (config.out + 2) ** 2
    own = elements * (config.v_row + config.w_row)
    every = workers * own
    for worker in prange(workers):
        near = work[np.int64(worker) * own:(np.int64(worker) + 1) * own]
        part, turn = take_job(queue, np.int64(worker), 0, parts)
        while part >= 0:
            start, end = part * len(tiles) // parts, (part + 1) * len(tiles) // parts
            for s in range(start, end, config.chunk):
                here = min(config.chunk, end - s)
                for b in range(blocks + vectors):
                    _transform_tiles(x, g, near, tiles[s:s + here], 0, b, config, strides)
                _compute_job(near, work, d, offsets, 0, here, every + part * schedule.area,
                             s == start, False, config, schedule)
            part, turn = take_job(queue, np.int64(worker), turn, parts)
    # reduction of the U of all parts
    for job in prange(schedule.high * schedule.wide):
        o, b = job // schedule.high * 2, job % schedule.high
        u = every + np.int64(job) * elements * 2 * LANES ** 2
        span = min(2, vectors - o)
        size = elements * span * LANES ** 2
        total = work[u:u + size]
        for part in range(1, parts):
            more = work[part * schedule.area + u:part * schedule.area + u + size]
            for k in range(size):
                total[k] += more[k]
        _weight_transform(work, d, u, 9 * LANES ** 2 * (o * blocks + b * span), span, config.out)


@kernel(parallel=True)
def _split_channels(x, g, d, work, tiles, offsets, config, strides, schedule, queues):
    """d, packed; V and W of some tiles are shared, each job is a block of U."""
    config, strides = WeightGradConfig(*config), WeightGradStrides(*strides)
    schedule = WeightGradSchedule(*schedule)
    chunk, workers, jobs = config.chunk, schedule.workers, schedule.jobs
    shared = (config.out + 2) ** 2 * (config.v_row + config.w_row)
    for s in range(0, len(tiles), chunk):
        here, queue = min(chunk, len(tiles) - s), queues[s // chunk]
        turns = (here + TRANSFORM_TILES - 1) // TRANSFORM_TILES
        for turn in prange(turns * (config.blocks + config.vectors)):
            b, first = np.int64(turn) // turns, np.int64(turn) % turns * TRANSFORM_TILES
            _transform_tiles(x, g, work, tiles[s + first:s + min(here, first + TRANSFORM_TILES)],
                             first, b, config, strides)
        for worker in prange(workers):
            job, turn = take_job(queue, np.int64(worker), 0, jobs)
            while job >= 0:
                own = np.int64(worker) if len(queues) == 1 else job
                _compute_job(work, work, d, offsets, job, here, shared + own * schedule.area,
                             s == 0, s + chunk >= len(tiles), config, schedule)
                job, turn = take_job(queue, np.int64(worker), turn, jobs)
