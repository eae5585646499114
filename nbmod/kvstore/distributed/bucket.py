"""Buckets: dense keys of one element type that are exchanged together.

    reduce_scatter      every rank's gradients go to the owners of their rows, who sum them
    all_gather          the owners' new values go to all ranks

A bucket's elements are laid out by owner, so that each step is one collective operation: for every
rank the rows that it owns of every key.  The array of a key that is alone in its bucket has this
order already and is sent as it is; others are packed into one flat buffer (as by Horovod's tensor
fusion and PyTorch's gradient buckets).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ...base import Array, DType
from ...context import cpu
from ...ndarray import NDArray, invoke
from ...ops.elementwise.arithmetic import AddN
from ..compression import Key, TwoBit
from .communicator import Communicator, offsets_of
from .row_ranges import Bounds, Span, elements_by_rank

__all__ = ["Bucket", "BucketKey", "Scratch", "buckets_of"]


class Scratch:
    """Memory for what is sent and received, which buckets use one after another."""

    def __init__(self) -> None:
        self._buffers = {"sent": np.empty(0, np.uint8), "received": np.empty(0, np.uint8)}

    def sent(self, count: int, dtype: DType) -> Array:
        """Return memory for elements that are sent, valid until the next call."""
        return self._array("sent", count, dtype)

    def received(self, count: int, dtype: DType) -> Array:
        """Return memory for elements that are received, valid until the next call."""
        return self._array("received", count, dtype)

    def _array(self, name: str, count: int, dtype: DType) -> Array:
        nbytes = count * dtype.itemsize
        if len(self._buffers[name]) < nbytes:
            self._buffers[name] = np.empty(nbytes, np.uint8)
        return self._buffers[name][:nbytes].view(dtype)


class BucketKey(NamedTuple):
    """A key in a bucket."""

    name: Key
    shape: tuple[int, ...]
    bounds: Bounds


class _Piece(NamedTuple):
    """Rows of a key that one rank owns, and where they are in the flat buffer."""

    key: int
    elements: Span
    place: Span


class Bucket:
    """Dense arrays of some keys of one element type that are exchanged together.

    The order of keys is equal on all ranks.  `sums` has for each of `owned` the sum of the owned
    rows, which `reduce_scatter` overwrites.
    """

    def __init__(self, communicator: Communicator, keys: Sequence[BucketKey], dtype: DType,
                 scratch: Scratch):
        self._communicator, self.keys = communicator, list(keys)
        ranks, rank = communicator.size, communicator.rank
        each = [elements_by_rank(key.bounds, key.shape) for key in keys]
        self._counts = [sum(counts[owner] for counts in each) for owner in range(ranks)]
        self._bounds = offsets_of(self._counts)
        self._pieces = [list(_pieces(each, owner, self._bounds[owner])) for owner in range(ranks)]
        self._scratch = scratch
        self._sums = np.empty(self._counts[rank], dtype)
        start = self._bounds[rank]
        self.sums = [NDArray(self._sums[piece.place.start - start:piece.place.stop - start]
                             .reshape(-1, *keys[piece.key].shape[1:]), cpu())
                     for piece in self._pieces[rank]]

    @property
    def _flat(self) -> Array:
        """The elements of all keys, by owner."""
        return self._scratch.sent(self._bounds[-1], self._sums.dtype)

    @property
    def _received(self) -> Array:
        """The rows of this rank that each other rank has sent."""
        others = self._communicator.size - 1
        return self._scratch.received(others * len(self._sums), self._sums.dtype
                                      ).reshape(others, len(self._sums))

    @property
    def nbytes(self) -> int:
        """Size of the gradients in bytes."""
        return self._bounds[-1] * self._sums.itemsize

    @property
    def owned(self) -> list[int]:
        """Indices of the keys of which this rank owns rows."""
        return [piece.key for piece in self._pieces[self._communicator.rank]]

    def reduce_scatter(self, gradients: Sequence[Array], compression: TwoBit | None = None
                       ) -> None:
        """Send the gradient of each key to its owners; `sums` are then those of this rank's rows.

        They are formed in the order of ranks.  With `compression` two bits are sent for each
        element, which must be one of three values.
        """
        flat = self._packed(gradients)
        if compression is None:
            self._communicator.alltoallv(
                flat, self._of_others(self._counts), self._received.reshape(-1),
                self._of_others([len(self._sums)] * self._communicator.size), self._bounds[:-1])
        else:
            self._exchange_codes(flat, compression)
        self._add(gradients)

    def _of_others(self, counts: Sequence[int]) -> list[int]:
        """The counts by rank, but 0 for this one, which sends itself nothing."""
        return [0 if rank == self._communicator.rank else count
                for rank, count in enumerate(counts)]

    def _add(self, gradients: Sequence[Array]) -> None:
        """Sum this rank's gradients and those received, in the order of ranks."""
        own, received = self._communicator.rank, self._received
        begin = self._bounds[own]
        for piece in self._pieces[own]:
            place = slice(piece.place.start - begin, piece.place.stop - begin)
            mine = gradients[piece.key].reshape(-1)[piece.elements]
            terms = [*received[:own, place], mine, *received[own:, place]]
            _sum_into(self._sums[place], terms)

    def _exchange_codes(self, flat: Array, compression: TwoBit) -> None:
        counts = self._of_others([compression.length(count) for count in self._counts])
        parts = [compression.encode(flat[start:stop]) for start, stop, count
                 in zip(self._bounds, self._bounds[1:], counts, strict=False) if count]
        length = compression.length(len(self._sums))
        received = np.empty((len(self._received), length), np.uint8)
        self._communicator.alltoallv(np.concatenate([np.empty(0, np.uint8), *parts]), counts,
                                     received.reshape(-1),
                                     self._of_others([length] * self._communicator.size))
        for codes, values in zip(received, self._received, strict=True):
            compression.decode(codes, values)

    def all_gather(self, arrays: Sequence[Array]) -> None:
        """Complete each key's array in place; every rank has changed the rows that it owns."""
        if len(self.keys) == 1:
            self._communicator.allgatherv(arrays[0].reshape(-1), self._counts)
            return
        own = self._communicator.rank
        self._pack(arrays, self._pieces[own])
        self._communicator.allgatherv(self._flat, self._counts)
        for owner, pieces in enumerate(self._pieces):
            for piece in pieces if owner != own else ():
                arrays[piece.key].reshape(-1)[piece.elements] = self._flat[piece.place]

    def _packed(self, arrays: Sequence[Array]) -> Array:
        if len(self.keys) == 1:
            return np.ascontiguousarray(arrays[0]).reshape(-1)
        for owner, pieces in enumerate(self._pieces):
            if owner != self._communicator.rank:
                self._pack(arrays, pieces)
        return self._flat

    def _pack(self, arrays: Sequence[Array], pieces: Sequence[_Piece]) -> None:
        for piece in pieces:
            self._flat[piece.place] = arrays[piece.key].reshape(-1)[piece.elements]


def _sum_into(total: Array, terms: Sequence[Array]) -> None:
    """Sum terms from left to right.

    NumPy does it where it computes the same bits: it lets kernels of other threads go on.
    """
    if len(terms) == 1:
        total[:] = terms[0]
    elif total.dtype.kind == "f" and total.itemsize > 2:
        with np.errstate(all="ignore"):
            np.add(terms[0], terms[1], out=total)
            for term in terms[2:]:
                np.add(total, term, out=total)
    else:
        arrays = [NDArray(term, cpu()) for term in terms]
        invoke(AddN(len(arrays)), arrays, NDArray(total, cpu()))


def _pieces(counts: Sequence[Sequence[int]], owner: int, start: int) -> Iterator[_Piece]:
    """The rows that a rank owns, from `start` on in the flat buffer; `counts` by key and rank."""
    for index, of_key in enumerate(counts):
        if of_key[owner]:
            first = sum(of_key[:owner])
            yield _Piece(index, slice(first, first + of_key[owner]),
                         slice(start, start + of_key[owner]))
            start += of_key[owner]


def buckets_of(keys: Sequence[BucketKey], itemsize: int, limits: Sequence[int]
               ) -> list[list[BucketKey]]:
    """Divide keys into buckets, in order.

    `limits` are sizes in bytes from which the first bucket is full, the second, and so on; the
    last is that of all further ones.  A large key that is cut over ranks is a bucket by itself, so
    that it is not copied.
    """
    buckets: list[list[BucketKey]] = []
    pending: list[BucketKey] = []
    size = 0
    for key in keys:
        nbytes = prod(key.shape) * itemsize
        if len({*key.bounds}) > 2 and nbytes >= limits[-1] // 8:
            buckets.append([key])
            continue
        pending.append(key)
        size += nbytes
        if size >= limits[min(len(buckets), len(limits) - 1)]:
            buckets.append(pending)
            pending, size = [], 0
    return buckets + ([pending] if pending else [])
