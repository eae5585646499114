"""A GPU simulator: runs the Python source of kernels, one thread at a time, and exposes races.

`cuda` replaces the module of that name in kernels.  The threads of a block are coroutines: each
runs to its next synchronisation, a barrier or a warp operation, and the `schedule` decides which
runs next.  Threads run as far ahead of each other as the barriers allow, so a kernel that lacks a
barrier has a different result under some schedule:

    forward     all threads in lock step, first to last
    backward    the same, last to first
    deep        a warp runs as far as it can before the next one, in a random order that is the same
                in every run

Shared, local and newly allocated device memory is NaN; pointers are bounds-checked.  What is
undefined on a GPU is an error, such as a barrier that not all threads of a block reach.

Coroutines are greenlets if installed, else Python threads, which are much slower.  Kernels without
synchronisation need neither.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ....core.interrupts import from_handler
from .coroutines import Coroutine
from .device_memory import Array

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from .launch import Launch

__all__ = ["Card", "SCHEDULES", "cuda", "run", "schedule"]

SCHEDULES = ("forward", "backward", "deep")
schedule = "forward"
WARP = 32
_WAITING = frozenset([
    "syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or", "syncwarp",
    "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "ballot_sync", "all_sync",
    "any_sync", "exchange"])


class Index(NamedTuple):
    """The index of a thread or block, or the extents of a block or grid."""

    x: int
    y: int
    z: int


class Wait(NamedTuple):
    """The synchronisation that a lane waits at."""

    operation: str
    place: tuple[Any, int]
    """Code object and line."""
    mask: int
    """The participating lanes of the warp; 0: the whole block."""


class Lane:
    """A thread of a block."""

    def __init__(self, number: int, block: Index):
        self.number = number
        self.index = Index(number % block.x, number // block.x % block.y,
                           number // (block.x * block.y))
        self.warp, self.lane = divmod(number, WARP)
        self.coroutine: Any = None
        self.waits: Wait | None = None
        self.value: Any = None
        self.met: dict[Any, Any] = {}


# -- the interface of kernels -------------------------------------------------------------------


class Cuda:
    """The module `cuda` inside a kernel."""

    def __init__(self) -> None:
        self.lane: Any = None
        self.blockIdx = self.blockDim = self.gridDim = Index(0, 0, 0)
        self.shared, self.local = MemorySpace(), MemorySpace()
        self.atomic = Atomic()
        self.warpsize = WARP

    @property
    def threadIdx(self) -> Index:  # noqa: N802 - CUDA's name
        return self.lane.index

    @property
    def laneid(self) -> int:
        return self.lane.lane

    def grid(self, rank: int) -> Any:
        at = tuple(b * d + t for b, d, t in zip(self.blockIdx, self.blockDim, self.threadIdx,
                                                strict=True))
        return at[0] if rank == 1 else at[:rank]

    def gridsize(self, rank: int) -> Any:
        size = tuple(g * d for g, d in zip(self.gridDim, self.blockDim, strict=True))
        return size[0] if rank == 1 else size[:rank]

    def exchange(self, value: object, operation: str, mask: int = 0, up: int = 2) -> dict[Any, Any]:
        """Wait until the lanes of `mask`, or the block, are here; return the value of each."""
        caller, lane = sys._getframe(up), self.lane
        lane.value = value
        lane.waits = Wait(operation, (caller.f_code, caller.f_lineno), int(mask) & 0xFFFFFFFF)
        lane.coroutine.wait()
        return lane.met

    def syncthreads(self) -> None:
        self.exchange(None, "syncthreads")

    def syncthreads_count(self, predicate: object) -> int:
        return sum(map(bool, self.exchange(_vote(predicate), "syncthreads_count").values()))

    def syncthreads_and(self, predicate: object) -> int:
        return int(all(self.exchange(_vote(predicate), "syncthreads_and").values()))

    def syncthreads_or(self, predicate: object) -> int:
        return int(any(self.exchange(_vote(predicate), "syncthreads_or").values()))

    def syncwarp(self, mask: int = 0xFFFFFFFF) -> None:
        self.exchange(None, "syncwarp", mask)

    def activemask(self) -> int:
        going = self.lane.warp * WARP
        threads = self.blockDim.x * self.blockDim.y * self.blockDim.z
        return (1 << min(WARP, threads - going)) - 1

    def ballot_sync(self, mask: int, predicate: object) -> int:
        votes = self.exchange(predicate, "ballot_sync", mask)
        return sum(1 << lane for lane, vote in votes.items() if vote)

    def all_sync(self, mask: int, predicate: object) -> bool:
        return all(self.exchange(predicate, "all_sync", mask).values())

    def any_sync(self, mask: int, predicate: object) -> bool:
        return any(self.exchange(predicate, "any_sync", mask).values())

    def shfl_sync(self, mask: int, value: np.generic, source: int) -> Any:
        return self.exchange(value, "shfl_sync", mask).get(int(source) % WARP, value)

    def shfl_up_sync(self, mask: int, value: np.generic, delta: int) -> Any:
        return self.exchange(value, "shfl_up_sync", mask).get(self.lane.lane - int(delta), value)

    def shfl_down_sync(self, mask: int, value: np.generic, delta: int) -> Any:
        return self.exchange(value, "shfl_down_sync", mask).get(self.lane.lane + int(delta), value)

    def shfl_xor_sync(self, mask: int, value: np.generic, bits: int) -> Any:
        return self.exchange(value, "shfl_xor_sync", mask).get(self.lane.lane ^ int(bits), value)

    def threadfence(self) -> None:
        """Nothing to do: writes are visible at once."""

    threadfence_block = threadfence_system = threadfence


def _vote(predicate: object) -> object:
    """The predicate of a barrier, which must be an int32: devices do not accept booleans."""
    if isinstance(predicate, (bool, np.bool_)):
        raise TypeError("barriers that ask take an int32: np.int32(...) of the condition")
    return predicate


def _poisoned(shape: int | tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    array = np.empty(shape, dtype)
    array.view(np.uint8)[...] = 0xFF if array.dtype.kind in "fc" else 0x7F
    return array


class MemorySpace:
    """`cuda.shared` or `cuda.local`; shared arrays are in `known`, by the location of their
    declaration."""

    known: dict[Any, np.ndarray] | None = None

    def array(self, shape: int | tuple[int, ...], dtype: DTypeLike, alignment: int | None = None
              ) -> np.ndarray:
        if self.known is None:
            return _poisoned(shape, dtype)
        caller = sys._getframe(1)
        place = caller.f_code, caller.f_lasti
        if place not in self.known:
            self.known[place] = _poisoned(shape, dtype)
        return self.known[place]


class Atomic:
    """`cuda.atomic`, for shared arrays; every operation returns the old value."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        rules: dict[str, Callable[[Any, Any], Any]] = {
            "add": lambda old, new: old + new, "sub": lambda old, new: old - new,
            "max": max, "min": min, "exch": lambda old, new: new,
            "and_": lambda old, new: old & new, "or_": lambda old, new: old | new,
            "xor": lambda old, new: old ^ new}
        if name not in rules:
            raise AttributeError(f"the simulator has no cuda.atomic.{name}")

        def update(array: Pointer | np.ndarray, index: int, value: np.generic) -> Any:
            before = array[index]
            array[index] = rules[name](before, value)
            return before

        return update

    def cas(self, array: Pointer | np.ndarray, index: int, expected: np.generic, value: np.generic
            ) -> Any:
        before = array[index]
        if before == expected:
            array[index] = value
        return before


cuda = Cuda()


class Pointer:
    """An array argument of a kernel: it can only be indexed."""

    __slots__ = ("elements",)

    def __init__(self, elements: np.ndarray):
        self.elements = elements

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            raise IndexError(f"element {index} of {len(self.elements)}")
        return self.elements[index]

    def __setitem__(self, index: int, value: np.generic) -> None:
        if index < 0:
            raise IndexError(f"element {index} of {len(self.elements)}")
        self.elements[index] = value


# -- execution ----------------------------------------------------------------------------------


def run(function: Callable[..., None], grid: Sequence[int], block: Sequence[int],
        args: Sequence[Any]) -> None:
    """Run a kernel's function over a grid of blocks; arrays among `args` are flat NumPy arrays."""
    cuda.gridDim, cuda.blockDim = (Index(*(*size, 1, 1)[:3]) for size in (grid, block))
    arguments = [Pointer(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    execute = _run_coroutines if _waits(function) else _run_threads
    with np.errstate(all="ignore"):
        blocks = range(cuda.gridDim.x * cuda.gridDim.y * cuda.gridDim.z)
        for number in blocks[::-1] if schedule == "backward" else blocks:
            x, y, _ = cuda.gridDim
            cuda.blockIdx = Index(number % x, number // x % y, number // (x * y))
            cuda.shared.known = {}
            execute(function, arguments)


@cache
def _waits(function: Callable) -> bool:
    """Whether a function, or one that it calls, synchronises threads."""
    functions, todo = set(), list[Any]([function])
    while todo:
        current = todo.pop()
        if not isinstance(current, FunctionType) or current in functions:
            continue
        functions.add(current)
        names = _names(current.__code__)
        if names & _WAITING:
            return True
        todo += [current.__globals__.get(name) for name in names]
        todo += [cell.cell_contents for cell in current.__closure__ or ()]
    return False


def _names(code: CodeType) -> set[str]:
    inner = [_names(const) for const in code.co_consts if hasattr(const, "co_names")]
    return set(code.co_names).union(*inner)


def _lanes() -> list[Lane]:
    x, y, z = cuda.blockDim
    return [Lane(number, cuda.blockDim) for number in range(x * y * z)]


def _run_threads(function: Callable[..., None], args: Sequence[Any]) -> None:
    lanes = _lanes()
    for cuda.lane in reversed(lanes) if schedule == "backward" else lanes:
        try:
            function(*args)
        except Exception as error:
            if from_handler(error):
                raise
            raise _located(function, cuda.lane, error) from error


def _run_coroutines(function: Callable[..., None], args: Sequence[Any]) -> None:
    """Run a block whose threads synchronise."""
    lanes = _lanes()
    warps = [lanes[start:start + WARP] for start in range(0, len(lanes), WARP)]
    for lane in lanes:
        lane.coroutine = Coroutine(function, args)
    rng = random.Random(f"{cuda.blockIdx}")
    try:
        while any(not lane.coroutine.finished for lane in lanes):
            if not _step_warps(function, warps, rng):
                _pass_barrier(function, lanes)
    finally:
        for lane in lanes:
            lane.coroutine.cancel()


def _step_warps(function: Callable[..., None], warps: list[list[Lane]], rng: random.Random
                ) -> bool:
    """Run every warp that can run; False if none can."""
    order = list(warps)
    if schedule == "deep":
        rng.shuffle(order)
    moved = False
    for warp in order[::-1] if schedule == "backward" else order:
        moved |= _step_warp(function, warp, rng)
        while schedule == "deep" and _step_warp(function, warp, rng):
            pass
    return moved


def _step_warp(function: Callable[..., None], warp: list[Lane], rng: random.Random) -> bool:
    """Run the lanes of a warp that do not wait, then complete its warp operations."""
    order = [lane for lane in warp if lane.waits is None and not lane.coroutine.finished]
    if schedule == "deep":
        rng.shuffle(order)
    for lane in order[::-1] if schedule == "backward" else order:
        cuda.lane = lane
        lane.coroutine.resume()
        if lane.coroutine.error is not None:
            raise _located(function, lane, lane.coroutine.error) from lane.coroutine.error
    return _release_warps(function, warp) or bool(order)


def _release_warps(function: Callable[..., None], warp: list[Lane]) -> bool:
    """Release the lanes of a warp that all wait at the same operation."""
    groups: dict[Wait, list[Lane]] = {}
    for lane in warp:
        if lane.waits is not None and lane.waits.mask:
            groups.setdefault(lane.waits, []).append(lane)
    released = False
    for wait, group in groups.items():
        present = [lane for lane in warp if wait.mask >> lane.lane & 1]
        finished = [lane for lane in present if lane.coroutine.finished]
        if finished:
            raise _located(function, group[0], RuntimeError(
                f"waits at {_place(wait)} for lane {finished[0].lane}, which has ended"))
        if len(group) == len(present):
            _release(group)
            released = True
    return released


def _release(lanes: list[Lane]) -> None:
    met: dict[Any, Any] = {(lane.lane if lane.waits and lane.waits.mask else lane.number):
                           lane.value for lane in lanes}
    for lane in lanes:
        lane.met, lane.waits = met, None


def _pass_barrier(function: Callable[..., None], lanes: list[Lane]) -> None:
    """Release the block, whose threads must all wait at the same barrier."""
    going = [lane for lane in lanes if not lane.coroutine.finished]
    waits = {lane.waits for lane in going}
    if len(waits) > 1:
        places = " and at ".join(sorted(_place(wait) for wait in waits if wait))
        raise _located(function, going[0], RuntimeError(
            f"its block has come apart: threads wait at {places}"))
    wait = going[0].waits
    assert wait is not None
    if len(going) < len(lanes) or wait.mask:
        raise _located(function, going[0], RuntimeError(
            f"waits at {_place(wait)}, a barrier that others of its block never reach"))
    _release(going)


def _place(wait: Wait) -> str:
    code, line = wait.place
    return f"{wait.operation} in {code.co_name}, line {line}"


def _located(function: Callable[..., None], lane: Lane, error: Exception) -> RuntimeError:
    return RuntimeError(f"kernel {function.__name__}: thread {tuple(lane.index)} of block "
                        f"{tuple(cuda.blockIdx)}: {error!r}")


# -- the device ---------------------------------------------------------------------------------


class Block:
    """An allocation; its memory starts as NaN."""

    def __init__(self, nbytes: int):
        self.memory = np.full(nbytes, 0xFF, np.uint8)
        self.address = self.memory.__array_interface__["data"][0]

    def part(self, offset: int, nbytes: int) -> np.ndarray:
        return self.memory[offset:offset + nbytes]


class PreparedLaunch:
    """A launch."""

    def __init__(self, launch: Launch):
        self.launch, self.function = launch, launch.kernel.function
        self.args = [cast(Block, arg.block).part(arg.offset, arg.nbytes).view(arg.dtype)
                     if isinstance(arg, Array) else arg for arg in launch.args]

    def __call__(self) -> None:
        run(self.function, self.launch.grid, self.launch.block, self.args)


class CudaGraph:
    """Launches that run together."""

    def __init__(self, starts: Sequence[PreparedLaunch]):
        self.starts = list(starts)

    def exchange(self, number: int, start: PreparedLaunch) -> bool:
        if start.function is not self.starts[number].function:
            return False
        self.starts[number] = start
        return True

    def launch(self) -> None:
        for start in self.starts:
            start()


class Card:
    """The single GPU of the simulator, with the interface of `driver.Card`."""

    @staticmethod
    def count() -> int:
        return 1

    @staticmethod
    def trouble() -> str:
        return ""

    def __init__(self, number: int):
        self.number = number

    def memory(self) -> tuple[int, int]:
        return sys.maxsize, sys.maxsize

    def allocate(self, nbytes: int) -> Block:
        return Block(nbytes)

    def upload(self, host: np.ndarray, block: Block, offset: int) -> None:
        block.part(offset, host.nbytes)[:] = host.reshape(-1).view(np.uint8)

    def download(self, block: Block, offset: int, host: np.ndarray) -> None:
        host.reshape(-1).view(np.uint8)[:] = block.part(offset, host.nbytes)

    def move(self, source: tuple[Block, int], target: tuple[Block, int], nbytes: int) -> None:
        target[0].part(target[1], nbytes)[:] = source[0].part(source[1], nbytes)

    def receive(self, _other: Card, source: tuple[Block, int], target: tuple[Block, int],
                nbytes: int) -> bool:
        """Copy from another GPU of the simulator, whose memory is the host's, too."""
        self.move(source, target, nbytes)
        return True

    def prepare(self, launch: Launch, holds: bool = True) -> PreparedLaunch:
        return PreparedLaunch(launch)

    def graph(self, starts: Sequence[PreparedLaunch]) -> CudaGraph:
        return CudaGraph(starts)

    def synchronize(self) -> None:
        """Nothing to do: launches are synchronous."""
