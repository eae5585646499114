"""`Gpu`: memory and execution on the device of a `gpu(i)`.

Several `gpu(i)` may share a physical GPU: `NBMOD_VIRTUAL_GPUS=4` makes four, assigned to the
physical ones in turn, and the simulator, which has one, counts as four by default.  So everything
that concerns several devices can be tested anywhere.

Work is submitted to the stream of the GPU, in order; `to_numpy` and `synchronize` wait for it.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import MXNetError, OutOfMemory
from ...core.config import CONFIG
from ..device import Device, describe
from ..dispatch import CUDA, Choice, choose, prepare
from ..op import Call, Op, Run, Spec
from ..param import has_negative_zero
from .elementwise.formula_op import COPY, run_program
from .lib.fill import fill
from .optimizer.multi_tensor_apply import multi_tensor_apply
from .runtime.device_memory import Array
from .runtime.graph_replay import Launcher, join
from .runtime.launch import SIMULATED, Step

if TYPE_CHECKING or not SIMULATED:
    from numpy.typing import DTypeLike

    from .runtime.driver import Block, Card
else:
    from .runtime.simulator import Card

__all__ = ["Gpu", "gpu_count", "gpu_memory", "gpu_trouble", "copy"]

SIMULATED_GPUS = 4
MAX_CACHED = 4096
"""Eager calls whose prepared launches are cached."""


@cache
def gpu_count() -> int:
    """The number of `gpu(i)`; 0 if there is no driver."""
    cards = Card.count()
    return cards and (CONFIG.virtual_gpus or (SIMULATED_GPUS if SIMULATED else cards))


def gpu_trouble() -> str:
    """Why there is no GPU."""
    return Card.trouble()


@cache
def _card(number: int) -> Card:
    return Card(number)


def gpu_memory(device_id: int) -> tuple[int, int]:
    """(free, total) bytes; practically infinite in the simulator."""
    return _card(device_id % Card.count()).memory()


class Gpu(Device):
    """The device of `gpu(device_id)`, which must be less than `gpu_count()`."""

    def __init__(self, device_id: int):
        self.device_id = device_id
        self.card = _card(device_id % Card.count())
        self.launch_cache: dict[tuple, Launcher] = {}

    def __repr__(self) -> str:
        return f"gpu({self.device_id})"

    # -- memory -----------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        spec = Spec(tuple(shape), np.dtype(dtype))
        try:
            block = self._block(max(spec.nbytes, 1))
        except MemoryError as error:
            free, total = (size >> 20 for size in self.card.memory())
            raise OutOfMemory(f"{self}: no memory for {describe(*spec)}; {free:,} of {total:,} MiB "
                              "are free: use a smaller batch or more devices") from error
        return Array(self, block, 0, *spec)

    def _block(self, nbytes: int) -> Block:
        """Allocate; if memory is exhausted, collect garbage and try again."""
        with suppress(MemoryError):
            return self.card.allocate(nbytes)
        gc.collect()
        self.card.synchronize()
        return self.card.allocate(nbytes)

    def arena(self, nbytes: int) -> Array:
        return self.empty((nbytes,), np.uint8)

    def view(self, arena: Array, offset: int, shape: Sequence[int], dtype: DTypeLike) -> Array:
        return Array(arena.device, arena.block, arena.offset + offset, shape, dtype)

    def from_numpy(self, array: np.ndarray) -> Array:
        target = self.empty(array.shape, array.dtype)
        copy(array, target)
        return target

    def to_numpy(self, array: Array) -> np.ndarray:
        if not array.size:
            return np.empty(array.shape, array.dtype)
        host = np.empty(array.shape, array.dtype)
        self.card.download(array.block, array.offset, host)
        return host

    def span(self, array: Array) -> tuple[int, int]:
        start = array.address
        return start, start + array.nbytes

    def full(self, shape: Sequence[int], dtype: DTypeLike, value: float) -> Array:
        array = self.empty(shape, dtype)
        copy(np.array(value), array)
        return array

    def copy(self, src: Any, dst: Any) -> None:
        copy(src, dst)

    def synchronize(self) -> None:
        self.card.synchronize()

    # -- execution --------------------------------------------------------------------------

    def supports(self, op: Op) -> bool:
        return op.view or choose(op, [CUDA]).chosen is not None

    def choose(self, op: Op, ins: Sequence[Spec], outs: Sequence[Spec]) -> Choice:
        if not self.supports(op):
            raise MXNetError(f"{op.name} has no GPU kernel yet; use a cpu context")
        return choose(op, [CUDA], ins, outs)

    def run(self, op: Op, ins: Sequence[Array], outs: Sequence[Array | None], call: Call) -> None:
        """Execute `op`.  Prepared launches are cached by op and addresses, so that updates of the
        same arrays in every batch find theirs."""
        arrays = (*ins, *outs, *call.scratch)
        signs = tuple(map(has_negative_zero, vars(op).values()))
        key = (op, signs, call.is_train, tuple(call.add), tuple(
            [None if a is None else (a.address, a.shape, a.dtype) for a in arrays]))
        launcher = self.launch_cache.get(key) if call.state is None else None
        if launcher is None:
            launcher = Launcher(self.card, prepare(op, [CUDA], ins, outs, call), holds=False)
            if launcher.is_fixed and call.state is None and not SIMULATED:
                if len(self.launch_cache) >= MAX_CACHED:
                    self.launch_cache.clear()
                self.launch_cache[key] = launcher
        launcher()

    def prepare(self, choice: Choice, ins: Sequence[Array], outs: Sequence[Array | None],
                call: Call) -> Run:
        return self.launcher(choice.prepare(ins, outs, call))

    def multi_tensor_apply(self, updates: Sequence[Any]) -> Any:
        return multi_tensor_apply(self, updates)

    def can_read(self, other: Device) -> bool:
        return isinstance(other, Gpu) and (
            other.card is self.card or self.card.reaches(other.card))

    def barrier(self, others: Sequence[Device]) -> None:
        cards = dict.fromkeys(gpu.card for gpu in (self, *others) if isinstance(gpu, Gpu))
        if len(cards) > 1:
            self.card.meet(list(cards))

    def launcher(self, steps: Sequence[Step]) -> Launcher:
        """A function that starts the launches, whose kernels are compiled when this returns."""
        return Launcher(self.card, steps)

    def capture(self, calls: Sequence[Run | None], num_forward: int) -> list[Any]:
        return join(calls, num_forward) if CONFIG.cuda_graphs else list(calls)


# -- copies -------------------------------------------------------------------------------------


def copy(src: Any, dst: Any) -> None:
    """Copy between host and devices, or on one, with type conversion; NumPy sources broadcast.

    Copies between GPUs are direct if the types are equal and the driver supports peer access, else
    they go through the host.
    """
    if not dst.size:
        return
    if isinstance(dst, np.ndarray) and dst.flags.c_contiguous and dst.dtype == src.dtype:
        src.device.card.download(src.block, src.offset, dst)
    elif isinstance(dst, np.ndarray):
        np.copyto(dst, src.device.to_numpy(src).reshape(dst.shape), casting="unsafe")
    elif isinstance(src, np.ndarray):
        _upload(dst.device, src, dst)
    elif src.device.card is not dst.device.card:
        if src.dtype == dst.dtype and dst.device.card.receive(
                src.device.card, (src.block, src.offset), (dst.block, dst.offset), dst.nbytes):
            return
        _upload(dst.device, src.device.to_numpy(src).reshape(dst.shape), dst)
    elif src.dtype == dst.dtype:
        dst.device.card.move((src.block, src.offset), (dst.block, dst.offset), dst.nbytes)
    else:
        dst.device.launcher(run_program(COPY, [src.reshape(dst.shape)], [dst]))()


def _upload(gpu: Gpu, src: np.ndarray, dst: Array) -> None:
    if src.size == 1:
        gpu.launcher(fill(dst, _converted(src.reshape(-1), dst.dtype)[0]))()
        return
    host = np.ascontiguousarray(np.broadcast_to(_converted(src, dst.dtype), dst.shape))
    gpu.card.upload(host, dst.block, dst.offset)


def _converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(dtype, copy=False)
