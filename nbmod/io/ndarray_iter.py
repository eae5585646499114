"""Batches from arrays in memory.

The iterator is an order and a position.  `idx` is the order in which samples are visited; `cursor`
counts from the start of the epoch, minus the samples that were carried over from the last one.  A
batch is the samples of a list of indices; where they are consecutive it is a view of the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import MXNetError
from ..context import cpu
from ..ndarray import NDArray, array
from ..ops import rng
from .data import DataBatch, DataDesc, DataIter, expect_same, require_batches

__all__ = ["NDArrayIter"]


def named_arrays(source: Any, allow_empty: bool, default_name: str) -> list[tuple[str, NDArray]]:
    """One array, a list, or a dict of arrays as (name, NDArray) pairs.

    A single array takes `default_name`, several are numbered `_0_name`, ..., a dict is sorted.
    """
    if source is None:
        source = []
    if isinstance(source, (np.ndarray, NDArray)):
        source = [source]
    if isinstance(source, (list, tuple)):
        if not source and not allow_empty:
            raise MXNetError(f"NDArrayIter: {default_name} is empty, expected at least one "
                             "array")
        source = ({default_name: source[0]} if len(source) == 1 else
                  {f"_{i}_{default_name}": item for i, item in enumerate(source)})
    if not isinstance(source, Mapping):
        raise TypeError(f"NDArrayIter: {default_name} is a {type(source).__name__}, expected an "
                        "NDArray, a numpy.ndarray, or a list or dict of them")
    return [(name, _as_ndarray(name, source[name])) for name in sorted(source)]


def _as_ndarray(name: str, value: Any) -> NDArray:
    if isinstance(value, NDArray):
        return value
    try:
        return array(value, ctx=cpu())
    except Exception as error:
        raise TypeError(f"NDArrayIter: {name} is a {type(value).__name__} that cannot become an "
                        f"NDArray: {error}") from error


class NDArrayIter(DataIter):
    """Iterate over `data` and `label` (arrays, lists or dicts of arrays, samples along axis 0).

    `last_batch_handle` says what happens when the samples do not fill the last batch: 'pad' fills
    it from the start and sets `pad`, 'discard' drops it, 'roll_over' puts it in front of the next
    epoch.  `shuffle` draws a new order every epoch, from a random sequence of the iterator's own.
    """

    def __init__(self, data: Any, label: Any = None, batch_size: int = 1, shuffle: bool = False,
                 last_batch_handle: str = "pad", data_name: str = "data",
                 label_name: str = "softmax_label", layout: str = "NCHW"):
        super().__init__(batch_size)
        require_batches("NDArrayIter", batch_size, last_batch_handle)
        self.data = named_arrays(data, False, data_name)
        self.label = named_arrays(label, True, label_name)
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
        counts = {name: values.shape[0] for name, values in self.data + self.label}
        if len(set(counts.values())) > 1:
            raise MXNetError(f"NDArrayIter: numbers of samples differ: {counts}")
        return next(iter(counts.values()))

    def _describe(self, named: list[tuple[str, NDArray]]) -> list[DataDesc]:
        return [DataDesc(name, (self.batch_size, *values.shape[1:]), values.dtype, self.layout)
                for name, values in named]

    @property
    def provide_data(self) -> list[DataDesc]:
        return self._describe(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        return self._describe(self.label)

    def hard_reset(self) -> None:
        """Start afresh, forgetting samples carried over."""
        self._carried = self.idx[:0]
        self._start_epoch()

    def reset(self) -> None:
        """Start the next epoch, carrying the unfinished batch over under 'roll_over'."""
        left = self.num_data - self.cursor
        if self.last_batch_handle == "roll_over" and 0 < left < self.batch_size:
            self._carried = self.idx[self.cursor:] if self.cursor >= 0 else np.concatenate(
                [self._carried, self.idx])
        else:
            self._carried = self.idx[:0]
        self._start_epoch()

    def _start_epoch(self) -> None:
        if self.shuffle:
            self._shuffle_data()
        self.cursor = -self.batch_size - len(self._carried)

    def _shuffle_data(self) -> None:
        if self._random is None:
            self._random = rng.Sequence()
        self.idx = self._random.next().permutation(self.num_data)

    def state_dict(self) -> dict[str, Any]:
        return {**self._made(), "cursor": self.cursor, "carried": self._carried.tolist(),
                "random": None if self._random is None else list(self._random.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        expect_same(self, state, **self._made())
        if self._random is not None:
            key, draws = state["random"]
            self._random.state = (key, draws)
            self.idx = self._random.last().permutation(self.num_data)
        self.cursor = state["cursor"]
        self._carried = np.array(state["carried"], self.idx.dtype)

    def _made(self) -> dict[str, Any]:
        """What two iterators must have in common to go on from each other's states."""
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
        return [values[indices] for _, values in named]

    def getdata(self) -> list[NDArray]:
        return self._batch(self.data)

    def getlabel(self) -> list[NDArray]:
        return self._batch(self.label)

    def getpad(self) -> int:
        if self.last_batch_handle == "pad":
            return max(self.cursor + self.batch_size - self.num_data, 0)
        return -self.cursor if self.last_batch_handle == "roll_over" and self.cursor < 0 else 0
