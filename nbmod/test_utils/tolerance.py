"""Default context, element type and tolerances of tests.

Two arrays may differ by `atol + rtol * abs(second)`.  The default tolerance is the larger one of
those of both element types.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np

from ..context import Context, current_context
from ..ndarray import NDArray

__all__ = ["default_atols", "default_context", "default_dtype", "default_numeric_eps",
           "default_rtols", "effective_dtype", "get_atol", "get_etol", "get_rtol", "get_tolerance",
           "get_tols", "set_default_context"]

Tolerance = Any
"""A number, numbers by type, or None for the defaults."""

DOUBLE = np.dtype(np.float64)
_FLOATS = tuple(map(np.dtype, ("float16", "float32", "float64")))
_INTEGERS = tuple(map(np.dtype, ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")))


def default_rtols() -> dict[np.dtype, float]:
    """Default relative tolerance by element type."""
    return dict(zip(_FLOATS, (1e-2, 1e-4, 1e-5), strict=True)) | dict.fromkeys(_INTEGERS, 0)


def default_atols() -> dict[np.dtype, float]:
    """Default absolute tolerance by element type."""
    return dict(zip(_FLOATS, (1e-1, 1e-3, 1e-20), strict=True)) | dict.fromkeys(_INTEGERS, 0)


def default_numeric_eps() -> dict[np.dtype, float]:
    """Default step of finite differences by type: a power of two, so that adding it is exact."""
    return dict(zip(_FLOATS, (2 ** -6, 2 ** -9, 2 ** -14), strict=True))


def default_context() -> Context:
    """The device on which tests run: the current context."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make a context the current one of this thread until it is set again.

    Parameters
    ----------
    ctx : Context
        The device.
    """
    Context._default.value = ctx


def default_dtype() -> type:
    """The default element type of test arrays."""
    return np.float32


def get_atol(atol: float | None = None, dtype: Any = DOUBLE) -> float:
    """The absolute tolerance that is given, or the default of an element type.

    Parameters
    ----------
    atol : float, optional
        The tolerance.
    dtype : dtype, default numpy.float64
        The element type.
    """
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: Any = DOUBLE) -> float:
    """The relative tolerance that is given, or the default of an element type.

    Parameters
    ----------
    rtol : float, optional
        The tolerance.
    dtype : dtype, default numpy.float64
        The element type.
    """
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """The fraction of elements that may be wrong.

    Parameters
    ----------
    etol : float, optional
        The fraction; 0 unless given.
    """
    return 0 if etol is None else etol


def effective_dtype(dat: Any) -> np.dtype:
    """The element type that limits the precision of an array.

    Parameters
    ----------
    dat : NDArray or array_like
        The array.
    """
    return np.dtype(dat.dtype if isinstance(dat, NDArray) else np.asarray(dat).dtype)


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[np.dtype, float]) -> float:
    """The tolerance of one array: a number as it is, otherwise by its element type.

    Parameters
    ----------
    dat : NDArray or array_like
        The array.
    tol : float, dict of dtype to float or None
        The tolerance; None for the default.
    default_tol : dict of dtype to float
        The defaults; 0 for types that are missing.
    """
    if isinstance(tol, Number):
        return tol  # type: ignore[return-value]
    table = default_tol if tol is None else {np.dtype(key): value for key, value in tol.items()}
    return table.get(effective_dtype(dat), 0)


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """Relative and absolute tolerance of two arrays: those given, or the larger defaults.

    Parameters
    ----------
    x, y : NDArray or array_like
        The arrays.
    rtol, atol : float, dict of dtype to float or None
        The tolerances; None for the defaults.
    """
    return (max(get_tolerance(dat, rtol, default_rtols()) for dat in (x, y)),
            max(get_tolerance(dat, atol, default_atols()) for dat in (x, y)))
