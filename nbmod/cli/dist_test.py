"""The self test of `doctor --dist`: ranks exchange buffers, and compare every element.

`dist_test` starts three ranks, which run this file as their script.  The first one writes the
results to a file that the command names.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nbmod.base import MXNetError

if TYPE_CHECKING:
    from nbmod.kvstore.distributed.communicator import MPICommunicator

__all__ = ["dist_test"]

RANKS = 3
SIZES = {"1 kB": 250, "10 MB": 2_500_000, "100 MB": 25_000_000}
"""Elements of 4 bytes."""
REPEATS = {"1 kB": 100, "10 MB": 5, "100 MB": 2}

Rows = list[tuple[str, str]]


def dist_test() -> tuple[Rows, bool]:
    """Start the ranks; returns names and values, and whether all was right."""
    from ..launcher import mpiexec
    from .launch import start

    with tempfile.TemporaryDirectory(prefix="nbmod-doctor-") as folder:
        report = os.path.join(folder, "found.json")
        status = start(mpiexec.Ranks(RANKS), [__file__, report])
        rows: Rows = []
        if os.path.exists(report):
            with open(report, encoding="utf-8") as file:
                rows = [(name, value) for name, value in json.load(file)]
    if status:
        rows.append(("ranks", f"FAILED: they ended with exit status {status}"))
    return [("mpiexec", mpiexec.find()), *rows], status == 0


# ----------------------------------------------------------------------------------- in each rank

def main(report: str) -> None:
    """Exchange buffers; raises MXNetError if an element is wrong."""
    from mpi4py import MPI

    from nbmod.kvstore.distributed.communicator import MPICommunicator
    from nbmod.launcher import placement, position

    placement.require_size(MPI.COMM_WORLD.Get_size())
    world = MPICommunicator(MPI.COMM_WORLD)
    rows = [("MPI", MPI.Get_library_version().strip("\0").split(",")[0].split("\n")[0]),
            ("mpi4py", sys.modules["mpi4py"].__version__),
            ("started by", placement.launcher_of() or "nobody"),
            ("thread level", _thread_level(MPI.Query_thread())),
            ("ranks", f"{world.size} on {len(set(world.hosts))} host(s)"),
            ("threads of each", os.environ["NUMBA_NUM_THREADS"]),
            ("barrier", f"{1e6 * _seconds(world.barrier, 200):.1f} us")]
    for name, elements in SIZES.items():
        position.doing(f"exchange of {name}")
        rows.append((f"exchange of {name}", _exchange(world, elements, REPEATS[name])))
    if world.rank == 0:
        with open(report, "w", encoding="utf-8") as file:
            json.dump(rows, file)


def _thread_level(level: int) -> str:
    from mpi4py import MPI

    names = {getattr(MPI, f"THREAD_{name}"): name.lower()
             for name in ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")}
    enough = "" if level == MPI.THREAD_MULTIPLE else " (stores need multiple)"
    return names[level] + enough


def _seconds(action: Callable[[], None], repeats: int) -> float:
    """The time of an action of all ranks that has been done once before."""
    action()
    started = time.perf_counter()
    for _ in range(repeats):
        action()
    return (time.perf_counter() - started) / repeats


def _values(rank: int, begin: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """An array to send: other numbers at every place, and for every rank."""
    return np.arange(begin, end, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(rank)


def _exchange(world: MPICommunicator, elements: int, repeats: int) -> str:
    """Push and pull as a store does: shards to their owners, and from them to all."""
    from nbmod.kvstore.distributed.communicator import offsets_of

    size, rank = world.size, world.rank
    cuts = [elements * each // size for each in range(size + 1)]
    counts = [end - begin for begin, end in zip(cuts, cuts[1:], strict=False)]
    sent, whole = _values(rank, 0, elements), np.zeros(elements, np.uint32)
    mine = [counts[rank]] * size
    received = np.zeros(sum(mine), np.uint32)
    seconds = _seconds(lambda: world.alltoallv(sent, counts, received, mine), repeats)
    begins = offsets_of(mine)
    for other in range(size):
        _check(received[begins[other]:begins[other + 1]],
               _values(other, cuts[rank], cuts[rank + 1]), f"{rank} from rank {other}")
    whole[cuts[rank]:cuts[rank + 1]] = _values(rank, cuts[rank], cuts[rank + 1])
    seconds += _seconds(lambda: world.allgatherv(whole, counts), repeats)
    for other in range(size):
        _check(whole[cuts[other]:cuts[other + 1]], _values(other, cuts[other], cuts[other + 1]),
               f"{rank} from the shard of rank {other}")
    nbytes = 2 * 4 * elements * (size - 1) / size
    rate = f", {nbytes / seconds / 1e9:.2f} GB/s sent by each rank" if nbytes > 1e6 else ""
    return f"passed, {_time(seconds)}{rate}"


def _check(buffer: object, expected: object, where: str) -> None:
    if not np.array_equal(np.asarray(buffer), np.asarray(expected)):
        wrong = np.flatnonzero(np.asarray(buffer) != np.asarray(expected))
        raise MXNetError(f"{len(wrong)} elements of rank {where} are wrong, the first at "
                         f"{wrong[0]}")


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} us" if seconds < 1e-3 else f"{1e3 * seconds:.1f} ms"


if __name__ == "__main__":
    main(sys.argv[1])
