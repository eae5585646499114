"""Mutation tracking: cached values are invalidated when the memory of an array is written.

Values derived from parameters, such as weights with batch normalization folded in, are cached and
recomputed only after a parameter has changed.  Code that writes to memory that users can see calls
`written`, which marks the dependent caches as stale; a run only reads their flags.

Tracking is per memory, not per array object: all views of an array have one `owner`.  Memory is
*shared* while it may be written by code that does not call `written` for its owner: by another
library, or through an array with another owner.  It may become shared at any time: `lend` and
`share` mark the watchers as stale, which from then on compare the contents in every run.

    writers     NDArray (item assignment, `copyto`, `out=`), optimizers, executors
    lenders     NDArray (DLPack, `handle`), `NumpyOp`
    sharers     `from_numpy`, `from_dlpack`
    watchers    `execution.derived_constants`
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..base import Array
from ..core.fork import fresh

__all__ = ["MutationWatcher", "is_shared", "is_watched", "lend", "owner", "share", "watch",
           "written", "written_owners"]


class MutationWatcher(Protocol):
    """A cache of values that are computed from arrays."""

    stale: bool


_watchers: dict[int, tuple[weakref.ref[MutationWatcher], ...]] = {}
"""By `id` of an owner.  A watcher keeps its owners alive, so that an `id` is not reused."""
_shared: dict[int, dict[int | None, weakref.ref[Array]]] = {}
"""By `id` of an owner, by their `id` the arrays during whose lives its memory is shared; and, under
None, the owner, with which the entry ends."""
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


def lend(array: np.ndarray) -> np.ndarray:
    """A view of `array` for code that does not call `written`.

    The memory is shared until the view, and all that refers to it, is gone.
    """
    view = array.view()
    _share_with(view, owner(array))
    return view


def share(array: Array) -> None:
    """Declare that the memory of `array` is shared as long as its owner lives."""
    memory = owner(array)
    _share_with(memory, memory)


def is_shared(array: Any) -> bool:
    """Whether code that does not call `written` may write the memory of `array`."""
    return len(_shared.get(id(owner(array)), ())) > 1


def _share_with(holder: Array, owned_by: Array) -> None:
    """Memory is shared while `holder` lives.

    Callbacks are `dict.pop`: a KeyboardInterrupt in a callback in Python would be lost.
    """
    key = id(owned_by)
    holders = _shared.setdefault(key, {None: weakref.ref(owned_by, partial(_shared.pop, key))})
    holders[id(holder)] = weakref.ref(holder, partial(holders.pop, id(holder)))
    written(owned_by)
