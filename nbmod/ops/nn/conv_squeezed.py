"""Convolution along the fewest axes, which are those of `Geometry.squeezed`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np

from ..dispatch import Choice
from ..op import Run, Spec, all_of
from .convolution import convolve, fastest
from .sliding_window import Direction, Geometry

__all__ = ["cost", "parts", "prepare", "workspace"]


def parts(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Choice]:
    """The choice of the algorithm; empty if the convolution has the fewest axes already."""
    return [] if geo.squeezed == geo else [fastest(geo.squeezed, direction, dtype)]


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds, inf where this does not apply."""
    return next((part.cost for part in parts(geo, direction, dtype)), inf)


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """The workspace of the algorithm."""
    return fastest(geo.squeezed, direction, dtype).workspace


def prepare(geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
            scratch: Sequence[Any]) -> Run:
    """A function that computes a direction; see `convolution.convolve`."""
    if direction != "data" or bias is None or geo.squeezed.channels == geo.channels:
        return convolve(geo.squeezed, direction, x, w, y, bias, scratch)
    # Squeezing turned pixels into channels, but bias has one element per original channel.
    planes = x.reshape(geo.images, geo.channels, -1)
    return all_of([convolve(geo.squeezed, direction, x, w, y, None, scratch),
                   partial(np.add, planes, bias[:, None], out=planes)])
