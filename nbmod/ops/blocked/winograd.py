"""Convolutions of 3 x 3 filters by tiles of 4 x 4 or 2 x 2 pixels (see `simd.winograd`).

Tiles of all images stand in one row, PIXELS of them to a strip.  With e < 36 (or 16) the places
in a transformed tile, there are three stages:

    V   (strips, e, blocks of channels, PIXELS, LANES)      the tiles of images, transformed
    M   (strips, e, 1 or 2 vectors of filters, PIXELS, LANES)   their products with filters
    y                                                       M transformed back, bias and all

The products are convolutions with one tap of V[s, e] for each strip and e, so the strip kernel
computes them; its pixels are tiles.  M is made for two vectors of filters at a time, all e of them,
so that it is still in the cache when it is transformed back.  What else is there decides who does
what:

    apart       With few channels V of a few strips stays in a core's cache, too.  Every worker
                takes some strips of tiles through all stages.
    together    With many, what costs is to bring in the transformed filters, which are four times
                as many as the filters, or two.  So all workers make one V of as many strips as
                memory shall hold, then each multiplies it with filters of its own: they are read
                once.  Where filters change with every run (`fresh`), that worker transforms them,
                too, two vectors at a time, and they need not be kept at all.

What is computed for a tile depends neither on the other tiles of its strip nor on the number of
workers.  The data's gradient is such a convolution too: of the output's gradient with turned
filters.  For the weight's see `weighing`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..simd.conv_strip import PIXELS, strip1, strip2
from ..simd.winograd_transforms import FOUR, TWO
from ..simd.work_queue import COUNTER_STRIDE, job_counters, next_job
from .address_tables import Pair, Sliding
from .layout import LANES, Form, flat

__all__ = ["Tiling", "fits"]

input4, filter4, output4 = FOUR.input_tile, FOUR.filter_tile, FOUR.output_tile
input2, filter2, output2 = TWO.input_tile, TWO.filter_tile, TWO.output_tile

NEAR = 3 * 2 ** 16
"""Numbers of V and M that a worker has at a time when workers are apart, and of M when they are
together: they stay in the L2."""
FAR = 2 ** 21
"""Numbers of V at a time, if one strip is not more, when workers are together."""


def fits(slide: Sliding) -> bool:
    """Whether a convolution can be computed by tiles."""
    return (slide.kernel == (3, 3) and slide.stride == slide.dilate == (1, 1)
            and slide.groups == 1 and max(slide.pad) <= 2)


@dataclass(frozen=True)
class Tiling:
    """A convolution from images of form `source`, of which `pad` is padding, to form `target`, by
    tiles of `out` x `out` pixels; `fresh`: filters change with every run, `turned`: they are those
    of the data's gradient."""

    source: Form
    target: Form
    pad: Pair
    batch: int
    out: int
    fresh: bool = False
    turned: bool = False

    @property
    def places(self) -> int:
        """Numbers of a transformed tile."""
        return (self.out + 2) ** 2

    @property
    def filters(self) -> int:
        """Transformed filters: [pair of vectors][place][channel][vectors LANES]."""
        return self.places * self.source.blocks * self.target.blocks * LANES ** 2

    @cached_property
    def tiles(self) -> np.ndarray:
        """For each tile: where it is in x, rows and columns there; the same in y."""
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
    def rows(self) -> Pair:
        """Numbers of V and of M for a place of a strip.

        One vector more than there are: else places would be multiples of a page apart for many
        numbers of channels, and caches would take them for neighbours.
        """
        return (self.source.blocks * PIXELS + 1) * LANES, (2 * PIXELS + 1) * LANES

    @property
    def apart(self) -> bool:
        """Whether workers have a V each."""
        return 2 * self.places * sum(self.rows) <= NEAR

    @property
    def most(self) -> int:
        """Strips to take at a time."""
        v, both = self.places * self.rows[0], self.places * sum(self.rows)
        return max(1, NEAR // both if self.apart else FAR // v)

    def workers(self, threads: int) -> int:
        """How many there are for so many threads."""
        jobs = self.strips if self.apart else self.strips * -(-self.target.blocks // 2)
        return min(threads, jobs)

    def taken(self, workers: int) -> int:
        """Strips that are taken at a time."""
        each = -(-self.strips // workers) if self.apart else self.strips
        return -(-each // -(-each // self.most))

    def sizes(self, workers: int) -> Pair:
        """Numbers of the V that is everyone's, and of what is each worker's own."""
        strips, (v, m) = self.taken(workers), (self.places * row for row in self.rows)
        if self.apart:
            return 0, strips * (v + m)
        return strips * v, (min(strips, self.parted) * m
                            + self.fresh * self.places * self.source.blocks * 2 * LANES ** 2)

    @property
    def parted(self) -> int:
        """Strips of which M stays in the L2, where V does not."""
        return max(1, NEAR // (self.places * self.rows[1]))

    @property
    def room(self) -> int:
        """Numbers of the room that all of them need."""
        workers = self.workers(num_threads())
        everyone, own = self.sizes(workers)
        return everyone + workers * own

    def transform(self, packed: Any, filters: Any) -> None:
        """Filters from those packed for the strip kernel."""
        _transform(packed, filters, (self.out, self.source.blocks, self.target.blocks, self.turned))

    def compute(self, x: Any, filters: Any, bias: Any, r: Any, y: Any, flags: int, room: Any
                ) -> Callable[[], None]:
        """A function that computes y, with the flags of the strip kernel.

        The room may be for fewer workers than there are threads now.
        """
        workers = self.workers(num_threads())
        while sum(np.multiply(self.sizes(workers), (1, workers))) > room.size:
            workers -= 1
        blocks = self.source.blocks
        tables = np.arange(blocks) * PIXELS * LANES, np.tile(np.arange(PIXELS) * LANES, 2)
        steps = ((self.out, blocks, self.target.blocks, self.turned),
                 (self.source.plane, self.source.row),
                 (self.target.plane, self.target.row, flags),
                 (self.strips, self.taken(workers), workers, *self.sizes(workers), self.parted))
        x, r, y = map(flat, (x, r, y))
        tiles, fresh = self.tiles, self.fresh and not self.apart

        def run() -> None:
            if self.apart:
                _apart(x, filters, bias, r, y, room, tiles, tables, steps, job_counters(workers))
            else:
                times = -(-self.strips // self.taken(workers))
                _together(x, filters, bias, r, y, room, tiles, tables, steps, fresh,
                          job_counters(times * workers).reshape(times, -1))

        return run


@inlined
def _filters(packed, target, start, o, b, how):
    """Transformed filters, from `start` on, of a block b of channels and the vectors o, o + 1."""
    out, blocks, vectors, turned = how
    width = min(2, vectors - o) * LANES
    tap, step = width * LANES, width * LANES * blocks
    source, first = 9 * (o * blocks * LANES ** 2 + b * tap), 8 * tap if turned else 0
    by = -tap if turned else tap
    for k in range(0, tap, LANES):
        at, steps = (source + first + k, start + b * tap + k), (3 * by, by, step, 3, 3)
        if out == 4:
            filter4(packed, target, at, steps)
        else:
            filter2(packed, target, at, steps)


@kernel(parallel=True)
def _transform(packed, filters, how):
    """All transformed filters."""
    out, blocks, vectors, _ = how
    for job in prange((vectors + 1) // 2 * blocks):
        o, b = 2 * (np.int64(job) // blocks), np.int64(job) % blocks
        _filters(packed, filters, (out + 2) ** 2 * o * blocks * LANES ** 2, o, b, how)


@inlined
def _enter(x, room, start, tiles, b, how, steps):
    """The tiles of a strip, from `start` of V on, of a block b of channels."""
    out, blocks, _, _ = how
    plane, row = steps
    for p in range(len(tiles)):
        at = (tiles[p, 0] + b * plane, start + (b * PIXELS + p) * LANES)
        steps = (row, LANES, (blocks * PIXELS + 1) * LANES, tiles[p, 1], tiles[p, 2])
        if out == 4:
            input4(x, room, at, steps)
        else:
            input2(x, room, at, steps)


@inlined
def _multiply(room, filters, at, strips, span, how, tables):
    """M of one or two vectors, `span`, from V and filters; `at`: where V, filters, M begin."""
    (out, blocks, _, _), (v, w, m), (taps, places) = how, at, tables
    vs, ms, count = (blocks * PIXELS + 1) * LANES, (2 * PIXELS + 1) * LANES, (out + 2) ** 2
    step = (blocks, PIXELS * LANES, 0, count * vs)
    for e in range(count):
        f = w + e * span * blocks * LANES ** 2
        for k in range(e, e + strips * count, count):
            at = (v + k * vs, f, 0, m + k * ms, 0, 0)
            if span == 2:
                strip2(room, filters, filters, room, room, taps, places, at, step)
            else:
                strip1(room, filters, filters, room, room, taps, places, at, step)


@inlined
def _leave(room, m, tensors, tiles, first, span, how, steps):
    """y of `span` vectors from the `first` from M, which begins at m."""
    (bias, r, y), (plane, row, flags), ms = tensors, steps, (2 * PIXELS + 1) * LANES
    for t in range(len(tiles)):
        start = m + t // PIXELS * (how[0] + 2) ** 2 * ms + t % PIXELS * LANES
        for i in range(span):
            o = first + i
            at = (start + i * PIXELS * LANES, o * LANES, tiles[t, 3] + o * plane)
            steps = (ms, row, tiles[t, 4], tiles[t, 5], flags)
            if how[0] == 4:
                output4(room, bias, r, y, at, steps)
            else:
                output2(room, bias, r, y, at, steps)


@kernel(parallel=True)
def _apart(x, w, bias, r, y, room, tiles, tables, steps, queue):
    """y, some strips of tiles at a time (see `simd.queue`)."""
    how, x_steps, y_steps, (strips, together, workers, _, own, _) = steps
    out, blocks, vectors, _ = how
    place, each = (out + 2) ** 2, (strips + workers - 1) // workers
    v_strip, column = place * (blocks * PIXELS + 1) * LANES, place * blocks * LANES ** 2
    jobs = workers * ((each + together - 1) // together)
    for worker in prange(workers):
        v = np.int64(worker) * own
        for turn in range(workers):
            other = (np.int64(worker) + turn) % workers
            begin, behind = other * jobs // workers, (other + 1) * jobs // workers
            job = begin + next_job(queue, other * COUNTER_STRIDE)
            while job < behind:
                s, end = job * strips // jobs, (job + 1) * strips // jobs
                m, some = v + (end - s) * v_strip, tiles[s * PIXELS:end * PIXELS]
                for i in range(end - s):
                    for b in range(blocks):
                        _enter(x, room, v + i * v_strip, some[i * PIXELS:(i + 1) * PIXELS], b,
                               how, x_steps)
                for o in range(0, vectors, 2):
                    span = min(2, vectors - o)
                    _multiply(room, w, (v, o * column, m), end - s, span, how, tables)
                    _leave(room, m, (bias, r, y), some, o, span, how, y_steps)
                job = begin + next_job(queue, other * COUNTER_STRIDE)


@kernel(parallel=True)
def _together(x, w, bias, r, y, room, tiles, tables, steps, fresh, queues):
    """y, some pairs of vectors of filters, or parts of the strips for them, at a time."""
    how, x_steps, y_steps, (strips, together, workers, everyone, own, most) = steps
    out, blocks, vectors, _ = how
    place, pairs = (out + 2) ** 2, (vectors + 1) // 2
    v_strip, column = place * (blocks * PIXELS + 1) * LANES, place * blocks * LANES ** 2
    for s in range(0, strips, together):
        here = min(together, strips - s)
        for job in prange(here * blocks):
            i, b = np.int64(job) // blocks, np.int64(job) % blocks
            _enter(x, room, i * v_strip, tiles[(s + i) * PIXELS:(s + i + 1) * PIXELS], b, how,
                   x_steps)
        parts = min(here, max((here + most - 1) // most, (workers + pairs - 1) // pairs))
        jobs, queue = pairs * parts, queues[s // together]
        for worker in prange(workers):
            u, done = everyone + np.int64(worker) * own, -1
            m = u + 2 * column * fresh
            for turn in range(workers):
                other = (np.int64(worker) + turn) % workers
                begin, behind = other * jobs // workers, (other + 1) * jobs // workers
                job = begin + next_job(queue, other * COUNTER_STRIDE)
                while job < behind:
                    o, part = 2 * (job // parts), job % parts
                    first, end = part * here // parts, (part + 1) * here // parts
                    span, v = min(2, vectors - o), first * v_strip
                    if not fresh:
                        _multiply(room, w, (v, o * column, m), end - first, span, how, tables)
                    else:
                        for b in range(blocks if o != done else 0):
                            _filters(w, room, u, o, b, how)
                        _multiply(room, room, (v, u, m), end - first, span, how, tables)
                    done = o
                    _leave(room, m, (bias, r, y), tiles[(s + first) * PIXELS:(s + end) * PIXELS],
                           o, span, how, y_steps)
                    job = begin + next_job(queue, other * COUNTER_STRIDE)
