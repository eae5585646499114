"""Sums of arrays on several GPUs, prepared for all keys of a call.

A GPU reads the gradients of the others in place (peer access) and adds them, for all keys that it
stores, by one launch; values are pulled in the same way, as sums of one value.  Keys that are
spread over the GPUs are thus summed by all of them in parallel.  Memory that a GPU cannot read, of
the host or of a GPU without peer access, is copied to it first.  Sums are formed from left to
right: they are bitwise those of `add_n` on any device.

Prepared sums are valid for these arrays only: for others they are prepared again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..context import Context
from ..ndarray import NDArray, invoke, mutation
from ..ops.device import CPU, Device, device_of
from ..ops.elementwise.arithmetic import AddN, sum_program
from ..ops.optimizer.multi_tensor_apply import TensorUpdate, overlap

__all__ = ["Job", "PreparedSums", "Sums", "by_device"]

Job = tuple[Sequence[NDArray], NDArray]
"""Values, and the array that their sum is written to."""


class PreparedSums:
    """The sums of several jobs, prepared."""

    def __init__(self, jobs: Sequence[Job]):
        self._handles = list(_handles(jobs))
        self._ids = list(map(id, self._handles))
        self._owners = [id(mutation.owner(out._data)) for _, out in jobs]

    @staticmethod
    def possible(values: Sequence[NDArray], out: NDArray) -> bool:
        """Whether the sum is of floats on several GPUs."""
        return (device_of(out.context) is not CPU and out.size > 0
                and issubclass(out.dtype, np.floating)
                and all(value.dtype == out.dtype for value in values))

    def fits(self, jobs: Sequence[Job]) -> bool:
        """Whether it was prepared for these very arrays."""
        return self._ids == [id(handle) for handle in _handles(jobs)]

    def __call__(self) -> None:
        """Compute the sums of the arrays' present contents."""
        self._run()
        if mutation.is_watched():
            mutation.written_owners(self._owners)

    def _run(self) -> None:
        raise NotImplementedError


class Sums(PreparedSums):
    """Sums by peer access, each `possible`."""

    def __init__(self, jobs: Sequence[Job]):
        super().__init__(jobs)
        self._staged: list[tuple[NDArray, NDArray]] = []
        self._first, *self._others = dict.fromkeys(
            device_of(array.context) for values, out in jobs for array in (out, *values))
        updates = [self._update(*job) for job in jobs]
        groups: Iterable[Sequence[int]] = [[i] for i in range(len(jobs))]
        if not overlap(((update.ins, update.outs) for update in updates), self._first.span):
            groups = by_device(out for _, out in jobs)
        self._fused = [device_of(jobs[group[0]][1].context).multi_tensor_apply(
            [updates[i] for i in group]) for group in groups]

    @staticmethod
    def possible(values: Sequence[NDArray], out: NDArray) -> bool:
        """Whether the sum can be formed this way.

        A single value that the device cannot read is copied once, not twice.
        """
        device = device_of(out.context)
        return PreparedSums.possible(values, out) and (
            len(values) > 1 or device.can_read(device_of(values[0].context)))

    def _run(self) -> None:
        for source, target in self._staged:
            source.copyto(target)
        self._first.barrier(self._others)
        for fused in self._fused:
            for call in fused.calls:
                call()
        self._first.barrier(self._others)

    def _update(self, values: Sequence[NDArray], out: NDArray) -> TensorUpdate:
        readable = [self._readable(value, out)._data for value in values]
        return TensorUpdate(sum_program(len(readable)), readable, [out._data])

    def _readable(self, value: NDArray, out: NDArray) -> NDArray:
        """`value`, or a copy of it that the device of `out` can read."""
        if device_of(out.context).can_read(device_of(value.context)):
            return value
        copy: NDArray = value.copyto(out.context)  # type: ignore[assignment]  # a context
        self._staged.append((value, copy))
        return copy


def by_device(arrays: Iterable[NDArray]) -> Iterable[list[int]]:
    """Positions of arrays that are on the same device, together; sparse ones apart."""
    groups: dict[tuple[Device, bool], list[int]] = {}
    for position, array in enumerate(arrays):
        groups.setdefault((device_of(array.context), array.is_sparse), []).append(position)
    return groups.values()


def _handles(jobs: Iterable[Job]) -> Iterable[object]:
    return (array._data for values, out in jobs for array in (*values, out))


def _copied(array: NDArray, context: Context) -> NDArray:
    return array.copyto(context)  # type: ignore[return-value]  # a context gives an array


def _copy(value: NDArray, out: NDArray) -> None:
    """Copy an array; one that is stored where it is used has been written there already."""
    if value._data is not out._data:
        value.copyto(out)
    elif not out.is_sparse:
        mutation.written(out._data)


def _sum(values: Sequence[NDArray], context: Context, out: NDArray | None = None) -> NDArray:
    """The sum of arrays on the device of `context`, left to right.  One value is its own sum."""
    if len(values) == 1 and out is not None:
        _copy(values[0], out)
        return out
    device = device_of(context)
    local = [value if device_of(value.context) is device else _copied(value, context)
             for value in values]
    return invoke(AddN(len(local)), local, out) if len(local) > 1 else local[0]
