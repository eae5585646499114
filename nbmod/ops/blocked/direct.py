"""Convolution of (N, C, H, W) by way of the blocked form: reorder, compute, reorder back.

What `convolution.Directions` uses where a layer stands alone; in a network the layout pass leaves
out the reorders between layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np

from ..nn.sliding_window import Direction, Geometry
from ..op import Run, Spec
from .address_tables import data_work, forward_work, padded_taps
from .blocked_convolution import FLAT, FLOAT, Kernels, is_planar, sliding_of
from .layout import LANES, Form, enter_channels
from .reorder import from_blocks, into_blocks

__all__ = ["backward_data", "backward_weight", "cost", "data_room", "fills", "forward",
           "forward_room", "halo_cost", "sums_cost", "weight_room"]



def _kernels(geo: Geometry, backward: bool) -> Kernels:
    """Forms without more halo than a direction reads; backward is that of the data."""
    win, slide = geo.window, sliding_of(geo)
    image, out = (win.image[1], win.image[2]), (win.out[1], win.out[2])
    flat = geo.channels < FLAT and not backward
    x = Form(geo.channels, *image, 0 if backward else max(slide.pad), 1 if flat else LANES)
    y = Form(geo.filters, *out, slide.data_halo(image, out) if backward else 0)
    return Kernels(slide, x, y, geo.images)


CALL, PRODUCT, OUTER, MOVE, PACK, SPREAD = 40_000, 0.22, 0.31, 0.56, 4.5, 9
"""Nanoseconds (see `convolution`) of a call; of a product of vectors, and of one that is added to a
weight's gradient; to reorder a number of an image, for which wider vectors do nothing, as memory
limits it; to pack a vector of filters, and one of blocks that channels do not fill."""


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """About how many nanoseconds a direction takes one thread with reorders; infinitely many where
    these kernels cannot compute it."""
    if dtype != FLOAT or not is_planar(geo) or not fills(geo):
        return inf
    k = _kernels(geo, direction == "data")
    moved = sum(prod(form.shape(k.batch)) for form in (k.x, k.y))
    return CALL + MOVE * moved + sums_cost(geo, direction, k.x.lanes)


def fills(geo: Geometry) -> bool:
    """Whether no vector has channels of two groups."""
    return geo.groups == 1 or geo.group_channels % LANES == geo.group_filters % LANES == 0


def sums_cost(geo: Geometry, direction: Direction, deep: int = LANES) -> float:
    """The same of images that are in blocks already, or flat ones that are 1 `deep`."""
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
    """The same of the halo around images in blocks: it is as wide for rows as for columns."""
    k = _kernels(geo, direction == "data")
    form = k.y if direction == "data" else k.x
    return MOVE * k.batch * form.blocks * form.lanes * (
        (form.height + 2 * form.halo) * (form.width + 2 * form.halo)
        - form.height * form.width)


def _spec(form: Form, batch: int) -> Spec:
    return Spec(form.shape(batch), FLOAT)


def _padded(form: Form) -> Spec:
    """Room for a bias."""
    return Spec((form.blocks * form.lanes,), FLOAT)


def forward_room(geo: Geometry, dtype: np.dtype) -> list[Spec]:
    """Scratch memory `forward` needs."""
    k = _kernels(geo, False)
    return [_spec(k.x, k.batch), k.packed, _spec(k.y, k.batch), _padded(k.y)]


def data_room(geo: Geometry, dtype: np.dtype) -> list[Spec]:
    """Scratch memory `backward_data` needs."""
    k = _kernels(geo, True)
    return [_spec(k.y, k.batch), k.packed_back, _spec(k.x, k.batch), _padded(k.x)]


def weight_room(geo: Geometry, dtype: np.dtype) -> list[Spec]:
    """Scratch memory `backward_weight` needs."""
    k = _kernels(geo, False)
    return [_spec(k.x, k.batch), k.packed, _spec(k.y, k.batch)]


def _with_bias(bias: Any, padded: Any) -> Any:
    """Enter a bias into its room; a function, and what the kernels read."""
    if bias is None:
        return None, lambda: None
    return padded, partial(enter_channels, bias, padded)


def forward(geo: Geometry, x: Any, w: Any, bias: Any, y: Any, room: Sequence[Any]) -> Run:
    """y = convolution of x with w, plus bias or None."""
    k, (blocks, packed, out, padded) = _kernels(geo, False), room[:4]
    bias, enter = _with_bias(bias, padded)
    images, result = _images(x, k.x), _images(y, k.y)
    compute = k.forward(blocks, packed, bias, out)

    def run() -> None:
        enter()
        k.pack(w, packed)
        into_blocks(k.x, images, blocks)
        compute()
        from_blocks(k.y, out, result)

    return run


def backward_data(geo: Geometry, g: Any, w: Any, bias: Any, gx: Any, room: Sequence[Any]) -> Run:
    """gx = gradient of the data, plus bias or None."""
    k, (blocks, packed, out, padded) = _kernels(geo, True), room[:4]
    bias, enter = _with_bias(bias, padded)
    grads, result = _images(g, k.y), _images(gx, k.x)
    compute = k.data(blocks, w, packed, out, bias)

    def run() -> None:
        enter()
        into_blocks(k.y, grads, blocks)
        compute()
        from_blocks(k.x, out, result)

    return run


def backward_weight(geo: Geometry, x: Any, g: Any, gw: Any, room: Sequence[Any]) -> Run:
    """gw = gradient of the weight."""
    k, (blocks, packed, grads) = _kernels(geo, False), room[:3]
    images, gradient = _images(x, k.x), _images(g, k.y)
    compute = k.weight(blocks, grads, packed, gw)

    def run() -> None:
        into_blocks(k.x, images, blocks)
        into_blocks(k.y, gradient, grads)
        compute()

    return run


def _images(array: Any, form: Form) -> Any:
    """(N, C, H, W) of an array with any number of image axes."""
    return array.reshape(len(array), form.channels, form.height, form.width)
