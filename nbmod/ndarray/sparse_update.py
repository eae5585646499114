"""Update ops (`ops.optimizer`) of which the weight, the gradient or a state is sparse.

With a row_sparse gradient, a *lazy* op updates the rows of the weight and of the states that the
gradient has; all others keep their values, so a step costs what these rows cost.  Other ops update
all rows, as if the gradient were dense: they run on dense arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..ops.device import CPU
from ..ops.op import Op
from ..ops.optimizer.adaptive_update import AdaGradUpdate, FtrlUpdate, GroupAdaGradUpdate
from ..ops.optimizer.row_update import Rows, is_of_rows, update_rows
from ..ops.optimizer.sgd_update import Update
from ..ops.sparse.formats import RowSparse, to_dense
from ..ops.sparse.row_numbers import positions
from . import mutation
from .ndarray import NDArray

__all__ = ["update_sparse"]

Run = Callable[[list[np.ndarray]], None]
"""Runs the op on (weight, gradient, *states), and writes the new weight and states in place."""


def update_sparse(op: Op, arrays: Sequence[NDArray], run: Run) -> None:
    """Update a weight and its states in place: `arrays` has it, its gradient and the states.

    `run` executes the op on dense arrays.  MXNetError if the weight is on a GPU or csr, or an index
    of the gradient is outside of it.
    """
    weight, grad, *states = arrays
    if weight.context.is_gpu or weight.stype == "csr":
        raise MXNetError(f"{op.name}: the weight is a {weight.stype} array on {weight.context} and "
                         f"its gradient a {grad.stype} one; expected a weight on the CPU, dense or "
                         "row_sparse")
    if isinstance(grad._data, RowSparse) and _is_lazy(op, weight):
        _update_rows(op, grad._data, [weight, *states], run)
    else:
        whole = [_whole(array) for array in (weight, *states)]
        run([whole[0], to_dense(grad._data), *whole[1:]])
    mutation.written(*[array._data for array in (weight, *states) if not array.is_sparse])


def _is_lazy(op: Any, weight: NDArray) -> bool:
    if isinstance(op, (AdaGradUpdate, GroupAdaGradUpdate)):
        return True
    return weight.is_sparse if isinstance(op, FtrlUpdate) else getattr(op, "lazy_update", False)


def _update_rows(op: Op, grad: RowSparse, targets: Sequence[NDArray], run: Run) -> None:
    if problem := grad.problem():
        raise MXNetError(f"the gradient, row_sparse of shape {grad.shape}: {problem}")
    if any(array.shape[:1] != grad.shape[:1] for array in targets):
        raise MXNetError(f"{op.name}: the gradient has shape {grad.shape}, the weight and its "
                         f"states {[array.shape for array in targets]}, expected as many rows")
    if not len(grad.indices):
        return
    weight = _rows(targets[0], grad.indices, grad.indices)
    stored = targets[0]._data.indices if targets[0].is_sparse else grad.indices
    states = [_rows(array, grad.indices, stored) for array in targets[1:]]
    rows = [weight, Rows(grad.data, None), *states]
    if isinstance(op, Update) and is_of_rows(op, rows):
        update_rows(op, rows)
        return
    copies = [each.copied() for each in rows]
    run(copies)
    for each, copy in zip([weight, *states], [copies[0], *copies[2:]], strict=True):
        each.data[each.at] = copy


def _rows(array: NDArray, indices: np.ndarray, rows: np.ndarray) -> Rows:
    """The rows `indices` of an array.

    A sparse one that lacks some stores them from now on, and all `rows`, as zeros.
    """
    value = array._data
    if not isinstance(value, RowSparse):
        return Rows(value, indices)
    if len(value.indices) == len(value):
        return Rows(value.data, indices)
    place = positions(indices, value.indices, len(value))
    if (place < 0).any():
        value = array._data = _with_rows(value, rows)
        place = positions(indices, value.indices, len(value))
    return Rows(value.data, place)


def _with_rows(value: RowSparse, rows: np.ndarray) -> RowSparse:
    """A tensor that stores more rows, as zeros.

    It has `rows` itself for indices if these are all, so that states share those of the weight.
    """
    at = positions(value.indices, rows, len(value))
    if (at < 0).any():
        rows = np.union1d(value.indices, rows)
        at = positions(value.indices, rows, len(value))
    data = CPU.full((len(rows), *value.shape[1:]), value.dtype, 0)
    data[at] = value.data
    return RowSparse(rows, data, value.shape)


def _whole(array: NDArray) -> np.ndarray:
    """All elements of an array, to be written to; a sparse one stores all rows from now on."""
    value = array._data
    if not isinstance(value, RowSparse):
        return value
    if len(value.indices) < len(value):
        value = RowSparse(np.arange(len(value)), to_dense(value), value.shape)
        array._data = value
    return value.data
