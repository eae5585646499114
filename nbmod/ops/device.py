"""Memory and execution on a device: the one interface of executor and NDArray to hardware.

A device array is C-contiguous and of a type that only its `Device` knows: `numpy.ndarray` on the
CPU, a `numba.cuda` array on a GPU.  All `cpu(i)` contexts share one `CPU` object and its memory;
every `gpu(i)` has an object of its own.

GPUs come from `nbmod.ops.cuda.device` (see `core.gpus`): a `Device` subclass `Gpu(i)`, and
`copy(src, dst)` for pairs of arrays of which at least one is its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import MXNetError, OutOfMemory
from ..core.fork import fresh
from ..core.gpus import cuda_module, gpu_count, gpus_offered
from . import dispatch
from .jit import lacks_compiler

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..context import Context
    from .dispatch import Choice
    from .op import Call, Computation, Op, Spec

__all__ = ["Device", "Cpu", "CPU", "device_of", "memory_size", "synchronize",
           "describe"]

ALIGNMENT = 64
"""Arenas and large arrays start at a multiple of this many bytes: a cache line, and the widest
vector."""
PREPARED = dispatch.NUMBA, dispatch.EAGER
AT_ONCE = dispatch.EAGER, dispatch.NUMBA
UNCOMPILED = dispatch.REFERENCE, dispatch.NUMBA
"""Keys of implementations on the CPU, the preferred one first: for an op that is prepared, for one
that is computed once, and for both without a compiler, where kernels are slow Python functions."""
LARGE = 1 << 14
"""Bytes of a large array: kernels load packed filters a vector at a time, and store whole cache
lines with non-temporal stores."""


class Device:
    """The interface of all devices.  Subclasses override what has no body here."""

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> Any:
        """An array of undefined contents."""
        raise NotImplementedError

    def allocator(self, spec: Spec) -> Callable[[], Any]:
        """A function that returns new arrays, as `empty`."""
        return partial(self.empty, *spec)

    def arena(self, nbytes: int) -> Any:
        """A byte array aligned to `ALIGNMENT`, of undefined contents."""
        raise NotImplementedError

    def view(self, arena: Any, offset: int, shape: Sequence[int], dtype: DTypeLike) -> Any:
        """The array of `shape` that starts `offset` bytes into `arena` (any array)."""
        raise NotImplementedError

    def from_numpy(self, array: np.ndarray) -> Any:
        """A copy of `array` in this device's memory."""
        raise NotImplementedError

    def adopt(self, array: np.ndarray) -> Any:
        """`array`, an array of the CPU that nothing else refers to: a copy, except on the CPU."""
        return self.from_numpy(array)

    def to_numpy(self, array: Any) -> np.ndarray:
        """A copy of `array` in memory of its own, complete when this returns."""
        raise NotImplementedError

    def span(self, array: Any) -> tuple[int, int]:
        """Start and end address of `array`, to tell whether two arrays overlap."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait for all work submitted so far."""

    def supports(self, op: Op) -> bool:
        """Whether this device can execute `op`."""
        return True

    def choose(self, op: Op, ins: Sequence[Spec], outs: Sequence[Spec]) -> Choice:
        """The implementation of `op` on this device, whose workspace is `Call.scratch`."""
        raise NotImplementedError

    def workspace(self, op: Op, ins: Sequence[Spec], outs: Sequence[Spec]) -> list[Spec]:
        """That of the implementation which `choose` returns."""
        return self.choose(op, ins, outs).workspace

    def run(self, op: Op, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        """Execute `op` once."""
        raise NotImplementedError

    def computation(self, op: Op, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> Computation:
        """A function that does what `run` does for ops of one form and arrays of these specs.

        Outputs overlap no input, and callers ignore floating-point events.
        """
        return self.run

    def prepare(self, choice: Choice, ins: Sequence[Any], outs: Sequence[Any], call: Call
                ) -> Callable[[], None]:
        """A function that executes an op on these very arrays, specialized for them."""
        return choice.prepare(ins, outs, call)

    def capture(self, calls: Sequence[Callable[[], None] | None], num_forward: int) -> list[Any]:
        """`calls` of a network in a form that launches faster, such as CUDA graphs: a call may do
        the work of those after it, which are None then, but none that of both forward (the first
        `num_forward` calls) and backward."""
        return list(calls)

    def multi_tensor_apply(self, updates: Sequence[Any]) -> Any:
        """Kernel calls for many updates; see `ops.optimizer.multi_tensor_apply`."""
        raise NotImplementedError

    def can_read(self, other: Device) -> bool:
        """Whether ops of this device can read memory of another one directly (peer access).  That
        takes a `barrier` before they read, and one before the memory is written again."""
        return other is self

    def barrier(self, others: Sequence[Device]) -> None:
        """Let later work on all these devices wait for all work submitted to any of them so far."""

    def copy(self, src: Any, dst: Any) -> None:
        """Copy between arrays of equal shape, converting the element type.

        One of the two is on this device, the other may be on any.  A NumPy source of shape ()
        fills.
        """
        raise NotImplementedError

    def duplicate(self, array: Any) -> Any:
        """A copy of `array`, which is on this device."""
        copy = self.empty(array.shape, array.dtype)
        self.copy(array, copy)
        return copy

    def full(self, shape: Sequence[int], dtype: DTypeLike, value: float) -> Any:
        """An array filled with `value`."""
        return self.from_numpy(np.full(shape, value, dtype))

    def index(self, array: Any, key: tuple) -> Any:
        """`array[key]` as NumPy understands it, with at least one dimension.

        A view if the elements are contiguous in memory, in their order, else a copy.
        """
        geometry = _geometry(tuple(array.shape), np.dtype(array.dtype), key)
        if geometry is not None:
            return self.view(array, *geometry, array.dtype)
        return self.from_numpy(CPU.index(self.to_numpy(array), key))

    def assign(self, array: Any, key: tuple, value: Any) -> None:
        """`array[key] = value` as NumPy understands it; `value` is a NumPy or a device array."""
        geometry = _geometry(tuple(array.shape), np.dtype(array.dtype), key)
        if geometry is not None and value.shape in ((), geometry[1]):
            self.copy(value, self.view(array, *geometry, array.dtype))
            return
        host = self.to_numpy(array)
        CPU.assign(host, key, value if isinstance(value, np.ndarray) else self.to_numpy(value))
        self.copy(host, array)


class Cpu(Device):
    """Main memory, and ops of NumPy and numba."""

    @staticmethod
    def require_memory(spec: Spec) -> None:
        """OutOfMemory for an array that the machine has no memory for."""
        if spec.shape is not None and spec.nbytes > memory_size():
            raise OutOfMemory(f"no memory on the CPU for {describe(*spec)}; the machine has "
                              f"{memory_size() >> 20:,} MiB")

    def choose(self, op: Op, ins: Sequence[Spec], outs: Sequence[Spec]) -> Choice:
        for spec in outs:   # planning takes longer, the larger these are
            self.require_memory(spec)
        choice = dispatch.choose(op, UNCOMPILED if lacks_compiler() else PREPARED, ins, outs)
        for spec in choice.workspace:
            self.require_memory(spec)
        return choice

    def workspace(self, op: Op, ins: Sequence[Spec], outs: Sequence[Spec]) -> list[Spec]:
        for spec in outs:   # as in `choose`
            self.require_memory(spec)
        specs = dispatch.workspace(op, UNCOMPILED if lacks_compiler() else PREPARED, ins, outs)
        for spec in specs:
            self.require_memory(spec)
        return specs

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
        return _allocate(np.empty, shape, dtype)

    def arena(self, nbytes: int) -> np.ndarray:
        block = self.empty((nbytes + ALIGNMENT,), np.uint8)
        start = -self.span(block)[0] % ALIGNMENT
        return block[start:start + nbytes]

    def view(self, arena: np.ndarray, offset: int, shape: Sequence[int], dtype: DTypeLike
             ) -> np.ndarray:
        return np.ndarray(tuple(shape), dtype, arena, offset) if arena.size else self.empty(
            shape, dtype)

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        copy = self.empty(array.shape, array.dtype)
        np.copyto(copy, array)
        return copy

    def adopt(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        return self.from_numpy(array)

    def span(self, array: np.ndarray) -> tuple[int, int]:
        start = array.__array_interface__["data"][0]
        return start, start + array.nbytes

    def run(self, op: Op, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        with np.errstate(all="ignore"):  # infinity and NaN are results, not events
            if lacks_compiler():
                dispatch.prepare(op, UNCOMPILED, ins, outs, call)()
            elif op.storage:
                dispatch.prepare(op, AT_ONCE, ins, outs, call)()
            else:
                op.forward(ins, outs, call)

    def computation(self, op: Op, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> Computation:
        if lacks_compiler():
            return super().computation(op, ins, outs)
        specs = [spec for spec in (*ins, *outs) if spec is not None]
        if op.storage[1:] or op.storage and any([spec.dtype == np.float16 for spec in specs]):
            return dispatch.at_once(op, AT_ONCE, ins, outs)
        return op.at_once(ins, outs)    # nothing is converted: the first storage is that of float16

    def allocator(self, spec: Spec) -> Callable[[], np.ndarray]:
        if spec.nbytes < LARGE:
            return partial(np.empty, *spec)
        return super().allocator(spec)

    def copy(self, src: Any, dst: Any) -> None:
        if not (isinstance(src, np.ndarray) and isinstance(dst, np.ndarray)):
            cuda_module().copy(src, dst)
        elif src.dtype == dst.dtype:
            np.copyto(dst, src)
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                np.copyto(dst, src, casting="unsafe")

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        return np.array(array, order="C") if array.nbytes < LARGE else self.from_numpy(array)

    def multi_tensor_apply(self, updates: Sequence[Any]) -> Any:
        from .optimizer.multi_tensor_apply import multi_tensor_apply

        return multi_tensor_apply(updates)

    def full(self, shape: Sequence[int], dtype: DTypeLike, value: float) -> np.ndarray:
        if not value:
            return _allocate(np.zeros, shape, dtype)
        array = self.empty(shape, dtype)
        array.fill(value)
        return array

    def index(self, array: np.ndarray, key: tuple) -> np.ndarray:
        picked = array[key]
        if picked.ndim == 0:
            picked = picked.reshape(1)
        return picked if picked.flags.c_contiguous else np.ascontiguousarray(picked)

    def assign(self, array: np.ndarray, key: tuple, value: np.ndarray) -> None:
        if value.dtype == array.dtype:
            array[key] = value
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                array[key] = value


@cache
def memory_size() -> int:
    """Bytes of memory that the machine has; 2^62 where the system does not say, as on Windows."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def _allocate(make: Callable[..., np.ndarray], shape: Sequence[int], dtype: DTypeLike
              ) -> np.ndarray:
    """The array `make(shape, dtype)`, at a multiple of `ALIGNMENT` if it is large."""
    nbytes = prod(shape) * np.dtype(dtype).itemsize
    try:
        if nbytes < LARGE:
            return make(shape, dtype)
        block = make((nbytes + ALIGNMENT,), np.uint8)
        start = block.__array_interface__["data"][0]    # `ctypes.data` takes four times as long
        return np.ndarray(tuple(shape), dtype, block, -start % ALIGNMENT)
    except (MemoryError, ValueError):  # the latter for what 64 bits do not count
        raise OutOfMemory(f"no memory on the CPU for {describe(shape, dtype)}") from None


def describe(shape: Sequence[int], dtype: DTypeLike) -> str:
    """An array in words, for messages about memory."""
    nbytes = np.dtype(dtype).itemsize * prod(max(dim, 1) for dim in shape)
    size = "more bytes than 64 bits can count" if nbytes >> 63 else f"{nbytes >> 20:,} MiB"
    return f"an array of shape {tuple(shape)} and type {np.dtype(dtype)}: {size}"


CPU = Cpu()


def device_of(ctx: Context) -> Device:
    """The device of `ctx`, which must exist (see `context.resolve`)."""
    return _gpu(ctx.device_id) if ctx.device_typeid == 2 else CPU


def synchronize() -> None:
    """Wait for every device that has been used."""
    for device in list(_gpus.values()):
        device.synchronize()


_gpus: dict[int, Device] = {}
_opening = fresh(threading.Lock())


def _gpu(device_id: int) -> Device:
    device = _gpus.get(device_id)
    if device is None:
        with _opening:
            if device_id not in _gpus:
                if not 0 <= device_id < gpu_count():
                    raise MXNetError(f"gpu({device_id}) does not exist: {gpus_offered()}")
                _gpus[device_id] = cuda_module().Gpu(device_id)
            device = _gpus[device_id]
    return device


def _geometry(shape: tuple[int, ...], dtype: np.dtype, key: tuple
              ) -> tuple[int, tuple[int, ...]] | None:
    """(offset in bytes, shape) of `array[key]` if it is contiguous memory of the array, else None.

    NumPy indexes a model of the array: the same shape and strides on the memory of one element.
    """
    if any(isinstance(part, np.ndarray) for part in key):
        return None
    strides = [dtype.itemsize * prod(shape[axis + 1:]) for axis in range(len(shape))]
    model = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides, writeable=False)
    picked = model[key]
    if not picked.flags.c_contiguous or picked.size == 0:
        return None
    offset = CPU.span(picked)[0] - CPU.span(model)[0]
    return offset, picked.shape or (1,)
