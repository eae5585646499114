"""Probability density functions: a thread per sample.

The formulas are those of the CPU, in double precision as there.  Samples that share a parameter
write their contributions to its gradient to scratch, which is then reduced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch import implements
from ...op import Call, Spec
from ...random import pdf
from ...random.pdf import Density
from ...shape import size_of
from ..elementwise.formula_op import COPY, run_program
from ..lib.kernel_math import MATH, SCALAR_NUMPY, scalar_function
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

double = np.float64
exp, log, digamma, gammaln = (MATH[name] for name in ("exp", "log", "digamma", "gammaln"))

NAMES: dict[str, Any] = {"np": SCALAR_NUMPY, "digamma": digamma, "gammaln": gammaln}
"""The names that formulas use."""
for _function in (pdf._failures, pdf._failures_slopes):
    NAMES[_function.__name__] = scalar_function(_function, NAMES)


def _formula(method: Callable, params: int) -> Callable:
    """A method of a `Density` as a scalar function (x, a, b), for one parameter or two."""
    formula = scalar_function(method, NAMES)
    if params == 1:
        return device_function(lambda x, a, b: formula(0, x, a))
    return device_function(lambda x, a, b: formula(0, x, a, b))


# -- scalar samples -----------------------------------------------------------------------------


@cache
def _density_kernel(kind: type[Density], is_log: bool) -> CudaKernel:
    formula = _formula(kind.log_density, len(kind.inputs) - 1)

    @grid_stride
    def density(i, x, a, b, y, draws, size):
        cell = i // draws
        value = formula(double(x[i]), double(a[cell]), double(b[cell]))
        y[i] = value if is_log else exp(value)
    return density


@cache
def _slopes_kernel(kind: type[Density], is_log: bool, sampled: bool) -> CudaKernel:
    params = len(kind.inputs) - 1
    formula, two = _formula(kind.slopes, params), params == 2

    @grid_stride
    def density_slopes(i, g, x, a, b, y, gx, ga, gb, draws, size):
        cell = i // draws
        weight = double(g[i]) if is_log else double(g[i]) * double(y[i])
        slopes = formula(double(x[i]), double(a[cell]), double(b[cell]))
        if sampled:
            gx[i] = weight * slopes[0]
        ga[i] = weight * slopes[1]
        if two:
            gb[i] = weight * slopes[2]
    return density_slopes


# -- vector samples -----------------------------------------------------------------------------


@cache
def _dirichlet_kernel(kind: type[Density], is_log: bool) -> CudaKernel:
    @grid_stride
    def density(i, x, alpha, b, y, draws, size):
        first, value, total = i // draws * size, double(0), double(0)
        for k in range(size):
            a = double(alpha[first + k])
            value += (a - 1) * log(double(x[i * size + k])) - gammaln(a)
            total += a
        value += gammaln(total)
        y[i] = value if is_log else exp(value)
    return density


@cache
def _dirichlet_slopes_kernel(kind: type[Density], is_log: bool, sampled: bool) -> CudaKernel:
    @grid_stride
    def density_slopes(i, g, x, alpha, b, y, gx, ga, gb, draws, size):
        weight = double(g[i]) if is_log else double(g[i]) * double(y[i])
        first, total = i // draws * size, double(0)
        for k in range(size):
            total += double(alpha[first + k])
        total = digamma(total)
        for k in range(size):
            a, value = double(alpha[first + k]), double(x[i * size + k])
            if sampled:
                gx[i * size + k] = weight * (a - 1) / value
            ga[i * size + k] = weight * (log(value) + total - digamma(a))
    return density_slopes


def _sizes(op: Density, sample: Array, param: Array) -> tuple[int, int]:
    """(samples that share a parameter, elements of a sample)."""
    size = sample.shape[-1] if op.event else 1
    return sample.size // max(param.size, 1), size


def _forward(op: Density, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (sample, *params), y = ins, outs[0]
    make: Any = _dirichlet_kernel if op.event else _density_kernel
    return each(make(type(op), op.is_log), y.size, sample, params[0], params[-1], y,
                *_sizes(op, sample, params[0]))


def _backward(op: Density, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    (g, sample, *params, y), (gx, *grads) = ins, outs
    draws, size = _sizes(op, sample, params[0])
    make: Any = _dirichlet_slopes_kernel if op.event else _slopes_kernel
    parts = call.scratch
    launches = each(make(type(op), op.is_log, gx is not None), g.size, g, sample, params[0],
                    params[-1], y, g if gx is None else gx, parts[0], parts[-1], draws, size)
    for part, grad in zip(parts, grads, strict=True):
        if grad is not None:
            launches += run_program(COPY, [part.reshape(-1, draws, size)],
                                    [grad.reshape(-1, 1, size)])
    return launches


def _parts(op: Density, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """The contribution of every sample to the gradients of parameters."""
    return [Spec((size_of(ins[1].shape),), np.dtype(double))] * (len(ins) - 3)


implements(Density, "cuda", _forward, _backward, backward_scratch=_parts)
