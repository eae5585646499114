"""Rows of stored arrays: `KVStore.row_sparse_pull`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ..base import MXNetError
from ..ndarray import NDArray, array
from ..ops.sparse.formats import RowSparse
from ..ops.sparse.row_numbers import distinct_rows

__all__ = ["Rows", "require_rows", "write_rows"]

Rows: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
"""Indices of rows, int64."""


def require_rows(name: object, stored: NDArray, target: NDArray, rows: Rows) -> None:
    """MXNetError unless all rows exist and the target can hold some."""
    count = len(stored)
    if rows.size and not 0 <= rows.min() <= rows.max() < count:
        raise MXNetError(f"kvstore.row_sparse_pull: key {name!r} has {count} rows, row_ids ask for "
                         f"{rows.min()} to {rows.max()}")
    if target.stype == "csr":
        raise MXNetError(f"kvstore.row_sparse_pull: out for key {name!r} is a csr array, expected "
                         "a row_sparse one")


def write_rows(stored: NDArray, target: NDArray, rows: Rows) -> None:
    """Copy rows of an array, in any order; dense targets have zeros in all others."""
    if not target.is_sparse:
        target[:] = 0
        if rows.size:
            target[rows] = array(_rows(stored, rows), stored.context, stored.dtype)
        return
    indices = distinct_rows(rows, len(stored))
    data = _rows(stored, indices).astype(target._data.dtype, copy=False)
    target._data = RowSparse(indices, data, target.shape)


def _rows(stored: NDArray, rows: Rows) -> np.ndarray:  # type: ignore[explicit-any]
    """A copy of rows of an array."""
    if stored.is_sparse:
        return stored._data.retain(rows).data
    return stored[rows].asnumpy()
