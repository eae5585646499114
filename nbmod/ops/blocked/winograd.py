"""Convolutions of 3 x 3 filters by tiles of 4 x 4 pixels (see `simd.winograd`).

Tiles of all images stand in one row.  A worker takes a few strips of them at a time:

    V   (36, blocks of channels, tiles, LANES)      the tiles of its images, transformed
    M   (36, blocks of filters, tiles, LANES)       their products with the transformed filters
    y                                               M transformed back, bias and all

The products are convolutions with one tap of V[e] for each e < 36, so the strip kernel computes
them; its pixels are tiles.  V and M are few enough to stay in a core's cache.  What is computed for
a tile depends neither on the other tiles of its strip nor on the number of workers.

The data's gradient is such a convolution too: of the output's gradient with turned filters.

Against float64 (normal data and weights, 16 to 512 channels) the largest error is 3e-6 to 2e-5 of
the largest number, where strips of pixels have 4e-7 to 3e-6; root mean squares are 1e-6 to 4e-6 of
the numbers' own, for strips 2e-7 to 1e-6.  So layers that stand alone, and networks bound under
`nbmod.exact()`, are computed directly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ...base import CONFIG
from ..jit import inlined, kernel, num_threads, prange
from ..op import Spec
from ..simd.strip import PIXELS, strip1, strip2
from ..simd.winograd import OUT, TILE, filter_tile, input_tile, output_tile
from .convolution import FLOAT, Kernels
from .form import LANES, Form
from .tables import Pair, Sliding

__all__ = ["Tiled", "pays"]

NEAR = 2 ** 18
"""Numbers of V and M that a worker has at a time, if one strip is not more: they stay in the L2."""


READ, INPUT, OUTPUT, PACK = 8, 350, 350, 20
"""What it costs to read a vector of transformed filters for some strips, to transform a tile of a
block of channels there and back, and to transform filters (a vector), in FMAs: as measured."""
SHARE = 0.8
"""Of the time for strips of pixels that tiles may take at most."""
MOST = 2 ** 22
"""Numbers that transformed filters may be, where they are scratch memory in training: deep layers
have many of them for a few small images, just when all that backward reads is there."""


def pays(slide: Sliding, data: Spec, filters: int, size: Pair, packs: bool) -> bool:
    """Whether tiles are clearly faster than strips of pixels, for plain `data` (N, C, H, W) and
    results of `size`; with `packs` filters change every time.

    It does not depend on the number of threads: neither do results.
    """
    fits = (slide.kernel == (3, 3) and slide.stride == slide.dilate == (1, 1)
            and slide.groups == 1 and max(slide.pad) <= 2)
    if not fits or not CONFIG.winograd:
        return False
    batch, channels, height, width = data.shape
    tiling = Tiling(Form(channels, height, width), Form(filters, *size), slide.pad, batch)
    if packs and tiling.filters.size > MOST:
        return False
    vectors = tiling.filters.size // LANES
    direct = batch * size[0] * size[1] * 9 * vectors / TILE ** 2
    chunks = -(-tiling.strips // tiling.most)
    own = (tiling.strips * PIXELS + chunks * READ + PACK * packs) * vectors + len(tiling.tiles) * (
        INPUT * tiling.source.blocks + OUTPUT * tiling.target.blocks)
    return own < SHARE * direct


@dataclass(frozen=True)
class Tiling:
    """A convolution from images of form `source`, of which `pad` is padding, to form `target`."""

    source: Form
    target: Form
    pad: Pair
    batch: int

    @property
    def filters(self) -> Spec:
        """Room for transformed filters: (36, pairs of vectors of filters, channels, vectors)."""
        return Spec((TILE ** 2 * self.source.blocks * self.target.blocks * LANES ** 2,), FLOAT)

    @cached_property
    def tiles(self) -> np.ndarray:
        """For each tile: where it is in x, rows and columns there; the same in y."""
        x, y = self.source, self.target
        down, right = (np.arange(0, size, OUT) for size in (y.height, y.width))
        (top, left), images = self.pad, np.arange(self.batch)
        n, i, j = (axis.ravel() for axis in np.meshgrid(images, down, right, indexing="ij"))
        return np.stack([n * x.image + x.at(i - top, j - left), x.height + x.halo - (i - top),
                         x.width + x.halo - (j - left), n * y.image + y.at(i, j), y.height - i,
                         y.width - j], axis=1).astype(np.int64)

    @property
    def strips(self) -> int:
        """Strips of tiles of all images."""
        each = -(-self.target.height // OUT) * -(-self.target.width // OUT)
        return -(-self.batch * each // PIXELS)

    @property
    def most(self) -> int:
        """Strips that fit into a core's cache, or one."""
        strip = TILE ** 2 * (self.source.blocks + self.target.blocks) * PIXELS * LANES
        return max(1, NEAR // strip)

    @property
    def together(self) -> int:
        """Strips that a worker takes at a time."""
        each = -(-self.strips // num_threads())
        return -(-each // -(-each // self.most))

    @property
    def room(self) -> Spec:
        """V and M of a worker, one after the other, for each."""
        blocks = self.source.blocks + self.target.blocks
        return Spec((num_threads(), TILE ** 2 * blocks * self.together * PIXELS * LANES), FLOAT)

    def transform(self, packed: Any, filters: Any, turned: bool) -> None:
        """Filters from those packed for the strip kernel, of forward or (turned) of the data."""
        blocks, vectors = self.source.blocks, self.target.blocks
        jobs = [((first * blocks + b * min(2, vectors - first)) * LANES ** 2,
                 LANES * min(2, vectors - first))
                for first, b in product(range(0, vectors, 2), range(blocks))]
        _transform(packed, filters, np.array(jobs), int(turned))

    def compute(self, x: Any, filters: Any, bias: Any, r: Any, y: Any, flags: int, room: Any
                ) -> Callable[[], None]:
        """A function that computes y, with the flags of the strip kernel."""
        tiles, count = self.tiles, self.together * PIXELS
        room = room[:self.room.size].reshape(self.room.shape)
        strip = np.tile(np.arange(PIXELS) * LANES, 2)
        taps = np.arange(self.source.blocks) * count * LANES
        steps = ((self.source.blocks, self.target.blocks, count),
                 (self.source.plane, self.source.row), (self.target.plane, self.target.row),
                 self.strips, flags)
        x, r, y = (array.reshape(-1) for array in (x, r, y))

        def run() -> None:
            _convolve(x, filters, bias, r, y, room, tiles, (taps, strip), steps)

        return run


@dataclass(frozen=True)
class Tiled(Kernels):
    """A convolution whose sums and data's gradient are computed by tiles."""

    @cached_property
    def tiling(self) -> Tiling:
        return Tiling(self.x, self.y, self.slide.pad, self.batch)

    @cached_property
    def tiling_back(self) -> Tiling:
        top, left = self.slide.pad
        return Tiling(self.y, self.x, (2 - top, 2 - left), self.batch)

    @property
    def filters(self) -> Spec:
        return self.tiling.filters

    @property
    def filters_back(self) -> Spec:
        return self.tiling_back.filters

    def room(self, back: bool) -> Spec:
        """Also that to pack filters in."""
        tiling, packed = ((self.tiling_back, self.packed_back) if back else
                          (self.tiling, self.packed))
        return Spec((max(tiling.room.size, packed.size),), FLOAT)

    def pack(self, w: Any, filters: Any, room: Any = None) -> None:
        packed = room[:self.packed.size]
        super().pack(w, packed)
        self.tiling.transform(packed, filters, False)

    def pack_back(self, w: Any, filters: Any, room: Any = None) -> None:
        packed = room[:self.packed_back.size]
        super().pack_back(w, packed)
        self.tiling_back.transform(packed, filters, True)

    def sums(self, x: Any, filters: Any, bias: Any, r: Any, y: Any, flags: int, room: Any
             ) -> Callable[[], None]:
        return self.tiling.compute(x, filters, bias, r, y, flags, room)

    def sums_back(self, g: Any, filters: Any, bias: Any, gx: Any, flags: int, room: Any
                  ) -> Callable[[], None]:
        return self.tiling_back.compute(g, filters, bias, gx, gx, flags, room)


@kernel(parallel=True)
def _transform(packed, filters, jobs, turned):
    """filters (36, ..) from packed (.., 9 taps, channels of a block, filters), job by job."""
    step = len(filters) // TILE ** 2
    for job in prange(len(jobs)):
        start, vectors = jobs[job]
        tap = vectors * LANES
        first, by = (8 * tap, -tap) if turned else (0, tap)
        for k in range(vectors):
            filter_tile(packed, filters, (9 * start + first + k * LANES, start + k * LANES),
                        (3 * by, by, step, 3, 3))


@kernel(parallel=True)
def _convolve(x, w, bias, r, y, room, tiles, tables, steps):
    """y, flat, a share of the strips of tiles for each worker."""
    sizes, x_steps, y_steps, strips, flags = steps
    (blocks, _, count), workers = sizes, len(room)
    for k in prange(workers):
        v, m = room[np.int64(k)], TILE ** 2 * blocks * count * LANES
        last = (np.int64(k) + 1) * strips // workers
        for s in range(np.int64(k) * strips // workers, last, count // PIXELS):
            some = tiles[s * PIXELS:min(s * PIXELS + count, last * PIXELS)]
            _enter(x, v, some, sizes, x_steps)
            _multiply(v, w, m, len(some), tables, sizes)
            _leave(v, bias, r, y, some, m, sizes, (*y_steps, flags))


@inlined
def _enter(x, v, tiles, sizes, steps):
    """V from x."""
    (blocks, _, count), (plane, row) = sizes, steps
    for b in range(blocks):
        for t in range(len(tiles)):
            place, rows, columns = tiles[t, 0], tiles[t, 1], tiles[t, 2]
            input_tile(x, v, (place + b * plane, (b * count + t) * LANES),
                       (row, LANES, blocks * count * LANES, rows, columns))


@inlined
def _multiply(v, w, m, have, tables, sizes):
    """M, from v[m] on, from V and the transformed filters w."""
    (blocks, vectors, count), (taps, places) = sizes, tables
    part, row = count * LANES, blocks * LANES * LANES
    for e in range(TILE ** 2):
        for o in range(0, vectors, 2):
            for t in range(0, have, PIXELS):
                at = (e * blocks * part + t * LANES, (e * vectors + o) * row, 0,
                      m + (e * vectors + o) * part + t * LANES, 0, 0)
                if o + 1 < vectors:
                    strip2(v, w, w, v, v, taps, places, at, (blocks, part, 0))
                else:
                    strip1(v, w, w, v, v, taps, places, at, (blocks, part, 0))


@inlined
def _leave(v, bias, r, y, tiles, m, sizes, steps):
    """y from M."""
    (_, vectors, count), (plane, row, flags) = sizes, steps
    for o in range(vectors):
        for t in range(len(tiles)):
            place, rows, columns = tiles[t, 3], tiles[t, 4], tiles[t, 5]
            output_tile(v, bias, r, y,
                        (m + (o * count + t) * LANES, o * LANES, place + o * plane),
                        (vectors * count * LANES, row, rows, columns, flags))
