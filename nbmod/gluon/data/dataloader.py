"""`DataLoader`: batches of a data set, made here, or ahead by threads or processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.reduction import ForkingPickler  # noqa: F401 - loaders import it from here
from typing import Any

from ...base import ArgumentError, CheckError
from ...context import cpu_pinned
from ...io.job_pipeline import Job, LateJob, Pipeline
from .batches import _as_in_context, default_batchify_fn, default_mp_batchify_fn, make_batch
from .dataset import Dataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from .worker_processes import Epoch, LoaderTimeoutError, WorkerPool

__all__ = ["DataLoader"]
__dir__ = __all__.copy


def _batch_sampler(dataset: Any, batch_size: int | None, shuffle: bool,
                   sampler: Sampler | None, last_batch: str | None) -> BatchSampler:
    if batch_size is None:
        raise ArgumentError("batch_size must be specified unless batch_sampler is specified")
    if sampler is not None and shuffle:
        raise ArgumentError("shuffle must not be specified if sampler is specified")
    if sampler is None:
        sampler = (RandomSampler if shuffle else SequentialSampler)(len(dataset))
    return BatchSampler(sampler, batch_size, last_batch or "keep")


class DataLoader:
    """Batches of a data set: each iteration over a loader is an epoch.

    Parameters
    ----------
    dataset : Dataset
        The samples; also a list or an array.
    batch_size : int, optional
        Number of samples in a batch.
    shuffle : bool, default False
        Whether NumPy's global generator draws their order.
    sampler : Sampler, optional
        Their order, instead of `shuffle`.
    last_batch : {'keep', 'discard', 'rollover'}, optional
        Handling of an incomplete last batch, see `BatchSampler`; 'keep' by default.
    batch_sampler : Sampler, optional
        Lists of indices, one for each batch, instead of the four arguments before.
    batchify_fn : callable, optional
        Function that makes a batch of a list of samples; `default_batchify_fn`, or with workers
        `default_mp_batchify_fn`.
    num_workers : int, default 0
        Number of workers that make batches ahead; 0: each is made when it is needed.
    pin_memory : bool, default False
        Whether arrays get the context `cpu_pinned`.
    pin_device_id : int, default 0
        Its number.
    prefetch : int, optional
        Number of batches that are made ahead, by default twice as many as workers.
    thread_pool : bool, default False
        Whether workers are threads, which share the random generators of the process.  Processes
        draw for each batch what follows from the states of the generators when its epoch begins.
    timeout : int, default 120
        Seconds that a batch of workers may take.
    auto_reload : bool, default False
        Whether workers begin the next epoch when one ends.

    Raises
    ------
    ArgumentError
        If arguments exclude each other.
    CheckError
        If the timeout is not positive.
    MXNetError
        In an epoch, if a worker dies, or a batch takes longer than the timeout.

    Examples
    --------
    >>> loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset([1, 2, 3], [4, 5, 6]), 2)
    >>> [data.asnumpy().tolist() for data, label in loader]
    [[1, 2], [3]]
    """

    def __init__(self, dataset: Any, batch_size: int | None = None, shuffle: bool = False,
                 sampler: Sampler | None = None, last_batch: str | None = None,
                 batch_sampler: Any = None,
                 batchify_fn: Callable[[list[Any]], Any] | None = None, num_workers: int = 0,
                 pin_memory: bool = False, pin_device_id: int = 0, prefetch: int | None = None,
                 thread_pool: bool = False, timeout: float = 120, auto_reload: bool = False):
        if timeout <= 0:
            raise CheckError(f"timeout must be positive, given {timeout}")
        if batch_sampler is None:
            batch_sampler = _batch_sampler(dataset, batch_size, shuffle, sampler, last_batch)
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ArgumentError("batch_size, shuffle, sampler and last_batch must not be specified "
                                "if batch_sampler is specified.")
        self._dataset: Dataset = dataset
        self._batch_sampler = batch_sampler
        self._num_workers = max(num_workers, 0)
        self._batchify_fn = batchify_fn or (
            default_mp_batchify_fn if self._num_workers else default_batchify_fn)
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._prefetch = max(2 * self._num_workers if prefetch is None else prefetch, 0)
        self._thread_pool, self._timeout = thread_pool, timeout
        self._worker_pool: WorkerPool | None = None
        self._epochs = 0
        self.auto_reload = auto_reload
        self._iter: Iterator[Any] | None = None
        if auto_reload:
            self.refresh()

    def __iter__(self) -> Iterator[Any]:
        epoch, self._iter = self._iter or self._epoch(), None
        yield from epoch
        if self.auto_reload:
            self.refresh()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def refresh(self) -> None:
        """Begin the next epoch: its first batches are made ahead."""
        self._iter = self._epoch()

    def clean(self) -> None:
        """Drop the epoch that `refresh` began, and with it the batches that were made ahead."""
        self._iter = None

    def _epoch(self) -> Iterator[Any]:
        """Batches of an epoch; workers begin at once."""
        batches: Iterator[Any]
        if not self._num_workers:
            batches = map(self._make, self._batch_sampler)
        else:
            batches = self._threaded() if self._thread_pool else self._in_processes()
        if not self._pin_memory:
            return batches
        pinned = cpu_pinned(self._pin_device_id)
        return (_as_in_context(batch, pinned) for batch in batches)

    def _make(self, indices: Any) -> Any:
        return make_batch(self._dataset, self._batchify_fn, indices)

    def _in_processes(self) -> Iterator[Any]:
        if self._worker_pool is None or not self._worker_pool.is_open:
            self._worker_pool = WorkerPool(self._dataset, self._batchify_fn, self._num_workers)
        self._epochs += 1
        return Epoch(self._worker_pool, self._epochs, iter(self._batch_sampler), self._prefetch,
                     self._timeout)

    def _threaded(self) -> Iterator[Any]:
        pipeline = Pipeline(self._num_workers, max(self._prefetch, 1))
        pipeline.start(map(self._job, self._batch_sampler))
        return _results(pipeline, self._timeout)

    def _job(self, indices: Any) -> Job:
        results: list[Any] = []
        make = partial(self._make, indices)
        return Job([lambda: results.append(make())], results.pop)


def _results(pipeline: Pipeline, timeout: float) -> Iterator[Any]:
    """The results of a pipeline, whose jobs end when they are dropped."""
    try:
        while True:
            try:
                yield pipeline.next(timeout)
            except StopIteration:
                return
            except LateJob as error:
                raise LoaderTimeoutError(timeout) from error
    finally:
        pipeline.abandon()


class _MultiWorkerIter:
    """An epoch of a pool: `prefetch` batches and the one after them are made ahead, in order.

    `DataLoader` has workers of its own.  Loaders of other projects that derive from MXNet's, such
    as gluon-cv's, have a pool, derive their epochs from this class, and override `_push_next`.

    Parameters
    ----------
    worker_pool : multiprocessing.pool.Pool
    batchify_fn : callable
        Passed to `worker_fn`.
    batch_sampler : BatchSampler
        Indices of samples, for each batch.
    pin_memory : bool, default False
    pin_device_id : int, default 0
    worker_fn : callable
        Called in a worker as `worker_fn(indices, batchify_fn, dataset)`; returns a batch, as a
        pickle unless there is a data set here.
    prefetch : int, default 0
    dataset : Dataset, optional
        The samples, where workers have none.
    data_loader : DataLoader, optional
        Kept alive while the epoch is.
    timeout : int, default 120
        Seconds that a batch may take.
    """

    def __init__(self, worker_pool: Any, batchify_fn: Callable[..., Any], batch_sampler: Any,
                 pin_memory: bool = False, pin_device_id: int = 0,
                 worker_fn: Callable[..., Any] | None = None, prefetch: int = 0,
                 dataset: Any = None, data_loader: Any = None, timeout: float = 120):
        self._worker_pool, self._worker_fn, self._batchify_fn = worker_pool, worker_fn, batchify_fn
        self._batch_sampler, self._iter = batch_sampler, iter(batch_sampler)
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._dataset, self._data_loader, self._timeout = dataset, data_loader, timeout
        self._data_buffer: dict[int, Any] = {}
        self._sent_idx = self._rcvd_idx = 0
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> _MultiWorkerIter:
        return self

    def _push_next(self) -> None:
        """Let a worker make the next batch, if there is one."""
        for indices in self._iter:
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(
                self._worker_fn, (indices, self._batchify_fn, self._dataset))
            self._sent_idx += 1
            return

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        batch = self._data_buffer.pop(self._rcvd_idx).get(self._timeout)
        self._rcvd_idx += 1
        if self._dataset is None:
            batch = pickle.loads(batch)
        return _as_in_context(batch, cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    next = __next__
