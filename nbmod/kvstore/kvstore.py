"""The in-process key-value store: `local` and `device`.

A store maps keys to one NDArray each.  `push` sums the values given for a key, in the order in
which they are given, so two runs are bitwise equal; then either an updater merges the sum into the
stored array, or the sum replaces it.  `pull` copies the stored array out.  There is one process, so
the two kinds differ only in where the sum is formed: on the CPU, or on the first value's device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import MXNetError
from ..context import cpu
from ..ndarray import NDArray

__all__ = ["KVStore", "create"]

KINDS = ("local", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "device")


def create(name: str = "local") -> KVStore:
    """A store of kind `name`: 'local' or 'device' (and MXNet's `local_*` names for them)."""
    if not isinstance(name, str):
        raise TypeError(f"kvstore.create: name is a {type(name).__name__}, expected a string")
    if name not in KINDS:
        hint = "; stores over several machines are not part of nbmod" if "dist" in name else ""
        raise MXNetError(f"kvstore.create: unknown kind {name!r}, expected one of {KINDS}{hint}")
    return KVStore(name)


def _pairs(keys: Any, values: Any) -> list[tuple[Any, list[NDArray]]]:
    """(key, values) per key, from one key and value(s) or equally long lists of both."""
    if isinstance(keys, (str, int)):
        return [(keys, list(values) if isinstance(values, (list, tuple)) else [values])]
    if len(keys) != len(values):
        raise MXNetError(f"kvstore: {len(keys)} keys but {len(values)} values")
    return [(key, list(value) if isinstance(value, (list, tuple)) else [value])
            for key, value in zip(keys, values, strict=True)]


class KVStore:
    """A key-value store; keys are ints or strings, not both.  See the module docstring."""

    def __init__(self, kind: str = "local"):
        self._kind = kind
        self._stored: dict[Any, Any] = {}
        self._updater: Callable[[Any, NDArray, NDArray], None] | None = None

    @property
    def type(self) -> str:
        return self._kind

    @property
    def rank(self) -> int:
        """Number of this worker: 0, there is one."""
        return 0

    @property
    def num_workers(self) -> int:
        return 1

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can do `capability`: 'optimizer' is the only one there is."""
        return capability.lower() == "optimizer"

    def init(self, key: Any, value: Any) -> None:
        """Set `key` for the first time; a copy of `value` is kept."""
        for name, values in _pairs(key, value):
            if name in self._stored:
                raise MXNetError(f"kvstore: key {name!r} is already initialised")
            if any(type(known) is not type(name) for known in list(self._stored)[:1]):
                raise MXNetError(f"kvstore: key {name!r} is a {type(name).__name__}, but other "
                                 "keys of this store are not; do not mix ints and strings")
            target = values[0].context if self._on_device else cpu()
            self._stored[name] = values[0].copyto(target)

    @property
    def _on_device(self) -> bool:
        return "device" in self._kind

    def _find(self, key: Any) -> NDArray:
        try:
            return self._stored[key]
        except KeyError:
            raise MXNetError(f"kvstore: key {key!r} has not been initialised; call init first"
                             ) from None

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum the values of each key; hand the sum to the updater, or store it if there is none."""
        for name, values in _pairs(key, value):
            stored = self._find(name)
            for given in values:
                if given.shape != stored.shape:
                    raise MXNetError(f"kvstore: value pushed for {name!r} has shape {given.shape}, "
                                     f"expected {stored.shape}")
            total = self._sum(values, stored)
            if self._updater is not None:
                self._updater(name, total, stored)
            else:
                total.astype(stored.dtype, copy=False).copyto(stored)

    def _sum(self, values: Sequence[NDArray], stored: NDArray) -> NDArray:
        """The sum, left to right, where the stored array lives."""
        total = values[0].as_in_context(stored.context)
        if len(values) > 1:
            total = total.copy() if total is values[0] else total
            for value in values[1:]:
                total += value.as_in_context(stored.context)
        return total

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True
             ) -> None:
        """Copy the stored array of each key into `out` (one array, or one per device)."""
        if out is None:
            raise MXNetError("kvstore.pull: out is not given")
        for name, targets in _pairs(key, out):
            stored = self._find(name)
            for target in targets:
                stored.copyto(target)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """`push`, then `pull` into `out` (default: back into `value`)."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """`init`, then `pull`."""
        self.init(key, value)
        self.pull(key, out, priority)

    def set_optimizer(self, optimizer: Any) -> None:
        """Update stored arrays by `optimizer` at every push."""
        from ..optimizer import get_updater

        self._set_updater(get_updater(optimizer))

    def _set_updater(self, updater: Callable[[Any, NDArray, NDArray], None]) -> None:
        """Call `updater(key, pushed sum, stored)` at every push."""
        self._updater = updater

    def _require_updater(self) -> Any:
        if self._updater is None or not hasattr(self._updater, "get_states"):
            raise MXNetError("kvstore: there are no optimizer states; call set_optimizer first")
        return self._updater

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to `fname`, whole or not at all."""
        from ..serialization import atomic_write

        with atomic_write(fname) as file:
            file.write(self._require_updater().get_states(dump_optimizer))

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from `fname`."""
        updater = self._require_updater()
        with open(fname, "rb") as file:
            updater.set_states(file.read())

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Lossy compression of pushed gradients is not available yet; asking for it is an error."""
        raise MXNetError("kvstore: gradient compression is not available; leave "
                         "compression_params unset")

    def _barrier(self) -> None:
        """Wait for all workers: there is one."""
