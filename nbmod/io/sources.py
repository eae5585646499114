"""Reading samples from data sets of other libraries, recognized by their interface.

    mapping of arrays               columns; sparse matrices, too
    pandas, Polars                  `columns`, `to_numpy`
    Arrow: Table, RecordBatch       `column_names`, `column`
    Hugging Face: Dataset           `column_names`, `features`, `[[3, 1]]`: a dict of columns
    torch, with batched reads       `__getitems__`: a list of samples
    anything else                   `[3]`: a sample

None of them is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..base import MXNetError
from ..ops.sparse.formats import CSR
from .csr_rows import as_csr

__all__ = ["Source", "source_of"]

Column: TypeAlias = "np.ndarray | CSR"
"""The values of a field."""


class Source(NamedTuple):
    """The number of samples, and a function that reads some of them."""

    length: int
    read: Callable[[list[int]], Any]
    """Indices -> a list of samples, or a mapping of columns."""
    columnar: bool
    """Whether `read` returns columns."""


class _Columns(Mapping[Any, Any]):
    """A mapping of columns that are read on access."""

    def __init__(self, names: Mapping[Any, Any], read: Callable[[Any], Any]):
        self._names, self._read = names, read

    def __getitem__(self, name: Any) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: Any) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def source_of(dataset: Any) -> Source:
    """The samples of a data set.  MXNetError for what has no length or no items."""
    if isinstance(dataset, Mapping):
        lengths = {name: _length(column) for name, column in dataset.items()}
        if len(set(lengths.values())) != 1:
            raise MXNetError(f"columns of equal length are expected, there are {lengths}")
        return Source(min(lengths.values()), _of_arrays(dataset, _column), True)
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise MXNetError(f"a {type(dataset).__name__} has no length or no items, so it is no "
                         "data set; GeneratorIter reads what can only be iterated over")
    if hasattr(dataset, "columns") and hasattr(dataset, "to_numpy"):
        return Source(len(dataset), _of_arrays(dataset, lambda column: column.to_numpy()), True)
    if hasattr(dataset, "column_names") and hasattr(dataset, "column"):
        return Source(len(dataset), _of_arrow(dataset), True)
    if hasattr(dataset, "column_names") and hasattr(dataset, "features"):
        return Source(len(dataset), lambda indices: dataset[indices], True)
    if hasattr(dataset, "__getitems__"):
        return Source(len(dataset), dataset.__getitems__, False)
    return Source(len(dataset), lambda indices: [dataset[index] for index in indices], False)


def _length(column: Any) -> int:
    """Number of samples; scipy's matrices have no `len`."""
    return column.shape[0] if hasattr(column, "tocsr") else len(column)


def _column(values: Any) -> Column:
    csr = as_csr(values)
    return np.asarray(values) if csr is None else csr


def _of_arrays(table: Any, convert: Callable[[Any], Column]) -> Callable[[list[int]], Any]:
    names = dict.fromkeys(table if isinstance(table, Mapping) else table.columns)

    @cache
    def column(name: Any) -> Column:
        return convert(table[name])

    def read(indices: list[int]) -> _Columns:
        rows = np.array(indices)
        return _Columns(names, lambda name: _taken(column(name), rows))

    return read


def _of_arrow(table: Any) -> Callable[[list[int]], Any]:
    names = dict.fromkeys(table.column_names)

    @cache
    def chunks(name: str) -> tuple[list[Any], np.ndarray]:
        """The arrays of a chunked column, and the end of each."""
        column = table.column(name)
        arrays = [_zero_copy(array) for array in getattr(column, "chunks", [column])]
        return arrays, np.cumsum([len(array) for array in arrays])

    def gather(name: str, rows: np.ndarray) -> np.ndarray:
        """Gather from each chunk: Arrow's own `take` would concatenate all chunks first."""
        arrays, ends = chunks(name)
        if len(arrays) == 1:
            return _taken(arrays[0], rows)
        which = np.searchsorted(ends, rows, "right")
        parts = [_taken(arrays[chunk], rows[which == chunk] - (ends[chunk] - len(arrays[chunk])))
                 for chunk in np.unique(which)]
        order = np.argsort(which, kind="stable")  # position of each row in `parts`
        return np.concatenate(parts)[np.argsort(order)]

    def read(indices: list[int]) -> _Columns:
        rows = np.array(indices)
        return _Columns(names, lambda name: gather(name, rows))

    return read


def _zero_copy(array: Any) -> Any:
    """An Arrow array as a NumPy array, if that needs no copy."""
    if hasattr(array, "to_numpy_ndarray"):
        return array.to_numpy_ndarray()
    try:
        return array.to_numpy()
    except ValueError:  # Arrow would have to copy: lists, strings, bits, nulls
        return array


def _taken(array: Any, rows: np.ndarray) -> Any:
    if isinstance(array, np.ndarray):
        return array[rows]
    if isinstance(array, CSR):
        return array.take(rows)
    return array.take(rows).to_numpy(zero_copy_only=False)
