"""Ops whose names start with an underscore."""

from .namespace import lookup

__getattr__, __dir__ = lookup(__name__, ("",), private=True)
