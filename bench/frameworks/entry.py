"""The interface of a worker process: one framework, one network at a time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .network import Built, Network

_built: list[Built] = []


def _module(framework: str) -> Any:
    return importlib.import_module(f".{framework}", __package__)


def version(framework: str) -> str:
    """The version of the framework."""
    return _module(framework).version()


def vector_bits(framework: str) -> int | None:
    """The widest vectors that the framework computes with; None where it does not tell."""
    ask = getattr(_module(framework), "vector_bits", None)
    return None if ask is None else int(ask())


def prepare(framework: str, network: dict[str, Any]) -> dict[str, Any]:
    """Build a network, in place of the previous one, and run it.

    Returns its first outputs ([] in training) and a note.
    """
    _built.clear()
    built = _module(framework).build(Network(**network))
    built.step()
    _built.append(built)
    first = [] if network["training"] else np.asarray(built.result()).ravel()[:16].tolist()
    return {"first": first, "note": built.note}


def step() -> Callable[[], Any]:
    """The subject of an arm: a step of the network."""
    return _built[0].step


def run(steps: int) -> None:
    """Some steps."""
    for _ in range(steps):
        _built[0].step()


def forget() -> None:
    """Drop the network."""
    _built.clear()


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
