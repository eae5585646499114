"""The synchronous distributed store: `dist_sync` and `dist_device_sync`.

Every rank, a process that `nbmod launch` has started, has such a store, and all ranks
call the same methods with the same keys in the same order.  A push is

    1. a sum over the devices of this rank
    2. a reduce-scatter: gradients go to the owners of their rows (`row_ranges`), who sum them in
       the order of ranks
    3. an update of the owned rows by the optimizer, with the states of these rows
    4. an all-gather of the new values

so a pull copies what is here already.  Arrays are those of a single process with as many devices as
there are ranks, bit for bit, and equal on all ranks.  Of row-sparse keys each rank stores the rows
that it owns and nothing else: gradients of rows travel to the owners, and `row_sparse_pull` fetches
rows from them.

Invariant: before anything is exchanged the ranks compare what they are about to do (`_agree`), so
that calls that differ are an error on all of them instead of a deadlock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ...base import Array, DType, MXNetError
from ...context import cpu
from ...core.config import CONFIG
from ...ndarray import NDArray, invoke
from ...ndarray.sparse_array import RowSparseNDArray
from ...ops.device import CPU, device_of
from ...ops.elementwise.arithmetic import AddN
from ...ops.sparse.formats import RowSparse
from ...optimizer import Optimizer, Updater
from ...optimizer.base_optimizer import RuleOptimizer
from ...optimizer.state_files import save_states_file
from ...optimizer.updater import is_fusible
from ..compression import Key, TwoBit
from ..key_values import Keys, Pairs, Values, _pairs
from ..kvstore import KVStore, UpdateFunction
from ..row_pull import Rows
from ..sums import Job, _copied, _sum
from .bucket import Bucket, BucketKey, Scratch, buckets_of
from .communicator import Communicator, allgather_texts
from .gathered_states import gather_states, own_states
from .row_ranges import Bounds, OwnerChoice, Span
from .sparse_rows import all_gather_rows, fetch_rows, scatter_rows

__all__ = ["DistributedStore"]

BUCKET_BYTES = 25 * 2 ** 20
"""Size of the gradients that are exchanged together."""


@dataclass
class BucketExchange:
    """A bucket, the stored arrays of its keys, and the rows of them that this rank owns."""

    bucket: Bucket
    stored: list[Array]
    names: list[Key]
    owned: list[NDArray]


class DistributedStore(KVStore):
    """A key-value store of several processes, as created by `mx.kv.create("dist_sync")`.

    All ranks have the same values and call the same methods in the same order. `init` takes the
    values of rank 0; `push` sums the values of all ranks in their order, which the optimizer then
    merges into the stored arrays, each rank for a part of them; `pull` copies these.  The kinds
    'dist_device_sync' and 'dist_sync_device' sum the values of a rank on its devices.
    """

    def __init__(self, kind: str, communicator: Communicator):
        super().__init__(kind)
        self.communicator = communicator
        self._scratch = Scratch()
        self._shards: dict[Key, RowSparseNDArray] = {}
        self._host_sums: dict[Key, NDArray] = {}
        self._forget_owners()

    def _forget_owners(self) -> None:
        self._choose = OwnerChoice(self.communicator.size, CONFIG.bigarray_bound)
        self._bounds: dict[Key, Bounds] = {}
        self._exchanges: dict[tuple[Key, ...], list[BucketExchange]] = {}

    @property
    def rank(self) -> int:
        """Index of this process, from 0."""
        return self.communicator.rank

    @property
    def num_workers(self) -> int:
        """Number of processes."""
        return self.communicator.size

    # -- agreement --------------------------------------------------------------------------

    def _agree(self, call: str, names: Sequence[Key] = (), details: object = None) -> None:
        """Raise MXNetError, on all ranks, unless all of them are in the same call."""
        text = f"{call} of {_listed(names)}" if names else call
        self.communicator.operation = text
        complete = f"{text} {list(names)} {details}"
        digest = np.frombuffer(hashlib.sha256(complete.encode()).digest(), np.uint64)
        if (self.communicator.allgather(digest) == digest).all():
            return
        calls = allgather_texts(self.communicator, f"{text}, {details}" if details else text)
        raise MXNetError("kvstore: the ranks differ, all of them must make the same calls in the "
                         "same order: " + "; ".join(
                             f"rank {rank} ({self.communicator.hosts[rank]}) is in {one}"
                             for rank, one in enumerate(calls)))

    def _barrier(self) -> None:
        """Wait for all ranks."""
        self._agree("barrier")

    def all_say(self, answer: bool) -> list[bool]:
        """Return the answers of all ranks, from that of this one."""
        self.communicator.operation = "agreement of all ranks"
        answers = self.communicator.allgather(np.array([answer]))
        return answers[:, 0].tolist()

    def all_texts(self, text: str) -> list[str]:
        """Return the texts of all ranks, from that of this one."""
        self.communicator.operation = "exchange of texts"
        return allgather_texts(self.communicator, text)

    # -- owners -----------------------------------------------------------------------------

    def _needs_whole_arrays(self) -> bool:
        updater = self._updater
        if updater is None:
            return False
        optimizer = updater.optimizer if isinstance(updater, Updater) else None
        return not (isinstance(optimizer, RuleOptimizer) and is_fusible(type(optimizer))
                    and optimizer.is_separable)

    def _bounds_of(self, name: Key) -> Bounds:
        """The rows that each rank owns of a key; chosen for all keys in order of creation."""
        if name not in self._bounds:
            whole = self._needs_whole_arrays()
            for key, stored in [*self._stored.items()]:     # threads of servers are here, too
                if key not in self._bounds:
                    self._bounds[key] = self._choose(stored.shape, whole, stored.is_sparse)
        return self._bounds[name]

    def _own(self, name: Key) -> Span:
        """The rows of a key that this rank owns."""
        bounds = self._bounds_of(name)
        return slice(bounds[self.rank], bounds[self.rank + 1])

    # -- values -----------------------------------------------------------------------------

    def init(self, key: Keys, value: Values) -> None:
        pairs = _pairs(key, value, "value")
        self._check_new(pairs)
        self._agree("init", [name for name, _ in pairs], _described(pairs))
        for name, (array,) in pairs:
            if array.is_sparse:
                self._stored[name] = _no_rows(array)
                rows = array._data if self.rank == 0 else self._stored[name]._data
                self._keep_rows(name, rows)
            else:
                self._stored[name] = _copied(array, cpu())
                self.communicator.broadcast(self._stored[name]._data)
            self._order[name] = name if isinstance(name, int) else len(self._order)

    def _keep_rows(self, name: Key, rows: RowSparse) -> None:
        """Store the rows that this rank owns, of those that all ranks give."""
        parts = scatter_rows(self.communicator, rows, self._bounds_of(name))
        self._shards[name] = _sum_of_rows(parts)

    def _push(self, pairs: Pairs) -> None:
        grouped = self._in_order(pairs)
        sparse = {name for name, values in grouped.items()
                  if any(array.is_sparse for array in (self._stored[name], *values))}
        self._agree("push", [*grouped], [name in sparse for name in grouped])
        self.count_updates_of_others([*grouped])
        for name in sorted(sparse, key=self._order.__getitem__):
            self._push_rows(name, grouped[name])
        dense = [name for name in grouped if name not in sparse]
        gradients = self._merged_at_once({name: grouped[name] for name in dense})
        exchanges = self._exchanges_of(tuple(dense))
        for exchange in exchanges:
            keys = [key.name for key in exchange.bucket.keys]
            exchange.bucket.reduce_scatter([gradients[name] for name in keys], self._compression)
        self.update_owned(exchanges)
        for exchange in exchanges:
            exchange.bucket.all_gather(exchange.stored)

    def update_owned(self, exchanges: Sequence[BucketExchange]) -> None:
        """Merge the sums of buckets, which are complete, into the rows that this rank owns."""
        self._store([name for one in exchanges for name in one.names],
                    [total for one in exchanges for total in one.bucket.sums],
                    [array for one in exchanges for array in one.owned])

    def count_updates_of_others(self, names: Sequence[Key]) -> None:
        """Count the updates that other ranks perform, so that all have the same learning rate."""
        if isinstance(self._updater, Updater):
            others = [name for name in names if self._own(name).start == self._own(name).stop]
            self._updater.optimizer._update_count(others)

    def _store(self, names: Sequence[Key], totals: Sequence[NDArray], owned: Sequence[NDArray]
               ) -> None:
        """Merge sums into rows that this rank owns."""
        if self._updater is not None:
            if names:
                self._update(names, totals, owned)
            return
        for total, array in zip(totals, owned, strict=True):
            total.copyto(array)

    def _exchanges_of(self, names: tuple[Key, ...]) -> list[BucketExchange]:
        """The exchanges of these keys, prepared once."""
        if names not in self._exchanges:
            exchanges = []
            for dtype, group in groupby(names, lambda name: self._stored[name].dtype):
                keys = [self.key_of(name) for name in group]
                parts = buckets_of(keys, np.dtype(dtype).itemsize, [BUCKET_BYTES])
                exchanges += [self.exchange_of([key.name for key in part], self.communicator,
                                               self._scratch) for part in parts]
            self._exchanges[names] = exchanges
        return self._exchanges[names]

    def key_of(self, name: Key) -> BucketKey:
        """Return a key as part of a bucket."""
        return BucketKey(name, self._stored[name].shape, self._bounds_of(name))

    def dtype_of(self, name: Key) -> DType:
        """Return the element type of a key."""
        return np.dtype(self._stored[name].dtype)

    def exchange_of(self, keys: Sequence[Key], communicator: Communicator, scratch: Scratch
                    ) -> BucketExchange:
        """Return the exchange of keys of one element type; several may share `scratch`."""
        bucket = Bucket(communicator, [self.key_of(name) for name in keys], self.dtype_of(keys[0]),
                        scratch)
        names = [bucket.keys[index].name for index in bucket.owned]
        return BucketExchange(bucket, [self._stored[key.name]._data for key in bucket.keys], names,
                              [NDArray(self._stored[name]._data[self._own(name)], cpu())
                               for name in names])

    @property
    def compression(self) -> TwoBit | None:
        """How gradients are compressed."""
        return self._compression

    def merged(self, name: Key, values: Sequence[NDArray]) -> Array:
        """Return the sum over the devices of this rank, compressed, in host memory."""
        stored = self._stored[name]
        values = [value.astype(stored.dtype, copy=False) for value in values]
        total = values[0]
        if len(values) > 1:
            context = total.context if "device" in self._kind else cpu()
            total = self._sums[name] = _sum(values, context, self._sums.get(name))
        return self._in_host_memory(name, total)

    def _merged_at_once(self, grouped: Mapping[Key, Sequence[NDArray]]) -> dict[Key, Array]:
        """Merge the values of several keys; those on several GPUs by one launch on each."""
        jobs = {name: self._device_sum(name, values) for name, values in grouped.items()
                if "device" in self._kind and len(values) > 1
                and all(value.context.is_gpu for value in values)}
        self._reduce("push", [*jobs], [*jobs.values()])
        return {name: self._in_host_memory(name, jobs[name][1]) if name in jobs
                else self.merged(name, values) for name, values in grouped.items()}

    def _device_sum(self, name: Key, values: Sequence[NDArray]) -> Job:
        """A sum that is stored on one of its devices, that with the fewest elements so far."""
        stored = self._stored[name]
        total = self._sums.get(name)
        if total is None or all(total.context != value.context for value in values):
            context = self._least_loaded(values, stored.size)
            total = self._sums[name] = NDArray(
                device_of(context).empty(stored.shape, stored.dtype), context)
        return [value.astype(stored.dtype, copy=False) for value in values], total

    def _in_host_memory(self, name: Key, total: NDArray) -> Array:
        """The sum of this rank, compressed.

        Copies from GPUs pass through page-locked memory (`ops.cuda.runtime.driver`).
        """
        if self._compression is not None:
            total, = self._compression(name, [total])
        if device_of(total.context) is not CPU:
            if name not in self._host_sums:
                self._host_sums[name] = NDArray(CPU.empty(total.shape, total.dtype), cpu())
            total.copyto(self._host_sums[name])
            total = self._host_sums[name]
        data: Array = total._data
        return data

    def _pull(self, pairs: Pairs, ignore_sparse: bool = True) -> None:
        dense = [(name, targets) for name, targets in pairs if name not in self._shards]
        super()._pull(dense, ignore_sparse)
        for name, targets in pairs:
            targets = [out for out in targets if not (ignore_sparse and out.is_sparse)]
            if name in self._shards and targets:
                self._agree("pull", [name])
                whole = self._with_rows(name, np.arange(len(targets[0])))
                for target in targets:
                    whole.copyto(target)

    def assign(self, key: Key, value: NDArray) -> None:
        if key not in self._shards:
            super().assign(key, value)

    @contextmanager
    def sharing(self, parameters: Mapping[str, NDArray]) -> Iterator[None]:
        """Store the values of some keys where they are used, so that pulls copy nothing.

        `parameters` are arrays on the CPU, of the types and with the values that are stored.  What
        the block writes to them is stored; after it, the store has arrays of its own again.
        """
        self._stored.update(parameters)
        self._exchanges.clear()
        try:
            yield
        finally:
            self._stored.update({name: _copied(self._stored[name], cpu()) for name in parameters})
            self._exchanges.clear()

    def may_share(self, name: Key, value: NDArray) -> bool:
        """Whether `sharing` may take an array for what is stored of a key."""
        stored = self._stored.get(name)
        return (stored is not None and not stored.is_sparse and not value.is_sparse
                and not value.context.is_gpu and value._data.flags.c_contiguous
                and stored.dtype == value.dtype and stored.shape == value.shape
                and np.array_equal(*(array._data.reshape(-1).view(np.uint8)
                                     for array in (stored, value))))

    # -- sparse rows ------------------------------------------------------------------------

    def _push_rows(self, name: Key, values: Sequence[NDArray]) -> None:
        """Send rows to their owners, which update them."""
        stored, own = self._stored[name], self._own(name)
        total = _sum([_row_sparse(value.astype(stored.dtype, copy=False)) for value in values],
                     cpu())
        parts = scatter_rows(self.communicator, total._data, self._bounds_of(name))
        summed = _sum_of_rows(parts)
        if stored.is_sparse:
            self._store_shard(name, summed)
            return
        shard = NDArray(stored._data[own], cpu())
        if own.start < own.stop:
            self._store([name], [summed], [shard])
        rows = summed._data.indices
        changed = (RowSparse(rows + own.start, shard._data[rows], stored.shape)
                   if self._updater is not None else _every_row(shard, own, stored.shape))
        indices, data = all_gather_rows(self.communicator, changed)
        stored._data[indices] = data

    def _store_shard(self, name: Key, summed: RowSparseNDArray) -> None:
        if self._updater is None:
            self._shards[name] = summed
        elif len(summed):
            self._update([name], [summed], [self._shards[name]])

    def share(self, key: Key, *arrays: NDArray) -> bool:
        return key not in self._shards and super().share(key, *arrays)

    def _with_rows(self, name: Key, rows: Rows) -> NDArray:
        if name not in self._shards:
            return super()._with_rows(name, rows)
        indices = np.unique(rows)
        shard = self._shards[name]._data
        data = fetch_rows(self.communicator, indices, shard, self._bounds_of(name))
        return RowSparseNDArray(RowSparse(indices, data, self._stored[name].shape), cpu())

    def row_sparse_pull(self, key: Keys, out: Values | None = None, priority: int = 0,
                        row_ids: Values | None = None) -> None:
        self._agree("row_sparse_pull", key if isinstance(key, list) else [key])  # type: ignore
        super().row_sparse_pull(key, out, priority, row_ids)

    # -- updates ----------------------------------------------------------------------------

    def set_optimizer(self, optimizer: Optimizer) -> None:
        self._agree("set_optimizer", details=type(optimizer).__name__)
        super().set_optimizer(optimizer)

    def _set_updater(self, updater: UpdateFunction) -> None:
        shards = {name: (self._shards[name]._data, self._own(name)) for name in self._shards}
        super()._set_updater(updater)
        self._forget_owners()
        for name, (shard, own) in shards.items():
            self._keep_rows(name, RowSparse(shard.indices + own.start, shard.data,
                                            self._stored[name].shape))

    def set_gradient_compression(self, compression_params: Mapping[str, object]) -> None:
        """Compress as `KVStore` does, after the sum over the devices of this rank."""
        self._compression = TwoBit.from_params(compression_params)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        updater = self._require_updater()
        self._agree("save_optimizer_states", details=fname)
        states = gather_states(self.communicator, updater.states,
                               {name: self._bounds_of(name) for name in self._stored})
        if self.rank == 0:
            whole = Updater(updater.optimizer)
            whole.states = states
            save_states_file(whole, fname, dump_optimizer)
        self._barrier()

    def load_optimizer_states(self, fname: str) -> None:
        super().load_optimizer_states(fname)
        updater = self._require_updater()
        updater.states = own_states(updater.states, {name: (self._bounds_of(name), self.rank)
                                                     for name in self._stored})
        updater.states_synced = dict.fromkeys(updater.states, False)


def _listed(names: Sequence[Key]) -> str:
    """Names of keys for a message."""
    if len(names) == 1:
        return f"key {names[0]!r}"
    return f"{len(names)} keys from {names[0]!r} to {names[-1]!r}"


def _described(pairs: Pairs) -> list[tuple[object, ...]]:
    """Shapes and types of values that must be equal on all ranks."""
    return [(value.shape, np.dtype(value.dtype).name, value.stype)
            for _, values in pairs for value in values]


def _no_rows(like: NDArray) -> RowSparseNDArray:
    return RowSparseNDArray(RowSparse.empty(like.shape, np.dtype(like.dtype)), cpu())


def _row_sparse(value: NDArray) -> NDArray:
    return value if value.is_sparse else value.tostype("row_sparse")


def _sum_of_rows(parts: Sequence[RowSparse]) -> RowSparseNDArray:
    """The sum of row-sparse tensors, from left to right."""
    arrays = [RowSparseNDArray(part, cpu()) for part in parts]
    total = invoke(AddN(len(arrays)), arrays) if len(arrays) > 1 else arrays[0]
    assert isinstance(total, RowSparseNDArray)
    return total


def _every_row(shard: NDArray, own: Span, shape: tuple[int, ...]) -> RowSparse:
    return RowSparse(np.arange(own.start, own.stop), shard._data, shape)
