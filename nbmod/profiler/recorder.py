"""Storage of measurements.

Data structure: `events`, dicts in Chrome's trace format, and totals, (category, name) -> `Total`,
which are still updated when the limit of events is reached.  Times are in microseconds.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass

from ..core.atomic import atomic_write

__all__ = ["RECORDER", "Recorder", "Total", "now"]

MAX_EVENTS = 1_000_000
"""About 500 MB of trace, more than viewers can open."""


def now() -> float:
    """Current time in microseconds."""
    return time.perf_counter_ns() / 1000


@dataclass
class Total:
    """Statistics of durations in microseconds, or of the values of a counter."""

    count: int = 0
    total: float = 0.0
    min: float = float("inf")
    max: float = float("-inf")

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.min, self.max = min(self.min, value), max(self.max, value)

    @property
    def mean(self) -> float:
        return self.total / self.count


class Recorder:
    """Events and totals of one process.  Any thread may record."""

    def __init__(self) -> None:
        self.running = False
        self.prefix = ""
        self.custom = ""  # the custom operator that runs, with "::"
        self.clear()
        self.clear_totals()

    def clear(self) -> None:
        """Discard the events."""
        self.events: list[dict[str, object]] = []
        self.dropped = 0
        self._processes: dict[str, int] = {}

    def clear_totals(self) -> None:
        """Reset the totals."""
        self.times: dict[tuple[str, str], Total] = {}
        self.memory: dict[tuple[str, str], Total] = {}

    def span(self, category: str, name: str, start: float, duration: float, process: str = "host",
             args: dict[str, object] | None = None, total: str = "") -> None:
        """Record an interval; totals count it as `total` or `name`."""
        self._add({"name": name, "cat": category, "ph": "X", "ts": start, "dur": duration,
                   **({"args": args} if args else {})}, process)
        self.times.setdefault((category, total or name), Total()).add(duration)

    def counter(self, category: str, name: str, value: float, memory: bool = False) -> None:
        """Record a new value of a counter."""
        self._add({"name": name, "cat": category, "ph": "C", "ts": now(), "args": {name: value}},
                  "host")
        totals = self.memory if memory else self.times
        totals.setdefault((category, name), Total()).add(value)

    def instant(self, category: str, name: str, scope: str) -> None:
        """Record an instant event; `scope` is its letter in Chrome's format."""
        self._add({"name": name, "cat": category, "ph": "i", "ts": now(), "s": scope}, "host")

    def _add(self, event: dict[str, object], process: str) -> None:
        if len(self.events) >= MAX_EVENTS:
            self.dropped += 1
            return
        pid = self._processes.setdefault(process, len(self._processes))
        self.events.append({**event, "pid": pid, "tid": threading.get_ident()})

    def write(self, path: str) -> None:
        """Write the trace to a file, atomically."""
        named = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process}}
                 for process, pid in self._processes.items()]
        trace = {"traceEvents": [*named, *self.events], "displayTimeUnit": "ms",
                 "otherData": {"events left out": self.dropped}}
        with atomic_write(path) as stream:
            stream.write(json.dumps(trace).encode())


RECORDER = Recorder()
