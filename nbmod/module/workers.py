"""Training beside the other workers of a distributed key-value store.

Each worker is a process that runs the same script on its part of the data.  `fit` agrees with the
others before every batch whether all of them have one, so that workers with more data do not wait
for one that has ended its epoch.  Checkpoints are written by rank 0, in whose `.resume` file each
worker has a part: its random states, positions of iterators and auxiliary states.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from ..base import warn_user
from ..core.config import CONFIG
from ..kvstore import KVStoreBase
from ..launcher import position
from ..ndarray.sparse_array import stored_parts
from .json_codec import Plain, decode, encode

if TYPE_CHECKING:
    from ..io import DataBatch
    from ..kvstore.distributed.distributed_store import DistributedStore
    from ..ndarray import NDArray
    from .executor_group import DataParallelExecutorGroup
    from .module_interface import ModuleInterface
    from .training_position import TrainingPosition

__all__ = ["announce_forward", "beside_others", "distributed", "finish_exchange",
           "gathered_parts", "own_part", "save_part", "writes_files"]

OWN = ("random", "train_data", "eval_data", "store", "devices")
"""Parts of a training state that differ between workers."""


def distributed(store: KVStoreBase | None) -> DistributedStore | None:
    """The store, if it is one of several workers that go in step."""
    if (store is None or store.num_workers == 1 or "dist" not in store.type
            or "_async" in store.type):
        return None
    from ..kvstore.distributed.distributed_store import DistributedStore

    return store if isinstance(store, DistributedStore) else None


def writes_files(store: KVStoreBase | None) -> bool:
    """Whether this process writes the files of a checkpoint: of several workers rank 0 does."""
    return store is None or "dist" not in store.type or store.rank == 0


def save_part(module: ModuleInterface, states: bool, save_states: Callable[[], None]) -> None:
    """Send the parts of a worker for a checkpoint that another worker writes."""
    if states:
        module.get_params()     # of sparse ones all workers have rows
        save_states()


def agreed_batches(store: DistributedStore, progress: TrainingPosition,
                   batches: Iterator[DataBatch]) -> Iterator[DataBatch]:
    """The batches of an epoch, as many as the worker with the fewest has.

    One batch is fetched for each that is yielded, when it is asked for.
    """
    count = progress.batch
    while True:
        position.tell(progress.epoch, count)
        batch = next(batches, None)
        having = store.all_say(batch is not None)
        if batch is None or not all(having):
            if any(having) and store.rank == 0:
                short = [rank for rank, has in enumerate(having) if not has]
                warn_user(f"fit: rank {short[0]} has {count} batches in epoch {progress.epoch} and "
                          f"{len(having) - len(short)} other(s) have more, which are left out; "
                          "give every worker equally many samples")
            return
        if count == 0:
            _warn_of_equal_data(store, batch)
        yield batch
        count += 1


def _warn_of_equal_data(store: DistributedStore, batch: DataBatch) -> None:
    digest = hashlib.sha256()
    for array in [*batch.data, *(batch.label or ())]:
        for part in stored_parts(array):
            digest.update(part.tobytes())
    if len({*store.all_texts(digest.hexdigest())}) == 1 and store.rank == 0:
        warn_user(f"fit: all {store.num_workers} workers have the same first batch; give each its "
                  "part of the data, with num_parts=kv.num_workers and part_index=kv.rank")


def beside_others(store: KVStoreBase | None, group: DataParallelExecutorGroup,
                  updates_here: bool, progress: TrainingPosition, overlaps: bool
                  ) -> AbstractContextManager[None]:
    """Train beside the other workers of a module's store, if there are any.

    All yield equally many batches.  Gradients are exchanged during the backward pass if it
    `overlaps`, except for those of sparse parameters and on GPUs, and by default only between
    hosts: on one host exchanges are work of the cores that compute, and there is nothing to wait
    for.
    """
    workers = distributed(store)
    if workers is None:
        return nullcontext()
    progress.agreed = partial(agreed_batches, workers, progress)
    if updates_here or any(ctx.is_gpu for ctx in group.contexts):
        return nullcontext()
    gradients, parameters = _trained_arrays(group)
    if (not overlaps or not _may_overlap(workers) or not parameters
            or not all(executor.is_planned for executor in group.execs)
            or any(array.is_sparse for copies in (*gradients.values(), *parameters.values())
                   for array in copies)):
        return _shared(workers, parameters)
    return _overlapped(workers, group, parameters)


def _may_overlap(store: DistributedStore) -> bool:
    chosen = CONFIG.dist_overlap
    return len({*store.communicator.hosts}) > 1 if chosen is None else chosen


def _shared(store: DistributedStore, parameters: Arrays) -> AbstractContextManager[None]:
    """A block in which the store's arrays are those of the only device, where that is possible."""
    return store.sharing({name: copies[0] for name, copies in parameters.items()
                          if len(copies) == 1 and store.may_share(name, copies[0])})


@contextmanager
def _overlapped(store: DistributedStore, group: DataParallelExecutorGroup, parameters: Arrays
                ) -> Iterator[None]:
    from ..kvstore.distributed.overlap import OverlappedExchange

    with _shared(store, parameters):
        store.overlap = overlap = OverlappedExchange(store, group.execs[0].compiled, [*parameters])
        try:
            yield
        finally:
            store.overlap = None
            overlap.close()


def announce_forward(store: KVStoreBase, group: DataParallelExecutorGroup, is_train: bool | None
                     ) -> None:
    """Prepare an overlapped exchange for a training step; other passes need all parameters."""
    if store.overlap is None:
        return
    if group.for_training if is_train is None else is_train:
        store.overlap.begin(group.execs, *_trained_arrays(group))
    else:
        store.overlap.finish()


def finish_exchange(store: KVStoreBase | None) -> None:
    """Wait until all parameters are in the arrays of the devices."""
    if store is not None and store.overlap is not None:
        store.overlap.finish()


Arrays = dict[str, "list[NDArray]"]


def _trained_arrays(group: DataParallelExecutorGroup) -> tuple[Arrays, Arrays]:
    """Gradients and values of the parameters that have gradients, by name."""
    trained = [(name, grads, values) for name, grads, values in zip(
        group.param_names, group.grad_arrays, group.param_arrays, strict=True)
        if grads[0] is not None]
    return ({name: grads for name, grads, _ in trained},
            {name: values for name, _, values in trained})


def gathered_parts(store: DistributedStore, state: dict[str, Plain],
                   group: DataParallelExecutorGroup) -> dict[str, Plain]:
    """A training state with the parts of all workers, to be written by rank 0."""
    own = {name: state[name] for name in OWN}
    own["devices"] = {**{name: list(copies) for name, copies in
                         zip(group.aux_names, group.aux_arrays, strict=True)}, **state["devices"]}
    texts = store.all_texts(json.dumps(encode(own)))
    return {**state, "workers": [decode(json.loads(text)) for text in texts]}


def own_part(store: DistributedStore | None, state: dict[str, Plain], fname: str
             ) -> dict[str, Plain]:
    """The training state of this worker, from that of all."""
    parts = state.get("workers", [])
    ranks = 1 if store is None else store.num_workers
    if len(parts or [state]) != ranks:
        warn_user(f"{fname}: written by {len(parts or [state])} worker(s), and there are {ranks} "
                  "now: all of them draw random numbers as the first did, and begin the epoch "
                  "anew; the batch of all workers together has another size")
        return {**state, "batch": 0, "train_data": None, "eval_data": None, "devices": {}}
    return state if store is None or not parts else {**state, **parts[store.rank]}
