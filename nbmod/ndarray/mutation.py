"""Mutation tracking: cached values are invalidated when the memory of an array is written.

Values derived from parameters, such as weights with batch normalization folded in, are cached and
recomputed only after a parameter has changed.  Code that writes to memory that users can see calls
`written`, which marks the dependent caches as stale; a run only reads their flags.

Tracking is per memory, not per array object: all views of an array have one `owner`.  Memory that
external NumPy code may write is *shared* and always counts as changed.

    writers     NDArray (item assignment, `copyto`, `out=`), optimizers, executors
    watchers    `execution.derived_constants`
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from ..fork import fresh

__all__ = ["MutationWatcher", "is_shared", "is_watched", "owner", "share", "watch", "written",
           "written_owners"]


class MutationWatcher(Protocol):
    """A cache of values that are computed from arrays."""

    stale: bool


_watchers: dict[int, tuple[weakref.ref[MutationWatcher], ...]] = {}
"""By `id` of an owner.  A watcher keeps its owners alive, so that an `id` is not reused."""
_shared: set[int] = set()
"""`id`s of the owners of memory that external code may write."""
_lock = fresh(threading.RLock())


def owner(array: Any) -> Any:
    """The object that owns the memory of a device array, the same for all views."""
    if not isinstance(array, np.ndarray):
        return array.block
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def written(*arrays: Any) -> None:
    """Mark caches that depend on these device arrays as stale."""
    if _watchers:
        written_owners([id(owner(array)) for array in arrays])


def written_owners(ids: Iterable[int]) -> None:
    """Mark caches that depend on memory of these owners, given by `id`, as stale."""
    for key in ids:
        for reference in _watchers.get(key, ()):
            watcher = reference()
            if watcher is not None:
                watcher.stale = True


def is_watched() -> bool:
    """Whether any memory is watched."""
    return bool(_watchers)


def watch(array: Any, watcher: MutationWatcher) -> None:
    """Mark `watcher`, which must keep `array` alive, as stale when its memory is written."""
    key = id(owner(array))

    def forget(reference: weakref.ref[MutationWatcher]) -> None:
        with _lock:
            left = tuple([other for other in _watchers.get(key, ()) if other is not reference])
            _watchers[key] = left
            if not left:
                del _watchers[key]

    with _lock:
        _watchers[key] = (*_watchers.get(key, ()), weakref.ref(watcher, forget))


def share(array: Any) -> None:
    """Declare that external code may write the memory of `array` without calling `written`."""
    found = owner(array)
    _shared.add(id(found))
    weakref.finalize(found, _shared.discard, id(found)).atexit = False


def is_shared(array: Any) -> bool:
    """Whether external code may write the memory of `array`."""
    return id(owner(array)) in _shared
