"""Which outputs are written past the caches.

A store to memory that no cache holds reads first what it overwrites: a third of the traffic of an
op that reads one array and writes another.  `Vectors.stream` writes without reading, but whoever
wants the numbers next finds them in no cache.

Kernels that are written as loops over numbers (`ops.writer`) compute STEP of them into a `room` and
have it streamed:

    past(room, out, at)     out[at + i] = room[i] of a flat `out`, at is a multiple of a vector
    settle(out)             after the last of them that a thread does
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .host import lanes
from .ir import Micro, Vectors
from .raw_arrays import STEP

__all__ = ["BEYOND", "past", "settle", "streams"]

BEYOND = 2 ** 24
"""Bytes of an output that no cache keeps until somebody reads it."""


def streams(out: Any, *ins: Any) -> bool:
    """Whether `out` is to be written past the caches: it is large, and no input lies there."""
    width = lanes("float32")
    return (out.nbytes >= BEYOND and width > 1 and out.ctypes.data % (4 * width) == 0
            and not any(np.may_share_memory(out, array) for array in ins))


def _emit_past(v: Vectors) -> None:
    target = v.at(v.args.out, v.args.at)
    for i in range(0, STEP, v.width):
        v.stream(v.load(v.at(v.args.room, i)), v.at(target, i))


def _past(room, out, at):
    out.reshape(-1)[at:at + STEP] = room


past = Micro(("room", "out", "at"), _emit_past, _past)
settle = Micro(("out",), lambda v: v.settle(), lambda out: None)
