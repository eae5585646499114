"""Convolution of (N, C, H, W) in the blocked layout: reorder, compute, reorder back.

Used by `nn.convolution` for a layer between unblocked ones; in a network the layout pass removes
the reorders between layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np

from ..nn.sliding_window import Direction, Geometry
from ..op import Run, Spec, all_of
from .address_tables import data_work, forward_work, padded_taps
from .blocked_convolution import FLAT, FLOAT, Kernels, is_planar, sliding_of
from .layout import LANES, BlockedLayout, pad_channels
from .reorder import from_blocks, into_blocks

__all__ = ["cost", "fills_lanes", "halo_cost", "prepare", "sums_cost", "workspace"]


def _kernels(geo: Geometry, backward: bool) -> Kernels:
    """Layouts with the halo that a direction reads; `backward`: the data gradient."""
    win, slide = geo.window, sliding_of(geo)
    image, out = (win.image[1], win.image[2]), (win.out[1], win.out[2])
    flat = geo.channels < FLAT and not backward
    x = BlockedLayout(geo.channels, *image, 0 if backward else max(slide.pad), 1 if flat else LANES)
    y = BlockedLayout(geo.filters, *out, slide.data_halo(image, out) if backward else 0)
    return Kernels(slide, x, y, geo.images)


CALL, PRODUCT, FLAT_PRODUCT, OUTER, MOVE, PACK, SPREAD = 40_000, 0.22, 0.35, 0.31, 0.56, 4.5, 9
"""Nanoseconds (see `nn.convolution`) of a call; of a vector FMA with a pixel of a block, of a flat
image, and of a weight gradient; to reorder an element of an image, limited by memory bandwidth; to
pack a vector of filters, and one of incomplete blocks, twice for the data gradient."""
LARGE, FAR = 1 << 14, 2.5
"""Vectors of filters beyond which they do not stay in the L2 cache, and the factor by which packing
then takes longer."""


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated nanoseconds of a direction with reorders on one thread; infinity where these
    kernels do not apply."""
    if dtype != FLOAT or not is_planar(geo) or not fills_lanes(geo):
        return inf
    k = _kernels(geo, direction == "data")
    moved = sum(prod(layout.shape(k.batch)) for layout in (k.x, k.y))
    return CALL + MOVE * moved + sums_cost(geo, direction, k.x.lanes)


def fills_lanes(geo: Geometry) -> bool:
    """Whether no vector has channels of two groups."""
    return geo.groups == 1 or geo.group_channels % LANES == geo.group_filters % LANES == 0


def sums_cost(geo: Geometry, direction: Direction, deep: int = LANES) -> float:
    """The cost of the sums alone, for blocked images, or planar ones that are 1 `deep`."""
    slide, win, taps = sliding_of(geo), geo.window, geo.window.taps
    outer = -(-geo.group_filters // LANES)
    inner = -(-geo.group_channels // deep) * deep
    packed = geo.groups * outer * (padded_taps(inner * taps, 1) if deep == 1 else inner * taps)
    full = geo.group_filters % LANES == geo.group_channels % deep == 0
    pack = (PACK if full else SPREAD * (1 + (direction == "data"))) * packed
    pack *= FAR if packed > LARGE else 1
    if direction == "weight":
        return OUTER * geo.positions * packed + pack
    if direction == "forward":
        work = forward_work(slide, win.out[1:], geo.images) * inner * outer
    else:
        work = data_work(slide, win.image[1:], geo.images) * -(-inner // LANES) * outer * LANES
    return (FLAT_PRODUCT if deep == 1 else PRODUCT) * geo.groups * work + pack


def halo_cost(geo: Geometry, direction: Direction) -> float:
    """The cost of the halo of blocked images, which is as wide for rows as for columns."""
    k = _kernels(geo, direction == "data")
    layout = k.y if direction == "data" else k.x
    return MOVE * k.batch * layout.blocks * layout.lanes * (
        (layout.height + 2 * layout.halo) * (layout.width + 2 * layout.halo)
        - layout.height * layout.width)


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """Workspace of a direction: images, filters, images, and a padded bias."""
    k = _kernels(geo, direction == "data")
    x, y = (Spec(layout.shape(k.batch), FLOAT) for layout in (k.x, k.y))
    if direction == "data":
        return [y, k.packed_data, x, Spec((k.x.blocks * k.x.lanes,), FLOAT)]
    return [x, k.packed, y, Spec((k.y.blocks * k.y.lanes,), FLOAT)]


def prepare(geo: Geometry, direction: Direction, x: np.ndarray, w: np.ndarray, y: np.ndarray,
            bias: np.ndarray | None, scratch: Sequence[Any]) -> Run:
    """A function that computes a direction; see `nn.convolution.convolve`."""
    k, (source, packed, target, padded) = _kernels(geo, direction == "data"), scratch[:4]
    images, outputs = _images(x, k.x), _images(y, k.y)
    pad: list[Run] = []
    if bias is not None:
        bias, pad = padded, [partial(pad_channels, bias, padded)]
    if direction == "forward":
        return all_of([*pad, partial(k.pack, w, packed),
                       partial(into_blocks, k.x, images, source),
                       k.forward(source, packed, bias, target),
                       partial(from_blocks, k.y, target, outputs)])
    if direction == "data":
        return all_of([*pad, partial(into_blocks, k.y, outputs, source),
                       k.data(source, w, packed, target, bias),
                       partial(from_blocks, k.x, target, images)])
    return all_of([partial(into_blocks, k.x, images, source),
                   partial(into_blocks, k.y, outputs, target),
                   k.weight(source, target, packed, w)])


def _images(array: np.ndarray, layout: BlockedLayout) -> Any:
    """(N, C, H, W) of an array with any number of image axes."""
    return array.reshape(len(array), layout.channels, layout.height, layout.width)
