"""What a sample is, and how samples become the arrays of a batch.

A sample has fields: a mapping by key, a tuple by position, where tuples in tuples count as their
own fields; anything else is the only field.  A list of numbers is an array, other lists count as
tuples.  A field becomes an array by `numpy()`, as those of torch do, or by `numpy.asarray`, which
takes numbers, arrays of any library, and images of Pillow.

`Inputs` says which field is which input of a network.  The first sample fixes names, shapes and
types (`Assembly`); all others must be like it, and are written straight into arrays that are lent
(`ndarray.lending`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError, did_you_mean
from ..context import cpu
from ..ndarray import NDArray
from ..ndarray.buffer_pool import BufferPool
from ..ndarray.ndarray import as_dtype
from .data import DataBatch, DataDesc

__all__ = ["PART", "Assembly", "Inputs", "as_array", "telling"]

PART = 8
"""Samples of a part of a job: what an interruption waits for."""


@contextmanager
def telling(what: str) -> Iterator[None]:
    """An error in the block becomes the cause of an MXNetError that says what it is about."""
    try:
        yield
    except Exception as error:
        said = str(error) if isinstance(error, MXNetError) else f"{type(error).__name__}: {error}"
        raise MXNetError(f"{what}: {said}") from error


def _fields(sample: Any) -> Iterator[Any]:
    """The fields of what is no mapping, in order."""
    if isinstance(sample, tuple) or isinstance(sample, list) and not _is_array(sample):
        for part in sample:
            yield from _fields(part)
    else:
        yield sample


def _is_array(values: list[Any]) -> bool:
    return all(isinstance(value, (int, float, np.generic))
               or isinstance(value, list) and _is_array(value) for value in values)


def as_array(value: Any) -> np.ndarray:
    """A field as an array; of type object, if it is no array of numbers."""
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype == object and array.ndim:  # how tables hold lists
        return np.stack([as_array(part) for part in array])
    return array


class Inputs(NamedTuple):
    """The inputs of a network, which field of a sample each of them is, and of what type.

    `columns` has the key or position of a field, or a list of them, which are stacked along a new
    last axis.  A name that is not in it means the field of that name, or the next position.
    `dtype` is the type of all, or of each in a dict by name; None is that of the first sample.
    """

    data: tuple[str, ...]
    label: tuple[str, ...]
    columns: Mapping[str, Any]
    dtype: Any

    @classmethod
    def of(cls, data_names: str | Sequence[str], label_names: str | Sequence[str],
           columns: Mapping[str, Any] | None, dtype: Any) -> Inputs:
        """From what users say: one name or several."""
        data, label = ((names,) if isinstance(names, str) else tuple(names)
                       for names in (data_names, label_names))
        named = {"columns": columns or {}, "dtype": dtype if isinstance(dtype, Mapping) else {}}
        for option, values in named.items():
            for name in values:
                if name not in data + label:
                    raise MXNetError(f"{option}: {name!r} is neither in data_names, {data}, nor in "
                                     f"label_names, {label}{did_you_mean(name, data + label)}")
        return cls(data, label, columns or {}, dtype)

    def fitting(self, sample: Any) -> Inputs:
        """These inputs; without labels, if a tuple or a single field has none."""
        bare = not isinstance(sample, Mapping) and not self.columns
        return self._replace(label=()) if (
            bare and len(list(_fields(sample))) == len(self.data)) else self

    def type_of(self, name: str, array: np.ndarray) -> np.dtype:
        """The type of an input that is `array` in the first sample."""
        said = self.dtype.get(name, "float32") if isinstance(self.dtype, Mapping) else self.dtype
        return as_dtype(array.dtype if said is None else said)

    def values(self, sample: Any) -> list[Any]:
        """The fields of a sample that are inputs, data first; of many samples in one mapping, too.

        Raises MXNetError that says which fields there are.
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


class Assembly:
    """The arrays of batches of `batch_size` samples, for samples like one with these inputs."""

    def __init__(self, inputs: Inputs, values: Sequence[Any], batch_size: int):
        self._inputs, self._names = inputs, inputs.data + inputs.label
        self.batch_size = batch_size
        self._pools, descriptions = [], []
        for name, value in zip(self._names, values, strict=True):
            array = self._numbers(name, value)
            pool = BufferPool((batch_size, *array.shape), inputs.type_of(name, array))
            self._pools.append(pool)
            descriptions.append(DataDesc(name, pool.shape, pool.dtype.type))
        self.provide_data = descriptions[:len(inputs.data)]
        self.provide_label = descriptions[len(inputs.data):]

    def acquire(self) -> list[np.ndarray]:
        """The arrays of a batch, data first, with arbitrary contents."""
        return [pool.acquire() for pool in self._pools]

    def batch(self, arrays: list[np.ndarray], pad: int, index: np.ndarray | None) -> DataBatch:
        """The batch that consists of these arrays."""
        count = len(self.provide_data)
        return DataBatch([NDArray(array, cpu()) for array in arrays[:count]],
                         [NDArray(array, cpu()) for array in arrays[count:]], pad, index)

    def put(self, arrays: list[np.ndarray], row: int, sample: Any) -> None:
        """Write a sample to its row."""
        for name, array, value in zip(self._names, arrays, self._inputs.values(sample),
                                      strict=True):
            self._write(name, array[row, ...], value)

    def put_columns(self, arrays: list[np.ndarray], row: int, columns: Mapping[str, Any],
                    samples: Sequence[str]) -> None:
        """Write samples to the rows from `row` on: at once, where a column is an array.

        samples: what to call them in errors.
        """
        for name, array, column in zip(self._names, arrays, self._inputs.values(columns),
                                       strict=True):
            rows = array[row:row + len(samples)]
            values = column.numpy() if hasattr(column, "numpy") else column
            if len(values) != len(rows):
                raise MXNetError(f"{samples[0]}: {name!r} has {len(values)} values where "
                                 f"{len(rows)} samples were asked for")
            if isinstance(values, np.ndarray) and (values.dtype.kind in "biuf"
                                                   and values.shape == rows.shape):
                rows[...] = values
                continue
            for place, value in enumerate(values):
                with telling(samples[place]):
                    self._write(name, rows[place, ...], value)

    def put_batch(self, arrays: list[np.ndarray], batch: Any) -> int:
        """Write a whole batch, which may have fewer samples than there are rows: how many."""
        values = [self._numbers(name, value) for name, value in
                  zip(self._names, self._inputs.values(batch), strict=True)]
        counts = {name: len(value) for name, value in zip(self._names, values, strict=True)}
        count = min(counts.values())
        if len(set(counts.values())) > 1 or not 0 < count <= len(arrays[0]):
            raise MXNetError(f"a batch has {counts} samples, expected as many of each, from 1 to "
                             f"{len(arrays[0])}, which the first batch has")
        for name, array, value in zip(self._names, arrays, values, strict=True):
            self._write(name, array[:count], value)
        return count

    def _write(self, name: str, place: np.ndarray, value: Any) -> None:
        array = self._numbers(name, value)
        if array.shape != place.shape:
            raise MXNetError(f"{name!r} has shape {array.shape}, expected {place.shape} as before; "
                             "a transform could bring all samples to one shape")
        place[...] = array

    @staticmethod
    def _numbers(name: str, value: Any) -> np.ndarray:
        array = as_array(value)
        if array.dtype.kind not in "biuf":
            raise MXNetError(f"{name!r} is a {type(value).__name__}, expected numbers; a transform "
                             "could make some of it")
        return array
