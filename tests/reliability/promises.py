"""The promises, in the order of the table."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterator

from tests.reliability.figures import Promise

# Modules of this package, each with one PROMISE; some need POSIX.
MODULES: tuple[str, ...] = (
    "mutation",
    "fuzzing",
    "allocation",
    *(("killed_saves",) if hasattr(os, "fork") else ()),
    "flipped_bits",
    "code_from_data",
    "same_bits",
    "damaged_records",
    "drift",
)


def load(numbers: Collection[int] | None = None) -> Iterator[Promise]:
    """Promises with these numbers; all without numbers."""
    for name in MODULES:
        promise: Promise = importlib.import_module(f"tests.reliability.{name}").PROMISE
        if not numbers or promise.number in numbers:
            yield promise
