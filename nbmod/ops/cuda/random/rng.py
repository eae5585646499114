"""Philox (Salmon et al., 2011) on a device: the words of `rng.words`, block by block."""

from __future__ import annotations

import numpy as np

from ...random.rng import ROUNDS
from ..runtime.launch import device_function

__all__ = ["philox"]


@device_function
def philox(block, draw, key):
    """The four 32-bit words of one block of a stream, in uint64 like the arguments."""
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    m0, m1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    w0, w1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
    c0, c1, c2, c3 = block & low, block >> high, draw & low, draw >> high
    k0, k1 = key & low, key >> high
    for _ in range(ROUNDS):
        p0, p1 = c0 * m0, c2 * m1
        c0, c1, c2, c3 = (p1 >> high) ^ c1 ^ k0, p1 & low, (p0 >> high) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + w0) & low, (k1 + w1) & low
    return c0, c1, c2, c3
