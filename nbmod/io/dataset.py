"""`DatasetIter`: batches of what is a data set to other libraries: samples by number.

A batch is a job of the pipeline, cut into parts.  A part reads its samples and writes them to their
rows of the batch's arrays.  Which sample is where follows from the seed and the position in the
epoch alone (`sampler.EpochSampler`), whatever the number of threads, so a position is all it takes
to go on exactly where another iterator stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base import MXNetError
from ..ops import rng
from .data import WholeBatches, expect_same, require_batches
from .native import require_part
from .pipeline import Job, Pipeline
from .sampler import EpochSampler
from .samples import PART, Assembly, Inputs, telling
from .sources import source_of

__all__ = ["DatasetIter"]


class DatasetIter(WholeBatches):
    """Batches of the samples of a data set, read ahead by threads.

    dataset: anything with `len(dataset)` and `dataset[index]`: a list, a map-style data set of
    torch, one of Hugging Face, a table of Arrow, a DataFrame, a dict of arrays.  Samples are as
    `io.samples` says: tuples (data, label), dicts, arrays; rows of tables are dicts.

    batch_size=1.  shuffle=False: in a new order in every epoch, which follows from `seed`; without
    one, from `mx.random.seed`.  last_batch_handle="pad": as in `NDArrayIter`.
    data_names="data", label_names="softmax_label": the inputs of the network, one or several; a
    tuple without a field for labels has none.
    columns: which field an input is, if not the one of its name (dicts, tables) or position
    (tuples): {"data": "image"}; several are stacked along a new last axis: {"data": ["x", "y"]}.
    dtype="float32": the type of all inputs, of each in a dict by name, or None for those of the
    first sample.
    transform: a function that is given each sample and returns what to take for it; tables' rows
    come as dicts.  What it draws at random does not follow from `seed`.
    num_parts, part_index: one of several parts, which differ in length by 1 at most.
    preprocess_threads=1: how many threads read samples and transform them; with more than one, the
    data set must allow it.  prefetch_buffer=4: how many batches are made ahead.

    Arrays have shape (batch_size, *shape of a field).  `index` of a batch numbers its samples.
    Raises MXNetError that names the sample, and has what the data set raised as its cause.
    """

    def __init__(self, dataset: Any, batch_size: int = 1, shuffle: bool = False,
                 last_batch_handle: str = "pad", data_names: str | Sequence[str] = "data",
                 label_names: str | Sequence[str] = "softmax_label",
                 columns: Mapping[str, Any] | None = None, dtype: Any = "float32",
                 transform: Callable[[Any], Any] | None = None, seed: int | None = None,
                 num_parts: int = 1, part_index: int = 0, preprocess_threads: int = 1,
                 prefetch_buffer: int = 4):
        super().__init__(batch_size)
        require_batches("DatasetIter", batch_size, last_batch_handle)
        require_part("DatasetIter", num_parts, part_index)
        with telling("DatasetIter"):
            self._source = source_of(dataset)
            inputs = Inputs.of(data_names, label_names, columns, dtype)
        self._part = [num_parts, part_index]
        self._first, end = (self._source.length * part // num_parts
                            for part in (part_index, part_index + 1))
        if self._first == end:
            raise MXNetError(f"DatasetIter: part {part_index} of {num_parts} of "
                             f"{self._source.length} samples is empty")
        self._transform = transform
        self._pipeline = Pipeline(preprocess_threads, prefetch_buffer)
        self._assembly = self._pipeline.call(partial(self._assembly_of, inputs))
        self.provide_data = self._assembly.provide_data
        self.provide_label = self._assembly.provide_label
        self._seed = None if seed is None else seed % 2 ** 64
        if seed is None:
            seed = rng.Sequence().state[0] if shuffle else 0
        self._sampler = EpochSampler(end - self._first, batch_size, shuffle, seed % 2 ** 64,
                                     last_batch_handle)
        columnar = self._source.columnar and transform is None
        self._step = -(-batch_size // preprocess_threads) if columnar else PART
        self._begin(0)

    def _assembly_of(self, inputs: Inputs) -> Assembly:
        """Names, shapes and types are those of the first sample."""
        found = self._read([self._first])
        with telling(self._called(self._first)):
            if isinstance(found, Mapping) and self._transform is None:
                values = [column[0] for column in inputs.values(found)]
            else:
                sample = self._transformed(_rows(found, 1)[0])
                inputs = inputs.fitting(sample)
                values = inputs.values(sample)
            return Assembly(inputs, values, self.batch_size)

    # -- batches ----------------------------------------------------------------------------

    def _begin(self, position: int) -> None:
        """Go on at this position of the epoch."""
        self._position, self.current_batch = position, None
        self._pipeline.start(self._jobs(position))

    def _jobs(self, position: int) -> Iterator[Job]:
        for chosen in self._sampler.batches(position):
            arrays, index = self._assembly.rent(), self._first + chosen.samples
            parts = [partial(self._fill, arrays, row, index[row:row + self._step].tolist())
                     for row in range(0, self.batch_size, self._step)]
            yield Job(parts, partial(self._assembly.batch, arrays, chosen.pad, index))

    def _fill(self, arrays: list[np.ndarray], row: int, indices: list[int]) -> None:
        found = self._read(indices)
        if isinstance(found, Mapping) and self._transform is None:
            self._assembly.put_columns(arrays, row, found, [*map(self._called, indices)])
            return
        samples = _rows(found, len(indices))
        if len(samples) != len(indices):
            raise MXNetError(f"{self._called(*indices)}: there are {len(samples)} of them")
        for place, (index, sample) in enumerate(zip(indices, samples, strict=True), row):
            with telling(self._called(index)):
                self._assembly.put(arrays, place, self._transformed(sample))

    def _read(self, indices: list[int]) -> Any:
        """What the data set has at these indices; which one fails is found one by one."""
        try:
            return self._source.read(indices)
        except Exception as error:
            failure = error
        if len(indices) > 1:
            for index in indices:
                self._read([index])
        with telling(self._called(*indices)):
            raise failure

    def _transformed(self, sample: Any) -> Any:
        return sample if self._transform is None else self._transform(sample)

    @staticmethod
    def _called(*indices: int) -> str:
        return f"DatasetIter: sample {', '.join(map(str, indices))}"

    def iter_next(self) -> bool:
        try:
            self.current_batch = self._pipeline.next()
        except StopIteration:
            return False
        self._position += self.batch_size
        return True

    def reset(self) -> None:
        self._sampler.next_epoch(self._position)
        self._begin(self._sampler.start)

    def close(self) -> None:
        """End the threads."""
        self._pipeline.close()

    # -- resume -----------------------------------------------------------------------------

    def _made(self) -> dict[str, Any]:
        return {**self._sampler.state(), "part": self._part}

    def state_dict(self) -> dict[str, Any]:
        return {**self._made(), "seed": self._sampler.seed, "turn": self._sampler.turn,
                "start": self._sampler.start, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        expect_same(self, dict(state), **self._made(),
                    **({} if self._seed is None else {"seed": self._seed}))
        old = self._sampler
        self._sampler = EpochSampler(old.count, old.batch_size, old.shuffle, state["seed"],
                                     old.last_batch_handle)
        self._sampler.turn, self._sampler.start = state["turn"], state["start"]
        self._begin(state["position"])


def _rows(found: Any, count: int) -> list[Any]:
    """As samples what has been read as columns, too."""
    if not isinstance(found, Mapping):
        return found
    columns = dict(found)
    return [{name: column[row] for name, column in columns.items()} for row in range(count)]
