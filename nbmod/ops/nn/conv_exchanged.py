"""Gradient of the weight with the roles of the data and of the output's gradient exchanged.

With stride 1 the gradient of the weight is a correlation, in which both operands may slide:

    gw[f, c, k] = sum over n, o of gy[n, f, o] x[n, c, o - pad + k dilate]
                = sum over n, p of x[n, c, p] gy[n, f, p - pad' + k' dilate]

for all positions o, or all pixels p, with taps in reverse order, k' = taps - 1 - k, and
pad' = (taps - 1) dilate - pad.  The second form is the gradient of the weight of a window over gy.
Its algorithms copy gy under the taps, pad it or reorder it instead of x, which is less work where
there are far fewer filters than channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import inf, prod
from typing import Any

import numpy as np

from ..dispatch import Choice
from ..op import Run, Spec, all_of
from .convolution import convolve, fastest
from .sliding_window import Direction, Geometry, Window

__all__ = ["cost", "parts", "prepare", "workspace"]

FEWER = 2
"""Least ratio of channels to filters."""
CALL, TURN = 4000, 2
"""Nanoseconds (see `convolution`) of a call; to transpose an element of the weight."""


@lru_cache(maxsize=256)
def _exchanged(geo: Geometry) -> Geometry | None:
    """The convolution of gy whose weight has the same gradient; None where this does not apply."""
    window = geo.window
    steps = (stride for stride, out in zip(window.stride, window.out, strict=True) if out > 1)
    pad = [(taps - 1) * dilate - pad for taps, dilate, pad in zip(
        window.kernel, window.dilate, window.pad, strict=True)]
    if (window.taps == 1 or FEWER * geo.group_filters > geo.group_channels or not geo.positions
            or any(step > 1 for step in steps) or min(pad) < 0):
        return None
    over = Window.over(window.out, window.image, window.kernel, (1, 1, 1), pad, window.dilate)
    return Geometry(over, geo.images, geo.filters, geo.channels, geo.groups)


def parts(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Choice]:
    """The choice of the other convolution's algorithm; empty where this does not apply."""
    other = _exchanged(geo) if direction == "weight" else None
    return [] if other is None else [fastest(other, direction, dtype)]


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds, inf for other directions and where this does not
    apply."""
    return next((CALL + TURN * geo.filters * geo.depth + part.cost
                 for part in parts(geo, direction, dtype)), inf)


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """The gradient of the other weight, and the workspace of its convolution."""
    (part,) = parts(geo, direction, dtype)
    return [Spec((geo.filters * geo.depth,), dtype), *part.workspace]


def prepare(geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
            scratch: Sequence[Any]) -> Run:
    """A function that computes the gradient w; see `convolution.convolve`."""
    other = _exchanged(geo)
    assert other is not None
    groups, kernel = geo.groups, geo.window.kernel
    gradient = scratch[0][:prod(w.shape)]
    compute = convolve(other, direction, y, gradient, x, None, scratch[1:])
    reverse = gradient.reshape(groups, -1, geo.group_filters, *kernel)[..., ::-1, ::-1, ::-1]
    target = w.reshape(groups, geo.group_filters, -1, *kernel)
    return all_of([compute, partial(np.copyto, target, reverse.swapaxes(1, 2))])
