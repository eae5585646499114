"""Sentences as numbers, and batches of sentences of about the same length.

`BucketSentenceIter` keeps one matrix per bucket, a sentence a row, filled up on the right. An epoch
is an order of batches `(bucket, first row)` and an order of rows in every bucket; both are drawn
anew when it begins, from a random sequence of the iterator's own.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, MXNetError
from ..io import DataBatch, DataDesc, DataIter
from ..io.data import expect_same
from ..ops import rng

__all__ = ["BucketSentenceIter", "encode_sentences"]


def encode_sentences(sentences: Iterable[Iterable[Hashable]],
                     vocab: dict[Any, int] | None = None, invalid_label: int = -1,
                     invalid_key: Any = "\n", start_label: int = 0, unknown_token: Any = None
                     ) -> tuple[list[list[int]], dict[Any, int]]:
    """(sentences as lists of codes, the vocabulary: word -> code).

    Without `vocab` every word gets the next code from `start_label` on, `invalid_label` left out,
    which is the code of `invalid_key`. With `vocab` a word that it lacks has the code of
    `unknown_token`, which is added to `vocab` if need be; without one it is a MXNetError.
    """
    growing = vocab is None
    codes = {invalid_key: invalid_label} if vocab is None else vocab
    taken = {invalid_label, *(() if growing else codes.values())}
    code = start_label
    coded: list[list[int]] = []
    for sentence in sentences:
        row: list[int] = []
        coded.append(row)
        for word in sentence:
            if word not in codes and not growing:
                if unknown_token is None:
                    raise MXNetError(f"encode_sentences: vocab has no word {word!r}; give "
                                     "unknown_token to encode what it lacks")
                word = unknown_token
            if word not in codes:
                while code in taken:
                    code += 1
                codes[word] = code
                code += 1
            row.append(codes[word])
    return coded, codes


class BucketSentenceIter(DataIter):
    """Batches of sentences (lists of codes) for a language model: labels are the next words.

    A sentence goes to the shortest bucket that holds it; longer ones than all buckets are dropped,
    and so are the last ones of a bucket that do not fill a batch. Without `buckets` every length
    that fills a batch is one. `invalid_label` fills up. Data and labels have shape
    (batch_size, bucket) for layout 'NT' and (bucket, batch_size) for 'TN'.
    """

    def __init__(self, sentences: Sequence[Sequence[int]], batch_size: int,
                 buckets: Sequence[int] | None = None, invalid_label: int = -1,
                 data_name: str = "data", label_name: str = "softmax_label",
                 dtype: Any = "float32", layout: str = "NT"):
        super().__init__(batch_size)
        if batch_size < 1:
            raise MXNetError(f"BucketSentenceIter: batch_size is {batch_size}, expected at least 1")
        self.data_name = data_name
        self.label_name = label_name
        self.dtype = dtype
        self.invalid_label = invalid_label
        self.layout = layout
        self.major_axis = layout.find("N")
        if self.major_axis not in (0, 1):
            raise ArgumentError(f"BucketSentenceIter: layout is {layout!r}, expected 'NT' (batch "
                                "major) or 'TN' (time major)")
        self.buckets = _lengths(sentences, batch_size) if buckets is None else sorted(buckets)
        self._fill_buckets(sentences)
        self.default_bucket_key = max(self.buckets)
        self.provide_data = [self._describe(data_name, self.default_bucket_key)]
        self.provide_label = [self._describe(label_name, self.default_bucket_key)]
        self._batches = [(bucket, row) for bucket, rows in enumerate(self.data)
                         for row in range(0, len(rows) - batch_size + 1, batch_size)]
        self._random = rng.Sequence()
        self.reset()

    def _fill_buckets(self, sentences: Iterable[Sequence[int]]) -> None:
        """Sort the sentences into `data`, a matrix for each of `buckets`, leaving out empty ones.
        """
        rows: dict[int, list[np.ndarray]] = {length: [] for length in self.buckets}
        dropped = 0
        for sentence in sentences:
            place = bisect.bisect_left(self.buckets, len(sentence))
            if place == len(self.buckets):
                dropped += 1
                continue
            row = np.full(self.buckets[place], self.invalid_label, self.dtype)
            row[:len(sentence)] = sentence
            rows[self.buckets[place]].append(row)
        print(f"WARNING: discarded {dropped} sentences longer than the largest bucket.")
        self.buckets = [length for length in self.buckets if rows[length]]
        self.data = [np.stack(rows[length]) for length in self.buckets]
        if not self.data:
            raise ArgumentError("BucketSentenceIter: no sentence fits a bucket; give buckets, or "
                                "a batch_size that some length fills")

    def _describe(self, name: str, length: int) -> DataDesc:
        shape = (self.batch_size, length) if self.major_axis == 0 else (length, self.batch_size)
        return DataDesc(name, shape, layout=self.layout)

    def reset(self) -> None:
        """Start the next epoch, in a new order."""
        self._shuffle(self._random.next())
        self.curr_idx = 0

    def state_dict(self) -> dict[str, Any]:
        return {**self._made(), "curr_idx": self.curr_idx, "random": list(self._random.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        expect_same(self, state, **self._made())
        key, draws = state["random"]
        self._random.state = (key, draws)
        self._shuffle(self._random.last())
        self.curr_idx = state["curr_idx"]

    def _made(self) -> dict[str, Any]:
        """What two iterators must have in common to go on from each other's states."""
        return {"buckets": list(self.buckets), "sentences": [len(rows) for rows in self.data],
                "batch_size": self.batch_size}

    def _shuffle(self, draw: np.random.Generator) -> None:
        """Draw the order of batches, and of the rows of each bucket, and lay the rows out."""
        self.idx = [self._batches[i] for i in draw.permutation(len(self._batches))]
        ordered = [rows[draw.permutation(len(rows))] for rows in self.data]
        self.nddata = [nd.array(rows, dtype=self.dtype) for rows in ordered]
        self.ndlabel = [nd.array(self._next_words(rows), dtype=self.dtype) for rows in ordered]

    def _next_words(self, rows: np.ndarray) -> np.ndarray:
        labels = np.full_like(rows, self.invalid_label)
        labels[:, :-1] = rows[:, 1:]
        return labels

    def next(self) -> DataBatch:
        """The next batch, with its `bucket_key`; StopIteration at the end of the epoch."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        bucket, row = self.idx[self.curr_idx]
        self.curr_idx += 1
        data, label = (arrays[bucket][row:row + self.batch_size]
                       for arrays in (self.nddata, self.ndlabel))
        if self.major_axis == 1:
            data, label = data.T, label.T
        length = self.buckets[bucket]
        return DataBatch([data], [label], pad=0, bucket_key=length,
                         provide_data=[self._describe(self.data_name, length)],
                         provide_label=[self._describe(self.label_name, length)])


def _lengths(sentences: Iterable[Sequence[int]], batch_size: int) -> list[int]:
    """Lengths that at least `batch_size` sentences have."""
    counts: Mapping[int, int] = Counter(map(len, sentences))
    return sorted(length for length, count in counts.items() if length and count >= batch_size)
