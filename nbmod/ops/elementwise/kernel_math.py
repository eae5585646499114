"""Functions of one element that generated kernels call.

Calls of libm (`expf`, ...) prevent vectorization, so the functions that networks call for every
element (exp, log, tanh, erf, ...) are written out here for float32 in the manner of Cephes, range
reduction and a polynomial without branches, and run ten times as fast.  They are accurate to two
units in the last place (exp: one, expm1: four); infinities, NaN and overflow are as in C, denormal
results of exp are 0.

Names end in the element type they compute in.  The other functions are those of `special`,
compiled for scalars, and the conversions to and from half precision, which numba's CPU
target lacks: float16 arrays are passed to kernels as uint16.
"""

from __future__ import annotations

from types import FunctionType

import numpy as np
from numpy import float32, float64, floor, int32, uint16

from ..build.inlining import Inlined, inlined
from . import special

__all__ = ["SPECIAL"]

INFINITY = float32(np.inf)
TURNS = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E410
"""1 / (2 pi), times 2**192."""
FAR = float32(2 ** 30)
"""From here on, angles of float32 are reduced exactly."""


@inlined
def maximum(a, b):
    """The larger; NaN if either is."""
    return a if a > b or a != a else b


@inlined
def minimum(a, b):
    """The smaller; NaN if either is."""
    return a if a < b or a != a else b


@inlined
def mod(a, b):
    """Remainder with the sign of the divisor; 0 where that is 0."""
    return a % b if b != 0 else b - b


# -- float32 ---------------------------------------------------------------------------------


@inlined
def _bits(x):
    return float32(x).view(int32)


@inlined
def _from_bits(bits):
    return int32(bits).view(float32)


@inlined
def exp32(x):
    """e**x = 2**n * e**r with |r| <= log(2) / 2, where the series (Chebyshev fit) is short."""
    n = floor(x * float32(1.44269504) + float32(0.5))
    r = (x - n * float32(0.693359375)) + n * float32(2.12194440e-4)
    p = float32(1.9890981e-04)
    p = p * r + float32(1.3933642e-03)
    p = p * r + float32(8.3333105e-03)
    p = p * r + float32(4.1666467e-02)
    p = p * r + float32(1.6666667e-01)
    p = p * r + float32(0.5)
    p = p * (r * r) + r + float32(1)
    result = _from_bits(_bits(p) + (int32(n) << 23))
    result = float32(0) if x < float32(-87.33654) else result
    return INFINITY if x >= float32(88.72284) else result


@inlined
def expm1_32(x):
    """e**x - 1, by its series near 0."""
    p = float32(1.9890981e-04)
    p = p * x + float32(1.3933642e-03)
    p = p * x + float32(8.3333105e-03)
    p = p * x + float32(4.1666467e-02)
    p = p * x + float32(1.6666667e-01)
    p = p * x + float32(0.5)
    small = x + p * (x * x) if x != float32(0) else x   # -0 stays
    return small if abs(x) < float32(0.34) else exp32(x) - float32(1)


@inlined
def log32(x):
    """log(2**e * (1 + f)) = e log(2) + log(1 + f), with 1 + f between sqrt(1/2) and sqrt(2)."""
    tiny = x < float32(1.17549435e-38)
    bits = _bits(x * (float32(8388608) if tiny else float32(1)))
    e = int32(int32(bits - 0x3F3504F3) >> 23)
    f = _from_bits(bits - int32(e << 23)) - float32(1)
    k = float32(e) - (float32(23) if tiny else float32(0))
    p = float32(6.971612e-02)
    p = p * f + float32(-1.1479734e-01)
    p = p * f + float32(1.168542e-01)
    p = p * f + float32(-1.2425687e-01)
    p = p * f + float32(1.4249058e-01)
    p = p * f + float32(-1.6667803e-01)
    p = p * f + float32(2.0000716e-01)
    p = p * f + float32(-2.4999997e-01)
    p = p * f + float32(3.3333331e-01)
    square = f * f
    small = p * (f * square) - k * float32(2.12194440e-4) - float32(0.5) * square
    result = (f + small) + k * float32(0.693359375)
    result = result if x < INFINITY else x
    result = result if x > float32(0) else float32(np.nan)
    return -INFINITY if x == float32(0) else (x if x != x else result)


@inlined
def log1p_32(x):
    """log(1 + x), with the digits that rounding 1 + x drops put back."""
    u = float32(1) + x
    back = ((u - float32(1)) - x) / u
    # For a u of 0 or infinity there is nothing to put back, and `back` is NaN.
    result = log32(u) - (back if abs(back) < float32(1) else float32(0))
    return result if x != float32(0) else x     # -0 stays


@inlined
def tanh32(x):
    """1 - 2 / (e**2x + 1), and a series (Chebyshev fit) near 0."""
    t = x * x
    p = float32(2.2695018e-03)
    p = p * t + float32(-8.323187e-03)
    p = p * t + float32(2.1762503e-02)
    p = p * t + float32(-5.395846e-02)
    p = p * t + float32(1.333330e-01)
    p = p * t + float32(-3.3333334e-01)
    a = abs(x)
    size = float32(1) - float32(2) / (exp32(a + a) + float32(1))
    large = size if x > float32(0) else -size
    small = x + p * (t * x) if x != float32(0) else x   # -0 stays
    return small if a < float32(0.625) else large


def _turns(exponent):
    """2**exponent radians as a part of a turn, in two terms; the first has 29 bits."""
    part = (TURNS << exponent) % 2 ** 192
    return (part >> 163) / 2 ** 29, part % 2 ** 163 / 2 ** 192


# For the last bit of every number from FAR on; NaN for infinity.
FAR_TURNS, FAR_RESTS = np.array([*map(_turns, range(7, 105)), (np.nan, 0)]).T.copy()


@inlined
def _near(x):
    """The angle x, where that is `FAR`, within one turn: in a product of 24 and 29 bits nothing is
    rounded (Payne and Hanek, 1983)."""
    bits = _bits(x) & 0x7FFFFFFF
    power = uint16(max(int32((bits >> 23) - 157), int32(0)))
    digits = float64((bits & 0x7FFFFF) | 0x800000)
    turns = digits * FAR_TURNS[power]
    size = ((turns - floor(turns)) + digits * FAR_RESTS[power]) * 6.283185307179586
    return size if x > float32(0) else -size


@inlined
def _turn(x):
    """Cody-Waite range reduction: x as a quadrant (0 to 3) and a remainder within pi / 4."""
    angle = _near(x) if abs(x) >= FAR else float64(x)
    quarters = floor(angle * 0.6366197723675814 + 0.5)
    rest = (angle - quarters * 1.5707963267948966) - quarters * 6.123233995736766e-17
    return int32(quarters - 4 * floor(quarters * 0.25)), float32(rest)


@inlined
def _sine(r):
    t = r * r
    p = float32(2.7249926e-06)
    p = p * t + float32(-1.9840087e-04)
    p = p * t + float32(8.3333319e-03)
    p = p * t + float32(-1.6666667e-01)
    return r + p * (t * r) if r != float32(0) else r    # -0 stays


@inlined
def _cosine(r):
    t = r * r
    p = float32(2.4463788e-05)
    p = p * t + float32(-1.3887589e-03)
    p = p * t + float32(4.1666649e-02)
    p = p * t + float32(-0.5)
    return float32(1) + p * t


@inlined
def sin32(x):
    """Sine of x radians, by its series (Chebyshev fit) in a quarter turn."""
    quarter, r = _turn(x)
    value = _cosine(r) if quarter & 1 else _sine(r)
    return -value if quarter & 2 else value


@inlined
def cos32(x):
    """Cosine of x radians: the sine a quarter turn ahead."""
    quarter, r = _turn(x)
    value = _sine(r) if quarter & 1 else _cosine(r)
    return -value if (quarter + 1) & 2 else value


@inlined
def erf32(x):
    """A series near 0, 1 - e**(-x * x) times a polynomial in 1 / (1 + |x| / 2) beyond 1."""
    t = x * x
    p = float32(7.875874871388078e-05)
    p = p * t + float32(-0.000801686430349946)
    p = p * t + float32(0.005189087241888046)
    p = p * t + float32(-0.02685421146452427)
    p = p * t + float32(0.11283594369888306)
    p = p * t + float32(-0.3761262595653534)
    p = p * t + float32(1.1283791065216064)
    a = minimum(abs(x), float32(4))
    u = float32(1) / (float32(1) + float32(0.5) * a)
    q = float32(-0.05363042652606964)
    q = q * u + float32(-0.057065200060606)
    q = q * u + float32(0.40349504351615906)
    q = q * u + float32(0.1014954149723053)
    q = q * u + float32(0.33075714111328125)
    q = q * u + float32(0.2736343443393707)
    q = q * u + float32(0.0006051184027455747)
    size = float32(1) - exp32(-a * a) * q
    large = size if x > float32(0) else -size
    return x * p if abs(x) < float32(1) else large


# -- the functions of `special` for scalars --------------------------------------------------


@inlined
def _where(condition, a, b):
    return a if condition else b


_SCALARS = {**vars(special), "where": _where, "maximum": maximum, "minimum": minimum}


def _scalar(name: str) -> Inlined:
    """The function of `special` for scalars: the same code with other globals."""
    function = getattr(special, name)
    return inlined(FunctionType(function.__code__, _SCALARS, name))


for _name in [name for name, value in vars(special).items()
              if isinstance(value, FunctionType) and value.__module__ == special.__name__]:
    _SCALARS[_name] = _scalar(_name)

SPECIAL = special.__all__
erf64, erfinv64, gamma64 = _SCALARS["erf"], _SCALARS["erfinv"], _SCALARS["gamma"]
gammaln64, digamma64 = _SCALARS["gammaln"], _SCALARS["digamma"]


def _narrow(x):
    """A float32 function computed in double precision; those below have others for erf64."""
    return float32(erf64(float64(x)))


erfinv32, gamma32, gammaln32, digamma32 = (
    inlined(FunctionType(_narrow.__code__, {"float32": float32, "float64": float64, "erf64": wide}))
    for wide in (erfinv64, gamma64, gammaln64, digamma64))


# -- half precision ---------------------------------------------------------------------------


@inlined
def from_half(half):
    """The float32 value of the float16 bits `half` (uint16)."""
    whole = int32(int32(half) & 0x7FFF)
    bits = whole << 13
    # Denormals are scaled as integers: as float32 bits they would be denormal, too, hence 0.
    size = _from_bits(bits) * float32(5.192296858534828e33)
    size = float32(whole) * float32(5.960464477539063e-08) if whole < 0x400 else size
    size = _from_bits(bits | 0x7F800000) if bits >= 0x0F800000 else size
    return -size if half & uint16(0x8000) else size


@inlined
def to_half(x):
    """The bits of the nearest float16, ties to even, as uint16."""
    bits = _bits(x) & 0x7FFFFFFF
    # Below the smallest normal float16: adding 0.5 makes the adder round to the denormal grid.
    small = _bits(_from_bits(bits) + float32(0.5)) - 0x3F000000
    normal = int32(bits - 0x38000000 + 0xFFF + ((bits >> 13) & 1)) >> 13
    half = small if bits < 0x38800000 else normal
    half = 0x7C00 if bits >= 0x477FF000 else half
    half = 0x7E00 if bits > 0x7F800000 else half
    return uint16(half | ((_bits(x) >> 16) & 0x8000))
