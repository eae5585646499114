"""`mx.image`: reading and changing images, augmenters, and iterators over images."""

import sys
from typing import TYPE_CHECKING

from . import augmenters, detection, image_functions, iterator
from . import detection as det
from .augmenters import *  # noqa: F403
from .detection import *  # noqa: F403
from .image_functions import *  # noqa: F403
from .iterator import *  # noqa: F403

__all__ = ["det", "detection"]
__all__ += augmenters.__all__ + detection.__all__ + image_functions.__all__ + iterator.__all__
__dir__ = __all__.copy

if TYPE_CHECKING:
    from .. import image
else:
    image = sys.modules[__name__]  # MXNet's import path, `mx.image.image.imread`
