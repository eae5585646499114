"""Data iterators, from which `Module.fit` draws batches."""

from importlib import import_module
from types import ModuleType
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

if TYPE_CHECKING:
    from . import io, utils

__all__ = ["CSVIter", "DataBatch", "DataDesc", "DataIter", "DatasetIter", "GeneratorIter",
           "ImageDetRecordIter", "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1",
           "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1", "LibSVMIter", "MNISTIter",
           "MXDataIter", "NDArrayIter", "PrefetchingIter", "ResizeIter"]
__dir__ = __all__.copy
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += ["io", "utils"]


def _load(name: str) -> ModuleType:
    if name in ("io", "utils"):  # paths of MXNet, `mx.io.io.NDArrayIter`
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load
