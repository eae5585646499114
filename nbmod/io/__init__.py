"""Data iterators, from which `Module.fit` draws batches."""

import sys
from typing import TYPE_CHECKING

from .data_iter import DataBatch, DataDesc, DataIter
from .dataset import DatasetIter
from .generator import GeneratorIter
from .image_det_record import ImageDetRecordIter
from .image_record import (
    ImageRecordInt8Iter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
)
from .mnist import MNISTIter
from .native import MXDataIter
from .ndarray_iter import NDArrayIter
from .ndarray_iter import named_arrays as _init_data  # noqa: F401 - MXNet's name
from .prefetching import PrefetchingIter
from .resize_iter import ResizeIter
from .text import CSVIter, LibSVMIter

__all__ = ["CSVIter", "DataBatch", "DataDesc", "DataIter", "DatasetIter", "GeneratorIter",
           "ImageDetRecordIter", "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1",
           "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1", "LibSVMIter", "MNISTIter",
           "MXDataIter", "NDArrayIter", "PrefetchingIter", "ResizeIter"]
__dir__ = __all__.copy

if TYPE_CHECKING:
    from .. import io
    from .. import io as utils

    __all__ += ["io", "utils"]  # of an installed package, checkers know these names only
else:
    io = utils = sys.modules[__name__]  # MXNet's import paths, `mx.io.io.NDArrayIter`
