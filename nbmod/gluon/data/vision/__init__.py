"""`mx.gluon.data.vision`: data sets of images, and transformations.

    datasets.py          MNIST and CIFAR, record files, folders
    color_transforms.py  random changes of colors
    transforms.py        blocks that transform images

Begin with `datasets.py`.  Imports `base`, `gluon.block`, `gluon.data.dataset`,
`gluon.data.published_files`, `gluon.nn`, `image`, `io.mnist`, `ndarray` and `recordio`.
"""

from . import datasets
from . import transforms as transforms
from .datasets import *  # noqa: F403

__all__ = [*datasets.__all__, "transforms"]
__dir__ = [*__all__, "datasets"].copy
