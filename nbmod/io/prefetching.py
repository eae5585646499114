"""`PrefetchingIter`: the next batch of other iterators is made while this one is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..base import MXNetError
from .data import DataBatch, DataDesc, WholeBatches, expect_same
from .pipeline import Job, Pipeline

__all__ = ["PrefetchingIter"]


class PrefetchingIter(WholeBatches):
    """Joins the batches of several iterators, each of which works in a thread of its own.

    iters: an iterator or several, which must yield batches of one size.  rename_data,
    rename_label: a dict from old to new names for each of them.
    """

    def __init__(self, iters: Any, rename_data: Any = None, rename_label: Any = None):
        self.iters = list(iters) if isinstance(iters, (list, tuple)) else [iters]
        if not self.iters:
            raise MXNetError("PrefetchingIter: no iterators given")
        self.n_iter = len(self.iters)
        self.rename_data, self.rename_label = rename_data, rename_label
        super().__init__(self.provide_data[0][1][0])
        self._pipeline = Pipeline(self.n_iter, 1)
        self._states: list[Any] = []
        self._pipeline.start(self._jobs())

    def _describe(self, descriptions: Sequence[Any], renames: Any) -> list[DataDesc]:
        renames = [renames] if isinstance(renames, Mapping) else renames
        return [_renamed(desc, {} if renames is None else renames[number])
                for number, described in enumerate(descriptions) for desc in described]

    @property
    def provide_data(self) -> list[DataDesc]:
        return self._describe([it.provide_data for it in self.iters], self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        return self._describe([it.provide_label or [] for it in self.iters], self.rename_label)

    def _jobs(self) -> Iterator[Job]:
        while True:
            batches: list[Any] = [None] * self.n_iter
            self._states = self._places()  # before the threads move the iterators on
            yield Job([partial(self._advance, n, batches) for n in range(self.n_iter)],
                      partial(list, batches))

    def _places(self) -> list[Any]:
        """Where a resume would begin."""
        return [getattr(it, "state_dict", lambda: None)() for it in self.iters]

    def _advance(self, number: int, batches: list[Any]) -> None:
        try:
            batches[number] = self.iters[number].next()
        except StopIteration:
            pass

    def iter_next(self) -> bool:
        try:
            batches = self._pipeline.next()
        except StopIteration:
            return False
        if any(batch is None for batch in batches):
            if not all(batch is None for batch in batches):
                raise MXNetError("PrefetchingIter: the iterators end after different numbers of "
                                 "batches")
            self._pipeline.start(iter(()))
            self._states = self._places()
            return False
        pads = {batch.pad for batch in batches}
        if len(pads) > 1:
            raise MXNetError("PrefetchingIter: the batches have different numbers of filling "
                             f"samples: {sorted(map(str, pads))}")
        first = batches[0]
        self.current_batch = DataBatch(
            [array for batch in batches for array in batch.data],
            [array for batch in batches for array in batch.label or []], first.pad, first.index,
            first.bucket_key, self.provide_data, self.provide_label)
        return True

    def reset(self) -> None:
        self._pipeline.start(iter(()))
        for iterator in self.iters:
            iterator.reset()
        self._pipeline.start(self._jobs())

    def close(self) -> None:
        """End the threads; what they are at they finish first."""
        self._pipeline.close()

    def state_dict(self) -> dict[str, Any] | None:
        """Where the next batch begins: one is being made ahead, and does not count."""
        return None if None in self._states else {"iters": list(self._states)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        expect_same(self, {"iterators": len(state.get("iters", ()))}, iterators=self.n_iter)
        self._pipeline.start(iter(()))
        for iterator, inner in zip(self.iters, state["iters"], strict=True):
            iterator.load_state_dict(inner)
        self._pipeline.start(self._jobs())


def _renamed(desc: Any, names: Mapping[str, str]) -> DataDesc:
    if isinstance(desc, DataDesc):
        return DataDesc(names.get(desc.name, desc.name), desc.shape, desc.dtype, desc.layout)
    name, shape = desc[0], desc[1]
    return DataDesc(names.get(name, name), shape)
