"""Image ops: `image.X` is the op `_image_X`."""

from typing import TYPE_CHECKING

from .namespace import lookup

if TYPE_CHECKING:
    from ._op_stubs.image import *  # noqa: F403

__getattr__, __dir__ = lookup(__name__, ("_image_",))
