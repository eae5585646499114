"""Key-value stores: they sum gradients of several devices and store parameters.

`base` defines the interface and the registry of names, `kvstore` the store of one process, `sums`
how its GPUs add gradients, `nccl` how NVIDIA's library does that, `compression` gradients in two
bits, `dist` stores of several processes.
"""

from .base import KVStoreBase, create
from .kvstore import KVStore, takes_lists

__all__ = ["KVStore", "KVStoreBase", "create", "takes_lists"]
__dir__ = __all__.copy
