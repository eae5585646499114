"""Rows of numbers, of any length, brought to a mean of 0 and a deviation of 1.

    row_sums        sums = of d, of d d                             d = x - centre
    row_normal      y = c gamma + beta                              c = (x - mean) / deviation
    row_grad_sums   sums = of h, of h c; slopes += g c; shifts += g                h = g gamma
    row_grad        gx = (h - flat - c slope) / deviation           shares = flat, slope

Sums are float32 over PART vectors, in four parts, and float64 over those.  From the second time on
a row is read from a cache, and whoever writes has the next row fetched: else memory would be read
and written in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .ir import Micro, Vectors

__all__ = ["SHARED", "STREAM", "each", "row_grad", "row_grad_sums", "row_normal", "row_sums",
           "sizes"]

STREAM, SHARED = 1, 2
"""Flags: the result goes past the caches, until `stream.settle`; the row has one gamma and beta."""
PART = 256
"""Vectors whose sum is float32: 64 for each of the four parts."""

# at      where the row begins; where its mean, deviation, and gamma and beta are
# steps   numbers of a row, at least 1; flags


def sizes(v: Vectors, size: Any) -> tuple[Any, Any]:
    """Whole vectors of so many numbers, and numbers behind them."""
    width = v.number(v.width)
    return v.builder.udiv(size, width), v.builder.urem(size, width)


def each(v: Vectors, size: Any, body: Callable[[Any, Any], None], head: Any = 0) -> None:
    """body(place, mask) for the vectors of a row; the mask is None where they are whole.  The first
    `head` numbers, fewer than a vector, come by themselves."""

    def some(place: Any, count: Any) -> None:
        with v.builder.if_then(v.builder.icmp_signed(">", v.number(count), v.number(0))):
            body(place, v.first(count))

    def vector(i: Any, none: list[Any]) -> list[Any]:
        body(v.add(head, v.mul(i, v.width)), None)
        return none

    some(v.number(0), head)
    count, left = sizes(v, v.builder.sub(size, v.number(head)))
    v.some(count, [], vector)
    some(v.builder.sub(size, left), left)


def _put(v: Vectors, out: Any, value: Callable[[Any, Any], Any]) -> None:
    """A row of `out` becomes value(place, mask)."""
    (begin, *_), (size, flags), b = v.args.at, v.args.steps, v.builder
    row = v.at(out, begin)
    # A vector that is streamed begins at a multiple of vectors.
    head = v.least(size, b.and_(b.neg(begin), v.number(v.width - 1)))

    def keep(place: Any, mask: Any) -> None:
        v.store(value(place, mask), v.at(row, place), mask)

    def stream(place: Any, mask: Any) -> None:
        if mask is None:
            v.stream(value(place, mask), v.at(row, place))
        else:
            keep(place, mask)

    def all_of_it(body: Callable[[Any, Any], None], head: Any) -> list[Any]:
        each(v, size, body, head)
        return []

    v.either(v.has(flags, STREAM), lambda: all_of_it(stream, head), lambda: all_of_it(keep, 0))


def _sum_row(v: Vectors, size: Any, factors: Callable[[Any, Any], Sequence[tuple[Any, Any]]]
             ) -> None:
    """sums = two sums over a row: of the products of two factors(place, mask) each, which are 0 in
    lanes that are not there."""
    add, none = v.builder.fadd, [v.zero] * 2

    def more(found: Sequence[Any], place: Any, mask: Any) -> list[Any]:
        return [v.fma(a, b, total) for (a, b), total
                in zip(factors(place, mask), found, strict=True)]

    def part(i: Any, totals: list[Any]) -> list[Any]:
        first = v.mul(i, PART)
        found = v.abreast(v.least(PART, v.builder.sub(whole, first)), none, lambda j, own: more(
            own, v.mul(v.add(first, j), v.width), None))
        return [add(total, v.widen(add(add(a, b), add(c, d)))) for total, (a, b, c, d)
                in zip(totals, zip(*found, strict=True), strict=True)]

    def rest() -> list[Any]:
        found = more(none, v.mul(whole, v.width), v.first(left))
        return [add(total, v.widen(value)) for total, value in zip(totals, found, strict=True)]

    whole, left = sizes(v, size)
    parts = v.builder.udiv(v.add(whole, PART - 1), v.number(PART))
    totals = v.some(parts, [v.widen(v.zero)] * 2, part)
    some = v.builder.icmp_signed(">", left, v.number(0))
    for i, total in enumerate(v.either(some, rest, lambda: totals)):
        lane = v.builder.extract_element(v.across(total, add), v.ir.IntType(32)(0))
        v.builder.store(lane, v.at(v.args.sums, i))


def _emit_sums(v: Vectors) -> None:
    (begin, place), b = v.args.at, v.builder
    x, centre = v.at(v.args.x, begin), v.one(v.at(v.args.centre, place))

    def factors(place: Any, mask: Any) -> Sequence[tuple[Any, Any]]:
        d = b.fsub(v.load(v.at(x, place), mask, centre), centre)
        return (d, v.constant(1)), (d, d)

    _sum_row(v, v.args.size, factors)


def _centred(v: Vectors) -> tuple[Any, Callable[[Any, Any], Any]]:
    """1 / deviation, and c(place, mask)."""
    a, b, (begin, mean, deviation, _) = v.args, v.builder, v.args.at
    x, centre = v.at(a.x, begin), v.one(v.at(a.mean, mean))
    factor = b.fdiv(v.constant(1), v.one(v.at(a.deviation, deviation)))

    def c(place: Any, mask: Any) -> Any:
        return b.fmul(b.fsub(v.load(v.at(x, place), mask, centre), centre), factor)

    return factor, c


def _reader(v: Vectors, array: Any) -> Callable[[Any, Any], Any]:
    return lambda place, mask: v.load(v.at(array, place), mask, v.zero)


def _fetch_next(v: Vectors, place: Any, *arrays: Any) -> None:
    for array in arrays:
        v.prefetch(v.at(array, v.add(v.add(v.args.at[0], v.args.steps[0]), place)))


def _emit_normal(v: Vectors) -> None:
    a, own, (_, c) = v.args, v.args.at[3], _centred(v)

    def row(slope: Callable, shift: Callable) -> list[Any]:
        def value(place: Any, mask: Any) -> Any:
            _fetch_next(v, place, a.x)
            return v.fma(c(place, mask), slope(place, mask), shift(place, mask))

        _put(v, a.y, value)
        return []

    def same(array: Any) -> Callable[[Any, Any], Any]:
        value = v.one(array)
        return lambda place, mask: value

    numbers = [v.at(array, own) for array in (a.gamma, a.beta)]
    v.either(v.has(a.steps[1], SHARED), lambda: row(*map(same, numbers)),
             lambda: row(*[_reader(v, array) for array in numbers]))


def _grads(v: Vectors) -> Callable[[Any, Any], tuple[Any, Any]]:
    """g and h(place, mask)."""
    a, (begin, *_, own) = v.args, v.args.at
    grad, gamma = _reader(v, v.at(a.g, begin)), _reader(v, v.at(a.gamma, own))

    def both(place: Any, mask: Any) -> tuple[Any, Any]:
        g = grad(place, mask)
        return g, v.builder.fmul(g, gamma(place, mask))

    return both


def _emit_grad_sums(v: Vectors) -> None:
    a, (_, centred), grads = v.args, _centred(v), _grads(v)

    def factors(place: Any, mask: Any) -> Sequence[tuple[Any, Any]]:
        c, (g, h) = centred(place, mask), grads(place, mask)
        slope, shift = v.at(a.slopes, place), v.at(a.shifts, place)
        v.store(v.fma(g, c, v.load(slope, mask, v.zero)), slope, mask)
        v.store(v.builder.fadd(g, v.load(shift, mask, v.zero)), shift, mask)
        return (h, v.constant(1)), (h, c)

    _sum_row(v, a.steps[0], factors)


def _emit_grad(v: Vectors) -> None:
    a, b, (factor, centred), grads = v.args, v.builder, _centred(v), _grads(v)
    flat, slope = v.one(a.shares), v.one(v.at(a.shares, 1))

    def value(place: Any, mask: Any) -> Any:
        _fetch_next(v, place, a.g, a.x)
        _, h = grads(place, mask)
        return b.fmul(b.fsub(b.fsub(h, flat), b.fmul(centred(place, mask), slope)), factor)

    _put(v, a.gx, value)


def _sums(x, centre, sums, at, size):
    d = x.reshape(-1)[at[0]:][:size] - centre.reshape(-1)[at[1]]
    sums[:2] = d.sum(dtype=np.float64), np.square(d).sum(dtype=np.float64)


def _row(array, at, steps):
    return array.reshape(-1)[at[0]:][:steps[0]]


def _normal(x, gamma, beta, mean, deviation, y, at, steps):
    own = slice(at[3], at[3] + (1 if steps[1] & SHARED else steps[0]))
    c = (_row(x, at, steps) - mean[at[1]]) / deviation[at[2]]
    _row(y, at, steps)[...] = c * gamma[own] + beta[own]


def _terms(g, x, gamma, mean, deviation, at, steps):
    g = _row(g, at, steps)
    return (g, (_row(x, at, steps) - mean[at[1]]) / deviation[at[2]],
            g * gamma[at[3]:][:steps[0]])


def _grad_sums(g, x, gamma, mean, deviation, slopes, shifts, sums, at, steps):
    g, c, h = _terms(g, x, gamma, mean, deviation, at, steps)
    slopes[:steps[0]] += g * c
    shifts[:steps[0]] += g
    sums[:2] = h.sum(dtype=np.float64), (h * c).sum(dtype=np.float64)


def _grad(g, x, gamma, mean, deviation, shares, gx, at, steps):
    _, c, h = _terms(g, x, gamma, mean, deviation, at, steps)
    _row(gx, at, steps)[...] = (h - shares[0] - c * shares[1]) / deviation[at[2]]


row_sums = Micro(("x", "centre", "sums", "at", "size"), _emit_sums, _sums)
row_normal = Micro(("x", "gamma", "beta", "mean", "deviation", "y", "at", "steps"), _emit_normal,
                   _normal)
row_grad_sums = Micro(("g", "x", "gamma", "mean", "deviation", "slopes", "shifts", "sums", "at",
                       "steps"), _emit_grad_sums, _grad_sums)
row_grad = Micro(("g", "x", "gamma", "mean", "deviation", "shares", "gx", "at", "steps"),
                 _emit_grad, _grad)
