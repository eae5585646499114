"""int8 dot products of four bytes, accumulated in int32, and requantization of the sums.

`add_products` multiplies unsigned bytes x with signed bytes w and adds each four products to an
int32, so results do not depend on order or width.  Hosts with VNNI have one instruction for it
(vpdpbusd).  Others split the bytes into even and odd 16-bit integers, for an instruction that adds
the products of two (`pmaddwd`).

`emit_requantize` converts sums to bytes with the float32 parameters

    scale, least, most, magic

A sum times `scale` is clamped to [least, most].  Adding `magic`, which is ROUND_MAGIC plus an even
integer, then rounds half to even: a float32 of that magnitude has no fraction bits, and its last
byte is the result.
"""

from __future__ import annotations

import numpy as np

from .host import has_features
from .ir import IRValue, Vectors

__all__ = ["ROUND_MAGIC", "add_products", "emit_requantize", "multiply_words", "requantize"]

ROUND_MAGIC = np.float32(3 << 22)
VNNI = {4: ("avx512vnni", "avx512vl"), 8: ("avx512vnni", "avx512vl"), 16: ("avx512vnni",)}
PAIRS = {4: ("sse2", "sse2.pmadd.wd"), 8: ("avx2", "avx2.pmadd.wd"),
         16: ("avx512bw", "avx512.pmaddw.d.512")}
"""By the number of lanes: required features, and the name of the intrinsic."""


def add_products(v: Vectors, x: IRValue, w: IRValue, total: IRValue) -> IRValue:
    """total + x[0] w[0] + x[1] w[1] + x[2] w[2] + x[3] w[3] in every lane, [] being bytes."""
    if has_features(*VNNI[v.width]) or (v.width < 16 and has_features("avxvnni")):
        return v.intrinsic(f"x86.avx512.vpdpbusd.{32 * v.width}", v.vector, total, x, w)
    b, halves = v.builder, v.ir.VectorType(v.ir.IntType(16), 2 * v.width)
    eight, byte = (v.ir.Constant(halves, [each] * halves.count) for each in (8, 255))
    xs, ws = b.bitcast(x, halves), b.bitcast(w, halves)
    even = _pairs(v, b.and_(xs, byte), b.ashr(b.shl(ws, eight), eight))
    odd = _pairs(v, b.lshr(xs, eight), b.ashr(ws, eight))
    return b.add(total, b.add(even, odd))


def multiply_words(word: np.int32, weights: np.ndarray) -> np.ndarray:
    """Reference of `add_products`: the products of one word with many."""
    x = np.array([word]).view(np.uint8).astype(np.int32)
    return weights.view(np.int8).reshape(-1, 4).astype(np.int32) @ x


def _pairs(v: Vectors, x: IRValue, w: IRValue) -> IRValue:
    """x[0] w[0] + x[1] w[1] in every lane, [] being its two 16-bit integers."""
    feature, name = PAIRS[v.width]
    if has_features(feature):
        return v.intrinsic(f"x86.{name}", v.vector, x, w)
    b, word = v.builder, v.ir.IntType(32)
    wide = v.ir.VectorType(word, 2 * v.width)
    products, lanes = b.mul(b.sext(x, wide), b.sext(w, wide)), v.ir.VectorType(word, v.width)
    return b.add(*(b.shuffle_vector(products, products, v.ir.Constant(
        lanes, list(range(first, 2 * v.width, 2)))) for first in (0, 1)))


def emit_requantize(v: Vectors, total: IRValue, params: IRValue) -> IRValue:
    """Requantized bytes of a vector of sums; `params` points to the four parameters."""
    b, ir = v.builder, v.ir
    scale, least, most, magic = (v.broadcast(v.at(params, i)) for i in range(4))
    value = b.fmul(b.sitofp(total, scale.type), scale)
    value = b.select(b.fcmp_ordered(">", value, least), value, least)
    value = b.select(b.fcmp_ordered("<", value, most), value, most)
    words = b.bitcast(b.fadd(value, magic), total.type)
    return b.trunc(words, ir.VectorType(ir.IntType(8), v.width))


def requantize(totals: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Reference of `emit_requantize`: uint8."""
    scale, least, most, magic = params
    value = np.minimum(np.maximum(totals.astype(np.float32) * scale, least), most)
    return (np.rint(value).astype(np.int32) + int(magic - ROUND_MAGIC)).astype(np.uint8)
