"""Conversion of MXNet's index expressions to NumPy's.

`normalize(key)` returns a tuple of integers, slices, None, one Ellipsis and NumPy index arrays that
a device can apply.  A key without arrays is *basic* and always has an Ellipsis, so that NumPy
returns an array, not a scalar, and a view where possible.

Where MXNet and NumPy differ, MXNet's rules apply: `True` and `False` are the integers 1 and 0, and
index arrays of floats are truncated.  Boolean arrays are masks as in NumPy; MXNet rejects its own
and treats NumPy's as integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["WHOLE", "normalize", "to_slices"]

_BASIC = (slice, type(None), type(Ellipsis))
WHOLE = ((), slice(None), slice(None, None, 1))
"""Keys for which MXNet returns the array itself."""
_INT64_END = 2 ** 63
Key = tuple[Any, ...]
"""Integers, slices, None, Ellipsis and index arrays."""


def normalize(key: Any) -> tuple[Key, bool]:
    """The key for NumPy, and whether it is basic.

    Raises IndexError for more than one Ellipsis, ValueError for an invalid index.
    """
    parts = key if isinstance(key, tuple) else (key,)
    normal = tuple(map(_part, parts))
    ellipses = sum(part is Ellipsis for part in normal)
    if ellipses > 1:
        raise IndexError("Cannot use more than one ellipsis (`...`) for indexing")
    basic = not any(isinstance(part, np.ndarray) for part in normal)
    return (*normal, Ellipsis) if basic and not ellipses else normal, basic


def _part(part: Any) -> Any:
    if isinstance(part, _BASIC):
        return part
    if isinstance(part, (int, np.integer, np.bool_)):
        if not -_INT64_END <= part < _INT64_END:
            raise IndexError(f"index {part} is out of bounds: it has more than 64 bits")
        return int(part)
    array = part.asnumpy() if hasattr(part, "asnumpy") else part
    if isinstance(part, (list, tuple, range)):
        array = np.array(part, dtype=None if len(part) else np.int64)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise ValueError(f"NDArray does not support slicing with key {part} of type {type(part)}.")
    return array.astype(np.int64) if array.dtype.kind == "f" else array


def to_slices(begin: Any, end: Any, step: Any = ()) -> tuple[slice, ...]:
    """The key of a slice given by tuples `begin`, `end` and `step`."""
    steps = tuple(step) + (None,) * (len(begin) - len(step))
    return tuple(slice(*bounds) for bounds in zip(begin, end, steps, strict=True))
