"""What an iterator yields and promises: `DataBatch`, `DataDesc`, `DataIter`.

A batch is lists of NDArrays; a description is (name, shape) with an element type and a layout whose
letter `N` marks the batch axis.  An iterator describes its batches in `provide_data` and
`provide_label` before it yields the first one.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError

__all__ = ["HANDLES", "DataBatch", "DataDesc", "DataIter", "WholeBatches", "expect_same",
           "require_batches"]

HANDLES = ("pad", "discard", "roll_over")
"""What may become of a last batch that is not full; `NDArrayIter` says what they mean."""


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name and shape of one input; equal to the plain tuple `(name, shape)`.

    `dtype` is the element type, `layout` the meaning of the axes ('NCHW', 'TNC', ...).
    """

    dtype: Any
    layout: str | None

    def __new__(cls, name: str, shape: Sequence[int], dtype: Any = np.float32,
                layout: str | None = "NCHW") -> DataDesc:
        desc = super().__new__(cls, name, tuple(shape))
        desc.dtype = dtype
        desc.layout = layout
        return desc

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    def __reduce__(self):
        return DataDesc, (self.name, self.shape, self.dtype, self.layout)

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Position of the batch axis in `layout`: 0 without a layout, -1 if it has no 'N'."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Any, types: Any) -> list[DataDesc]:
        """Descriptions from (name, shape) pairs and, optionally, (name, type) pairs."""
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        dtypes = dict(types)
        return [DataDesc(name, shape, dtypes[name]) for name, shape in shapes]


class DataBatch:
    """One batch: `data` and `label` are lists of NDArrays.

    `pad` counts the trailing samples that only fill the batch up, `index` numbers the samples,
    `bucket_key` and the two `provide_*` lists tell a BucketingModule which network it is for.
    """

    def __init__(self, data: Any, label: Any = None, pad: int | None = None, index: Any = None,
                 bucket_key: Any = None, provide_data: Any = None, provide_label: Any = None):
        for name, value in (("data", data), ("label", label)):
            if value is not None and not isinstance(value, (list, tuple)):
                raise MXNetError(f"DataBatch: {name} is a {type(value).__name__}, expected a "
                                 "list of NDArrays")
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        data = None if self.data is None else [d.shape for d in self.data]
        label = None if self.label is None else [d.shape for d in self.label]
        return f"{type(self).__name__}: data shapes: {data} label shapes: {label}"


def require_batches(iterator: str, batch_size: int, last_batch_handle: str,
                    handles: Sequence[str] = HANDLES) -> None:
    """MXNetError unless `iterator` can make such batches."""
    if last_batch_handle not in handles:
        raise MXNetError(f"{iterator}: last_batch_handle is {last_batch_handle!r}, expected one of "
                         f"{handles}")
    if batch_size < 1:
        raise MXNetError(f"{iterator}: batch_size is {batch_size}, expected at least 1")


def expect_same(iterator: Any, state: dict[str, Any], **ours: Any) -> None:
    """MXNetError unless a `state_dict` says of its iterator what `ours` says of this one."""
    for name, value in ours.items():
        if state.get(name) != value:
            raise MXNetError(f"{type(iterator).__name__}: the saved state is of an iterator with "
                             f"{name}={state.get(name)!r}, this one has {value!r}")


class DataIter:
    """Base of iterators.  A subclass gives `provide_data`, `provide_label`, `reset`, and either
    `next`, or `iter_next` with `getdata`, `getlabel`, `getindex` and `getpad`.

    An iterator that can be resumed exactly gives `state_dict` and `load_state_dict` too.  It takes
    its random numbers from a sequence of its own (`ops.rng.Sequence`), whose place is part of the
    state: then nothing else that draws can change what it yields.
    """

    provide_data: Any
    provide_label: Any

    def __init__(self, batch_size: int = 0):
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[DataBatch]:
        return self

    def reset(self) -> None:
        """Start the next epoch."""

    def state_dict(self) -> dict[str, Any] | None:
        """Where the iterator stands, between any two batches, or None if it cannot tell.

        Plain data: numbers, text, lists, dicts with string keys, NumPy arrays.
        """
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where another iterator, made in the same way, was asked for `state_dict`.

        Raises MXNetError if that one was made of other data or in another way.
        """
        raise MXNetError(f"{type(self).__name__} does not define load_state_dict")

    def next(self) -> DataBatch:
        """The next batch; StopIteration at the end of the epoch."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(),
                         index=self.getindex())

    def __next__(self) -> DataBatch:
        return self.next()

    def iter_next(self) -> bool:
        """Move to the next batch; False at the end of the epoch."""
        raise NotImplementedError(f"{type(self).__name__} defines neither next nor iter_next")

    def getdata(self) -> Any:
        """The data arrays of the current batch."""

    def getlabel(self) -> Any:
        """The label arrays of the current batch."""

    def getindex(self) -> Any:
        """The sample numbers of the current batch, None if they are not known."""
        return None

    def getpad(self) -> int | None:
        """How many samples at the end of the current batch are filling."""


class WholeBatches(DataIter):
    """Base of iterators whose `iter_next` makes a whole batch, `current_batch`."""

    def __init__(self, batch_size: int):
        super().__init__(batch_size)
        self.current_batch: DataBatch | None = None

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        assert self.current_batch is not None
        return self.current_batch

    def getdata(self) -> Any:
        return self.current_batch and self.current_batch.data

    def getlabel(self) -> Any:
        return self.current_batch and self.current_batch.label

    def getindex(self) -> Any:
        return self.current_batch and self.current_batch.index

    def getpad(self) -> Any:
        return self.current_batch and self.current_batch.pad
