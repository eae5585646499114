"""Samplers: orders of the samples of a data set, and their division into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from ...base import AbstractError, ArgumentError, numeric_types

__all__ = ["BatchSampler", "FilterSampler", "RandomSampler", "Sampler", "SequentialSampler"]
__dir__ = __all__.copy

_LAST_BATCH = ("keep", "discard", "rollover")


class Sampler:
    """Base of samplers: an iterable of indices, which begins anew whenever it is iterated over.

    Examples
    --------
    >>> class Backwards(mx.gluon.data.Sampler):
    ...     def __iter__(self):
    ...         return iter(range(2, -1, -1))
    ...     def __len__(self):
    ...         return 3
    >>> loader = mx.gluon.data.DataLoader([10, 11, 12], batch_size=2, sampler=Backwards())
    >>> [batch.asnumpy().tolist() for batch in loader]
    [[12, 11], [10]]
    """

    def __iter__(self) -> Iterator[Any]:
        raise AbstractError(f"{type(self).__name__} does not define __iter__")

    def __len__(self) -> int:
        raise AbstractError(f"{type(self).__name__} does not define __len__")


class SequentialSampler(Sampler):
    """Indices in ascending order.

    Parameters
    ----------
    length : int
        Number of indices.
    start : int, default 0
        The first index.

    Examples
    --------
    >>> list(mx.gluon.data.SequentialSampler(3, start=2))
    [2, 3, 4]
    """

    def __init__(self, length: int, start: int = 0):
        self._length, self._start = length, start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """Indices in an order that NumPy's global generator draws, anew for every epoch.

    Parameters
    ----------
    length : int
        Number of indices, from 0 on.

    Examples
    --------
    >>> sorted(int(index) for index in mx.gluon.data.RandomSampler(3))
    [0, 1, 2]
    """

    def __init__(self, length: int):
        self._length = length

    def __iter__(self) -> Iterator[np.int64]:
        return iter(np.random.permutation(self._length))

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """Indices of the samples that a function accepts; it is called once for each sample.

    Parameters
    ----------
    fn : callable
        Function of a sample, true for the samples to keep.
    dataset : Dataset
        The data set.

    Examples
    --------
    >>> list(mx.gluon.data.FilterSampler(lambda sample: sample > 5, [4, 6, 2, 8]))
    [1, 3]
    """

    def __init__(self, fn: Callable[[Any], Any], dataset: Any):
        self._indices = [index for index, sample in enumerate(dataset) if fn(sample)]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


def _whole(batch_size: float) -> int:
    """The number of samples in a batch; divisions make whole numbers that are float."""
    if isinstance(batch_size, numeric_types) and batch_size >= 1 and batch_size % 1 == 0:
        return int(batch_size)
    raise ArgumentError(f"batch_size is {batch_size!r}, expected a positive integer")


class BatchSampler(Sampler):
    """Lists of `batch_size` indices of another sampler.

    Parameters
    ----------
    sampler : Sampler
        The indices.
    batch_size : int
        Number of indices in a batch.
    last_batch : {'keep', 'discard', 'rollover'}
        Whether an incomplete last batch is a batch, is left out, or begins the next epoch.

    Examples
    --------
    >>> batches = mx.gluon.data.BatchSampler(mx.gluon.data.SequentialSampler(5), 2, "rollover")
    >>> list(batches), list(batches)
    ([[0, 1], [2, 3]], [[4, 0], [1, 2], [3, 4]])
    """

    def __init__(self, sampler: Sampler | Sequence[Any], batch_size: int, last_batch: str = "keep"):
        self._sampler, self._batch_size = sampler, _whole(batch_size)
        self._last_batch = last_batch
        self._rest: list[Any] = []

    def __iter__(self) -> Iterator[list[Any]]:
        self._check()
        indices = chain(self._rest, self._sampler)
        self._rest = []
        while batch := [*islice(indices, self._batch_size)]:
            if len(batch) == self._batch_size or self._last_batch == "keep":
                yield batch
            elif self._last_batch == "rollover":
                self._rest = batch

    def __len__(self) -> int:
        self._check()
        count = len(self._rest) + len(self._sampler)
        return -(-count // self._batch_size) if self._last_batch == "keep" else (
            count // self._batch_size)

    def _check(self) -> None:
        if self._last_batch not in _LAST_BATCH:
            raise ArgumentError("last_batch must be one of 'keep', 'discard', or 'rollover', "
                                f"but got {self._last_batch}")
