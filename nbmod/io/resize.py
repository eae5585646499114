"""An iterator of a given length over another iterator."""

from __future__ import annotations

from typing import Any

from .data import WholeBatches, expect_same

__all__ = ["ResizeIter"]


class ResizeIter(WholeBatches):
    """Yield exactly `size` batches an epoch from `data_iter`, starting it over when it ends.

    With `reset_internal=False` an epoch goes on where the last one stopped.
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True):
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
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def state_dict(self) -> dict[str, Any] | None:
        inner = getattr(self.data_iter, "state_dict", lambda: None)()
        return None if inner is None else {"size": self.size, "cur": self.cur, "data_iter": inner}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        expect_same(self, state, size=self.size)
        self.data_iter.load_state_dict(state["data_iter"])
        self.cur = state["cur"]

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
