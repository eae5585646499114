"""Bucket keys in files."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, MXNetError

__all__ = ["_plain_key", "_read_keys"]


def _plain_key(key: Hashable) -> int | tuple[int, ...]:
    """A bucket key in a form for files: an int or a tuple of ints."""
    parts = key if isinstance(key, tuple) else (key,)
    integers = [int(part) for part in parts if isinstance(part, (int, np.integer))]
    if not parts or len(integers) < len(parts):
        raise ArgumentError(f"BucketingModule: bucket key {key!r} cannot be saved, only ints and "
                            "tuples of ints can; save the parameters alone with save_params")
    return tuple(integers) if isinstance(key, tuple) else integers[0]


def _read_keys(fname: str) -> list[int | tuple[int, ...]]:
    """The bucket keys in a `.buckets` file."""
    arrays = nd.load(fname)
    if not isinstance(arrays, list) or len(arrays) != 1 or arrays[0].ndim not in (1, 2):
        raise MXNetError(f"{fname}: expected one array of bucket keys")
    keys = arrays[0].asnumpy().tolist()
    return [tuple(map(int, key)) if isinstance(key, list) else int(key) for key in keys]
