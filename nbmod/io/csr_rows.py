"""Rows of CSR matrices as samples of a data set, and their batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import DType, MXNetError
from ..context import cpu
from ..ndarray import NDArray
from ..ndarray.sparse_array import CSRNDArray, of_scipy, of_value
from ..ops.sparse.formats import CSR, require_inside

__all__ = ["CSRBatch", "CSRPool", "as_csr", "row_of"]


def as_csr(values: Any) -> CSR | None:
    """The value of a CSRNDArray, or of a matrix of scipy in any format; None for others."""
    if isinstance(values, CSR):
        return values
    if isinstance(values, CSRNDArray):
        require_inside(values._data)
        return values._data
    if hasattr(values, "tocsr") and hasattr(values, "nnz"):
        return of_scipy(values.tocsr())
    return None


def row_of(column: Any, row: int) -> Any:
    """A value of a column; of a sparse one, an array of one row."""
    return of_value(column[row:row + 1], cpu()) if isinstance(column, CSR) else column[row]


class CSRBatch:
    """Rows of a batch, written in any order, by several threads."""

    def __init__(self, pool: CSRPool):
        self._pool = pool
        self._parts: list[CSR | None] = [None] * pool.shape[0]

    def __len__(self) -> int:
        return len(self._parts)

    def write(self, row: int, rows: CSR, count: int) -> None:
        """Write `count` rows from `row` on."""
        shape = (count, self._pool.shape[1])
        if rows.shape != shape:
            raise MXNetError(f"sparse rows have shape {rows.shape}, expected {shape} as before; a "
                             "transform could bring all samples to one shape")
        self._parts[row] = rows

    def pad(self, count: int) -> None:
        """Repeat the first `count` rows after them."""
        rows = CSR.concatenate([part for part in self._parts if part is not None])
        places = np.arange(len(self)) % count
        self._parts[0] = rows.take(places)

    def array(self) -> NDArray:
        """The batch as an array; rows that were not written are zeros."""
        parts: list[CSR] = []
        row, empty = 0, CSR.empty((1, self._pool.shape[1]), self._pool.dtype)
        while row < len(self):
            part = self._parts[row]
            parts.append(empty if part is None else part)
            row += len(parts[-1])
        return of_value(CSR.concatenate(parts).astype(self._pool.dtype), cpu())


class CSRPool:
    """The counterpart of `BufferPool`: batches of rows, which have no buffer to be reused."""

    def __init__(self, shape: Sequence[int], dtype: DType):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    def acquire(self) -> CSRBatch:
        """A batch without rows."""
        return CSRBatch(self)
