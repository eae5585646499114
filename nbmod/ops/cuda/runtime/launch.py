"""Kernels, launches, and the registry of GPU implementations of ops ("twins").

A kernel is a Python function decorated with `@kernel`; `@grid_stride` makes one of a function that
computes a single element.  Its arguments are pointers, which it only indexes, then scalars; shapes
are constants of the factory that made it, or scalars.  Its integers have 32 bits (see
`int32_typing`), so tensors on a GPU have fewer than 2**31 elements.  A kernel allocates nothing.

A twin has the signature of `Op.prepare`: given the op, its arrays and the `Call`, it selects
kernels and grids and returns `Launch`es, plain values that can be started repeatedly (or compiled
without a device, as the tests do).  What must be decided in every run is a `PerRun` among them, or
a function, which is called in order and may return launches.
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

__all__ = ["cuda", "SIMULATED", "CudaKernel", "Launch", "PerRun", "Prepare", "Scratch", "Step",
           "device_function", "each", "grid_stride", "kernel", "on_gpu", "simulator_lock", "thread",
           "threads", "twin_of"]

SIMULATED = CONFIG.cuda_simulator
"""Whether kernels run in the simulator."""

cuda: Any = import_module(".simulator", __package__).cuda if SIMULATED else import_module(
    "numba.cuda")
"""The module that kernels use as `cuda`."""

THREADS = 4 if SIMULATED else 256
MAX_BLOCKS = 3 if SIMULATED else 4096
"""Grid-stride loops are correct for any grid; in the simulator each thread costs time."""

MAX_COUNT = 2 ** 31 - 1
MAX_THREADS = 1024


# -- kernels ------------------------------------------------------------------------------------


class CudaKernel(NamedTuple):
    """A function that runs on a GPU."""

    function: Callable[..., None]
    min_blocks: int = 1
    """Blocks that must fit on a multiprocessor, as in CUDA's `__launch_bounds__`: it limits the
    registers of a thread."""
    exact: bool = False
    """No fused multiply-add: results are rounded as on the CPU, for values that decide something,
    such as which pixels belong to a region."""


def kernel(function: Any = None, *, min_blocks: int = 1, exact: bool = False) -> Any:
    """Decorator of kernels."""
    if function is None:
        return lambda function: CudaKernel(function, min_blocks, exact)
    return CudaKernel(function, min_blocks, exact)


def grid_stride(function: Any = None, *, exact: bool = False,
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


def device_function(function: Callable) -> Any:
    """Decorator of functions that kernels call."""
    return function if SIMULATED else cuda.jit(device=True)(function)


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

    kernel: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    """`Array`s, then scalars: int is int32, float is float64, NumPy scalars keep their types."""
    own: tuple[Any, ...] = ()
    """Arrays among the arguments that have no other owner; the prepared launch keeps them."""

    def check(self) -> None:
        """MXNetError for arrays or blocks that are too large for a kernel."""
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
    """Launches that the host decides in every run.  They must not depend on results of preceding
    steps: they may be queried before those have run."""

    decide: Callable[[], Sequence[Launch]]

    def __call__(self) -> Sequence[Launch]:
        return self.decide()


Step = Launch | PerRun | Callable[[], Sequence[Launch] | None]
"""An element of a twin's result; a plain function may read results of preceding launches."""


def each(kernel: Any, count: int, *args: Any) -> list[Launch]:
    """Launch a grid-stride kernel over `count` elements; that is its last argument."""
    blocks = max(1, min(-(-count // THREADS), MAX_BLOCKS))
    return [Launch(kernel, (blocks,), (THREADS,), (*args, count))] if count else []


# -- twins --------------------------------------------------------------------------------------

Prepare = Callable[[Any, Sequence[Any], Sequence[Any], Any], list[Any]]
Scratch = Callable[[Any, list[Spec], list[Spec]], list[Spec]]


def _no_scratch(op: Op, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    return []


class Twin(NamedTuple):
    """The GPU implementation of one direction of an op, and its scratch memory."""

    prepare: Prepare
    scratch: Scratch


_TWINS: dict[tuple[type[Op], bool], Twin] = {}
_EXECUTION = {False: {"forward", "prepare", "compute", "compiled", "reduce"},
              True: {"backward", "prepare_backward", "compute_backward", "compiled_backward",
                     "spread"}}


def on_gpu(ops: type[Op] | tuple[type[Op], ...], forward: Prepare | None = None,
           backward: Prepare | None = None, scratch: Scratch = _no_scratch,
           backward_scratch: Scratch = _no_scratch) -> None:
    """Register the GPU twins of one or several ops, and of their subclasses that do not override
    execution."""
    for op in ops if isinstance(ops, tuple) else (ops,):
        for is_backward, twin, rule in ((False, forward, scratch),
                                        (True, backward, backward_scratch)):
            if twin is not None:
                _check_twin(op, twin)
                _TWINS[op, is_backward] = Twin(twin, rule)


def _check_twin(op: type[Op], twin: Prepare) -> None:
    """MXNetError for a twin with another signature."""
    try:
        inspect.signature(twin).bind("op", "ins", "outs", "call")
    except TypeError:
        raise MXNetError(f"{op.__name__}: its GPU twin is {twin}, expected a function of "
                         "(op, ins, outs, call) that returns launches") from None


def twin_of(op: Op) -> Twin | None:
    """The twin of `op`, None if it has none; a `Backward` is looked up by its forward op."""
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
            return None  # it overrides the execution of the remaining bases
    return None


@cache
def _load_twins(module: str) -> None:
    """Import the module of `ops.cuda` with the relative path of an op's module, if it exists."""
    ops, _, _ = __package__.partition(".cuda")
    if not module.startswith(f"{ops}."):
        return
    *packages, _ = twin = module.replace(ops, f"{ops}.cuda", 1).split(".")
    if find_spec(".".join(packages)) is not None and find_spec(".".join(twin)) is not None:
        import_module(".".join(twin))
