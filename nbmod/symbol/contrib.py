"""Ops of the contrib namespace: `contrib.X` is the op `_contrib_X`."""

from .namespace import lookup

__getattr__, __dir__ = lookup(__name__, ("_contrib_",))
