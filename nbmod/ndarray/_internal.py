"""`mx.nd._internal`: ops whose names start with an underscore, such as `_plus_scalar`."""

from __future__ import annotations

from .functions import is_public, namespace

__getattr__, __dir__ = namespace(__name__, "", lambda name: not is_public(name))
