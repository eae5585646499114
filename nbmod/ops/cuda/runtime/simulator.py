"""A GPU in Python: runs the source of a kernel, one thread at a time, and is hard on it.

`cuda` is what a kernel sees as the module of that name.  The threads of a block take turns: each
runs up to the next place where it must wait for others, a barrier or an operation of its warp, and
the `schedule` says whose turn it is.  A thread is as far ahead of the others as the barriers allow,
so a kernel that lacks one computes something else under one schedule or another:

    forward     all threads go in lock step, first to last
    backward    the same, last to first
    deep        one warp goes as far as it can before another starts, in an order drawn by lot,
                which is the same in every run

Shared and local memory starts as NaN, fresh device memory too; pointers know their ends; copies by
`cp.async` arrive when they are waited for and not before.  What a GPU would leave undefined is an
error: a barrier that part of a block does not reach, or reaches elsewhere.

Turns are switches of greenlets where those are installed, else of Python's threads, which take much
longer.  Kernels in which nobody waits need neither.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from .coroutines import Strand

__all__ = ["Card", "SCHEDULES", "cuda", "run", "schedule"]

SCHEDULES = ("forward", "backward", "deep")
schedule = "forward"
WARP = 32
_WAITING = frozenset([
    "syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or", "syncwarp",
    "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "ballot_sync", "all_sync",
    "any_sync", "exchange"])


class Index(NamedTuple):
    """Where a thread or a block stands, or how many there are."""

    x: int
    y: int
    z: int


class Wait(NamedTuple):
    """Why a lane does not go on."""

    operation: str
    place: tuple[Any, int]
    """Code and position in it."""
    mask: int
    """The lanes of its warp that meet; 0: the whole block."""


class Lane:
    """A thread of a block."""

    def __init__(self, number: int, block: Index):
        self.number = number
        self.index = Index(number % block.x, number // block.x % block.y,
                           number // (block.x * block.y))
        self.warp, self.lane = divmod(number, WARP)
        self.strand: Any = None
        self.waits: Wait | None = None
        self.given: Any = None
        self.met: dict[Any, Any] = {}
        self.copies: list[list[Callable[[], None]]] = [[]]
        """Asynchronous copies: groups that are on their way, the last still open."""


# -- what kernels see ---------------------------------------------------------------------------


class Cuda:
    """The module `cuda` inside a kernel."""

    def __init__(self) -> None:
        self.lane: Any = None
        self.blockIdx = self.blockDim = self.gridDim = Index(0, 0, 0)
        self.shared, self.local = Memory(), Memory()
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

    def exchange(self, value: Any, operation: str, mask: int = 0, up: int = 2) -> dict[Any, Any]:
        """Wait for the lanes of `mask`, or the block, to come here; what each of them gave."""
        caller, lane = sys._getframe(up), self.lane
        lane.given = value
        lane.waits = Wait(operation, (caller.f_code, caller.f_lineno), int(mask) & 0xFFFFFFFF)
        lane.strand.wait()
        return lane.met

    def syncthreads(self) -> None:
        self.exchange(None, "syncthreads")

    def syncthreads_count(self, predicate: Any) -> int:
        return sum(map(bool, self.exchange(_vote(predicate), "syncthreads_count").values()))

    def syncthreads_and(self, predicate: Any) -> int:
        return int(all(self.exchange(_vote(predicate), "syncthreads_and").values()))

    def syncthreads_or(self, predicate: Any) -> int:
        return int(any(self.exchange(_vote(predicate), "syncthreads_or").values()))

    def syncwarp(self, mask: int = 0xFFFFFFFF) -> None:
        self.exchange(None, "syncwarp", mask)

    def activemask(self) -> int:
        going = self.lane.warp * WARP
        threads = self.blockDim.x * self.blockDim.y * self.blockDim.z
        return (1 << min(WARP, threads - going)) - 1

    def ballot_sync(self, mask: int, predicate: Any) -> int:
        votes = self.exchange(predicate, "ballot_sync", mask)
        return sum(1 << lane for lane, vote in votes.items() if vote)

    def all_sync(self, mask: int, predicate: Any) -> bool:
        return all(self.exchange(predicate, "all_sync", mask).values())

    def any_sync(self, mask: int, predicate: Any) -> bool:
        return any(self.exchange(predicate, "any_sync", mask).values())

    def shfl_sync(self, mask: int, value: Any, source: int) -> Any:
        return self.exchange(value, "shfl_sync", mask).get(int(source) % WARP, value)

    def shfl_up_sync(self, mask: int, value: Any, delta: int) -> Any:
        return self.exchange(value, "shfl_up_sync", mask).get(self.lane.lane - int(delta), value)

    def shfl_down_sync(self, mask: int, value: Any, delta: int) -> Any:
        return self.exchange(value, "shfl_down_sync", mask).get(self.lane.lane + int(delta), value)

    def shfl_xor_sync(self, mask: int, value: Any, bits: int) -> Any:
        return self.exchange(value, "shfl_xor_sync", mask).get(self.lane.lane ^ int(bits), value)

    def threadfence(self) -> None:
        """Writes of the simulator are seen at once."""

    threadfence_block = threadfence_system = threadfence


def _vote(predicate: Any) -> Any:
    """What a thread gives to a barrier that asks: a device refuses truth values there."""
    if isinstance(predicate, (bool, np.bool_)):
        raise TypeError("barriers that ask take an int32: np.int32(...) of the condition")
    return predicate


def _poisoned(shape: Any, dtype: Any) -> np.ndarray:
    made = np.empty(shape, dtype)
    made.view(np.uint8)[...] = 0xFF if made.dtype.kind in "fc" else 0x7F
    return made


class Memory:
    """`cuda.shared` or `cuda.local`; shared arrays live in `known`, one for a place in the code."""

    known: dict[Any, np.ndarray] | None = None

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> np.ndarray:
        if self.known is None:
            return _poisoned(shape, dtype)
        caller = sys._getframe(1)
        place = caller.f_code, caller.f_lasti
        if place not in self.known:
            self.known[place] = _poisoned(shape, dtype)
        return self.known[place]


class Atomic:
    """`cuda.atomic`, for shared arrays: every operation returns what was there before."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        rules: dict[str, Callable[[Any, Any], Any]] = {
            "add": lambda old, new: old + new, "sub": lambda old, new: old - new,
            "max": max, "min": min, "exch": lambda old, new: new,
            "and_": lambda old, new: old & new, "or_": lambda old, new: old | new,
            "xor": lambda old, new: old ^ new}
        if name not in rules:
            raise AttributeError(f"the simulator has no cuda.atomic.{name}")

        def update(array: Any, index: Any, value: Any) -> Any:
            before = array[index]
            array[index] = rules[name](before, value)
            return before

        return update

    def cas(self, array: Any, index: Any, expected: Any, value: Any) -> Any:
        before = array[index]
        if before == expected:
            array[index] = value
        return before


cuda = Cuda()


class Pointer:
    """What a kernel gets for an array: elements, and no more."""

    __slots__ = ("elements",)

    def __init__(self, elements: np.ndarray):
        self.elements = elements

    def __getitem__(self, index: Any) -> Any:
        if index < 0:
            raise IndexError(f"element {index} of {len(self.elements)}")
        return self.elements[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if index < 0:
            raise IndexError(f"element {index} of {len(self.elements)}")
        self.elements[index] = value


# -- running ------------------------------------------------------------------------------------


def run(function: Callable[..., None], grid: Sequence[int], block: Sequence[int],
        args: Sequence[Any]) -> None:
    """Run a kernel's function over a grid of blocks; arrays among `args` are flat NumPy ones."""
    cuda.gridDim, cuda.blockDim = (Index(*(*size, 1, 1)[:3]) for size in (grid, block))
    given = [Pointer(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    execute = _together if _waits(function) else _one_by_one
    with np.errstate(all="ignore"):
        for number in _ordered(range(cuda.gridDim.x * cuda.gridDim.y * cuda.gridDim.z)):
            x, y, _ = cuda.gridDim
            cuda.blockIdx = Index(number % x, number // x % y, number // (x * y))
            cuda.shared.known = {}
            execute(function, given)


def _ordered(numbers: range) -> Sequence[int]:
    return numbers[::-1] if schedule == "backward" else numbers


@cache
def _waits(function: Any) -> bool:
    """Whether some thread may wait for others in a function, or in what it calls."""
    found, todo = set(), [function]
    while todo:
        current = todo.pop()
        if not isinstance(current, FunctionType) or current in found:
            continue
        found.add(current)
        names = _names(current.__code__)
        if names & _WAITING:
            return True
        todo += [current.__globals__.get(name) for name in names]
        todo += [cell.cell_contents for cell in current.__closure__ or ()]
    return False


def _names(code: Any) -> set[str]:
    inner = [_names(const) for const in code.co_consts if hasattr(const, "co_names")]
    return set(code.co_names).union(*inner)


def _lanes() -> list[Lane]:
    x, y, z = cuda.blockDim
    return [Lane(number, cuda.blockDim) for number in range(x * y * z)]


def _one_by_one(function: Callable[..., None], args: Sequence[Any]) -> None:
    lanes = _lanes()
    for cuda.lane in reversed(lanes) if schedule == "backward" else lanes:
        try:
            function(*args)
        except Exception as error:
            raise _located(function, cuda.lane, error) from error


def _together(function: Callable[..., None], args: Sequence[Any]) -> None:
    """Run a block whose threads wait for one another."""
    lanes = _lanes()
    warps = [lanes[start:start + WARP] for start in range(0, len(lanes), WARP)]
    for lane in lanes:
        lane.strand = Strand(function, args)
    lots = random.Random(f"{cuda.blockIdx}")
    try:
        while any(not lane.strand.ended for lane in lanes):
            if not _round(function, warps, lots):
                _pass_barrier(function, lanes)
    finally:
        for lane in lanes:
            lane.strand.abandon()


def _round(function: Callable[..., None], warps: list[list[Lane]], lots: random.Random) -> bool:
    """Give everybody who need not wait a turn; False if nobody could go on."""
    order = list(warps)
    if schedule == "deep":
        lots.shuffle(order)
    moved = False
    for warp in order[::-1] if schedule == "backward" else order:
        moved |= _turn(function, warp, lots)
        while schedule == "deep" and _turn(function, warp, lots):
            pass
    return moved


def _turn(function: Callable[..., None], warp: list[Lane], lots: random.Random) -> bool:
    """Run the lanes of a warp that do not wait, then let those go on who have met."""
    order = [lane for lane in warp if lane.waits is None and not lane.strand.ended]
    if schedule == "deep":
        lots.shuffle(order)
    for lane in order[::-1] if schedule == "backward" else order:
        cuda.lane = lane
        lane.strand.resume()
        if lane.strand.error is not None:
            raise _located(function, lane, lane.strand.error) from lane.strand.error
    return _meet(function, warp) or bool(order)


def _meet(function: Callable[..., None], warp: list[Lane]) -> bool:
    """Release the lanes of a warp that wait for one another at the same operation."""
    groups: dict[Wait, list[Lane]] = {}
    for lane in warp:
        if lane.waits is not None and lane.waits.mask:
            groups.setdefault(lane.waits, []).append(lane)
    released = False
    for wait, group in groups.items():
        present = [lane for lane in warp if wait.mask >> lane.lane & 1]
        ended = [lane for lane in present if lane.strand.ended]
        if ended:
            raise _located(function, group[0], RuntimeError(
                f"waits at {_place(wait)} for lane {ended[0].lane}, which has ended"))
        if len(group) == len(present):
            _release(group)
            released = True
    return released


def _release(lanes: list[Lane]) -> None:
    met: dict[Any, Any] = {(lane.lane if lane.waits and lane.waits.mask else lane.number):
                           lane.given for lane in lanes}
    for lane in lanes:
        lane.met, lane.waits = met, None


def _pass_barrier(function: Callable[..., None], lanes: list[Lane]) -> None:
    """Nobody can go on: then all must wait at one barrier of the block."""
    going = [lane for lane in lanes if not lane.strand.ended]
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


# -- a card -------------------------------------------------------------------------------------


class Block:
    """An allocation; its memory starts as NaN."""

    def __init__(self, nbytes: int):
        self.memory = np.full(nbytes, 0xFF, np.uint8)
        self.address = self.memory.__array_interface__["data"][0]

    def part(self, offset: int, nbytes: int) -> np.ndarray:
        return self.memory[offset:offset + nbytes]


class Start:
    """A launch."""

    def __init__(self, launch: Any):
        self.launch, self.function = launch, launch.kernel.function
        self.args = [arg.block.part(arg.offset, arg.nbytes).view(arg.dtype)
                     if hasattr(arg, "block") else arg for arg in launch.args]

    def __call__(self) -> None:
        run(self.function, self.launch.grid, self.launch.block, self.args)


class Graph:
    """Launches that run together."""

    def __init__(self, starts: Sequence[Start]):
        self.starts = list(starts)

    def exchange(self, number: int, start: Start) -> bool:
        if start.function is not self.starts[number].function:
            return False
        self.starts[number] = start
        return True

    def launch(self) -> None:
        for start in self.starts:
            start()


class Card:
    """The one card that there is in the simulator; see `driver.Card`, which does the same."""

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

    def prepare(self, launch: Any, holds: bool = True) -> Start:
        return Start(launch)

    def graph(self, starts: Sequence[Start]) -> Graph:
        return Graph(starts)

    def synchronize(self) -> None:
        """Everything is done when it is asked for."""
