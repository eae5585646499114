"""What an index expression means: MXNet's keys turned into NumPy's.

`normalize(key)` returns a tuple of integers, slices, None, one Ellipsis and NumPy index arrays that
the device can apply.  A key without arrays is *basic* and always holds an Ellipsis, so that NumPy
answers with an array (never a scalar) and hence with a view where one is possible.

Where MXNet and NumPy differ, MXNet's legacy arrays win in what they accept: `True` and `False` are
the integers 1 and 0, index arrays of floats are truncated.  Boolean arrays select by NumPy's rule;
MXNet refuses its own and reads NumPy's as zeros and ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["normalize", "to_slices"]

_BASIC = (slice, type(None), type(Ellipsis))
_FAR = 2 ** 63


def normalize(key: Any, to_numpy: Any) -> tuple[tuple, bool]:
    """(the key as NumPy takes it, whether it is basic).

    `to_numpy` turns an index of unknown type into a NumPy array, or returns None.
    Raises IndexError for more than one Ellipsis, ValueError for what cannot be an index.
    """
    parts = key if isinstance(key, tuple) else (key,)
    normal = tuple(_part(part, to_numpy) for part in parts)
    ellipses = sum(part is Ellipsis for part in normal)
    if ellipses > 1:
        raise IndexError("Cannot use more than one ellipsis (`...`) for indexing")
    basic = not any(isinstance(part, np.ndarray) for part in normal)
    return (*normal, Ellipsis) if basic and not ellipses else normal, basic


def _part(part: Any, to_numpy: Any) -> Any:
    if isinstance(part, _BASIC):
        return part
    if isinstance(part, (int, np.integer, np.bool_)):
        if not -_FAR <= part < _FAR:
            raise IndexError(f"index {part} is out of bounds: it has more than 64 bits")
        return int(part)
    array = part if isinstance(part, np.ndarray) else to_numpy(part)
    if array is None and isinstance(part, (list, tuple, range)):
        array = np.array(part, dtype=None if len(part) else np.int64)
    if array is None or array.dtype.kind not in "biuf":
        raise ValueError(f"NDArray does not support slicing with key {part} of type {type(part)}.")
    return array.astype(np.int64) if array.dtype.kind == "f" else array


def to_slices(begin: Any, end: Any, step: Any = ()) -> tuple[slice, ...]:
    """The key that ops with `begin`, `end` and `step` tuples describe."""
    steps = tuple(step) + (None,) * (len(begin) - len(step))
    return tuple(slice(*bounds) for bounds in zip(begin, end, steps, strict=True))
