"""Compressed sparse rows (CSR): `Compressed`, the data, and `CSRNDArray`, the public array type."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from ..base import MXNetError
from ..context import Context, cpu
from . import array_creation
from .ndarray import NDArray

__all__ = ["BaseSparseNDArray", "CSRNDArray", "Compressed"]


@dataclass(frozen=True)
class Compressed:
    """Rows that are mostly zeros, in CSR form.

    Row i has `values[k]` in column `indices[k]`, for k from `indptr[i]` to `indptr[i + 1]`.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, rows: slice) -> Compressed:
        start, stop, _ = rows.indices(len(self))
        indptr = self.indptr[start:max(start, stop) + 1]
        inner = slice(indptr[0], indptr[-1])
        return Compressed(indptr - indptr[0], self.indices[inner], self.values[inner])

    @staticmethod
    def concatenate(parts: Sequence[Compressed]) -> Compressed:
        """Return the rows of several parts, one after another.

        Parameters
        ----------
        parts : sequence of Compressed
            Parts to join.
        """
        starts = np.cumsum([0, *(len(part.values) for part in parts)])
        pointers = [part.indptr[1:] + start for part, start in zip(parts, starts, strict=False)]
        return Compressed(np.concatenate([np.zeros(1, np.int64), *pointers]),
                          np.concatenate([part.indices for part in parts]),
                          np.concatenate([part.values for part in parts]))


class BaseSparseNDArray(NDArray):
    """Base class of the sparse storage types; it cannot be constructed.

    Parameters
    ----------
    *args
        Not used.
    **kwargs
        Not used.

    Raises
    ------
    MXNetError
        Always: use a dense array instead.
    """

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any):
        raise MXNetError(f"{type(self).__name__}: cannot be made yet; use a dense array "
                         "(mx.nd.array, mx.nd.zeros)")


class CSRNDArray(BaseSparseNDArray):
    """A sparse matrix of compressed rows (CSR), as `LibSVMIter` yields it; it cannot be changed.

    Row i has the value `data[k]` in column `indices[k]`, for k from `indptr[i]` to `indptr[i + 1]`.
    Functions that take a dense array receive a dense copy (`_data`).
    """

    __slots__ = ("_rows", "_shape")

    _rows: Compressed
    _shape: tuple[int, ...]

    @classmethod
    def of(cls, rows: Compressed, shape: tuple[int, ...], ctx: Context | None = None
           ) -> CSRNDArray:
        """Return the matrix of given rows.

        Parameters
        ----------
        rows : Compressed
            Rows.
        shape : tuple of int
            (rows, columns).
        ctx : Context, optional
            Device that the matrix reports; None: `cpu(0)`.
        """
        self = cls.__new__(cls)
        self._ctx = cpu() if ctx is None else ctx
        self._rows, self._shape = rows, tuple(shape)
        return self

    @property
    def _data(self) -> np.ndarray:
        rows = self._rows
        dense = np.zeros(self._shape, rows.values.dtype)
        row_of_value = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
        np.add.at(dense, (row_of_value, rows.indices), rows.values)
        return dense

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> type[np.generic]:
        return self._rows.values.dtype.type

    @property
    def size(self) -> int:
        return self._shape[0] * self._shape[1]

    @property
    def ndim(self) -> int:
        return 2

    @property
    def stype(self) -> str:
        """Storage type: 'csr'."""
        return "csr"

    @property
    def writable(self) -> bool:
        return False

    @property
    def data(self) -> NDArray:
        """Stored values, row by row."""
        return array_creation.array(self._rows.values, dtype=self.dtype)

    @property
    def indices(self) -> NDArray:
        """Column of each stored value, int64."""
        return array_creation.array(self._rows.indices, dtype=np.int64)

    @property
    def indptr(self) -> NDArray:
        """Start of each row in the stored values, and the end of the last one, int64."""
        return array_creation.array(self._rows.indptr, dtype=np.int64)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"\n<CSRNDArray {shape} @{self._ctx}>"

    def __getitem__(self, key: Any) -> CSRNDArray:
        """Some rows: an integer or a slice of step 1."""
        if isinstance(key, (int, np.integer)):
            row = operator.index(key)
            if not -len(self) <= row < len(self):
                raise IndexError(f"CSRNDArray: row {row} of {len(self)}")
            key = slice(row, row + 1 or None)
        if not isinstance(key, slice) or key.step not in (None, 1):
            raise ValueError(f"CSRNDArray: cannot be indexed with {key!r}; use an integer or a "
                             "slice of rows, or tostype('default') first")
        chosen = self._rows[key]
        return CSRNDArray.of(chosen, (len(chosen), self._shape[1]), self._ctx)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise MXNetError("CSRNDArray: cannot be written to; use tostype('default') first")

    def copy(self) -> CSRNDArray:
        """Return this matrix, which cannot be changed."""
        return self

    def astype(self, dtype: Any, copy: bool = True) -> CSRNDArray:
        """Return the matrix with another element type.

        Parameters
        ----------
        dtype : str or numpy type
            Element type of the result.
        copy : bool, default True
            Accepted for compatibility; has no effect.
        """
        values = self._rows.values.astype(dtype)
        return CSRNDArray.of(replace(self._rows, values=values), self._shape, self._ctx)

    def tostype(self, stype: str) -> NDArray:
        """Return the matrix with another storage type.

        Parameters
        ----------
        stype : {'csr', 'default'}
            Storage type; 'default' is dense.
        """
        if stype == "csr":
            return self
        return array_creation.array(self._data, dtype=self.dtype).tostype(stype)
