"""An iterator of a given length over another iterator."""

from __future__ import annotations

from typing import Any

from .data import DataBatch, DataIter

__all__ = ["ResizeIter"]


class ResizeIter(DataIter):
    """Yield exactly `size` batches an epoch from `data_iter`, starting it over when it ends.

    With `reset_internal=False` an epoch goes on where the last one stopped.
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True):
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.current_batch: DataBatch | None = None
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        assert self.current_batch is not None
        return self.current_batch

    def getdata(self) -> Any:
        return self.current_batch.data if self.current_batch else None

    def getlabel(self) -> Any:
        return self.current_batch.label if self.current_batch else None

    def getindex(self) -> Any:
        return self.current_batch.index if self.current_batch else None

    def getpad(self) -> Any:
        return self.current_batch.pad if self.current_batch else None
