"""Views of arrays, copied or filled: regions, transposed, reversed, or repeated.

A view is what NumPy makes of a model of the array, which has its shape and no memory: where the
first element stands, and how many elements lie from one index to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..runtime.device_memory import Array
from ..runtime.launch import Launch, device_function, each, kernel, thread, threads

__all__ = ["View", "copy_view", "fill_view", "int32s", "offset_function", "view_of"]


class View(NamedTuple):
    """Elements of `array`: the first one's index, then extents and steps of every dimension."""

    array: Array
    start: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]


def view_of(array: Array, make: Callable[[np.ndarray], np.ndarray] | None = None) -> View:
    """The view that `make` takes of an array; it may only index, reshape and transpose."""
    strides = [prod(array.shape[axis + 1:]) for axis in range(array.ndim)]
    model = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), array.shape, strides,
                                            writeable=False)
    picked = model if make is None else make(model)
    first, here = (a.__array_interface__["data"][0] for a in (model, picked))
    return View(array, here - first, picked.shape, picked.strides)


def int32s(numbers: Iterable[int]) -> tuple[Any, ...]:
    """Constants of a kernel, which as Python's integers would have 64 bits in a tuple."""
    return tuple(map(np.int32, numbers))


@cache
def offset_function(extents: tuple[int, ...], steps: tuple[int, ...]) -> Any:
    """offset(i): where element `i`, counting over `extents`, stands when those have `steps`."""
    extents, steps = extents or (1,), steps or (0,)
    rank, inner = len(extents), int32s(prod(extents[d + 1:]) for d in range(len(extents)))
    extents, steps = map(int32s, (extents, steps))

    @device_function
    def offset(i):
        at = 0
        for d in range(rank):
            at += i // inner[d] % extents[d] * steps[d]
        return at
    return offset


@cache
def _copy_kernel(extents: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...]
                 ) -> Any:
    taken, put = offset_function(extents, source), offset_function(extents, target)

    @kernel
    def copy_strided(x, y, first_x, first_y, count):
        for i in range(thread(), count, threads()):
            y[first_y + put(i)] = x[first_x + taken(i)]
    return copy_strided


def copy_view(source: View, target: View) -> list[Launch]:
    """Launches that copy a view to one of as many elements and the same extents beyond 1."""
    steps = [tuple(step for step, extent in zip(view.steps, view.shape, strict=True) if extent != 1)
             for view in (source, target)]
    extents = tuple(extent for extent in target.shape if extent != 1)
    return each(_copy_kernel(extents, *steps), prod(extents), source.array, target.array,
                source.start, target.start)


@cache
def _fill_kernel(extents: tuple[int, ...], steps: tuple[int, ...]) -> Any:
    put = offset_function(extents, steps)

    @kernel
    def fill_strided(y, value, first, count):
        for i in range(thread(), count, threads()):
            y[first + put(i)] = value
    return fill_strided


def fill_view(view: View, value: Any) -> list[Launch]:
    """Launches that fill a view with `value`, cast to its type."""
    return each(_fill_kernel(view.shape, view.steps), prod(view.shape), view.array,
                view.array.dtype.type(value), view.start)
