"""Checks of what `state_dict` of an iterator returned, as it may come from a damaged file.

Iterators use a position without looking at it again, so each is checked when it is loaded.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import MXNetError
from ..ndarray import NDArray
from .data_iter import DamagedState, DataIter, name_of

__all__ = ["expect_same", "saved_integer", "saved_sequence"]

_MOST = 2**62
"""Larger integers do not fit the types of indices."""


def expect_same(iterator: DataIter, state: Mapping[str, Any], **ours: Any) -> None:
    """Check that a saved state belongs to an iterator constructed in the same way.

    MXNetError for a state that is no mapping, and for the first value that differs from `ours`.
    """
    if not isinstance(state, Mapping):
        raise MXNetError(f"{name_of(iterator)}: the saved state is a {type(state).__name__}, "
                         "expected a dict, as state_dict() returns it")
    for name, value in ours.items():
        theirs = state.get(name)
        if not _equal(theirs, value):
            raise MXNetError(f"{name_of(iterator)}: the saved state is of an iterator with "
                             f"{name}={reprlib.repr(theirs)}, this one has {value!r}")


def _equal(theirs: object, ours: object) -> bool:
    """Whether plain data are equal to ours, in which there are no arrays."""
    if isinstance(ours, (list, tuple)):
        return (isinstance(theirs, (list, tuple)) and len(theirs) == len(ours)
                and all(map(_equal, theirs, ours)))
    return not isinstance(theirs, (np.ndarray, NDArray)) and theirs == ours


def saved_integer(iterator: DataIter, state: Mapping[str, Any], name: str, least: int = 0,
                  most: int = _MOST) -> int:
    """An integer of a saved state, such as a position, which a range limits.

    DamagedState if it is missing, of another type, or outside of the range.
    """
    value: Any = state.get(name)
    if not _is_integer(value, least, most):
        raise DamagedState(f"{name_of(iterator)}: the saved state's {name} is "
                           f"{reprlib.repr(value)}, expected an integer from {least} to {most}")
    return int(value)


def saved_sequence(iterator: DataIter, state: Mapping[str, Any]) -> tuple[int, int]:
    """The state of an iterator's own `ops.random.rng.Sequence`, saved as `random`."""
    value = state.get("random")
    if not (isinstance(value, (list, tuple)) and len(value) == 2
            and _is_integer(value[0], 0, 2**64 - 1) and _is_integer(value[1], 1, 2**64 - 1)):
        raise DamagedState(f"{name_of(iterator)}: the saved state's random is "
                           f"{reprlib.repr(value)}, expected the key of a random sequence and its "
                           "number of draws")
    return int(value[0]), int(value[1])


def _is_integer(value: object, least: int, most: int) -> bool:
    return (isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            and least <= int(value) <= most)
