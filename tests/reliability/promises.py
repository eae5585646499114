"""The promises, in the order of the table."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterator

from tests.reliability.figures import Promise

# Modules of this package, each with one PROMISE.
MODULES: tuple[str, ...] = (
    "mutation",
    "fuzzing",
    "allocation",
    "killed_saves",
    "flipped_bits",
    "code_from_data",
    "exact_resume",
    "same_bits",
    "damaged_records",
    "interrupts",
    "forks",
    "drift",
)
POSIX = {"killed_saves", "interrupts", "forks"}
"""Modules that need `os.fork` or signals."""
if not hasattr(os, "fork"):
    MODULES = tuple(name for name in MODULES if name not in POSIX)


def load(numbers: Collection[int] | None = None) -> Iterator[Promise]:
    """Promises with these numbers; all without numbers."""
    for name in MODULES:
        promise: Promise = importlib.import_module(f"tests.reliability.{name}").PROMISE
        if not numbers or promise.number in numbers:
            yield promise
