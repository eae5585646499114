"""Meaning of dimensions of 0 and of shapes without dimensions, by thread.

In MXNet's own semantics 0 is a dimension that is not known, and () a shape that is not known.  In
NumPy's, -1 is a dimension that is not known, None a shape, and () is the shape of a scalar.
"""

from __future__ import annotations

import operator
import threading

__all__ = ["is_np_shape", "np_shape", "set_np_shape"]


class _ShapeState(threading.local):
    numpy = False


_state = _ShapeState()


def is_np_shape() -> bool:
    """Return whether shapes have NumPy's meaning in this thread.

    Examples
    --------
    >>> mx.is_np_shape()
    False
    """
    return _state.numpy


def set_np_shape(active: int) -> bool:
    """Choose whether shapes have NumPy's meaning in this thread; returns the choice before.

    Parameters
    ----------
    active : bool
        Whether () is a scalar, and -1 and None are unknown; otherwise () and 0 are unknown.

    Raises
    ------
    TypeError
        If it is neither a bool nor an integer.

    Examples
    --------
    >>> before = mx.set_np_shape(True)
    >>> mx.nd.ones(()).shape
    ()
    >>> mx.set_np_shape(before)
    True
    """
    before, _state.numpy = _state.numpy, bool(operator.index(active))
    return before


class np_shape:
    """Gives shapes NumPy's meaning, or MXNet's own, in a `with` statement.

    Parameters
    ----------
    active : bool, default True
        As that of `set_np_shape`.

    Examples
    --------
    >>> total = mx.sym.var("x") + 1
    >>> with mx.np_shape():
    ...     total.infer_shape_partial(x=(-1, 2))[1], total.infer_shape(x=())[1]
    ([(-1, 2)], [()])
    >>> total.infer_shape_partial(x=(0, 2))[1]
    [(0, 2)]
    """

    def __init__(self, active: bool = True):
        self._active = active
        self._before = False

    def __enter__(self) -> None:
        self._before = set_np_shape(self._active)

    def __exit__(self, *exc: object) -> None:
        set_np_shape(self._before)
