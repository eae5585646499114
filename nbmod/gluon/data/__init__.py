"""`mx.gluon.data`: data sets, and their samples in batches.

    sampler.py           orders of samples, and their division into batches
    dataset.py           data sets: arrays, lists, record files, and functions of samples
    published_files.py   files of data sets, in a folder or downloaded into it
    batches.py           samples become the arrays of a batch
    shared_batches.py    batches in memory that processes share
    worker_processes.py  processes that make batches
    dataloader.py        `DataLoader`: batches of a data set, made ahead by workers
    vision/              data sets of images, and transformations

Begin with `dataset.py`.  Imports `autograd`, `base`, `compat.c_interface`, `context`,
`core.archive_members`, `core.atomic`, `core.fork`, `gluon.block`, `gluon.nn`, `gluon.utils`,
`image`, `io.job_pipeline`, `io.mnist`, `ndarray`, `ops.jit`, `random` and `recordio`.
"""

from . import dataloader, dataset, sampler
from . import vision as vision
from .dataloader import *  # noqa: F403
from .dataset import *  # noqa: F403
from .sampler import *  # noqa: F403

__all__ = [*dataloader.__all__, *dataset.__all__, *sampler.__all__, "vision"]
__dir__ = [*__all__, "dataloader", "dataset", "sampler"].copy
