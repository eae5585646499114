"""Ops whose names start with an underscore."""

from typing import TYPE_CHECKING

from .namespace import lookup

if TYPE_CHECKING:
    from ._op_stubs._internal import *  # noqa: F403

_get, __dir__ = lookup(__name__, ("",), lambda name: name.startswith("_"))

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get
