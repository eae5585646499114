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

__all__ = ["backward_data", "backward_weight", "cost", "data_room", "fills_lanes", "forward",
           "forward_room", "halo_cost", "sums_cost", "weight_room"]



def _kernels(geo: Geometry, backward: bool) -> Kernels:
    """Layouts with the halo that a direction reads; `backward`: the data gradient."""
    win, slide = geo.window, sliding_of(geo)
    image, out = (win.image[1], win.image[2]), (win.out[1], win.out[2])
    flat = geo.channels < FLAT and not backward
    x = BlockedLayout(geo.channels, *image, 0 if backward else max(slide.pad), 1 if flat else LANES)
    y = BlockedLayout(geo.filters, *out, slide.data_halo(image, out) if backward else 0)
    return Kernels(slide, x, y, geo.images)


CALL, PRODUCT, OUTER, MOVE, PACK, SPREAD = 40_000, 0.22, 0.31, 0.56, 4.5, 9
"""Nanoseconds (see `nn.convolution`) of a call; of a vector FMA, and of one of a weight gradient;
to reorder an element of an image, which is limited by memory bandwidth; to pack a vector of
filters, and one of incomplete blocks."""


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
    """The same for images that are blocked already, or planar ones that are 1 `deep`."""
    slide, win, taps = sliding_of(geo), geo.window, geo.window.taps
    outer = -(-geo.group_filters // LANES)
    inner = -(-geo.group_channels // deep) * deep
    packed = geo.groups * outer * (padded_taps(inner * taps, 1) if deep == 1 else inner * taps)
    pack = (SPREAD if geo.group_filters % LANES or inner % LANES else PACK) * packed
    if direction == "weight":
        return OUTER * geo.positions * packed + pack
    if direction == "forward":
        work = forward_work(slide, win.out[1:], geo.images) * inner * outer
    else:
        work = data_work(slide, win.image[1:], geo.images) * -(-inner // LANES) * outer * LANES
    return PRODUCT * geo.groups * work + pack


def halo_cost(geo: Geometry, direction: Direction) -> float:
    """The same for the halo of blocked images: it is as wide for rows as for columns."""
    k = _kernels(geo, direction == "data")
    layout = k.y if direction == "data" else k.x
    return MOVE * k.batch * layout.blocks * layout.lanes * (
        (layout.height + 2 * layout.halo) * (layout.width + 2 * layout.halo)
        - layout.height * layout.width)


def _room(direction: Direction, geo: Geometry, dtype: np.dtype) -> list[Spec]:
    """Workspace of a direction: images, filters, images, and a padded bias."""
    k = _kernels(geo, direction == "data")
    x, y = (Spec(layout.shape(k.batch), FLOAT) for layout in (k.x, k.y))
    if direction == "data":
        return [y, k.packed_data, x, Spec((k.x.blocks * k.x.lanes,), FLOAT)]
    bias = Spec((k.y.blocks * k.y.lanes,), FLOAT)
    return [x, k.packed, y, *[bias] * (direction == "forward")]


forward_room = partial(_room, "forward")
data_room = partial(_room, "data")
weight_room = partial(_room, "weight")


def _pad_bias(bias: Any, padded: Any) -> tuple[Any, list[Run]]:
    """The padded bias for the kernels, and functions that copy the bias there."""
    return (None, []) if bias is None else (padded, [partial(pad_channels, bias, padded)])


def forward(geo: Geometry, x: Any, w: Any, bias: Any, y: Any, room: Sequence[Any]) -> Run:
    """y = convolution of x with w, plus bias or None."""
    k, (blocks, packed, out, padded) = _kernels(geo, False), room[:4]
    bias, pad = _pad_bias(bias, padded)
    return all_of([*pad, partial(k.pack, w, packed),
                   partial(into_blocks, k.x, _images(x, k.x), blocks),
                   k.forward(blocks, packed, bias, out),
                   partial(from_blocks, k.y, out, _images(y, k.y))])


def backward_data(geo: Geometry, g: Any, w: Any, bias: Any, gx: Any, room: Sequence[Any]) -> Run:
    """gx = data gradient, plus bias or None."""
    k, (blocks, packed, out, padded) = _kernels(geo, True), room[:4]
    bias, pad = _pad_bias(bias, padded)
    return all_of([*pad, partial(into_blocks, k.y, _images(g, k.y), blocks),
                   k.data(blocks, w, packed, out, bias),
                   partial(from_blocks, k.x, out, _images(gx, k.x))])


def backward_weight(geo: Geometry, x: Any, g: Any, gw: Any, room: Sequence[Any]) -> Run:
    """gw = weight gradient."""
    k, (blocks, packed, grads) = _kernels(geo, False), room[:3]
    return all_of([partial(into_blocks, k.x, _images(x, k.x), blocks),
                   partial(into_blocks, k.y, _images(g, k.y), grads),
                   k.weight(blocks, grads, packed, gw)])


def _images(array: Any, layout: BlockedLayout) -> Any:
    """(N, C, H, W) of an array with any number of image axes."""
    return array.reshape(len(array), layout.channels, layout.height, layout.width)
