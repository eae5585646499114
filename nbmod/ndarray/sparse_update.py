"""Update ops (`ops.optimizer`) of which the weight, the gradient or a state is sparse.

With a row_sparse gradient, a *lazy* op updates the rows of the weight and of the states that the
gradient has; all others keep their values, so a step costs what these rows cost.  Other ops update
all rows, as if the gradient were dense.  Both run the op itself, on dense arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError
from ..ops.op import Op
from ..ops.optimizer.adaptive_update import AdaGradUpdate, FtrlUpdate, GroupAdaGradUpdate
from ..ops.sparse.formats import RowSparse, to_dense
from . import mutation
from .ndarray import NDArray

__all__ = ["update_sparse"]

Run = Callable[[list[np.ndarray]], None]
"""Runs the op on (weight, gradient, *states), and writes the new weight and states in place."""


def update_sparse(op: Op, arrays: Sequence[NDArray], run: Run) -> None:
    """Update a weight and its states in place.

    Parameters
    ----------
    op : Op
        The update op.
    arrays : sequence of NDArray
        The weight, its gradient, and the states, of any storage types.
    run : function
        Runs the op on dense arrays.

    Raises
    ------
    MXNetError
        If the weight is on a GPU or csr, or an index of the gradient is outside of it.
    """
    weight, grad, *states = arrays
    if weight.context.is_gpu or weight.stype == "csr":
        raise MXNetError(f"{op.name}: the weight is a {weight.stype} array on {weight.context} and "
                         f"its gradient a {grad.stype} one; expected a weight on the CPU, dense or "
                         "row_sparse")
    if isinstance(grad._data, RowSparse) and _is_lazy(op, weight):
        _update_rows(grad._data, [weight, *states], run)
    else:
        whole = [_whole(array) for array in (weight, *states)]
        run([whole[0], to_dense(grad._data), *whole[1:]])
    mutation.written(*[array._data for array in (weight, *states) if not array.is_sparse])


def _is_lazy(op: Any, weight: NDArray) -> bool:
    if isinstance(op, (AdaGradUpdate, GroupAdaGradUpdate)):
        return True
    return weight.is_sparse if isinstance(op, FtrlUpdate) else getattr(op, "lazy_update", False)


class _Rows(NamedTuple):
    """Rows of an array: `data[at]`."""

    data: np.ndarray
    at: np.ndarray


def _update_rows(grad: RowSparse, targets: Sequence[NDArray], run: Run) -> None:
    if problem := grad.problem():
        raise MXNetError(f"the gradient, row_sparse of shape {grad.shape}: {problem}")
    if not len(grad.indices):
        return
    stored = targets[0]._data.indices if targets[0].is_sparse else grad.indices
    rows = [_rows(array, grad.indices, stored) for array in targets]
    parts = [data[at] for data, at in rows]
    run([parts[0], grad.data, *parts[1:]])
    for (data, at), part in zip(rows, parts, strict=True):
        data[at] = part


def _rows(array: NDArray, indices: np.ndarray, stored: np.ndarray) -> _Rows:
    """The rows `indices` of an array.

    A sparse one that lacks some stores them from now on, and the rows `stored`, too, as zeros.
    """
    value = array._data
    if not isinstance(value, RowSparse):
        return _Rows(value, indices)
    if len(value.indices) == len(value):    # all rows
        return _Rows(value.data, indices)
    if not np.isin(indices, value.indices, assume_unique=True).all():
        value = value.retain(np.union1d(value.indices, np.union1d(stored, indices)))
        array._data = value
    return _Rows(value.data, np.searchsorted(value.indices, indices))


def _whole(array: NDArray) -> np.ndarray:
    """All elements of an array, to be written to; a sparse one stores all rows from now on."""
    value = array._data
    if not isinstance(value, RowSparse):
        return value
    if len(value.indices) < len(value):
        value = RowSparse(np.arange(len(value)), to_dense(value), value.shape)
        array._data = value
    return value.data
