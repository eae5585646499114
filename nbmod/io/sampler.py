"""Selects the samples of each batch: the ring of `native`, in order or shuffled.

The ring is infinite: turn 0 of the samples, turn 1, ...; each turn is a permutation that depends on
the seed and the index of the turn, so the sample at a position is a function of the position.  An
epoch extends from its start to the end of that turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..ops.random import rng
from .data_iter import DataBatch, WholeBatches
from .job_pipeline import Job, Pipeline

__all__ = ["LAST_TURN", "BatchSamples", "EpochSampler", "SampledIter", "Sampler"]

LAST_TURN = 2**24
"""Turns that a saved state may be in: positions on the ring fit 64 bits."""


class BatchSamples(NamedTuple):
    """The samples of a batch."""

    samples: np.ndarray
    pad: int
    """Number of padding samples at the end."""
    start: int
    """Position of the first one on the ring."""


class Sampler:
    """Batches of the indices of samples; `start` is the position where the epoch begins.

    Parameters
    ----------
    count : int
        Number of samples.
    batch_size : int
        Number of samples in a batch.
    shuffle : bool
        Permute every turn.
    seed : int
        Seed of the permutations.
    round_batch : bool
        Fill an incomplete last batch from the next turn; otherwise from the previous batch.
    """

    def __init__(self, count: int, batch_size: int, shuffle: bool, seed: int, round_batch: bool):
        self.count, self.batch_size = count, batch_size
        self.shuffle, self.seed, self.round_batch = shuffle, seed, round_batch
        self.start = 0
        self._turn, self._order = -1, np.arange(count)

    def batches(self, position: int) -> Iterator[BatchSamples]:
        """Iterate over the batches of the epoch, as `BatchSamples`.

        Parameters
        ----------
        position : int
            Position on the ring of the first batch.
        """
        while position < self.end:
            stop = position + self.batch_size
            pad = max(stop - self.end, 0)
            if pad and not self.round_batch:
                rest = self._at(np.arange(position, self.end))
                before = self._at(np.arange(position - self.batch_size, position))[len(rest):]
                yield BatchSamples(np.append(rest, before), pad, position)
            else:
                yield BatchSamples(self._at(np.arange(position, stop)), pad, position)
            position = stop

    @property
    def end(self) -> int:
        """The end of the epoch: that of the turn in which it starts."""
        return (self.start // self.count + 1) * self.count

    def next_epoch(self, position: int) -> None:
        """Start another epoch, after the samples that padded the last batch, if that was reached.

        Parameters
        ----------
        position : int
            Position on the ring that has been reached.
        """
        self.start = max(self.end, position) if self.round_batch else self.end

    def _at(self, positions: np.ndarray) -> np.ndarray:
        """The samples at positions of the ring; negative ones count from the turn before."""
        turns, indices = np.divmod(positions, self.count)
        if not self.shuffle:
            return indices
        samples = np.empty_like(indices)
        for turn in np.unique(turns):
            samples[turns == turn] = self._permutation(max(int(turn), 0))[indices[turns == turn]]
        return samples

    def _permutation(self, turn: int) -> np.ndarray:
        if turn != self._turn:
            stream = rng.Stream(self.seed, turn)
            self._turn, self._order = turn, rng.generator(stream).permutation(self.count)
        return self._order

    def state(self) -> dict[str, Any]:
        """The options that must be equal to resume from the position of another sampler."""
        return {"count": self.count, "batch_size": self.batch_size, "shuffle": self.shuffle,
                "seed": self.seed, "round_batch": self.round_batch}


class EpochSampler(Sampler):
    """A sampler whose epochs are turns of the ring, and end as those of `NDArrayIter`.

    Parameters
    ----------
    count, batch_size, shuffle, seed
        As for `Sampler`.
    last_batch_handle : {'pad', 'discard', 'roll_over'}
        Handling of an incomplete last batch: it is filled with the first samples of its turn,
        discarded, or becomes the beginning of the next epoch.
    """

    def __init__(self, count: int, batch_size: int, shuffle: bool, seed: int,
                 last_batch_handle: str):
        super().__init__(count, batch_size, shuffle, seed, False)
        self.last_batch_handle = last_batch_handle
        self.turn = 0

    def batches(self, position: int) -> Iterator[BatchSamples]:
        while position + (1 if self.last_batch_handle == "pad" else self.batch_size) <= self.end:
            positions = np.arange(position, position + self.batch_size)
            filling = positions >= self.end
            positions[filling] = self.end - self.count + positions[filling] % self.count
            yield BatchSamples(self._at(positions), int(filling.sum()), position)
            position += self.batch_size

    @property
    def end(self) -> int:
        return (self.turn + 1) * self.count

    def next_epoch(self, position: int) -> None:
        """Start another epoch: with the remaining samples of this one if they roll over."""
        rolls_over = self.last_batch_handle == "roll_over" and self.end - position < self.batch_size
        self.start = position if rolls_over else self.end
        self.turn += 1

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "batch_size": self.batch_size, "shuffle": self.shuffle,
                "last_batch_handle": self.last_batch_handle}


class SampledIter(WholeBatches):
    """Base class of iterators whose batches a sampler selects and a pipeline makes.

    Subclasses set `_sampler` and `_pipeline`, and define `_jobs`.
    """

    _sampler: Sampler
    _pipeline: Pipeline

    def _jobs(self, position: int) -> Iterator[Job]:
        """The batches of the epoch from a position on."""
        raise NotImplementedError(f"{type(self).__name__} does not define _jobs")

    def _begin(self, position: int) -> None:
        """Continue at a position of the epoch."""
        self._position, self.current_batch = position, None
        self._pipeline.start(self._jobs(position))

    def next_batch(self) -> DataBatch:
        batch = self._pipeline.next()
        self._position += self.batch_size
        return batch

    def reset(self) -> None:
        """Start the next epoch, where the sampler says that it begins."""
        self._sampler.next_epoch(self._position)
        self._begin(self._sampler.start)

    def close(self) -> None:
        """Stop the threads."""
        self._pipeline.close()
