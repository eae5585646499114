"""Data sets: objects with a length, whose samples are read by index."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ...base import AbstractError, ArgumentError, ArgumentTypeError, CheckError
from ...ndarray import NDArray
from ...recordio import MXIndexedRecordIO
from .sampler import FilterSampler, Sampler, SequentialSampler

__all__ = ["ArrayDataset", "Dataset", "RecordFileDataset", "SimpleDataset"]
__dir__ = __all__.copy


class Dataset:
    """Base of data sets; subclasses define `__getitem__` and `__len__`.

    Examples
    --------
    >>> squares = mx.gluon.data.SimpleDataset(range(10)).transform(lambda x: x * x)
    >>> list(squares.filter(lambda x: x % 2).shard(2, 0))
    [1, 9, 25]
    """

    def __getitem__(self, idx: Any) -> Any:
        raise AbstractError(f"{type(self).__name__} does not define __getitem__")

    def __len__(self) -> int:
        raise AbstractError(f"{type(self).__name__} does not define __len__")

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """Return the samples that a function accepts, which is called now.

        Parameters
        ----------
        fn : callable
            Function of a sample, true for the samples to keep.

        Returns
        -------
        Dataset
            Those samples, which are read again when they are used.
        """
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return one of several parts, whose lengths differ by at most one.

        Parameters
        ----------
        num_shards : int
            Number of parts.
        index : int
            Number of the part, from 0 on.

        Returns
        -------
        Dataset
            Neighbouring samples.

        Raises
        ------
        CheckError
            If there is no such part.
        """
        if index >= num_shards:
            raise CheckError(f"Shard index of out bound: {index} out of {num_shards}")
        if index < 0:
            raise CheckError(f"Index must be non-negative, got {index}")
        size, larger = divmod(len(self), num_shards)
        sizes = [size + (number < larger) for number in range(num_shards)]
        return _SampledDataset(self, SequentialSampler(sizes[index], sum(sizes[:index])))

    def take(self, count: int | None) -> Dataset:
        """Return the first samples.

        Parameters
        ----------
        count : int or None
            Their number; None, or more than there are: all.

        Returns
        -------
        Dataset
            The samples.

        Raises
        ------
        ArgumentError
            If `count` is negative.
        """
        if count is not None and count < 0:
            raise ArgumentError(f"take: count is {count}, expected at least 0")
        length = len(self) if count is None else min(count, len(self))
        return _SampledDataset(self, SequentialSampler(length))

    def sample(self, sampler: Sampler) -> Dataset:
        """Return the samples whose indices a sampler draws now.

        Parameters
        ----------
        sampler : Sampler
            The indices.

        Returns
        -------
        Dataset
            The samples.

        Raises
        ------
        ArgumentTypeError
            If `sampler` is no Sampler.
        """
        if not isinstance(sampler, Sampler):
            raise ArgumentTypeError(f"Invalid sampler type: {type(sampler)}. Expected "
                                    "gluon.data.Sampler instead.")
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return the results of a function of each sample.

        Parameters
        ----------
        fn : callable
            Function of a sample, or of its parts if it is a tuple.
        lazy : bool, default True
            Whether it is called whenever a sample is read; False: once, now.

        Returns
        -------
        Dataset
            The results.
        """
        results = _TransformedDataset(self, fn)
        return results if lazy else SimpleDataset([results[k] for k in range(len(results))])

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> Dataset:
        """Return samples whose first part is the result of a function of it.

        Parameters
        ----------
        fn : callable
            Function of the first part, such as of an image, but not of its label.
        lazy : bool, default True
            As for `transform`.

        Returns
        -------
        Dataset
            The samples.
        """
        return self.transform(_OfFirst(fn), lazy)


class _OfFirst:
    """Applies a function to the first of several arguments; can be pickled if that can."""

    def __init__(self, fn: Callable[[Any], Any]):
        self._fn = fn

    def __call__(self, first: Any, *others: Any) -> Any:
        return (self._fn(first), *others) if others else self._fn(first)


class SimpleDataset(Dataset):
    """The elements of a list, or of anything that has a length and indices.

    Parameters
    ----------
    data : sequence
        The samples.

    Examples
    --------
    >>> mx.gluon.data.SimpleDataset(["a", "b"])[1]
    'b'
    """

    def __init__(self, data: Any):
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx]


class _TransformedDataset(SimpleDataset):
    """Results of a function of each sample."""

    def __init__(self, data: Dataset, fn: Callable[..., Any]):
        super().__init__(data)
        self._fn = fn

    def __getitem__(self, idx: Any) -> Any:
        sample = self._data[idx]
        return self._fn(*sample) if isinstance(sample, tuple) else self._fn(sample)


class _SampledDataset(SimpleDataset):
    """The samples of another data set at some indices."""

    def __init__(self, data: Dataset, sampler: Sampler):
        super().__init__(data)
        self._indices: Sequence[Any] = list(sampler)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[self._indices[idx]]


class ArrayDataset(Dataset):
    """Elements of several arrays or lists side by side.

    Parameters
    ----------
    *args : sequences
        Arrays, lists or data sets of one length.  Of one, the samples are its elements; of several,
        tuples of theirs.  Elements of a vector are NumPy scalars.

    Raises
    ------
    CheckError
        If there is none, or if lengths differ.

    Examples
    --------
    >>> mx.gluon.data.ArrayDataset([1, 2], ["a", "b"])[1]
    (2, 'b')
    """

    def __init__(self, *args: Any):
        if not args:
            raise CheckError("Needs at least 1 arrays")
        self._length = len(args[0])
        for place, data in enumerate(args):
            if len(data) != self._length:
                raise CheckError("All arrays must have the same length; array[0] has length "
                                 f"{self._length} while array[{place}] has {len(data)}.")
        self._data = [data.asnumpy() if isinstance(data, NDArray) and data.ndim == 1 else data
                      for data in args]

    def __getitem__(self, idx: Any) -> Any:
        parts = [data[idx] for data in self._data]
        return tuple(parts) if len(parts) > 1 else parts[0]

    def __len__(self) -> int:
        return self._length


class RecordFileDataset(Dataset):
    """The records of a file, as bytes, in the order of its index.

    Parameters
    ----------
    filename : str
        Path of the record file; its index is beside it and ends with `.idx`.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = os.path.join(folder, "a.idx"), os.path.join(folder, "a.rec")
    ...     with mx.recordio.MXIndexedRecordIO(*paths, "w") as writer:
    ...         writer.write_idx(7, b"seven")
    ...     mx.gluon.data.RecordFileDataset(paths[1])[0]
    b'seven'
    """

    def __init__(self, filename: str):
        self.filename = filename
        self.idx_file = os.path.splitext(filename)[0] + ".idx"
        self._record = MXIndexedRecordIO(self.idx_file, filename, "r")

    def __getitem__(self, idx: int) -> Any:
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)


class _DownloadedDataset(Dataset):
    """Base of data sets in a folder, of which programs have some of their own.

    Parameters
    ----------
    root : str
        Folder, which is made if it is not there.
    transform : callable or None
        Function of the data and the label of a sample.
    """

    def __init__(self, root: str, transform: Callable[[Any, Any], Any] | None):
        self._transform, self._root = transform, os.path.expanduser(root)
        self._data: Any = None
        self._label: Any = None
        os.makedirs(self._root, exist_ok=True)
        self._get_data()

    def __getitem__(self, idx: Any) -> Any:
        data, label = self._data[idx], self._label[idx]
        return (data, label) if self._transform is None else self._transform(data, label)

    def __len__(self) -> int:
        return len(self._label)

    def _get_data(self) -> None:
        """Read `_data` and `_label`: a subclass does so."""
        raise AbstractError(f"{type(self).__name__} does not define _get_data, which sets _data "
                            "and _label")
