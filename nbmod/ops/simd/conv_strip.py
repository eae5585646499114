"""The strip kernel: a strip of pixels times a few vectors of filters, summed in registers.

    y[p, v] = start + sum over taps t and c < depth of x[x_p + offset_t + c] w[t, c, v]

for PIXELS pixels p and `vectors` vectors v of output channels, where start is the bias or 0; what r
holds at the place of y may be added.  Everything that distinguishes one convolution from another is
in tables of integers: `taps` says where the pixels of each filter tap (and block of input channels)
lie behind the pixel itself, `places` where each pixel of a strip is in x and in y.  Stride,
dilation, padding, narrow images and the direction of the computation change tables, never the
kernel; a product of matrices is the convolution with one tap.

A strip always has PIXELS pixels.  Where fewer are left the table repeats the last one: it is
computed again, and stored again, the same.  All reads of a strip come before its writes, so this
also holds when y is added to.

With PIXELS = 14 and two vectors, 28 of the 32 registers of AVX-512 hold sums, each of which one
instruction (an FMA) adds to.  Per tap and channel these are 28 FMAs, two loads of weights and 14 of
numbers that are repeated in all lanes, so the FMA units are what limits: as long as what they need
is in a cache.  Therefore a strip asks for it in time.  With every tap it begins to bring in the
pixels of the tap SOON ones later, which for the last taps are those of the next strip; and with the
first taps, for some pixels each, those lines of y, or of r, which it needs after the last: a core
waits for a dozen lines at a time, and more at once would hold up what the sums need.

Numbers may be words of four bytes (see `quads`): then channels come in fours, x, w and the bias are
int32, a tap is a quarter as deep, and y are the sums themselves, if it is int32, or bytes which
`r`, four float32 numbers, makes of them.  Of the flags only BIAS has a meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from .host import lanes, registers
from .int8_dot import add_products, narrow, narrowed
from .ir import Micro, Vectors

__all__ = ["ADD", "BIAS", "LANES", "MOST", "PIXELS", "RELU", "STREAM", "at_most",
           "emit_limits", "limited", "settle", "plane1", "plane2", "row3", "row7", "strip1",
           "strip2", "strip_of"]

LANES = lanes("float32")
PIXELS = 14 if registers().number == 32 else 6
"""Pixels of a strip: with two vectors each, their sums fill the registers but for a few."""

ARGUMENTS = ("x", "w", "bias", "r", "y", "taps", "places", "at", "steps")
"""
at      where to begin in x, w, bias, r and y, taps, places
steps   number of taps; distance of two vectors in r and y; flags; distance of the first pixel to
        that of the next strip, in x: a hint, any number is right
places  2 PIXELS numbers for a strip: its pixels in x, and in r and y
"""
BIAS, ADD, RELU, MOST, STREAM = 1, 2, 4, 8, 16
"""Flags: sums begin with the bias; r is added; what is below zero becomes zero; what is above a
number becomes that number, whose 32 bits stand above the flags (see `at_most`); y, which begins at
a multiple of a vector in memory, is not read soon."""
SOON = 4
"""Taps from when a pixel is asked for to when it is needed."""
SHARE = -(-PIXELS // SOON)
"""Pixels of which a tap asks for the results."""
LINE = 16
"""Numbers of a cache line."""
DEEP = 0
"""The depth of taps that have all channels of a block."""


def at_most(most: float) -> int:
    """The flag MOST with its number, which is not negative; none for infinity."""
    return 0 if most == np.inf else MOST + (int(np.float32(most).view(np.uint32)) << 32)


def emit_limits(v: Vectors, value: Any, flags: Any) -> Any:
    """A sum, and what RELU and MOST make of it."""
    b, infinity = v.builder, v.scalar(np.inf)
    bits = b.trunc(b.lshr(flags, v.number(32)), v.ir.IntType(32))
    least = b.select(v.has(flags, RELU), v.scalar(0.0), v.scalar(-np.inf))
    most = b.select(v.has(flags, MOST), b.bitcast(bits, v.scalar), infinity)
    return v.between(value, v.splat(least), v.splat(most))


def limited(values: np.ndarray, flags: int) -> np.ndarray:
    """The twin of `emit_limits`."""
    values = np.maximum(values, 0) if flags & RELU else values
    return np.minimum(values, np.uint32(flags >> 32).view("f")) if flags & MOST else values


def _emit_strip(v: Vectors, vectors: int, depth: int) -> None:
    a = v.args
    x, w, bias, y, taps, places = (v.at(getattr(a, name), start) for name, start in zip(
        ("x", "w", "bias", "y", "taps", "places"), a.at, strict=True))
    r = a.r if v.whole else v.at(a.r, a.at[3])
    count, step, flags, ahead = a.steps
    rows = list(product(range(PIXELS), range(vectors)))

    def pixel(which: int, p: int) -> Any:
        return v.integer_at(places, which * PIXELS + p)

    def result(of: Any, p: int, o: int) -> Any:
        return v.at(of, v.add(pixel(1, p), v.mul(step, o)))

    first = v.either(v.has(flags, BIAS),
                     lambda: [v.load(v.at(bias, o * v.width)) for o in range(vectors)],
                     lambda: [v.zero] * vectors)
    deep = depth or _block(v.whole)
    target = y if v.whole else v.builder.select(v.has(flags, ADD), r, y)
    ask = _asking(v, target, places, vectors, deep)
    pixels = [v.at(x, pixel(0, p)) for p in range(PIXELS)]
    sums = _sums(v, (pixels, w, taps), [first[o] for _, o in rows], (count, ahead), deep, ask)
    if v.whole:
        finished = _finished_words(v, sums, r, y)
    else:
        sums = v.either(v.has(flags, ADD), lambda: [
            v.builder.fadd(total, v.load(result(r, p, o)))
            for total, (p, o) in zip(sums, rows, strict=True)], lambda: sums)
        finished = [emit_limits(v, total, flags) for total in sums]

    def written(store: Callable[[Any, Any], None]) -> list[Any]:
        for total, (p, o) in zip(finished, rows, strict=True):
            store(total, result(y, p, o))
        return []

    v.either(v.has(flags, STREAM), lambda: written(v.stream), lambda: written(v.store))


def _block(words: bool) -> int:
    """Numbers of a pixel in a block of channels."""
    return max(1, LANES // 4) if words else LANES


def _sums(v: Vectors, tables: tuple[list[Any], Any, Any], start: list[Any],
          steps: tuple[Any, Any], depth: int, ask: Callable[[Any], None]) -> list[Any]:
    """The loop over taps, with each of which it does `ask`: for every pixel all vectors,
    beginning with `start`."""
    (pixels, w, taps), (count, ahead) = tables, steps
    vectors, line = len(start) // PIXELS, max(1, LINE // depth)

    def add(value: Any, factor: Any, total: Any) -> Any:
        return (add_products(v, value, factor, total) if v.whole else
                v.fma(value, factor, total))

    def tap(t: Any, sums: list[Any]) -> list[Any]:
        weights = v.at(w, v.mul(t, depth * vectors * v.width))
        here = [v.at(p, v.integer_at(taps, t)) for p in pixels]
        soon = _soon(v, taps, t, count, ahead)
        ask(t)
        for c in range(depth):
            factors = [v.load(v.at(weights, (c * vectors + o) * v.width)) for o in range(vectors)]
            if depth > 1 and c * line < PIXELS:
                v.prefetch(v.at(pixels[c * line], soon), 1)
            for p in range(PIXELS):
                value = v.one(v.at(here[p], c))
                for o in range(vectors):
                    sums[p * vectors + o] = add(value, factors[o], sums[p * vectors + o])
        return sums

    return v.loop(count, start, tap)


def _finished_words(v: Vectors, sums: list[Any], r: Any, y: Any) -> list[Any]:
    """Sums of words as y has them."""
    bits = y.type.pointee.width
    return sums if bits == 32 else [narrowed(v, total, r) for total in sums]


def _asking(v: Vectors, target: Any, places: Any, vectors: int, depth: int
            ) -> Callable[[Any], None]:
    """A function that begins, with tap t, to bring in what SHARE pixels add, or write but for
    STREAM; all is asked for before short taps, or narrow vectors' (which are fewer lines), whose
    sums LLVM puts down where there is a branch.
    """
    b, (_, step, flags, _) = v.builder, v.args.steps
    wanted = v.has(b.xor(flags, v.number(STREAM)), ADD | STREAM)

    def ask(first: Any, count: int) -> list[Any]:
        for p in range(0, count, max(1, LINE // LANES)):
            pixel = v.add(v.least(v.add(first, p), PIXELS - 1), PIXELS)
            for o in range(vectors):
                v.prefetch(v.at(target, v.add(v.integer_at(places, pixel), v.mul(step, o))), 1,
                           write=True)
        return []

    def some(t: Any) -> None:
        first = v.mul(t, SHARE)
        more = b.icmp_signed("<", first, v.number(PIXELS))
        v.either(b.and_(wanted, more), lambda: ask(first, SHARE), lambda: [])

    if depth == LANES == LINE:
        return some
    v.either(wanted, lambda: ask(v.number(0), PIXELS), lambda: [])
    return lambda t: None


def _soon(v: Vectors, taps: Any, t: Any, count: Any, ahead: Any) -> Any:
    """How far behind the pixels of a strip those lie that will be needed SOON taps after tap t."""
    b, later = v.builder, v.add(t, SOON)
    same = b.icmp_signed("<", later, count)
    over = v.least(b.sub(later, count), b.sub(count, v.number(1)))
    return v.add(v.integer_at(taps, b.select(same, later, over)),
                 b.select(same, v.number(0), ahead))


def _twin(vectors: int, depth: int) -> Any:
    def strip(x, w, bias, r, y, taps, places, at, steps):
        xo, wo, bo, yo, to, po = at
        count, step, flags, _ = steps
        words = x.dtype.kind == "i"
        deep, size = depth or _block(words), vectors * LANES
        spots = places[po:po + 2 * PIXELS].reshape(2, PIXELS)
        sums = np.zeros((PIXELS, vectors, LANES), x.dtype)
        if flags & BIAS:
            sums += bias[bo:bo + size].reshape(vectors, LANES)
        for t, p, c in np.ndindex(count, PIXELS, deep):
            begin = wo + (t * deep + c) * size
            number, weights = x[xo + spots[0, p] + taps[to + t] + c], w[begin:begin + size]
            products = _products(number, weights) if words else number * weights
            sums[p] += products.reshape(vectors, LANES)
        for p, o in np.ndindex(PIXELS, vectors):
            begin = yo + spots[1, p] + o * step
            total = sums[p, o] + (r[begin:begin + LANES] if flags & ADD else 0)
            sums[p, o] = total if words else limited(total, flags)
        for p, o in np.ndindex(PIXELS, vectors):
            begin = yo + spots[1, p] + o * step
            y[begin:begin + LANES] = sums[p, o] if y.itemsize == 4 else narrow(sums[p, o], r)

    return strip


def _products(word: Any, weights: np.ndarray) -> np.ndarray:
    """The twin of `add_products`, of one word with many."""
    number = np.array([word]).view(np.uint8).astype(np.int32)
    return weights.view(np.int8).reshape(-1, 4).astype(np.int32) @ number


def strip_of(vectors: int, depth: int) -> Micro:
    """The strip kernel of `vectors` vectors of filters and taps of `depth` channels."""
    return Micro(ARGUMENTS, lambda v: _emit_strip(v, vectors, depth), _twin(vectors, depth))


strip2, strip1 = strip_of(2, DEEP), strip_of(1, DEEP)
plane2, plane1 = strip_of(2, 1), strip_of(1, 1)
row3, row7 = strip_of(2, 3), strip_of(2, 7)
"""For flat images: taps in a row of a filter are neighbours, as channels are elsewhere."""
settle = Micro(("y",), lambda v: v.settle(), lambda y: None)
"""Comes after strips with STREAM, before other threads read y."""
