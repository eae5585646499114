"""Samples of data sets, and their assembly into the arrays of a batch.

A sample has fields: of a mapping by key, of a tuple by position (nested tuples are flattened);
anything else is a single field.  A list of numbers is an array, other lists are treated as tuples.
A field is converted to an array by its method `numpy()`, as tensors of torch have, or by
`numpy.asarray`, which accepts scalars, arrays of any library, and images of Pillow.

`Inputs` maps fields to the inputs of a network.  The first sample determines names, shapes and
types (`BatchAssembler`); all others must match it, and are written directly into pooled arrays
(`ndarray.buffer_pool`).  Rows of sparse matrices become csr batches (`csr_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..base import MXNetError, did_you_mean
from ..context import cpu
from ..core.interrupts import from_handler
from ..ndarray import NDArray
from ..ndarray.buffer_pool import BufferPool
from ..ndarray.host_array import as_dtype
from ..ops.sparse.formats import CSR
from .csr_rows import CSRBatch, CSRPool, as_csr
from .data_iter import DataBatch, DataDesc

__all__ = ["SAMPLES_PER_TASK", "BatchAssembler", "Inputs", "Rows", "as_array", "as_rows",
           "error_context"]

Rows: TypeAlias = "np.ndarray | CSRBatch"
"""Buffers that the samples of a batch are written to."""
SAMPLES_PER_TASK = 8
"""Samples of one task; an interruption waits for running tasks."""


@contextmanager
def error_context(what: str) -> Iterator[None]:
    """Re-raise an exception in the block as an MXNetError whose message starts with `what`."""
    try:
        yield
    except Exception as error:
        if from_handler(error):
            raise
        text = str(error) if isinstance(error, MXNetError) else f"{type(error).__name__}: {error}"
        raise MXNetError(f"{what}: {text}") from error


def _fields(sample: Any) -> Iterator[Any]:
    """The fields of a sample that is not a mapping, in order."""
    if isinstance(sample, tuple) or isinstance(sample, list) and not _is_array(sample):
        for part in sample:
            yield from _fields(part)
    else:
        yield sample


def _is_array(values: list[Any]) -> bool:
    return all(isinstance(value, (int, float, np.generic))
               or isinstance(value, list) and _is_array(value) for value in values)


def as_rows(value: Any) -> np.ndarray | CSR:
    """A field that holds the values of several samples."""
    rows = as_csr(value)
    return as_array(value) if rows is None else rows


def as_array(value: Any) -> np.ndarray:
    """A field as an array; of dtype object if its elements are not numbers."""
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype == object and array.ndim:  # lists in a column of a table
        return np.stack([as_array(part) for part in array])
    return array


class Inputs(NamedTuple):
    """The inputs of a network, the field of a sample that each is read from, and their types.

    `columns` maps a name to the key or position of a field, or to a list of them, which are stacked
    along a new last axis.  A name without an entry means the field of that name, or the next
    position.  `dtype` is the type of all inputs, or of each in a dict by name; None: that of the
    first sample.
    """

    data: tuple[str, ...]
    label: tuple[str, ...]
    columns: Mapping[str, Any]
    dtype: Any

    @classmethod
    def of(cls, data_names: str | Sequence[str], label_names: str | Sequence[str],
           columns: Mapping[str, Any] | None, dtype: Any) -> Inputs:
        """From the arguments of an iterator: one name or several."""
        data, label = ((names,) if isinstance(names, str) else tuple(names)
                       for names in (data_names, label_names))
        named = {"columns": columns or {}, "dtype": dtype if isinstance(dtype, Mapping) else {}}
        for option, values in named.items():
            for name in values:
                if name not in data + label:
                    raise MXNetError(f"{option}: {name!r} is neither in data_names, {data}, nor in "
                                     f"label_names, {label}{did_you_mean(name, data + label)}")
        return cls(data, label, columns or {}, dtype)

    def matching(self, sample: Any) -> Inputs:
        """These inputs; without labels if the sample, a tuple or a single field, has none."""
        bare = not isinstance(sample, Mapping) and not self.columns
        return self._replace(label=()) if (
            bare and len(list(_fields(sample))) == len(self.data)) else self

    def type_of(self, name: str, array: np.ndarray) -> np.dtype:
        """The type of an input that is `array` in the first sample."""
        dtype = self.dtype.get(name, "float32") if isinstance(self.dtype, Mapping) else self.dtype
        return as_dtype(array.dtype if dtype is None else dtype)

    def values(self, sample: Any) -> list[Any]:
        """The fields that are inputs, data first, of a sample or of a mapping of columns.

        Raises an MXNetError that lists the fields if one is missing.
        """
        names = self.data + self.label
        if isinstance(sample, Mapping):
            return [_field(sample, name, self.columns.get(name, name)) for name in names]
        fields = dict(enumerate(_fields(sample)))
        if not self.columns and len(fields) != len(names):
            raise MXNetError(f"a sample has {len(fields)} fields, expected {len(names)}: {names}; "
                             "give data_names and label_names, or columns={name: position, ...}")
        return [_field(fields, name, self.columns.get(name, place))
                for place, name in enumerate(names)]


def _field(fields: Mapping[Any, Any], name: str, key: Any) -> Any:
    if isinstance(key, list):
        return np.stack([as_array(_field(fields, name, part)) for part in key], axis=-1)
    if key not in fields:
        raise MXNetError(f"there is no field {key!r} for {name!r}, only {list(fields)}; say which "
                         f"it is, columns={{{name!r}: ...}}, or label_names=() for no labels")
    return fields[key]


class BatchAssembler:
    """Assembles batches of `batch_size` samples, all of the shapes of the inputs in `values`."""

    def __init__(self, inputs: Inputs, values: Sequence[Any], batch_size: int):
        self._inputs, self._names = inputs, inputs.data + inputs.label
        self.batch_size = batch_size
        self._pools = [self._pool(name, value)
                       for name, value in zip(self._names, values, strict=True)]
        descriptions = [DataDesc(name, pool.shape, pool.dtype.type)
                        for name, pool in zip(self._names, self._pools, strict=True)]
        self.provide_data = descriptions[:len(inputs.data)]
        self.provide_label = descriptions[len(inputs.data):]

    def _pool(self, name: str, value: Any) -> BufferPool | CSRPool:
        """Factory of the arrays of an input that is `value` in the first sample."""
        if (rows := as_csr(value)) is not None:
            return CSRPool((self.batch_size, rows.shape[1]), self._inputs.type_of(name, rows.data))
        array = self._numeric(name, value)
        return BufferPool((self.batch_size, *array.shape), self._inputs.type_of(name, array))

    def acquire(self) -> list[Rows]:
        """Uninitialized arrays of a batch, data first."""
        return [pool.acquire() for pool in self._pools]

    def batch(self, arrays: list[Rows], pad: int, index: np.ndarray | None) -> DataBatch:
        """The batch of these arrays."""
        count = len(self.provide_data)
        arrays_of_batch = [array.array() if isinstance(array, CSRBatch) else NDArray(array, cpu())
                           for array in arrays]
        return DataBatch(arrays_of_batch[:count], arrays_of_batch[count:], pad, index)

    def write_sample(self, arrays: list[Rows], row: int, sample: Any) -> None:
        """Write a sample to its row."""
        for name, array, value in zip(self._names, arrays, self._inputs.values(sample),
                                      strict=True):
            if isinstance(array, CSRBatch):
                array.write(row, self._sparse(name, value), 1)
            else:
                self._write(name, array[row, ...], value)

    def write_columns(self, arrays: list[Rows], row: int, columns: Mapping[str, Any],
                    samples: Sequence[str]) -> None:
        """Write samples to the rows from `row` on, in one copy where a column is an array.

        samples: their names in error messages.
        """
        for name, array, column in zip(self._names, arrays, self._inputs.values(columns),
                                       strict=True):
            if isinstance(array, CSRBatch):
                array.write(row, self._sparse(name, column), len(samples))
                continue
            rows = array[row:row + len(samples)]
            values = column.numpy() if hasattr(column, "numpy") else column
            if len(values) != len(rows):
                raise MXNetError(f"{samples[0]}: {name!r} has {len(values)} values for "
                                 f"{len(rows)} samples")
            if isinstance(values, np.ndarray) and (values.dtype.kind in "biuf"
                                                   and values.shape == rows.shape):
                rows[...] = values
                continue
            for place, value in enumerate(values):
                with error_context(samples[place]):
                    self._write(name, rows[place, ...], value)

    def write_batch(self, arrays: list[Rows], batch: Any) -> int:
        """Write a batch of at most as many samples as there are rows; returns their number."""
        columns = self._inputs.values(batch)
        values = [self._sparse(name, value) if isinstance(array, CSRBatch) else
                  self._numeric(name, value)
                  for name, array, value in zip(self._names, arrays, columns, strict=True)]
        counts = {name: len(value) for name, value in zip(self._names, values, strict=True)}
        count = min(counts.values())
        if len(set(counts.values())) > 1 or not 0 < count <= len(arrays[0]):
            raise MXNetError(f"a batch has {counts} samples, expected as many of each, from 1 to "
                             f"{len(arrays[0])}, which the first batch has")
        for name, array, value in zip(self._names, arrays, values, strict=True):
            if isinstance(array, CSRBatch):
                array.write(0, self._sparse(name, value), count)
            else:
                self._write(name, array[:count], value)
        return count

    def pad(self, arrays: list[Rows], count: int) -> None:
        """Repeat the first `count` rows after them."""
        for array in arrays:
            if isinstance(array, CSRBatch):
                array.pad(count)
            else:
                array[count:] = array[np.arange(count, self.batch_size) % count]

    def _write(self, name: str, target: np.ndarray, value: Any) -> None:
        array = self._numeric(name, value)
        if array.shape != target.shape:
            raise MXNetError(f"{name!r} has shape {array.shape}, expected {target.shape} as "
                             "before; a transform could bring all samples to one shape")
        target[...] = array

    @staticmethod
    def _sparse(name: str, value: Any) -> CSR:
        rows = as_csr(value)
        if rows is None:
            raise MXNetError(f"{name!r} is a {type(value).__name__}, expected a sparse row as "
                             "before")
        return rows

    @staticmethod
    def _numeric(name: str, value: Any) -> np.ndarray:
        array = as_array(value)
        if array.dtype.kind not in "biuf":
            raise MXNetError(f"{name!r} is a {type(value).__name__}, expected numbers; a transform "
                             "could convert it")
        return array
