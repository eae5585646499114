"""MXNet's module path of the iterators: scripts import from `mxnet.io.io`."""

from . import (
    CSVIter,
    DataBatch,
    DataDesc,
    DataIter,
    ImageDetRecordIter,
    ImageRecordInt8Iter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
    LibSVMIter,
    MNISTIter,
    MXDataIter,
    NDArrayIter,
    PrefetchingIter,
    ResizeIter,
)

__all__ = ["CSVIter", "DataBatch", "DataDesc", "DataIter", "ImageDetRecordIter",
           "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1", "ImageRecordUInt8Iter",
           "ImageRecordUInt8Iter_v1", "LibSVMIter", "MNISTIter", "MXDataIter", "NDArrayIter",
           "PrefetchingIter", "ResizeIter"]
