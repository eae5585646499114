"""Kernels and launches: what GPU implementations of ops consist of.

A kernel is a Python function decorated with `@kernel`; `@grid_stride` makes one of a function that
computes a single element.  Its arguments are pointers, which it only indexes, then scalars; shapes
are constants of the factory that made it, or scalars.  Its integers have 32 bits (see
`int32_typing`), so tensors on a GPU have fewer than 2**31 elements.  A kernel allocates nothing.

The implementation "cuda" of an op (`ops.dispatch`), its *twin*, is a function of the op, its arrays
and the `Call`: it selects kernels and grids and returns `Launch`es, plain values that can be
started repeatedly (or compiled without a device, as the tests do).  What must be decided in every
run is a `PerRun` among them, or a function, which is called in order and may return launches.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from typing import Any, NamedTuple, TypeVar, cast

from ....base import MXNetError
from ....core.config import CONFIG
from .compiler import compiler
from .device_memory import Argument, Array

__all__ = ["cuda", "SIMULATED", "Argument", "CudaKernel", "Launch", "PerRun", "Step", "cache",
           "device_function", "each", "grid_stride", "kernel", "simulator_lock", "thread",
           "threads"]

SIMULATED = CONFIG.cuda_simulator
"""Whether kernels run in the simulator."""

cuda: Any = import_module(".simulator", __package__).cuda if SIMULATED else compiler().cuda
"""The module that kernels use as `cuda`."""

THREADS = 4 if SIMULATED else 256
MAX_BLOCKS = 3 if SIMULATED else 4096
"""Grid-stride loops are correct for any grid; in the simulator each thread costs time."""

MAX_COUNT = 2 ** 31 - 1
MAX_THREADS = 1024


# -- kernels ------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable)


def cache(function: F) -> F:
    """`functools.cache` with parameters that type checkers know."""
    return cast(F, functools.cache(function))


class CudaKernel(NamedTuple):
    """A function that runs on a GPU."""

    function: Callable[..., None]
    min_blocks: int = 1
    """Blocks that must fit on a multiprocessor, as in CUDA's `__launch_bounds__`: it limits the
    registers of a thread."""
    exact: bool = False
    """No fused multiply-add: results are rounded as on the CPU, for values that decide something,
    such as which pixels belong to a region."""


def kernel(function: Callable | None = None, *, min_blocks: int = 1, exact: bool = False) -> Any:
    """Decorator of kernels."""
    if function is None:
        return lambda function: CudaKernel(function, min_blocks, exact)
    return CudaKernel(function, min_blocks, exact)


def grid_stride(function: Callable | None = None, *, exact: bool = False,
                indices: str = "thread(), count, threads()") -> Any:
    """Decorator of functions (i, *args): a kernel (*args, count) calls them for every i < count, in
    a grid-stride loop; `each` launches it."""
    if function is None:
        return lambda function: grid_stride(function, exact=exact, indices=indices)
    names = ", ".join([*inspect.signature(function).parameters][1:])
    scope = {"_element": device_function(function), "thread": thread, "threads": threads,
             "cuda": cuda, "__name__": function.__module__}
    exec(f"def {function.__name__}({names}, count):\n"
         f"    for _i in range({indices}):\n"
         f"        _element(_i, {names})", scope)
    return CudaKernel(scope[function.__name__], exact=exact)


def device_function(function: Callable) -> Callable:
    """Decorator of functions that kernels call."""
    return function if SIMULATED else compiler().device_function(function)


@device_function
def thread():
    """The index of this thread in a one-dimensional grid."""
    return cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x


@device_function
def threads():
    """The number of threads of a one-dimensional grid."""
    return cuda.gridDim.x * cuda.blockDim.x


simulator_lock: Any = threading.RLock() if SIMULATED else contextlib.nullcontext()
"""Held while kernels run in the simulator, which runs one at a time."""


# -- launches -----------------------------------------------------------------------------------


class Launch(NamedTuple):
    """One start of a kernel."""

    kernel: CudaKernel
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Argument, ...]
    """Arrays, then scalars."""
    own: tuple[Array, ...] = ()
    """Arrays among the arguments that have no other owner; the prepared launch keeps them."""

    def check(self) -> None:
        """MXNetError for arrays or blocks that are too large for a kernel."""
        name, threads = self.kernel.function.__name__, prod(self.block)
        for arg in self.args:
            count = arg.size if isinstance(arg, Array) else arg
            if isinstance(count, int) and count > MAX_COUNT:
                raise MXNetError(f"GPU kernel {name}: {count:,} elements; kernels count in 32 "
                                 f"bits, so {MAX_COUNT:,} is the most: split the tensor, or use "
                                 "mx.cpu()")
        if not 0 < threads <= MAX_THREADS:
            raise MXNetError(f"GPU kernel {name}: blocks of {threads} threads; from 1 to "
                             f"{MAX_THREADS} are possible")


class PerRun(NamedTuple):
    """Launches that the host decides in every run.  They must not depend on results of preceding
    steps: they may be queried before those have run."""

    decide: Callable[[], Sequence[Launch]]

    def __call__(self) -> Sequence[Launch]:
        return self.decide()


Step = Launch | PerRun | Callable[[], Sequence[Launch] | None]
"""An element of a twin's result; a plain function may read results of preceding launches."""


def each(kernel: CudaKernel, count: int, *args: Argument) -> list[Launch]:
    """Launch a grid-stride kernel over `count` elements; that is its last argument."""
    blocks = max(1, min(-(-count // THREADS), MAX_BLOCKS))
    return [Launch(kernel, (blocks,), (THREADS,), (*args, count))] if count else []
