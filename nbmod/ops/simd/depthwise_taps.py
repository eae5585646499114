"""Micro-kernels of depthwise convolution: every lane is a channel with filters of its own.

`depthwise_strip` is the strip kernel with vectors as filters,

    y[p] = start + sum over taps t of x[x_p + offset_t] w[t]

for the PIXELS pixels p of a strip, with the tables of `conv_strip`.  `depthwise_weight_sums` is the
weight gradient for TAPS taps t at a time, in registers:

    d[t] = sum over pixels p of x[x_p + row_t] g[g_p]

Both load a vector for each FMA, so loads are the bottleneck; w[t] or g[g_p] is loaded once for
many.
"""

from __future__ import annotations

import numpy as np

from .conv_strip import ADD, ARGUMENTS, BIAS, LANES, PIXELS, clip, emit_add, emit_bias, emit_clip
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["TAPS", "depthwise_strip", "depthwise_weight_sums"]

TAPS = 9
"""Taps of a call: all of a 3 x 3 filter."""


def _emit_strip(v: Vectors) -> None:
    if v.is_integer:  # callers with several paths are compiled for words, too, but never use this
        return
    x, w, bias, y, taps, offsets = v.starts("x", "w", "bias", "y", "taps", "offsets")
    r = v.at(v.args.r, v.args.at[3])
    count, _, flags, _ = v.args.steps

    pixels = [v.at(x, v.load_int(offsets, p)) for p in range(PIXELS)]
    spots = [v.load_int(offsets, PIXELS + p) for p in range(PIXELS)]
    start = emit_add(v, flags, emit_bias(v, flags, [bias]) * PIXELS, (v.at(r, s) for s in spots))

    def tap(t: IRValue, sums: list[IRValue]) -> list[IRValue]:
        offset, weight = v.load_int(taps, t), v.load(v.at(w, v.mul(t, v.width)))
        return [v.fma(v.load(v.at(pixel, offset)), weight, total)
                for pixel, total in zip(pixels, sums, strict=True)]

    for total, spot in zip(v.loop(count, start, tap), spots, strict=True):
        v.store(emit_clip(v, total, flags), v.at(y, spot))


def _strip_reference(x, w, bias, r, y, taps, offsets, at, steps):
    xo, wo, bo, yo, to, po = at
    count, _, flags, _ = steps
    spots = offsets[po:po + 2 * PIXELS].reshape(2, PIXELS)
    sums = np.zeros((PIXELS, LANES), np.float32)
    if flags & BIAS:
        sums += bias[bo:bo + LANES]
    for p in range(PIXELS if flags & ADD else 0):
        sums[p] += r[yo + spots[1, p]:][:LANES]
    for t, p in np.ndindex(count, PIXELS):
        sums[p] += x[xo + spots[0, p] + taps[to + t]:][:LANES] * w[wo + t * LANES:][:LANES]
    for p in range(PIXELS):
        y[yo + spots[1, p]:][:LANES] = clip(sums[p], flags)


def _emit_sums(v: Vectors) -> None:
    x, g, d, rows, offsets = v.starts("x", "g", "d", "rows", "offsets")
    sources = [v.at(x, v.load_int(rows, t)) for t in range(TAPS)]

    def pixel(p: IRValue, sums: list[IRValue]) -> list[IRValue]:
        entry = v.at(offsets, v.mul(p, 2))
        offset, factor = v.load_int(entry, 0), v.load(v.at(g, v.load_int(entry, 1)))
        return [v.fma(v.load(v.at(source, offset)), factor, total)
                for source, total in zip(sources, sums, strict=True)]

    for t, total in enumerate(v.loop(v.args.pixels, [v.zero] * TAPS, pixel)):
        v.store(total, v.at(d, t * v.width))


def _sums_reference(x, g, d, rows, offsets, at, pixels):
    xo, go, do, ro, po = at
    tile = d[do:do + TAPS * LANES].reshape(TAPS, LANES)
    tile[...] = 0
    for p, t in np.ndindex(pixels, TAPS):
        x_p, g_p = offsets[po + 2 * p:po + 2 * p + 2]
        tile[t] += x[xo + x_p + rows[ro + t]:][:LANES] * g[go + g_p:][:LANES]


depthwise_strip = MicroKernel(ARGUMENTS, _emit_strip, _strip_reference)
depthwise_weight_sums = MicroKernel(("x", "g", "d", "rows", "offsets", "at", "pixels"), _emit_sums,
                                    _sums_reference)
