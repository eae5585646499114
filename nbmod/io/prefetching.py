"""`PrefetchingIter`: prepares the next batch of other iterators while the current one is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..base import ArgumentTypeError, CheckError, MXNetError, wrong_type
from .data_iter import DataBatch, DataDesc, WholeBatches
from .job_pipeline import Job, Pipeline
from .saved_state import expect_same

__all__ = ["PrefetchingIter"]


class PrefetchingIter(WholeBatches):
    """Make the next batch in a thread while the current one is used, and join several iterators.

    Parameters
    ----------
    iters : DataIter or list of DataIter
        Iterators with the same batch size and the same number of batches; each works in a thread
        of its own.  Their data and labels are concatenated to one list each.
    rename_data : dict or list of dict, optional
        For each iterator, new names of its data inputs by their old names.
    rename_label : dict or list of dict, optional
        The same for labels.

    Raises
    ------
    MXNetError
        If there are no iterators, or, when a batch is drawn, if they end after different numbers
        of batches or differ in `pad`.

    Examples
    --------
    >>> import numpy as np
    >>> left = mx.io.NDArrayIter(np.zeros((4, 2)), batch_size=2)
    >>> right = mx.io.NDArrayIter(np.ones((4, 3)), batch_size=2)
    >>> both = mx.io.PrefetchingIter([left, right], rename_data=[{"data": "a"}, {"data": "b"}])
    >>> [desc.name for desc in both.provide_data]
    ['a', 'b']
    >>> [array.shape for array in both.next().data]
    [(2, 2), (2, 3)]
    >>> both.close()
    """

    def __init__(self, iters: Any, rename_data: Any = None, rename_label: Any = None):
        self.iters = list(iters) if isinstance(iters, (list, tuple)) else [iters]
        if not self.iters:
            raise CheckError("PrefetchingIter: no iterators given")
        for iterator in self.iters:
            if not hasattr(iterator, "provide_data"):
                raise wrong_type("PrefetchingIter: one of iters", iterator, "a DataIter")
        self.n_iter = len(self.iters)
        self.rename_data = _renames("rename_data", rename_data, self.n_iter)
        self.rename_label = _renames("rename_label", rename_label, self.n_iter)
        super().__init__(self.provide_data[0][1][0])
        self._pipeline = Pipeline(self.n_iter, 1)
        self._states: list[Any] = []
        self._pipeline.start(self._jobs())

    def _describe(self, descriptions: Sequence[Any], renames: Any) -> list[DataDesc]:
        described = []
        for number, own in enumerate(descriptions):
            names = {} if renames is None else renames[number]
            for desc in own:
                desc = desc if isinstance(desc, DataDesc) else DataDesc(desc[0], desc[1])
                described.append(DataDesc(names.get(desc.name, desc.name), desc.shape, desc.dtype,
                                          desc.layout))
        return described

    @property
    def provide_data(self) -> list[DataDesc]:
        """Descriptions of the data arrays of all iterators, with their new names."""
        return self._describe([it.provide_data for it in self.iters], self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Descriptions of the label arrays of all iterators, with their new names."""
        return self._describe([it.provide_label or [] for it in self.iters], self.rename_label)

    def _jobs(self) -> Iterator[Job]:
        while True:
            batches: list[Any] = [None] * self.n_iter
            self._states = self._current_states()  # before the threads advance the iterators
            yield Job([partial(self._advance, n, batches) for n in range(self.n_iter)],
                      partial(list, batches))

    def _current_states(self) -> list[Any]:
        """States from which to resume."""
        return [getattr(it, "state_dict", lambda: None)() for it in self.iters]

    def _advance(self, number: int, batches: list[Any]) -> None:
        try:
            batches[number] = self.iters[number].next()
        except StopIteration:
            pass

    def next_batch(self) -> DataBatch:
        batches = self._pipeline.next()
        if any(batch is None for batch in batches):
            if not all(batch is None for batch in batches):
                raise MXNetError("PrefetchingIter: the iterators end after different numbers of "
                                 "batches")
            self._pipeline.start(iter(()))
            self._states = self._current_states()
            raise StopIteration
        pads = {batch.pad for batch in batches}
        if len(pads) > 1:
            raise MXNetError("PrefetchingIter: the batches have different numbers of padding "
                             f"samples: {sorted(map(str, pads))}")
        first = batches[0]
        return DataBatch(
            [array for batch in batches for array in batch.data],
            [array for batch in batches for array in batch.label or []], first.pad, first.index,
            first.bucket_key, self.provide_data, self.provide_label)

    def reset(self) -> None:
        """Reset all iterators, and start the next epoch."""
        self._pipeline.start(iter(()))
        for iterator in self.iters:
            iterator.reset()
        self._pipeline.start(self._jobs())

    def close(self) -> None:
        """Stop the threads after their current batches."""
        self._pipeline.close()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the position of the next batch; None if an iterator cannot tell its own."""
        return None if None in self._states else {"iters": list(self._states)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        expect_same(self, state)
        inners = state.get("iters")
        inners = inners if isinstance(inners, (list, tuple)) else ()
        expect_same(self, {"iterators": len(inners)}, iterators=self.n_iter)
        self._pipeline.start(iter(()))
        try:
            for iterator, inner in zip(self.iters, inners, strict=True):
                iterator.load_state_dict(inner)
        except MXNetError:
            self.reset()
            raise
        self._pipeline.start(self._jobs())


def _renames(name: str, option: Any, count: int) -> list[Mapping[str, str]] | None:
    """The new names of each iterator's arrays, one dict for each; None: they keep their names."""
    if option is None:
        return None
    renames = [option] if isinstance(option, Mapping) else option
    if not (isinstance(renames, (list, tuple)) and len(renames) == count
            and all(isinstance(names, Mapping) for names in renames)):
        raise ArgumentTypeError(f"PrefetchingIter: {name} is {option!r:.80}, expected a dict of "
                                f"names for each of {count} iterator(s)")
    return list(renames)
