"""Micro-kernels of layer norm: rows of any length normalized to mean 0 and deviation 1.

    row_sums        sums = of d, of d d                             d = x - centre
    row_normalize   y = c gamma + beta                              c = (x - mean) / deviation
    row_grad_sums   sums = of h, of h c; slopes += g c; shifts += g                h = g gamma
    row_grad        gx = (h - flat - c slope) / deviation           shares = flat, slope

Sums are float32 over PART vectors, in four parts, and float64 over those.  Later passes read the
row from a cache, and the pass that writes prefetches the next row, so that memory is read and
written at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .ir import IRValue, MicroKernel, Vectors

__all__ = ["SCALAR_AFFINE", "STREAM", "RowVector", "for_each_vector", "row_grad", "row_grad_sums",
           "row_normalize", "row_sums", "whole_and_rest"]

RowVector = Callable[[IRValue, "IRValue | None"], IRValue]
"""A vector of a row by its offset and mask, which is None for whole vectors."""
STREAM, SCALAR_AFFINE = 1, 2
"""Flags: non-temporal stores, until `store_fence`; the row has one gamma and one beta."""
PART = 256
"""Vectors summed in float32: 64 for each of the four parts."""

# at      offsets of the row; of its mean, deviation, and gamma and beta
# steps   elements of a row, at least 1; flags


def whole_and_rest(v: Vectors, size: IRValue) -> tuple[IRValue, IRValue]:
    """Whole vectors of `size` elements, and the elements left over."""
    width = v.int64(v.width)
    return v.builder.udiv(size, width), v.builder.urem(size, width)


def for_each_vector(v: Vectors, size: IRValue, body: Callable[[IRValue, IRValue | None], None],
                    head: IRValue | int = 0) -> None:
    """body(offset, mask) for the vectors of a row; the mask is None for whole vectors.  The first
    `head` elements, fewer than a vector, come separately."""

    def some(offset: IRValue, count: IRValue | int) -> None:
        with v.builder.if_then(v.builder.icmp_signed(">", v.int64(count), v.int64(0))):
            body(offset, v.lane_mask(count))

    some(v.int64(0), head)
    count, left = whole_and_rest(v, v.builder.sub(size, v.int64(head)))
    v.loop_if_any(count, [], lambda i, _: body(v.add(head, v.mul(i, v.width)), None))
    some(v.builder.sub(size, left), left)


def _put(v: Vectors, out: IRValue, value: RowVector) -> None:
    """Store value(offset, mask) to a row of `out`."""
    (begin, *_), (size, flags), b = v.args.at, v.args.steps, v.builder
    row = v.at(out, begin)
    # Non-temporal stores need aligned addresses.
    head = v.minimum(size, b.and_(b.neg(begin), v.int64(v.width - 1)))

    def keep(offset: IRValue, mask: IRValue | None) -> None:
        v.store(value(offset, mask), v.at(row, offset), mask)

    def stream(offset: IRValue, mask: IRValue | None) -> None:
        if mask is None:
            v.store_nontemporal(value(offset, mask), v.at(row, offset))
        else:
            keep(offset, mask)

    v.if_else(v.has_flag(flags, STREAM), lambda: for_each_vector(v, size, stream, head),
              lambda: for_each_vector(v, size, keep))


def _sum_row(v: Vectors, size: IRValue,
             factors: Callable[[IRValue, IRValue | None], Sequence[tuple[IRValue, IRValue]]]
             ) -> None:
    """sums = two sums over a row: of the products of two factors(offset, mask) each, which are 0 in
    lanes outside the mask."""
    add, none = v.builder.fadd, [v.zero] * 2

    def more(sums: Sequence[IRValue], offset: IRValue, mask: IRValue | None) -> list[IRValue]:
        return [v.fma(a, b, total) for (a, b), total
                in zip(factors(offset, mask), sums, strict=True)]

    def part(i: IRValue, totals: list[IRValue]) -> list[IRValue]:
        first = v.mul(i, PART)
        sums = v.interleaved_loop(
            v.minimum(PART, v.builder.sub(whole, first)), none,
            lambda j, own: more(own, v.mul(v.add(first, j), v.width), None))
        return [add(total, v.widen(add(add(a, b), add(c, d)))) for total, (a, b, c, d)
                in zip(totals, zip(*sums, strict=True), strict=True)]

    def rest() -> list[IRValue]:
        sums = more(none, v.mul(whole, v.width), v.lane_mask(left))
        return [add(total, v.widen(value)) for total, value in zip(totals, sums, strict=True)]

    whole, left = whole_and_rest(v, size)
    parts = v.builder.udiv(v.add(whole, PART - 1), v.int64(PART))
    totals = v.loop_if_any(parts, [v.widen(v.zero)] * 2, part)
    some = v.builder.icmp_signed(">", left, v.int64(0))
    for i, total in enumerate(v.if_else(some, rest, lambda: totals)):
        lane = v.builder.extract_element(v.reduce_lanes(total, add), v.ir.IntType(32)(0))
        v.builder.store(lane, v.at(v.args.sums, i))


def _emit_sums(v: Vectors) -> None:
    (begin, offset), b = v.args.at, v.builder
    x, centre = v.at(v.args.x, begin), v.broadcast(v.at(v.args.centre, offset))

    def factors(offset: IRValue, mask: IRValue | None) -> Sequence[tuple[IRValue, IRValue]]:
        d = b.fsub(v.load(v.at(x, offset), mask, centre), centre)
        return (d, v.constant(1)), (d, d)

    _sum_row(v, v.args.size, factors)


def _centred(v: Vectors) -> tuple[IRValue, RowVector]:
    """1 / deviation, and c(offset, mask)."""
    a, b, (begin, mean, deviation, _) = v.args, v.builder, v.args.at
    x, centre = v.at(a.x, begin), v.broadcast(v.at(a.mean, mean))
    factor = b.fdiv(v.constant(1), v.broadcast(v.at(a.deviation, deviation)))

    def c(offset: IRValue, mask: IRValue | None) -> IRValue:
        return b.fmul(b.fsub(v.load(v.at(x, offset), mask, centre), centre), factor)

    return factor, c


def _reader(v: Vectors, array: IRValue) -> RowVector:
    return lambda offset, mask: v.load(v.at(array, offset), mask, v.zero)


def _fetch_next(v: Vectors, offset: IRValue, *arrays: IRValue) -> None:
    for array in arrays:
        v.prefetch(v.at(array, v.add(v.add(v.args.at[0], v.args.steps[0]), offset)))


def _emit_normal(v: Vectors) -> None:
    a, own, (_, c) = v.args, v.args.at[3], _centred(v)

    def row(slope: RowVector, shift: RowVector) -> None:
        def value(offset: IRValue, mask: IRValue | None) -> IRValue:
            _fetch_next(v, offset, a.x)
            return v.fma(c(offset, mask), slope(offset, mask), shift(offset, mask))

        _put(v, a.y, value)

    def same(array: IRValue) -> RowVector:
        value = v.broadcast(array)
        return lambda offset, mask: value

    affine = [v.at(array, own) for array in (a.gamma, a.beta)]
    v.if_else(v.has_flag(a.steps[1], SCALAR_AFFINE), lambda: row(*map(same, affine)),
              lambda: row(*[_reader(v, array) for array in affine]))


def _grads(v: Vectors) -> Callable[[IRValue, IRValue | None], tuple[IRValue, IRValue]]:
    """g and h(offset, mask)."""
    a, (begin, *_, own) = v.args, v.args.at
    grad, gamma = _reader(v, v.at(a.g, begin)), _reader(v, v.at(a.gamma, own))

    def both(offset: IRValue, mask: IRValue | None) -> tuple[IRValue, IRValue]:
        g = grad(offset, mask)
        return g, v.builder.fmul(g, gamma(offset, mask))

    return both


def _emit_grad_sums(v: Vectors) -> None:
    a, (_, centred), grads = v.args, _centred(v), _grads(v)

    def factors(offset: IRValue, mask: IRValue | None) -> Sequence[tuple[IRValue, IRValue]]:
        c, (g, h) = centred(offset, mask), grads(offset, mask)
        slope, shift = v.at(a.slopes, offset), v.at(a.shifts, offset)
        v.store(v.fma(g, c, v.load(slope, mask, v.zero)), slope, mask)
        v.store(v.builder.fadd(g, v.load(shift, mask, v.zero)), shift, mask)
        return (h, v.constant(1)), (h, c)

    _sum_row(v, a.steps[0], factors)


def _emit_grad(v: Vectors) -> None:
    a, b, (factor, centred), grads = v.args, v.builder, _centred(v), _grads(v)
    flat, slope = v.broadcast(a.shares), v.broadcast(v.at(a.shares, 1))

    def value(offset: IRValue, mask: IRValue | None) -> IRValue:
        _fetch_next(v, offset, a.g, a.x)
        _, h = grads(offset, mask)
        return b.fmul(b.fsub(b.fsub(h, flat), b.fmul(centred(offset, mask), slope)), factor)

    _put(v, a.gx, value)


def _sums(x, centre, sums, at, size):
    d = x.reshape(-1)[at[0]:][:size] - centre.reshape(-1)[at[1]]
    sums[:2] = d.sum(dtype=np.float64), np.square(d).sum(dtype=np.float64)


def _row(array, at, steps):
    return array.reshape(-1)[at[0]:][:steps[0]]


def _normal(x, gamma, beta, mean, deviation, y, at, steps):
    own = slice(at[3], at[3] + (1 if steps[1] & SCALAR_AFFINE else steps[0]))
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


row_sums = MicroKernel(("x", "centre", "sums", "at", "size"), _emit_sums, _sums)
row_normalize = MicroKernel(("x", "gamma", "beta", "mean", "deviation", "y", "at", "steps"),
                            _emit_normal, _normal)
row_grad_sums = MicroKernel(("g", "x", "gamma", "mean", "deviation", "slopes", "shifts", "sums",
                             "at", "steps"), _emit_grad_sums, _grad_sums)
row_grad = MicroKernel(("g", "x", "gamma", "mean", "deviation", "shares", "gx", "at", "steps"),
                 _emit_grad, _grad)
