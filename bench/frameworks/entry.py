"""What the coordinator calls in a worker process: one framework, one network at a time."""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np

from .network import Built, Network

_built: list[Built] = []


def _module(framework: str) -> Any:
    return importlib.import_module(f".{framework}", __package__)


def version(framework: str) -> str:
    """Of the framework."""
    return _module(framework).version()


def prepare(framework: str, network: dict[str, Any]) -> dict[str, Any]:
    """Build a network in the place of the last one and run it twice.

    Its first numbers ([] in training), the seconds of the second run, and a note.
    """
    _built.clear()
    built = _module(framework).build(Network(**network))
    built.step()
    started = time.perf_counter()
    built.step()
    taken = time.perf_counter() - started
    _built.append(built)
    first = [] if network["training"] else np.asarray(built.result()).ravel()[:16].tolist()
    return {"first": first, "seconds": taken, "note": built.note}


def forget() -> None:
    """Drop the network."""
    _built.clear()


def seconds(repeats: int, processor: bool = False) -> list[float]:
    """Of so many steps, by the clock or of all processors together; before more than one, another
    wakes threads and caches."""
    step, times = _built[0].step, []
    clock = time.process_time if processor else time.perf_counter
    if repeats > 1:
        step()
    for _ in range(repeats):
        started = clock()
        step()
        times.append(clock() - started)
    return times


def peak_megabytes() -> float:
    """The most memory this process has held at a time."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
