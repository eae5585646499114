"""Key-value stores: they sum gradients of several devices and store parameters.

Every store has the interface of `base`, of which training needs `broadcast` and `pushpull`.

    base.py         `KVStoreBase`, the interface, and `create`, which finds a store by name
    compression.py  gradients in two bits, with the error fed back
    key_values.py   arguments of stores, as pairs of a key and its arrays
    kvstore.py      `KVStore`: the stores of one process, `local`, `device` and `nccl`
    row_pull.py     rows of stored arrays, for `row_sparse_pull`
    sums.py         sums of arrays, over GPUs by one launch for all keys
    nccl.py         sums and copies between GPUs by NVIDIA's NCCL
    distributed/    stores of several processes, `dist_sync` and `dist_async`

Begin with `base.py`.  Imports `base`, `context`, `core`, `execution.pipeline`, `execution.steps`,
`executor`, `launcher.placement`, `launcher.position`, `ndarray`, `ops` and `optimizer`.
"""

from .base import KVStoreBase, create
from .kvstore import KVStore, takes_lists

__all__ = ["KVStore", "KVStoreBase", "create", "takes_lists"]
__dir__ = __all__.copy
