"""`_MultiWorkerIter`: batches that a pool makes, for loaders of other projects.

`DataLoader` has workers of its own.  Loaders that derive from MXNet's, such as gluon-cv's, have
a pool, derive their epochs from this class, and override `_push_next`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from ...context import cpu_pinned
from .batches import _as_in_context

__all__: list[str] = []


class _MultiWorkerIter:
    """An epoch: `prefetch` batches and the one after them are made ahead, in order.

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
