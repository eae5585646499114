"""Key-value stores: where gradients of several devices meet and parameters are kept.

`base` is what every store promises and the register of names, `kvstore` the store of one process,
`sums` how its GPUs add gradients, `nccl` how NVIDIA's library does that, `compression` gradients in
two bits.
"""

from .base import KVStoreBase, create
from .kvstore import KVStore

__all__ = ["KVStore", "KVStoreBase", "create"]
