"""python -m tests.fuzz: a search of some minutes, in several processes.

The last lines say how many programs ran and were clean, of which styles, what they had and which
checks applied to them, and the seconds.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.fuzz.tally import Tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--count", type=int, default=0, help="programs of each process")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; default: the time")
    parser.add_argument("--style", default="", help="one of tests.fuzz.drawing.SHARES")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lanes", default="0,8,4,1,16",
                        help="widths of vectors (NBMOD_SIMD_LANES), one for each process in turn")
    parser.add_argument("--levels", default=",x86-64-v3",
                        help="CPU levels (NBMOD_CPU_LEVEL; empty: the host), likewise")
    parser.add_argument("--mxnet", action="store_true",
                        help="compare with real MXNet, which has errors of its own")
    parser.add_argument("--worker", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--tally", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = int(time.time()) * 1000
    if arguments.worker is not None:
        return work(arguments)
    return lead(arguments)


def lead(arguments: argparse.Namespace) -> int:
    """Start the processes and wait; 1 if any found something, or ended without an answer."""
    print(f"seed {arguments.seed}", flush=True)
    start, running = time.monotonic(), []
    ways = zip(itertools.cycle(arguments.lanes.split(",")),
               itertools.cycle(_levels(arguments.levels)), strict=False)
    with tempfile.TemporaryDirectory() as folder:
        tallies = [Path(folder, str(worker)) for worker in range(arguments.processes)]
        for worker, (path, (lanes, level)) in enumerate(zip(tallies, ways, strict=False)):
            environment = {**os.environ, "NBMOD_SIMD_LANES": lanes, "NBMOD_COMPILERS": "1",
                           "NBMOD_CPU_LEVEL": level}
            environment.setdefault("NUMBA_NUM_THREADS", "4")
            command = [sys.executable, "-m", "tests.fuzz", "--worker", str(worker),
                       "--tally", str(path)]
            for name in ("minutes", "count", "seed", "style"):
                command += [f"--{name}", str(getattr(arguments, name))]
            command += ["--mxnet"] * arguments.mxnet
            running.append(subprocess.Popen(command, env=environment))
        status = max(process.wait() for process in running)
        found = [Tally.read(path) for path in tallies if path.exists()]
    print(sum(found, Tally.none()), f"\n  {time.monotonic() - start:.0f} seconds", flush=True)
    return status if len(found) == arguments.processes else 1


def _levels(text: str) -> list[str]:
    """The levels of a list that this host supports."""
    from nbmod.ops.build.levels import is_supported

    return [name for name in text.split(",") if not name or is_supported(name)] or [""]


def oracle() -> Any:
    """Real MXNet, which runs programs."""
    from bench import mxnet_environment
    from tests.oracle.client import Oracle

    python = mxnet_environment.find_python()
    if python is None:
        sys.exit(mxnet_environment.absence())
    return Oracle(python, package="tests.fuzz")


def work(arguments: argparse.Namespace) -> int:
    """One process: every seed from its own first one on."""
    import nbmod as mx
    from tests.fuzz.search import error_of, mxnet_error_of, search

    found, check = [], error_of

    def report(finding: object) -> None:
        found.append(finding)
        print(f"\n{finding}\n", flush=True)

    if arguments.mxnet:
        check = partial(mxnet_error_of, oracle())
    seeds = itertools.count(arguments.seed + arguments.worker * 10 ** 9)
    if arguments.count:
        seeds = itertools.islice(seeds, arguments.count)
    start = time.monotonic()
    tally = search(mx, seeds, arguments.style, report, start + 60 * arguments.minutes, check)
    lanes, level = (os.environ.get(f"NBMOD_{name}", "") for name in ("SIMD_LANES", "CPU_LEVEL"))
    print(f"{tally.count} programs in {(time.monotonic() - start) / 60:.1f} minutes at lanes "
          f"{lanes or 0}, level {level or 'of the host'}: {len(found)} failed", flush=True)
    if arguments.tally:
        tally.write(Path(arguments.tally))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
