"""Softmax and log softmax of rows of any length, also in place.

    y = e / sum of e,   e = exp(scale x - top)              LOG: y = scale x - top - log(sum of e)

top is the maximum of scale x.  The second and third passes read the row from a cache.

A compiler checks for overlap before a vectorised loop and falls back to scalar code if it finds
any: in place, its code took ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .ir import IRValue, MicroKernel, Vectors
from .layer_norm_rows import RowVector, for_each_vector, whole_and_rest
from .vector_math import exp, log_of_one

__all__ = ["LOG", "softmax_row"]

LOG = 1

# at      offsets of the row in x, in y; scale has one element
# steps   elements of a row, at least 1; flags


def _joined(v: Vectors, start: IRValue, join: Callable[[IRValue, IRValue], IRValue],
            value: RowVector) -> IRValue:
    """The reduction of start and all value(offset, mask) of a row, in every lane."""
    count, left = whole_and_rest(v, v.args.steps[0])
    (a,), (b,), (c,), (d,) = v.interleaved_loop(
        count, [start], lambda i, own: [join(own[0], value(v.mul(i, v.width), None))])
    whole = join(join(a, b), join(c, d))
    total, = v.if_else(
        v.builder.icmp_signed(">", left, v.int64(0)),
        lambda: [join(whole, value(v.mul(count, v.width), v.lane_mask(left)))], lambda: [whole])
    return v.reduce_lanes(total, join)


def _larger(v: Vectors) -> Callable[[IRValue, IRValue], IRValue]:
    return lambda a, b: v.builder.select(v.builder.fcmp_ordered(">", a, b), a, b)


def _there(v: Vectors, value: IRValue, mask: IRValue | None) -> IRValue:
    """`value`, with 0 in lanes outside the mask."""
    return value if mask is None else v.builder.select(mask, value, v.zero)


def _emit_row(v: Vectors) -> None:
    a, b = v.args, v.builder
    x, y = v.at(a.x, a.at[0]), v.at(a.y, a.at[1])
    scale, first = v.broadcast(a.scale), v.broadcast(x)

    def scaled(offset: IRValue, mask: IRValue | None) -> IRValue:
        return b.fmul(v.load(v.at(x, offset), mask, first), scale)

    # pass 1: the maximum
    top = _joined(v, b.fmul(first, scale), _larger(v), scaled)

    def below(offset: IRValue, mask: IRValue | None) -> IRValue:
        return b.fsub(scaled(offset, mask), top)

    # passes 2 and 3: store exponentials and sum them, then divide by the sum
    def share(offset: IRValue, mask: IRValue | None) -> IRValue:
        value = exp(v, below(offset, mask))
        v.store(value, v.at(y, offset), mask)
        return _there(v, value, mask)

    def probabilities() -> None:
        factor = b.fdiv(v.constant(1), _joined(v, v.zero, b.fadd, share))
        for_each_vector(v, a.steps[0], lambda offset, mask: v.store(
            b.fmul(v.load(v.at(y, offset), mask, v.zero), factor), v.at(y, offset), mask))

    # or sum the exponentials, then subtract the logarithm of the sum
    def logarithms() -> None:
        total = _joined(v, v.zero, b.fadd, lambda offset, mask: _there(
            v, exp(v, below(offset, mask)), mask))
        log_sum = log_of_one(v, total)
        for_each_vector(v, a.steps[0], lambda offset, mask: v.store(
            b.fsub(below(offset, mask), log_sum), v.at(y, offset), mask))

    v.if_else(v.has_flag(a.steps[1], LOG), logarithms, probabilities)


def _row(x: np.ndarray, y: np.ndarray, scale: np.ndarray, at: Sequence[int], steps: Sequence[int]
         ) -> None:
    size, flags = steps
    below = x.reshape(-1)[at[0]:][:size].astype(np.float64) * scale[0]
    below -= below.max(initial=-np.inf)
    total = np.exp(below).sum()
    y.reshape(-1)[at[1]:][:size] = below - np.log(total) if flags & LOG else np.exp(below) / total


softmax_row = MicroKernel(("x", "y", "scale", "at", "steps"), _emit_row, _row)
