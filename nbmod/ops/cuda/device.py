"""`Gpu`: memory and execution on the device behind a `gpu(i)`.

Several `gpu(i)` may share one card: with `NBMOD_VIRTUAL_GPUS=4` there are four, dealt out over the
cards there are, and numba's simulator, which has one, counts as four unless told otherwise.  So
everything that concerns several devices is tested anywhere.

Work goes to the default stream of the device, in order; `to_numpy` and `synchronize` wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from ...base import CONFIG, MXNetError, OutOfMemory
from ..device import Device, describe
from ..op import Call, Op, Spec
from .fill import fill
from .formula_op import COPY, run_program
from .launch import SIMULATED, Launch, Step, cuda, gate, twin_of
from .memory import Array

__all__ = ["Gpu", "gpu_count", "gpu_memory", "copy"]

SIMULATED_GPUS = 4


@cache
def gpu_count() -> int:
    """How many `gpu(i)` there are; 0 when the driver is missing."""
    try:
        cards = len(cuda.gpus) if cuda.is_available() else 0
    except Exception:       # whatever numba's search for the driver ran into
        cards = 0
    return cards and (CONFIG.virtual_gpus or (SIMULATED_GPUS if SIMULATED else cards))


def _card(device_id: int) -> Any:
    """The physical device behind `gpu(device_id)`: a context manager that selects it."""
    return cuda.gpus[device_id % len(cuda.gpus)]


def gpu_memory(device_id: int) -> tuple[int, int]:
    """(free, total) bytes; the simulator says infinite, or nothing."""
    with _card(device_id):
        info = cuda.current_context().get_memory_info()
    return info.free, info.total


class Gpu(Device):
    """The device behind `gpu(device_id)`, which must be less than `gpu_count()`."""

    def __init__(self, device_id: int):
        self.device_id = device_id
        self.card = _card(device_id)

    def __repr__(self) -> str:
        return f"gpu({self.device_id})"

    # -- memory -----------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        spec = Spec(tuple(shape), np.dtype(dtype))
        try:
            with self.card:
                block = cuda.device_array(max(spec.nbytes, 1), np.uint8)
        except Exception as error:
            raise OutOfMemory(f"{self}: no memory for {describe(*spec)}: {error}") from error
        return Array(self, block, 0, *spec)

    def arena(self, nbytes: int) -> Array:
        return self.empty((nbytes,), np.uint8)

    def view(self, arena: Array, offset: int, shape: Sequence[int], dtype: Any) -> Array:
        return Array(arena.device, arena.block, arena.offset + offset, shape, dtype)

    def from_numpy(self, array: np.ndarray) -> Array:
        target = self.empty(array.shape, array.dtype)
        copy(array, target)
        return target

    def to_numpy(self, array: Array) -> np.ndarray:
        if not array.size:
            return np.empty(array.shape, array.dtype)
        with array.device.waiting():
            return array.handle.copy_to_host().reshape(array.shape)

    def span(self, array: Array) -> tuple[int, int]:
        if SIMULATED:
            start = array.block.__array_interface__["data"][0] + array.offset
        else:
            start = array.block.__cuda_array_interface__["data"][0] + array.offset
        return start, start + array.nbytes

    def full(self, shape: Sequence[int], dtype: Any, value: float) -> Array:
        array = self.empty(shape, dtype)
        copy(np.array(value), array)
        return array

    def copy(self, src: Any, dst: Any) -> None:
        copy(src, dst)

    def synchronize(self) -> None:
        with self.waiting():
            cuda.synchronize()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Select the card, and give the name of the device to what went wrong on it meanwhile."""
        try:
            with self.card:
                yield
        except Exception as error:
            raise MXNetError(f"{self}: work submitted earlier failed: {error}") from error

    # -- execution --------------------------------------------------------------------------

    def supports(self, op: Op) -> bool:
        return op.view or twin_of(op) is not None

    def scratch(self, op: Op, ins: Sequence[Spec], outs: Sequence[Spec]) -> list[Spec]:
        twin = twin_of(op)
        return [] if twin is None else twin.scratch(getattr(op, "fwd", op), list(ins), list(outs))

    def run(self, op: Op, ins: Sequence[Array], outs: Sequence[Array | None], call: Call) -> None:
        self.prepare(op, ins, outs, call)()

    def prepare(self, op: Op, ins: Sequence[Array], outs: Sequence[Array | None], call: Call
                ) -> Callable[[], None]:
        twin = twin_of(op)
        if twin is None:
            raise MXNetError(f"{op.name} has no GPU kernel yet; use a cpu context")
        return self.launcher(twin.prepare(getattr(op, "fwd", op), ins, outs, call))

    def launcher(self, steps: Sequence[Step]) -> Callable[[], None]:
        """A function that starts the launches; what can be compiled is when this returns."""
        with self.card:
            starts = [_start(step) if isinstance(step, Launch) else _later(step) for step in steps]

        def run() -> None:
            with self.card, gate:
                for start in starts:
                    start()

        return run


def _start(launch: Launch) -> Callable[[], None]:
    kernel, grid, block, args = launch
    handles = [arg.handle if isinstance(arg, Array) else arg for arg in args]
    if SIMULATED:
        from . import simulator

        arrays = [getattr(handle, "_ary", handle) for handle in handles]
        return lambda: simulator.run(kernel.py_func, grid, block, arrays)
    kernel.compile(tuple(map(kernel.typeof_pyval, handles)))
    configured = kernel[grid, block]
    return lambda: configured(*handles)


def _later(decide: Callable[[], Sequence[Launch] | None]) -> Callable[[], None]:
    def start() -> None:
        for launch in decide() or ():
            _start(launch)()

    return start


# -- copies -------------------------------------------------------------------------------------


def copy(src: Any, dst: Any) -> None:
    """Copy between host and devices, or on one, converting the type; NumPy sources broadcast.

    Between cards the elements travel through the host.
    """
    if not dst.size:
        return
    if isinstance(dst, np.ndarray):
        np.copyto(dst, src.device.to_numpy(src).reshape(dst.shape), casting="unsafe")
    elif isinstance(src, np.ndarray):
        _upload(src, dst)
    elif src.device.card is not dst.device.card:
        _upload(src.device.to_numpy(src).reshape(dst.shape), dst)
    elif src.dtype == dst.dtype:
        with dst.device.card:
            dst.handle.copy_to_device(src.handle)
    else:
        dst.device.launcher(run_program(COPY, [src.reshape(dst.shape)], [dst]))()


def _upload(src: np.ndarray, dst: Array) -> None:
    if src.size == 1:
        dst.device.launcher(fill(dst, _converted(src.reshape(-1), dst.dtype)[0]))()
        return
    host = np.ascontiguousarray(np.broadcast_to(_converted(src, dst.dtype), dst.shape))
    with dst.device.card:
        dst.handle.copy_to_device(host.reshape(-1))


def _converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(dtype, copy=False)
