"""Sums and copies between GPUs by NVIDIA's NCCL, for stores of the kind `nccl`.

NCCL knows the links between GPUs (NVLink, PCIe, shared memory).  It is used through `nccl4py`, with
few calls, by gradient bucketing: on every GPU one launch packs the values of all keys into one flat
buffer, one collective per GPU reduces the buffers to the root GPU, which stores the sums (or
broadcasts its buffer to all others), and one launch unpacks them.  All of it is submitted to the
streams of the GPUs, in order.

NCCL chooses the order of additions, so sums may differ in the last bits from those of other stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

from ..base import MXNetError
from ..core.config import CONFIG
from ..core.gpus import gpu_count, gpus_offered
from ..core.interrupts import from_handler
from ..ndarray import NDArray
from ..ops.device import Device, device_of
from ..ops.elementwise.arithmetic import sum_program
from ..ops.optimizer.multi_tensor_apply import TensorUpdate
from .sums import Job, PreparedSums, Sums

__all__ = ["Collectives", "reduction_class"]

Untyped: TypeAlias = Any  # type: ignore[explicit-any]
"""A GPU, an array on it, or an object of nccl4py, which has no types."""


def reduction_class(kind: str) -> type[PreparedSums]:
    """The class that computes sums between GPUs in a store of this kind.

    Raises MXNetError for 'nccl' without GPUs (unless they are mapped to the CPU) or `nccl4py`.
    """
    if kind != "nccl" or CONFIG.gpu_to_cpu and not gpu_count():
        return Sums
    if not gpu_count():
        raise MXNetError(f"kvstore 'nccl' is for GPUs, and this machine offers {gpus_offered()}; "
                         "'device' sums on the CPU as well")
    _library()
    return Collectives


def _library() -> Untyped:
    try:
        from nccl import core
    except ImportError as error:
        raise MXNetError(f"kvstore 'nccl' needs nccl4py ({error}): pip install 'nbmod[nccl]', or "
                         "use 'device', which needs nothing") from None
    return core


class Collectives(PreparedSums):
    """Sums between GPUs by a few calls of NCCL."""

    def __init__(self, jobs: Sequence[Job]):
        super().__init__(jobs)
        groups: dict[tuple[frozenset[Device] | None, Device, object], list[Job]] = {}
        for values, out in jobs:
            _check_apart(values)
            root = device_of((out if len(values) > 1 else values[0]).context)
            devices = frozenset(device_of(v.context) for v in values) if len(values) > 1 else None
            groups.setdefault((devices, root, out.dtype), []).append((values, out))
        self._buckets = [_Bucket(root, devices is not None, group)
                         for (devices, root, _), group in groups.items()]

    @staticmethod
    def possible(values: Sequence[NDArray], out: NDArray) -> bool:
        """Whether all arrays are on GPUs, and on more than one."""
        devices = [device_of(array.context) for array in (*values, out)]
        return (PreparedSums.possible(values, out) and all(array.context.is_gpu for array in values)
                and len(set(devices)) > 1)

    def _run(self) -> None:
        for bucket in self._buckets:
            bucket()


class _Bucket:
    """Values in one flat buffer per GPU, reduced to the GPU `root` or broadcast from it."""

    def __init__(self, root: Device, is_sum: bool, jobs: Sequence[Job]):
        self.is_sum = is_sum
        self.devices: list[Untyped] = sorted(
            {device_of(array.context) for values, out in jobs for array in (*values, out)},
            key=lambda device: device.device_id)
        self.root = self.devices.index(root)
        self.communicators = _communicators(self.devices)
        offsets: dict[int, int] = {}
        size = 0
        for values, out in jobs:    # a value with several destinations is sent once
            if id(values[0]._data) not in offsets:
                offsets[id(values[0]._data)] = size
                size += out.size
        self.flat = [device.empty((size,), jobs[0][1].dtype) for device in self.devices]
        packed: dict[int, tuple[Untyped, Untyped]] = {}
        unpacked: list[tuple[Untyped, Untyped]] = []
        for values, out in jobs:
            offset = offsets[id(values[0]._data)]
            for value in values:
                packed[id(value._data)] = value._data, self._view(value, offset)
            unpacked.append((self._view(out, offset), out._data))
        self.pack, self.unpack = _copies(list(packed.values())), _copies(unpacked)

    def _view(self, array: NDArray, offset: int) -> Untyped:
        """The part of its device's buffer that belongs to `array`."""
        device = device_of(array.context)
        flat = self.flat[self.devices.index(device)]
        return device.view(flat, offset * flat.dtype.itemsize, array.shape, flat.dtype)

    def __call__(self) -> None:
        core = _library()
        for copy in self.pack:
            copy()
        try:
            with core.group():
                for device, communicator, flat in zip(self.devices, self.communicators, self.flat,
                                                      strict=True):
                    stream = int(device.card.stream)
                    if self.is_sum:
                        communicator.reduce(flat, flat, core.SUM, self.root, stream=stream)
                    else:
                        communicator.broadcast(flat, flat, self.root, stream=stream)
        except Exception as error:
            if from_handler(error):
                raise
            raise _failed(self.devices, error) from error
        for copy in self.unpack:
            copy()


def _copies(pairs: Sequence[tuple[Untyped, Untyped]]) -> list[Callable[[], None]]:
    """Calls that copy (source, target) arrays, each pair on one device: one for every device."""
    copies: dict[Device, list[TensorUpdate]] = {}
    for source, target in pairs:
        copies.setdefault(target.device, []).append(
            TensorUpdate(sum_program(1), [source], [target]))
    return [call for device, updates in copies.items()
            for call in device.multi_tensor_apply(updates).calls]


def _check_apart(values: Sequence[NDArray]) -> None:
    """MXNetError if several values of a key are on one GPU."""
    contexts = [value.context for value in values]
    for context in contexts:
        if contexts.count(context) > 1:
            raise MXNetError(f"kvstore 'nccl': a key is given {contexts.count(context)} values on "
                             f"{context}, expected one on each GPU; 'device' takes any")


def _communicators(devices: Sequence[Untyped]) -> list[Untyped]:
    """NCCL's communicators of these GPUs, with peer access enabled where possible."""
    numbers = [device.card.number for device in devices]
    if len(set(numbers)) < len(numbers):
        raise MXNetError(f"kvstore 'nccl': of {', '.join(map(str, devices))} some are one card, "
                         "and NCCL wants a card for each; use 'device'")
    for device in devices:
        for other in devices:
            device.can_read(other)
    try:
        return _started(tuple(numbers))
    except Exception as error:
        if from_handler(error):
            raise
        raise _failed(devices, error) from error


@cache
def _started(numbers: tuple[int, ...]) -> list[Untyped]:
    """Communicators of GPUs by number, which exist until the process ends."""
    return _library().Communicator.init_all(list(numbers))


def _failed(devices: Sequence[Untyped], error: Exception) -> MXNetError:
    return MXNetError(f"kvstore 'nccl': NCCL failed on {', '.join(map(str, devices))}: {error}; "
                      "NCCL_DEBUG=WARN says more, 'device' does without NCCL")
