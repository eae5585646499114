"""A progress bar of one line."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from ..core.config import is_terminal
from ..core.screen import INTERVAL, LiveLine, bar

__all__ = ["ProgressCounter"]

_WIDTH = 30


class ProgressCounter:
    """Counts up to `total`; shows a bar where the stream is a terminal, else nothing until the end.

    Used with `with`; the last line has count, time and rate.
    """

    def __init__(self, what: str, total: int, stream: TextIO | None = None):
        self.what, self.total, self.done = what, total, 0
        self._stream = sys.stderr if stream is None else stream
        self._line = LiveLine(self._stream) if is_terminal(self._stream) else None
        self._begun = self._shown = time.monotonic()

    def add(self, count: int = 1) -> None:
        """Advance by `count`."""
        self.done += count
        now = time.monotonic()
        if self._line is not None and now - self._shown >= INTERVAL:
            self._shown = now
            self._line.show(f"{bar(self.done, self.total, _WIDTH)} {self.done:,} of "
                            f"{self.total:,} {self.what}")

    def __enter__(self) -> ProgressCounter:
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        seconds = max(time.monotonic() - self._begun, 1e-3)
        end = "" if kind is None else ", not finished"
        if self._line is not None:
            self._line.close()
        print(f"{self.what}: {self.done:,} of {self.total:,} in {seconds:.1f} s "
              f"({self.done / seconds:,.0f} a second){end}", file=self._stream)
