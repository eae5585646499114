"""Exact resume: training that another process continues has the bits of undisturbed training.

`tests.programs.resume_runs` has the configurations: optimizers, schedulers, contexts, stores,
iterators, buckets, sparse weights, half precision, dropout, between epochs and in the middle of
one.  Distributed training goes on after one of its ranks has been killed, by
`kvstore.distributed.kills`.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from tests.reliability.figures import Effort, Figure, Promise

THREADS = ("", "1", "3")
"""Threads of the process that continues; "": as many as before."""
SHORT = ("1",)
KILLS, RANKS = 200, 3
"""Published trials of distributed training."""


def _run(folder: pathlib.Path, parts: list[str], threads: str) -> None:
    setting = {"NUMBA_NUM_THREADS": threads} if threads else {}
    subprocess.run([sys.executable, "-W", "ignore", "-m", "tests.programs.resume_runs", str(folder),
                    *parts], check=True, env=os.environ | setting)


def _differences(folder: pathlib.Path, name: str) -> list[str]:
    """The arrays that differ between the whole training and the two parts of it."""
    whole, rest = (dict(np.load(folder / f"{part} {name}.npz")) for part in ("whole", "rest"))
    return [key for key in {**whole, **rest} if key not in whole or key not in rest
            or not np.array_equal(whole[key], rest[key])]


def compare(settings: tuple[str, ...]) -> Figure:
    """All configurations, resumed by processes with these numbers of threads."""
    from tests.programs.resume_runs import CASES

    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "first")
        folder.mkdir()
        _run(folder, ["whole", "first"], "")
        for threads in settings:
            copy = shutil.copytree(folder, pathlib.Path(name, f"rest {threads}"))
            _run(copy, ["rest"], threads)
            failures += [f"{case}, {threads or 'as many'} threads: {', '.join(differing)}"
                         for case in CASES if (differing := _differences(copy, case))]
    return Figure("Trainings resumed with the bits of whole ones", len(settings) * len(CASES),
                  tuple(failures), f"{len(CASES)} configurations")


def killed_ranks(effort: Effort) -> list[Figure]:
    """Distributed training, one rank of which is killed; nothing where MPI is absent."""
    if importlib.util.find_spec("mpi4py") is None:
        return []
    from tests.kvstore.distributed import kills

    done = list(kills.trials(effort.trials(KILLS), RANKS, effort.seed))
    problems = tuple(f"{trial.moment}: {trial.problem}" for trial in done if trial.problem)
    return [Figure("Distributed trainings resumed after the kill of a rank", len(done), problems,
                   kills.described(done))]


def measure(effort: Effort) -> list[Figure]:
    """All configurations, whatever the effort: they take a minute.  And the kills."""
    return [compare(THREADS), *killed_ranks(effort)]


def short(_effort: Effort) -> list[Figure]:
    """One other number of threads."""
    return [compare(SHORT)]


PROMISE = Promise(7, "Exact resume", "Training goes on with the same bits in another process",
                  measure, short=short)
