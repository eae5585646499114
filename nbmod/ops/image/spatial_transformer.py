"""Spatial transformer networks (Jaderberg et al. 2015): grids, and bilinear sampling through them.

A grid (N, 2, OH, OW) has the sampling point of every output pixel: x in channel 0, y in channel 1,
both normalised from -1 (the centre of the first pixel) to 1 (that of the last).  An axis of one
pixel has the only point -1.

Samples are interpolated, with zeros outside of the image.  A sample along one axis is a `taps`
tuple: two neighbours and their weights, where a neighbour outside of the image has weight 0 and
some valid index.  The forward pass and the gradient of the grid are parallel over rows of output
pixels, the gradient of the image over planes, so that no two tasks write the same element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..elementwise.float_op import FloatOp
from ..jit import inlined, kernel, prange
from ..op import Call, Run, Spec
from ..param import Shape
from ..shape import PartialShape, ShapeMismatch, Shapes, unify

__all__ = ["BilinearSampler", "GridGenerator", "SpatialTransformer", "affine", "affine_backward",
           "taps"]


# ------------------------------------------------------------------------------------------ kernels

@inlined
def taps(at, size, kind):
    """(low, high, before, after, has_low, has_high) of position `at` on an axis of `size` pixels.

    Pixels low and high have weights before and after; `has_` is 1 inside of the image, else 0.  A
    position that is not finite has weights that are not finite.
    """
    if not -1 < at < size:
        nothing = at * kind(0)
        return 0, 0, nothing, nothing, nothing, nothing
    low = int(np.floor(at))
    has_low, has_high = kind(low >= 0), kind(low + 1 < size)
    after = at - kind(low)
    return (max(low, 0), min(low + 1, size - 1), (kind(1) - after) * has_low, after * has_high,
            has_low, has_high)


@inlined
def _place(grid, n, i, j, size):
    """(row, column) of a grid point in an image of (height, width) `size`."""
    kind, (height, width) = grid.dtype.type, size
    return ((grid[n, 1, i, j] + kind(1)) * kind(0.5 * (height - 1)),
            (grid[n, 0, i, j] + kind(1)) * kind(0.5 * (width - 1)))


@kernel(parallel=True)
def _sample(data, grid, y):
    """y (N, C, OH, OW) = data (N, C, H, W) at grid (N, 2, OH, OW)."""
    (height, width), kind = data.shape[2:], grid.dtype.type
    for line in prange(y.shape[0] * y.shape[2]):
        n, i = line // y.shape[2], line % y.shape[2]
        for j in range(y.shape[3]):
            v, u = _place(grid, n, i, j, (height, width))
            top, bottom, above, below, _, _ = taps(v, height, kind)
            left, right, before, after, _, _ = taps(u, width, kind)
            for c in range(y.shape[1]):
                upper, lower = data[n, c, top], data[n, c, bottom]
                y[n, c, i, j] = (above * (before * upper[left] + after * upper[right])
                                 + below * (before * lower[left] + after * lower[right]))


@kernel(parallel=True)
def _sample_data_backward(gy, grid, gx):
    """Scatter-add gradients to the pixels that were read; non-finite points are skipped."""
    (height, width), kind = gx.shape[2:], grid.dtype.type
    for plane in prange(gx.shape[0] * gx.shape[1]):
        n, c = plane // gx.shape[1], plane % gx.shape[1]
        image = gx[n, c]
        image[:] = 0
        for i in range(gy.shape[2]):
            for j in range(gy.shape[3]):
                v, u = _place(grid, n, i, j, (height, width))
                if -1 < v < height and -1 < u < width:
                    top, bottom, above, below, _, _ = taps(v, height, kind)
                    left, right, before, after, _, _ = taps(u, width, kind)
                    g = gy[n, c, i, j]
                    image[top, left] += above * before * g
                    image[top, right] += above * after * g
                    image[bottom, left] += below * before * g
                    image[bottom, right] += below * after * g


@kernel(parallel=True)
def _sample_grid_backward(gy, data, grid, ggrid):
    """Derivatives of the output with respect to the grid."""
    (height, width), kind = data.shape[2:], grid.dtype.type
    for line in prange(gy.shape[0] * gy.shape[2]):
        n, i = line // gy.shape[2], line % gy.shape[2]
        for j in range(gy.shape[3]):
            v, u = _place(grid, n, i, j, (height, width))
            top, bottom, above, below, up, down = taps(v, height, kind)
            left, right, before, after, west, east = taps(u, width, kind)
            by_x, by_y = kind(0), kind(0)
            for c in range(gy.shape[1]):
                upper, lower, g = data[n, c, top], data[n, c, bottom], gy[n, c, i, j]
                by_x += g * (above * (east * upper[right] - west * upper[left])
                             + below * (east * lower[right] - west * lower[left]))
                by_y += g * (down * (before * lower[left] + after * lower[right])
                             - up * (before * upper[left] + after * upper[right]))
            ggrid[n, 0, i, j] = by_x * kind(0.5 * (width - 1))
            ggrid[n, 1, i, j] = by_y * kind(0.5 * (height - 1))


# -------------------------------------------------------------------------------------------- grids

def _corners_and_ones(size: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """(3, OH * OW): homogeneous coordinates (x, y, 1) of the identity grid."""
    y, x = (np.arange(n, dtype=dtype) * dtype.type(2 / (n - 1) if n > 1 else 0) - 1 for n in size)
    rows = np.empty((3, len(y), len(x)), dtype)
    rows[0], rows[1], rows[2] = x, y[:, None], 1
    return rows.reshape(3, -1)


def affine(matrix: np.ndarray, grid: np.ndarray) -> None:
    """grid = matrix (N, 6), each row a (2, 3) matrix, times (x, y, 1)."""
    plain = _corners_and_ones(grid.shape[2:], grid.dtype)
    np.matmul(matrix.reshape(-1, 3), plain, out=grid.reshape(-1, plain.shape[1]))


def affine_backward(ggrid: np.ndarray, gmatrix: np.ndarray) -> None:
    """The gradient of the matrices from that of the grid."""
    plain = _corners_and_ones(ggrid.shape[2:], ggrid.dtype)
    np.matmul(ggrid.reshape(-1, plain.shape[1]), plain.T, out=gmatrix.reshape(-1, 3))


def _per_pixel(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """(2, 1, 1): the distance of adjacent pixels in x and y; 0 for an axis of one pixel."""
    steps = [2 / (size - 1) if size > 1 else 0 for size in (shape[3], shape[2])]
    return np.array(steps, dtype).reshape(2, 1, 1)


def _check_target(target: Shape) -> None:
    if len(target) != 2 or min(target) < 1:
        raise ShapeMismatch(f"target_shape is {target}, expected two positive numbers: the height "
                            "and width of the output")


def _expect(name: str, shape: PartialShape, rule: PartialShape, words: str) -> PartialShape:
    """`shape` unified with its rule; the error states the rule in words."""
    try:
        return unify(shape, rule)
    except ShapeMismatch:
        raise ShapeMismatch(f"{name} has shape {shape}, expected {words}") from None


@dataclass(frozen=True, kw_only=True)
class GridGenerator(FloatOp, name="GridGenerator"):
    """The sampling grid (N, 2, OH, OW) of an affine map or an optical flow.

    'affine': data (N, 6) are matrices [[a, b, c], [d, e, f]], row by row; the grid at a pixel of
    coordinates (x, y) is (a x + b y + c, d x + e y + f).  (OH, OW) is `target_shape`.
    'warp': data (N, 2, OH, OW) is a flow in pixels; the grid at column j and row i has the
    coordinates of (j + data[0], i + data[1]).  `target_shape` is ignored.
    Coordinates are from -1 to 1 along both axes (-1 for an axis of one pixel).
    """

    transform_type: Literal["affine", "warp"]
    target_shape: Shape = (0, 0)

    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data, out = ins[0], outs[0]
        if self.transform_type == "warp":
            flow = _expect("data", data, (0, 2, 0, 0), "(N, 2, H, W)") if data or out else None
            flow = unify(flow, out, "data and output")
            return [flow], [flow]
        _check_target(self.target_shape)
        data = _expect("data", data, (0, 6), "(N, 6)")
        out = unify(out, (data[0] if data else 0, 2, *self.target_shape),
                    "wanted and computed output")
        assert out is not None
        return [unify(data, (out[0], 6))], [out]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        data, grid = ins[0], outs[0]
        if self.transform_type == "affine":
            affine(data, grid)
            return
        height, width = grid.shape[2:]
        np.add(data[:, 0], np.arange(width, dtype=grid.dtype), out=grid[:, 0])
        np.add(data[:, 1], np.arange(height, dtype=grid.dtype)[:, None], out=grid[:, 1])
        np.multiply(grid, _per_pixel(grid.shape, grid.dtype), out=grid)
        np.subtract(grid, 1, out=grid)

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        ggrid, gdata = ins[0], outs[0]
        if self.transform_type == "affine":
            affine_backward(ggrid, gdata)
        else:
            np.multiply(ggrid, _per_pixel(ggrid.shape, ggrid.dtype), out=gdata)


# ----------------------------------------------------------------------------------------- samplers

@dataclass(frozen=True)
class BilinearSampler(FloatOp, name="BilinearSampler"):
    """data (N, C, H, W) sampled at the points of grid (N, 2, OH, OW): output (N, C, OH, OW).

    Point (x, y) is at column (x + 1) (W - 1) / 2 and row (y + 1) (H - 1) / 2, interpolated
    bilinearly from the four pixels around it; pixels outside of the image are 0.  Both inputs have
    gradients; on a pixel, that of the grid is the one towards the next pixel.
    """

    cudnn_off: bool | None = None

    inputs: ClassVar = ("data", "grid")
    needs: ClassVar = ("ograd", "data", "grid")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        if ins[0] is None and ins[1] is None and outs[0] is None:
            return ins, outs
        data = _expect("data", ins[0], (0, 0, 0, 0), "4 dimensions: (N, C, H, W)")
        grid = _expect("grid", ins[1], (0, 2, 0, 0), "(N, 2, OH, OW)")
        assert data is not None and grid is not None
        out = unify(outs[0], (data[0] or grid[0], data[1], *grid[2:]),
                    "wanted and computed output")
        assert out is not None
        batch = out[0]
        return ([unify(data, (batch, out[1], 0, 0), "batch of data and output"),
                 unify(grid, (batch, 2, *out[2:]), "batch of data and grid")], [out])

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(_sample, *ins, outs[0])

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        gy, data, grid = ins
        gdata, ggrid = outs
        if gdata is not None:
            _sample_data_backward(gy, grid, gdata)
        if ggrid is not None:
            _sample_grid_backward(gy, data, grid, ggrid)


@dataclass(frozen=True, kw_only=True)
class SpatialTransformer(FloatOp, name="SpatialTransformer"):
    """BilinearSampler of data (N, C, H, W) and the affine GridGenerator of loc (N, 6).

    The output is (N, C, OH, OW), (OH, OW) = `target_shape`; output 1, hidden, is the grid.
    """

    target_shape: Shape = (0, 0)
    transform_type: Literal["affine"]
    sampler_type: Literal["bilinear"]
    cudnn_off: bool | None = None

    inputs: ClassVar = ("data", "loc")
    outputs: ClassVar = ("output", "grid")
    needs: ClassVar = ("ograd", "data", "grid")
    num_visible: ClassVar = 1

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        _check_target(self.target_shape)
        data = _expect("data", ins[0], (0, 0, 0, 0), "4 dimensions: (N, C, H, W)")
        loc = _expect("loc", ins[1], (0, 6), "(N, 6)")
        assert data is not None and loc is not None
        out = unify(outs[0], (data[0] or loc[0], data[1], *self.target_shape),
                    "wanted and computed output")
        assert out is not None
        data = unify(data, (*out[:2], 0, 0), "batch of data and output")
        loc = unify(loc, (out[0], 6), "batch of data and loc")
        return [data, loc], [out, (out[0], 2, *self.target_shape)]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [outs[1]]

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [ins[2]]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        data, loc = ins
        grid = call.scratch[0] if outs[1] is None else outs[1]

        def run() -> None:
            affine(loc, grid)
            _sample(data, grid, outs[0])

        return run

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        gy, data, grid = ins
        gdata, gloc = outs
        if gdata is not None:
            _sample_data_backward(gy, grid, gdata)
        if gloc is not None:
            ggrid = call.scratch[0]
            _sample_grid_backward(gy, data, grid, ggrid)
            affine_backward(ggrid, gloc)
