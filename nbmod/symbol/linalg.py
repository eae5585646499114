"""Linear algebra: `linalg.X` is the op `_linalg_X`."""

from .namespace import lookup

__getattr__, __dir__ = lookup(__name__, ("_linalg_",))
