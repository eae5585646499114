"""`mx.image.detection`: augmenters and an iterator for images with boxes of objects in them."""

from . import det_augmenters, det_iterator
from .det_augmenters import *  # noqa: F403
from .det_iterator import *  # noqa: F403

__all__ = det_augmenters.__all__ + det_iterator.__all__
