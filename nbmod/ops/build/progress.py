"""A word to who waits at a terminal: the first time compilation has taken a while.

numba reports the beginning and the end of every compilation, those of inner functions within that
of the kernel that calls them; only the outermost count.
"""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["Progress"]

LONG = 1.0
"""Seconds of compilation, all in all, that pass in silence."""


class Progress:
    """A listener to numba's compilations."""

    def __init__(self) -> None:
        self.depth, self.seconds, self.began, self.told = 0, 0.0, 0.0, False

    def notify(self, event: Any) -> None:
        """One of numba's events; they come one after another, from whichever thread compiles."""
        if event.is_start:
            self.began = time.perf_counter() if self.depth == 0 else self.began
            self.depth += 1
        else:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.perf_counter() - self.began
                self._tell()

    def _tell(self) -> None:
        if self.seconds > LONG and not self.told:
            self.told = True
            print("nbmod: compiling kernels, once on this machine (python -m nbmod warmup does so "
                  "ahead) ...", file=sys.stderr, flush=True)
