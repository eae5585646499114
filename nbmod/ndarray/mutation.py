"""Who must hear of it when the memory of an array is written.

Values that follow from parameters, such as weights with batch norm folded in, are computed once and
again only when a parameter has changed.  So that finding this out costs nothing per run, it is not
asked for but told: whoever writes to memory that users can see says so with `written`, which marks
as stale whatever has been derived from it.

What counts is the memory, not the object that shows it: all views of an array have one `owner`.
Memory that NumPy code outside may write at any time is *shared*, and counts as changed always.

    writers                  NDArray (item assignment, `copyto`, `out=`), optimizers, executors
    watchers                 `derived.Derived`
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

__all__ = ["Watcher", "is_shared", "is_watched", "owner", "share", "watch", "written",
           "written_owners"]


class Watcher(Protocol):
    """Something computed from arrays."""

    stale: bool


_watchers: dict[int, tuple[weakref.ref[Watcher], ...]] = {}
"""By `id` of an owner.  A watcher keeps the owners alive that it watches, so none is mistaken."""
_shared: set[int] = set()
"""`id`s of the owners of memory that others may write to."""
_editing = threading.RLock()


def owner(array: Any) -> Any:
    """The object that owns the memory of a device array: one for all that look at it."""
    if not isinstance(array, np.ndarray):
        return array.block
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def written(*arrays: Any) -> None:
    """Tell whoever derives values from these device arrays that they have been written."""
    if _watchers:
        written_owners([id(owner(array)) for array in arrays])


def written_owners(ids: Iterable[int]) -> None:
    """The same for `id`s of owners."""
    for key in ids:
        for reference in _watchers.get(key, ()):
            watcher = reference()
            if watcher is not None:
                watcher.stale = True


def is_watched() -> bool:
    """Whether anybody watches anything."""
    return bool(_watchers)


def watch(array: Any, watcher: Watcher) -> None:
    """From now on mark `watcher`, which holds on to `array`, when its memory is written."""
    key = id(owner(array))

    def forget(reference: weakref.ref[Watcher]) -> None:
        with _editing:
            left = tuple([other for other in _watchers.get(key, ()) if other is not reference])
            _watchers[key] = left
            if not left:
                del _watchers[key]

    with _editing:
        _watchers[key] = (*_watchers.get(key, ()), weakref.ref(watcher, forget))


def share(array: Any) -> None:
    """From now on the memory of `array` may be written without anybody being told."""
    found = owner(array)
    _shared.add(id(found))
    weakref.finalize(found, _shared.discard, id(found)).atexit = False


def is_shared(array: Any) -> bool:
    """Whether the memory of `array` may be written without anybody being told."""
    return id(owner(array)) in _shared
