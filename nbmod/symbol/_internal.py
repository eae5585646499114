"""Ops whose names start with an underscore."""

from typing import TYPE_CHECKING

from .namespace import lookup

if TYPE_CHECKING:
    from ._op_stubs._internal import *  # noqa: F403

__getattr__, __dir__ = lookup(__name__, ("",), lambda name: name.startswith("_"))
