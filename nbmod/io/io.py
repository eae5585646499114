"""MXNet's own path to the iterators: scripts import from `mxnet.io.io`."""

from . import DataBatch, DataDesc, DataIter, NDArrayIter, ResizeIter

__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "ResizeIter"]
