"""`mx.gluon.data.vision`: names of Gluon's image data sets (see `nbmod.gluon`)."""

from ...absent import absent_classes

_NAMES = """
    CIFAR10 CIFAR100 FashionMNIST ImageFolderDataset ImageRecordDataset MNIST
"""

globals().update(absent_classes(__name__, _NAMES))
__all__ = _NAMES.split()
