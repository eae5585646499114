"""The progress of compilation: a live line at a terminal, log lines elsewhere.

numba reports start and end of every compilation; those of helpers are nested in that of the kernel,
and only the outermost counts.  The kernels of a network that are left are those whose files
(`expect`) do not exist yet, whichever process compiles them.  The live line names the layer that
waits for the kernel, which `locate` finds.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ...core.config import CONFIG
from ...core.fork import fresh
from ...core.screen import LiveLine, duration, is_child, is_watched, log_off_screen

__all__ = ["CompileListener", "CompilerEvent", "expect", "locate_by", "patience"]

LONG, PATIENCE = 1.0, 5.0
"""Total seconds of compilation before the message that explains it, by NBMOD_DEBUG=1 and else."""
MESSAGE = ("nbmod: compiling kernels, once on this machine (nbmod warmup does so "
           "ahead) ...")
TYPICAL, WEIGHT = 2.0, 3
"""Seconds that a kernel is taken to need, and for how many kernels that judgement counts."""

Place = tuple[str, int]
"""Name of the layer that runs, and the number of kinds of layers that have not run yet."""


class CompilerEvent(Protocol):
    """An event that numba tells a listener (`numba.core.event.Event`)."""

    kind: str
    is_start: bool
    data: Mapping[str, Any]


_expected: list[Path] = []
_processes = 1
_locate: Callable[[], Place | None] | None = None


def expect(files: Iterable[Path], processes: int = 1) -> None:
    """The files of all kernels of the network that is being compiled, by so many processes."""
    global _processes
    _expected[:], _processes = files, processes


def locate_by(locate: Callable[[], Place | None]) -> None:
    """Ask this function where the thread is that compiles; it returns None outside of networks."""
    global _locate
    _locate = locate


def patience() -> float:
    """Seconds of compilation before the message; environment variables change them."""
    if CONFIG.debug:
        return LONG
    return PATIENCE if CONFIG.progress else math.inf


class CompileListener:
    """A listener to numba's compilation events.

    Where there is no terminal, it prints a message when compilation has taken `patience` seconds.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.depth, self.done, self.seconds, self.began = 0, 0, 0.0, 0.0
        self.layer, self.left = "", 0.0
        self.line: LiveLine | None = None
        self._lock = fresh(threading.RLock())

    def notify(self, event: CompilerEvent) -> None:
        """Handle an event; events are serialized, and come from the thread that compiles."""
        self.depth += 1 if event.is_start else -1
        if event.is_start and self.depth == 1:
            self.begin(event.data["dispatcher"].py_func.__name__)
        elif not event.is_start and self.depth == 0:
            self.end()
        elif self.line is not None:
            self.show(self.line)
        else:
            self.explain(self.seconds + time.perf_counter() - self.began)

    def begin(self, name: str) -> None:
        """Show what is compiled now."""
        self.began = time.perf_counter()
        missing = sum(not path.exists() for path in _expected)
        text = f"compiling kernel {name}, {self.done} done" + (f", {missing} left" * bool(missing))
        if not is_watched():
            logging.getLogger("nbmod").info(text)
            return
        log_off_screen("nbmod", text)
        self.layer, kinds = _locate and _locate() or ("kernels", 0)
        mean = (self.seconds + WEIGHT * TYPICAL) / (self.done + WEIGHT)
        self.left = mean * max(missing / _processes, 1 if missing else kinds + 1)
        self.line = LiveLine()
        self.show(self.line)
        threading.Thread(target=self._tick, args=(self.line,), daemon=True).start()

    def _tick(self, line: LiveLine) -> None:
        """Count the seconds while a kernel is compiled."""
        while self.line is line:
            time.sleep(1.0)
            with self._lock:
                if self.line is line:
                    self.show(line)

    def show(self, line: LiveLine) -> None:
        """Show the line, with the seconds that are left now."""
        left = max(1.0, self.left - (time.perf_counter() - self.began))
        tail = f", once on this machine: {duration(left)} left"
        room = line.width - len("nbmod: compiling ") - len(tail)
        layer = self.layer if len(self.layer) <= room else self.layer[:max(room - 3, 0)] + "..."
        line.show(f"nbmod: compiling {layer}{tail}")

    def end(self) -> None:
        """Erase the line, so that the program's own output is not appended to it."""
        self.done += 1
        self.seconds += time.perf_counter() - self.began
        if self.line is not None:
            with self._lock:
                self.line.close()
                self.line = None
        else:
            self.explain(self.seconds)

    def explain(self, seconds: float) -> None:
        """Tell who has no terminal, once, that a silence of so many seconds is compilation."""
        if seconds > self.patience and not is_child():
            self.patience = math.inf
            print(MESSAGE, file=sys.stderr, flush=True)
