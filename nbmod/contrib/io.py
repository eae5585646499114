"""`mx.contrib.io`: data loaders of other libraries as iterators for `Module.fit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import MXNetError
from ..io import DataBatch, DataDesc, DataIter
from ..ndarray import NDArray

__all__ = ["DataLoaderIter"]


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
    >>> import nbmod as mx
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
        data, label = self._arrays(first)
        self.batch_size = len(data)
        self.provide_data = [DataDesc(data_name, data.shape, data.dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, label.dtype)]
        self._batches: Iterator[Any] = iter(loader)

    def _arrays(self, batch: Any) -> tuple[NDArray, NDArray]:
        data, label = (nd.array(each if isinstance(each, NDArray) else np.asarray(each),
                                dtype=self.dtype) for each in batch)
        return data, label

    def reset(self) -> None:
        """Start over."""
        self._batches = iter(self._loader)

    def next(self) -> DataBatch:
        """Return the next batch; a smaller one is filled up by zeros.

        Returns
        -------
        DataBatch

        Raises
        ------
        StopIteration
            After the last batch.
        """
        arrays = self._arrays(next(self._batches))
        pad = self.batch_size - len(arrays[0])
        if pad:
            arrays = tuple(nd.concat(x, nd.zeros((pad, *x.shape[1:]), dtype=x.dtype), dim=0)
                           for x in arrays)  # type: ignore[assignment]
        return DataBatch([arrays[0]], [arrays[1]], pad, provide_data=self.provide_data,
                         provide_label=self.provide_label)
