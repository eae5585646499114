"""Arguments as NumPy values: element types, shapes, and sources of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import FLAG_OF_DTYPE, ArgumentError, ArgumentTypeError, CheckError, element_type
from ..ops.shape import size_of
from ..ops.tensor.manipulate import reshape_target

if TYPE_CHECKING:
    from ..base import DTypeArg

__all__ = ["as_dtype", "elements_of", "host_array", "indices_of", "reshape_argument"]


def as_dtype(dtype: DTypeArg) -> np.dtype:
    """Return the element type that a `dtype` argument names.

    Parameters
    ----------
    dtype : str, numpy type, array or None
        Element type, or an array that has it; None: float32.

    Raises
    ------
    TypeError
        For an element type that is not supported.
    """
    try:
        kind = element_type(np.float32 if dtype is None else dtype)
    except TypeError:
        kind = np.dtype(object)  # rejected below
    if kind not in FLAG_OF_DTYPE:
        raise TypeError(f"dtype {dtype} is not supported, expected one of "
                        f"{', '.join(map(str, FLAG_OF_DTYPE))}")
    return kind


def host_array(value: object, dtype: np.dtype | None = None) -> np.ndarray:
    """Return numbers, nested lists, NumPy arrays and NDArrays as a NumPy array.

    Parameters
    ----------
    value : array_like or NDArray
        Source; None in it stands for NaN, and text is read as a number.
    dtype : numpy.dtype, optional
        Type for a source of Python objects; others keep their own, and the caller converts them.

    Raises
    ------
    TypeError
        If the source does not consist of numbers.
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind in "OUS":
            array = array.astype(dtype or np.float32)
    except (TypeError, ValueError):
        array = np.empty(0, np.str_)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"expected a number or an array of numbers, given {str(value)[:200]} of "
                        f"type {type(value)}")
    return array


def elements_of(source: object, dtype: DTypeArg) -> np.ndarray:
    """Return a copy of a source as a NumPy array.

    Parameters
    ----------
    source : array_like or NDArray
        Source.
    dtype : str, numpy type or None
        Element type; None: that of the source if it is an array, or else float32.

    Raises
    ------
    ArgumentTypeError
        If the source does not consist of numbers.
    """
    try:
        array = host_array(source, as_dtype(dtype))
    except TypeError as error:
        raise ArgumentTypeError(f"source_array must be array like object: {error}") from None
    own = array.dtype if hasattr(source, "dtype") else None
    return array.astype(as_dtype(own if dtype is None else dtype))


def indices_of(source: object) -> np.ndarray:
    """Return a copy of a vector of indices, int64.

    Parameters
    ----------
    source : array_like or NDArray
        Source.

    Raises
    ------
    ArgumentError
        If it has more than one axis.
    """
    indices = host_array(source, np.dtype(np.int64))
    if indices.ndim != 1:
        raise ArgumentError(f"indices have shape {indices.shape}, expected one axis")
    return indices.astype(np.int64)


def reshape_argument(old: tuple[int, ...], shape: tuple[Any, ...], kwargs: dict[str, Any]
                     ) -> tuple[int, ...]:
    """Return the new shape that the arguments of `NDArray.reshape` ask for.

    Parameters
    ----------
    old : tuple of int
        Shape of the array.
    shape, kwargs
        The arguments.

    Raises
    ------
    ArgumentError
        If the number of elements differs.
    TypeError
        For another keyword than `shape` and `reverse`.
    """
    reverse = bool(kwargs.pop("reverse", False))
    lengths = kwargs.pop("shape", shape)
    if kwargs:
        raise TypeError(f"Got unknown keywords in reshape: {', '.join(kwargs)}. Accepted "
                        "keyword arguments are 'shape' and 'reverse'.")
    if lengths == ():
        raise CheckError("reshape: give the new shape")
    if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)):
        lengths = shape[0]
    codes = (lengths,) if isinstance(lengths, (int, np.integer)) else tuple(lengths)
    target = reshape_target(old, tuple(int(code) for code in codes), reverse)
    if size_of(target) != size_of(old):
        raise ArgumentError(f"reshape: an array of shape {old}, {size_of(old)} element(s), cannot "
                            f"have shape {codes}")
    return target
