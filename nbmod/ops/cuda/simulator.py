"""Running kernels in numba's CUDA simulator, with a scheduler of our own.

numba's starts an operating system thread for every GPU thread of a block, lets them compete, and
polls them at barriers.  Here one runs at a time, in order, up to its next barrier or its end, and
only kernels that have barriers need threads at all.  That is some hundred times faster, the same in
every run, and strict: a thread is as far ahead of the others as the barriers allow, so a kernel
that lacks one computes something else.  For the same reason shared and local memory starts as NaN.

Everything else is numba's: `Grid` is its stand-in for the module `cuda` inside a kernel.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numba.cuda.simulator.kernelapi import Dim3, FakeCUDAModule, swapped_cuda_module

__all__ = ["run"]

backwards = False
"""Whether threads and blocks run from the last to the first: results must not change."""


def run(function: Callable[..., None], grid: Sequence[int], block: Sequence[int],
        args: Sequence[Any]) -> None:
    """Run a kernel's function over a grid of blocks; arrays among `args` are NumPy's."""
    cuda = Grid(grid, block)
    execute = _together if "syncthreads" in function.__code__.co_names else _one_by_one
    with swapped_cuda_module(function, cuda), np.errstate(all="ignore"):
        for cuda.block in _indices(grid):
            cuda.memory.clear()
            execute(cuda, function, args)


def _indices(extents: Sequence[int]) -> Iterator[Dim3]:
    x, y, z = (*extents, 1, 1)[:3]
    order = range(x * y * z)
    for i in reversed(order) if backwards else order:
        yield Dim3(i % x, i // x % y, i // (x * y))


class Grid(FakeCUDAModule):
    """The module `cuda` as a kernel sees it while it runs."""

    def __init__(self, grid: Sequence[int], block: Sequence[int]):
        super().__init__((*grid, 1, 1)[:3], (*block, 1, 1)[:3], 0)
        self.block: Any = None
        self.lane: Any = None
        self.memory: dict[Any, np.ndarray] = {}
        self._shared = _Memory(self.memory)
        self._local = _Memory(None)

    @property
    def threadIdx(self) -> Dim3:  # noqa: N802 - CUDA's name
        return self.lane.index

    @property
    def blockIdx(self) -> Dim3:  # noqa: N802 - CUDA's name
        return self.block

    def syncthreads(self) -> None:
        self.lane.wait()


class _Memory:
    """`cuda.shared` or `cuda.local`: with `known`, one array for every place in the kernel."""

    def __init__(self, known: dict[Any, np.ndarray] | None):
        self.known = known

    def array(self, shape: Any, dtype: Any) -> np.ndarray:
        if self.known is None:
            return np.full(shape, np.nan, dtype)
        caller = sys._getframe(1)
        place = caller.f_code, caller.f_lasti
        if place not in self.known:
            self.known[place] = np.full(shape, np.nan, dtype)
        return self.known[place]


# -- the threads of a block ---------------------------------------------------------------------


class _Lane:
    """A thread of a kernel without barriers."""

    def __init__(self, index: Dim3):
        self.index = index


def _one_by_one(cuda: Grid, function: Callable[..., None], args: Sequence[Any]) -> None:
    for index in _indices(tuple(cuda.blockDim)):
        cuda.lane = _Lane(index)
        try:
            function(*args)
        except Exception as error:
            raise _located(cuda, function, error) from error


def _together(cuda: Grid, function: Callable[..., None], args: Sequence[Any]) -> None:
    lanes = [_Waiting(index, function, args) for index in _indices(tuple(cuda.blockDim))]
    try:
        going = lanes
        while going:
            for lane in going:
                cuda.lane = lane
                lane.resume()
                if lane.error is not None:
                    raise _located(cuda, function, lane.error) from lane.error
            rest = [lane for lane in going if lane.is_waiting]
            if rest and len(rest) < len(going):
                cuda.lane = rest[0]
                raise _located(cuda, function, RuntimeError("waits at a barrier that others of its "
                                                            "block never reach"))
            going = rest
    finally:
        for lane in lanes:
            lane.abandon()


def _located(cuda: Grid, function: Callable[..., None], error: Exception) -> RuntimeError:
    return RuntimeError(f"kernel {function.__name__}: thread {cuda.lane.index} of block "
                        f"{cuda.block}: {error!r}")


class _Abandoned(BaseException):
    """Ends a thread that nobody will resume."""


class _Waiting(threading.Thread):
    """A thread of a kernel with barriers; it and its master take turns."""

    def __init__(self, index: Dim3, function: Callable[..., None], args: Sequence[Any]):
        super().__init__(daemon=True)
        self.index, self.function, self.args = index, function, args
        self.error: Exception | None = None
        self.is_waiting = True
        self.is_abandoned = False
        self.mine, self.masters = threading.Lock(), threading.Lock()
        self.mine.acquire()
        self.masters.acquire()
        self.start()

    def run(self) -> None:
        self.mine.acquire()
        try:
            if not self.is_abandoned:
                with np.errstate(all="ignore"):
                    self.function(*self.args)
        except _Abandoned:
            pass
        except Exception as error:
            self.error = error
        self.is_waiting = False
        self.masters.release()

    def wait(self) -> None:
        """Let the others run up to this barrier."""
        self.masters.release()
        self.mine.acquire()
        if self.is_abandoned:
            raise _Abandoned

    def resume(self) -> None:
        """Run this thread to its next barrier, or its end."""
        self.mine.release()
        self.masters.acquire()

    def abandon(self) -> None:
        """End the thread."""
        self.is_abandoned = True
        if self.is_waiting:
            self.resume()
        self.join()
