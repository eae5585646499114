"""Key-value stores: where gradients of several devices meet and parameters are kept."""

from .kvstore import KVStore, create

__all__ = ["KVStore", "create"]
