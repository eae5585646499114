"""`GeneratorIter`: batches of what can only be run through.

One thread, and no other, draws from the iterator of the epoch, ahead of who takes the batches, and
writes each sample to its row.  A position is the number of items that made the batches so far; to
go on from it another iterator draws as many and drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count
from typing import Any

import numpy as np

from ..base import MXNetError
from .data import DataBatch, WholeBatches, expect_same, require_batches
from .pipeline import Job, Pipeline
from .samples import PART, Assembly, Inputs, as_array, telling

__all__ = ["GeneratorIter"]

_END = object()


class GeneratorIter(WholeBatches):
    """Batches of samples, or of ready-made batches, from a generator.

    samples: a function without arguments that makes a new generator for every epoch; or what can be
    iterated over again and again (a streamed data set, a loader of another library); or a generator
    itself, which has one epoch: drawing from a second one is an error.
    batch_size=None: each item is a batch, with samples along the first axis, and none is larger
    than the first.
    last_batch_handle="pad": a batch that is not full is filled with its own samples over again;
    "discard": it is dropped.
    data_names, label_names, columns, dtype, transform, prefetch_buffer: as in `DatasetIter`.

    The first item is drawn when the iterator is made; its shapes are those of all.  Before anything
    is taken, `reset` does nothing.
    Raises MXNetError that names the item, and has what the generator raised as its cause.
    """

    def __init__(self, samples: Callable[[], Iterable[Any]] | Iterable[Any],
                 batch_size: int | None = None, last_batch_handle: str = "pad",
                 data_names: str | Sequence[str] = "data",
                 label_names: str | Sequence[str] = "softmax_label",
                 columns: Mapping[str, Any] | None = None, dtype: Any = "float32",
                 transform: Callable[[Any], Any] | None = None, prefetch_buffer: int = 4):
        self._whole = batch_size is None
        require_batches("GeneratorIter", 1 if batch_size is None else batch_size,
                        last_batch_handle, ("pad", "discard"))
        self._transform = transform
        self._source: Callable[[], Iterable[Any]] = (
            samples if callable(samples) and not hasattr(samples, "__iter__") else lambda: samples)
        self._made = {"batch_size": batch_size, "last_batch_handle": last_batch_handle}
        self._items: Iterator[Any] | None = None
        with telling("GeneratorIter"):
            inputs = Inputs.of(data_names, label_names, columns, dtype)
        self._pipeline, items = Pipeline(1, prefetch_buffer), self._epoch()
        first, self._assembly = self._pipeline.call(partial(self._first, items, inputs, batch_size))
        super().__init__(self._assembly.batch_size)
        self.provide_data = self._assembly.provide_data
        self.provide_label = self._assembly.provide_label
        self._begin(chain([first], items))

    def _epoch(self) -> Iterator[Any]:
        """The items of the next epoch, which begins where the first is drawn: in the thread."""
        before, self._items = self._items, iter(self._source())
        if self._items is before:
            raise MXNetError("the generator is used up; give a function that makes a new one for "
                             "every epoch")
        yield from self._items

    def _first(self, items: Iterator[Any], inputs: Inputs, batch_size: int | None
               ) -> tuple[Any, Assembly]:
        """The first item, and the arrays for it and its like."""
        with telling(self._called(0)):
            first = next(items, _END)
            if first is _END:
                raise MXNetError("there is none")
            sample = self._transformed(first)
            inputs = inputs.fitting(sample)
            values = inputs.values(sample)
            if batch_size is None:
                arrays = [as_array(value) for value in values]
                if not all(array.ndim and len(array) for array in arrays):
                    raise MXNetError("without a batch_size an item is a whole batch, and in this "
                                     "one there is a field without samples")
                batch_size, values = len(arrays[0]), [array[0] for array in arrays]
            return first, Assembly(inputs, values, batch_size)

    # -- batches ----------------------------------------------------------------------------

    def _begin(self, items: Iterator[Any]) -> None:
        self._position, self._taken, self.current_batch = 0, False, None
        self._pipeline.start(self._jobs(items))

    def _jobs(self, items: Iterator[Any]) -> Iterator[Job]:
        """Without an end: behind the last sample batches are empty."""
        size = self.batch_size
        for number in count():
            arrays, filled = self._assembly.rent(), [0]
            if self._whole:
                parts = [partial(self._draw_batch, items, arrays, number, filled)]
            else:
                parts = [partial(self._draw, items, arrays, range(row, min(row + PART, size)),
                                 number * size, filled) for row in range(0, size, PART)]
            yield Job(parts, partial(self._finish, arrays, filled))

    def _draw(self, items: Iterator[Any], arrays: list[np.ndarray], rows: range, base: int,
              filled: list[int]) -> None:
        """Some samples to their rows; `filled[0]` is how many rows have one."""
        for row in rows:
            with telling(self._called(base + row)):
                sample = next(items, _END)
                if sample is _END:
                    return
                self._assembly.put(arrays, row, self._transformed(sample))
            filled[0] = row + 1

    def _draw_batch(self, items: Iterator[Any], arrays: list[np.ndarray], number: int,
                    filled: list[int]) -> None:
        with telling(self._called(number)):
            batch = next(items, _END)
            if batch is not _END:
                filled[0] = self._assembly.put_batch(arrays, self._transformed(batch))

    def _finish(self, arrays: list[np.ndarray], filled: list[int]) -> DataBatch | None:
        have = filled[0]
        if not have:
            return None
        for array in arrays:
            array[have:] = array[np.arange(have, self.batch_size) % have]
        return self._assembly.batch(arrays, self.batch_size - have, None)

    def _transformed(self, item: Any) -> Any:
        return item if self._transform is None else self._transform(item)

    @staticmethod
    def _called(number: int) -> str:
        return f"GeneratorIter: item {number}"

    def iter_next(self) -> bool:
        self._taken = True
        try:
            while True:
                batch = self._pipeline.next()
                if batch is None:
                    self._pipeline.start(iter(()))
                    return False
                self._position += 1 if self._whole else self.batch_size - batch.pad
                if not batch.pad or self._made["last_batch_handle"] == "pad":
                    self.current_batch = batch
                    return True
        except StopIteration:
            return False

    def reset(self) -> None:
        if self._taken:
            self._begin(self._epoch())

    def close(self) -> None:
        """End the thread."""
        self._pipeline.close()

    # -- resume -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {**self._made, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        expect_same(self, dict(state), **self._made)
        self.reset()
        while self._position < state["position"] and self.iter_next():
            pass
        if self._position != state["position"]:
            found = self._position
            self.reset()
            raise MXNetError(f"GeneratorIter: the saved state is at item {state['position']}, and "
                             f"there are only {found}")
