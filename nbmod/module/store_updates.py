"""Updates of parameters that a key-value store performs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..kvstore import KVStoreBase, takes_lists
from ..ndarray import NDArray
from .arguments import pull_sparse
from .executor_group import DataParallelExecutorGroup, _trained

__all__ = ["update_on_store"]


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
