"""Pointwise (1 x 1) convolution: a batched GEMM.

Every image and group is one product: y (F, P) = w (F, C) x (C, P) for P pixels.  Images of a single
pixel, to which `Geometry.squeezed` reduces a window that spans the image, are rows of one product
per group: y (N, F) = x (N, C) w^T.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np

from ..linalg.gemm import gemm_workspace, prepare_gemm
from ..linalg.gemm_small import gemm_cycles
from ..op import Run, Spec, all_of
from ..simd.host import lanes
from .sliding_window import Direction, Geometry

__all__ = ["cost", "prepare", "workspace"]


CALL, CYCLE, MATRIX, STORE = 4000, 0.4, 30, 1.2
"""Nanoseconds (see `convolution`) of a call, of a cycle as counted by `gemm_plan`, of a matrix of a
stack, to load or store a vector."""


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds of a direction, inf for several taps and for sums over
    pixels of all images."""
    if not geo.positions or not geo.window.is_pixelwise or (
            direction == "weight" and geo.window.pixels > 1):
        return inf
    (stack, rows, depth, columns), width = _sizes(geo, direction), lanes(dtype)
    cycles = gemm_cycles(rows, depth, columns, stack, width, _order(geo, direction))
    stored = geo.images * geo.window.pixels * (geo.channels + geo.filters) / width
    return CALL + stack * MATRIX + CYCLE * cycles + STORE * stored


def _sizes(geo: Geometry, direction: Direction) -> tuple[int, int, int, int]:
    """Number of matrices, and M, K and N of each."""
    images, channels, filters = geo.images, geo.group_channels, geo.group_filters
    if geo.window.pixels > 1:
        sides = (filters, channels) if direction == "forward" else (channels, filters)
        return images * geo.groups, *sides, geo.window.pixels
    if direction == "weight":
        return geo.groups, filters, images, channels
    sides = (channels, filters) if direction == "forward" else (filters, channels)
    return geo.groups, images, *sides


def _order(geo: Geometry, direction: Direction) -> str:
    """Storage order of the operands: see `gemm_plan.choose_method`."""
    if geo.window.pixels > 1:
        return "CC" if direction == "forward" else "FC"
    return {"forward": "CF", "data": "CC", "weight": "FC"}[direction]


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """Workspace of a direction."""
    stack, rows, depth, columns = _sizes(geo, direction)
    return [gemm_workspace(rows, depth, columns, dtype, stack)]


def _matrices(geo: Geometry, array: np.ndarray) -> Any:
    """View (groups, N, channels of a group) of single-pixel images; of others (N, groups, channels
    of a group, pixels)."""
    if geo.window.pixels > 1:
        return array.reshape(geo.images, geo.groups, -1, geo.window.pixels)
    return array.reshape(geo.images, geo.groups, -1).swapaxes(0, 1)


def prepare(geo: Geometry, direction: Direction, x: np.ndarray, w: np.ndarray, y: np.ndarray,
            bias: np.ndarray | None, scratch: Sequence[Any]) -> Run:
    """A function that computes a direction; see `convolution.convolve`."""
    filters = w.reshape(geo.groups, geo.group_filters, -1)
    if direction == "weight":  # only of single-pixel images: gw = gy^T x
        return prepare_gemm(_matrices(geo, y).swapaxes(1, 2), _matrices(geo, x), filters,
                            scratch[0])
    if direction == "data":
        x, y, filters = y, x, filters.swapaxes(1, 2)
    terms, out = _matrices(geo, x), _matrices(geo, y)
    if geo.window.pixels > 1:
        filters = np.broadcast_to(filters, (geo.images, *filters.shape))
        run = prepare_gemm(filters, terms, out, scratch[0])
    else:
        run = prepare_gemm(terms, filters.swapaxes(1, 2), out, scratch[0])
    if bias is None:
        return run
    planes = y.reshape(*y.shape[:2], -1)
    return all_of([run, partial(np.add, planes, bias[:, None], out=planes)])
