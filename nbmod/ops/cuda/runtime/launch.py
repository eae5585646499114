"""Kernels, launches, and which op has which twin.

A kernel is a Python function under `@kernel`.  It gets pointers to elements, which it only indexes,
then numbers; shapes are constants of the factory that made it, or numbers.  Its integers have 32
bits (see `narrow`), so no tensor on a GPU has 2**31 elements.  A kernel allocates nothing.

A twin looks like `Op.prepare`: from the op, its arrays and the `Call` it chooses kernels and sizes
and returns `Launch`es, plain values that can be started again and again (or compiled without a
device, as the tests do).  What must be decided anew in every run is a `PerRun` among them, or a
function, which is called in its turn and may return launches.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any, NamedTuple

from ....base import MXNetError
from ....config import CONFIG
from ...op import Backward, Op, Spec

__all__ = ["cuda", "SIMULATED", "Kernel", "Launch", "PerRun", "Step", "device_function", "each",
           "gate", "kernel", "on_gpu", "thread", "threads", "twin_of"]

SIMULATED = CONFIG.cuda_simulator
"""Kernels run in the simulator."""

cuda: Any = import_module(".simulator", __package__).cuda if SIMULATED else import_module(
    "numba.cuda")
"""What kernels know by that name."""

THREADS = 4 if SIMULATED else 256
MAX_BLOCKS = 3 if SIMULATED else 4096
"""Grid-stride loops make any grid right; in the simulator threads are what costs."""

MAX_COUNT = 2 ** 31 - 1
MAX_THREADS = 1024


# -- kernels ------------------------------------------------------------------------------------


class Kernel(NamedTuple):
    """A function that runs on a GPU."""

    function: Callable[..., None]
    resident: int = 1
    """How many blocks a multiprocessor shall have room for: it bounds the registers of each."""
    exact: bool = False
    """Products are rounded before they are added, as on the CPU: for numbers that decide something,
    such as which pixels belong to a region."""


def kernel(function: Any = None, *, resident: int = 1, exact: bool = False) -> Any:
    """Decorator of kernels."""
    if function is None:
        return lambda function: Kernel(function, resident, exact)
    return Kernel(function, resident, exact)


def device_function(function: Callable) -> Any:
    """Decorator of functions that kernels call."""
    return function if SIMULATED else cuda.jit(device=True)(function)


@device_function
def thread():
    """The number of this thread in a grid of one dimension."""
    return cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x


@device_function
def threads():
    """How many threads a grid of one dimension has."""
    return cuda.gridDim.x * cuda.blockDim.x


gate: Any = threading.RLock() if SIMULATED else contextlib.nullcontext()
"""The simulator runs one kernel at a time."""


# -- launches -----------------------------------------------------------------------------------


class Launch(NamedTuple):
    """One start of a kernel."""

    kernel: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    """`memory.Array`s, then numbers: int is an int32, float a float64, NumPy's keep their types."""
    own: tuple[Any, ...] = ()
    """Arrays among the arguments that nobody else keeps: they live as long as the launch can be
    started."""

    def check(self) -> None:
        """MXNetError for what a GPU cannot count or hold."""
        name, threads = self.kernel.function.__name__, prod(self.block)
        for arg in self.args:
            count = arg.size if hasattr(arg, "block") else arg
            if isinstance(count, int) and count > MAX_COUNT:
                raise MXNetError(f"GPU kernel {name}: {count:,} elements; kernels count in 32 "
                                 f"bits, so {MAX_COUNT:,} is the most: split the tensor, or use "
                                 "mx.cpu()")
        if not 0 < threads <= MAX_THREADS:
            raise MXNetError(f"GPU kernel {name}: blocks of {threads} threads; from 1 to "
                             f"{MAX_THREADS} are possible")


class PerRun(NamedTuple):
    """Launches that are decided anew in every run, by what the host knows: they may be asked for
    before the steps ahead have run."""

    decide: Callable[[], Sequence[Launch]]

    def __call__(self) -> Sequence[Launch]:
        return self.decide()


Step = Launch | PerRun | Callable[[], Sequence[Launch] | None]
"""What a twin returns a list of; a plain function may read what ran before it on the card."""


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
    """Import the file of `ops.cuda` at the place that an op's module has in `ops`, if there is
    one."""
    ops, _, _ = __package__.partition(".cuda")
    if not module.startswith(f"{ops}."):
        return
    *packages, _ = twin = module.replace(ops, f"{ops}.cuda", 1).split(".")
    if find_spec(".".join(packages)) is not None and find_spec(".".join(twin)) is not None:
        import_module(".".join(twin))
