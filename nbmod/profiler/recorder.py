"""What was measured.

Data structure: `events`, dicts in Chrome's trace format, and `totals`, (category, name) -> sums.
Totals go on when there are too many events to keep.  Times are microseconds of one clock.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import os
import pathlib
import threading
import time
from dataclasses import dataclass
from typing import Any

__all__ = ["RECORDER", "Recorder", "Total", "now"]

MAX_EVENTS = 1_000_000
"""Some 500 MB of a trace that no viewer opens."""


def now() -> float:
    """Microseconds."""
    return time.perf_counter_ns() / 1000


@dataclass
class Total:
    """Durations in microseconds, or values of a counter."""

    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.least, self.most = min(self.least, value), max(self.most, value)

    @property
    def mean(self) -> float:
        return self.total / self.count


class Recorder:
    """Events and totals of one process.  Any thread may record."""

    def __init__(self) -> None:
        self.running = False
        self.prefix = ""
        self.clear()
        self.forget()

    def clear(self) -> None:
        """Drop the events."""
        self.events: list[dict[str, Any]] = []
        self.left_out = 0
        self._places: dict[str, int] = {}

    def forget(self) -> None:
        """Start the totals afresh."""
        self.times: dict[tuple[str, str], Total] = {}
        self.memory: dict[tuple[str, str], Total] = {}

    def span(self, category: str, name: str, start: float, duration: float, place: str = "host",
             args: dict[str, Any] | None = None, total: str = "") -> None:
        """Something that took a time; totals count it as `total` or `name`."""
        self._add({"name": name, "cat": category, "ph": "X", "ts": start, "dur": duration,
                   **({"args": args} if args else {})}, place)
        self.times.setdefault((category, total or name), Total()).add(duration)

    def counter(self, category: str, name: str, value: float, memory: bool = False) -> None:
        """The value of a counter from now on."""
        self._add({"name": name, "cat": category, "ph": "C", "ts": now(), "args": {name: value}},
                  "host")
        totals = self.memory if memory else self.times
        totals.setdefault((category, name), Total()).add(value)

    def instant(self, category: str, name: str, scope: str) -> None:
        """Something that happened now; `scope` is Chrome's letter."""
        self._add({"name": name, "cat": category, "ph": "i", "ts": now(), "s": scope}, "host")

    def _add(self, event: dict[str, Any], place: str) -> None:
        if len(self.events) >= MAX_EVENTS:
            self.left_out += 1
            return
        pid = self._places.setdefault(place, len(self._places))
        self.events.append({**event, "pid": pid, "tid": threading.get_ident()})

    def write(self, path: str) -> None:
        """The trace as a file, whole or not at all."""
        named = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": place}}
                 for place, pid in self._places.items()]
        trace = {"traceEvents": [*named, *self.events], "displayTimeUnit": "ms",
                 "otherData": {"events left out": self.left_out}}
        target = pathlib.Path(path)
        beside = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        try:
            beside.write_text(json.dumps(trace), encoding="utf-8")
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)


RECORDER = Recorder()
