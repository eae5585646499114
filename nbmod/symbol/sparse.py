"""Ops under the names they have for sparse arrays: `sparse.X` is `_sparse_X`, or plain `X`."""

from typing import TYPE_CHECKING

from .namespace import lookup

if TYPE_CHECKING:
    from ._op_stubs.sparse import *  # noqa: F403

_get, __dir__ = lookup(__name__, ("_sparse_", ""))

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get
