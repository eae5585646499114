"""Blocked channels (the NCHWc layout), for ops that treat all channels of a pixel alike.

(N, C, pixels) becomes (N, blocks, pixels, BLOCK), in which BLOCK channels of a pixel are
contiguous: sampling positions and weights are computed once per block, and the loop over channels
is vectorised.  Channels that pad the last block are 0.  The conversions cost two passes over an
image, so they pay where pixels are used several times.
"""

from __future__ import annotations

import math

import numpy as np

from ..jit import inlined, kernel, prange
from ..op import Spec, Tensor
from ..param import Shape

__all__ = ["BLOCK", "add_scaled", "blocks_of", "blocks_pay", "from_blocks", "into_blocks", "put_in",
           "take_out"]

BLOCK = 64
"""Channels of a block: several vectors, to amortise the start of a loop over them."""
PIXELS, STRIP = 16, 512
"""Pixels copied together, as they share cache lines; pixels of a task."""
USES = 16
"""Approximate pixels that a bin reads: with as many uses as pixels, both layouts break even."""


@kernel(parallel=True)
def _reorder(data, blocks, inward):
    """Copy data (N, C, pixels) to blocks (N, blocks, pixels, BLOCK), or back."""
    (images, count, pixels, _), channels = blocks.shape, data.shape[1]
    strips = (pixels + STRIP - 1) // STRIP
    for job in prange(images * count * strips):
        part, strip = np.int64(job) // strips, np.int64(job) % strips * STRIP
        n, b = part // count, part % count
        have, block = min(BLOCK, channels - b * BLOCK), blocks[n, b]
        for first in range(strip, min(strip + STRIP, pixels), PIXELS):
            last = min(first + PIXELS, pixels)
            for c in range(have):
                plane = data[n, b * BLOCK + c]
                if inward:
                    for p in range(first, last):
                        block[p, c] = plane[p]
                else:
                    for p in range(first, last):
                        plane[p] = block[p, c]
            for p in range(first, last if inward else first):
                for c in range(have, BLOCK):
                    block[p, c] = 0


def into_blocks(data: np.ndarray, blocks: np.ndarray) -> None:
    """blocks (N, blocks, pixels, BLOCK) from data (N, C, pixels)."""
    _reorder(data, blocks, True)


def from_blocks(blocks: np.ndarray, data: np.ndarray) -> None:
    """data (N, C, pixels) from blocks (N, blocks, pixels, BLOCK)."""
    _reorder(data, blocks, False)


@inlined
def add_scaled(total, pixel, weight):
    """total += weight pixel, over the channels of a block."""
    for c in range(BLOCK):
        total[c] += weight * pixel[c]


@inlined
def take_out(rows, values):
    """Transpose the first C channels of rows (n, BLOCK) to values (C, n)."""
    for c in range(values.shape[0]):
        for k in range(values.shape[1]):
            values[c, k] = rows[k, c]


@inlined
def put_in(values, rows):
    """Transpose values (C, n) to rows (n, BLOCK), padded with zeros."""
    for k in range(rows.shape[0]):
        for c in range(BLOCK):
            rows[k, c] = values[c, k] if c < values.shape[0] else 0


def blocks_of(data: Tensor) -> Spec:
    """The blocked form of data (N, C, ...), an array or a Spec."""
    batch, channels, *image = data.shape
    return Spec((batch, -(-channels // BLOCK), math.prod(image), BLOCK), data.dtype)


def blocks_pay(data: Shape, bins: int) -> bool:
    """Whether converting data (N, C, ...) to blocks pays off for a total of `bins`."""
    return bins * USES >= data[0] * math.prod(data[2:])
