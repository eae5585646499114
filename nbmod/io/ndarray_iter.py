"""Batches from arrays in memory.

The iterator is an order and a position.  `idx` is the order in which samples are visited; `cursor`
counts from the start of the epoch, minus the samples that were carried over from the last one.  A
batch consists of the samples at a list of indices; where these are consecutive it is a view of the
source.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import CheckError, MXNetError, warn_user
from ..context import cpu
from ..core.interrupts import from_handler
from ..ndarray import NDArray, array
from ..ndarray.sparse_array import CSRNDArray
from ..ops.random import rng
from .data_iter import DamagedState, DataBatch, DataDesc, DataIter, require_batches
from .saved_state import expect_same, saved_integer, saved_sequence

__all__ = ["NDArrayIter"]


def named_arrays(source: Any, allow_empty: bool, default_name: str) -> list[tuple[str, NDArray]]:
    """Return one array, a list, or a dict of arrays as (name, NDArray) pairs, sorted by name.

    Parameters
    ----------
    source : NDArray, numpy.ndarray, scipy.sparse.csr_matrix, list, dict or None
        Arrays.
    allow_empty : bool
        Whether there may be none.
    default_name : str
        Name of a single array; several are called `_0_<name>`, `_1_<name>`, ...
    """
    if source is None:
        source = []
    if isinstance(source, (np.ndarray, NDArray)) or hasattr(source, "indptr"):
        source = [source]
    if isinstance(source, (list, tuple)):
        if not source and not allow_empty:
            raise CheckError(f"NDArrayIter: {default_name} is empty, expected at least one "
                             "array")
        source = ({default_name: source[0]} if len(source) == 1 else
                  {f"_{i}_{default_name}": item for i, item in enumerate(source)})
    if not isinstance(source, Mapping):
        raise TypeError(f"NDArrayIter: {default_name} is a {type(source).__name__}, expected an "
                        "NDArray, a numpy.ndarray, or a list or dict of them")
    return [(name, _as_ndarray(name, source[name])) for name in sorted(source)]


def _picked(values: NDArray, indices: np.ndarray) -> NDArray:
    """Samples by their indices."""
    if values.stype == "csr":
        return CSRNDArray(values._data.take(indices), values.context)
    return values[indices]


def _as_ndarray(name: str, value: Any) -> NDArray:
    if isinstance(value, NDArray):
        return value
    try:
        return array(value, ctx=cpu())
    except Exception as error:
        if from_handler(error):
            raise
        raise TypeError(f"NDArrayIter: {name} is a {type(value).__name__} that cannot become an "
                        f"NDArray: {error}") from error


class NDArrayIter(DataIter):
    """Iterate over arrays in memory.

    Parameters
    ----------
    data : NDArray, numpy.ndarray, scipy.sparse.csr_matrix, or a list or dict of them
        Data inputs, with samples along axis 0; csr ones give csr batches.  One array is called
        `data_name`, those of a list `_0_<data_name>`, `_1_<data_name>`, ...; those of a dict have
        its keys, and are sorted by name.
    label : like `data`, optional
        Labels, with as many samples.
    batch_size : int, default 1
        Number of samples in a batch.
    shuffle : bool, default False
        Visit the samples in a new random order in every epoch.  The order follows from
        `mx.random.seed` and from a random sequence of the iterator's own.
    last_batch_handle : {'pad', 'discard', 'roll_over'}, default 'pad'
        What becomes of a last batch that is not full.  'pad': it is filled with samples from the
        start of the epoch, whose number is the batch's `pad`.  'discard': it is dropped.
        'roll_over': its samples become the beginning of the next epoch.
    data_name : str, default 'data'
        Name of the data inputs.
    label_name : str, default 'softmax_label'
        Name of the labels.
    layout : str, default 'NCHW'
        Layout in the descriptions of the batches; does not change their contents.

    Raises
    ------
    MXNetError
        If there is no array, if one has fewer samples than the first, or for an invalid
        `batch_size` or `last_batch_handle`.  Samples beyond those of the first are left out, with
        a warning.
    TypeError
        If `data` or `label` has another type.

    Notes
    -----
    Without `shuffle`, a full batch shares memory with the source arrays.  With 'roll_over', `pad`
    of the first batch of an epoch is the number of samples carried over from the epoch before.

    Examples
    --------
    >>> import numpy as np
    >>> samples = mx.io.NDArrayIter(np.arange(10).reshape(5, 2), np.arange(5), batch_size=2)
    >>> samples.provide_data[0].name, samples.provide_data[0].shape
    ('data', (2, 2))
    >>> [(batch.label[0].asnumpy().tolist(), batch.pad) for batch in samples]
    [([0.0, 1.0], 0), ([2.0, 3.0], 0), ([4.0, 0.0], 1)]
    >>> samples = mx.io.NDArrayIter(np.arange(5), batch_size=2, last_batch_handle="roll_over")
    >>> [batch.data[0].asnumpy().tolist() for batch in samples]
    [[0.0, 1.0], [2.0, 3.0]]
    >>> samples.reset()
    >>> samples.next().data[0].asnumpy().tolist()
    [4.0, 0.0]
    """

    def __init__(self, data: Any, label: Any = None, batch_size: int = 1, shuffle: bool = False,
                 last_batch_handle: str = "pad", data_name: str = "data",
                 label_name: str = "softmax_label", layout: str = "NCHW"):
        super().__init__(batch_size)
        require_batches("NDArrayIter", batch_size, last_batch_handle)
        self.data = named_arrays(data, False, data_name)
        self.label = named_arrays(label, True, label_name)
        for name, values in self.data + self.label:
            if not values.shape:
                raise MXNetError(f"NDArrayIter: {name} is a single element, expected samples along "
                                 "a first axis")
        self.num_data = self._count_samples()
        self.data_list = [values for _, values in self.data + self.label]
        self.num_source = len(self.data_list)
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.layout = layout
        self._random: rng.Sequence | None = None
        self.idx = np.arange(self.num_data)
        self._carried = self.idx[:0]
        self.cursor = -batch_size
        self.reset()

    def _count_samples(self) -> int:
        """The number of samples of the first array, which all others have, too."""
        counts = {name: values.shape[0] for name, values in self.data + self.label}
        first, count = next(iter(counts.items()))
        if min(counts.values()) < count:
            raise MXNetError(f"NDArrayIter: numbers of samples differ: {counts}")
        if max(counts.values()) > count:
            warn_user(f"NDArrayIter: numbers of samples differ: {counts}; only the first {count} "
                      f"are read, as many as {first} has")
        return count

    def _describe(self, named: list[tuple[str, NDArray]]) -> list[DataDesc]:
        return [DataDesc(name, (self.batch_size, *values.shape[1:]), values.dtype, self.layout)
                for name, values in named]

    @property
    def provide_data(self) -> list[DataDesc]:
        """Descriptions of the data arrays of a batch, a list of `DataDesc`."""
        return self._describe(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Descriptions of the label arrays of a batch, a list of `DataDesc`."""
        return self._describe(self.label)

    def hard_reset(self) -> None:
        """Start an epoch, and drop samples that were carried over by 'roll_over'."""
        self._carried = self.idx[:0]
        self._start_epoch()

    def reset(self) -> None:
        """Start the next epoch.

        With 'roll_over', it begins with the samples of the unfinished batch of this one.
        """
        left = self.num_data - self.cursor
        if self.last_batch_handle == "roll_over" and 0 < left < self.batch_size:
            self._carried = self.idx[self.cursor:] if self.cursor >= 0 else np.concatenate(
                [self._carried, self.idx])
        else:
            self._carried = self.idx[:0]
        self._start_epoch()

    def _start_epoch(self) -> None:
        if self.shuffle:
            self._random = self._random or rng.Sequence()
            self.idx = self._random.next().permutation(self.num_data)
        self.cursor = -self.batch_size - len(self._carried)

    def state_dict(self) -> dict[str, Any]:
        return {**self._resume_key(), "cursor": self.cursor, "carried": self._carried.tolist(),
                "random": None if self._random is None else list(self._random.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a position that `state_dict` returned.

        The two iterators have the same number of samples, `batch_size`, `shuffle` and
        `last_batch_handle`.

        Examples
        --------
        >>> import numpy as np
        >>> samples = mx.io.NDArrayIter(np.arange(4), batch_size=2)
        >>> _ = samples.next()
        >>> other = mx.io.NDArrayIter(np.arange(4), batch_size=2)
        >>> other.load_state_dict(samples.state_dict())
        >>> other.next().data[0].asnumpy().tolist()
        [2.0, 3.0]
        """
        expect_same(self, state, **self._resume_key())
        carried = self._saved_carried(state)
        # Before the first batch, or anywhere after its beginning.
        start = -self.batch_size - len(carried)
        cursor = saved_integer(self, state, "cursor", start)
        if start < cursor < -self.batch_size:
            raise DamagedState(f"NDArrayIter: the saved state's cursor is {cursor}, expected "
                               f"{start}, or at least {-self.batch_size}")
        if self._random is not None:
            self._random.state = saved_sequence(self, state)
            self.idx = self._random.last().permutation(self.num_data)
        self.cursor, self._carried = cursor, carried

    def _saved_carried(self, state: Mapping[str, Any]) -> np.ndarray:
        """The samples that a saved state carries over: fewer than fill a batch."""
        value = state.get("carried")
        if not (isinstance(value, list) and len(value) < self.batch_size
                and all(type(sample) is int and 0 <= sample < self.num_data for sample in value)):
            raise DamagedState(f"NDArrayIter: the saved state's carried is {reprlib.repr(value)}, "
                               f"expected fewer than {self.batch_size} samples from 0 to "
                               f"{self.num_data - 1}")
        return np.array(value, self.idx.dtype)

    def _resume_key(self) -> dict[str, Any]:
        """The properties that must be equal in two iterators that exchange states."""
        return {"num_data": self.num_data, "batch_size": self.batch_size, "shuffle": self.shuffle,
                "last_batch_handle": self.last_batch_handle}

    def iter_next(self) -> bool:
        self.cursor += self.batch_size
        if self.last_batch_handle == "pad":
            return self.cursor < self.num_data
        return self.cursor + self.batch_size <= self.num_data

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(),
                         index=None)

    def _indices(self) -> np.ndarray:
        """Samples of the current batch."""
        start, stop = self.cursor, self.cursor + self.batch_size
        if start < 0:
            return np.concatenate([self._carried, self.idx[:stop]])
        if stop <= self.num_data:
            return self.idx[start:stop]
        return self.idx[np.arange(start, stop) % self.num_data]

    def _batch(self, named: list[tuple[str, NDArray]]) -> list[NDArray]:
        start, stop = self.cursor, self.cursor + self.batch_size
        if not self.shuffle and 0 <= start and stop <= self.num_data:
            return [values[start:stop] for _, values in named]
        indices = self._indices()
        return [_picked(values, indices) for _, values in named]

    def getdata(self) -> list[NDArray]:
        return self._batch(self.data)

    def getlabel(self) -> list[NDArray]:
        return self._batch(self.label)

    def getpad(self) -> int:
        """Return the number of filling samples in the current batch.

        With 'roll_over' it is the number of samples carried over from the epoch before.
        """
        if self.last_batch_handle == "pad":
            return max(self.cursor + self.batch_size - self.num_data, 0)
        return -self.cursor if self.last_batch_handle == "roll_over" and self.cursor < 0 else 0
