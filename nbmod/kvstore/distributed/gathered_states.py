"""Optimizer states of all ranks, each of which has those of the rows that it owns.

A state is an array, a nesting of arrays, or a plain value.  An array whose first axis has as many
elements as the rank has rows is a part of the whole one; everything else is the same for all rows.
Structure travels as JSON, arrays as buffers (`optimizer.tensor_states` has the encoding).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from ...base import Array, DType
from ...context import cpu
from ...ndarray import NDArray
from ...ndarray.sparse_array import RowSparseNDArray
from ...ops.sparse.formats import RowSparse
from ...optimizer.tensor_states import decoded_states, encoded_states
from ...optimizer.update_step import Index, State
from .communicator import Communicator, allgather_texts
from .row_ranges import Bounds

__all__ = ["gather_states", "joined_states", "own_states"]

States = dict[Index, State]


def gather_states(communicator: Communicator, states: Mapping[Index, State],
                  bounds: Mapping[Index, Bounds]) -> States:
    """Return the states of whole arrays by key, on rank 0; on the others nothing.

    `states` are those of this rank's rows; `bounds` say which rank owns which rows of a key.
    """
    structure, tensors = encoded_states(states)
    described = {name: [array.dtype.str, array.shape] for name, array in tensors.items()}
    texts = allgather_texts(communicator, json.dumps([structure, described]))
    parts = []
    for rank, text in enumerate(texts):
        structure, described = json.loads(text)
        own = tensors if rank == communicator.rank else {}
        arrays = {name: _to_first(communicator, rank, np.dtype(dtype), tuple(shape), own.get(name))
                  for name, (dtype, shape) in described.items()}
        if communicator.rank == 0:
            parts.append(decoded_states(structure, arrays))
    return joined_states(parts, bounds)


def joined_states(parts: Sequence[States], bounds: Mapping[Index, Bounds]) -> States:
    """Return the states of whole arrays by key, from those of all ranks in order."""
    return {key: _joined([part[key] for part in parts if key in part], bounds.get(key))
            for key in dict.fromkeys(key for part in parts for key in part)}


def _to_first(communicator: Communicator, rank: int, dtype: DType,
              shape: Sequence[int], array: Array | None) -> Array:
    """An array of one rank, on rank 0."""
    target = np.empty(shape, dtype)
    count = [target.size if communicator.rank == rank else 0] + [0] * (communicator.size - 1)
    received = [target.size if communicator.rank == 0 and one == rank else 0
                for one in range(communicator.size)]
    sent = np.empty(0, dtype) if array is None else np.ascontiguousarray(array).reshape(-1)
    communicator.alltoallv(sent, count, target.reshape(-1)[:sum(received)], received)
    return target


def _joined(parts: Sequence[State], bounds: Bounds | None) -> State:
    """The state of a whole array, from those of its rows in order."""
    first = parts[0]
    if isinstance(first, (tuple, list)):
        return type(first)(_joined(cast("Sequence[State]", each), bounds)
                           for each in zip(*parts, strict=True))
    if bounds is None or len(parts) == 1 or not isinstance(first, NDArray):
        return first
    owned = [rows for rows in zip(bounds, bounds[1:], strict=False) if rows[0] < rows[1]]
    if not all(len(part) == stop - start
               for part, (start, stop) in zip(parts, owned, strict=True)):
        return first
    if not first.is_sparse:
        return NDArray(np.concatenate([part._data for part in parts]), cpu())
    rows = [part._data.indices + start for part, (start, _) in zip(parts, owned, strict=True)]
    return RowSparseNDArray(
        RowSparse(np.concatenate(rows), np.concatenate([part._data.data for part in parts]),
                  (bounds[-1], *first.shape[1:])), cpu())


def own_states(states: Mapping[Index, State], owned: Mapping[Index, tuple[Bounds, int]]) -> States:
    """Return the states of the rows that a rank owns; `owned` has a key's bounds and the rank."""
    return {key: _part(state, *owned[key]) for key, state in states.items()
            if key not in owned or owned[key][0][owned[key][1]] < owned[key][0][owned[key][1] + 1]}


def _part(state: State, bounds: Bounds, rank: int) -> State:
    if isinstance(state, (tuple, list)):
        return type(state)(_part(part, bounds, rank) for part in state)
    if not isinstance(state, NDArray) or len(state) != bounds[-1]:
        return state
    start, stop = bounds[rank], bounds[rank + 1]
    if not state.is_sparse:
        return NDArray(state._data[start:stop].copy(), cpu())
    value = state._data
    first, last = np.searchsorted(value.indices, (start, stop))
    return RowSparseNDArray(RowSparse(value.indices[first:last] - start, value.data[first:last],
                                      (stop - start, *value.shape[1:])), cpu())
