"""Functions that NumPy lacks: erf, erfinv, gamma, gammaln, digamma, in double precision.

They are written without branches, in operations that are the same for arrays and scalars, so one
source serves both: called here they take arrays, and `kernel_math` compiles the same functions for
scalars.  All names they use besides one another are NumPy's, and `power`.

Accuracy: 2e-15 relative for erf and erfinv, 2e-14 for gamma; for gammaln and digamma 1e-14
relative to max(1, |y|) (both cross zero).
"""

from __future__ import annotations

import math

from numpy import abs, exp, floor, log, log1p, maximum, minimum, sin, sqrt, tan, where

__all__ = ["digamma", "erf", "erfinv", "gamma", "gammaln"]

PI = math.pi
TINY = 1e-300

_ERF = tuple((-1) ** n * 2 / math.sqrt(math.pi) / (math.factorial(n) * (2 * n + 1))
             for n in range(20))
"""Taylor series of erf(x) / x in x^2: the next term is below 1e-17 for |x| <= 1."""

_ERFC = (
    1.6242284740077591e-07, 0.2820885729320229, 0.2822051417376623, 0.24562975816641905,
    0.185316412975862, 0.03477897668837144, 0.19483233899524952, -0.6720587822190289,
    1.3907243547276613, -2.548579515162772, 3.3141789939074116, -2.808469620081249,
    1.4993273861992589, -0.4641503100512702, 0.06417709956997757,
)  # fmt: skip
"""erfc(x) exp(x^2) as a polynomial in 1 / (1 + x / 2), interpolated at Chebyshev nodes for x from
1 to 6; the error is below 1e-16 there."""

_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
)  # fmt: skip
"""Lanczos' approximation of the gamma function with g = 7 (P. Godfrey's coefficients)."""

_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""Bernoulli numbers B(2n) / 2n of the asymptotic series of digamma."""


def _polynomial(t, coefficients):
    total = 0 * t
    for coefficient in coefficients[::-1]:
        total = total * t + coefficient
    return total


def _erfc_tail(a):
    """erfc(a) for a >= 1; from 6 on, where it is below 3e-17, erfc(6)."""
    a = minimum(a, 6.0)
    return exp(-a * a) * _polynomial(1 / (1 + 0.5 * a), _ERFC)


def erf(x):
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    a = abs(x)
    small = minimum(a, 1.0)
    size = where(a <= 1, small * _polynomial(small * small, _ERF), 1 - _erfc_tail(maximum(a, 1.0)))
    return where(x < 0, -size, where(x > 0, size, x))


def erfinv(x):
    """The inverse of erf: Winitzki's closed approximation, then two of Halley's steps."""
    a = abs(x)
    inside = minimum(a, 1 - 1.2e-16)
    logarithm = log1p(-inside) + log1p(inside)
    c = 4.3307467508493995 + 0.5 * logarithm  # 2 / (pi k) with k = 0.147
    # sqrt(sqrt(c^2 - l / k) - c), free of cancellation near 0
    inner = -logarithm / 0.147
    y = sqrt(inner / (sqrt(c * c + inner) + c))
    y = _halley(y, inside)
    y = _halley(y, inside)
    y = where(a < 1, y, where(a == 1, math.inf, math.nan))
    return where(x < 0, -y, where(a > 0, y, x))


def _halley(y, a):
    """One step towards erf(y) = a, with the error taken where it does not cancel."""
    tail = (1 - a) - where(y < 1, 1 - erf(y), _erfc_tail(maximum(y, 1.0)))
    error = where(a < 0.5, erf(y) - a, tail)
    newton = error * 0.886226925452758 * exp(y * y)
    return y - newton / (1 + y * newton)


def _lanczos(x):
    """The sum of Lanczos' approximation of gamma(x), for x >= 0.5."""
    total = _LANCZOS[1] / x
    for k in range(2, 9):
        total = total + _LANCZOS[k] / (x + (k - 1))
    return total + _LANCZOS[0]


def _stirling(z):
    """log of gamma(z) over its leading term sqrt(2 pi) z^(z - 1/2) e^-z, for z >= 20."""
    t = 1 / (z * z)
    return (1 / 12 - t * (1 / 360 - t * (1 / 1260 - t / 1680))) / z


def gamma(x):
    """The gamma function; nan at negative integers, infinite at 0."""
    low = x < 0.5
    z = where(low, 1 - x, x)
    large = z > 20
    # Lanczos' sum loses digits as z grows; there Stirling's series has converged.
    t = where(large, z, z + 6.5)
    factor = where(large, exp(_stirling(maximum(z, 20.0))), _lanczos(z))
    # The power is split into two square roots: it overflows before the product does.
    half = power(t, 0.5 * (z - 0.5))
    value = 2.5066282746310002 * half * exp(-t) * half * factor
    value = where(z > 171.7, math.inf, value)
    # Factorials are rounded to integers: conversions to integer types truncate.
    value = where(z == floor(z), floor(value + 0.5), value)
    reflected = PI / (_sin_pi(x) * value)
    pole = where(x == 0, 1 / x, math.nan)
    return where(low, where(x == floor(x), pole, reflected), value)


def gammaln(x):
    """log |gamma(x)|; infinite at 0 and the negative integers."""
    low = x < 0.5
    z = where(low, 1 - x, x)
    value = (z - 0.5) * (log(z + 6.5) - 1) - 6.081061466795327 + log(_lanczos(z))
    reflected = 1.1447298858494002 - log(abs(_sin_pi(x))) - value
    return where(low, where(x == floor(x), math.inf, reflected), value)


def digamma(x):
    """The derivative of gammaln, infinite at 0 and the negative integers (as in MXNet).

    The argument is shifted up by 10, where the asymptotic series has converged.
    """
    low = x <= 0
    z = where(low, 1 - x, x)
    shift = 1 / z
    for k in range(1, 10):
        shift = shift + 1 / (z + k)
    z = z + 10
    t = 1 / (z * z)
    value = log(z) - 0.5 / z - t * _polynomial(t, _DIGAMMA) - shift
    whole = floor(x + 0.5)
    reflected = where(x == whole, math.inf, value - PI / tan(PI * (x - whole)))
    return where(low, reflected, value)


def _sin_pi(x):
    """sin(pi x), exact near its zeros."""
    whole = floor(x + 0.5)
    sine = sin(PI * (x - whole))
    return where(whole - 2 * floor(0.5 * whole) == 0, sine, -sine)


def power(a, b):
    """a ** b."""
    return a**b
