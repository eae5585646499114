"""Linear algebra: `linalg.X` is the op `_linalg_X`."""

from typing import TYPE_CHECKING

from .namespace import lookup

if TYPE_CHECKING:
    from ._op_stubs.linalg import *  # noqa: F403

__getattr__, __dir__ = lookup(__name__, ("_linalg_",))
