"""GridGenerator, BilinearSampler, SpatialTransformer: a thread per element of a grid or an output.

Gradients of grids sum over channels, those of images gather from points around a pixel
(`bilinear_points`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch import implements
from ...image.spatial_transformer import BilinearSampler, GridGenerator, SpatialTransformer
from ...op import Call, Spec
from ...shape import size_of
from ..detection.bilinear_points import Plane, Points, functions, gather, gather_scratch
from ..lib.block_reduce import each_block, sum_kernel
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

Size = tuple[int, ...]

# -- grids --------------------------------------------------------------------------------------


def _step(size: int, real: type[np.floating]) -> Any:
    """The distance of adjacent pixels of an axis in normalised coordinates; 0 for a single
    pixel."""
    return real(2 / (size - 1) if size > 1 else 0)


@cache
def _plain_function(size: Size, real: type[np.floating]) -> Callable:
    """plain(k): normalised (x, y) of pixel k, the identity grid."""
    columns, one = size[1], real(1)
    down, across = (_step(n, real) for n in size)

    @device_function
    def plain(k):
        return real(k % columns) * across - one, real(k // columns) * down - one
    return plain


@cache
def _affine_kernel(size: Size, real: type[np.floating]) -> CudaKernel:
    positions, plain = size_of(size), _plain_function(size, real)

    # A point on a pixel must stay on it: the derivative by the grid jumps there.
    @grid_stride(exact=True)
    def affine_grid(i, matrix, grid):
        row = i // positions * 3
        x, y = plain(i % positions)
        grid[i] = real(matrix[row]) * x + real(matrix[row + 1]) * y + real(matrix[row + 2])
    return affine_grid


@cache
def _affine_sums(size: Size, real: type[np.floating]) -> CudaKernel:
    """Gradients of affine matrices: a segment for each element."""
    positions, plain = size_of(size), _plain_function(size, real)

    def load(ggrid, cell, term, cells):
        x, y = plain(term)
        g, column = real(ggrid[cell // 3 * positions + term]), cell % 3
        return g * x if column == 0 else g * y if column == 1 else g

    return sum_kernel(load, real)


@cache
def _flow_kernel(size: Size, real: type[np.floating], backward: bool) -> CudaKernel:
    (rows, columns), one = size, real(1)
    down, across = (_step(n, real) for n in size)

    @grid_stride(exact=True)
    def flow_grid(i, flow, grid):
        along_x = i // (rows * columns) % 2 == 0
        step, value = across if along_x else down, real(flow[i])
        if backward:
            grid[i] = value * step
        else:
            pixel = i % columns if along_x else i // columns % rows
            grid[i] = (value + real(pixel)) * step - one
    return flow_grid


def _affine(matrix: Array, grid: Array) -> list[Launch]:
    return each(_affine_kernel(grid.shape[2:], real_of(grid.dtype)), grid.size, matrix, grid)


def _affine_backward(ggrid: Array, gmatrix: Array) -> list[Launch]:
    size = ggrid.shape[2:]
    return each_block(_affine_sums(size, real_of(ggrid.dtype)), gmatrix.size, ggrid, gmatrix,
                      size_of(size), False)


def _generate(op: GridGenerator, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    data, grid = ins[0], outs[0]
    if op.transform_type == "affine":
        return _affine(data, grid)
    return each(_flow_kernel(grid.shape[2:], real_of(grid.dtype), False), grid.size, data, grid)


def _generate_backward(op: GridGenerator, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    ggrid, gdata = ins[0], outs[0]
    if op.transform_type == "affine":
        return _affine_backward(ggrid, gdata)
    return each(_flow_kernel(ggrid.shape[2:], real_of(ggrid.dtype), True), ggrid.size, ggrid, gdata)


implements(GridGenerator, "cuda", _generate, _generate_backward)

# -- samplers -----------------------------------------------------------------------------------


def _plane(data: Array | Spec) -> Plane:
    height, width = data.shape[2:]
    return Plane(height, width, real_of(data.dtype), strict=True)


@cache
def _locate_function(plane: Plane, positions: int) -> Callable:
    """locate(grid, image, k): pixel coordinates (row, column) of point k of a grid (N, 2,
    positions)."""
    real, one = plane.real, plane.real(1)
    scale_y, scale_x = (real(0.5 * (size - 1)) for size in plane[:2])

    @device_function
    def locate(grid, image, k):
        at = image * 2 * positions + k
        return (real(grid[at + positions]) + one) * scale_y, (real(grid[at]) + one) * scale_x
    return locate


@cache
def _sample_kernel(plane: Plane, positions: int) -> CudaKernel:
    area, locate = plane.height * plane.width, _locate_function(plane, positions)
    spot, interpolate, _ = functions(plane)

    @grid_stride
    def sample(i, x, grid, y, channels):
        v, u = locate(grid, i // positions // channels, i % positions)
        y[i] = interpolate(x, i // positions * area, spot(v, u))
    return sample


@cache
def _grid_gradient_kernel(plane: Plane, positions: int) -> CudaKernel:
    area, locate, real = plane.height * plane.width, _locate_function(plane, positions), plane.real
    scale_y, scale_x = (real(0.5 * (size - 1)) for size in plane[:2])
    spot, _, slopes = functions(plane)

    @grid_stride
    def sample_grid_back(i, gy, x, grid, ggrid, channels):
        image, k = i // positions, i % positions
        v, u = locate(grid, image, k)
        here, by_v, by_u = spot(v, u), real(0), real(0)
        for plane_ in range(image * channels, (image + 1) * channels):
            g = real(gy[plane_ * positions + k])
            _, down, across = slopes(x, plane_ * area, here)
            by_v += g * down
            by_u += g * across
        ggrid[image * 2 * positions + k] = by_u * scale_x
        ggrid[(image * 2 + 1) * positions + k] = by_v * scale_y
    return sample_grid_back


@cache
def _give_function(channels: int, positions: int, real: type[np.floating]) -> Callable:
    @device_function
    def give(gy, scale, image, channel, k):
        return real(gy[(image * channels + channel) * positions + k])
    return give


def _sample(data: Array, grid: Array, y: Array) -> list[Launch]:
    return each(_sample_kernel(_plane(data), size_of(y.shape[2:])), y.size, data, grid, y,
                y.shape[1])


def _data_backward(gy: Array, grid: Array, gdata: Array, scratch: Arrays) -> list[Launch]:
    images, channels, *size = gy.shape
    plane, positions = _plane(gdata), size_of(size)
    points = Points(_locate_function(plane, positions), grid, images, positions, plane)
    return gather(points, _give_function(channels, positions, plane.real), gy, gy, gdata, scratch)


def _grid_backward(gy: Array, data: Array, grid: Array, ggrid: Array) -> list[Launch]:
    positions = size_of(gy.shape[2:])
    return each(_grid_gradient_kernel(_plane(data), positions), ggrid.size // 2, gy, data, grid,
                ggrid, gy.shape[1])


def _data_scratch(data: Spec, grid: Spec) -> list[Spec]:
    return gather_scratch(grid.shape[0], size_of(grid.shape[2:]), _plane(data))


def _sampler_backward(op: BilinearSampler, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    (gy, data, grid), (gdata, ggrid) = ins, outs
    return [*(_data_backward(gy, grid, gdata, call.scratch) if gdata is not None else ()),
            *(_grid_backward(gy, data, grid, ggrid) if ggrid is not None else ())]


implements(BilinearSampler, "cuda", lambda op, ins, outs, call: _sample(ins[0], ins[1], outs[0]),
           _sampler_backward, backward_scratch=lambda op, ins, outs: _data_scratch(*ins[1:]))


def _transform(op: SpatialTransformer, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    """Sample through a grid that is not rounded, whatever the type of the hidden output."""
    (data, loc), (y, stored) = ins, outs
    spare = call.scratch[0]
    grid = spare if stored is None or stored.dtype != spare.dtype else stored
    launches = _affine(loc, grid) + _sample(data, grid, y)
    return launches if stored in (None, grid) else launches + _affine(loc, stored)


def _transform_backward(op: SpatialTransformer, ins: Arrays, outs: Outputs, call: Call
                        ) -> list[Launch]:
    (gy, data, grid), (gdata, gloc) = ins, outs
    ggrid, *scratch = call.scratch
    launches = [] if gdata is None else _data_backward(gy, grid, gdata, scratch)
    if gloc is not None:
        launches += _grid_backward(gy, data, grid, ggrid) + _affine_backward(ggrid, gloc)
    return launches


def _backward_scratch(op: SpatialTransformer, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    _, data, grid = ins
    return [Spec(grid.shape, np.dtype(real_of(grid.dtype))), *_data_scratch(data, grid)]


implements(SpatialTransformer, "cuda", _transform, _transform_backward,
           lambda op, ins, outs: [Spec(outs[1].shape, np.dtype(real_of(outs[1].dtype)))],
           _backward_scratch)
