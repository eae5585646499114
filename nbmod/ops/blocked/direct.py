"""Convolution of (N, C, H, W) by way of the blocked form: reorder, compute, reorder back.

What `convolution.Directions` uses where a layer stands alone; in a network the layout pass leaves
out the reorders between layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..geometry import Geometry
from ..op import Spec
from .convolution import FLAT, FLOAT, Kernels, pays, sliding_of
from .form import LANES, Form, enter_channels
from .reorder import from_blocks, into_blocks

__all__ = ["backward_data", "backward_weight", "data_room", "forward", "forward_room", "pays",
           "weight_room"]

Run = Callable[[], None]


def _kernels(geo: Geometry, backward: bool) -> Kernels:
    """Forms without more halo than a direction reads; backward is that of the data."""
    win, slide = geo.window, sliding_of(geo)
    image, out = (win.image[1], win.image[2]), (win.out[1], win.out[2])
    flat = geo.channels < FLAT and not backward
    x = Form(geo.channels, *image, 0 if backward else max(slide.pad), 1 if flat else LANES)
    y = Form(geo.filters, *out, slide.data_halo(image, out) if backward else 0)
    return Kernels(slide, x, y, geo.images)


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
    images, result = _images(x), _images(y)
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
    grads, result = _images(g), _images(gx)
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
    images, gradient = _images(x), _images(g)
    compute = k.weight(blocks, grads, packed, gw)

    def run() -> None:
        into_blocks(k.x, images, blocks)
        into_blocks(k.y, gradient, grads)
        compute()

    return run


def _images(array: Any) -> Any:
    """(N, C, H, W) of an array with one or two image axes, or three of which the first is 1."""
    return array.reshape(*array.shape[:2], 1 if array.ndim == 3 else array.shape[-2],
                         array.shape[-1])
