"""Sums of arrays of several GPUs, prepared: those of all keys of a call at once.

A GPU reads the others' gradients where they are and adds them, for all keys whose sum it keeps, by
one launch; pulled values travel in the same way, as sums of one.  So keys that are spread over the
GPUs are summed by all of them at once.  What a GPU cannot read, memory of the host or of a card
that the driver does not let it reach, is copied to it first.  Sums are formed from left to right:
they are those of `add_n` on any device, bit for bit.

What is prepared belongs to arrays: it is made again for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..ndarray import NDArray, mutation
from ..ops.device import CPU, Device, device_of
from ..ops.elementwise.arithmetic import sum_program
from ..ops.optimizer.multi_tensor_apply import TensorUpdate, overlap

__all__ = ["Job", "Joint", "Sums"]

Job = tuple[Sequence[NDArray], NDArray]
"""Values, and where their sum goes."""


class Joint:
    """Several jobs that are done together."""

    def __init__(self, jobs: Sequence[Job]):
        self._handles = list(_handles(jobs))
        self._ids = list(map(id, self._handles))
        self._owners = [id(mutation.owner(out.handle)) for _, out in jobs]

    @staticmethod
    def possible(values: Sequence[NDArray], out: NDArray) -> bool:
        """Whether the sum is one between GPUs, of floats."""
        return (device_of(out.context) is not CPU and out.size > 0
                and issubclass(out.dtype, np.floating)
                and all(value.dtype == out.dtype for value in values))

    def fits(self, jobs: Sequence[Job]) -> bool:
        """Whether it was made for these very arrays."""
        return self._ids == [id(handle) for handle in _handles(jobs)]

    def __call__(self) -> None:
        """Form the sums of what the arrays hold now."""
        self._run()
        if mutation.is_watched():
            mutation.written_owners(self._owners)

    def _run(self) -> None:
        raise NotImplementedError


class Sums(Joint):
    """The sums of several jobs, each `possible`."""

    def __init__(self, jobs: Sequence[Job]):
        super().__init__(jobs)
        self._staged: list[tuple[NDArray, NDArray]] = []
        self._first, *self._others = dict.fromkeys(
            device_of(array.context) for values, out in jobs for array in (out, *values))
        updates = [self._update(*job) for job in jobs]
        turns: Iterable[Sequence[int]] = [[i] for i in range(len(jobs))]
        if not overlap(((update.ins, update.outs) for update in updates), self._first):
            turns = _by_device(jobs)
        self._fused = [device_of(jobs[turn[0]][1].context).multi_tensor_apply(
            [updates[i] for i in turn]) for turn in turns]

    @staticmethod
    def possible(values: Sequence[NDArray], out: NDArray) -> bool:
        """Whether the sum can be formed this way.

        A single value that the device cannot read is copied once, not twice.
        """
        return Joint.possible(values, out) and (len(values) > 1 or device_of(out.context).reaches(
            device_of(values[0].context)))

    def _run(self) -> None:
        for source, target in self._staged:
            source.copyto(target)
        self._first.meet(self._others)
        for fused in self._fused:
            for call in fused.calls:
                call()
        self._first.meet(self._others)

    def _update(self, values: Sequence[NDArray], out: NDArray) -> TensorUpdate:
        near = [self._near(value, out).handle for value in values]
        return TensorUpdate(sum_program(len(near)), near, [out.handle])

    def _near(self, value: NDArray, out: NDArray) -> NDArray:
        """`value` where the device of `out` can read it."""
        if device_of(out.context).reaches(device_of(value.context)):
            return value
        copy: NDArray = value.copyto(out.context)  # type: ignore[assignment]
        self._staged.append((value, copy))
        return copy


def _by_device(jobs: Sequence[Job]) -> Iterable[list[int]]:
    """Numbers of jobs whose sums are kept by one device."""
    found: dict[Device, list[int]] = {}
    for number, (_, out) in enumerate(jobs):
        found.setdefault(device_of(out.context), []).append(number)
    return found.values()


def _handles(jobs: Iterable[Job]) -> Iterable[object]:
    return (array.handle for values, out in jobs for array in (*values, out))
