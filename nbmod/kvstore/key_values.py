"""Arguments of stores: a key with its arrays, or lists of both, as pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base import CheckError, MXNetError, integer_types
from ..ndarray import NDArray
from .base import PerDevice
from .compression import Key

__all__ = ["Keys", "Pairs", "Values"]

Keys = Key | Sequence[Key]
"""A key, or several."""
Values = PerDevice | Sequence[PerDevice]
"""The arrays of a key, or those of several."""
Pairs = list[tuple[Key, list[NDArray]]]


def _pairs(keys: object, values: object, what: str) -> Pairs:
    """(key, values) for each key, from one key and its value(s) or equally long lists of both."""
    if not isinstance(keys, (list, tuple)):
        return [(_key(keys), _arrays(keys, values, what))]
    if not isinstance(values, (list, tuple)) or len(keys) != len(values):
        length = len(values) if isinstance(values, (list, tuple)) else type(values).__name__
        raise CheckError(f"kvstore: {len(keys)} keys, expected a list of as many {what}s, given "
                         f"{length}")
    pairs = [(_key(key), _arrays(key, value, what))
             for key, value in zip(keys, values, strict=True)]
    if len({type(key) for key, _ in pairs}) > 1:
        raise CheckError(f"kvstore: keys {list(keys)} mix integers and strings")
    return pairs


def _targets(method: str, key: object, out: object) -> Pairs:
    if out is None:
        raise CheckError(f"kvstore.{method}: out is not given")
    return _pairs(key, out, "out")


def _key(key: object) -> Key:
    if isinstance(key, integer_types):
        return int(key)
    if not isinstance(key, str):
        raise CheckError(f"kvstore: a key is a {type(key).__name__}, expected an integer or a "
                         "string")
    return key


def _arrays(key: object, values: object, what: str) -> list[NDArray]:
    """One array or one per device as a list."""
    listed = list(values) if isinstance(values, (list, tuple)) else [values]
    for value in listed:
        if not isinstance(value, NDArray):
            raise TypeError(f"kvstore: a {what} for key {key!r} is a {type(value).__name__}, "
                            "expected an NDArray")
    return listed  # type: ignore[return-value]  # as checked


def _row_lists(row_ids: object, key: object, pairs: Pairs  # type: ignore[explicit-any]
               ) -> list[list[np.ndarray]]:
    """Row indices for every array of every key."""
    if isinstance(row_ids, NDArray):
        return [[_rows(row_ids)] * len(targets) for _, targets in pairs]
    lists = []
    for (name, targets), (_, ids) in zip(pairs, _pairs(key, row_ids, "row_ids"), strict=True):
        if len(ids) not in (1, len(targets)):
            raise MXNetError(f"kvstore.row_sparse_pull: {len(ids)} row_ids for the {len(targets)} "
                             f"arrays of key {name!r}")
        rows = [_rows(one) for one in ids]
        lists.append(rows * len(targets) if len(rows) == 1 else rows)
    return lists


def _rows(row_ids: NDArray) -> np.ndarray:  # type: ignore[explicit-any]
    return row_ids.asnumpy().astype(np.int64, copy=False).reshape(-1)
