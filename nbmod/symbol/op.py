"""All public ops, without the functions that `sym` puts beside them."""

from typing import TYPE_CHECKING

from .namespace import lookup

if TYPE_CHECKING:
    from ._op_stubs.op import *  # noqa: F403

__getattr__, __dir__ = lookup(__name__, ("",))
