"""All public ops, without the functions that `sym` puts beside them."""

from .namespace import lookup

__getattr__, __dir__ = lookup(__name__, ("",))
