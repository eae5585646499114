"""All public ops, without the functions that `sym` puts beside them."""

from typing import TYPE_CHECKING

from .namespace import lookup

if TYPE_CHECKING:
    from ._op_stubs.op import *  # noqa: F403

_get, __dir__ = lookup(__name__, ("",))

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get
