"""Copies and fills of strided views: slices, transposed, reversed or broadcast arrays.

The start and strides of a view are computed by NumPy, from a model of the array that has its shape
but no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..runtime.device_memory import Array
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

__all__ = ["View", "copy_view", "fill_view", "int32s", "offset_function", "view_of"]


class View(NamedTuple):
    """Elements of `array`: the index of the first, extents and strides (in elements)."""

    array: Array
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def view_of(array: Array, make: Callable[[np.ndarray], np.ndarray] | None = None) -> View:
    """The view of an array that `make` returns; it may only index, reshape and transpose."""
    strides = [prod(array.shape[axis + 1:]) for axis in range(array.ndim)]
    model = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), array.shape, strides,
                                            writeable=False)
    view = model if make is None else make(model)
    first, here = (a.__array_interface__["data"][0] for a in (model, view))
    return View(array, here - first, view.shape, view.strides)


def int32s(integers: Iterable[int]) -> tuple[Any, ...]:
    """Constants of a kernel; in a tuple, numba gives Python integers 64 bits."""
    return tuple(map(np.int32, integers))


@cache
def offset_function(extents: tuple[int, ...], strides: tuple[int, ...]) -> Callable:
    """offset(i): the offset of element `i`, in row-major order over `extents`."""
    extents, strides = extents or (1,), strides or (0,)
    rank, inner = len(extents), int32s(prod(extents[d + 1:]) for d in range(len(extents)))
    extents, strides = map(int32s, (extents, strides))

    @device_function
    def offset(i):
        at = 0
        for d in range(rank):
            at += i // inner[d] % extents[d] * strides[d]
        return at
    return offset


@cache
def _copy_kernel(extents: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...]
                 ) -> CudaKernel:
    x_offset, y_offset = offset_function(extents, source), offset_function(extents, target)

    @grid_stride
    def copy_strided(i, x, y, first_x, first_y):
        y[first_y + y_offset(i)] = x[first_x + x_offset(i)]
    return copy_strided


def copy_view(source: View, target: View) -> list[Launch]:
    """Launches that copy a view to one whose extents are equal apart from those of 1."""
    strides = [tuple(stride for stride, extent in zip(view.strides, view.shape, strict=True)
                     if extent != 1) for view in (source, target)]
    extents = tuple(extent for extent in target.shape if extent != 1)
    return each(_copy_kernel(extents, *strides), prod(extents), source.array, target.array,
                source.start, target.start)


@cache
def _fill_kernel(extents: tuple[int, ...], strides: tuple[int, ...]) -> CudaKernel:
    offset = offset_function(extents, strides)

    @grid_stride
    def fill_strided(i, y, value, first):
        y[first + offset(i)] = value
    return fill_strided


def fill_view(view: View, value: np.generic | float) -> list[Launch]:
    """Launches that fill a view with `value`, cast to its type."""
    return each(_fill_kernel(view.shape, view.strides), prod(view.shape), view.array,
                view.array.dtype.type(value), view.start)
