"""Depthwise convolution on the blocked form: a vector of filters for each block and tap.

To the tables every block of channels is a group of its own, of one block in and one out, whose taps
are one vector of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from ..geometry import Geometry
from ..jit import kernel, prange
from ..op import Spec
from ..simd.lanewise import TAPS, lanesums
from .convolution import FLOAT, Kernels, is_planar, sliding_of
from .form import LANES, Form
from .strips import LANEWISE, unpack
from .tables import (
    Pack,
    Sliding,
    StripTask,
    data_strips,
    forward_strips,
    pixel_places,
)

__all__ = ["Depthwise", "is_depthwise", "kernels_of", "suits"]

SHARE = 0.5
"""Of the lanes that have to hold a channel to be worth reorders."""


@kernel(parallel=True)
def _sums(x, g, d, rows, places, steps):
    """d (images, blocks, rows, LANES) of every image by itself."""
    images, blocks, x_plane, g_plane = steps
    for job in prange(images * blocks):
        plane = np.int64(job)
        for first in range(0, len(rows), TAPS):
            lanesums(x, g, d, rows, places, (plane * x_plane, plane * g_plane,
                                             (plane * len(rows) + first) * LANES, first, 0),
                     len(places) // 2)


def _pack(slide: Sliding, channels: int, seen: Sequence[Sequence[int]], room: int) -> Pack:
    """Of weight (channels, 1, *kernel): [block][class][position that it sees][LANES]; a block has
    room for so many positions, and LANES zeros come behind all."""
    rows, taps = [], len(slide.taps)
    starts = np.cumsum([0, *map(len, seen)])
    for block, first in enumerate(range(0, channels, LANES)):
        have = min(LANES, channels - first)
        rows += [(first * taps, have, 1, LANES, (block * room + start) * LANES, start, len(see))
                 for start, see in zip(starts, seen, strict=False) if see]
    size = -(-channels // LANES) * room * LANES + LANES
    return Pack(np.array(rows), np.array(list(chain(*seen)), np.int64), (taps, taps), 1, size)


@dataclass(frozen=True)
class Depthwise(Kernels):
    """One convolution of as many groups as channels and filters."""

    kind: ClassVar = LANEWISE
    zeros: ClassVar = LANES

    @property
    def blocks(self) -> Sliding:
        """Every block a group."""
        return replace(self.slide, groups=self.x.blocks)

    @cached_property
    def packing(self) -> Pack:
        return _pack(self.slide, self.x.channels, [range(len(self.slide.taps))],
                     len(self.slide.taps))

    @cached_property
    def packing_back(self) -> Pack:
        seen = [[position for position, _ in self.slide.seen(each)] for each in self.slide.classes]
        return _pack(self.slide, self.x.channels, seen, len(self.slide.taps))

    def forward_task(self) -> StripTask:
        return forward_strips(self.blocks, self.x, self.y, self.batch, 1)

    def data_task(self) -> StripTask:
        return data_strips(self.blocks, self.y, self.x, self.batch, 1)

    @cached_property
    def rows(self) -> np.ndarray:
        """Where the pixels of taps are, TAPS at a time: the last one fills up."""
        taps = np.array([self.x.row * i * self.slide.dilate[0] + LANES * j * self.slide.dilate[1]
                         for i, j in self.slide.taps])
        return taps[np.minimum(np.arange(-(-len(taps) // TAPS) * TAPS), len(taps) - 1)]

    @property
    def summed(self) -> Spec:
        return Spec((self.batch, self.x.blocks, len(self.rows), LANES), FLOAT)

    def weight(self, x: Any, g: Any, packed: Any, gw: Any, adds: bool = False
               ) -> Callable[[], None]:
        rows, places = self.rows, pixel_places(self.slide, self.x, self.y).ravel()
        taps = len(self.slide.taps)
        plan = _pack(self.slide, self.x.channels, [range(taps)], len(rows))
        steps = (self.batch, self.x.blocks, self.x.plane, self.y.plane)
        x, g, every = x.reshape(-1), g.reshape(-1), packed.reshape(-1)

        def run() -> None:
            _sums(x, g, every, rows, places, steps)
            np.sum(packed, axis=0, out=packed[0])
            unpack(plan, every, gw, adds)

        return run


def kernels_of(slide: Sliding, x: Form, y: Form, batch: int) -> Kernels:
    """The kernels of a convolution."""
    return (Depthwise if is_depthwise(slide, x.channels, y.channels) else Kernels)(
        slide, x, y, batch)


def is_depthwise(slide: Sliding, channels: int, filters: int) -> bool:
    """Whether every channel has one filter of its own."""
    return slide.groups == channels == filters > 1


def suits(geo: Geometry, blocked: bool) -> bool:
    """Whether the blocked form suits a depthwise convolution, of images that are `blocked` already
    or else of channels that fill vectors."""
    return (is_depthwise(sliding_of(geo), geo.channels, geo.filters) and is_planar(geo)
            and (blocked or geo.channels >= SHARE * LANES * -(-geo.channels // LANES)))
