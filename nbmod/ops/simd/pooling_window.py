"""Pooling micro-kernels: windows of pixels, each a vector of channels, reduced in registers.

Some adjacent windows are processed together to hide latency.

    max_window         y = max of x, and at least the lowest finite value; NaN is ignored
    mean_window        y = sum of x / size
    max_window_grad    gx += g at the first maximum of x, lane by lane; nowhere if no element is
                       above minus infinity
    mean_window_grad   gx += g / size
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .depthwise_rows import grouped_loop
from .host import lanes
from .ir import Body, IRValue, MicroKernel, Vectors

__all__ = ["LOWEST", "WindowSteps", "max_window", "max_window_grad", "mean_window",
           "mean_window_grad"]

LANES = lanes("float32")
LOWEST = float(np.finfo(np.float32).min)

# at      offsets in the arrays, in order; a pixel has the same offset in x and gx


class WindowSteps(NamedTuple):
    """Rows, columns, row stride of x and gx; windows, distance of windows in x."""

    rows: int
    columns: int
    row: int
    windows: int
    apart: int


def _pixels(v: Vectors, start: list[IRValue], body: Body) -> list[IRValue]:
    """`values = body(index, values)` for the pixels of the window, row by row."""
    rows, columns, step = v.args.steps[:3]
    return v.loop(rows, start, lambda i, outer: v.loop(
        columns, outer, lambda j, inner: body(v.add(v.mul(i, step), v.mul(j, v.width)), inner)))


def _each_window_group(v: Vectors, body: Callable[[list[IRValue], list[IRValue]], None]) -> None:
    """`body(pixels, windows)` for groups of windows: their offsets in x and their indices."""
    count, apart = v.args.steps[3:]

    def group(first: IRValue, size: int) -> None:
        windows = [v.add(first, k) for k in range(size)]
        body([v.mul(window, apart) for window in windows], windows)

    grouped_loop(v, count, group)


def _greatest(v: Vectors, sources: list[IRValue], lowest: float) -> list[IRValue]:
    def larger(index: IRValue, maxima: list[IRValue]) -> list[IRValue]:
        values = [v.load(v.at(x, index)) for x in sources]
        return [v.builder.select(v.builder.fcmp_ordered(">", value, best), value, best)
                for value, best in zip(values, maxima, strict=True)]

    return _pixels(v, [v.constant(lowest)] * len(sources), larger)


def _emit_max(v: Vectors) -> None:
    x, y = v.starts("x", "y")

    def group(pixels: list[IRValue], windows: list[IRValue]) -> None:
        maxima = _greatest(v, [v.at(x, pixel) for pixel in pixels], LOWEST)
        for value, window in zip(maxima, windows, strict=True):
            v.store(value, v.at(y, v.mul(window, v.width)))

    _each_window_group(v, group)


def _emit_mean(v: Vectors) -> None:
    x, y, size = v.starts("x", "y", "sizes")

    def group(pixels: list[IRValue], windows: list[IRValue]) -> None:
        sources = [v.at(x, pixel) for pixel in pixels]
        sums = _pixels(v, [v.zero] * len(sources), lambda index, totals: [
            v.builder.fadd(total, v.load(v.at(source, index)))
            for total, source in zip(totals, sources, strict=True)])
        for total, window in zip(sums, windows, strict=True):
            v.store(v.builder.fdiv(total, v.broadcast(v.at(size, window))),
                    v.at(y, v.mul(window, v.width)))

    _each_window_group(v, group)


def _emit_max_grad(v: Vectors) -> None:
    (x, g, gx), b = v.starts("x", "g", "gx"), v.builder

    def group(pixels: list[IRValue], windows: list[IRValue]) -> None:
        bests = []
        for best in _greatest(v, [v.at(x, pixel) for pixel in pixels], -np.inf):
            is_number = b.fcmp_ordered(">", best, v.constant(-np.inf))
            bests.append(b.select(is_number, best, v.constant(np.nan)))  # equal to no element

        def give(index: IRValue, left: list[IRValue]) -> list[IRValue]:
            rest = []
            for pixel, best, grad in zip(pixels, bests, left, strict=True):
                offset = v.add(pixel, index)
                here = b.fcmp_ordered("==", v.load(v.at(x, offset)), best)
                target = v.at(gx, offset)
                v.store(b.fadd(v.load(target), b.select(here, grad, v.zero)), target)
                rest.append(b.select(here, v.zero, grad))
            return rest

        _pixels(v, [v.load(v.at(g, v.mul(window, v.width))) for window in windows], give)

    _each_window_group(v, group)


def _emit_mean_grad(v: Vectors) -> None:
    (g, gx, size), b = v.starts("g", "gx", "sizes"), v.builder

    def group(pixels: list[IRValue], windows: list[IRValue]) -> None:
        shares = [b.fdiv(v.load(v.at(g, v.mul(window, v.width))), v.broadcast(v.at(size, window)))
                  for window in windows]

        def give(index: IRValue, _: list[IRValue]) -> None:
            for pixel, share in zip(pixels, shares, strict=True):
                target = v.at(gx, v.add(pixel, index))
                v.store(b.fadd(v.load(target), share), target)

        _pixels(v, [], give)

    _each_window_group(v, group)


def _window(array: np.ndarray, start: int, steps: Sequence[int], index: int) -> np.ndarray:
    """A view (rows, columns, LANES) of the pixels of a window."""
    rows, columns, step, _, apart = steps
    size = array.itemsize
    return np.lib.stride_tricks.as_strided(
        array[start + index * apart:], (rows, columns, LANES), (step * size, LANES * size, size))


def _max_window(x, y, at, steps):
    for k in range(steps[3]):
        y[at[1] + k * LANES:][:LANES] = np.fmax.reduce(_window(x, at[0], steps, k), axis=(0, 1),
                                                       initial=LOWEST)


def _mean_window(x, y, sizes, at, steps):
    for k in range(steps[3]):
        y[at[1] + k * LANES:][:LANES] = (_window(x, at[0], steps, k).sum(axis=(0, 1))
                                         / sizes[at[2] + k])


def _max_window_grad(x, g, gx, at, steps):
    for k, c in np.ndindex(steps[3], LANES):
        images, into = np.fmax(_window(x, at[0], steps, k), -np.inf), _window(gx, at[2], steps, k)
        first = (*np.unravel_index(images[..., c].argmax(), images.shape[:2]), c)
        into[first] += g[at[1] + k * LANES + c] if images[first] > -np.inf else 0


def _mean_window_grad(g, gx, sizes, at, steps):
    for k in range(steps[3]):
        _window(gx, at[1], steps, k)[...] += g[at[0] + k * LANES:][:LANES] / sizes[at[2] + k]


max_window = MicroKernel(("x", "y", "at", "steps"), _emit_max, _max_window)
mean_window = MicroKernel(("x", "y", "sizes", "at", "steps"), _emit_mean, _mean_window)
max_window_grad = MicroKernel(("x", "g", "gx", "at", "steps"), _emit_max_grad, _max_window_grad)
mean_window_grad = MicroKernel(("g", "gx", "sizes", "at", "steps"), _emit_mean_grad,
                               _mean_window_grad)
