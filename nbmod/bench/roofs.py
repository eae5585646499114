"""The roofs of the host (Williams et al. 2009; Ilic et al. 2014 for the caches), measured.

No kernel can be faster than its multiplications and additions at the peak of the arithmetic units,
nor than its bytes at the bandwidth of the memory they come from: the level of cache that its data
fits, or main memory.  Each roof is the best of many short runs, and is kept with its date in the
cache folder of nbmod for this kind of processor: a busy neighbour makes a roof too low and never
too high, so the best over all runs is the one to believe.  Where a roof is far below its best at
times, as the memory of a virtual machine that others share, it is *unsteady*: a share of it is said
to be rough.

*Operations*: a multiply-add is two.  *Bytes*: those that a kernel's definition reads and writes.
A store to a line that is in no cache reads the line first (write-allocate), which a kernel avoids
by non-temporal stores: the roof of main memory is that of kernels which avoid it.
"""

from __future__ import annotations

import datetime
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cache, reduce
from pathlib import Path

import numpy as np

from ..core.atomic import atomic_write
from ..core.config import CONFIG
from ..core.screen import LiveLine, closed_lines, is_watched
from ..ops.device import memory_size
from ..ops.jit import num_threads
from ..ops.simd import roofline
from ..ops.simd.host import cache_bytes, cpu_name, registers

__all__ = ["Roofs", "Share", "measured_roofs", "share_of_roof"]

LEVELS = ("L1", "L2", "L3", "memory")
WINDOWS = 6
"""A process measures each roof this many times, in turn with the others: a disturbance does not
last through all measurements of a roof, and their differences show how steady it is."""
SETTLED, FEWER = 10, 2
"""Once SETTLED processes have measured the roofs, FEWER windows suffice."""
TRIES = 25
"""Runs of a window, of which the best counts."""
STEADY = 0.1
"""A roof that is at times lower than its best by more is unsteady."""
RUN = 5e-4
"""Least seconds of a run."""
NARROWEST = 128
"""Bits of the narrowest vectors."""
MOST_TURNS = 2 ** 24
COPIED = 2 ** 27
"""Bytes read and written by the copy."""
LEAST_TRIES, LONG = 3, 0.04
"""Runs that take LONG seconds together are enough, if there are so many."""
TOLERANCE = 1.1
"""A figure above a roof by more cannot be true; less is the error of a roof."""
_clock = time.perf_counter if sys.platform == "win32" else time.thread_time
"""Windows counts a thread's processor time in steps of 16 ms."""


@dataclass(frozen=True)
class Roofs:
    """Peaks of all threads together.

    Attributes
    ----------
    threads : int
        Threads that they were measured with.
    operations : dict
        Multiplications plus additions a second, by type: float32, float64, int8 (dot products
        with int32 sums) and bfloat16 (float32 sums), where there is a unit; and by narrower
        vectors, as "float32 128 bits".
    nbytes : dict
        Bytes read plus written a second, by level: L1, L2, L3 and memory; and "copy", that of
        64 MiB copied by plain stores, which most kernels are compared with.
    capacity : dict
        Bytes that fit a level, with all threads.
    date : str
        Of the last measurement that raised a roof.
    runs : int
        Measurements that these are the best of.
    spread : dict
        How far the second best of this run's measurements was below the best of all, by the names
        in `operations` and `nbytes`: 0.3 means 30%.  One that was disturbed does not count.
    """

    threads: int
    operations: Mapping[str, float]
    nbytes: Mapping[str, float]
    capacity: Mapping[str, int]
    date: str
    runs: int = 1
    spread: Mapping[str, float] = field(default_factory=dict)

    @property
    def rates(self) -> dict[str, float]:
        """Operations and bytes a second, by their names."""
        return {**self.operations, **self.nbytes}

    @property
    def unsteady(self) -> list[str]:
        """The roofs that shares are rough of."""
        return [name for name, spread in self.spread.items() if spread > STEADY]

    def level_of(self, working_set: float) -> str:
        """The innermost level that so many bytes fit."""
        return next((level for level in LEVELS[:-1] if working_set <= self.capacity[level]),
                    "memory")


@dataclass(frozen=True)
class Share:
    """The part of a roof that something reaches, and which roof limits it."""

    value: float
    roof: str
    spread: float = 0.0
    """How far the roof is below its best at times."""

    @property
    def is_steady(self) -> bool:
        """Whether the roof is about the same in all measurements."""
        return self.spread <= STEADY

    @property
    def is_plausible(self) -> bool:
        """Whether the roof is not exceeded."""
        return self.value <= TOLERANCE


def share_of_roof(seconds: float, operations: float = 0.0, nbytes: float = 0.0,
                  dtype: str = "float32", working_set: float | None = None,
                  roofs: Roofs | None = None) -> Share | None:
    """The share of the roof that limits a kernel.

    Parameters
    ----------
    seconds : float
        Time of one run.
    operations : float
        Its multiplications plus additions; 0 if they do not count.
    nbytes : float
        Bytes that it reads and writes, each once.
    dtype : str
        The type of the operations: see `Roofs.operations`.
    working_set : float, optional
        Bytes that it comes back to in the next run, which decide the level; default: `nbytes`.
        Infinite where every run has other inputs.
    roofs : Roofs, optional
        Default: those of the host.

    Returns
    -------
    Share or None
        None where there is nothing to compare.
    """
    roofs = roofs or measured_roofs()
    level = roofs.level_of(nbytes if working_set is None else working_set)
    limits = {dtype: operations / roofs.operations[dtype]
              if operations and dtype in roofs.operations else 0.0,
              level: nbytes / roofs.nbytes[level]}
    roof = max(limits, key=limits.__getitem__)
    if not (limits[roof] and seconds > 0):
        return None
    return Share(limits[roof] / seconds, f"{roof} {'bandwidth' if roof == level else 'peak'}",
                 roofs.spread.get(roof, 0.0))


@cache
def measured_roofs(threads: int | None = None) -> Roofs:
    """The roofs of the host: those kept before, raised by a measurement now.

    A measurement takes some seconds, and there is one in each process; a terminal shows that it is
    under way.

    Parameters
    ----------
    threads : int, optional
        Default: as many as parallel kernels have.
    """
    threads = threads or num_threads()
    key = _key(threads)
    before = _read().get(key)
    with closed_lines():
        if is_watched():
            LiveLine().show("nbmod: measuring the peaks of this machine ...")
        roofs = _measure(threads, FEWER if before and before.runs >= SETTLED else WINDOWS)
    earlier = _read()
    if key in earlier:
        roofs = _best(earlier[key], roofs)
    _write({**earlier, key: roofs})
    return roofs


def _best(before: Roofs, now: Roofs) -> Roofs:
    """The higher of each roof."""
    operations = {name: max(value, before.operations.get(name, 0.0))
                  for name, value in now.operations.items()}
    nbytes = {name: max(value, before.nbytes.get(name, 0.0)) for name, value in now.nbytes.items()}
    raised = (operations, nbytes) != (dict(before.operations), dict(before.nbytes))
    best = replace(now, operations=operations, nbytes=nbytes, runs=before.runs + 1,
                   date=now.date if raised else before.date)
    return replace(best, spread={
        name: 1 - value * (1 - now.spread.get(name, 0.0)) / best.rates[name]
        for name, value in now.rates.items()})


# -- measurement ------------------------------------------------------------------------------


def _measure(threads: int, count: int) -> Roofs:
    """Measure all roofs `count` times, and take the best of each."""
    capacity = dict(zip(LEVELS, _capacities(threads), strict=False))
    windows = [Roofs(threads, dict(_operations(threads)), dict(_bandwidths(threads, capacity)),
                     capacity, datetime.date.today().isoformat()) for _ in range(count)]
    best = reduce(_best, windows)
    return replace(best, runs=1, spread={
        name: 1 - sorted(each.rates[name] for each in windows)[-2] / value
        for name, value in best.rates.items()})


def _operations(threads: int) -> Iterator[tuple[str, float]]:
    """Multiplications plus additions a second, by type; a lane of `int8` has four products."""
    kinds: list[tuple[str, str, float, Callable[..., None]]] = [
        ("float32", "float32", 1, roofline.multiply_add),
        ("float64", "float64", 1, roofline.multiply_add),
        ("int8", "int32", 4, roofline.dot_bytes)]
    if roofline.has_bfloat16():
        kinds.append(("bfloat16", "float32", 2, roofline.multiply_bfloat16))
    for divisor, run in ((2, roofline.multiply_add_half), (4, roofline.multiply_add_quarter)):
        bits = 8 * registers().nbytes // divisor
        kinds += [(f"{name} {bits} bits", name, 1 / divisor, run)
                  for name in ("float32", "float64") if bits >= NARROWEST]
    for name, dtype, products, run in kinds:
        work = 2 * products * roofline.CHAINS * registers().nbytes // np.dtype(dtype).itemsize
        yield name, work * _turns_a_second(
            run, [(_aligned(roofline.STRIDE).view(dtype),) for _ in range(threads)])


def _bandwidths(threads: int, capacity: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    """Bytes a second of the fastest of some mixes of loads and stores, by level.

    An inner level is no slower than an outer one.
    """
    sizes = {"L1": capacity["L1"] // 2, "L2": capacity["L2"] // 2,
             "L3": min(capacity["L3"] // 2, 4 * capacity["L2"]),
             "memory": min(2 * capacity["L3"], memory_size() // 8)}
    yield "copy", _rate(2, roofline.copy_memory, COPIED // threads, threads)
    highest = 0.0
    for level, size in reversed(sizes.items()):
        highest = max(highest, *_rates(size // threads, threads))
        yield level, highest


def _rates(size: int, threads: int) -> Iterator[float]:
    """Bytes a second of one load; of two loads and a store; of a copy past the caches."""
    for count, run in ((1, roofline.load_memory), (3, roofline.sum_memory),
                       (2, roofline.copy_past_caches)):
        yield _rate(count, run, size, threads)


def _rate(count: int, run: Callable[..., None], size: int, threads: int) -> float:
    """Bytes a second of a kernel on `count` arrays that have `size` bytes together."""
    unit = roofline.UNROLLED * registers().nbytes
    nbytes = max(size // count // unit, 1) * unit
    parts = [tuple(_aligned(nbytes if number < count else unit)
                   for number in range(max(count, 2))) for _ in range(threads)]
    return count * nbytes * _turns_a_second(run, parts)


def _aligned(nbytes: int) -> np.ndarray:
    """Zeros of float32 at the start of a line of the cache, as non-temporal stores need them."""
    memory = np.zeros(nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:start + nbytes].view(np.float32)


def _turns_a_second(run: Callable[..., None], parts: Sequence[tuple[np.ndarray, ...]]) -> float:
    """The sum over all threads of the turns a second of `run` on a part.

    A thread counts the processor time that it got itself, so that a thread which waits for a core
    that another process has does not make the roof lower.  All run at the same time: those of one
    core, and of one memory, share it.
    """
    turns, _ = 1, _timed(run, parts[0], 1)   # compiles
    while (taken := _timed(run, parts[0], turns)) < RUN and turns < MOST_TURNS:
        turns = max(2 * turns, min(10 * turns, round(turns * RUN / max(taken, 1e-7))))
    tries = min(TRIES, max(LEAST_TRIES, round(LONG / max(taken, 1e-7))))
    start = threading.Barrier(len(parts))

    def best(part: tuple[np.ndarray, ...]) -> float:
        start.wait()
        return turns / min(_timed(run, part, turns) for _ in range(tries))

    with ThreadPoolExecutor(len(parts)) as pool:
        return sum(pool.map(best, parts))


def _timed(run: Callable[..., None], part: tuple[np.ndarray, ...], turns: int) -> float:
    began = _clock()
    run(*part, turns)
    return _clock() - began


# -- the host ---------------------------------------------------------------------------------


def _capacities(threads: int) -> tuple[int, int, int]:
    """Bytes of L1 and L2 of so many cores, and of the L3 that they share.

    Where the system does not tell, they are usual ones.
    """
    sizes = {1: 32 * 2 ** 10, 2: 2 ** 20, 3: 32 * 2 ** 20} | cache_bytes()
    return sizes[1] * threads, sizes[2] * threads, max(sizes[3], sizes[2] * threads)


def _key(threads: int) -> str:
    """The facts that roofs depend on: processor, width of registers, threads."""
    return f"{cpu_name()}, {8 * registers().nbytes} bits, {threads} threads"


def _file() -> Path:
    return CONFIG.cache_dir / "roofs.json"


def _read() -> dict[str, Roofs]:
    """The roofs that were kept; none where the file is missing or broken."""
    try:
        return {key: Roofs(**value) for key, value in json.loads(_file().read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(roofs: Mapping[str, Roofs]) -> None:
    """Keep roofs, where the folder can be written."""
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(_file()) as stream:
            stream.write(json.dumps({key: asdict(each) for key, each in roofs.items()},
                                    indent=1).encode())
    except OSError:
        return
