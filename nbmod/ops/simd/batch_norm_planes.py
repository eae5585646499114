"""Micro-kernels of batch norm on a plane: rows of pixels, each a vector of channels.

    norm_sums      sums = of d, of d d                        d = x - first
    norm_plane     y = (x - mean) scale + shift (+ add), clamped to [low, high]
    grad_sums      sums = of g', of g' (x - centre)           g' = g where the result passed
    grad_plane     gx = (g' - flat - (x - centre) slope) factor, and gadd = g'

A result passed the activation where y > 0 (PASSED), or where the result of `norm_plane`, computed
again from x, is within [low, high] (WITHIN).  At NaN g' is NaN (PASSED) or g (WITHIN, where gx
becomes NaN by its distance from the centre).

Sums are float32 along a row, in four parts, and float64 over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .host import lanes
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["ADD", "BACKWARD", "FORWARD", "GADD", "GX", "PASSED", "STREAM", "STREAM_GADD", "WITHIN",
           "PlaneStart", "PlaneSteps", "grad_plane", "grad_sums", "norm_plane", "norm_sums"]

LANES = lanes("float32")
ADD, PASSED, WITHIN, GX, GADD, STREAM, STREAM_GADD = (1 << bit for bit in range(7))
"""Flags: add `add`; mask g by y; mask g by x; compute gx; compute gadd; non-temporal stores of y or
gx, and of gadd."""
FORWARD, BACKWARD = 5, 4
"""Parameters per channel: mean, scale, shift, low, high; then centre, flat, slope, factor."""


class PlaneStart(NamedTuple):
    """Offsets of a plane in x, in y (g, add and gadd too), per-channel parameters, sums; offsets in
    x and in y to prefetch."""

    x: int
    y: int
    norm: int
    sums: int
    x_soon: int
    y_soon: int


class PlaneSteps(NamedTuple):
    """Rows, pixels of a row; row strides of x and y; stride of per-channel parameters; flags."""

    rows: int
    pixels: int
    x_row: int
    y_row: int
    norm: int
    flags: int


def _start(v: Vectors, *names: str) -> list[IRValue]:
    """Pointers to the first elements of these arrays."""
    where = {"gx": 0, "first": 2, "norm": 2, "sums": 3}
    return [v.at(getattr(v.args, name), v.args.at[where.get(name, 1)]) for name in names]


def _read(v: Vectors, name: str, at: IRValue) -> IRValue:
    """The vector at `at`; the one at the same position of the next plane is prefetched."""
    array, side = getattr(v.args, name), int(name != "x")
    v.prefetch(v.at(array, v.add(v.args.at[4 + side], at)))
    return v.load(v.at(array, v.add(v.args.at[side], at)))


def _channel_params(v: Vectors, norm: IRValue, first: int, count: int) -> list[IRValue]:
    return [v.load(v.at(norm, v.mul(v.args.steps[4], first + row))) for row in range(count)]


def _normal(v: Vectors, value: IRValue, mean: IRValue, scale: IRValue, shift: IRValue) -> IRValue:
    return v.fma(v.builder.fsub(value, mean), scale, shift)


def _each_pixel(v: Vectors, body: Callable[[IRValue, IRValue], None]) -> None:
    """body(offset in x, offset in y) for all pixels."""
    rows, columns, x_row, y_row = v.args.steps[:4]

    def row(i: IRValue, _: list[IRValue]) -> None:
        in_x, in_y = v.mul(i, x_row), v.mul(i, y_row)

        def pixel(p: IRValue, _: list[IRValue]) -> None:
            at = v.mul(p, v.width)
            body(v.add(in_x, at), v.add(in_y, at))

        v.loop(columns, [], pixel)

    v.loop(rows, [], row)


def _sum_pixels(v: Vectors, body: Callable[[IRValue, IRValue, list[IRValue]], list[IRValue]]
                ) -> None:
    """sums = two values that body(offset in x, offset in y, values) accumulates over all pixels."""
    rows, columns, x_row, y_row = v.args.steps[:4]
    sums, = _start(v, "sums")

    def row(i: IRValue, totals: list[IRValue]) -> list[IRValue]:
        in_x, in_y = v.mul(i, x_row), v.mul(i, y_row)

        def pixel(p: IRValue, values: list[IRValue]) -> list[IRValue]:
            at = v.mul(p, v.width)
            return body(v.add(in_x, at), v.add(in_y, at), values)

        add = v.builder.fadd
        parts = zip(*v.interleaved_loop(columns, [v.zero] * 2, pixel), strict=True)
        return [add(total, v.widen(add(add(a, b), add(c, d))))
                for total, (a, b, c, d) in zip(totals, parts, strict=True)]

    for i, total in enumerate(v.loop(rows, [v.widen(v.zero)] * 2, row)):
        v.store(total, v.at(sums, i * v.width))


def _emit_sums(v: Vectors) -> None:
    origin = v.load(*_start(v, "first"))

    def pixel(in_x: IRValue, in_y: IRValue, values: list[IRValue]) -> list[IRValue]:
        d = v.builder.fsub(_read(v, "x", in_x), origin)
        return [v.builder.fadd(values[0], d), v.fma(d, d, values[1])]

    _sum_pixels(v, pixel)


def _emit_plane(v: Vectors) -> None:
    y, norm = _start(v, "y", "norm")
    mean, scale, shift, low, high = _channel_params(v, norm, 0, FORWARD)
    b = v.builder

    def all_pixels(adds: bool, put: Callable[[IRValue, IRValue], None]) -> None:
        def pixel(in_x: IRValue, in_y: IRValue) -> None:
            value = _normal(v, _read(v, "x", in_x), mean, scale, shift)
            if adds:
                value = b.fadd(value, _read(v, "add", in_y))
            value = b.select(b.fcmp_ordered("<=", value, low), low, value)
            put(b.select(b.fcmp_ordered(">", value, high), high, value), v.at(y, in_y))

        _each_pixel(v, pixel)

    def stored(adds: bool) -> None:
        v.if_else(v.has_flag(v.args.steps[5], STREAM),
                  lambda: all_pixels(adds, v.store_nontemporal), lambda: all_pixels(adds, v.store))

    v.if_else(v.has_flag(v.args.steps[5], ADD), lambda: stored(True), lambda: stored(False))
    v.store_fence()


def _by_mask(v: Vectors, norm: IRValue, body: Callable[[Callable], None]) -> None:
    """body(grad) for each kind of mask: grad(offset in y, value of x) is g' of a pixel."""
    b = v.builder

    def all_of_it(in_y: IRValue, value: IRValue) -> IRValue:
        return _read(v, "g", in_y)

    def passed(in_y: IRValue, value: IRValue) -> IRValue:
        y = _read(v, "y", in_y)
        return b.select(b.fcmp_ordered(">", y, v.zero), _read(v, "g", in_y), y)

    def within(in_y: IRValue, value: IRValue) -> IRValue:
        mean, scale, shift, low, high = rows
        result = _normal(v, value, mean, scale, shift)
        outside = b.or_(b.fcmp_ordered("<", result, low), b.fcmp_ordered(">", result, high))
        return b.select(outside, v.zero, _read(v, "g", in_y))

    rows = _channel_params(v, norm, 0, FORWARD)
    v.if_else(v.has_flag(v.args.steps[5], PASSED), lambda: body(passed), lambda: v.if_else(
        v.has_flag(v.args.steps[5], WITHIN), lambda: body(within), lambda: body(all_of_it)))


def _emit_grad_sums(v: Vectors) -> None:
    norm, = _start(v, "norm")
    centre, = _channel_params(v, norm, FORWARD, 1)

    def sums(grad: Callable) -> None:
        def pixel(in_x: IRValue, in_y: IRValue, values: list[IRValue]) -> list[IRValue]:
            value = _read(v, "x", in_x)
            g = grad(in_y, value)
            return [v.builder.fadd(values[0], g),
                    v.fma(g, v.builder.fsub(value, centre), values[1])]

        _sum_pixels(v, pixel)

    _by_mask(v, norm, sums)


def _emit_grad_plane(v: Vectors) -> None:
    gx, gadd, norm = _start(v, "gx", "gadd", "norm")
    centre, flat, slope, factor = _channel_params(v, norm, FORWARD, BACKWARD)
    b = v.builder
    flags, streamed = ([v.has_flag(v.args.steps[5], bit) for bit in bits]
                       for bits in ((GX, GADD), (STREAM, STREAM_GADD)))

    def put(flag: IRValue, past: IRValue, value: IRValue, target: IRValue) -> None:
        with b.if_then(flag), b.if_else(past) as (then, otherwise):
            with then:
                v.store_nontemporal(value, target)
            with otherwise:
                v.store(value, target)

    def results(grad: Callable) -> None:
        def pixel(in_x: IRValue, in_y: IRValue) -> None:
            value = _read(v, "x", in_x)
            g = grad(in_y, value)
            along = b.fmul(b.fsub(value, centre), slope)
            result = b.fmul(b.fsub(b.fsub(g, flat), along), factor)
            put(flags[0], streamed[0], result, v.at(gx, in_x))
            put(flags[1], streamed[1], g, v.at(gadd, in_y))

        _each_pixel(v, pixel)

    _by_mask(v, norm, results)
    v.store_fence()


def _pixels(array: np.ndarray, start: int, row: int, steps: Sequence[int]) -> np.ndarray:
    """A view (rows, columns, LANES)."""
    size = array.itemsize
    return np.lib.stride_tricks.as_strided(
        array[start:], (*steps[:2], LANES), (row * size, LANES * size, size))


def _shared(norm: np.ndarray, start: int, step: int) -> list[np.ndarray]:
    """The per-channel parameters."""
    return [norm[start + row * step:][:LANES] for row in range(FORWARD + BACKWARD)
            if start + row * step + LANES <= len(norm)]


def _write_sums(sums: np.ndarray, start: int, *values: np.ndarray) -> None:
    sums[start:][:2 * LANES] = np.concatenate([value.sum(axis=(0, 1)) for value in values])


def _sums(x, first, sums, at, steps):
    d = _pixels(x, at[0], steps[2], steps) - first[at[2]:][:LANES]
    _write_sums(sums, at[3], d, d * d)


def _plane(x, add, y, norm, at, steps):
    mean, scale, shift, low, high = _shared(norm, at[2], steps[4])[:FORWARD]
    value = (_pixels(x, at[0], steps[2], steps) - mean) * scale + shift
    if steps[5] & ADD:
        value = value + _pixels(add, at[1], steps[3], steps)
    _pixels(y, at[1], steps[3], steps)[...] = np.minimum(np.maximum(value, low), high)


def _grads(x, g, y, norm, at, steps):
    mean, scale, shift, low, high = _shared(norm, at[2], steps[4])[:FORWARD]
    grads = _pixels(g, at[1], steps[3], steps)
    if steps[5] & PASSED:
        shown = _pixels(y, at[1], steps[3], steps)
        return np.where(shown > 0, grads, shown)
    if steps[5] & WITHIN:
        result = (_pixels(x, at[0], steps[2], steps) - mean) * scale + shift
        return np.where((result < low) | (result > high), 0, grads)
    return grads


def _grad_sums(x, g, y, norm, sums, at, steps):
    grads, centre = _grads(x, g, y, norm, at, steps), _shared(norm, at[2], steps[4])[FORWARD]
    _write_sums(sums, at[3], grads, grads * (_pixels(x, at[0], steps[2], steps) - centre))


def _grad_plane(x, g, y, gx, gadd, norm, at, steps):
    grads = _grads(x, g, y, norm, at, steps)
    centre, flat, slope, factor = _shared(norm, at[2], steps[4])[FORWARD:]
    along = (_pixels(x, at[0], steps[2], steps) - centre) * slope
    result = (grads - flat - along) * factor
    if steps[5] & GX:
        _pixels(gx, at[0], steps[2], steps)[...] = result
    if steps[5] & GADD:
        _pixels(gadd, at[1], steps[3], steps)[...] = grads


norm_sums = MicroKernel(("x", "first", "sums", "at", "steps"), _emit_sums, _sums)
norm_plane = MicroKernel(("x", "add", "y", "norm", "at", "steps"), _emit_plane, _plane)
grad_sums = MicroKernel(("x", "g", "y", "norm", "sums", "at", "steps"), _emit_grad_sums, _grad_sums)
grad_plane = MicroKernel(("x", "g", "y", "gx", "gadd", "norm", "at", "steps"), _emit_grad_plane,
                   _grad_plane)
