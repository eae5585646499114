"""`mx.gluon.model_zoo`: networks for images, as blocks (see `vision`).

    image_network.py  `ImageNetwork`: a `HybridBlock` of features and an output layer
    model_store.py    pretrained parameters, by name and checksum; downloaded if they are not there
    vision/           the networks, and `get_model`

Begin with `vision/alexnet.py`.  Imports `base`, `compat.c_interface`, `context`, `core.atomic`,
`gluon.block`, `gluon.contrib`, `gluon.nn`, `gluon.utils`, `initializer` and `symbol`.
"""

from . import model_store, vision

__all__ = ["model_store", "vision"]
__dir__ = __all__.copy
