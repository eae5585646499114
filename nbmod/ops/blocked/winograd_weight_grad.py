"""The gradient of a 3 x 3 weight by tiles: Winograd's filtering, turned round.

What `winograd` computes, y = A' [(G w G') * (B' x B)] A for every tile, has the gradient

    gw = G' [sum over tiles of (A g A') * (B' x B)] G

for tiles g of 4 x 4 (or 2 x 2) pixels of the output's gradient: 36 products instead of 144 (16
instead of 36).  With e < 36 (or 16) the places in a transformed tile, there are three stages:

    V   (e, blocks of channels, tiles, LANES)       tiles of images, transformed
    W   (e, vectors of filters, tiles, LANES)       tiles of the output's gradient, transformed
    U   (job, pair of vectors, block, e, LANES, vectors LANES)      products, summed over tiles
    d   U transformed back, in the order in which the strip kernel would read filters

For each e the products are a weight's gradient with one tap, so the outer-product kernel sums them
up; its pixels are tiles.  Who does what, the size of U decides:

    apart       All U is small enough for a core's cache, and tiles are many.  A job is a part of
                the tiles with a U of its own: a worker makes V and W of a few tiles, adds up their
                products, and goes on, so nothing but images comes from further away than its
                second cache.  Then the U's of all parts are added up.
    together    A job is some blocks of channels with some vectors of filters, whose U is small
                enough.  All workers make one V and W: of fewer tiles at a time where all U stays
                near, else of as many as memory shall hold, as what would cost then is to read U
                again.

Tiles are summed up in their order, in parts and as many at a time as their number and the channels
say: so the number of workers changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..linalg.gemm_plan import split_evenly
from ..simd.outer_product import ROWS, outer1, outer2
from ..simd.winograd_transforms import FOUR, TWO
from ..simd.work_queue import COUNTER_STRIDE, job_counters, next_job
from .address_tables import CHUNK, Pair
from .layout import LANES, flat
from .winograd import Tiling

__all__ = ["Weighing"]

input4, gradient4, weight4 = FOUR.input_tile, FOUR.gradient_tile, FOUR.weight_tile
input2, gradient2, weight2 = TWO.input_tile, TWO.gradient_tile, TWO.weight_tile

FEW = 2 ** 20
"""Numbers of all U up to which they stay in the L2 caches, and may be met again and again."""
NEAR, FAR = 2 ** 21, 5 * 2 ** 20
"""Numbers of V and W at a time if U does, and if it does not."""
SIDE = 64
"""Channels and filters of a job."""
JOBS = 32
"""Jobs at least, if there are channels and filters enough."""
TURN = 16
"""Tiles that are transformed at a time."""
OWN = 5 * 2 ** 16
"""Numbers of U that stay in a core's L2 beside V and W of NARROW tiles."""
PARTS, NARROW = 8, 64
"""Parts that tiles have when workers are apart, and tiles of them to take at a time."""

SUM, BACK, MAKE, AGAIN = 4, 26, 16, 7
"""What the sums of a vector of U cost besides products, for each pass over tiles; their way back;
one place of a vector of a tile; and to read it for a job if workers are together (see
`algorithms`)."""


@dataclass(frozen=True)
class Weighing:
    """The weight's gradient of the convolution that is computed by a `tiling`."""

    tiling: Tiling

    @property
    def blocks(self) -> Pair:
        """Of channels, and vectors of filters."""
        return self.tiling.source.blocks, self.tiling.target.blocks

    @property
    def summed(self) -> int:
        """Numbers of all U."""
        return self.tiling.places * self.blocks[0] * self.blocks[1] * LANES ** 2

    @cached_property
    def apart(self) -> bool:
        """Whether workers have tiles of their own, and not channels."""
        return self.summed <= OWN and len(self.tiling.tiles) >= PARTS * NARROW

    @property
    def chunk(self) -> int:
        """Tiles to take at a time."""
        if self.apart:
            return split_evenly(-(-len(self.tiling.tiles) // PARTS), NARROW)
        each = self.tiling.places * sum(self.blocks) * LANES
        return split_evenly(len(self.tiling.tiles), max(
            CHUNK // 2, (NEAR if self.summed <= FEW else FAR) // each))

    @property
    def lines(self) -> Pair:
        """Numbers of V and of W for one place, and a vector: see `Tiling.rows`."""
        x, g = (blocks * self.chunk * LANES + LANES for blocks in self.blocks)
        return x, g

    @property
    def job(self) -> Pair:
        """Blocks of channels and pairs of vectors of a job."""
        blocks, pairs = self.blocks[0], -(-self.blocks[1] // 2)
        if self.apart:
            return blocks, pairs
        high, wide = max(1, SIDE // LANES), max(1, SIDE // (2 * LANES))
        while -(-blocks // high) * -(-pairs // wide) < JOBS and high * wide > 1:
            high, wide = (high, wide // 2) if wide >= high else (high // 2, wide)
        return high, wide

    @property
    def jobs(self) -> Pair:
        """How many jobs there are, and numbers of the U of one."""
        high, wide = self.job
        count = PARTS if self.apart else (
            -(-self.blocks[0] // high) * -(-self.blocks[1] // (2 * wide)))
        return count, self.tiling.places * high * wide * 2 * LANES ** 2

    def room_of(self, workers: int) -> int:
        """Numbers of the room that so many workers need: only U that tiles to come, or other
        parts, are added to is kept."""
        count, area = self.jobs
        workers = min(workers, count)
        kept = workers if self.chunk >= len(self.tiling.tiles) else count
        return (workers if self.apart else 1) * self.tiling.places * sum(self.lines) + kept * area

    @property
    def room(self) -> int:
        """Numbers of the room."""
        return self.room_of(num_threads())

    @property
    def cost(self) -> float:
        """Multiplications and additions of vectors that would take as long, as `algorithms` counts
        them."""
        (blocks, vectors), (high, wide) = self.blocks, self.job
        tiles, sums = len(self.tiling.tiles), blocks * LANES * vectors
        passes = -(-tiles // min(CHUNK, self.chunk))
        read = 0 if self.apart else self.jobs[0] * (high + 2 * wide)
        return self.tiling.places * (sums * (tiles + SUM * passes + BACK)
                                     + tiles * ((blocks + vectors) * MAKE + read * AGAIN))

    def compute(self, x: Any, g: Any, d: Any, room: Any) -> Callable[[], None]:
        """A function that computes d, packed, from x and the output's gradient g.

        The room may be for fewer workers than there are threads now.
        """
        workers = num_threads()
        while workers > 1 and self.room_of(workers) > room.size:
            workers -= 1
        tiling, chunk, (count, area) = self.tiling, self.chunk, self.jobs
        tiles, workers = tiling.tiles, min(workers, count)
        times = -(-len(tiles) // chunk)
        places = np.repeat(np.arange(chunk) * LANES, 2)
        steps = ((tiling.out, *self.blocks, chunk, *self.lines),
                 (tiling.source.plane, tiling.source.row, tiling.target.plane, tiling.target.row),
                 (workers, count, area, *self.job))
        x, g = flat(x), flat(g)

        def run() -> None:
            if self.apart:
                _apart(x, g, d, room, tiles, places, steps, job_counters(workers))
            else:
                _together(x, g, d, room, tiles, places, steps,
                          job_counters(times * workers).reshape(times, -1))

        return run


@inlined
def _enter(x, g, room, tiles, first, b, how, steps):
    """Some tiles of a block b of channels into V, or of a vector b - blocks of g into W."""
    (out, blocks, _, chunk, v_line, w_line), (x_plane, x_row, g_plane, g_row) = how, steps
    o, w = b - blocks, (out + 2) ** 2 * v_line
    for p in range(len(tiles)):
        if b < blocks:
            at = tiles[p, 0] + b * x_plane, (b * chunk + first + p) * LANES
            steps = x_row, LANES, v_line, tiles[p, 1], tiles[p, 2]
            if out == 4:
                input4(x, room, at, steps)
            else:
                input2(x, room, at, steps)
        else:
            at = tiles[p, 3] + o * g_plane, w + (o * chunk + first + p) * LANES
            steps = g_row, LANES, w_line, tiles[p, 4], tiles[p, 5]
            if out == 4:
                gradient4(g, room, at, steps)
            else:
                gradient2(g, room, at, steps)


@inlined
def _sum(near, room, places, at, span, tiles, adds, how):
    """U of a block and a pair of vectors for one place, over all tiles of which V and W are near.

    at   where V, W and U of the block, the pair and the place begin, and V and W of the next place
    """
    v, w, u, v_next, w_next = at
    chunk = how[3]
    for first in range(0, tiles, CHUNK):
        count = min(CHUNK, tiles - first)
        for h in range(0, LANES, ROWS):
            which = np.int64(h > 0)
            soon = (w_next if which else v_next) + first * LANES
            place = (v + first * LANES + h, w + first * LANES, u + h * span * LANES, 0, 0, soon)
            sizes = (count, chunk * LANES, np.int64(adds or first > 0), which)
            if span == 2:
                outer2(near, near, room, places, places, place, sizes)
            else:
                outer1(near, near, room, places, places, place, sizes)


@inlined
def _leave(room, d, u, start, span, out):
    """The weights of a block and a pair of vectors, from U."""
    size, step, width = out + 2, span * LANES * LANES, span * LANES
    for c in range(LANES):
        for i in range(span):
            at = u + (c * span + i) * LANES, start + c * width + i * LANES
            steps = size * step, step, LANES * width, size, size
            if out == 4:
                weight4(room, d, at, steps)
            else:
                weight2(room, d, at, steps)


@inlined
def _job(near, room, d, places, job, here, u, first, last, how, high, wide):
    """U of one job for the tiles that are near, and if they are the last ones its part of d."""
    out, blocks, vectors, chunk, v_line, w_line = how
    count, across, pair = (out + 2) ** 2, (vectors + 2 * wide - 1) // (2 * wide), 2 * LANES * LANES
    b0, o0 = job // across * high, job % across * wide * 2
    b1, o1 = min(blocks, b0 + high), min(vectors, o0 + 2 * wide)
    for e in range(count):
        v, w = e * v_line, count * v_line + e * w_line
        for o in range(o0, o1, 2):
            span = min(2, o1 - o)
            for b in range(b0, b1):
                place = u + ((o - o0) // 2 * high + b - b0) * count * pair + e * span * LANES ** 2
                at = (v + b * chunk * LANES, w + o * chunk * LANES, place,
                      v + v_line + b * chunk * LANES,
                      w + w_line + (o + (b - b0) % span) * chunk * LANES)
                _sum(near, room, places, at, span, here, not first, how)
    for o in range(o0, o1 if last else o0, 2):
        span = min(2, o1 - o)
        for b in range(b0, b1):
            start = 9 * LANES ** 2 * (o * blocks + b * span)
            _leave(room, d, u + ((o - o0) // 2 * high + b - b0) * count * pair, start, span, out)


@kernel(parallel=True)
def _apart(x, g, d, room, tiles, places, steps, queue):
    """d, packed, some parts of the tiles at a time (see `simd.queue`)."""
    how, x_steps, (workers, parts, area, high, wide) = steps
    out, blocks, vectors, chunk, v_line, w_line = how
    count = (out + 2) ** 2
    own = count * (v_line + w_line)
    every = workers * own
    for worker in prange(workers):
        near = room[np.int64(worker) * own:(np.int64(worker) + 1) * own]
        for turn in range(workers):
            other = (np.int64(worker) + turn) % workers
            begin, behind = other * parts // workers, (other + 1) * parts // workers
            part = begin + next_job(queue, other * COUNTER_STRIDE)
            while part < behind:
                start, end = part * len(tiles) // parts, (part + 1) * len(tiles) // parts
                for s in range(start, end, chunk):
                    here = min(chunk, end - s)
                    for b in range(blocks + vectors):
                        _enter(x, g, near, tiles[s:s + here], 0, b, how, x_steps)
                    _job(near, room, d, places, 0, here, every + part * area, s == start,
                         False, how, high, wide)
                part = begin + next_job(queue, other * COUNTER_STRIDE)
    for job in prange(high * wide):
        o, b, u = job // high * 2, job % high, every + np.int64(job) * count * 2 * LANES ** 2
        span = min(2, vectors - o)
        size = count * span * LANES ** 2
        total = room[u:u + size]
        for part in range(1, parts):
            more = room[part * area + u:part * area + u + size]
            for k in range(size):
                total[k] += more[k]
        _leave(room, d, u, 9 * LANES ** 2 * (o * blocks + b * span), span, out)


@kernel(parallel=True)
def _together(x, g, d, room, tiles, places, steps, queues):
    """d, packed; V and W of some tiles at a time (see `simd.queue`)."""
    how, x_steps, (workers, jobs, area, high, wide) = steps
    out, blocks, vectors, chunk, v_line, w_line = how
    everyone = (out + 2) ** 2 * (v_line + w_line)
    for s in range(0, len(tiles), chunk):
        here, queue = min(chunk, len(tiles) - s), queues[s // chunk]
        turns = (here + TURN - 1) // TURN
        for turn in prange(turns * (blocks + vectors)):
            b, first = np.int64(turn) // turns, np.int64(turn) % turns * TURN
            _enter(x, g, room, tiles[s + first:s + min(here, first + TURN)], first, b, how, x_steps)
        for worker in prange(workers):
            for turn in range(workers):
                other = (np.int64(worker) + turn) % workers
                begin, behind = other * jobs // workers, (other + 1) * jobs // workers
                job = begin + next_job(queue, other * COUNTER_STRIDE)
                while job < behind:
                    own = np.int64(worker) if len(queues) == 1 else job
                    _job(room, room, d, places, job, here, everyone + own * area, s == 0,
                         s + chunk >= len(tiles), how, high, wide)
                    job = begin + next_job(queue, other * COUNTER_STRIDE)
