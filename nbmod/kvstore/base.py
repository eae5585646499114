"""The interface of key-value stores, and the registry for `mx.kv.create`.

A store combines the gradients of several devices.  Training needs two methods: `broadcast` copies
the first value of a key to every device, `pushpull` combines the values of the devices and copies
the result to them.  A store that is `is_capable("optimizer")` may also be given the optimizer, and
then returns updated parameters instead of summed gradients.

    @mx.kv.KVStoreBase.register
    class Mine(mx.kv.KVStoreBase): ...

    module.fit(..., kvstore=Mine())         # or "mine", where there are several devices
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from ..base import AbstractError, ArgumentError, CheckError, MXNetError, _as_list, did_you_mean
from ..core.registry import enter
from ..ndarray import NDArray
from ..ndarray.recording import unrecorded

if TYPE_CHECKING:
    from ..executor import Executor
    from ..optimizer import Optimizer
    from .compression import Key

__all__ = ["KVStoreBase", "TestStore", "create"]

BUILT_IN: dict[str, Callable[[], KVStoreBase]] = {}
"""Makers of the stores of this package, by kind; `kvstore.kvstore` enters them."""

PerDevice = NDArray | Sequence[NDArray]
"""One array, or one for each device."""

_TRANSFERS = ("init", "push", "pull", "pushpull", "broadcast", "row_sparse_pull", "assign")
"""Methods that `autograd` does not record: they write to arrays that may be on its tape."""

StoreClass = TypeVar("StoreClass", bound="type[KVStoreBase]")


class _Overlap(Protocol):
    """An exchange of gradients during the backward pass."""

    def begin(self, executors: Sequence[Executor], gradients: Mapping[str, Sequence[NDArray]],
              parameters: Mapping[str, Sequence[NDArray]]) -> None:
        """Prepare for a step of training."""

    def update(self) -> None:
        """Update the parameters when all gradients are summed, and begin to send them."""

    def finish(self) -> None:
        """Wait until all parameters are in the arrays of the devices."""


class KVStoreBase:
    """Base of all key-value stores; subclass it for a store of your own.

    A subclass defines `broadcast`, `pushpull`, `is_capable`, `type`, `rank` and `num_workers`, and
    the methods for optimizers if it updates parameters. It is used by passing an instance as
    `kvstore` of `Module.fit`, or its name after `register`.
    """

    OPTIMIZER: ClassVar[str] = "optimizer"
    """The only capability that has a name."""

    overlap: _Overlap | None = None
    """Exchanges gradients during the backward pass, while `fit` runs (of distributed stores)."""

    kv_registry: ClassVar[dict[str, type[KVStoreBase]]] = {}

    def __init_subclass__(cls) -> None:
        for name in _TRANSFERS:
            if name in vars(cls):
                setattr(cls, name, unrecorded(vars(cls)[name]))

    @staticmethod
    def register(klass: StoreClass) -> StoreClass:
        """Register a class, as a decorator, for `create` under its name in lower case.

        Parameters
        ----------
        klass : type
            Subclass of KVStoreBase whose constructor needs no arguments.

        Examples
        --------
        >>> @mx.kv.KVStoreBase.register
        ... class Summing(mx.kv.base.TestStore):
        ...     pass
        >>> isinstance(mx.kv.create("summing"), Summing)
        True
        >>> del mx.kv.KVStoreBase.kv_registry["summing"]
        """
        if not isinstance(klass, type) or not issubclass(klass, KVStoreBase):
            raise CheckError(f"KVStoreBase.register: expected a subclass of KVStoreBase, given "
                             f"{klass!r}")
        enter(KVStoreBase.kv_registry, klass, "kvstore")
        return klass

    def _abstract(self, method: str) -> AbstractError:
        return AbstractError(f"kvstore: {type(self).__name__} does not define {method}")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store has a capability.

        Parameters
        ----------
        capability : str
            'optimizer': whether `set_optimizer` may be called.
        """
        raise MXNetError("kvstore: the class does not define is_capable")

    @property
    def type(self) -> str:
        """The name under which the store is created."""
        raise self._abstract("type")

    @property
    def rank(self) -> int:
        """Index of this worker, from 0."""
        raise self._abstract("rank")

    @property
    def num_workers(self) -> int:
        """Number of workers."""
        raise self._abstract("num_workers")

    def broadcast(self, key: Key, value: NDArray, out: PerDevice, priority: int = 0) -> None:
        """Create a key and copy its value to the devices.

        Parameters
        ----------
        key : int or str
            The new key.
        value : NDArray
            Its value.
        out : NDArray or list of NDArray
            The arrays to copy into.
        priority : int, default 0
            A hint in which order to process keys, larger first; may be ignored.
        """
        raise self._abstract("broadcast")

    def pushpull(self, key: Key, value: PerDevice, out: PerDevice | None = None, priority: int = 0
                 ) -> None:
        """Sum the values of the devices and copy the sum, or the updated parameter, to them.

        Parameters
        ----------
        key : int or str
            The key.
        value : NDArray or list of NDArray
            One value, or one for each device.
        out : NDArray or list of NDArray, optional
            The arrays to copy into; those of `value` by default.
        priority : int, default 0
            A hint in which order to process keys, larger first; may be ignored.
        """
        raise self._abstract("pushpull")

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored arrays from now on, instead of returning sums.

        Parameters
        ----------
        optimizer : Optimizer
            The optimizer.
        """
        raise self._abstract("set_optimizer")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Save the states of the optimizer.

        Parameters
        ----------
        fname : str
            Path of the file.
        dump_optimizer : bool, default False
            Save the optimizer itself, too.
        """
        raise self._abstract("save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        """Load states that `save_optimizer_states` saved.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        raise self._abstract("load_optimizer_states")

    def set_gradient_compression(self, compression_params: Mapping[str, object]) -> None:
        """Compress gradients that are sent between devices.

        Parameters
        ----------
        compression_params : dict
            ``{"type": "2bit", "threshold": 0.5}``; the threshold is a positive number.
        """
        raise self._abstract("set_gradient_compression")

    def row_sparse_pull(self, key: Key, out: PerDevice | None = None, priority: int = 0,
                        row_ids: PerDevice | None = None) -> None:
        """Copy some rows of the stored array of a key.

        Parameters
        ----------
        key : int or str
            The key.
        out : NDArray or list of NDArray
            The arrays to copy into.
        priority : int, default 0
            A hint in which order to process keys, larger first; may be ignored.
        row_ids : NDArray or list of NDArray
            Indices of the rows.
        """
        raise self._abstract("row_sparse_pull")

    def state_dict(self) -> dict[str, object] | None:
        """Get the state beside values and optimizer states, for an exact resume; None without."""
        return None

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Restore what `state_dict` returned.

        Parameters
        ----------
        state : dict
            State of a store of the same kind.
        """
        raise self._abstract("load_state_dict")


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A minimal store: it sums from left to right and stores nothing."""

    __test__ = False  # not a test case, despite its name

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

    def broadcast(self, key: Key, value: NDArray, out: PerDevice, priority: int = 0) -> None:
        for target in _as_list(out):
            value.copyto(target)

    def pushpull(self, key: Key, value: PerDevice, out: PerDevice | None = None, priority: int = 0
                 ) -> None:
        values: list[NDArray] = _as_list(value)
        total = values[0].copy()
        for other in values[1:]:
            total += other.as_in_context(total.context)
        for target in values if out is None else _as_list(out):
            total.copyto(target)


def check_capability(capability: str) -> None:
    """Check the name of a capability.

    Parameters
    ----------
    capability : str
        'optimizer' in any case; ArgumentError for others.
    """
    if capability.lower() != KVStoreBase.OPTIMIZER:
        raise ArgumentError(f"Unknown capability: {capability}; there is "
                            f"{KVStoreBase.OPTIMIZER!r}")


def create(name: str = "local") -> KVStoreBase:
    """Create a key-value store.

    Parameters
    ----------
    name : str, default 'local'
        'local' sums on the CPU, 'device' on the devices of the values, 'nccl' on GPUs by NVIDIA's
        NCCL (needs the package nccl4py); 'dist_sync', 'dist_device_sync' and 'dist_async' combine
        the processes that `nbmod launch` has started (docs/distributed.md); or the name
        of a registered class. Case is ignored.

    Raises
    ------
    MXNetError
        If the name is unknown; if it is 'nccl' and there is no GPU or no NCCL; if it is that of a
        distributed store and there is no MPI.

    Examples
    --------
    >>> store = mx.kv.create("local")
    >>> store.type, store.rank, store.num_workers
    ('local', 0, 1)
    """
    if not isinstance(name, str):
        raise TypeError(f"kvstore.create: name is a {type(name).__name__}, name must be a string")
    kind = name.lower()
    known: dict[str, Callable[[], KVStoreBase]] = {**BUILT_IN, **KVStoreBase.kv_registry}
    if kind in known:
        return known[kind]()
    raise MXNetError(f"kvstore.create: unknown kind {name!r}, expected one of {list(known)}"
                     f"{did_you_mean(kind, known)}")
