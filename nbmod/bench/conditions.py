"""The machine while something was timed: load, steal, frequency, affinity, threading layer.

They are recorded with every result, and what makes a figure doubtful is said beside it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..launcher.placement import cores
from ..ops.jit import num_threads, threading_layer

__all__ = ["Conditions", "observed"]

BUSY = 0.1
"""Share of the machine's processor time that others may take before it is warned of."""
STOLEN = 0.02
THROTTLED = 0.1
"""Relative change of the frequency."""


@dataclass
class Conditions:
    """Facts that the system tells about a stretch of time; None where it does not tell.

    Attributes
    ----------
    busy : float or None
        Share of the processor time of all cores that other processes took.
    stolen : float or None
        Share that the hypervisor gave to other machines.
    switches : int or None
        Involuntary context switches of this process: it was interrupted so often.
    megahertz : tuple of float or None
        The frequency at the start and at the end, the mean of all cores.
    load : float or None
        Processes that were ready to run, on average over the last minute.
    cores : int
        Cores that this process may use.
    threads : int
        Threads of parallel kernels.
    layer : str
        numba's threading layer: omp, tbb or workqueue; empty before the first parallel kernel.
    """

    busy: float | None = None
    stolen: float | None = None
    switches: int | None = None
    megahertz: tuple[float, float] | None = None
    load: float | None = None
    cores: int = 1
    threads: int = 1
    layer: str = ""

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the figures, in a sentence each."""
        texts = []
        if self.busy is not None and self.busy > BUSY:
            texts.append(f"other processes took {self.busy:.0%} of the processor time: intervals "
                         "are wider, and absolute times too long")
        if self.stolen is not None and self.stolen > STOLEN:
            texts.append(f"the hypervisor took {self.stolen:.0%} of the processor time away")
        if self.megahertz and abs(self.megahertz[1] / self.megahertz[0] - 1) > THROTTLED:
            texts.append(f"the frequency went from {self.megahertz[0]:.0f} to "
                         f"{self.megahertz[1]:.0f} MHz")
        if self.threads > self.cores:
            texts.append(f"{self.threads} threads share {self.cores} cores")
        return texts

    def as_json(self) -> dict[str, Any]:
        """All values, and the warnings."""
        return asdict(self) | {"warnings": self.warnings}


@contextmanager
def observed() -> Iterator[Conditions]:
    """A block whose conditions are known at its end."""
    conditions = Conditions(cores=cores(), threads=num_threads())
    began, own, system, frequency, switches = (
        time.perf_counter(), time.process_time(), _processor_times(), _megahertz(), _switches())
    yield conditions
    elapsed = (time.perf_counter() - began) * (os.cpu_count() or 1)
    mine, after = time.process_time() - own, _processor_times()
    if system and after and elapsed > 0:
        conditions.busy = min(1.0, max(0.0, (after[0] - system[0] - mine) / elapsed))
        conditions.stolen = min(1.0, max(0.0, (after[1] - system[1]) / elapsed))
    if switches is not None:
        conditions.switches = (_switches() or 0) - switches
    later = _megahertz()
    if frequency and later:
        conditions.megahertz = frequency, later
    if hasattr(os, "getloadavg"):
        conditions.load = os.getloadavg()[0]
    conditions.layer = threading_layer()


def _processor_times() -> tuple[float, float] | None:
    """Seconds since the start of the system, of all cores: busy, and stolen by the hypervisor."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _, _, interrupt, soft, steal = (
        int(field) / os.sysconf("SC_CLK_TCK") for field in fields)
    return user + nice + system + interrupt + soft, steal


def _megahertz() -> float | None:
    """The mean frequency of all cores, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    values = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return sum(values) / len(values) if values else None


def _switches() -> int | None:
    """Involuntary context switches of this process."""
    try:
        import resource
    except ImportError:   # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
