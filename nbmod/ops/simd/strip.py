"""The strip kernel: a strip of pixels times a few vectors of filters, summed in registers.

    y[p, v] = start + sum over taps t and c < depth of x[x_p + offset_t + c] w[t, c, v]

for PIXELS pixels p and `vectors` vectors v of output channels, where start is the bias, what r
holds at the place of y, both, or 0.  Everything that distinguishes one convolution from another is
in tables of integers: `taps` says where the pixels of each filter tap (and block of input channels)
lie behind the pixel itself, `places` where each pixel of a strip is in x and in y.  Stride,
dilation, padding, narrow images and the direction of the computation change tables, never the
kernel; a product of matrices is the convolution with one tap.

A strip always has PIXELS pixels.  Where fewer are left the table repeats the last one: it is
computed again, and stored again, the same.  All reads of a strip come before its writes, so this
also holds when y is added to.

With PIXELS = 14 and two vectors, 28 of the 32 registers of AVX-512 hold sums, each of which one
instruction (an FMA whose factor is read from memory and repeated) adds to.  Per tap and channel
these are two loads of weights and 28 FMAs, so the FMA units are what limits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .host import lanes, registers
from .ir import Micro, Vectors

__all__ = ["ADD", "BIAS", "LANES", "MOST", "PIXELS", "RELU", "at_most", "emit_limits",
           "limited", "plane1", "plane2", "strip1", "strip2"]

LANES = lanes("float32")
PIXELS = 14 if registers().number == 32 else 6
"""Pixels of a strip: with two vectors each, their sums fill the registers but for a few."""

ARGUMENTS = ("x", "w", "bias", "r", "y", "taps", "places", "at", "steps")
"""
at      where to begin in x, w, bias, r and y, taps, places
steps   number of taps; distance of two vectors in r and y; flags
places  2 PIXELS numbers for a strip: its pixels in x, and in r and y
"""
BIAS, ADD, RELU, MOST = 1, 2, 4, 8
"""Flags: sums begin with the bias; with r; what is not above zero becomes zero; what is above a
number becomes that number, whose 32 bits stand above the flags (see `at_most`)."""


def at_most(most: float) -> int:
    """The flag MOST with its number, which is not negative; none for infinity."""
    return 0 if most == np.inf else MOST + (int(np.float32(most).view(np.uint32)) << 32)


def emit_limits(v: Vectors, value: Any, flags: Any) -> Any:
    """A sum, and what RELU and MOST make of it."""
    b = v.builder
    relu, most = (b.icmp_signed("!=", b.and_(flags, v.number(bit)), v.number(0))
                  for bit in (RELU, MOST))
    bits = b.trunc(b.lshr(flags, v.number(32)), v.ir.IntType(32))
    return v.at_most(v.relu(value, relu), v.splat(b.bitcast(bits, v.scalar)), most)


def limited(values: np.ndarray, flags: int) -> np.ndarray:
    """The twin of `emit_limits`."""
    values = np.maximum(values, 0) if flags & RELU else values
    return np.minimum(values, np.uint32(flags >> 32).view("f")) if flags & MOST else values


def _emit_strip(v: Vectors, vectors: int, depth: int) -> None:
    a = v.args
    x, w, bias, y, taps, places = (v.at(getattr(a, name), start) for name, start in zip(
        ("x", "w", "bias", "y", "taps", "places"), a.at, strict=True))
    r = v.at(a.r, a.at[3])
    count, step, flags = a.steps

    def pixel(which: int, p: int) -> Any:
        return v.integer_at(places, which * PIXELS + p)

    def flag(bit: int) -> Any:
        return v.builder.icmp_signed("!=", v.builder.and_(flags, v.number(bit)), v.number(0))

    first = v.either(flag(BIAS), lambda: [v.load(v.at(bias, o * v.width)) for o in range(vectors)],
                     lambda: [v.zero] * vectors)
    start = [first[o] for _ in range(PIXELS) for o in range(vectors)]

    def added() -> list[Any]:
        return [v.builder.fadd(start[p * vectors + o],
                               v.load(v.at(r, v.add(pixel(1, p), v.mul(step, o)))))
                for p in range(PIXELS) for o in range(vectors)]

    start = v.either(flag(ADD), added, lambda: start)
    pixels = [v.at(x, pixel(0, p)) for p in range(PIXELS)]

    def tap(t: Any, sums: list[Any]) -> list[Any]:
        offset = v.integer_at(taps, t)
        weights = v.at(w, v.mul(t, depth * vectors * v.width))
        here = [v.at(p, offset) for p in pixels]
        for c in range(depth):
            factors = [v.load(v.at(weights, (c * vectors + o) * v.width)) for o in range(vectors)]
            for p in range(PIXELS):
                value = v.one(v.at(here[p], c))
                for o in range(vectors):
                    sums[p * vectors + o] = v.fma(value, factors[o], sums[p * vectors + o])
        return sums

    sums = v.loop(count, start, tap)
    targets = [v.at(y, pixel(1, p)) for p in range(PIXELS)]
    for p in range(PIXELS):
        for o in range(vectors):
            v.store(emit_limits(v, sums[p * vectors + o], flags), v.at(targets[p], v.mul(step, o)))


def _twin(vectors: int, depth: int) -> Any:
    def strip(x, w, bias, r, y, taps, places, at, steps):
        xo, wo, bo, yo, to, po = at
        count, step, flags = steps
        spots = places[po:po + 2 * PIXELS].reshape(2, PIXELS)
        sums = np.zeros((PIXELS, vectors, LANES), np.float32)
        if flags & BIAS:
            sums += bias[bo:bo + vectors * LANES].reshape(vectors, LANES)
        for p, o in np.ndindex(PIXELS, vectors if flags & ADD else 0):
            begin = yo + spots[1, p] + o * step
            sums[p, o] += r[begin:begin + LANES]
        for t, p, c in np.ndindex(count, PIXELS, depth):
            begin = wo + (t * depth + c) * vectors * LANES
            weights = w[begin:begin + vectors * LANES].reshape(vectors, LANES)
            sums[p] += x[xo + spots[0, p] + taps[to + t] + c] * weights
        for p, o in np.ndindex(PIXELS, vectors):
            begin = yo + spots[1, p] + o * step
            y[begin:begin + LANES] = limited(sums[p, o], flags)

    return strip


def strip_of(vectors: int, depth: int) -> Micro:
    """The strip kernel of `vectors` vectors of filters and taps of `depth` channels."""
    return Micro(ARGUMENTS, lambda v: _emit_strip(v, vectors, depth), _twin(vectors, depth))


strip2, strip1 = strip_of(2, LANES), strip_of(1, LANES)
plane2, plane1 = strip_of(2, 1), strip_of(1, 1)
