"""`DatasetIter`: batches from map-style data sets of other libraries, whose samples have an index.

A batch is a job of the pipeline, divided into tasks.  A task reads its samples and writes them to
their rows of the batch's arrays.  The sample at each position depends only on the seed and the
position in the epoch (`sampler.EpochSampler`), for any number of threads, so a position is all that
is needed to resume exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..base import MXNetError
from ..core.interrupts import from_handler
from ..ops.random import rng
from .csr_rows import as_csr, row_of
from .data_iter import require_batches
from .job_pipeline import Job, Pipeline
from .native import require_part
from .sampler import LAST_TURN, EpochSampler, SampledIter
from .samples import SAMPLES_PER_TASK, BatchAssembler, Inputs, Rows, error_context
from .saved_state import expect_same, saved_integer
from .sources import source_of

__all__ = ["DatasetIter"]


class DatasetIter(SampledIter):
    """Batches of the samples of a data set, read ahead by threads.

    Parameters
    ----------
    dataset : sequence or mapping
        Anything with `len(dataset)` and `dataset[index]`: a list, a map-style data set of PyTorch,
        a data set of Hugging Face, an Arrow table, a DataFrame, or a dict of arrays.  A sample is a
        tuple (data, label), a dict, or an array; rows of tables are dicts.  Matrices of scipy and
        CSRNDArrays, alone or in a dict, give csr batches.
    batch_size : int, default 1
        Number of samples in a batch.
    shuffle : bool, default False
        Visit the samples in a new random order in every epoch.
    last_batch_handle : {'pad', 'discard', 'roll_over'}, default 'pad'
        Handling of an incomplete last batch, as in `NDArrayIter`.
    data_names : str or sequence of str, default 'data'
        Names of the data inputs of the network.
    label_names : str or sequence of str, default 'softmax_label'
        Names of the labels; a tuple or array without a field for labels has none.
    columns : dict of str to str, int or list, optional
        Field of a sample that an input is taken from, if not the one of its name (dicts, tables) or
        position (tuples): `{"data": "image"}`.  A list of fields is stacked along a new last axis:
        `{"data": ["x", "y"]}`.
    dtype : str, numpy type, dict or None, default 'float32'
        Element type of all inputs, or of each in a dict by name; None: those of the first sample.
    transform : callable, optional
        Function that is given each sample and returns the sample to use.  Its own random draws do
        not follow from `seed`.
    seed : int, optional
        Seed of the random order; None: the order follows from `mx.random.seed`.
    num_parts : int, default 1
        Number of parts that the data set is divided into; they differ in length by at most 1.
    part_index : int, default 0
        Part that is read, from 0.
    preprocess_threads : int, default 1
        Number of threads that read and transform samples.  With more than one, the data set must
        allow concurrent reads.
    prefetch_buffer : int, default 4
        Number of batches that are prepared ahead.

    Raises
    ------
    MXNetError
        If an option is invalid, the part is empty, or a sample cannot be read or has another shape
        than the first; the message names the sample, and the error's cause is what the data set
        raised.

    Notes
    -----
    Arrays of a batch have the shape (batch_size, *shape of the field).  `index` of a batch holds
    the positions of its samples.

    Examples
    --------
    >>> import numpy as np
    >>> dataset = [(np.full(3, number), number % 2) for number in range(5)]
    >>> batches = mx.io.DatasetIter(dataset, batch_size=2)
    >>> batch = batches.next()
    >>> batch.data[0].shape, batch.label[0].asnumpy().tolist(), batch.index.tolist()
    ((2, 3), [0.0, 1.0], [0, 1])
    >>> table = {"x": np.arange(4), "y": np.arange(4) * 10, "class": np.array([0, 1, 0, 1])}
    >>> batches = mx.io.DatasetIter(table, batch_size=2,
    ...                             columns={"data": ["x", "y"], "softmax_label": "class"})
    >>> batches.next().data[0].asnumpy().tolist()
    [[0.0, 0.0], [1.0, 10.0]]
    """

    _sampler: EpochSampler

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
        with error_context("DatasetIter"):
            inputs = Inputs.of(data_names, label_names, columns, dtype)
            if as_csr(dataset) is not None:
                dataset, inputs = {inputs.data[0]: dataset}, inputs._replace(label=())
            self._source = source_of(dataset)
        self._part = [num_parts, part_index]
        self._first, end = (self._source.length * part // num_parts
                            for part in (part_index, part_index + 1))
        if self._first == end:
            raise MXNetError(f"DatasetIter: part {part_index} of {num_parts} of "
                             f"{self._source.length} samples is empty")
        self._transform = transform
        self._pipeline = Pipeline(preprocess_threads, prefetch_buffer)
        self._assembler = self._pipeline.call(partial(self._make_assembler, inputs))
        self.provide_data = self._assembler.provide_data
        self.provide_label = self._assembler.provide_label
        self._seed = None if seed is None else seed % 2 ** 64
        if seed is None:
            seed = rng.Sequence().state[0] if shuffle else 0
        self._sampler = EpochSampler(end - self._first, batch_size, shuffle, seed % 2 ** 64,
                                     last_batch_handle)
        columnar = self._source.columnar and transform is None
        self._step = -(-batch_size // preprocess_threads) if columnar else SAMPLES_PER_TASK
        self._begin(0)

    def _make_assembler(self, inputs: Inputs) -> BatchAssembler:
        """An assembler for the names, shapes and types of the first sample."""
        samples = self._read([self._first])
        with error_context(self._describe(self._first)):
            if isinstance(samples, Mapping) and self._transform is None:
                values = [row_of(column, 0) for column in inputs.values(samples)]
            else:
                sample = self._transform_sample(_rows(samples, 1)[0])
                inputs = inputs.matching(sample)
                values = inputs.values(sample)
            return BatchAssembler(inputs, values, self.batch_size)

    # -- batches ----------------------------------------------------------------------------

    def _jobs(self, position: int) -> Iterator[Job]:
        for chosen in self._sampler.batches(position):
            arrays, index = self._assembler.acquire(), self._first + chosen.samples
            tasks = [partial(self._fill, arrays, row, index[row:row + self._step].tolist())
                     for row in range(0, self.batch_size, self._step)]
            yield Job(tasks, partial(self._assembler.batch, arrays, chosen.pad, index))

    def _fill(self, arrays: list[Rows], row: int, indices: list[int]) -> None:
        batch = self._read(indices)
        if isinstance(batch, Mapping) and self._transform is None:
            self._assembler.write_columns(arrays, row, batch, [*map(self._describe, indices)])
            return
        samples = _rows(batch, len(indices))
        if len(samples) != len(indices):
            raise MXNetError(f"{self._describe(*indices)}: there are {len(samples)} of them")
        for target, (index, sample) in enumerate(zip(indices, samples, strict=True), row):
            with error_context(self._describe(index)):
                self._assembler.write_sample(arrays, target, self._transform_sample(sample))

    def _read(self, indices: list[int]) -> Any:
        """Read these indices; if that fails, one by one to find the index that fails."""
        try:
            return self._source.read(indices)
        except Exception as error:
            if from_handler(error):
                raise
            failure = error
        if len(indices) > 1:
            for index in indices:
                self._read([index])
        with error_context(self._describe(*indices)):
            raise failure

    def _transform_sample(self, sample: Any) -> Any:
        return sample if self._transform is None else self._transform(sample)

    @staticmethod
    def _describe(*indices: int) -> str:
        return f"DatasetIter: sample {', '.join(map(str, indices))}"

    # -- resume -----------------------------------------------------------------------------

    def _resume_key(self) -> dict[str, Any]:
        return {**self._sampler.state(), "part": self._part}

    def state_dict(self) -> dict[str, Any]:
        return {**self._resume_key(), "seed": self._sampler.seed, "turn": self._sampler.turn,
                "start": self._sampler.start, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a position that `state_dict` returned.

        The two iterators have the same number of samples, part, `batch_size`, `shuffle`,
        `last_batch_handle`, and `seed` if one was given.
        """
        expect_same(self, state, **self._resume_key(),
                    **({} if self._seed is None else {"seed": self._seed}))
        old = self._sampler
        fresh = EpochSampler(old.count, old.batch_size, old.shuffle,
                             saved_integer(self, state, "seed", most=2**64 - 1),
                             old.last_batch_handle)
        fresh.turn = saved_integer(self, state, "turn", most=LAST_TURN)
        fresh.start = saved_integer(self, state, "start", most=fresh.end)
        position = saved_integer(self, state, "position", fresh.start, fresh.end + old.batch_size)
        self._sampler = fresh
        self._begin(position)


def _rows(samples: Any, count: int) -> list[Any]:
    """A list of samples from the result of a read: samples already, or columns."""
    if not isinstance(samples, Mapping):
        return samples
    columns = dict(samples)
    return [{name: row_of(column, row) for name, column in columns.items()} for row in range(count)]
