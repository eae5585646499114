"""Sampling between pixels with NumPy: BilinearSampler and SpatialTransformer, and their gradients.

`SamplePoints` are fractional places in images; deformable convolutions sample at such points, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..detection.roi import flat
from ..dispatch import REFERENCE, implements
from ..image.spatial_transformer import BilinearSampler, SpatialTransformer, affine, affine_backward
from ..op import Call

__all__ = ["SamplePoints", "Taps", "weigh"]

Corners: TypeAlias = "list[list[Any]]"
"""The pixels around points, (N, C, P) each: two above, two below."""


class Taps(NamedTuple):
    """The two pixels around each place along an axis; arrays are (2, N, P)."""

    pixels: Any
    weights: Any
    slopes: Any
    """Derivatives of the weights by the place."""

    @classmethod
    def at(cls, places: np.ndarray, size: int, clamped: bool = False) -> Taps:
        """Around places (N, P) on an axis of `size` pixels; outside of it weights are 0.

        An image fades to zero within a pixel on either side; a `clamped` one begins at its first
        pixel, and its last one is repeated.
        """
        inside = (places < size) & (places >= 0 if clamped else places > -1)
        low = np.floor(np.where(inside, places, 0)).astype(np.int64)
        after = places - low.astype(places.dtype)
        there = inside & np.stack([low >= 0, (low + 1 < size) | clamped])
        weights = np.where(there, np.stack([1 - after, after]), 0)
        slopes = np.where(there, np.array([-1, 1], places.dtype)[:, None, None], 0)
        pixels = np.clip(np.stack([low, low + 1]), 0, size - 1) * inside
        return cls(pixels, weights, slopes)


class SamplePoints(NamedTuple):
    """Points (N, P) of images that are `width` pixels wide."""

    y: Taps
    x: Taps
    width: int

    def corners(self, images: np.ndarray) -> Corners:
        """The pixels around the points, of images (N, C, pixels)."""
        return [[np.take_along_axis(images, (row * self.width + column)[:, None], axis=2)
                 for column in self.x.pixels] for row in self.y.pixels]

    def scatter(self, g: np.ndarray, images: np.ndarray) -> None:
        """Add gradients g (N, C, P) of samples to images (N, C, pixels)."""
        n, c = np.ogrid[:g.shape[0], :g.shape[1]]
        for row, down in zip(self.y.pixels, self.y.weights, strict=True):
            for column, right in zip(self.x.pixels, self.x.weights, strict=True):
                at = (row * self.width + column)[:, None]
                np.add.at(images, (n[..., None], c[..., None], at), g * (down * right)[:, None])


def weigh(corners: Corners, down: np.ndarray, right: np.ndarray) -> Any:
    """Samples (N, C, P): sums of corners with weights (2, N, P) along both axes."""
    above, below = (right[0][:, None] * row[0] + right[1][:, None] * row[1] for row in corners)
    return down[0][:, None] * above + down[1][:, None] * below


# -- samplers --------------------------------------------------------------------------------------


def _points(grid: np.ndarray, size: Sequence[int]) -> tuple[SamplePoints, Any]:
    """The points of a grid (N, 2, OH, OW) in images of (height, width) `size`; and for each 0, or
    NaN where it is not finite."""
    x, y = ((grid[:, axis].reshape(len(grid), -1) + 1) * grid.dtype.type(0.5 * (pixels - 1))
            for axis, pixels in enumerate(reversed(size)))
    points = SamplePoints(Taps.at(y, size[0]), Taps.at(x, size[1]), size[1])
    return points, y * 0 + x * 0


def _sample(data: np.ndarray, grid: np.ndarray, y: np.ndarray) -> None:
    points, nothing = _points(grid, data.shape[2:])
    samples = weigh(points.corners(flat(data)), points.y.weights, points.x.weights)
    y[...] = (samples + nothing[:, None]).reshape(y.shape)


def _data_gradient(g: np.ndarray, grid: np.ndarray, gdata: np.ndarray) -> None:
    points, _ = _points(grid, gdata.shape[2:])
    gdata.fill(0)
    points.scatter(flat(g), flat(gdata))


def _grid_gradient(g: np.ndarray, data: np.ndarray, grid: np.ndarray, ggrid: np.ndarray) -> None:
    points, nothing = _points(grid, data.shape[2:])
    corners = points.corners(flat(data))
    by_x = weigh(corners, points.y.weights, points.x.slopes)
    by_y = weigh(corners, points.y.slopes, points.x.weights)
    for axis, (slopes, size) in enumerate(((by_x, data.shape[3]), (by_y, data.shape[2]))):
        gradient = ((flat(g) * slopes).sum(axis=1) + nothing) * grid.dtype.type(0.5 * (size - 1))
        ggrid[:, axis] = gradient.reshape(ggrid[:, axis].shape)


def _bilinear_sampler(op: BilinearSampler, ins: Sequence[Any], outs: Sequence[Any], call: Call
                     ) -> None:
    data, grid = ins
    _sample(data, grid, outs[0])


def _bilinear_sampler_gradient(op: BilinearSampler, ins: Sequence[Any], outs: Sequence[Any],
                               call: Call) -> None:
    g, data, grid = ins
    if outs[0] is not None:
        _data_gradient(g, grid, outs[0])
    if outs[1] is not None:
        _grid_gradient(g, data, grid, outs[1])


def _spatial_transformer(op: SpatialTransformer, ins: Sequence[Any], outs: Sequence[Any],
                         call: Call) -> None:
    data, matrix = ins
    grid = np.empty((len(data), 2, *op.target_shape), data.dtype) if outs[1] is None else outs[1]
    affine(matrix, grid)
    _sample(data, grid, outs[0])


def _spatial_transformer_gradient(op: SpatialTransformer, ins: Sequence[Any], outs: Sequence[Any],
                                  call: Call) -> None:
    g, data, grid = ins
    if outs[0] is not None:
        _data_gradient(g, grid, outs[0])
    if outs[1] is not None:
        ggrid = np.empty_like(grid)
        _grid_gradient(g, data, grid, ggrid)
        affine_backward(ggrid, outs[1])


implements(BilinearSampler, REFERENCE, _bilinear_sampler, _bilinear_sampler_gradient)
implements(SpatialTransformer, REFERENCE, _spatial_transformer, _spatial_transformer_gradient)
