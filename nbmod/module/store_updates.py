"""Key-value stores of modules: created, initialized, and used for updates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from .. import kvstore as kvs
from ..base import ArgumentError, MXNetError, did_you_mean, warn_user
from ..core.config import CONFIG
from ..kvstore import KVStoreBase, takes_lists
from ..ndarray import NDArray
from ..ndarray import array as as_array
from ..ops.shape import size_of
from .arguments import KVStoreLike
from .executor_group import DataParallelExecutorGroup, _trained
from .workers import distributed

__all__ = ["pull_rows", "pull_sparse", "update_on_store", "workers_in_step", "_create_kvstore",
           "_initialize_kvstore", "_update_params_on_kvstore"]

UPDATE_LOCALLY_ABOVE = 1024 * 1024 * 16
"""A parameter of more elements is updated on every device instead of on the `local` store."""


def _create_kvstore(kvstore: KVStoreLike, num_device: int, arg_params: Mapping[str, NDArray]
                    ) -> tuple[kvs.KVStoreBase | None, bool]:
    """(store or None, whether it updates the parameters) for a kvstore argument of `fit`.

    A single device needs no store, unless one is given as an object.  Stores update parameters if
    they can, MXNET_UPDATE_ON_KVSTORE allows it, and no parameter is too large for 'local'.
    """
    store: kvs.KVStoreBase = kvstore  # type: ignore[assignment]  # unless it is a name or None
    if kvstore is None or isinstance(kvstore, str) and num_device == 1 and "dist" not in kvstore:
        return None, False
    if isinstance(kvstore, str):
        store = kvs.create(kvstore)
    elif not isinstance(kvstore, kvs.KVStoreBase):
        raise TypeError("kvstore must be KVStore, str or None")
    too_large = kvstore == "local" and any(
        size_of(value.shape) > UPDATE_LOCALLY_ABOVE for value in arg_params.values())
    capable = store.is_capable(kvs.KVStoreBase.OPTIMIZER)
    return store, capable and CONFIG.update_on_kvstore and not too_large


def workers_in_step(store: kvs.KVStoreBase | None) -> int:
    """Number of workers whose gradients a store sums before it updates."""
    in_step = store is not None and "dist" in store.type and "_sync" in store.type
    return store.num_workers if store is not None and in_step else 1


def _initialize_kvstore(kvstore: kvs.KVStoreBase, param_arrays: Sequence[Sequence[NDArray]],
                        arg_params: Mapping[str, NDArray], param_names: Sequence[str],
                        update_on_kvstore: bool) -> bool:
    """Put every parameter into the store, under its name.

    Returns whether the store may have other values, those of rank 0.
    """
    differ = distributed(kvstore) is not None     # values of the ranks
    for name, on_devices in zip(param_names, param_arrays, strict=True):
        broadcasts = ((update_on_kvstore or differ)
                      and not on_devices[0].is_sparse)  # which have their values
        if broadcasts or not hasattr(kvstore, "init"):  # which custom stores need not have
            kvstore.broadcast(name, arg_params[name], out=on_devices)
        else:
            kvstore.init(name, arg_params[name])
            if update_on_kvstore and isinstance(kvstore, kvs.KVStore):
                kvstore.share(name, arg_params[name], *on_devices)
    return differ


def pull_rows(store: kvs.KVStoreBase | None, arrays: Mapping[str, Sequence[NDArray]],
              find_rows: Callable[[], Mapping[str, NDArray]]) -> set[str]:
    """Fetch rows of row-sparse parameters from a store; `find_rows` gives their indices by name.

    Returns these names.  Without a store that has the parameters there is a warning.
    """
    if store is None:
        warn_user("Parameters are not updated in the KVStore. No need to call sparse_row_id_fn.")
        return set()
    rows = find_rows()
    if not isinstance(rows, dict):
        raise MXNetError("prepare: expected a dict from sparse_row_id_fn, parameter name -> row "
                         f"numbers, but it gave a {type(rows).__name__}")
    for name, ids in rows.items():
        if name not in arrays:
            raise ArgumentError(f"prepare: sparse_row_id_fn names {name!r}, which is no parameter"
                                f"{did_you_mean(name, arrays)}")
        if arrays[name][0].stype == "row_sparse":
            store.row_sparse_pull(name, arrays[name], row_ids=ids)
        else:
            warn_user(f"{name}.stype is not 'row_sparse'. No need to perform row_sparse_pull.")
    return {*rows}


def pull_sparse(store: kvs.KVStoreBase | None, arrays: Mapping[str, NDArray | Sequence[NDArray]],
                fetched: Collection[str] = ()) -> None:
    """Fetch sparse parameters as a whole, except for those whose rows `pull_rows` has fetched.

    Without a store the devices have all rows; a store in this process shares its rows with them.
    """
    for name, copies in arrays.items():
        copies = [copies] if isinstance(copies, NDArray) else copies
        if store is None or not copies[0].is_sparse or name in fetched:
            continue
        if not (isinstance(store, kvs.KVStore) and store.share(name, *copies)):
            rows = as_array(np.arange(len(copies[0])), dtype="int64")
            store.row_sparse_pull(name, copies, row_ids=rows)


def update_on_store(group: DataParallelExecutorGroup, kvstore: KVStoreBase | None,
                    fetched: Collection[str]) -> None:
    """Push the gradients of all parameters, and pull the new ones.

    `fetched` are row-sparse parameters of which `prepare` pulls the rows that a batch needs.
    """
    assert kvstore is not None
    if kvstore.overlap is not None:
        kvstore.overlap.update()
        return
    _update_params_on_kvstore(group.param_arrays, group.grad_arrays, kvstore, group.param_names)
    pull_sparse(kvstore, group.arrays_by_param, fetched)


def _update_params_on_kvstore(param_arrays: Sequence[Sequence[NDArray]],
                              grad_arrays: Sequence[Sequence[NDArray]], kvstore: KVStoreBase,
                              param_names: Sequence[str]) -> None:
    """Push every gradient, pull every updated parameter; `KVStore` takes all at once."""
    trained = _trained(grad_arrays)
    if takes_lists(kvstore) and trained:
        kvstore.pushpull([param_names[index] for index in trained],
                         [grad_arrays[index] for index in trained],
                         out=[param_arrays[index] for index in trained])
        return
    for index in trained:
        kvstore.pushpull(param_names[index], grad_arrays[index], out=param_arrays[index],
                         priority=-index)
