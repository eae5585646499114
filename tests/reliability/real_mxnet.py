"""The Python that has real MXNet, and programs run by it."""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
import sys
from typing import Any

from bench import mxnet_environment
from tests.reliability.figures import Figure

__all__ = ["PACKAGE", "figure", "lines", "python"]

PACKAGE = {"PROGRAM_PACKAGE": "mxnet"}
"""Environment of `tests.programs` that import the package which it names."""


def python() -> str:
    """Its path; where it is absent, this ends and says what to do."""
    found = mxnet_environment.find_python()
    if found is None:
        sys.exit(mxnet_environment.absence())
    return str(found)


def lines(script: str, *arguments: str) -> list[Any]:
    """The lines of JSON that a program of this folder prints."""
    path = pathlib.Path(__file__).with_name(script)
    done = subprocess.run([python(), str(path), *arguments], capture_output=True, text=True,
                          check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def figure(what: str, trials: int, failures: list[str]) -> Figure:
    """A figure with the number of failures of each kind, which is what follows the colon."""
    kinds = collections.Counter(failure.rpartition(": ")[2] for failure in failures)
    return Figure(what, trials, tuple(failures),
                  ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
