"""Which algorithm computes a convolution: an estimate, or what has been measured.

Every blocked convolution can be computed directly, strip by strip; those of 3 x 3 filters and
stride 1 by tiles of 2 x 2 or 4 x 4 pixels as well, with fewer multiplications and more of
everything else (see `winograd`).  `estimates` adds that up for each.  A unit is the time of one
multiplication and addition of vectors on one core, so that the number of lanes cancels out, but for
bytes:

    strips       of PIXELS pixels or tiles, full or not
    filters      are read from memory once, or for every few strips again, from a cache
    transforms   of tiles there and back, and of filters where they change with every run

A layer that is trained also has the data's gradient, which is such a convolution, and the weight's
(see `weighing`); it is computed one way in all directions.

Threads share all of this, so their number decides who does what (see `winograd`), but not which
algorithm it is: results are the same bits for any number of them.

Estimates do not know a machine.  Who binds with `tune=True` has the algorithms of every convolution
run, and the fastest is chosen from then on (see `tuned`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ...config import CONFIG, is_tuning
from ..device import CPU
from ..nn.convolution import way_of
from ..nn.sliding_window import Direction, Geometry
from ..simd.conv_strip import PIXELS
from . import autotune, blocked_depthwise, direct
from .address_tables import Pair, Sliding, grouped
from .blocked_convolution import FLAT, FLOAT, Kernels, is_planar
from .blocked_depthwise import kernels_of
from .layout import LANES, Form
from .winograd import Tiling, fits
from .winograd_convolution import Tiled

__all__ = ["DIRECT", "FOUR", "PLAIN", "TWO", "Choice", "Layer", "candidates", "chosen", "estimates",
           "is_worth_blocks"]

DIRECT, TWO, FOUR = 0, 2, 4
"""Algorithms: strips of pixels, or tiles of so many rows and columns."""
PLAIN = -1
"""Not on blocks of channels at all: for a layer that stands alone."""
NAMES = {PLAIN: "plain", DIRECT: "direct", TWO: "F(2x2)", FOUR: "F(4x4)"}

READ = 25 * LANES / 16
"""To bring in a vector of filters from memory: 64 bytes in the time of 25 operations."""
AGAIN = 5 * LANES / 16
"""And from a cache."""
TURN = 14
"""To transform one place of a tile of a vector of channels, there or back, and to keep it until it
is needed: an operation for each place is one of five or six."""
MAKE = 20
"""To transform a vector of filters."""
LEAST = {TWO: 0.8, FOUR: 0.8}
"""Of the time for strips of pixels that tiles may take: they keep fewer digits."""
CLEAR = 0.9
"""Of the time of small tiles that large ones may take, for the same reason."""


class Choice(NamedTuple):
    """An algorithm, and a few words on why."""

    algorithm: int
    why: str


REORDER = 10_000
"""Nanoseconds of a reorder besides what it moves."""
NEIGHBOURS, CLEARLY = 50_000, 2
"""Nanoseconds by which, and how often as long, a direction of a layer on blocks may take: the
layers around it follow, are faster there and are computed together with it."""
ENOUGH = 8
"""Filters that fill enough of the lanes to be worth blocks to those around."""


def is_worth_blocks(geo: Geometry, wanted: Collection[Direction], blocked: bool,
                    last: bool = False) -> bool:
    """Whether the directions `wanted` of a layer take less time on blocks of channels than in any
    other way; `blocked`: its images are in blocks anyway; `last`: nobody reads what it computes, so
    that neither need be in blocks for the sake of others."""
    flat = False
    if blocked_depthwise.fills(geo, blocked):
        sums = blocked_depthwise.sums_cost
    elif is_planar(geo) and direct.fills(geo) and geo.filters >= ENOUGH:
        flat = geo.channels < FLAT and not blocked and "data" not in wanted
        sums = partial(direct.sums_cost, deep=1 if flat else LANES)
    else:
        return False
    moved = REORDER + _moving(geo, geo.channels, geo.window.pixels, flat)
    here = moved * (not blocked) + sum(
        sums(geo, each) + direct.halo_cost(geo, each) - NEIGHBOURS for each in wanted)
    plain = sum(way_of(geo, each, FLOAT).cost for each in wanted) + moved * blocked
    if last and not blocked:
        out = _moving(geo, geo.filters, geo.window.positions, False)
        return here + moved * ("data" in wanted) + out * min(len(wanted), 2) <= plain
    return here <= CLEARLY * plain


def _moving(geo: Geometry, channels: int, pixels: int, flat: bool) -> float:
    """To reorder images, with the lanes that have no channel."""
    filled = channels if flat else -(-channels // LANES) * LANES
    return direct.MOVE * geo.images * filled * pixels


@dataclass(frozen=True)
class Layer:
    """A convolution of `batch` images to choose an algorithm for; `fresh`: in training, where
    filters change with every run and gradients are computed, too."""

    slide: Sliding
    batch: int
    channels: int
    image: Pair
    filters: int
    out: Pair
    fresh: bool

    @property
    def key(self) -> str:
        """Its name among what has been measured."""
        sizes = "x".join(map(str, (self.batch, self.channels, *self.image)))
        return (f"{sizes}, {self.filters} filters 3x3, pad {self.slide.pad[0]}x{self.slide.pad[1]}"
                f"{', trained' * self.fresh}")

    def kernels(self, algorithm: int, halo: int = 0) -> Kernels:
        """What computes it by tiles or directly; `halo` is that of the data."""
        forms = Form(self.channels, *self.image, halo), Form(self.filters, *self.out)
        if algorithm == DIRECT:
            return kernels_of(self.slide, *forms, self.batch)
        return Tiled(self.slide, *forms, self.batch, algorithm, self.fresh)


def candidates(layer: Layer) -> list[int]:
    """The algorithms that the environment allows for a layer."""
    tiles = [out for out in (TWO, FOUR) if out <= CONFIG.winograd]
    return [DIRECT, *(tiles if fits(layer.slide) else [])]


def chosen(layer: Layer) -> Choice:
    """The algorithm for a layer, and why: the fastest if that is known or to be found out."""
    allowed = candidates(layer)
    if len(allowed) == 1:
        return Choice(DIRECT, "")
    times = autotune.recall(layer.key)
    if is_tuning() and not all(NAMES[each] in times for each in allowed):
        times = autotune.measure(layer.key, {NAMES[each]: _runs(layer, each) for each in allowed})
    if not all(NAMES[each] in times for each in allowed):
        return estimated(layer)
    best = min(allowed, key=lambda each: times[NAMES[each]])
    listed = (f"{NAMES[each]} {times[NAMES[each]]:.3f} ms" for each in allowed)
    return Choice(best, f"measured: {', '.join(listed)}")


def _runs(layer: Layer, algorithm: int) -> Callable[[], None]:
    """What a layer has to compute, on numbers without meaning."""
    k = layer.kernels(algorithm, max(layer.slide.pad))
    x, y = (CPU.full(form.shape(k.batch), FLOAT, 0.5) for form in (k.x, k.y))
    w = CPU.full((layer.filters, layer.channels, 3, 3), FLOAT, 0.1)
    filters, room = (CPU.empty(*spec) for spec in (k.filters, k.room(False)))
    forward = k.forward(x, filters, None, y, room=room)
    if not layer.fresh:
        k.pack(w, filters, room)
        return forward
    g = CPU.full(k.back.y.shape(k.batch), FLOAT, 0.5)
    turned, space, summed, more = (CPU.empty(*spec) for spec in (
        k.back.filters_back, k.back.room(True), k.summed, k.weight_room))
    data = k.back.data(g, w, turned, x, room=space)
    weight = k.back.weight(x, g, summed, np.empty_like(w), room=more)

    def run() -> None:
        k.pack(w, filters, room)
        forward()
        data()
        weight()

    return run


def estimated(layer: Layer) -> Choice:
    """Tiles where they are clearly faster, large ones where they are clearly faster than small."""
    costs, best = estimates(layer), DIRECT
    for algorithm in costs:
        margin = CLEAR if best else LEAST[algorithm] if algorithm else 1
        if costs[algorithm] < margin * costs[best]:
            best = algorithm
    return Choice(best, f"estimated at {costs[best] / costs[DIRECT]:.2f} of direct" if best else "")


def estimates(layer: Layer) -> dict[int, float]:
    """Units of time of every candidate."""
    return {algorithm: _estimate(layer, algorithm) for algorithm in candidates(layer)}


def _estimate(layer: Layer, algorithm: int) -> float:
    if algorithm == DIRECT:
        forward = _of_pixels(layer, layer.channels, layer.filters, layer.out)
        if not layer.fresh:
            return forward
        sums = _vectors(layer.channels, layer.filters) * layer.batch * layer.out[0] * layer.out[1]
        return forward + _of_pixels(layer, layer.filters, layer.channels, layer.image) + sums
    kernels = layer.kernels(algorithm)
    assert isinstance(kernels, Tiled)
    if not layer.fresh:
        return _of_tiles(kernels.tiling)
    return _of_tiles(kernels.tiling) + _of_tiles(kernels.tiling_back) + kernels.weighing.cost


def _vectors(channels: int, filters: int) -> int:
    """Vectors of a weight."""
    return 9 * -(-channels // LANES) * -(-filters // LANES) * LANES


def _of_pixels(layer: Layer, channels: int, filters: int, out: Pair) -> float:
    """Strips of pixels."""
    each, groups, _ = grouped(layer.batch, out[0] * out[1])
    strips = groups * -(-each * out[0] * out[1] // PIXELS)
    return _vectors(channels, filters) * (strips * PIXELS + READ)


def _of_tiles(tiling: Tiling) -> float:
    """Strips of tiles."""
    vectors, blocks = tiling.filters // LANES, tiling.source.blocks + tiling.target.blocks
    passes = -(-tiling.strips // tiling.most)
    filters = READ + AGAIN * (passes - 1) + MAKE * tiling.fresh
    return (vectors * (tiling.strips * PIXELS + filters)
            + len(tiling.tiles) * blocks * tiling.places * TURN)
