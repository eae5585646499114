"""Comparison of arrays and symbols.  A failure reports the worst element and its position.

The error of an element is its difference divided by the tolerance: above 1 is a mismatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph import Graph
from ..ndarray import NDArray
from ..ndarray.host_array import host_array
from ..ops.device import device_of
from .tolerance import Tolerance, get_atol, get_etol, get_rtol, get_tols

__all__ = ["almost_equal", "assert_allclose", "assert_almost_equal",
           "assert_almost_equal_ignore_nan", "assert_almost_equal_with_err", "assert_exception",
           "checkShapes", "compare_ndarray_tuple", "locationError", "same", "same_array",
           "same_symbol_structure"]

Names = tuple[str, str]


def same(a: Any, b: Any) -> bool:
    """Whether two arrays have equal shapes and elements.

    Parameters
    ----------
    a, b : NDArray or array_like
        The arrays.

    Examples
    --------
    >>> mx.test_utils.same(mx.nd.ones(2), [1, 1])
    True
    """
    return np.array_equal(host_array(a), host_array(b))


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Whether two NDArrays are the same memory.

    Parameters
    ----------
    array1, array2 : NDArray
        The arrays.
    """
    spans = [device_of(array.context).span(array._data) for array in (array1, array2)]
    return array1.context == array2.context and spans[0] == spans[1]


def _errors(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    """The error of every element, of the broadcast shape; infinite where one is NaN."""
    if np.array_equal(a, b):    # without float64 copies of what may be large
        return np.broadcast_to(0.0, a.shape)
    wide = np.promote_types(np.result_type(a, b), np.float64)
    x, y = np.broadcast_arrays(a.astype(wide), b.astype(wide))
    with np.errstate(all="ignore"):
        difference = np.where(x == y, 0, np.abs(x - y))
        error = np.where(difference == 0, 0, difference / (atol + rtol * np.abs(y)))
    error = np.where(np.isnan(error) | np.isinf(x) & (x != y), np.inf, error)
    return np.where(np.isnan(x) & np.isnan(y), 0, error) if equal_nan else error


def almost_equal(a: Any, b: Any, rtol: float | None = None, atol: float | None = None,
                 equal_nan: bool = False, use_broadcast: bool = True) -> bool:
    """Whether no element differs by more than `atol + rtol * abs(b)`.

    Parameters
    ----------
    a, b : NDArray or array_like
        The arrays; `b` is the reference.
    rtol, atol : float, optional
        Relative and absolute tolerance; those of float64 unless given, whatever the types are.
    equal_nan : bool, default False
        Whether NaN equals NaN.
    use_broadcast : bool, default True
        Whether shapes may differ if they broadcast.

    Examples
    --------
    >>> mx.test_utils.almost_equal([1.0, 2.0], [1.0, 2.001], rtol=1e-2)
    True
    """
    x, y = host_array(a), host_array(b)
    if not use_broadcast and x.shape != y.shape:
        return False
    return bool((_errors(x, y, get_rtol(rtol), get_atol(atol), equal_nan) <= 1).all())


def assert_almost_equal(a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None,
                        names: Names = ("a", "b"), equal_nan: bool = False,
                        use_broadcast: bool = True, mismatches: tuple[int, int] = (10, 10)
                        ) -> None:
    """AssertionError if an element differs by more than `atol + rtol * abs(b)`.

    Parameters
    ----------
    a, b, equal_nan, use_broadcast
        As for `almost_equal`.
    rtol, atol : float or dict of dtype to float, optional
        Relative and absolute tolerance; those of the element types unless given.
    names : tuple of str, default ('a', 'b')
        Names of the arrays in the message.
    mismatches : tuple of int, default (10, 10)
        The first is the number of elements in the message; the second has no effect.
    """
    _assert(a, b, get_tols(a, b, rtol, atol), names, equal_nan, use_broadcast, mismatches[0], 0)


def assert_allclose(a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True
                    ) -> None:
    """`assert_almost_equal` with the default tolerances of NumPy.

    Parameters
    ----------
    a, b : NDArray or array_like
        The arrays; `b` is the reference.
    rtol, atol : float, default 1e-07 and 0
        Relative and absolute tolerance.
    equal_nan : bool, default True
        Whether NaN equals NaN.
    """
    assert_almost_equal(a, b, rtol, atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None,
                                 etol: float | None = None, names: Names = ("a", "b"),
                                 equal_nan: bool = False, mismatches: tuple[int, int] = (10, 10)
                                 ) -> None:
    """`assert_almost_equal` where a fraction of the elements may be wrong.

    Parameters
    ----------
    a, b, equal_nan
        As for `almost_equal`.
    rtol, atol, names, mismatches
        As for `assert_almost_equal`.
    etol : float, optional
        The fraction; 0 unless given.
    """
    _assert(a, b, get_tols(a, b, rtol, atol), names, equal_nan, True, mismatches[0],
            get_etol(etol))


def assert_almost_equal_ignore_nan(a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None,
                                   names: Names = ("a", "b")) -> None:
    """`assert_almost_equal` without the elements that are NaN in either array.

    Parameters
    ----------
    a, b : NDArray or array_like
        The arrays; `b` is the reference.
    rtol, atol, names
        As for `assert_almost_equal`.
    """
    x, y = host_array(a).copy(), host_array(b).copy()
    nan = np.isnan(x) | np.isnan(y)
    x[nan] = y[nan] = 0
    assert_almost_equal(x, y, rtol, atol, names)


def _assert(a: Any, b: Any, tols: tuple[float, float], names: Names, equal_nan: bool,
            use_broadcast: bool, shown: int, allowed: float) -> None:
    x, y = host_array(a), host_array(b)
    if not use_broadcast:
        checkShapes(x, y)
    errors = _errors(x, y, *tols, equal_nan)
    wrong = np.count_nonzero(errors > 1)
    if wrong <= allowed * errors.size:
        return
    x, y = np.broadcast_arrays(x, y)
    order = np.argsort(errors, axis=None, kind="stable")[::-1][:min(max(shown, 1), wrong)]
    worst = [tuple(map(int, np.unravel_index(i, errors.shape))) for i in order]
    lines = [f"{errors[where]:12.6g} times too far: {locationError(x, y, where, names)}"
             for where in worst]
    raise AssertionError("\n".join([
        "\nItems are not equal:",
        f"Error {errors[worst[0]]:f} exceeds tolerance rtol={tols[0]:e}, atol={tols[1]:e} "
        f"(mismatch {100 * wrong / errors.size:f}%: {wrong} of {errors.size}).",
        locationError(x, y, worst[0], names, maxError=True), *lines[1:],
        f" ACTUAL: {x!r}", f" DESIRED: {y!r}"]))


def locationError(a: Any, b: Any, index: tuple[int, ...], names: Names, maxError: bool = False
                  ) -> str:
    """One element of both arrays as text.

    Parameters
    ----------
    a, b : numpy.ndarray
        The arrays.
    index : tuple of int
        Position of the element.
    names : tuple of str
        Names of the arrays.
    maxError : bool, default False
        Whether to call it the maximum error.
    """
    maximum = "maximum " if maxError else ""
    return (f"Location of {maximum}error: {index}, {names[0]}={float(a[index]):.8f}, "
            f"{names[1]}={float(b[index]):.8f}")


def checkShapes(a: Any, b: Any) -> None:
    """AssertionError unless the shapes are equal.

    Parameters
    ----------
    a, b : NDArray or numpy.ndarray
        The arrays.
    """
    if a.shape != b.shape:
        raise AssertionError(f"\nItems are not equal: a.shape = {a.shape} and b.shape = {b.shape} "
                             f"are not equal\n ACTUAL: {a!r}\n DESIRED: {b!r}")


def assert_exception(f: Callable, exception_type: type[BaseException], *args: Any, **kwargs: Any
                     ) -> None:
    """AssertionError unless a call raises an exception; exceptions of other types pass through.

    Parameters
    ----------
    f : callable
        Function to call.
    exception_type : type
        The exception that is expected.
    *args, **kwargs
        Arguments of the call.
    """
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} did not raise {exception_type.__name__}")


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Tolerance = None, atol: Tolerance = None) -> None:
    """AssertionError unless two nested tuples of arrays (or None) are almost equal.

    Parameters
    ----------
    t1, t2 : NDArray, None or tuple
        The tuples.
    rtol, atol : float, optional
        Relative and absolute tolerance; those of the element types unless given.
    """
    if t1 is None or t2 is None:
        assert t1 is None and t2 is None, f"one is None, the other is not: {t1}, {t2}"
    elif isinstance(t1, (tuple, list)):
        assert len(t1) == len(t2), f"{len(t1)} and {len(t2)} arrays"
        for s1, s2 in zip(t1, t2, strict=True):
            compare_ndarray_tuple(s1, s2, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def same_symbol_structure(sym1: Any, sym2: Any) -> bool:
    """Whether two symbols apply the same operators in the same way, with any names and parameters.

    Parameters
    ----------
    sym1, sym2 : Symbol
        The symbols.
    """
    return _structure(sym1) == _structure(sym2)


def _structure(symbol: Any) -> Sequence[Any]:
    graph = Graph(symbol.entries)
    return [(node.op_name, graph.input_eids(node)) for node in graph.nodes], graph.output_ids
