"""Data iterators: everything `Module.fit` can draw batches from."""

from .data import DataBatch, DataDesc, DataIter
from .ndarray_iter import NDArrayIter
from .resize import ResizeIter

__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "ResizeIter"]
