"""`mx.image`: reading and changing images, augmenters, and iterators over images.

An image is an NDArray of shape (height, width, channels).  Random numbers are drawn in MXNet's
order, so that a script's seed gives the same crops; augmenters return new arrays.

    image_functions.py  `imread`, `imdecode`, `imresize`, and functions that crop and rotate
    augmenters.py       objects that change an image when called
    augmenter_lists.py  `CreateAugmenter`: lists of them
    iterator.py         `ImageIter`, over a record file, a list or image files
    det_augmenters.py   augmenters that change an image together with the boxes in it
    det_iterator.py     `ImageDetIter`, over images with boxes
    drawing.py          boxes and names drawn into a NumPy image, in place
    detection.py        `mx.image.detection`: the path to the parts for boxes

Begin with `image_functions.py`.  Imports `base`, `context`, `core.log`, `io`, `ndarray`, `ops` and
`recordio`.
"""

import sys
from typing import TYPE_CHECKING

from . import augmenter_lists, augmenters, detection, image_functions, iterator
from . import detection as det
from .augmenter_lists import *  # noqa: F403
from .augmenters import *  # noqa: F403
from .detection import *  # noqa: F403
from .image_functions import *  # noqa: F403
from .image_functions import _get_interp_method  # noqa: F401 - programs import it from here
from .iterator import *  # noqa: F403

__all__ = ["det", "detection"]
__all__ += augmenter_lists.__all__ + augmenters.__all__ + detection.__all__
__all__ += image_functions.__all__ + iterator.__all__
__dir__ = __all__.copy

if TYPE_CHECKING:
    from .. import image
else:
    image = sys.modules[__name__]  # MXNet's import path, `mx.image.image.imread`
