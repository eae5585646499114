"""Fft, Ifft and CountSketch.

A transform of length d = r1 r2 ... takes one pass per radix r (the mixed-radix Stockham FFT, whose
output is in natural order): from the transforms of length L of every (d / L)-th element it computes
those of length L r, each element a sum of r terms by a thread of its own.  Primes are no special
case; a prime length is the direct sum.

CountSketch (Charikar et al., 2002) has a thread per element of the result, which gathers the
columns hashed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...contrib.spectrum import CountSketch, Fft, Ifft
from ...dispatch import implements
from ...op import Call, Spec
from ..lib.fill import first_gradient
from ..lib.kernel_math import kernel, real_of, thread, threads
from ..lib.merge_sort import find_starts, sort_rows, sort_scratch
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from ..tensor.indexing import INT32, whole_function

WIDEST = 16
"""The largest radix, unless a prime factor is larger: fewer passes, and more arithmetic."""

# -- Fourier transforms -------------------------------------------------------------------------


def _factors(length: int) -> list[int]:
    """Radices whose product is `length`: prime factors, combined up to `WIDEST`."""
    primes, left, prime = [], length, 2
    while left > 1:
        if prime * prime > left:
            prime = left
        while left % prime == 0:
            primes.append(prime)
            left //= prime
        prime += 1
    factors = [1]
    for prime in reversed(primes):
        if factors[-1] * prime <= WIDEST:
            factors[-1] *= prime
        else:
            factors.append(prime)
    return factors


@cache
def _pass_kernel(real: type[np.floating], real_in: bool, real_out: bool) -> CudaKernel:
    """A pass from x to y, complex pairs, or only real parts with `real_in` or `real_out`.

    With `before` = L, `terms` = r, `after` = d / (L r) and W = exp(+-2 pi i / (L r)),

        y[k, p] = sum over u < r of W^(u p) x[k + u after, p mod L]    (k < after, p < L r)

    and `roots` holds the powers of exp(+-2 pi i / d).
    """
    @kernel
    def fourier(x, y, roots, before, terms, after, count):
        span = before * terms
        size = span * after
        for i in range(thread(), count, threads()):
            row, at = i // size * size, i % size
            k, p = at // span, at % span
            step, turn, source = p * after, 0, row + k * before + p % before
            one, other = real(0), real(0)
            for _ in range(terms):
                c, s = roots[2 * turn], roots[2 * turn + 1]
                if real_in:
                    one += real(x[source]) * c
                    other += real(x[source]) * s
                else:
                    a, b = real(x[2 * source]), real(x[2 * source + 1])
                    one += a * c - b * s
                    other += a * s + b * c
                source += after * before
                turn += step
                turn -= size if turn >= size else 0
            if real_out:
                y[i] = one
            else:
                y[2 * i], y[2 * i + 1] = one, other
    return fourier


def _transform(x: Array, y: Array, scratch: Sequence[Array], inverse: bool) -> list[Launch]:
    """Launches of the transform of real x (..., d) to complex pairs y (..., 2 d); if `inverse`, of
    the unscaled inverse, from pairs to real parts."""
    if not y.size:
        return []
    length, count = min(x.shape[-1], y.shape[-1]), min(x.size, y.size)
    factors, real, launches = _factors(length), real_of(y.dtype), []
    turns = np.arange(length) * (2 * np.pi / length) * (1 if inverse else -1)
    roots = y.device.from_numpy(np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(real))
    stages, before = [x, *(scratch[k % 2] for k in range(len(factors) - 1)), y], 1
    for k, terms in enumerate(factors):
        last = k == len(factors) - 1
        make = _pass_kernel(real, k == 0 and not inverse, last and inverse)
        launches += each(make, count, stages[k], stages[k + 1], roots, before, terms,
                         length // (before * terms))
        before *= terms
    return [launch._replace(own=(roots,)) for launch in launches]


def _wave_scratch(op: Fft | Ifft, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Ping-pong buffers of pairs between the passes."""
    x, y = ins[0], outs[0]
    count, between = min(x.size, y.size), len(_factors(min(x.shape[-1], y.shape[-1]))) - 1
    return [Spec((2 * count,), np.dtype(real_of(x.dtype)))] * min(between, 2)


def _to_pairs(op: Fft | Ifft, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _transform(ins[0], outs[0], call.scratch, False)


def _to_reals(op: Fft | Ifft, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _transform(ins[0], outs[0], call.scratch, True)


implements(Fft, "cuda", _to_pairs, _to_reals, _wave_scratch, _wave_scratch)
implements(Ifft, "cuda", _to_reals, _to_pairs, _wave_scratch, _wave_scratch)

# -- CountSketch --------------------------------------------------------------------------------


@cache
def _column_function(dtype: np.dtype) -> Callable:
    whole = whole_function(dtype)

    @device_function
    def column(h, row, k, a, b):
        return np.int32(whole(h[k]))
    return column


@cache
def _sketch_kernel(real: type[np.floating]) -> CudaKernel:
    @grid_stride
    def sketch(i, x, s, where, starts, y, columns, size):
        first, total = i // columns * size, real(0)
        for at in range(starts[i % columns], starts[i % columns + 1]):
            k = where[at]
            total += real(x[first + k]) * real(s[k])
        y[i] = total
    return sketch


@cache
def _sketch_back_kernel(dtype: np.dtype, real: type[np.floating]) -> CudaKernel:
    column = _column_function(dtype)

    @grid_stride
    def sketch_back(i, g, h, s, gx, columns, size):
        k = i % size
        gx[i] = real(g[i // size * columns + column(h, 0, k, 0, 0)]) * real(s[k])
    return sketch_back


def _checked(op: CountSketch, h: Array) -> list[Any]:
    """The check on the host that columns are in range."""
    def check() -> None:
        op._columns(h.device.to_numpy(h))

    return [check]


def _forward(op: CountSketch, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    (x, h, s), (y,), (starts, *scratch) = ins, outs, call.scratch
    launches, (columns, where) = sort_rows(_column_function(h.dtype), h, (1, h.size), (0, 0),
                                           scratch)
    return [*_checked(op, h), *launches, *find_starts(columns, starts, h.size),
            *each(_sketch_kernel(real_of(x.dtype)), y.size, x, s, where, starts, y, op.out_dim,
                  h.size)]


@first_gradient
def _backward(op: CountSketch, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (g, h, s), gx = ins, outs[0]
    return each(_sketch_back_kernel(h.dtype, real_of(g.dtype)), gx.size, g, h, s, gx, op.out_dim,
                h.size)


implements(CountSketch, "cuda", _forward, _backward,
           lambda op, ins, outs: [Spec((op.out_dim + 1,), INT32),
                                  *sort_scratch(1, ins[1].size, INT32)])
