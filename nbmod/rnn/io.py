"""Sentences as lists of codes, and batches of sentences of about the same length.

`BucketSentenceIter` keeps one matrix per bucket, a sentence per row, padded on the right. An epoch
is an order of batches `(bucket, first row)` and an order of rows in every bucket; both are drawn
when it begins, from a random sequence of the iterator's own.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, CheckError, wrong_type
from ..io import DataBatch, DataDesc, DataIter
from ..io.data_iter import require_batch_size
from ..io.saved_state import expect_same, saved_integer, saved_sequence
from ..ops.random import rng

__all__ = ["BucketSentenceIter", "encode_sentences"]


def encode_sentences(sentences: Iterable[Iterable[Hashable]],
                     vocab: dict[Any, int] | None = None, invalid_label: int = -1,
                     invalid_key: Any = "\n", start_label: int = 0, unknown_token: Any = None
                     ) -> tuple[list[list[int]], dict[Any, int]]:
    r"""Encode words as integers.

    Parameters
    ----------
    sentences : iterable of iterable
        Sentences as sequences of words.
    vocab : dict of word to int, optional
        The vocabulary; a new one is made unless given.
    invalid_label : int, default -1
        The code of padding, which no word gets.
    invalid_key : hashable, default '\n'
        The word of that code in a new vocabulary.
    start_label : int, default 0
        The first code that new words get.
    unknown_token : str, optional
        The word that replaces those that `vocab` lacks; it is added to `vocab` if need be.

    Returns
    -------
    sentences : list of list of int
        The codes.
    vocab : dict of word to int
        The vocabulary.

    Raises
    ------
    MXNetError
        If `vocab` lacks a word and there is no `unknown_token`.

    Examples
    --------
    >>> codes, vocab = mx.rnn.encode_sentences([["a", "b"], ["b", "c"]], start_label=1)
    >>> codes, vocab["c"]
    ([[1, 2], [2, 3]], 3)
    """
    if not isinstance(vocab, (Mapping, type(None))):
        raise wrong_type("encode_sentences: vocab", vocab, "a dict of words to integers")
    growing = vocab is None
    codes = {invalid_key: invalid_label} if vocab is None else vocab
    used = {invalid_label, *(() if growing else codes.values())}
    code = start_label
    coded: list[list[int]] = []
    for sentence in sentences:
        row: list[int] = []
        coded.append(row)
        for word in sentence:
            if word not in codes and not growing:
                if unknown_token is None:
                    raise CheckError(f"encode_sentences: vocab has no word {word!r}; give "
                                     "unknown_token to encode what it lacks")
                word = unknown_token
            if word not in codes:
                while code in used:
                    code += 1
                codes[word] = code
                code += 1
            row.append(codes[word])
    return coded, codes


class BucketSentenceIter(DataIter):
    """Batches of sentences of similar length, for language models: labels are the next words.

    Parameters
    ----------
    sentences : list of list of int
        Sentences as codes.
    batch_size : int
        Number of sentences in a batch.
    buckets : list of int, optional
        Lengths of sentences in a batch; every length that fills a batch unless given.
    invalid_label : int, default -1
        The code of padding.
    data_name, label_name : str, default 'data' and 'softmax_label'
        Names of data and labels.
    dtype : dtype, default 'float32'
        Element type of data and labels.
    layout : {'NT', 'TN'}, default 'NT'
        Whether data and labels have shape (batch_size, bucket) or (bucket, batch_size).

    Raises
    ------
    MXNetError
        If `batch_size` is less than 1.
    ArgumentError
        If `layout` is neither.

    Notes
    -----
    A sentence goes to the shortest bucket that it fits into.  Sentences that are longer than all
    buckets are dropped, and so are the last sentences of a bucket that do not fill a batch.  A
    batch has the attribute `bucket_key`, its length, for `BucketingModule`.

    Examples
    --------
    >>> sentences = [[1, 2, 3], [1, 2, 3], [4, 5]]
    >>> batches = mx.rnn.BucketSentenceIter(sentences, 2, buckets=[3, 10], invalid_label=0)
    WARNING: discarded 0 sentences longer than the largest bucket.
    >>> batch = next(batches)
    >>> batch.bucket_key, batch.data[0].shape, batch.label[0][0].asnumpy().tolist()[2]
    (3, (2, 3), 0.0)
    """

    def __init__(self, sentences: Sequence[Sequence[int]], batch_size: int,
                 buckets: Sequence[int] | None = None, invalid_label: int = -1,
                 data_name: str = "data", label_name: str = "softmax_label",
                 dtype: Any = "float32", layout: str = "NT"):
        require_batch_size("BucketSentenceIter", batch_size)
        super().__init__(batch_size)
        self.data_name = data_name
        self.label_name = label_name
        self.dtype = dtype
        self.invalid_label = invalid_label
        self.layout = layout
        self.major_axis = layout.find("N") if isinstance(layout, str) else -1
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
        """Distribute the sentences that are not empty to `data`, a matrix for each of `buckets`."""
        rows: dict[int, list[np.ndarray]] = {length: [] for length in self.buckets}
        dropped = 0
        for sentence in sentences:
            bucket = bisect.bisect_left(self.buckets, len(sentence))
            if bucket == len(self.buckets):
                dropped += 1
                continue
            row = np.full(self.buckets[bucket], self.invalid_label, self.dtype)
            row[:len(sentence)] = sentence
            rows[self.buckets[bucket]].append(row)
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
        current = saved_integer(self, state, "curr_idx", most=len(self._batches))
        self._random.state = saved_sequence(self, state)
        self._shuffle(self._random.last())
        self.curr_idx = current

    def _made(self) -> dict[str, Any]:
        """The configuration two iterators must share to resume from each other's states."""
        return {"buckets": list(self.buckets), "sentences": [len(rows) for rows in self.data],
                "batch_size": self.batch_size}

    def _shuffle(self, draw: np.random.Generator) -> None:
        """Draw the order of batches, and permute the rows of each bucket."""
        self.idx = [self._batches[i] for i in draw.permutation(len(self._batches))]
        ordered = [rows[draw.permutation(len(rows))] for rows in self.data]
        self.nddata = [nd.array(rows, dtype=self.dtype) for rows in ordered]
        self.ndlabel = [nd.array(self._next_words(rows), dtype=self.dtype) for rows in ordered]

    def _next_words(self, rows: np.ndarray) -> np.ndarray:
        labels = np.full_like(rows, self.invalid_label)
        labels[:, :-1] = rows[:, 1:]
        return labels

    def next(self) -> DataBatch:
        """Return the next batch, with its `bucket_key`."""
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
