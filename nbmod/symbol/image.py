"""Image ops: `image.X` is the op `_image_X`."""

from .namespace import lookup

__getattr__, __dir__ = lookup(__name__, ("_image_",))
