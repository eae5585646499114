"""A message for users at a terminal, once compilation has taken a while.

numba reports start and end of every compilation; those of helpers are nested in that of the kernel,
and only the outermost counts.
"""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["Progress"]

LONG = 1.0
"""Total seconds of compilation before the message."""


class Progress:
    """A listener to numba's compilation events."""

    def __init__(self) -> None:
        self.depth, self.seconds, self.began, self.announced = 0, 0.0, 0.0, False

    def notify(self, event: Any) -> None:
        """Handle an event; events are serialized, and come from the thread that compiles."""
        if event.is_start:
            self.began = time.perf_counter() if self.depth == 0 else self.began
            self.depth += 1
        else:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.perf_counter() - self.began
                if self.seconds > LONG and not self.announced:
                    self.announced = True
                    print("nbmod: compiling kernels, once on this machine (python -m nbmod warmup "
                          "does so ahead) ...", file=sys.stderr, flush=True)
