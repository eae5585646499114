"""Autotuning: run times of algorithms on this machine, measured once and cached on disk.

`tuned.json` in the cache folder holds {machine: {layer: {algorithm: milliseconds}}}.  A machine is
the package's version, the CPU, the number of threads and of lanes; a layer is a text chosen by the
caller.  The file is a hint: if it is missing, damaged or cannot be written, layers are measured
again; invalid entries are ignored.  It is replaced atomically.
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

from ...core.config import CONFIG
from ...core.locks import locked
from ..jit import denormals, num_threads
from ..simd.host import cpu_name
from .layout import LANES

__all__ = ["machine", "measure", "recall"]

FILE = "tuned.json"
LOCK_TIMEOUT = 5.0
"""Seconds to wait for other writers; after that one of two concurrent results may be lost."""
TRIES = 7
"""Runs of each algorithm, interleaved; the fastest counts."""
EVICTED_ELEMENTS = 2 ** 23
"""Elements written before each run to evict the caches: in a network, too, filters come from
memory."""

Times = dict[str, float]
"""Milliseconds by name."""

_measured: dict[tuple[str, str], Times] = {}
"""Measurements of this process."""


def machine() -> str:
    """The key of this machine."""
    from ... import __version__

    return f"nbmod {__version__}, {cpu_name()}, {num_threads()} threads, {LANES} lanes"


def recall(layer: str) -> Times:
    """Known times of a layer, {} if there are none."""
    here = machine()
    if (here, layer) in _measured:
        return _measured[here, layer]
    times = _entry(_entry(_read(), here), layer)
    valid = all(type(value) in (int, float) and 0 <= value < math.inf for value in times.values())
    return times if valid else {}


def measure(layer: str, runs: Mapping[str, Callable[[], None]]) -> Times:
    """Time functions that compute the same result, by name, and store the times."""
    times, other = dict.fromkeys(runs, math.inf), np.zeros(EVICTED_ELEMENTS, np.float32)
    with denormals(False):
        for run in runs.values():
            run()  # compiles
        for _ in range(TRIES):
            for name, run in runs.items():
                other += 1  # evicts the caches
                started = time.perf_counter()
                run()
                times[name] = min(times[name], 1e3 * (time.perf_counter() - started))
    times = {name: round(value, 4) for name, value in times.items()}
    _measured[machine(), layer] = times
    if CONFIG.cache:
        with contextlib.suppress(OSError):
            _store(layer, times)
    return times


def _entry(entries: object, key: str) -> dict:
    """An entry that is a dictionary, {} for anything else."""
    part = entries.get(key) if isinstance(entries, dict) else None
    return part if isinstance(part, dict) else {}


def _read() -> Any:
    try:
        return json.loads((CONFIG.cache_dir / FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}


def _store(layer: str, times: Times) -> None:
    """Merge into the file."""
    here, folder = machine(), CONFIG.cache_dir
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f"{FILE}.lock", LOCK_TIMEOUT):
        entries = _read()
        entries = entries if isinstance(entries, dict) else {}
        entries[here] = _entry(entries, here) | {layer: times}
        handle, name = tempfile.mkstemp(dir=folder, prefix=FILE)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(entries, file, indent=1, sort_keys=True)
            os.replace(name, folder / FILE)
        except OSError:
            os.unlink(name)
            raise
