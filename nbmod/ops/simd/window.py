"""Windows of pooling: what pixels (rows, columns) around a place give, and are given back, in
registers; a pixel is a vector of channels.

    largest      y = max of x, and at least the lowest finite number; NaN is not seen
    mean         y = sum of x / size
    to_largest   gx += g where x is its first largest number, lane by lane; nowhere if none is
                 above minus infinity
    to_all       gx += g / size
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .host import lanes
from .ir import Micro, Vectors

__all__ = ["LOWEST", "largest", "mean", "to_all", "to_largest"]

LANES = lanes("float32")
LOWEST = float(np.finfo(np.float32).min)

# at      where to begin in the arrays, in their order; a pixel has one place in x and gx
# steps   rows, columns, numbers of a row of x and gx


def _pixels(v: Vectors, start: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """`values = body(index, values)` for the pixels of the window, row by row."""
    rows, columns, step = v.args.steps
    return v.loop(rows, start, lambda i, outer: v.loop(
        columns, outer, lambda j, inner: body(v.add(v.mul(i, step), v.mul(j, v.width)), inner)))


def _greatest(v: Vectors, x: Any, lowest: float) -> Any:
    def larger(index: Any, found: list[Any]) -> list[Any]:
        value = v.load(v.at(x, index))
        above = v.builder.fcmp_ordered(">", value, found[0])
        return [v.builder.select(above, value, found[0])]

    return _pixels(v, [v.constant(lowest)], larger)[0]


def _emit_largest(v: Vectors) -> None:
    x, y = v.at(v.args.x, v.args.at[0]), v.at(v.args.y, v.args.at[1])
    v.store(_greatest(v, x, LOWEST), y)


def _emit_mean(v: Vectors) -> None:
    a = v.args
    x, y, size = (v.at(array, start) for array, start in zip((a.x, a.y, a.sizes), a.at,
                                                             strict=True))
    total = _pixels(v, [v.zero], lambda index, found: [
        v.builder.fadd(found[0], v.load(v.at(x, index)))])[0]
    v.store(v.builder.fdiv(total, v.one(size)), y)


def _emit_to_largest(v: Vectors) -> None:
    a, b = v.args, v.builder
    x, g, gx = (v.at(array, start) for array, start in zip((a.x, a.g, a.gx), a.at, strict=True))
    best = _greatest(v, x, -np.inf)
    found = b.fcmp_ordered(">", best, v.constant(-np.inf))
    best = b.select(found, best, v.constant(np.nan))  # which no number is equal to

    def give(index: Any, left: list[Any]) -> list[Any]:
        here, target = b.fcmp_ordered("==", v.load(v.at(x, index)), best), v.at(gx, index)
        v.store(b.fadd(v.load(target), b.select(here, left[0], v.zero)), target)
        return [b.select(here, v.zero, left[0])]

    _pixels(v, [v.load(g)], give)


def _emit_to_all(v: Vectors) -> None:
    a = v.args
    g, gx, size = (v.at(array, start) for array, start in zip((a.g, a.gx, a.sizes), a.at,
                                                              strict=True))
    share = v.builder.fdiv(v.load(g), v.one(size))

    def give(index: Any, none: list[Any]) -> list[Any]:
        target = v.at(gx, index)
        v.store(v.builder.fadd(v.load(target), share), target)
        return none

    _pixels(v, [], give)


def _window(array: Any, start: int, steps: tuple[int, int, int]) -> Any:
    """A view (rows, columns, LANES)."""
    rows, columns, step = steps
    size = array.itemsize
    return np.lib.stride_tricks.as_strided(
        array[start:], (rows, columns, LANES), (step * size, LANES * size, size))


def _largest(x, y, at, steps):
    y[at[1]:][:LANES] = np.fmax.reduce(_window(x, at[0], steps), axis=(0, 1),
                                               initial=LOWEST)


def _mean(x, y, sizes, at, steps):
    y[at[1]:][:LANES] = _window(x, at[0], steps).sum(axis=(0, 1)) / sizes[at[2]]


def _to_largest(x, g, gx, at, steps):
    images, into = np.fmax(_window(x, at[0], steps), -np.inf), _window(gx, at[2], steps)
    for c in range(LANES):
        first = (*np.unravel_index(images[..., c].argmax(), images.shape[:2]), c)
        into[first] += g[at[1] + c] if images[first] > -np.inf else 0


def _to_all(g, gx, sizes, at, steps):
    _window(gx, at[1], steps)[...] += g[at[0]:][:LANES] / sizes[at[2]]


largest = Micro(("x", "y", "at", "steps"), _emit_largest, _largest)
mean = Micro(("x", "y", "sizes", "at", "steps"), _emit_mean, _mean)
to_largest = Micro(("x", "g", "gx", "at", "steps"), _emit_to_largest, _to_largest)
to_all = Micro(("g", "gx", "sizes", "at", "steps"), _emit_to_all, _to_all)
