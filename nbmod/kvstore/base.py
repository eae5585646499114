"""What every key-value store promises, and the register that `mx.kv.create` looks names up in.

A store is where the gradients of several devices meet.  Two calls are all that training needs:
`broadcast` hands the first value of a key to every device, `pushpull` hands out what became of the
values that the devices gave.  A store that is `is_capable("optimizer")` may also be given the
optimizer, and then hands out updated parameters instead of summed gradients.

    @mx.kv.KVStoreBase.register
    class Mine(mx.kv.KVStoreBase): ...

    module.fit(..., kvstore=Mine())         # or "mine", where there are several devices
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from ..base import ArgumentError, MXNetError, _as_list, did_you_mean
from ..ndarray import NDArray

__all__ = ["KVStoreBase", "TestStore", "create"]


class KVStoreBase:
    """Base of all stores, those of users too.  Methods without a body here are for subclasses."""

    OPTIMIZER: ClassVar[str] = "optimizer"
    """The only capability there is a name for."""

    kv_registry: ClassVar[dict[str, type[KVStoreBase]]] = {}

    @staticmethod
    def register(klass: type[KVStoreBase]) -> type[KVStoreBase]:
        """Class decorator: let `create` find the class under its lower-cased name."""
        if not isinstance(klass, type) or not issubclass(klass, KVStoreBase):
            raise TypeError(f"KVStoreBase.register: expected a subclass of KVStoreBase, given "
                            f"{klass!r}")
        name = klass.__name__.lower()
        known = KVStoreBase.kv_registry.get(name, klass)
        if known is not klass:
            warnings.warn(f"new kvstore {klass.__module__}.{klass.__name__} replaces "
                          f"{known.__module__}.{known.__name__}", UserWarning, stacklevel=2)
        KVStoreBase.kv_registry[name] = klass
        return klass

    def _abstract(self, method: str) -> MXNetError:
        return MXNetError(f"kvstore: {type(self).__name__} does not define {method}")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can do `capability`, such as 'optimizer'."""
        raise MXNetError("kvstore: the class does not define is_capable")

    @property
    def type(self) -> str:
        """The name under which the store is created."""
        raise self._abstract("type")

    @property
    def rank(self) -> int:
        """Number of this worker, from 0."""
        raise self._abstract("rank")

    @property
    def num_workers(self) -> int:
        raise self._abstract("num_workers")

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Set `key` for the first time and copy its value into every array of `out`."""
        raise self._abstract("broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Give one value per device, take what they sum up to (or update) into `out`.

        Without `out` the values themselves are overwritten.
        """
        raise self._abstract("pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Update stored arrays by `optimizer` from now on."""
        raise self._abstract("set_optimizer")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        raise self._abstract("save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        raise self._abstract("load_optimizer_states")


@KVStoreBase.register
class TestStore(KVStoreBase):
    """The least that a store can be: it sums, from left to right, and remembers nothing."""

    __test__ = False  # not a test case, whatever pytest thinks of the name

    @staticmethod
    def is_capable(capability: str) -> bool:
        check_capability(capability)
        return False

    @property
    def type(self) -> str:
        return "teststore"

    @property
    def rank(self) -> int:
        return 0

    @property
    def num_workers(self) -> int:
        return 1

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        for target in _as_list(out):
            value.copyto(target)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        values: list[NDArray] = _as_list(value)
        total = values[0].copy()
        for other in values[1:]:
            total += other.as_in_context(total.context)
        for target in values if out is None else _as_list(out):
            total.copyto(target)


def check_capability(capability: str) -> None:
    """ArgumentError unless it is one there is."""
    if capability.lower() != KVStoreBase.OPTIMIZER:
        raise ArgumentError(f"Unknown capability: {capability}; there is "
                            f"{KVStoreBase.OPTIMIZER!r}")


def create(name: str = "local") -> KVStoreBase:
    """A store by name (case does not matter): 'local', 'device', 'nccl' or one that was registered.

    Raises MXNetError for an unknown name, for stores over several machines, and for 'nccl' where
    there is no GPU or no NCCL.
    """
    from .kvstore import KINDS, KVStore

    if not isinstance(name, str):
        raise TypeError(f"kvstore.create: name is a {type(name).__name__}, name must be a string")
    kind = name.lower()
    if kind in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[kind]()
    if kind in KINDS:
        return KVStore(kind)
    known = [*KINDS, *KVStoreBase.kv_registry]
    if "dist" in kind:
        hint = "; stores over several machines are not part of nbmod"
    else:
        hint = did_you_mean(kind, known)
    raise MXNetError(f"kvstore.create: unknown kind {name!r}, expected one of {known}{hint}")
