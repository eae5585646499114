"""`GeneratorIter`: batches from samples that can only be read in sequence.

One thread draws from the iterator of the epoch, ahead of the consumer of the batches, and writes
each sample to its row.  A position is the number of items drawn for the batches so far; to resume
from it another iterator draws as many and discards them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from itertools import count as count_from
from typing import Any

from ..base import MXNetError
from .csr_rows import row_of
from .data_iter import DataBatch, WholeBatches, require_batches
from .job_pipeline import Job, Pipeline
from .samples import SAMPLES_PER_TASK, BatchAssembler, Inputs, Rows, as_rows, error_context
from .saved_state import expect_same, saved_integer

__all__ = ["GeneratorIter"]

_END = object()


class GeneratorIter(WholeBatches):
    """Batches of samples, or of ready-made batches, from a generator.

    Parameters
    ----------
    samples : callable or iterable
        A function without arguments that returns a new generator for every epoch; or an iterable
        that can be iterated over repeatedly (a streamed data set, a loader of another library); or
        a generator, which has one epoch: drawing from a second one is an error.
    batch_size : int, optional
        Number of samples in a batch.  None: each item is a batch, with samples along the first
        axis, and none is larger than the first.
    last_batch_handle : {'pad', 'discard'}, default 'pad'
        Handling of an incomplete last batch: it is filled by repeating its own samples, or
        discarded.
    data_names : str or sequence of str, default 'data'
        Names of the data inputs of the network.
    label_names : str or sequence of str, default 'softmax_label'
        Names of the labels; a tuple or array without a field for labels has none.
    columns : dict of str to str, int or list, optional
        Field of an item that an input is taken from, as in `DatasetIter`.
    dtype : str, numpy type, dict or None, default 'float32'
        Element type of all inputs, or of each in a dict by name; None: those of the first item.
    transform : callable, optional
        Function that is given each item and returns the item to use.
    prefetch_buffer : int, default 4
        Number of batches that are prepared ahead.

    Raises
    ------
    MXNetError
        If there are no items, a generator is exhausted, or an item has another shape than the
        first; the message names the item, and the error's cause is what the generator raised.

    Notes
    -----
    The first item is drawn when the iterator is constructed; its shapes are those of all.  `reset`
    does nothing before the first batch has been drawn.

    Examples
    --------
    >>> def squares():
    ...     for number in range(3):
    ...         yield [float(number), float(number ** 2)], number
    >>> batches = mx.io.GeneratorIter(squares, batch_size=2)
    >>> [(batch.data[0].asnumpy().tolist(), batch.pad) for batch in batches]
    [([[0.0, 0.0], [1.0, 1.0]], 0), ([[2.0, 4.0], [2.0, 4.0]], 1)]
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
        self._resume_key = {"batch_size": batch_size, "last_batch_handle": last_batch_handle}
        self._items: Iterator[Any] | None = None
        with error_context("GeneratorIter"):
            inputs = Inputs.of(data_names, label_names, columns, dtype)
        self._pipeline, items = Pipeline(1, prefetch_buffer), self._epoch()
        first, self._assembler = self._pipeline.call(
            partial(self._first, items, inputs, batch_size))
        super().__init__(self._assembler.batch_size)
        self.provide_data = self._assembler.provide_data
        self.provide_label = self._assembler.provide_label
        self._begin(chain([first], items))

    def _epoch(self) -> Iterator[Any]:
        """The items of the next epoch; the thread creates its iterator with the first item."""
        before, self._items = self._items, iter(self._source())
        if self._items is before:
            raise MXNetError("the generator is exhausted; pass a function that makes a new one for "
                             "every epoch")
        yield from self._items

    def _first(self, items: Iterator[Any], inputs: Inputs, batch_size: int | None
               ) -> tuple[Any, BatchAssembler]:
        """The first item, and an assembler for its shapes and types."""
        with error_context(self._describe(0)):
            first = next(items, _END)
            if first is _END:
                raise MXNetError("there is none")
            sample = self._transform_sample(first)
            inputs = inputs.matching(sample)
            values = inputs.values(sample)
            if batch_size is None:
                arrays = [as_rows(value) for value in values]
                if not all(array.ndim and len(array) for array in arrays):
                    raise MXNetError("without a batch_size an item is a whole batch, and in this "
                                     "one there is a field without samples")
                batch_size, values = len(arrays[0]), [row_of(array, 0) for array in arrays]
            return first, BatchAssembler(inputs, values, batch_size)

    # -- batches ----------------------------------------------------------------------------

    def _begin(self, items: Iterator[Any]) -> None:
        self._position, self._has_started, self.current_batch = 0, False, None
        self._pipeline.start(self._jobs(items))

    def _jobs(self, items: Iterator[Any]) -> Iterator[Job]:
        """Jobs without an end: after the last sample batches are empty."""
        size = self.batch_size
        for number in count_from():
            arrays, filled = self._assembler.acquire(), [0]
            if self._whole:
                tasks = [partial(self._draw_batch, items, arrays, number, filled)]
            else:
                tasks = [partial(self._draw, items, arrays,
                                 range(row, min(row + SAMPLES_PER_TASK, size)), number * size,
                                 filled) for row in range(0, size, SAMPLES_PER_TASK)]
            yield Job(tasks, partial(self._finish, arrays, filled))

    def _draw(self, items: Iterator[Any], arrays: list[Rows], rows: range, base: int,
              filled: list[int]) -> None:
        """Draw samples into rows; `filled[0]` becomes the number of filled rows."""
        for row in rows:
            with error_context(self._describe(base + row)):
                sample = next(items, _END)
                if sample is _END:
                    return
                self._assembler.write_sample(arrays, row, self._transform_sample(sample))
            filled[0] = row + 1

    def _draw_batch(self, items: Iterator[Any], arrays: list[Rows], number: int,
                    filled: list[int]) -> None:
        with error_context(self._describe(number)):
            batch = next(items, _END)
            if batch is not _END:
                filled[0] = self._assembler.write_batch(arrays, self._transform_sample(batch))

    def _finish(self, arrays: list[Rows], filled: list[int]) -> DataBatch | None:
        count = filled[0]
        if not count:
            return None
        self._assembler.pad(arrays, count)
        return self._assembler.batch(arrays, self.batch_size - count, None)

    def _transform_sample(self, item: Any) -> Any:
        return item if self._transform is None else self._transform(item)

    @staticmethod
    def _describe(number: int) -> str:
        return f"GeneratorIter: item {number}"

    def next_batch(self) -> DataBatch:
        self._has_started = True
        while True:
            batch = self._pipeline.next()
            if batch is None:
                self._pipeline.start(iter(()))
                raise StopIteration
            self._position += 1 if self._whole else self.batch_size - batch.pad
            if not batch.pad or self._resume_key["last_batch_handle"] == "pad":
                return batch

    def reset(self) -> None:
        """Start the next epoch with a new generator; has no effect before the first batch."""
        if self._has_started:
            self._begin(self._epoch())

    def close(self) -> None:
        """Stop the thread."""
        self._pipeline.close()

    # -- resume -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the position, the number of items drawn: see `DataIter.state_dict`."""
        return {**self._resume_key, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a position that `state_dict` returned, by drawing and discarding items.

        The two iterators have the same `batch_size` and `last_batch_handle`; MXNetError if the
        generator ends before the position.
        """
        expect_same(self, state, **self._resume_key)
        position = saved_integer(self, state, "position")
        self.reset()
        while self._position < position and self.iter_next():
            pass
        if self._position != position:
            before = self._position
            self.reset()
            raise MXNetError(f"GeneratorIter: the saved state is at item {position}, and there are "
                             f"only {before}")
