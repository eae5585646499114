"""Exchange of gradients and parameters while the network computes.

    backward   a bucket of gradients is final   -> its reduce-scatter begins
    update     all reduce-scatters have ended   -> the owners' update; the all-gathers begin
    forward    a step reads a parameter         <- waits for the all-gather of its bucket

Buckets are formed in the order in which the backward pass makes gradients final, the first ones
small, so that the exchange begins early; all-gathers are in the order in which the forward pass
reads parameters.  Both orders are those of rank 0.  One thread performs all exchanges, in its own
communicator, and computes with NumPy only, beside the kernels of the network.  (Li et al., "PyTorch
Distributed: experiences on accelerating data parallel training", VLDB 2020; waiting by the reading
step is from Peng et al., "A generic communication scheduler for distributed DNN training
acceleration", SOSP 2019.)

`fit` uses it unless a callback looks at gradients before the update, which is when they must be
complete.  Results have the same bits as without it.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ...base import MXNetError
from ...context import cpu
from ...ndarray import NDArray, mutation
from ..compression import Key
from .bucket import Scratch, buckets_of

if TYPE_CHECKING:
    from ...execution.pipeline import CompiledGraph
    from ...execution.steps import BoundGraph
    from ...executor import Executor
    from .distributed_store import DistributedStore

__all__ = ["BUCKET_BYTES", "FIRST_BUCKET_BYTES", "OverlappedExchange", "first_reads",
           "last_writes"]

Plain: TypeAlias = Any  # type: ignore[explicit-any]
"""Values of JSON."""

FIRST_BUCKET_BYTES, BUCKET_BYTES = 2 ** 20, 25 * 2 ** 20
"""Sizes of the first bucket, which the last layers fill soon, and of the others."""


class StepMarks:
    """Find the steps of an executor that wait for parameters, and those that complete gradients.

    The exchange is notified of both.
    """

    def __init__(self, compiled: CompiledGraph, bucket_of: Mapping[str, int],
                 exchange: OverlappedExchange):
        self._exchange = exchange
        self.awaited: dict[int, list[int]] = {}
        self.final: dict[int, list[int]] = {}
        self.notes: dict[int, list[str]] = {}
        for bucket, step in first_reads(compiled, bucket_of).items():
            self.awaited.setdefault(step, []).append(bucket)
            self.notes.setdefault(step, []).append(f"-- first reads bucket {bucket} --")
        for bucket, step in last_writes(compiled, bucket_of).items():
            self.final.setdefault(step, []).append(bucket)
            self.notes.setdefault(step, []).append(f"-- completes bucket {bucket} --")

    def before(self, bound: BoundGraph, index: int) -> None:
        """Wait for the parameters that a step is the first to read."""
        for bucket in self.awaited.get(index, ()):
            self._exchange.await_arrival(bucket)

    def after(self, bound: BoundGraph, index: int, noted: None) -> None:
        """Tell that the gradients that a step was the last to write are final."""
        for bucket in self.final.get(index, ()):
            self._exchange.gradients_are_final(bucket)


def first_reads(compiled: CompiledGraph, bucket_of: Mapping[str, int]) -> dict[int, int]:
    """Return the index of the first step that reads a parameter of each bucket, by bucket."""
    names = {compiled.graph.output_eids(node)[0]: node.name for node in compiled.graph.variables}
    reads: dict[int, int] = {}
    for index, step in enumerate(compiled.plan_steps):
        for eid in step.inputs:
            if eid in names and names[eid] in bucket_of:
                reads.setdefault(bucket_of[names[eid]], index)
    return reads


def last_writes(compiled: CompiledGraph, bucket_of: Mapping[str, int]) -> dict[int, int]:
    """Return the index of the last step that writes a gradient of each bucket, by bucket."""
    writes: dict[int, int] = {}
    for index, step in enumerate(compiled.plan_steps):
        for eid in step.outputs:
            if compiled.gradients.get(eid) in bucket_of:
                writes[bucket_of[compiled.gradients[eid]]] = index
    return writes


class OverlappedExchange:
    """Exchanges buckets of gradients and parameters in a thread of its own.

    Buckets of the trained parameters, `names`, are formed by the order of the compiled graph.
    """

    def __init__(self, store: DistributedStore, compiled: CompiledGraph, names: Sequence[str]):
        self._store = store
        self._communicator = store.communicator.duplicate()
        scratch = Scratch()
        self.exchanges = [store.exchange_of(part, self._communicator, scratch)
                          for part in _agreed_buckets(store, compiled, names)]
        count = len(self.exchanges)
        self._bucket_of = {str(key.name): number for number, one in enumerate(self.exchanges)
                           for key in one.bucket.keys}
        reads = first_reads(compiled, self._bucket_of)
        order = sorted(range(count), key=lambda bucket: reads.get(bucket, -1))
        self._arrival_order: list[int] = _of_rank_0(store, order)
        self._marks: dict[int, tuple[Executor, StepMarks]] = {}
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = [0] * count
        self._begun = 0
        self._reduced, self._arrived = threading.Event(), [threading.Event() for _ in range(count)]
        for arrived in self._arrived:
            arrived.set()
        self._error: BaseException | None = None
        self._gradients: Mapping[str, Sequence[NDArray]] = {}
        self._parameters: Mapping[str, Sequence[NDArray]] = {}
        self._thread = threading.Thread(target=self._serve, name="exchange", daemon=True)
        self._thread.start()

    # -- called by the module ---------------------------------------------------------------

    def begin(self, executors: Sequence[Executor], gradients: Mapping[str, Sequence[NDArray]],
              parameters: Mapping[str, Sequence[NDArray]]) -> None:
        """Prepare for a step of training, by one executor for each device.

        MXNetError if other parameters are trained than those of the buckets.
        """
        if gradients.keys() != self._bucket_of.keys():
            odd = sorted(gradients.keys() ^ self._bucket_of.keys())
            raise MXNetError(f"kvstore: networks with other trained parameters ({odd[:3]}) cannot "
                             "be exchanged during their backward pass; NBMOD_DIST_OVERLAP=0 "
                             "exchanges after it")
        for executor in executors:
            if id(executor) not in self._marks:
                marks = StepMarks(executor.compiled, self._bucket_of, self)
                executor.planned.watchers.append(marks)
                self._marks[id(executor)] = executor, marks
        # Constants are read before all steps.
        if any(executor.planned.constants for executor in executors):
            self.finish()
        self._gradients, self._parameters = gradients, parameters
        self._unfinished, self._begun = [len(executors)] * len(self.exchanges), 0
        self._reduced.clear()

    def gradients_are_final(self, bucket: int) -> None:
        """Note a bucket whose gradients are final on one more device.

        The exchange of buckets begins in order, as far as they are final on all devices.
        """
        with self._lock:
            self._unfinished[bucket] -= 1
            while self._begun < len(self._unfinished) and self._unfinished[self._begun] == 0:
                self._jobs.put(partial(self._reduce, self._begun))
                self._begun += 1

    def update(self) -> None:
        """Update the parameters when all gradients are summed, and begin to send them."""
        self._wait(self._reduced, "gradients")
        self._store.count_updates_of_others([*self._bucket_of])
        self._store.update_owned(self.exchanges)
        for bucket in self._arrival_order:
            self._arrived[bucket].clear()
            self._jobs.put(partial(self._gather, bucket))

    def await_arrival(self, bucket: int) -> None:
        """Wait until the new parameters of a bucket are in the arrays of the devices."""
        arrived = self._arrived[bucket]
        if not arrived.is_set():
            self._wait(arrived, f"bucket {bucket}")

    def finish(self) -> None:
        """Wait until all parameters are in the arrays of the devices."""
        for number, arrived in enumerate(self._arrived):
            self._wait(arrived, f"bucket {number}")

    def close(self) -> None:
        """Finish, and end the thread."""
        self._jobs.put(None)
        self._thread.join()
        for executor, marks in self._marks.values():
            executor.planned.watchers.remove(marks)
        if self._error is None:
            self.finish()

    def _wait(self, event: threading.Event, what: str) -> None:
        event.wait()
        if self._error is not None:
            raise MXNetError(f"kvstore: an exchange failed: {self._error}") from self._error

    # -- in the thread ----------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                job()
        except BaseException as error:  # it is raised where the result is awaited
            self._error = error
            for event in (self._reduced, *self._arrived):
                event.set()

    def _perform(self, what: str, exchange: Callable[[], None]) -> None:
        """Make an exchange that `what` names, when all ranks have come to it.

        The profiler measures this method and `_wait`.
        """
        self._communicator.operation = what
        self._communicator.quiet_barrier()
        exchange()

    def _reduce(self, number: int) -> None:
        bucket = self.exchanges[number].bucket
        gradients = [self._store.merged(key.name, self._gradients[str(key.name)])
                     for key in bucket.keys]
        self._perform(f"reduce-scatter of bucket {number}",
                      partial(bucket.reduce_scatter, gradients, self._store.compression))
        if number == len(self.exchanges) - 1:
            self._reduced.set()

    def _gather(self, number: int) -> None:
        one = self.exchanges[number]
        self._perform(f"all-gather of bucket {number}", partial(one.bucket.all_gather, one.stored))
        for key, stored in zip(one.bucket.keys, one.stored, strict=True):
            for target in self._parameters[str(key.name)]:
                if target._data is stored:     # `DistributedStore.sharing`
                    mutation.written(stored)
                else:
                    NDArray(stored, cpu()).copyto(target)
        self._arrived[number].set()


def _agreed_buckets(store: DistributedStore, compiled: CompiledGraph, names: Sequence[str]
                    ) -> list[list[Key]]:
    """Keys in buckets of one element type, in the order in which rank 0 completes them."""
    written = last_writes(compiled, {name: number for number, name in enumerate(names)})
    order = sorted(range(len(names)), key=lambda number: written.get(number, -1))
    keys = [store.key_of(names[number]) for number in order]
    place = {key.name: written.get(number, -1) for key, number in zip(keys, order, strict=True)}
    buckets = []
    for dtype in dict.fromkeys(store.dtype_of(key.name) for key in keys):
        same = [key for key in keys if store.dtype_of(key.name) == dtype]
        buckets += buckets_of(same, dtype.itemsize, [FIRST_BUCKET_BYTES, BUCKET_BYTES])
    buckets.sort(key=lambda part: max(place[key.name] for key in part))
    return _of_rank_0(store, [[key.name for key in part] for part in buckets])


def _of_rank_0(store: DistributedStore, value: Plain) -> Plain:
    """Plain data of rank 0, on all ranks."""
    return json.loads(store.all_texts(json.dumps(value))[0])
