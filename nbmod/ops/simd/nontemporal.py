"""Non-temporal (streaming) stores of large outputs.

A store to an uncached line reads the line first (write-allocate): a third of the traffic of an
operator that reads one array and writes another.  `Vectors.store_nontemporal` avoids that read, but
the next reader finds the data in no cache.

Generated kernels (`elementwise.codegen`) compute STEP elements into a `stack_buffer` first:

    store_nontemporal(buffer, out, at)   out[at + i] = buffer[i], `out` flat, `at` vector-aligned
    store_fence(out)                     after the last store of a thread
"""

from __future__ import annotations

import numpy as np

from .host import lanes
from .ir import MicroKernel, Vectors
from .raw_arrays import STEP

__all__ = ["NONTEMPORAL_BYTES", "bypasses_cache", "store_fence", "store_nontemporal"]

NONTEMPORAL_BYTES = 2 ** 24
"""Bytes of an output from which on it does not stay in a cache until it is read."""


def bypasses_cache(out: np.ndarray, *ins: np.ndarray) -> bool:
    """Whether `out` is written with non-temporal stores: it is large and overlaps no input."""
    width = lanes("float32")
    return (out.nbytes >= NONTEMPORAL_BYTES and width > 1 and out.ctypes.data % (4 * width) == 0
            and not any(np.may_share_memory(out, array) for array in ins))


def _emit(v: Vectors) -> None:
    target = v.at(v.args.out, v.args.at)
    for i in range(0, STEP, v.width):
        v.store_nontemporal(v.load(v.at(v.args.buffer, i)), v.at(target, i))


def _reference(buffer, out, at):
    out.reshape(-1)[at:at + STEP] = buffer


store_nontemporal = MicroKernel(("buffer", "out", "at"), _emit, _reference)
store_fence = MicroKernel(("out",), lambda v: v.store_fence(), lambda out: None)
