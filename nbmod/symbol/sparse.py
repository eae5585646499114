"""Ops under the names they have for sparse arrays: `sparse.X` is `_sparse_X`, or plain `X`."""

from .namespace import lookup

__getattr__, __dir__ = lookup(__name__, ("_sparse_", ""))
