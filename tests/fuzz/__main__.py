"""python -m tests.fuzz: a search of some minutes, in several processes."""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from functools import partial
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--count", type=int, default=0, help="programs of each process")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; default: the time")
    parser.add_argument("--style", default="", help="dense, recurrent, images, table, loops, mixed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lanes", default="0,8,4,1,16",
                        help="widths of vectors (NBMOD_SIMD_LANES), one for each process in turn")
    parser.add_argument("--mxnet", action="store_true",
                        help="compare with real MXNet, which has errors of its own")
    parser.add_argument("--worker", type=int, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = int(time.time()) * 1000
    if arguments.worker is not None:
        return work(arguments)
    return lead(arguments)


def lead(arguments: argparse.Namespace) -> int:
    """Start the processes and wait; 1 if any found something."""
    print(f"seed {arguments.seed}", flush=True)
    widths = itertools.cycle(arguments.lanes.split(","))
    running = []
    for worker, lanes in zip(range(arguments.processes), widths, strict=False):
        environment = {**os.environ, "NBMOD_SIMD_LANES": lanes, "NBMOD_COMPILERS": "1"}
        environment.setdefault("NUMBA_NUM_THREADS", "4")
        command = [sys.executable, "-m", "tests.fuzz", "--worker", str(worker)]
        for name in ("minutes", "count", "seed", "style"):
            command += [f"--{name}", str(getattr(arguments, name))]
        command += ["--mxnet"] * arguments.mxnet
        running.append(subprocess.Popen(command, env=environment))
    return max(process.wait() for process in running)


def oracle() -> Any:
    """Real MXNet, which runs programs."""
    from tests.oracle import setup
    from tests.oracle.client import Oracle

    python = setup.find_python()
    if python is None:
        sys.exit(setup.absence())
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
    count = search(mx, seeds, arguments.style, report, start + 60 * arguments.minutes,
                   check)
    lanes = os.environ.get("NBMOD_SIMD_LANES", "0")
    print(f"{count} programs in {(time.monotonic() - start) / 60:.1f} minutes at lanes {lanes}: "
          f"{len(found)} failed", flush=True)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
