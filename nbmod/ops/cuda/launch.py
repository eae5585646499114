"""The door to numba.cuda: kernels, launches, and which op has which twin.

A kernel is a Python function under `@kernel`.  It gets flat arrays, which it only indexes, then
numbers; shapes are constants of the factory that made it, or numbers.  So what a kernel is given
could be bare pointers as well.

A twin looks like `Op.prepare`: from the op, its arrays and the `Call` it chooses kernels and sizes
and returns `Launch`es, plain values that can be started again and again (or compiled without a
device, as the tests do).  What must be decided anew in every run is a function among them: it is
called in its turn and may return launches.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from ...base import MXNetError
from ..op import Backward, Op, Spec

__all__ = ["cuda", "SIMULATED", "Launch", "Step", "device_function", "each", "gate",
           "kernel", "on_gpu", "twin_of"]

SIMULATED = bool(cuda.config.ENABLE_CUDASIM)
"""Kernels run in numba's simulator: every GPU thread is a Python thread."""

# numba's advice to launch more threads would come with every small network.
cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

if getattr(cuda, "implementation", "") == "NVIDIA" and "row_stack" not in vars(np):
    np.row_stack = np.vstack  # numba-cuda asks for it; gone in 2.5

THREADS = 4 if SIMULATED else 256
MAX_BLOCKS = 3 if SIMULATED else 4096
"""Grid-stride loops make any grid right; in the simulator threads are what costs."""


# -- kernels ------------------------------------------------------------------------------------


def kernel(function: Callable) -> Any:
    """Decorator of kernels."""
    return cuda.jit(function)


def device_function(function: Callable) -> Any:
    """Decorator of functions that kernels call; they must not mention `cuda` themselves."""
    return function if SIMULATED else cuda.jit(device=True)(function)


gate: Any = threading.RLock() if SIMULATED else contextlib.nullcontext()
"""The simulator runs one kernel at a time."""


# -- launches -----------------------------------------------------------------------------------


class Launch(NamedTuple):
    """One start of a kernel."""

    kernel: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    """`memory.Array`s, then Python or NumPy numbers."""


Step = Launch | Callable[[], Sequence[Launch] | None]
"""What a twin returns a list of."""


def each(kernel: Any, count: int, *args: Any) -> list[Launch]:
    """A grid-stride kernel over `count` elements, which it gets as its last argument."""
    blocks = max(1, min(-(-count // THREADS), MAX_BLOCKS))
    return [Launch(kernel, (blocks,), (THREADS,), (*args, count))] if count else []


# -- twins --------------------------------------------------------------------------------------

Prepare = Callable[[Any, Sequence[Any], Sequence[Any], Any], list[Any]]
Scratch = Callable[[Any, list[Spec], list[Spec]], list[Spec]]


def _no_scratch(op: Op, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    return []


class Twin(NamedTuple):
    """How one direction of an op runs on a GPU, and the scratch memory it wants there."""

    prepare: Prepare
    scratch: Scratch


_TWINS: dict[tuple[type[Op], bool], Twin] = {}
_EXECUTION = {False: {"forward", "prepare", "compute", "compiled", "reduce"},
              True: {"backward", "prepare_backward", "compute_backward", "compiled_backward",
                     "spread"}}


def on_gpu(op: type[Op], forward: Prepare | None = None, backward: Prepare | None = None,
           scratch: Scratch = _no_scratch, backward_scratch: Scratch = _no_scratch) -> None:
    """Enter the GPU twins of `op`, and of its subclasses that execute as it does."""
    for twin in (forward, backward):
        _check_twin(op, twin)
    if forward is not None:
        _TWINS[op, False] = Twin(forward, scratch)
    if backward is not None:
        _TWINS[op, True] = Twin(backward, backward_scratch)


def _check_twin(op: type[Op], twin: Prepare | None) -> None:
    """MXNetError for a twin that cannot be called as one."""
    try:
        if twin is not None:
            inspect.signature(twin).bind("op", "ins", "outs", "call")
    except TypeError:
        raise MXNetError(f"{op.__name__}: its GPU twin is {twin}, expected a function of "
                         "(op, ins, outs, call) that returns launches") from None


def twin_of(op: Op) -> Twin | None:
    """How `op` runs on a GPU, None if it does not; a `Backward` is looked up by its forward op."""
    kind: Any = type(op.fwd if isinstance(op, Backward) else op)
    return _find_twin(kind, isinstance(op, Backward))


@cache
def _find_twin(kind: Any, backward: bool) -> Twin | None:
    for base in kind.__mro__:
        _load_twins(base.__module__)
        if vars(base).get("gpu_module"):
            import_module(base.gpu_module)
        if (base, backward) in _TWINS:
            return _TWINS[base, backward]
        if _EXECUTION[backward] & vars(base).keys():
            return None  # it does otherwise than the bases whose twins might follow
    return None


@cache
def _load_twins(module: str) -> None:
    """Import the file of this folder with the name of an op's module, if there is one."""
    package, _, name = module.rpartition(".")
    if __package__ == f"{package}.cuda" and find_spec(f".{name}", __package__) is not None:
        import_module(f".{name}", __package__)
