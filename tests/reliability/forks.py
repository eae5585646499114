"""Forks: children of a process that has used kernels, trains or compiles, compute as it does.

`tests.programs.forks` has the programs; every child has a deadline there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from types import MappingProxyType

from tests.reliability.figures import Effort, Figure, Promise

# Trials published, and children of one process.
PROGRAMS = {"after use": (100, 5), "while a thread trains": (500, 20),
            "while a thread compiles": (100, 10), "children of children": (50, 5),
            "a pool of loaders": (500, 50)}
OF_MXNET = ("after use", "while a thread trains", "children of children", "a pool of loaders")
"""MXNet compiles nothing."""


def _children(name: str, count: int, python: str, environment: Mapping[str, str]) -> list[str]:
    """What was wrong with the children of one process."""
    command = [python, "-m", "tests.programs.forks", name, str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600,
                              env=os.environ | environment)
    except subprocess.TimeoutExpired:
        return ["the process did not end in 10 minutes"] * count
    *problems, last = done.stdout.splitlines() or [""]
    if last != f"over {count}":
        problems += [f"the process ended with {done.returncode}: {done.stderr[-300:]}"] * count
    return problems[:count]


def measure(effort: Effort, programs: Collection[str] = tuple(PROGRAMS),
            python: str = sys.executable, environment: Mapping[str, str] = MappingProxyType({})
            ) -> list[Figure]:
    """One figure for each program."""
    figures = []
    for name in programs:
        published, each = PROGRAMS[name]
        trials, problems = effort.trials(published, at_least=2), []
        for first in range(0, trials, each):
            problems += _children(name, min(each, trials - first), python, environment)
        figures.append(Figure(f"Children: {name}", trials, tuple(problems)))
    return figures


def measure_mxnet(effort: Effort) -> list[Figure]:
    """A fiftieth of the same children of MXNet's processes: those that hang take long."""
    from tests.reliability import real_mxnet

    few = Effort(effort.share / 50, effort.seed)
    return measure(few, OF_MXNET, real_mxnet.python(), real_mxnet.PACKAGE)


def short(effort: Effort) -> list[Figure]:
    """One program; tests/test_fork.py runs all of them."""
    return measure(effort, ["after use"])


PROMISE = Promise(11, "Forks", "Every child computes what its parent does, and ends", measure,
                  measure_mxnet, short)
