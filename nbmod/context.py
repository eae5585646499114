"""Devices.  A `Context` names one: `cpu(i)` is a logical CPU device, `gpu(i)` a CUDA device.

A context is a plain value: comparing, hashing and printing it does not access any hardware.
Whether a GPU exists is determined when something is first placed on it, never at import.
"""

from __future__ import annotations

import threading
from typing import ClassVar

from .base import ArgumentTypeError, MXNetError, warn_user
from .core.config import CONFIG

__all__ = ["Context", "cpu", "cpu_pinned", "cpu_shared", "gpu", "num_gpus", "current_context",
           "gpu_memory_info"]
__dir__ = __all__.copy


class _DefaultContext:
    """`Context.default_ctx`: the current context, under MXNet's old name for it."""

    def __get__(self, instance: Context | None, owner: type[Context]) -> Context:
        warn_user("Context.default_ctx has been deprecated; use mx.current_context()",
                  DeprecationWarning)
        return current_context()


class _Scopes(threading.local):
    """The default context of a thread, and those of the `with` statements around."""

    value: Context | None = None

    def __init__(self) -> None:
        self.outer: list[Context | None] = []


class _ContextType(type):
    """Metaclass that lets old programs set `Context.default_ctx`, of the current thread."""

    def __setattr__(cls, name: str, value: object) -> None:
        if name != "default_ctx":
            super().__setattr__(name, value)
        elif isinstance(value, Context):
            Context._default.value = value
        else:
            raise ArgumentTypeError(f"Context.default_ctx: {value!r} is a "
                                    f"{type(value).__name__}, expected a Context, such as mx.cpu()")


class Context(metaclass=_ContextType):
    """A device.

    In a `with` statement it becomes the default context of the current thread.

    Parameters
    ----------
    device_type : {'cpu', 'gpu', 'cpu_pinned', 'cpu_shared'} or Context
        Kind of device, or a context to copy.
    device_id : int, default 0
        Number of the device of its kind.

    Attributes
    ----------
    device_type : str
        Kind of device.
    device_id : int
        Number of the device.

    Raises
    ------
    MXNetError
        For an unknown kind of device.

    Examples
    --------
    >>> mx.Context("gpu", 1)
    gpu(1)
    >>> with mx.cpu(1):
    ...     print(mx.nd.zeros(1).context)
    cpu(1)
    """

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar[dict[str, int]] = {text: flag for flag, text in devtype2str.items()}
    default_ctx = _DefaultContext()
    _default = _Scopes()

    device_typeid: int
    device_id: int

    __slots__ = ("device_typeid", "device_id")

    def __init__(self, device_type: str | Context, device_id: int = 0):
        if isinstance(device_type, Context):
            self.device_typeid, self.device_id = device_type.device_typeid, device_type.device_id
        elif device_type in self.devstr2type:
            self.device_typeid, self.device_id = self.devstr2type[device_type], int(device_id)
        else:
            raise MXNetError(f"Context: device_type is {device_type!r}, expected one of "
                             f"{sorted(self.devstr2type)}")

    @property
    def device_type(self) -> str:
        """Kind of device, such as 'cpu'."""
        return self.devtype2str[self.device_typeid]

    @property
    def is_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device_typeid == 2

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Context) and self.device_id == other.device_id
                                 and self.device_typeid == other.device_typeid)

    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __reduce__(self) -> tuple[type[Context], tuple[str, int]]:
        return Context, (self.device_type, self.device_id)

    def __enter__(self) -> Context:
        scopes = self._default
        scopes.outer.append(scopes.value)
        scopes.value = self
        return self

    def __exit__(self, *exc: object) -> None:
        self._default.value = self._default.outer.pop()

    def empty_cache(self) -> None:
        """Accepted for compatibility; has no effect: nbmod keeps no pool of freed device memory."""


def cpu(device_id: int = 0) -> Context:
    """Return the context of a logical CPU device; all of them share the machine's memory and cores.

    Parameters
    ----------
    device_id : int, default 0
        Number of the device.

    Examples
    --------
    >>> mx.cpu(), mx.cpu(1) == mx.cpu(0)
    (cpu(0), False)
    """
    return Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Return the context of host memory for transfers to a GPU; in nbmod an ordinary CPU device.

    Parameters
    ----------
    device_id : int, default 0
        Number of the device.
    """
    return Context("cpu_pinned", device_id)


def cpu_shared(device_id: int = 0) -> Context:
    """Return the context of host memory shared between processes; in nbmod an ordinary CPU device.

    Parameters
    ----------
    device_id : int, default 0
        Number of the device.
    """
    return Context("cpu_shared", device_id)


def gpu(device_id: int = 0) -> Context:
    """Return the context of a CUDA device; does not check that the device exists.

    Parameters
    ----------
    device_id : int, default 0
        Number of the device.
    """
    return Context("gpu", device_id)


def current_context() -> Context:
    """Return the default context of the current thread.

    Returns
    -------
    Context
        That of the innermost `with` statement, or `cpu(0)` outside any.

    Examples
    --------
    >>> mx.current_context()
    cpu(0)
    """
    return Context._default.value or _HOST


def num_gpus() -> int:
    """Return the number of CUDA devices that can be used.

    Returns
    -------
    int
        0 without a driver or without the extra `nbmod[cuda]`.
    """
    from .core.gpus import gpu_count

    return gpu_count()


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Return the free and the total memory of a CUDA device, in bytes.

    Parameters
    ----------
    device_id : int, default 0
        Number of the device.
    """
    from .core.gpus import gpu_memory

    return gpu_memory(device_id)


_HOST = cpu()


def computing(ctx: Context) -> Context:
    """Return the device whose operators work on arrays of a context.

    Parameters
    ----------
    ctx : Context
        Context of arrays.

    Returns
    -------
    Context
        `cpu(0)` for pinned and shared memory, whose number is not that of a CPU; else `ctx`.
    """
    return ctx if ctx.device_typeid <= 2 else _HOST


_warned = threading.Event()


def resolve(ctx: Context) -> Context:
    """Return the device that a context stands for on this machine.

    Called where memory is first allocated.

    Parameters
    ----------
    ctx : Context
        Context to look up.

    Returns
    -------
    Context
        `ctx`, or `cpu(i)` for a missing `gpu(i)` with `NBMOD_GPU_TO_CPU=1` (and under
        `nbmod run`), with a single warning.

    Raises
    ------
    MXNetError
        For a GPU that does not exist otherwise; says how to continue.
    ArgumentTypeError
        For what is no Context.
    """
    return _instead_of(ctx) if _is_missing(ctx) else ctx


def is_absent(ctx: Context) -> bool:
    """Return whether `resolve` refuses a context.

    Parameters
    ----------
    ctx : Context
        Context to look up.

    Raises
    ------
    ArgumentTypeError
        For what is no Context.
    """
    return _is_missing(ctx) and not CONFIG.gpu_to_cpu


def _is_missing(ctx: Context) -> bool:
    """Whether a context names a GPU that this machine does not have."""
    try:
        return ctx.is_gpu and ctx.device_id >= num_gpus()
    except AttributeError:
        raise ArgumentTypeError(f"ctx is {ctx!r}, expected a Context such as mx.cpu()") from None


def _instead_of(ctx: Context) -> Context:
    """The CPU that stands for a GPU which this machine does not have."""
    if not CONFIG.gpu_to_cpu:
        from .core.gpus import gpus_offered

        raise MXNetError(
            f"{ctx} was asked for, but this machine offers {gpus_offered()}. "
            "Pass mx.cpu() instead, or set NBMOD_GPU_TO_CPU=1 (or start the script with "
            "`nbmod run`) to map gpu(i) to cpu(i).")
    if not _warned.is_set():
        _warned.set()
        warn_user(f"{ctx} is not available: gpu(i) runs as cpu(i) in this process")
    return cpu(ctx.device_id)
