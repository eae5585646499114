"""Which outputs are written past the caches.

A store to memory that no cache holds reads first what it overwrites: a third of the traffic of an
op that reads one array and writes another.  `Vectors.stream` writes without reading, but whoever
wants the numbers next finds them in no cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .host import lanes

__all__ = ["BEYOND", "streams"]

BEYOND = 2 ** 24
"""Bytes of an output that no cache keeps until somebody reads it."""


def streams(out: Any, *ins: Any) -> bool:
    """Whether `out` is to be written past the caches: it is large, and no input lies there."""
    return (out.nbytes >= BEYOND and out.ctypes.data % (4 * lanes("float32")) == 0
            and not any(np.may_share_memory(out, array) for array in ins))
