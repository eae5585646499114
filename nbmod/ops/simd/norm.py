"""Rows of a batch norm: a vector of channels for each pixel, and what the channels share.

    norm_sums      sums = of d, of d d                        d = x - first
    norm_row       y = (x - mean) scale + shift (+ add), not below `low`, not above `high`
    grad_sums      sums = of g', of g' (x - centre)           g' = g where the norm's result passed
    grad_row       gx = (g' - flat - (x - centre) slope) factor, and gadd = g'

Where the result passed is seen in y, which is above 0 there (PASSED), or computed again from x as
`norm_row` does: where it is neither below `low` nor above `high` (WITHIN), bounds included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .host import lanes
from .ir import Micro, Vectors

__all__ = ["ADD", "BACKWARD", "FORWARD", "GADD", "GX", "PASSED", "WITHIN", "grad_row",
           "grad_sums", "norm_row", "norm_sums"]

LANES = lanes("float32")
ADD, PASSED, WITHIN, GX, GADD = 1, 2, 4, 8, 16
"""Flags: `add` is added; g' by y; g' by x; gx is wanted; gadd is wanted."""
FORWARD, BACKWARD = 5, 4
"""Rows of numbers per channel: mean, scale, shift, low, high; then centre, flat, slope, factor."""

# at      where to begin in x, y (and what is like it: g, add, gadd), numbers per channel, sums
# steps   pixels; distance of two rows of numbers per channel; flags


def _start(v: Vectors, *names: str) -> list[Any]:
    """Addresses: of what is like x, like y, or stands by itself."""
    where = {"x": 0, "gx": 0, "first": 2, "norm": 2, "sums": 3}
    return [v.at(getattr(v.args, name), v.args.at[where.get(name, 1)]) for name in names]


def _flag(v: Vectors, bit: int) -> Any:
    return v.builder.icmp_signed("!=", v.builder.and_(v.args.steps[2], v.number(bit)), v.number(0))


def _rows(v: Vectors, norm: Any, first: int, count: int) -> list[Any]:
    return [v.load(v.at(norm, v.mul(v.args.steps[1], first + row))) for row in range(count)]


def _normal(v: Vectors, value: Any, mean: Any, scale: Any, shift: Any) -> Any:
    return v.fma(v.builder.fsub(value, mean), scale, shift)


def _emit_sums(v: Vectors) -> None:
    x, first, sums = _start(v, "x", "first", "sums")
    origin = v.load(first)

    def pixel(p: Any, found: list[Any]) -> list[Any]:
        d = v.builder.fsub(v.load(v.at(x, v.mul(p, v.width))), origin)
        return [v.builder.fadd(found[0], d), v.fma(d, d, found[1])]

    for i, total in enumerate(v.loop(v.args.steps[0], [v.zero] * 2, pixel)):
        v.store(total, v.at(sums, i * v.width))


def _emit_row(v: Vectors) -> None:
    x, add, y, norm = _start(v, "x", "add", "y", "norm")
    mean, scale, shift, low, high = _rows(v, norm, 0, FORWARD)
    b, adds = v.builder, v.splat(_flag(v, ADD))

    def pixel(p: Any, none: list[Any]) -> list[Any]:
        at = v.mul(p, v.width)
        value = _normal(v, v.load(v.at(x, at)), mean, scale, shift)
        value = b.select(adds, b.fadd(value, v.load(v.at(add, at))), value)
        value = b.select(b.fcmp_ordered("<=", value, low), low, value)
        v.store(b.select(b.fcmp_ordered(">", value, high), high, value), v.at(y, at))
        return none

    v.loop(v.args.steps[0], [], pixel)


def _passed(v: Vectors, norm: Any) -> Any:
    """A function: g' of the pixel at a place."""
    x, g, y = _start(v, "x", "g", "y")
    mean, scale, shift, low, high = _rows(v, norm, 0, FORWARD)
    b, by_x, by_y = v.builder, v.splat(_flag(v, WITHIN)), v.splat(_flag(v, PASSED))

    def grad(at: Any, value: Any) -> Any:
        found = v.load(v.at(g, at))
        result = _normal(v, value, mean, scale, shift)
        within = b.and_(b.fcmp_ordered(">=", result, low), b.fcmp_ordered("<=", result, high))
        above = b.fcmp_ordered(">", v.load(v.at(y, at)), v.zero)
        passes = b.and_(b.or_(within, b.not_(by_x)), b.or_(above, b.not_(by_y)))
        return b.select(passes, found, v.zero)

    return x, grad


def _emit_grad_sums(v: Vectors) -> None:
    norm, sums = _start(v, "norm", "sums")
    x, grad = _passed(v, norm)
    centre, = _rows(v, norm, FORWARD, 1)

    def pixel(p: Any, found: list[Any]) -> list[Any]:
        at = v.mul(p, v.width)
        value = v.load(v.at(x, at))
        g = grad(at, value)
        return [v.builder.fadd(found[0], g),
                v.fma(g, v.builder.fsub(value, centre), found[1])]

    for i, total in enumerate(v.loop(v.args.steps[0], [v.zero] * 2, pixel)):
        v.store(total, v.at(sums, i * v.width))


def _emit_grad_row(v: Vectors) -> None:
    gx, gadd, norm = _start(v, "gx", "gadd", "norm")
    x, grad = _passed(v, norm)
    centre, flat, slope, factor = _rows(v, norm, FORWARD, BACKWARD)
    b, wanted = v.builder, [_flag(v, GX), _flag(v, GADD)]

    def pixel(p: Any, none: list[Any]) -> list[Any]:
        at = v.mul(p, v.width)
        value = v.load(v.at(x, at))
        g = grad(at, value)
        along = b.fmul(b.fsub(value, centre), slope)
        result = b.fmul(b.fsub(b.fsub(g, flat), along), factor)
        for flag, number, target in zip(wanted, (result, g), (gx, gadd), strict=True):
            with b.if_then(flag):
                v.store(number, v.at(target, at))
        return none

    v.loop(v.args.steps[0], [], pixel)


def _pixels(array: Any, start: int, count: int) -> Any:
    return array[start:start + count * LANES].reshape(count, LANES)


def _shared(norm: Any, start: int, step: int) -> Any:
    """The rows of numbers per channel."""
    return [norm[start + row * step:][:LANES] for row in range(FORWARD + BACKWARD)
            if start + row * step + LANES <= len(norm)]


def _sums(x, first, sums, at, steps):
    d = _pixels(x, at[0], steps[0]) - first[at[2]:][:LANES]
    sums[at[3]:][:2 * LANES] = np.concatenate([d.sum(axis=0), (d * d).sum(axis=0)])


def _row(x, add, y, norm, at, steps):
    mean, scale, shift, low, high = _shared(norm, at[2], steps[1])[:FORWARD]
    value = (_pixels(x, at[0], steps[0]) - mean) * scale + shift
    if steps[2] & ADD:
        value = value + _pixels(add, at[1], steps[0])
    _pixels(y, at[1], steps[0])[...] = np.minimum(np.maximum(value, low), high)


def _grads(x, g, y, norm, at, steps):
    mean, scale, shift, low, high = _shared(norm, at[2], steps[1])[:FORWARD]
    result = (_pixels(x, at[0], steps[0]) - mean) * scale + shift
    passes = np.ones(result.shape, bool)
    if steps[2] & WITHIN:
        passes &= (result >= low) & (result <= high)
    if steps[2] & PASSED:
        passes &= _pixels(y, at[1], steps[0]) > 0
    return np.where(passes, _pixels(g, at[1], steps[0]), 0)


def _grad_sums(x, g, y, norm, sums, at, steps):
    grads, centre = _grads(x, g, y, norm, at, steps), _shared(norm, at[2], steps[1])[FORWARD]
    along = grads * (_pixels(x, at[0], steps[0]) - centre)
    sums[at[3]:][:2 * LANES] = np.concatenate([grads.sum(axis=0), along.sum(axis=0)])


def _grad_row(x, g, y, gx, gadd, norm, at, steps):
    grads = _grads(x, g, y, norm, at, steps)
    centre, flat, slope, factor = _shared(norm, at[2], steps[1])[FORWARD:]
    result = (grads - flat - (_pixels(x, at[0], steps[0]) - centre) * slope) * factor
    if steps[2] & GX:
        _pixels(gx, at[0], steps[0])[...] = result
    if steps[2] & GADD:
        _pixels(gadd, at[1], steps[0])[...] = grads


norm_sums = Micro(("x", "first", "sums", "at", "steps"), _emit_sums, _sums)
norm_row = Micro(("x", "add", "y", "norm", "at", "steps"), _emit_row, _row)
grad_sums = Micro(("x", "g", "y", "norm", "sums", "at", "steps"), _emit_grad_sums, _grad_sums)
grad_row = Micro(("x", "g", "y", "gx", "gadd", "norm", "at", "steps"), _emit_grad_row, _grad_row)
