"""Linear algebra: `linalg.X` is the op `_linalg_X`."""

from typing import TYPE_CHECKING

from .namespace import lookup

if TYPE_CHECKING:
    from ._op_stubs.linalg import *  # noqa: F403

_get, __dir__ = lookup(__name__, ("_linalg_",))

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get
