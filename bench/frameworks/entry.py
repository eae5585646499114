"""The interface of a worker process: one framework, one network at a time."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import numpy as np

from .network import Built, Network

WARM_UP = 0.1
"""Seconds of steps before those that are timed.  After a pause, an operating system may start all
threads on one core, and a virtual machine wakes its cores slowly: steps of a perceptron took four
times as long for up to 60 ms."""

_built: list[Built] = []


def _module(framework: str) -> Any:
    return importlib.import_module(f".{framework}", __package__)


def version(framework: str) -> str:
    """The version of the framework."""
    return _module(framework).version()


def prepare(framework: str, network: dict[str, Any]) -> dict[str, Any]:
    """Build a network, in place of the previous one, and run it twice.

    Returns its first outputs ([] in training), the seconds of the second run, and a note.
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
    """Seconds of each of `repeats` steps, wall-clock or processor time; several are preceded by
    warm-up steps."""
    step, times = _built[0].step, []
    clock = time.process_time if processor else time.perf_counter
    warm = time.perf_counter() + WARM_UP
    while repeats > 1 and time.perf_counter() < warm:
        step()
    for _ in range(repeats):
        started = clock()
        step()
        times.append(clock() - started)
    return times


def peak_megabytes() -> float:
    """The peak memory of this process."""
    if sys.platform == "win32":
        return _peak_on_windows()
    import resource

    unit = 2 ** 20 if sys.platform == "darwin" else 2 ** 10  # bytes there, KB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _peak_on_windows() -> float:
    """PeakWorkingSetSize of GetProcessMemoryInfo."""
    import ctypes

    class Counters(ctypes.Structure):
        _fields_ = [("cb", ctypes.c_uint32), ("faults", ctypes.c_uint32),
                    *[(name, ctypes.c_size_t) for name in (
                        "peak", "now", "peak_paged", "paged", "peak_nonpaged", "nonpaged",
                        "pagefile", "peak_pagefile")]]

    counters = Counters()
    counters.cb = ctypes.sizeof(counters)
    kernel32: Any = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    if not kernel32.K32GetProcessMemoryInfo(ctypes.c_void_p(kernel32.GetCurrentProcess()),
                                            ctypes.byref(counters), counters.cb):
        return float("nan")
    return counters.peak / 2 ** 20
