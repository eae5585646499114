"""`ResizeIter`: changes the number of batches in an epoch of an iterator."""

from __future__ import annotations

from typing import Any

from ..base import wrong_type
from .data_iter import DataBatch, WholeBatches
from .saved_state import expect_same, saved_integer

__all__ = ["ResizeIter"]


class ResizeIter(WholeBatches):
    """Change the number of batches in an epoch of another iterator.

    Parameters
    ----------
    data_iter : DataIter
        Iterator that yields the batches.  It is reset whenever it ends before `size` batches.
    size : int
        Number of batches in an epoch.
    reset_internal : bool, default True
        Whether `reset` also resets `data_iter`; False: an epoch continues where the last one
        stopped.

    Examples
    --------
    >>> import numpy as np
    >>> samples = mx.io.NDArrayIter(np.arange(4), batch_size=2)
    >>> longer = mx.io.ResizeIter(samples, 3)
    >>> [batch.data[0].asnumpy().tolist() for batch in longer]
    [[0.0, 1.0], [2.0, 3.0], [0.0, 1.0]]
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True):
        if not hasattr(data_iter, "provide_data"):
            raise wrong_type("ResizeIter: data_iter", data_iter, "a DataIter")
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        """Start the next epoch; with `reset_internal` also of the underlying iterator."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def state_dict(self) -> dict[str, Any] | None:
        inner = getattr(self.data_iter, "state_dict", lambda: None)()
        return None if inner is None else {"size": self.size, "cur": self.cur, "data_iter": inner}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a position that a `ResizeIter` of the same `size` returned."""
        expect_same(self, state, size=self.size)
        current = saved_integer(self, state, "cur", most=self.size)
        self.data_iter.load_state_dict(state.get("data_iter", {}))
        self.cur = current

    def next_batch(self) -> DataBatch:
        if self.cur == self.size:
            raise StopIteration
        try:
            batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            batch = self.data_iter.next()
        self.cur += 1
        return batch
