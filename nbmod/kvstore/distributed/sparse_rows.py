"""Exchange of sparse rows: only rows that are pushed or asked for travel.

    scatter_rows        rows go to the owners of their indices; each owner gets one tensor per rank
    fetch_rows          ranks ask the owners for rows by index
    all_gather_rows     every rank's rows are stored by all others
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...base import Array
from ...ops.sparse.formats import RowSparse
from .communicator import Communicator, offsets_of
from .row_ranges import Bounds

__all__ = ["all_gather_rows", "fetch_rows", "scatter_rows"]


def scatter_rows(communicator: Communicator, value: RowSparse, bounds: Bounds) -> list[RowSparse]:
    """Send rows to their owners.

    Returns what each rank has sent of the rows that this rank owns, numbered from the first of
    these.
    """
    counts = _counts(value.indices, bounds)
    received = _transposed(communicator, counts)
    indices = np.empty(sum(received), np.int64)
    communicator.alltoallv(np.ascontiguousarray(value.indices), counts, indices, received)
    rows = _exchange_rows(communicator, value.data, counts, received)
    own = communicator.rank
    shape = (bounds[own + 1] - bounds[own], *value.shape[1:])
    ends = offsets_of(received)
    return [RowSparse(indices[start:stop] - bounds[own], rows[start:stop], shape)
            for start, stop in zip(ends, ends[1:], strict=False)]


def fetch_rows(communicator: Communicator, indices: Array, own_rows: RowSparse, bounds: Bounds
               ) -> Array:
    """Fetch rows from their owners: `wanted`, distinct indices in ascending order.

    `own_rows` are those that this rank owns, numbered from the first of them.
    """
    counts = _counts(indices, bounds)
    request_counts = _transposed(communicator, counts)
    requests = np.empty(sum(request_counts), np.int64)
    communicator.alltoallv(indices, counts, requests, request_counts)
    rows = own_rows.retain(requests - bounds[communicator.rank]).data
    return _exchange_rows(communicator, rows, request_counts, counts)


def all_gather_rows(communicator: Communicator, value: RowSparse) -> tuple[Array, Array]:
    """Return the indices and the rows of all ranks, in the order of ranks."""
    counts = communicator.allgather(np.array([len(value.indices)], np.int64))[:, 0].tolist()
    start = offsets_of(counts)[communicator.rank]
    stop = start + len(value.indices)
    indices = np.empty(sum(counts), np.int64)
    rows = np.empty((sum(counts), *value.shape[1:]), value.dtype)
    indices[start:stop], rows[start:stop] = value.indices, value.data
    width = prod(value.shape[1:])
    communicator.allgatherv(indices, counts)
    communicator.allgatherv(rows.reshape(-1), [count * width for count in counts])
    return indices, rows


def _counts(indices: Array, bounds: Bounds) -> list[int]:
    """How many of ascending indices each rank owns."""
    return np.diff(np.searchsorted(indices, bounds)).tolist()


def _transposed(communicator: Communicator, counts: Sequence[int]) -> list[int]:
    """Exchange counts: those that each rank sends to this one, from those that it sends to each."""
    table = communicator.allgather(np.array(counts, np.int64))
    return table[:, communicator.rank].tolist()


def _exchange_rows(communicator: Communicator, rows: Array, counts: Sequence[int],
                   received: Sequence[int]) -> Array:
    width = prod(rows.shape[1:])
    result = np.empty((sum(received), *rows.shape[1:]), rows.dtype)
    communicator.alltoallv(np.ascontiguousarray(rows).reshape(-1), [n * width for n in counts],
                           result.reshape(-1), [n * width for n in received])
    return result
