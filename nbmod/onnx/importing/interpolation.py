"""Interpolation along one axis as a matrix: what every output takes of the inputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .imported_tensor import Array

__all__ = ["Resampling", "nearest_index", "resampling_matrix", "sample_positions"]


class Resampling(NamedTuple):
    """How an axis of length `size` is resampled to length `out`.

    `scale` is out / size, or what the model says instead; `roi` is the start and the end of what
    `tf_crop_and_resize` takes, as shares of the axis, and `extrapolation` the value outside of the
    axis.  `cubic` is the coefficient of cubic interpolation; others are attributes of Resize.
    """

    size: int
    out: int
    scale: float
    coordinates: str = "half_pixel"
    mode: str = "nearest"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    roi: tuple[float, float] = (0.0, 1.0)
    extrapolation: float = 0.0


def sample_positions(axis: Resampling) -> Array:
    """Where every output lies among the inputs."""
    x = np.arange(axis.out, dtype=np.float64)
    size, out, scale = axis.size, axis.out, axis.scale
    if axis.coordinates == "asymmetric":
        return x / scale
    if axis.coordinates == "align_corners":
        return x * (size - 1) / (scale * size - 1) if out > 1 else x * 0
    if axis.coordinates == "tf_crop_and_resize":
        low, high = axis.roi
        if out == 1:
            return np.array([0.5 * (low + high) * (size - 1)])
        return low * (size - 1) + x * (high - low) * (size - 1) / (out - 1)
    if axis.coordinates == "pytorch_half_pixel" and out == 1:
        return x * 0 - 0.5
    shift = 0.0
    if axis.coordinates == "half_pixel_symmetric":
        shift = size / 2 * (1 - out / (scale * size))
    return shift + (x + 0.5) / scale - 0.5


def nearest_index(axis: Resampling) -> Array:
    """The input that is nearest to every output."""
    x = sample_positions(axis)
    rounded = {"round_prefer_floor": lambda: np.ceil(x - 0.5),
               "round_prefer_ceil": lambda: np.floor(x + 0.5),
               "floor": lambda: np.floor(x), "ceil": lambda: np.ceil(x)}[axis.nearest]()
    return np.clip(rounded, 0, axis.size - 1).astype(np.int64)


def resampling_matrix(axis: Resampling) -> Array:
    """(out, size): the weights of the inputs in every output."""
    matrix = np.zeros((axis.out, axis.size))
    if axis.mode == "nearest":
        matrix[np.arange(axis.out), nearest_index(axis)] = 1
        return matrix
    x = sample_positions(axis)
    stretch = max(1.0, 1 / axis.scale) if axis.antialias else 1.0
    reach = (2 if axis.mode == "cubic" else 1) * stretch
    first = np.floor(x - reach).astype(np.int64)
    for offset in range(int(2 * np.ceil(reach)) + 2):
        tap = first + offset
        weight = _kernel((x - tap) / stretch, axis)
        if axis.exclude_outside:
            weight = np.where((tap < 0) | (tap >= axis.size), 0, weight)
        np.add.at(matrix, (np.arange(axis.out), np.clip(tap, 0, axis.size - 1)), weight)
    return matrix / matrix.sum(axis=1, keepdims=True)


def _kernel(distance: Array, axis: Resampling) -> Array:
    d = np.abs(distance)
    if axis.mode == "linear":
        return np.maximum(1 - d, 0)
    a = axis.cubic
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))
