"""Ops under the names they have for sparse arrays: `sparse.X` is `_sparse_X`, or plain `X`."""

from typing import TYPE_CHECKING

from .namespace import lookup

if TYPE_CHECKING:
    from ._op_stubs.sparse import *  # noqa: F403

__getattr__, __dir__ = lookup(__name__, ("_sparse_", ""))
