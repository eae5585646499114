"""Scalar functions that GPU kernels call: those of the formula language, and conversions.

On a device they come from `math`, which numba compiles for the type at hand.  The simulator runs
them on NumPy scalars, where `math` would raise errors and return double precision.  Kernels must
not use Python's `min` and `max`, which the CUDA target in numba 0.68 cannot compile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ...elementwise import special
from ..runtime.compiler import compiler
from ..runtime.launch import SIMULATED, cuda, device_function, kernel, thread, threads

__all__ = ["CASTS", "CBRTS", "MATH", "RINTS", "SCALAR_NUMPY", "SIMULATED", "cuda", "kernel",
           "maximum", "minimum", "real_of", "scalar_function", "sum_type", "thread", "threads",
           "value_type", "whole"]

_NUMPY_NAMES = ("floor", "ceil", "trunc", "sqrt", "exp", "log", "log2", "log10", "log1p", "expm1",
                "sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "arcsin", "arccos", "arctan",
                "arcsinh", "arccosh", "arctanh")

MATH = {name: getattr(np, name) if SIMULATED else getattr(math, name.replace("arc", "a"))
         for name in _NUMPY_NAMES}
"""The functions of the formula language by name; for `where` and `abs`, Python's own syntax."""


_LIBDEVICE: Any = None if SIMULATED else compiler().libdevice
RINTS = ({np.float32: np.rint, np.float64: np.rint} if SIMULATED else
         {np.float32: _LIBDEVICE.rintf, np.float64: _LIBDEVICE.rint})
"""By type, rounding to the nearest integer, ties to even."""
CBRTS = ({np.float32: np.cbrt, np.float64: np.cbrt} if SIMULATED else
         {np.float32: _LIBDEVICE.cbrtf, np.float64: _LIBDEVICE.cbrt})
"""By type, the real cube root."""


def real_of(dtype: DTypeLike) -> type[np.floating]:
    """The type in which tensors of `dtype` are computed: half precision is storage only."""
    return np.float64 if np.dtype(dtype) == np.float64 else np.float32


def sum_type(dtype: np.dtype) -> type[np.number]:
    """The type in which elements are added."""
    return real_of(dtype) if dtype.kind == "f" else np.int64


def value_type(dtype: np.dtype) -> type[np.number]:
    """The type of a single element in registers."""
    return real_of(dtype) if dtype.kind == "f" else dtype.type


@device_function
def maximum(a, b):
    """The larger; NaN if either is."""
    return a if a > b or a != a else b


@device_function
def minimum(a, b):
    """The smaller; NaN if either is."""
    return a if a < b or a != a else b


@device_function
def mod(a, b):
    """Remainder with the sign of the divisor; 0 where that is 0."""
    return a % b if b != 0 else a - a


@device_function
def cbrt(x):
    """Real cube root, in double precision."""
    return np.cbrt(x) if SIMULATED else math.copysign(abs(x) ** (1 / 3), x)


@device_function
def whole(x):
    """A real number truncated to a 64-bit integer."""
    return np.float64(x).astype(np.int64) if SIMULATED else np.int64(x)


def _cast(name: str):
    """A conversion to an integer type as in C: truncated, then reduced to its low bits."""
    kind = np.dtype(name).type

    @device_function
    def cut(x):
        return np.asarray(x).astype(np.int64).astype(kind)[()] if SIMULATED else kind(np.int64(x))
    return cut


CASTS = {name: _cast(name) for name in ("int8", "uint8", "int16", "uint16", "int32", "int64")}


@device_function
def _where(condition, a, b):
    return a if condition else b


_SPECIAL = {**vars(special), **MATH, "abs": abs, "where": _where, "maximum": maximum,
            "minimum": minimum}


def scalar_function(function: Callable, names: dict[str, Any]) -> Callable:
    """A function of NumPy arrays, or one that CPU kernels call, compiled already or not, as a
    scalar function: the same code with other globals."""
    plain = getattr(function, "function", getattr(function, "py_func", function))
    return device_function(FunctionType(plain.__code__, names, plain.__name__))


for _name in [name for name, value in vars(special).items()
              if isinstance(value, FunctionType) and value.__module__ == special.__name__]:
    _SPECIAL[_name] = scalar_function(getattr(special, _name), _SPECIAL)

MATH.update({name: _SPECIAL[name] for name in special.__all__},
             maximum=maximum, minimum=minimum, mod=mod, cbrt=cbrt)
if not SIMULATED:
    MATH.update(erf=math.erf, gamma=math.gamma, gammaln=math.lgamma)

SCALAR_NUMPY = ModuleType("nbmod_scalar_numpy", "`np` in array code that runs on scalars.")
vars(SCALAR_NUMPY).update({name: MATH[name] for name in _NUMPY_NAMES}, pi=math.pi)
