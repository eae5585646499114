"""`mx.contrib.io`: data loaders of other libraries as iterators for `Module.fit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import MXNetError
from ..io import DataDesc, DataIter
from ..ndarray import NDArray

__all__ = ["DataLoaderIter"]
__dir__ = __all__.copy


class DataLoaderIter(DataIter):
    """Batches of a loader of (data, label) pairs, such as PyTorch's DataLoader.

    Parameters
    ----------
    loader : iterable
        Gives pairs of arrays; iterated over again by `reset`.
    data_name : str, default 'data'
        Name of the data.
    label_name : str, default 'softmax_label'
        Name of the labels.
    dtype : dtype, default 'float32'
        Element type of data and labels.

    Examples
    --------
    >>> loader = [([[1, 2], [3, 4]], [0, 1]), ([[5, 6]], [1])]
    >>> batches = mx.contrib.io.DataLoaderIter(loader)
    >>> [(batch.data[0].shape, batch.pad) for batch in batches]
    [((2, 2), 0), ((2, 2), 1)]
    """

    def __init__(self, loader: Iterable[Any], data_name: str = "data",
                 label_name: str = "softmax_label", dtype: Any = "float32"):
        super().__init__()
        self._loader, self.dtype = loader, dtype
        first = next(iter(loader), None)
        if first is None:
            raise MXNetError("DataLoaderIter: the loader gives no batch")
        self._current = data, label = self._arrays(first)
        self.batch_size = len(data)
        self.provide_data = [DataDesc(data_name, data.shape, data.dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, label.dtype)]
        self._batches: Iterator[Any] = iter(loader)

    def _arrays(self, batch: Any) -> tuple[NDArray, NDArray]:
        data, label = (nd.array(each if isinstance(each, NDArray) else np.asarray(each),
                                dtype=self.dtype) for each in batch)
        return data, label

    def reset(self) -> None:
        self._batches = iter(self._loader)

    def iter_next(self) -> bool:
        batch = next(self._batches, None)
        if batch is not None:
            self._current = self._arrays(batch)
        return batch is not None

    def getdata(self) -> list[NDArray]:
        return [self._padded(self._current[0])]

    def getlabel(self) -> list[NDArray]:
        return [self._padded(self._current[1])]

    def getpad(self) -> int:
        """Return how many samples of the current batch are fill."""
        return self.batch_size - len(self._current[0])

    def getindex(self) -> None:
        """Return None: loaders do not number their samples."""

    def _padded(self, array: NDArray) -> NDArray:
        pad = self.getpad()
        if not pad:
            return array
        return nd.concat(array, nd.zeros((pad, *array.shape[1:]), dtype=array.dtype), dim=0)
