"""The two sparse formats: compressed sparse rows (CSR), and tensors with some of their rows.

Both are immutable values on NumPy arrays: an operation makes a new one.  Their parts may be read
only where their owner is (`RowSparse.data` of a parameter is updated in place).  Indices are int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ...base import ArgumentError, DType, MXNetError
from ..device import CPU
from .row_numbers import distinct, look_up, positions

__all__ = ["CSR", "RowSparse", "Sparse", "as_dense", "from_dense", "parts_of", "letters_of",
           "require_inside", "to_dense"]

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class CSR:
    """A matrix in compressed sparse rows.

    Row i has `data[k]` in column `indices[k]`, for k from `indptr[i]` to `indptr[i + 1]`.  What has
    been found out about the places is shared by matrices that are made of this one by `with_data`.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    shape: Shape
    _found: dict[str, Any] = field(default_factory=dict, repr=False)

    stype: ClassVar = "csr"
    ndim: ClassVar = 2

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self.data.dtype

    @property
    def size(self) -> int:
        """Number of elements, stored or not."""
        return prod(self.shape)

    @property
    def aux(self) -> tuple[np.ndarray, ...]:
        """The indices, in the order of MXNet's files."""
        return self.indptr, self.indices

    @property
    def row_of_each(self) -> np.ndarray:
        """The row of every stored element."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    @property
    def columns_read(self) -> tuple[np.ndarray, np.ndarray]:
        """The columns that have elements, ascending; and for each element the position of its
        column among them."""
        if "columns" not in self._found:
            self._found["columns"] = distinct(self.indices, self.shape[1])
        return self._found["columns"]

    def positions(self, columns: np.ndarray) -> np.ndarray:
        """For each element the position of its column among `columns`, which ascend; -1 for one
        that is absent."""
        if "columns" in self._found and np.array_equal(self._found["columns"][0], columns):
            return self._found["columns"][1]
        which, are_mine = look_up(self.indices, columns, self.shape[1])
        if are_mine:    # as after a pull of the rows that the batch reads
            self._found["columns"] = columns.copy(), which
        return which

    @staticmethod
    def empty(shape: Shape, dtype: DType) -> CSR:
        """A matrix of zeros, none of which is stored."""
        none = np.empty(0, np.int64)
        pointers = CPU.full((shape[0] + 1,), np.int64, 0)
        return CSR(pointers, none, np.empty(0, dtype), shape)

    @staticmethod
    def of_places(data: np.ndarray, at: tuple[np.ndarray, np.ndarray], shape: Shape) -> CSR:
        """Elements at rows and columns inside of the shape, in any order; those of one place are
        added."""
        rows, columns = at
        width = max(shape[1], 1)
        places, which = np.unique(rows * width + columns, return_inverse=True)
        sums = np.zeros(len(places), data.dtype)
        np.add.at(sums, which.reshape(-1), data)
        return CSR(_pointers(places // width, shape[0]), places % width, sums, shape)

    def with_data(self, data: np.ndarray) -> CSR:
        """This matrix with other elements in its places."""
        return replace(self, data=data)

    def astype(self, dtype: DType) -> CSR:
        """A copy with another element type."""
        return CSR(self.indptr.copy(), self.indices.copy(), self.data.astype(dtype), self.shape)

    def __getitem__(self, rows: slice) -> CSR:
        """Some rows, which share memory with these."""
        start, stop, _ = rows.indices(len(self))
        indptr = self.indptr[start:max(start, stop) + 1]
        inner = slice(indptr[0], indptr[-1])
        return CSR(indptr - indptr[0], self.indices[inner], self.data[inner],
                   (len(indptr) - 1, self.shape[1]))

    def take(self, rows: np.ndarray) -> CSR:
        """Rows by their indices, in any order."""
        require_inside(self)
        counts = np.diff(self.indptr)[rows]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        places = np.repeat(self.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        return CSR(indptr, self.indices[places], self.data[places], (len(rows), self.shape[1]))

    def columns(self, start: int, stop: int) -> CSR:
        """The columns from `start` to `stop`."""
        require_inside(self)
        mask = (self.indices >= start) & (self.indices < stop)
        return CSR(_pointers(self.row_of_each[mask], len(self)), self.indices[mask] - start,
                   self.data[mask], (len(self), max(stop - start, 0)))

    @staticmethod
    def concatenate(parts: Sequence[CSR]) -> CSR:
        """The rows of several matrices, one after another."""
        starts = np.cumsum([0, *(len(part.data) for part in parts)])
        pointers = [part.indptr[1:] + start for part, start in zip(parts, starts, strict=False)]
        return CSR(np.concatenate([np.zeros(1, np.int64), *pointers]),
                   np.concatenate([part.indices for part in parts]),
                   np.concatenate([part.data for part in parts]),
                   (sum(map(len, parts)), parts[0].shape[1]))

    def problem(self, full: bool = True) -> str:
        """An error in the indices, or "".  Unless `full`, only sizes and ends are checked."""
        count, columns = len(self.data), self.shape[1]
        if len(self.indptr) != len(self) + 1 or len(self.indices) != count:
            return (f"indptr has {len(self.indptr)} elements and indices {len(self.indices)}, "
                    f"expected {len(self) + 1} and {count}, as many as data")
        if self.indptr[0] != 0 or self.indptr[-1] != count:
            return f"indptr goes from {self.indptr[0]} to {self.indptr[-1]}, expected 0 to {count}"
        if not full:
            return ""
        if (np.diff(self.indptr) < 0).any():
            return "indptr is not in ascending order"
        if count and (self.indices.min() < 0 or self.indices.max() >= columns):
            return f"an index is not from 0 to {columns - 1}, the columns"
        same_row = np.diff(self.row_of_each) == 0
        if (np.diff(self.indices)[same_row] <= 0).any():
            return "the indices of a row are not in ascending order"
        return ""


def _pointers(row_of_each: np.ndarray, rows: int) -> np.ndarray:
    """`CSR.indptr` for the row of every element, in ascending order."""
    counts = np.bincount(row_of_each, minlength=rows)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


@dataclass(frozen=True, eq=False)
class RowSparse:
    """A tensor of which the rows `indices` are stored in `data`, in ascending order; all others are
    zeros."""

    indices: np.ndarray
    data: np.ndarray
    shape: Shape

    stype: ClassVar = "row_sparse"

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements, stored or not."""
        return prod(self.shape)

    @property
    def aux(self) -> tuple[np.ndarray, ...]:
        """The indices, in the order of MXNet's files."""
        return (self.indices,)

    @staticmethod
    def empty(shape: Shape, dtype: DType) -> RowSparse:
        """A tensor of zeros, none of which is stored."""
        return RowSparse(np.empty(0, np.int64), np.empty((0, *shape[1:]), dtype), shape)

    def with_data(self, data: np.ndarray) -> RowSparse:
        """This tensor with other elements in its rows."""
        return replace(self, data=data)

    def astype(self, dtype: DType) -> RowSparse:
        """A copy with another element type."""
        data = CPU.empty(self.data.shape, dtype)
        CPU.copy(self.data, data)
        return RowSparse(self.indices.copy(), data, self.shape)

    def retain(self, rows: np.ndarray) -> RowSparse:
        """These rows, stored or not, in this order."""
        place = positions(rows, self.indices, len(self))
        mask = place >= 0
        if mask.all():
            return RowSparse(rows, _taken(self.data, place), self.shape)
        data = CPU.full((len(rows), *self.shape[1:]), self.dtype, 0)
        data[mask] = self.data[place[mask]]
        return RowSparse(rows, data, self.shape)

    def problem(self, full: bool = True) -> str:
        """An error in the indices, or "".  Unless `full`, only their number is checked."""
        if len(self.indices) != len(self.data) or self.data.shape[1:] != self.shape[1:]:
            return (f"data has shape {self.data.shape}, expected {len(self.indices)} rows of shape "
                    f"{self.shape[1:]}")
        if full and len(self.indices):
            ascend = (self.indices[1:] > self.indices[:-1]).all()
            first, last = ((self.indices[0], self.indices[-1]) if ascend else
                           (self.indices.min(), self.indices.max()))
            if first < 0 or last >= len(self):
                return f"an index is not from 0 to {len(self) - 1}, the rows"
            if not ascend:
                return "the indices are not in ascending order"
        return ""


Sparse: TypeAlias = CSR | RowSparse


def letters_of(values: Iterable[object]) -> str:
    """The storage types of values, as `storage_types` writes them."""
    return "".join("c" if isinstance(value, CSR) else "r" if isinstance(value, RowSparse) else "d"
                   for value in values)


def parts_of(value: Sparse | np.ndarray) -> tuple[np.ndarray, ...]:
    """The elements that a value stores, then the indices if it is sparse."""
    return (value,) if isinstance(value, np.ndarray) else (value.data, *value.aux)


def to_dense(value: Sparse | np.ndarray) -> np.ndarray:
    """The dense array of a value; a dense one itself."""
    if not isinstance(value, (CSR, RowSparse)):
        return value
    require_inside(value)
    dense = CPU.full(value.shape, value.dtype, 0)
    if isinstance(value, RowSparse):
        dense[value.indices] = value.data
    else:
        dense[value.row_of_each, value.indices] = value.data
    return dense


def as_dense(value: Sparse | np.ndarray) -> np.ndarray:
    """`to_dense` for readers: an array that stores all rows is not copied."""
    if isinstance(value, RowSparse) and len(value.indices) == len(value) and not value.problem():
        return value.data
    return to_dense(value)


def require_inside(value: Sparse) -> None:
    """Indices may be those that a user has given without `check_format`."""
    if isinstance(value, CSR) and "inside" in value._found:
        return
    problem = value.problem(full=False)
    bound = value.shape[0] if isinstance(value, RowSparse) else value.shape[1]
    if not problem and value.indices.size and not (
            0 <= value.indices.min() and value.indices.max() < bound):
        problem = f"an index is not from 0 to {bound - 1}"
    if not problem and isinstance(value, CSR) and (np.diff(value.indptr) < 0).any():
        problem = "indptr is not in ascending order"
    if problem:
        raise MXNetError(f"{value.stype} array of shape {value.shape}: {problem}")
    if isinstance(value, CSR):
        value._found["inside"] = True


def from_dense(dense: np.ndarray, stype: str) -> Sparse | np.ndarray:
    """The value of a dense array in a format; zeros are not stored.

    Raises
    ------
    ArgumentError
        If it is not a matrix, as csr needs, or has no axis, as row_sparse does.
    """
    if stype == "default":
        return dense
    if stype == "csr":
        if dense.ndim != 2:
            raise ArgumentError(f"cast_storage: data has shape {dense.shape}, expected 2 axes for "
                                "csr")
        rows, columns = np.nonzero(dense)
        return CSR(_pointers(rows, len(dense)), columns.astype(np.int64), dense[rows, columns],
                   dense.shape)
    if dense.ndim == 0:
        raise ArgumentError("cast_storage: data has no axis, expected at least 1 for row_sparse")
    indices = np.flatnonzero(dense.reshape(len(dense), -1).any(axis=1)).astype(np.int64)
    return RowSparse(indices, _taken(dense, indices), dense.shape)


def _taken(data: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A copy of rows, aligned: one that is a cache line long is in one, not in two."""
    copy = CPU.empty((len(rows), *data.shape[1:]), data.dtype)
    return np.take(data, rows, axis=0, out=copy, mode="clip")   # "raise" would write twice
