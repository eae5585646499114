"""Words of four bytes: their products, summed, and what becomes of sums on their way to bytes.

`add_products` is to such words what an FMA is to numbers: x has unsigned bytes, w signed ones, and
a sum is an int32, so nothing is ever rounded, and no order of terms or width of vectors changes a
bit.  Hosts with VNNI have one instruction for it.  Others take the bytes apart into halves of
words, the even and the odd ones, for an instruction that adds the products of two (`pmaddwd`).

`narrowed` makes bytes of sums.  The float32 numbers it is told are

    scale, least, most, whole

A sum times `scale` is kept within `least` and `most`.  Adding `whole`, which is WHOLE and perhaps
an even number more, then rounds it, halves to the even number: a float32 of that size has no digits
behind the point, and its last byte is the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .host import has

__all__ = ["WHOLE", "add_products", "narrow", "narrowed"]

WHOLE = np.float32(3 << 22)
VNNI = {4: ("avx512vnni", "avx512vl"), 8: ("avx512vnni", "avx512vl"), 16: ("avx512vnni",)}
PAIRS = {4: ("sse2", "sse2.pmadd.wd"), 8: ("avx2", "avx2.pmadd.wd"),
         16: ("avx512bw", "avx512.pmaddw.d.512")}
"""By the number of lanes: features that it takes, and the name of an instruction."""


def _call(v: Any, name: str, values: list[Any]) -> Any:
    """A vector of int32, computed by an instruction of x86."""
    from numba.core import cgutils

    kind = v.ir.FunctionType(v.vector, [value.type for value in values])
    function = cgutils.get_or_insert_function(v.builder.module, kind, f"llvm.x86.{name}")
    return v.builder.call(function, values)


def add_products(v: Any, x: Any, w: Any, total: Any) -> Any:
    """total + x[0] w[0] + x[1] w[1] + x[2] w[2] + x[3] w[3] in every lane, [] being bytes."""
    if has(*VNNI[v.width]) or (v.width < 16 and has("avxvnni")):
        return _call(v, f"avx512.vpdpbusd.{32 * v.width}", [total, x, w])
    b, halves = v.builder, v.ir.VectorType(v.ir.IntType(16), 2 * v.width)
    eight, byte = (v.ir.Constant(halves, [each] * halves.count) for each in (8, 255))
    xs, ws = b.bitcast(x, halves), b.bitcast(w, halves)
    even = _pairs(v, b.and_(xs, byte), b.ashr(b.shl(ws, eight), eight))
    odd = _pairs(v, b.lshr(xs, eight), b.ashr(ws, eight))
    return b.add(total, b.add(even, odd))


def _pairs(v: Any, x: Any, w: Any) -> Any:
    """x[0] w[0] + x[1] w[1] in every lane, [] being its two halves."""
    feature, name = PAIRS[v.width]
    if has(feature):
        return _call(v, name, [x, w])
    b, word = v.builder, v.ir.IntType(32)
    wide = v.ir.VectorType(word, 2 * v.width)
    products, lanes = b.mul(b.sext(x, wide), b.sext(w, wide)), v.ir.VectorType(word, v.width)
    return b.add(*(b.shuffle_vector(products, products, v.ir.Constant(
        lanes, list(range(first, 2 * v.width, 2)))) for first in (0, 1)))


def narrowed(v: Any, total: Any, numbers: Any) -> Any:
    """Bytes of a vector of sums; `numbers` is where the four are."""
    b, ir = v.builder, v.ir
    scale, least, most, whole = (v.one(v.at(numbers, i)) for i in range(4))
    value = b.fmul(b.sitofp(total, scale.type), scale)
    value = b.select(b.fcmp_ordered(">", value, least), value, least)
    value = b.select(b.fcmp_ordered("<", value, most), value, most)
    words = b.bitcast(b.fadd(value, whole), total.type)
    return b.trunc(words, ir.VectorType(ir.IntType(8), v.width))


def narrow(totals: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The twin of `narrowed`: uint8."""
    scale, least, most, whole = numbers
    value = np.minimum(np.maximum(totals.astype(np.float32) * scale, least), most)
    return (np.rint(value).astype(np.int32) + int(whole - WHOLE)).astype(np.uint8)
