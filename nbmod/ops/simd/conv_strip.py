"""The convolution micro-kernel: a strip of pixels times a few vectors of filters, in registers.

    y[p, v] = start + sum over taps t and c < depth of x[x_p + offset_t + c] w[t, c, v]

for PIXELS pixels p and `vectors` vectors v of output channels (direct convolution as in oneDNN, or
Georganas et al. 2018).  start is the bias or 0; the residual r at the position of y may be added.
Integer tables describe the convolution: `taps` holds the offset of each filter tap (and block of
input channels) from the pixel, `offsets` that of each pixel of a strip in x and in y.  Stride,
dilation, padding, small images and the direction change tables only; a matrix product is the
convolution with one tap.

A strip always has PIXELS pixels.  Where fewer are left the table repeats the last one, which is
computed and stored again with the same result.  All loads of a strip precede its stores, so this
also holds when y is accumulated.

With PIXELS = 14 and two vectors, 28 of the 32 registers of AVX-512 are accumulators.  Per tap and
channel these are 28 FMAs, two loads of weights and 14 broadcasts, so the FMA units are the
bottleneck as long as operands are in a cache.  Hence the software prefetches: each tap prefetches
the pixels of the tap PREFETCH_TAPS later (for the last taps, of the next strip), which is some 900
cycles, the latency of memory; the first taps prefetch the lines of y, or of r, a few pixels each,
as a core has about a dozen line fill buffers.

Elements may be int8 words of four bytes (see `int8_dot`): channels then come in fours, x, w and the
bias are int32, a tap is a quarter as deep, and y are the int32 sums, or bytes requantized with the
four float32 parameters in `r`.  Of the flags only BIAS applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from .host import lanes, registers
from .int8_dot import add_products, emit_requantize, multiply_words, requantize
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["ADD", "BIAS", "CLIP", "LANES", "PIXELS", "RELU", "STREAM", "ConvStart", "ConvSteps",
           "clip", "clip_flag", "emit_add", "emit_bias", "emit_clip", "plane1", "plane2", "row3",
           "row7", "store_fence", "strip1", "strip2", "strip_of"]

LANES = lanes("float32")
PIXELS = 14 if registers().number == 32 else 6
"""Pixels of a strip: with two vectors each, their sums fill most of the registers."""

ARGUMENTS = ("x", "w", "bias", "r", "y", "taps", "offsets", "at", "steps")
"""at      `ConvStart`
steps   `ConvSteps`
offsets 2 PIXELS offsets for a strip: its pixels in x, and in r and y
"""
BIAS, ADD, RELU, CLIP, STREAM = 1, 2, 4, 8, 16
"""Flags: add the bias; add r; ReLU; clip at a value whose 32 bits follow the flags (`clip_flag`);
store y, which is aligned to a vector, with non-temporal stores."""
PREFETCH_TAPS = 1792 // (2 * PIXELS * LANES)
"""Prefetch distance of pixels, in taps: 1792 FMAs."""
SHARE = -(-PIXELS // PREFETCH_TAPS)
"""Pixels whose results a tap prefetches."""
LINE = 16
"""Elements of a cache line."""
DEEP = 0
"""The depth of taps with all channels of a block."""


class ConvStart(NamedTuple):
    """Offsets of a strip in its operands; in r it is that of y."""

    x: int
    w: int
    bias: int
    y: int
    taps: int
    offsets: int


class ConvSteps(NamedTuple):
    """Number of taps; distance of two vectors in r and y; flags; distance of the first pixel to
    that of the next strip in x: a prefetch hint, any value is correct."""

    taps: int
    vector: int
    flags: int
    ahead: int


def clip_flag(most: float) -> int:
    """The flag CLIP with an upper bound >= 0; no flag for infinity."""
    return 0 if most == np.inf else CLIP + (int(np.float32(most).view(np.uint32)) << 32)


def emit_clip(v: Vectors, value: IRValue, flags: IRValue) -> IRValue:
    """A sum, clamped as the flags RELU and CLIP request."""
    b, infinity = v.builder, v.scalar(np.inf)
    bits = b.trunc(b.lshr(flags, v.int64(32)), v.ir.IntType(32))
    least = b.select(v.has_flag(flags, RELU), v.scalar(0.0), v.scalar(-np.inf))
    most = b.select(v.has_flag(flags, CLIP), b.bitcast(bits, v.scalar), infinity)
    return v.clamp(value, v.splat(least), v.splat(most))


def clip(values: np.ndarray, flags: int) -> np.ndarray:
    """Reference of `emit_clip`."""
    values = np.maximum(values, 0) if flags & RELU else values
    return np.minimum(values, np.uint32(flags >> 32).view("f")) if flags & CLIP else values


def emit_bias(v: Vectors, flags: IRValue, bias: Sequence[IRValue], mask: IRValue | None = None
              ) -> list[IRValue]:
    """The vectors at these addresses, or 0 without the flag BIAS."""
    return v.if_else(v.has_flag(flags, BIAS), lambda: [v.load(each, mask, v.zero) for each in bias],
                     lambda: [v.zero] * len(bias))


def emit_add(v: Vectors, flags: IRValue, values: Sequence[IRValue], pointers: Iterable[IRValue],
             mask: IRValue | None = None) -> list[IRValue]:
    """Vectors plus those at the addresses, if the flag ADD is set; only then are the addresses of a
    generator computed."""
    return v.if_else(v.has_flag(flags, ADD), lambda: [
        v.builder.fadd(value, v.load(pointer, mask, v.zero))
        for value, pointer in zip(values, pointers, strict=True)], lambda: values)


def _emit_strip(v: Vectors, vectors: int, depth: int) -> None:
    a = v.args
    x, w, bias, y, taps, offsets = v.starts("x", "w", "bias", "y", "taps", "offsets")
    r = a.r if v.is_integer else v.at(a.r, a.at[3])
    count, step, flags, ahead = a.steps
    rows = list(product(range(PIXELS), range(vectors)))

    def pixel(which: int, p: int) -> IRValue:
        return v.load_int(offsets, which * PIXELS + p)

    def result(of: IRValue, p: int, o: int) -> IRValue:
        return v.at(of, v.add(pixel(1, p), v.mul(step, o)))

    # accumulators of all pixels and vectors, initialized with the bias, over the taps
    first = emit_bias(v, flags, [v.at(bias, o * v.width) for o in range(vectors)])
    deep = depth or _block(v.is_integer)
    target = y if v.is_integer else v.builder.select(v.has_flag(flags, ADD), r, y)
    prefetch_results = _result_prefetcher(v, target, offsets, vectors, deep)
    pixels = [v.at(x, pixel(0, p)) for p in range(PIXELS)]
    sums = _sums(v, (pixels, w, taps), [first[o] for _, o in rows], (count, ahead), deep,
                 prefetch_results)
    # epilogue: requantize, or add the residual and clamp
    if not v.is_integer:
        sums = emit_add(v, flags, sums, (result(r, p, o) for p, o in rows))
        sums = [emit_clip(v, total, flags) for total in sums]
    elif y.type.pointee.width == 8:
        sums = [emit_requantize(v, total, r) for total in sums]

    # all loads precede the stores: repeated pixels are accumulated once
    def write(store: Callable[[IRValue, IRValue], None]) -> None:
        for total, (p, o) in zip(sums, rows, strict=True):
            store(total, result(y, p, o))

    v.if_else(v.has_flag(flags, STREAM), lambda: write(v.store_nontemporal),
              lambda: write(v.store))


def _block(words: bool) -> int:
    """Elements of a pixel in a block of channels."""
    return max(1, LANES // 4) if words else LANES


def _sums(v: Vectors, tables: tuple[list[IRValue], IRValue, IRValue], start: list[IRValue],
          steps: tuple[IRValue, IRValue], depth: int, prefetch_results: Callable[[IRValue], None]
          ) -> list[IRValue]:
    """The loop over taps, each of which calls `prefetch_results` to prefetch: sums of all vectors
    of all pixels."""
    (pixels, w, taps), (count, ahead) = tables, steps
    vectors, each = len(start) // PIXELS, -(-PIXELS // depth)

    def add(value: IRValue, factor: IRValue, total: IRValue) -> IRValue:
        return (add_products(v, value, factor, total) if v.is_integer else
                v.fma(value, factor, total))

    def tap(t: IRValue, sums: list[IRValue]) -> list[IRValue]:
        weights = v.at(w, v.mul(t, depth * vectors * v.width))
        here = [v.at(p, v.load_int(taps, t)) for p in pixels]
        soon = _prefetch_offset(v, taps, t, count, ahead)
        prefetch_results(t)
        for c in range(depth):
            factors = [v.load(v.at(weights, (c * vectors + o) * v.width)) for o in range(vectors)]
            if depth > 1 and c * each < PIXELS:
                v.prefetch(v.at(pixels[c * each], soon), 1)
            for p in range(PIXELS):
                value = v.broadcast(v.at(here[p], c))
                for o in range(vectors):
                    sums[p * vectors + o] = add(value, factors[o], sums[p * vectors + o])
        return sums

    return v.loop(count, start, tap)


def _result_prefetcher(v: Vectors, target: IRValue, offsets: IRValue, vectors: int, depth: int
            ) -> Callable[[IRValue], None]:
    """A function that prefetches, with tap t, the results of SHARE pixels unless they are streamed.

    Short taps and narrow vectors (of fewer lines) prefetch everything first, since LLVM spills
    their sums at a branch.
    """
    b, (_, step, flags, _) = v.builder, v.args.steps
    condition = v.has_flag(b.xor(flags, v.int64(STREAM)), ADD | STREAM)

    def prefetch_results(first: IRValue, count: int) -> None:
        for p in range(0, count, max(1, LINE // LANES)):
            pixel = v.add(v.minimum(v.add(first, p), PIXELS - 1), PIXELS)
            for o in range(vectors):
                v.prefetch(v.at(target, v.add(v.load_int(offsets, pixel), v.mul(step, o))), 1,
                           write=True)

    def some(t: IRValue) -> None:
        first = v.mul(t, SHARE)
        more = b.icmp_signed("<", first, v.int64(PIXELS))
        with b.if_then(b.and_(condition, more)):
            prefetch_results(first, SHARE)

    if depth == LANES == LINE:
        return some
    with b.if_then(condition):
        prefetch_results(v.int64(0), PIXELS)
    return lambda t: None


def _prefetch_offset(v: Vectors, taps: IRValue, t: IRValue, count: IRValue, ahead: IRValue
                     ) -> IRValue:
    """Offset of the pixels needed PREFETCH_TAPS taps after tap t."""
    b, later = v.builder, v.add(t, PREFETCH_TAPS)
    same = b.icmp_signed("<", later, count)
    over = v.minimum(b.sub(later, count), b.sub(count, v.int64(1)))
    return v.add(v.load_int(taps, b.select(same, later, over)),
                 b.select(same, v.int64(0), ahead))


def _reference(vectors: int, depth: int) -> Callable:
    def strip(x, w, bias, r, y, taps, offsets, at, steps):
        xo, wo, bo, yo, to, po = at
        count, step, flags, _ = steps
        words = x.dtype.kind == "i"
        deep, size = depth or _block(words), vectors * LANES
        spots = offsets[po:po + 2 * PIXELS].reshape(2, PIXELS)
        sums = np.zeros((PIXELS, vectors, LANES), x.dtype)
        if flags & BIAS:
            sums += bias[bo:bo + size].reshape(vectors, LANES)
        for t, p, c in np.ndindex(count, PIXELS, deep):
            begin = wo + (t * deep + c) * size
            value, weights = x[xo + spots[0, p] + taps[to + t] + c], w[begin:begin + size]
            products = multiply_words(value, weights) if words else value * weights
            sums[p] += products.reshape(vectors, LANES)
        for p, o in np.ndindex(PIXELS, vectors):
            begin = yo + spots[1, p] + o * step
            total = sums[p, o] + (r[begin:begin + LANES] if flags & ADD else 0)
            sums[p, o] = total if words else clip(total, flags)
        for p, o in np.ndindex(PIXELS, vectors):
            begin = yo + spots[1, p] + o * step
            y[begin:begin + LANES] = sums[p, o] if y.itemsize == 4 else requantize(sums[p, o], r)

    return strip


def strip_of(vectors: int, depth: int) -> MicroKernel:
    """The strip kernel of `vectors` vectors of filters and taps of `depth` channels."""
    return MicroKernel(ARGUMENTS, lambda v: _emit_strip(v, vectors, depth),
                       _reference(vectors, depth))


strip2, strip1 = strip_of(2, DEEP), strip_of(1, DEEP)
plane2, plane1 = strip_of(2, 1), strip_of(1, 1)
row3, row7 = strip_of(2, 3), strip_of(2, 7)
"""For planar images: taps in a row of a filter are adjacent, as channels are elsewhere."""
store_fence = MicroKernel(("y",), lambda v: v.store_fence(), lambda y: None)
"""Follows strips with STREAM, before other threads read y."""
