"""Choice of the convolution algorithm, by a cost model or by measurement.

Every blocked convolution can be computed directly, strip by strip; those with 3 x 3 filters and
stride 1 also by Winograd's algorithm with tiles of 2 x 2 or 4 x 4 pixels, with fewer
multiplications and more of everything else (see `winograd`).  `estimates` models the cost.  A unit
is the time of one vector FMA on one core, so that the number of lanes cancels, except for bytes:

    strips       of PIXELS pixels or tiles, full or not
    filters      are read from memory once, or for every few strips again, from a cache
    transforms   of tiles, and of filters where they change with every run

A layer that is trained also has the data gradient, which is such a convolution, and the weight
gradient (see `winograd_weight_grad`); all directions use the same algorithm.

Threads share all of this, so their number decides how work is divided (see `winograd`), but not the
algorithm: results are bit-identical for any number of them.

With `bind(tune=True)` the algorithms of every convolution are run, and the fastest is used from
then on (see `autotune`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ...core.config import CONFIG, is_tuning
from ..device import CPU
from ..nn.convolution import fastest
from ..nn.sliding_window import Direction, Geometry
from ..op import Run, all_of
from ..simd.conv_strip import PIXELS
from . import autotune, blocked_depthwise, direct
from .address_tables import Pair, Sliding, forward_work
from .blocked_convolution import FLAT, FLOAT, Kernels, is_planar
from .blocked_depthwise import kernels_of
from .layout import LANES, BlockedLayout
from .winograd import WinogradTiling, fits
from .winograd_convolution import WinogradConvolution

__all__ = ["DIRECT", "FOUR", "TWO", "UNBLOCKED", "BlockedChoice", "Layer", "candidates",
           "choose", "costs_in_blocks", "estimates"]

DIRECT, TWO, FOUR = 0, 2, 4
"""Algorithms: direct, F(2x2, 3x3), F(4x4, 3x3)."""
UNBLOCKED = -1
"""Not in the blocked layout: for a layer between unblocked ones."""
NAMES = {UNBLOCKED: "plain", DIRECT: "direct", TWO: "F(2x2)", FOUR: "F(4x4)"}

READ = 25 * LANES / 16
"""To read a vector of filters from memory: 64 bytes in the time of 25 operations."""
RELOAD = 5 * LANES / 16
"""And from a cache."""
TRANSFORM = 14
"""To transform one element of a tile of a vector of channels, input or output, and to store it:
five or six operations each."""
TRANSFORM_FILTER = 20
"""To transform a vector of filters."""
WINOGRAD_MARGIN = {TWO: 0.8, FOUR: 0.8}
"""Share of the direct algorithm's time that Winograd may take: it is less accurate."""
LARGE_TILE_MARGIN = 0.9
"""Share of the time of small tiles that large ones may take, for that reason."""


class BlockedChoice(NamedTuple):
    """An algorithm and the reason."""

    algorithm: int
    why: str


REORDER = 10_000
"""Fixed cost of a reorder in nanoseconds."""
BLOCKED_BONUS, BLOCKED_FACTOR = 50_000, 2
"""Nanoseconds by which, and factor by which, a blocked direction may be slower: neighbouring layers
become blocked, too, are faster there and are fused with it."""
MIN_FILTERS = 8
"""Least number of filters for which blocks pay off."""


class LayoutCosts(NamedTuple):
    """Nanoseconds that a layer takes in blocks, and those of plain images, from which on it is
    worth it."""

    blocks: float
    plain: float


def costs_in_blocks(geo: Geometry, directions: Collection[Direction], blocked: bool,
                    last: bool = False) -> LayoutCosts | None:
    """The costs of `directions` of a layer; None if blocks have no kernels for it; `blocked`: its
    images are in blocks anyway; `last`: no blocked layer reads its output."""
    flat = False
    if blocked_depthwise.fills_lanes(geo, blocked):
        sums = blocked_depthwise.sums_cost
    elif is_planar(geo) and direct.fills_lanes(geo) and geo.filters >= MIN_FILTERS:
        flat = geo.channels < FLAT and not blocked and "data" not in directions
        sums = partial(direct.sums_cost, deep=1 if flat else LANES)
    else:
        return None
    moved = REORDER + _moving(geo, geo.channels, geo.window.pixels, flat)
    here = moved * (not blocked) + sum(
        sums(geo, each) + direct.halo_cost(geo, each) - BLOCKED_BONUS for each in directions)
    plain = sum(fastest(geo, each, FLOAT).cost for each in directions) + moved * blocked
    if last and not blocked:
        out = _moving(geo, geo.filters, geo.window.positions, False)
        return LayoutCosts(
            here + moved * ("data" in directions) + out * min(len(directions), 2), plain)
    return LayoutCosts(here, BLOCKED_FACTOR * plain)


def _moving(geo: Geometry, channels: int, pixels: int, flat: bool) -> float:
    """Nanoseconds to reorder images, padding channels included."""
    filled = channels if flat else -(-channels // LANES) * LANES
    return direct.MOVE * geo.images * filled * pixels


@dataclass(frozen=True)
class Layer:
    """A convolution of `batch` images to choose an algorithm for; `fresh`: in training, where
    filters change with every run and gradients are computed as well."""

    slide: Sliding
    batch: int
    channels: int
    image: Pair
    filters: int
    out: Pair
    fresh: bool

    @property
    def key(self) -> str:
        """Key of its measurements."""
        sizes = "x".join(map(str, (self.batch, self.channels, *self.image)))
        return (f"{sizes}, {self.filters} filters 3x3, pad {self.slide.pad[0]}x{self.slide.pad[1]}"
                f"{', trained' * self.fresh}")

    def kernels(self, algorithm: int, halo: int = 0) -> Kernels:
        """Its kernels for an algorithm; `halo` is that of the data."""
        layouts = (BlockedLayout(self.channels, *self.image, halo),
                 BlockedLayout(self.filters, *self.out))
        if algorithm == DIRECT:
            return kernels_of(self.slide, *layouts, self.batch)
        return WinogradConvolution(self.slide, *layouts, self.batch, algorithm, self.fresh)


def candidates(layer: Layer) -> list[int]:
    """The algorithms that the environment allows for a layer."""
    tiles = [out for out in (TWO, FOUR) if out <= CONFIG.winograd]
    return [DIRECT, *(tiles if fits(layer.slide) else [])]


def choose(layer: Layer) -> BlockedChoice:
    """The algorithm for a layer, and why: the fastest if that is known or to be found out."""
    allowed = candidates(layer)
    if len(allowed) == 1:
        return BlockedChoice(DIRECT, "")
    times = autotune.recall(layer.key)
    if is_tuning() and not all(NAMES[each] in times for each in allowed):
        times = autotune.measure(layer.key, {NAMES[each]: _computations(layer, each)
                                             for each in allowed})
    if not all(NAMES[each] in times for each in allowed):
        return estimated(layer)
    best = min(allowed, key=lambda each: times[NAMES[each]])
    listed = (f"{NAMES[each]} {times[NAMES[each]]:.3f} ms" for each in allowed)
    return BlockedChoice(best, f"measured: {', '.join(listed)}")


def _computations(layer: Layer, algorithm: int) -> Run:
    """A function that performs the computations of a layer, on arbitrary data."""
    k = layer.kernels(algorithm, max(layer.slide.pad))
    x, y = (CPU.full(layout.shape(k.batch), FLOAT, 0.5) for layout in (k.x, k.y))
    w = CPU.full((layer.filters, layer.channels, 3, 3), FLOAT, 0.1)
    filters, workspace = (CPU.empty(*spec) for spec in (k.filters, k.workspace(False)))
    forward = k.forward(x, filters, None, y, workspace=workspace)
    if not layer.fresh:
        k.pack(w, filters, workspace)
        return forward
    g = CPU.full(k.back.y.shape(k.batch), FLOAT, 0.5)
    rotated, space, summed, more = (CPU.empty(*spec) for spec in (
        k.back.data_filters, k.back.workspace(True), k.summed, k.weight_workspace))
    return all_of([partial(k.pack, w, filters, workspace), forward,
                   k.back.data(g, w, rotated, x, workspace=space),
                   k.back.weight(x, g, summed, np.empty_like(w), workspace=more)])


def estimated(layer: Layer) -> BlockedChoice:
    """The least estimate, with margins for the less accurate algorithms."""
    costs, best = estimates(layer), DIRECT
    for algorithm in costs:
        margin = LARGE_TILE_MARGIN if best else WINOGRAD_MARGIN.get(algorithm, 1)
        if costs[algorithm] < margin * costs[best]:
            best = algorithm
    why = f"estimated at {costs[best] / costs[DIRECT]:.2f} of direct"
    return BlockedChoice(best, why if best else "")


def estimates(layer: Layer) -> dict[int, float]:
    """Cost of every candidate."""
    return {algorithm: _estimate(layer, algorithm) for algorithm in candidates(layer)}


def _estimate(layer: Layer, algorithm: int) -> float:
    if algorithm == DIRECT:
        forward = _of_pixels(layer, layer.channels, layer.filters, layer.out)
        if not layer.fresh:
            return forward
        sums = _vectors(layer.channels, layer.filters) * layer.batch * layer.out[0] * layer.out[1]
        return forward + _of_pixels(layer, layer.filters, layer.channels, layer.image) + sums
    kernels = layer.kernels(algorithm)
    assert isinstance(kernels, WinogradConvolution)
    if not layer.fresh:
        return _of_tiles(kernels.tiling)
    return _of_tiles(kernels.tiling) + _of_tiles(kernels.data_tiling) + kernels.weight_grad.cost


def _vectors(channels: int, filters: int) -> int:
    """Vectors of a weight."""
    return 9 * -(-channels // LANES) * -(-filters // LANES) * LANES


def _of_pixels(layer: Layer, channels: int, filters: int, out: Pair) -> float:
    """Cost of the direct algorithm."""
    pixels = forward_work(Sliding((1, 1)), out, layer.batch)
    return _vectors(channels, filters) * (pixels + READ)


def _of_tiles(tiling: WinogradTiling) -> float:
    """Cost of Winograd's algorithm."""
    vectors, blocks = tiling.filters // LANES, tiling.source.blocks + tiling.target.blocks
    passes = -(-tiling.strips // tiling.max_strips)
    filters = READ + RELOAD * (passes - 1) + TRANSFORM_FILTER * tiling.fresh
    return (vectors * (tiling.strips * PIXELS + filters)
            + len(tiling.tiles) * blocks * tiling.elements * TRANSFORM)
