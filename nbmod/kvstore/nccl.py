"""Sums and copies between GPUs by NVIDIA's NCCL, for stores of the kind `nccl`.

NCCL knows the wires between cards, and ways around those that cannot read each other's memory.  It
is reached through `nccl4py`, and called few times: on every card the values of all keys are laid
end to end by one launch, one call for every card reduces the whole to the card that keeps the sums
(or brings it from there to all others), and one launch takes them apart again.  All of it goes to
the streams of the cards, in order.

In which order NCCL adds is its own affair, so sums need not be the bits of other stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..base import MXNetError
from ..config import CONFIG
from ..ndarray import NDArray
from ..ops.device import Device, device_of, gpu_count, gpus_offered
from ..ops.elementwise.arithmetic import sum_program
from ..ops.optimizer.multi_tensor_apply import TensorUpdate
from .sums import Job, Joint, Sums

__all__ = ["Collectives", "way_of"]


def way_of(kind: str) -> type[Joint]:
    """How GPUs exchange values in a store of this kind.

    Raises MXNetError for 'nccl' without GPUs (unless they are mapped to the CPU) or `nccl4py`.
    """
    if kind != "nccl" or CONFIG.gpu_to_cpu and not gpu_count():
        return Sums
    if not gpu_count():
        raise MXNetError(f"kvstore 'nccl' is for GPUs, and this machine offers {gpus_offered()}; "
                         "'device' sums on the CPU as well")
    _library()
    return Collectives


def _library() -> Any:
    try:
        from nccl import core
    except ImportError as error:
        raise MXNetError(f"kvstore 'nccl' needs nccl4py ({error}): pip install 'nbmod[nccl]', or "
                         "use 'device', which needs nothing") from None
    return core


class Collectives(Joint):
    """Jobs between GPUs as few calls of NCCL."""

    def __init__(self, jobs: Sequence[Job]):
        super().__init__(jobs)
        groups: dict[Any, list[Job]] = {}
        for values, out in jobs:
            _check_apart(values)
            keeper = device_of((out if len(values) > 1 else values[0]).context)
            devices = frozenset(device_of(v.context) for v in values) if len(values) > 1 else None
            groups.setdefault((devices, keeper, out.dtype), []).append((values, out))
        self._turns = [_Turn(keeper, devices is not None, group)
                       for (devices, keeper, _), group in groups.items()]

    @staticmethod
    def possible(values: Sequence[NDArray], out: NDArray) -> bool:
        """Whether all is on GPUs, and something must go from one to another."""
        devices = [device_of(array.context) for array in (*values, out)]
        return (Joint.possible(values, out) and all(array.context.is_gpu for array in values)
                and len(set(devices)) > 1)

    def _run(self) -> None:
        for turn in self._turns:
            turn()


class _Turn:
    """Sums that `keeper` is to have, or values that it has and others are to get."""

    def __init__(self, keeper: Device, is_sum: bool, jobs: Sequence[Job]):
        self.is_sum = is_sum
        self.devices: list[Any] = sorted(
            {device_of(array.context) for values, out in jobs for array in (*values, out)},
            key=lambda device: device.device_id)
        self.root = self.devices.index(keeper)
        self.communicators = _communicators(self.devices)
        places: dict[int, int] = {}
        size = 0
        for values, out in jobs:    # a value that several others want travels once
            if id(values[0].handle) not in places:
                places[id(values[0].handle)] = size
                size += out.size
        self.flat = [device.empty((size,), jobs[0][1].dtype) for device in self.devices]
        laid: dict[int, tuple[Any, Any]] = {}
        taken: list[tuple[Any, Any]] = []
        for values, out in jobs:
            place = places[id(values[0].handle)]
            for value in values:
                laid[id(value.handle)] = value.handle, self._part(value, place)
            taken.append((self._part(out, place), out.handle))
        self.lay, self.take = _copies(list(laid.values())), _copies(taken)

    def _part(self, array: NDArray, place: int) -> Any:
        """The place of `array` in what is sent to or from its device."""
        device = device_of(array.context)
        flat = self.flat[self.devices.index(device)]
        return device.view(flat, place * flat.dtype.itemsize, array.shape, flat.dtype)

    def __call__(self) -> None:
        core = _library()
        for copy in self.lay:
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
            raise _failed(self.devices, error) from error
        for copy in self.take:
            copy()


def _copies(pairs: Sequence[tuple[Any, Any]]) -> list[Callable[[], None]]:
    """Calls that copy (source, target) arrays, each pair on one device: one for every device."""
    found: dict[Device, list[TensorUpdate]] = {}
    for source, target in pairs:
        found.setdefault(target.device, []).append(
            TensorUpdate(sum_program(1), [source], [target]))
    return [call for device, updates in found.items()
            for call in device.multi_tensor_apply(updates).calls]


def _check_apart(values: Sequence[NDArray]) -> None:
    """MXNetError if several values of a key are on one GPU."""
    contexts = [value.context for value in values]
    for context in contexts:
        if contexts.count(context) > 1:
            raise MXNetError(f"kvstore 'nccl': a key is given {contexts.count(context)} values on "
                             f"{context}, expected one on each GPU; 'device' takes any")


def _communicators(devices: Sequence[Any]) -> list[Any]:
    """NCCL's communicators of these GPUs, whose cards let each other in where they can."""
    numbers = [device.card.number for device in devices]
    if len(set(numbers)) < len(numbers):
        raise MXNetError(f"kvstore 'nccl': of {', '.join(map(str, devices))} some are one card, "
                         "and NCCL wants a card for each; use 'device'")
    for device in devices:
        for other in devices:
            device.reaches(other)
    try:
        return _started(tuple(numbers))
    except Exception as error:
        raise _failed(devices, error) from error


@cache
def _started(numbers: tuple[int, ...]) -> list[Any]:
    """The communicators of cards, which live as long as the process."""
    return _library().Communicator.init_all(list(numbers))


def _failed(devices: Sequence[Any], error: Exception) -> MXNetError:
    return MXNetError(f"kvstore 'nccl': NCCL failed on {', '.join(map(str, devices))}: {error}; "
                      "NCCL_DEBUG=WARN says more, 'device' does without NCCL")
