"""How long algorithms take on this machine: measured once, and kept for later processes.

`tuned.json` in the cache folder holds {machine: {layer: {algorithm: milliseconds}}}.  A machine is
the package's version, the CPU, the number of threads and of lanes; a layer is whatever text its
owner gives it.  The file is a hint: one that is missing, damaged or cannot be written costs another
measurement, and what does not look like one is passed over.  It is written to a new file, which
then takes its place, so who reads it meanwhile finds the old one or the new one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...config import CONFIG
from ..build.locks import locked
from ..jit import denormals, num_threads
from ..simd.host import cpu_name
from .layout import LANES

__all__ = ["machine", "measure", "recall"]

FILE = "tuned.json"
PATIENCE = 5.0
"""Seconds to wait for others who write: then both write, and what one has found may be lost."""
TRIES = 7
"""Runs of each algorithm, taking turns, of which the fastest counts."""
ELSEWHERE = 2 ** 23
"""Numbers that are gone over before each run: in a network, too, filters come from memory."""

Times = dict[str, float]
"""Milliseconds by name."""

_here: dict[tuple[str, str], Times] = {}
"""What this process has measured, whatever became of the file."""


def machine() -> str:
    """What measurements hold for."""
    from ... import __version__

    return f"nbmod {__version__}, {cpu_name()}, {num_threads()} threads, {LANES} lanes"


def recall(layer: str) -> Times:
    """What is known of a layer, {} if nothing is."""
    here = machine()
    if (here, layer) in _here:
        return _here[here, layer]
    return _checked(_part(_part(_read(), here), layer))


def measure(layer: str, runs: Mapping[str, Callable[[], None]]) -> Times:
    """Time functions that compute the same, by name, and keep what was found."""
    found, elsewhere = dict.fromkeys(runs, math.inf), np.zeros(ELSEWHERE, np.float32)
    with denormals(False):
        for run in runs.values():
            run()  # compiles
        for _ in range(TRIES):
            for name, run in runs.items():
                elsewhere += 1
                started = time.perf_counter()
                run()
                found[name] = min(found[name], 1e3 * (time.perf_counter() - started))
    found = {name: round(value, 4) for name, value in found.items()}
    _here[machine(), layer] = found
    if CONFIG.cache:
        with contextlib.suppress(OSError):
            _keep(layer, found)
    return found


def _part(found: Any, key: str) -> dict:
    """An entry of a dictionary that may not be one."""
    part = found.get(key) if isinstance(found, dict) else None
    return part if isinstance(part, dict) else {}


def _checked(found: dict) -> Times:
    """`found` if it is names with times."""
    fine = all(type(value) in (int, float) and 0 <= value < math.inf for value in found.values())
    return found if fine else {}


def _read() -> Any:
    try:
        return json.loads((CONFIG.cache_dir / FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}


def _keep(layer: str, times: Times) -> None:
    """Into the file, beside what others have found meanwhile."""
    here, folder = machine(), CONFIG.cache_dir
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f"{FILE}.lock", PATIENCE):
        found = _read()
        found = found if isinstance(found, dict) else {}
        found[here] = _part(found, here) | {layer: times}
        handle, name = tempfile.mkstemp(dir=folder, prefix=FILE)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(found, file, indent=1, sort_keys=True)
            os.replace(name, folder / FILE)
        except OSError:
            os.unlink(name)
            raise
