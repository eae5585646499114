"""The asynchronous distributed store: `dist_async`.

Every rank has a server, a thread that owns the rows of keys that `row_ranges` gives this rank.  A
push sends gradients to the servers of their rows and returns; a server applies each at once, when
it arrives, by the optimizer (which there must be), without waiting for other ranks.  A pull asks
the servers for their rows and waits for these.  So parameters may be computed from gradients of
older parameters (staleness), and two runs differ.  What one rank sends to one server arrives in
order: a pull sees the rank's own pushes.  (Li et al., "Scaling distributed machine learning with
the parameter server", OSDI 2014.)

Requests and replies are messages (`wire`) from one rank to another:

    {"push": key}               + gradient of the rows, or its codes, or indices and rows
    {"pull": key, "id": n}      -> {"id": n} + rows
    {"rows": key, "id": n}      + indices -> {"id": n} + rows
    {"states", "id": n}         -> {"id": n, "structure", "names"} + arrays of optimizer states
    {"flush", "id": n}          -> {"id": n}, when all earlier requests of the rank are done
"""

from __future__ import annotations

import atexit
import sys
import threading
import traceback
from collections.abc import Sequence

import numpy as np

from ...base import Array, MXNetError
from ...context import cpu
from ...ndarray import NDArray
from ...ndarray.sparse_array import RowSparseNDArray
from ...ops.sparse.formats import RowSparse
from ...optimizer import Optimizer, Updater
from ...optimizer.state_files import save_states_file
from ...optimizer.tensor_states import decoded_states, encoded_states
from ..compression import Key
from ..key_values import Keys, Pairs, Values, _key
from ..kvstore import KVStore
from ..row_pull import Rows
from ..sums import _sum
from .communicator import Communicator, back_off
from .distributed_store import DistributedStore, _row_sparse
from .gathered_states import joined_states
from .row_ranges import Bounds
from .watchdog import Messages
from .wire import Message, decode, encode

__all__ = ["AsynchronousStore"]

LONGEST_PAUSE = 2e-3
"""Seconds between two looks for messages, if none has arrived for some time."""


class AsynchronousStore(DistributedStore):
    """A key-value store of several processes, as created by `mx.kv.create("dist_async")`.

    `init` and `set_optimizer` are called by all ranks; each pushes and pulls on its own.  Messages
    to servers (`requests`) and from them (`replies`) have ways of their own.
    """

    def __init__(self, kind: str, communicator: Communicator, requests: Messages,
                 replies: Messages):
        super().__init__(kind, communicator)
        self._requests, self._replies = requests, replies
        self._lock = threading.RLock()  # of what the server changes; held in no exchange
        self._client = threading.RLock()
        self._asked = 0
        self._answers: dict[int, tuple[Message, list[Array]]] = {}
        self._is_open = True
        self._server = threading.Thread(target=self._serve, name="kvstore server", daemon=True)
        self._server.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Serve until all ranks have done all their requests, and end the server."""
        if self._is_open:
            self._barrier()
            self.end()

    def end(self) -> None:
        """End the server, whatever others may still ask for."""
        self._is_open = False
        self._server.join()
        atexit.unregister(self.close)

    # -- called by all ranks ----------------------------------------------------------------

    def init(self, key: Keys, value: Values) -> None:
        super().init(key, value)
        self.communicator.barrier()

    def set_optimizer(self, optimizer: Optimizer) -> None:
        self._barrier()     # so that no request is under way
        super().set_optimizer(optimizer)
        self.communicator.barrier()

    def _bounds_of(self, name: Key) -> Bounds:
        with self._lock:
            return super()._bounds_of(name)

    def _barrier(self) -> None:
        """Wait until all ranks are here and their pushes are applied."""
        self._ask_all("flush", {})
        super()._barrier()

    # -- the worker -------------------------------------------------------------------------

    def _push(self, pairs: Pairs) -> None:
        if self._updater is None:
            raise MXNetError("kvstore 'dist_async': a push is applied by the optimizer when it "
                             "arrives, and there is none; call set_optimizer first")
        for name, values in self._in_order(pairs).items():
            for rank, arrays in self._parts(name, values):
                if rank == self.rank:
                    self._apply(name, arrays)
                else:
                    self._requests.send(rank, encode({"push": name}, arrays))

    def _parts(self, name: Key, values: Sequence[NDArray]) -> list[tuple[int, list[Array]]]:
        """Divide a gradient among the owners of rows: as rows, their codes, or indices and rows."""
        bounds = self._bounds_of(name)
        owners = [(rank, bounds[rank], bounds[rank + 1]) for rank in range(self.num_workers)
                  if bounds[rank] < bounds[rank + 1]]
        stored = self._stored[name]
        if stored.is_sparse or any(value.is_sparse for value in values):
            total = _sum([_row_sparse(value.astype(stored.dtype, copy=False)) for value in values],
                         cpu())._data
            cuts = np.searchsorted(total.indices, bounds)
            return [(rank, [total.indices[cuts[rank]:cuts[rank + 1]] - start,
                            total.data[cuts[rank]:cuts[rank + 1]]]) for rank, start, _ in owners]
        total = self.merged(name, values)
        if self._compression is None:
            return [(rank, [total[start:stop]]) for rank, start, stop in owners]
        return [(rank, [self._compression.encode(total[start:stop].reshape(-1))])
                for rank, start, stop in owners]

    def _pull(self, pairs: Pairs, ignore_sparse: bool = True) -> None:
        requests = [(name, targets) for name, outs in pairs
                    if (targets := [out for out in outs if not (ignore_sparse and out.is_sparse)])]
        for name, _ in requests:
            if name not in self._shards:
                self._refresh(name)
        for name, targets in requests:
            whole = self._stored[name]
            if name in self._shards:
                whole = self._with_rows(name, np.arange(len(whole)))
            for target in targets:
                whole.copyto(target)

    def _refresh(self, name: Key) -> None:
        """Fetch the rows of other owners."""
        bounds = self._bounds_of(name)
        others = [rank for rank in range(self.num_workers)
                  if rank != self.rank and bounds[rank] < bounds[rank + 1]]
        for rank, (_, (rows,)) in zip(others, self._ask(others, {"pull": name}), strict=True):
            self._stored[name]._data[bounds[rank]:bounds[rank + 1]] = rows

    def row_sparse_pull(self, key: Keys, out: Values | None = None, priority: int = 0,
                        row_ids: Values | None = None) -> None:
        KVStore.row_sparse_pull(self, key, out, priority, row_ids)

    def _with_rows(self, name: Key, rows: Rows) -> NDArray:
        if name not in self._shards:
            self._refresh(name)
            return self._stored[name]
        indices, bounds = np.unique(rows), self._bounds_of(name)
        cuts = np.searchsorted(indices, bounds)
        parts = []
        for rank in range(self.num_workers):
            part = indices[cuts[rank]:cuts[rank + 1]] - bounds[rank]
            if rank == self.rank:
                parts.append(self._rows_of(name, part))
            elif len(part):
                (_, (data,)), = self._ask([rank], {"rows": name}, [part])
                parts.append(data)
        return RowSparseNDArray(RowSparse(indices, np.concatenate(parts),
                                          self._stored[name].shape), cpu())

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Save the states of all servers, and on demand the optimizer; rank 0 does, alone."""
        whole = Updater(self._require_updater().optimizer)
        if self.rank != 0:
            return
        parts = []
        for rank in range(self.num_workers):
            if rank == self.rank:
                message, arrays = self._states()
            else:
                (message, arrays), = self._ask([rank], {"states": True})
            names: Sequence[str] = message["names"]  # type: ignore[assignment]  # a list
            parts.append(decoded_states(message["structure"], dict(zip(names, arrays,
                                                                       strict=True))))
        whole.states = joined_states(parts, {name: self._bounds_of(name) for name in self._stored})
        save_states_file(whole, fname, dump_optimizer)

    def load_optimizer_states(self, fname: str) -> None:
        with self._lock:
            super().load_optimizer_states(fname)

    def _ask_all(self, what: str, message: Message) -> None:
        others = [rank for rank in range(self.num_workers) if rank != self.rank]
        self._ask(others, {what: True, **message})

    def _ask(self, ranks: Sequence[int], message: Message, arrays: Sequence[Array] = ()
             ) -> list[tuple[Message, list[Array]]]:
        """Send a request to servers, and wait for their replies."""
        with self._client:
            numbers = range(self._asked, self._asked + len(ranks))
            self._asked += len(ranks)
            for number, rank in zip(numbers, ranks, strict=True):
                self._requests.send(rank, encode({**message, "id": number}, arrays))
            for number, rank in zip(numbers, ranks, strict=True):
                with self.communicator.waiting_for(rank, f"request {[*message][0]!r}"):
                    self._await(number)
            return [self._answers.pop(number) for number in numbers]

    def _await(self, number: int) -> None:
        """Take replies until that with a number is there."""
        while number not in self._answers:
            arrived = self._arrival(self._replies)
            if arrived is None:
                raise MXNetError("kvstore 'dist_async': the store is closed")
            reply, arrays = decode(arrived[1])
            self._answers[int(str(reply["id"]))] = reply, arrays

    def _arrival(self, messages: Messages) -> tuple[int, bytes] | None:
        """The next message and its rank; None once the store is closed."""
        waiting = back_off(LONGEST_PAUSE)
        while self._is_open:
            arrived = messages.receive()
            if arrived is not None:
                return arrived
            next(waiting)
        return None

    # -- the server -------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while (arrived := self._arrival(self._requests)) is not None:
                self._answer(*arrived)
        except BaseException:
            print(f"kvstore: the server of rank {self.rank} failed, so all ranks end:\n"
                  f"{traceback.format_exc()}", file=sys.stderr, flush=True)
            self.communicator.abort(1)

    def _answer(self, rank: int, content: bytes) -> None:
        """Do what a rank asks for."""
        message, arrays = decode(content)
        if "push" in message:
            self._apply(_key(message["push"]), arrays)
            return
        reply: Message = {}
        results: list[Array] = []
        if "pull" in message:
            results = [self._own_rows(_key(message["pull"]))]
        elif "rows" in message:
            results = [self._rows_of(_key(message["rows"]), arrays[0])]
        elif "states" in message:
            reply, results = self._states()
        self._replies.send(rank, encode({**reply, "id": message["id"]}, results))

    def _apply(self, name: Key, arrays: Sequence[Array]) -> None:
        """Merge a gradient of this server's rows into them."""
        with self._lock:
            owned = (self._shards[name] if name in self._shards
                     else NDArray(self._stored[name]._data[self._own(name)], cpu()))
            self._update([name], [self._gradient(owned, arrays)], [owned])

    def _gradient(self, owned: NDArray, arrays: Sequence[Array]) -> NDArray:
        if len(arrays) == 2:
            indices, data = arrays
            return RowSparseNDArray(RowSparse(indices, data.copy(), owned.shape), cpu())
        values, = arrays
        if self._compression is None:
            return NDArray(values.copy(), cpu())
        gradient = np.empty(owned.size, np.float32)
        self._compression.decode(values.view(np.uint8), gradient)
        return NDArray(gradient.reshape(owned.shape), cpu())

    def _own_rows(self, name: Key) -> Array:
        with self._lock:
            rows: Array = self._stored[name]._data[self._own(name)].copy()
            return rows

    def _rows_of(self, name: Key, indices: Array) -> Array:
        with self._lock:
            rows: Array = self._shards[name]._data.retain(indices).data
            return rows

    def _states(self) -> tuple[Message, list[Array]]:
        with self._lock:
            structure, tensors = encoded_states(self._require_updater().states)
            return {"structure": structure, "names": [*tensors]}, [*tensors.values()]
