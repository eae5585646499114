"""Elementary functions of vectors of float32 and float64, written with `ir.Vectors`.

Not for kernels with fastmath, which may optimise the rounding steps away.
"""

from __future__ import annotations

from typing import NamedTuple

from .ir import IRValue, Vectors

__all__ = ["exp", "log_of_one"]


class Exponential(NamedTuple):
    """Constants of `exp` for one type.

    digits, bias   mantissa bits; exponent of 1
    whole          added to a value below half of it, this rounds to an integer
    high, low      log(2) in two parts (Cody and Waite), the first exact in products with integers
    least, most    e**x is 0 below, infinity above; n - 1 is a valid exponent in between
    series         (e**r - 1 - r) / r**2 for |r| <= log(2) / 2, highest power first (minimax)
    """

    digits: int
    bias: int
    whole: float
    high: float
    low: float
    least: float
    most: float
    series: tuple[float, ...]


EXPONENTIALS = {
    32: Exponential(23, 127, 1.5 * 2 ** 23, 0.693359375, -2.12194440e-4, -87.4, 89, (
        1.9890981e-04, 1.3933642e-03, 8.3333105e-03, 4.1666467e-02, 1.6666667e-01, 0.5)),
    64: Exponential(52, 1023, 1.5 * 2 ** 52, 0.6931467056274414, 4.749325039031787e-7,
                    -708.5, 710, (
        2.4978388889190675e-08, 2.7625188879462333e-07, 2.7557640847462946e-06,
        2.4801508677887574e-05, 0.0001984126946622983, 0.0013888888926799616,
        0.008333333333500037, 0.04166666666660395, 0.16666666666666433, 0.5)),
}
LOG2_E = 1.4426950408889634


def exp(v: Vectors, x: IRValue) -> IRValue:
    """e**x = 2**n * e**r with an integer n; results below 2**-125 (float64 2**-1021) are 0.

    r = high + low.  high is exact and added separately, so the rounding error of r is not lost.
    """
    b, kind = v.builder, EXPONENTIALS[v.bits]
    x = v.clamp(x, v.constant(kind.least), v.constant(kind.most))
    shifted = v.fma(x, v.constant(LOG2_E), v.constant(kind.whole))
    n = b.fsub(shifted, v.constant(kind.whole))
    high = v.fma(n, v.constant(-kind.high), x)
    low = b.fmul(n, v.constant(-kind.low))
    r = b.fadd(high, low)
    series = v.constant(kind.series[0])
    for factor in kind.series[1:]:
        series = v.fma(series, r, v.constant(factor))
    half_power = _power(v, shifted, kind)
    above_one = b.fadd(v.fma(series, b.fmul(r, r), low), high)
    half = v.fma(above_one, half_power, half_power)
    return b.fadd(half, half)


def _power(v: Vectors, shifted: IRValue, kind: Exponential) -> IRValue:
    """2**(n - 1), which is finite for all n; the lowest bits of `shifted` are those of n."""
    ir, b = v.ir, v.builder
    lane = ir.IntType(v.bits)
    bits = ir.VectorType(lane, v.width)

    def all_of(value: int) -> IRValue:
        return ir.Constant(bits, [value] * v.width)

    exponent = b.shl(b.bitcast(shifted, bits), all_of(kind.digits))
    return b.bitcast(b.add(exponent, all_of((kind.bias - 1) << kind.digits)), v.vector)


def log_of_one(v: Vectors, x: IRValue) -> IRValue:
    """log(x) of an x that is equal in all lanes, by the C library."""
    scalar = v.builder.extract_element(x, v.ir.IntType(32)(0))
    return v.splat(v.intrinsic(f"log.f{v.bits}", v.scalar, scalar))
