"""Images with their channels in blocks, for ops that do the same to all channels of a pixel.

(N, C, pixels) becomes (N, blocks, pixels, BLOCK): the numbers of one pixel in BLOCK channels lie
side by side, so what is found out about a place, which pixels count there and how much, is found
out once for all of them, and the loop over channels is vector code.  Channels that fill up the last
block are 0.  To and fro cost two passes over an image: it pays where pixels are used several times.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..jit import inlined, kernel, prange
from ..op import Spec
from ..param import Shape

__all__ = ["BLOCK", "add_scaled", "blocks_of", "blocks_pay", "from_blocks", "into_blocks", "put_in",
           "take_out"]

BLOCK = 64
"""Channels side by side: a few vectors, so that a loop over them is worth its start."""
PIXELS, STRIP = 16, 512
"""Pixels moved together, as they share cache lines; pixels of a task."""
USES = 16
"""Pixels that a bin reads, about: with as many uses as pixels both ways take the same time."""


@kernel(parallel=True)
def into_blocks(data, blocks):
    """blocks (N, blocks, pixels, BLOCK) from data (N, C, pixels)."""
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
                for p in range(first, last):
                    block[p, c] = plane[p]
            for p in range(first, last):
                for c in range(have, BLOCK):
                    block[p, c] = 0


@kernel(parallel=True)
def from_blocks(blocks, data):
    """data (N, C, pixels) from blocks (N, blocks, pixels, BLOCK)."""
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
                for p in range(first, last):
                    plane[p] = block[p, c]


@inlined
def add_scaled(total, pixel, weight):
    """total += weight pixel, over a block's channels."""
    for c in range(BLOCK):
        total[c] += weight * pixel[c]


@inlined
def take_out(rows, values):
    """values (C, n) = rows (n, BLOCK) of the first C channels."""
    for c in range(values.shape[0]):
        for k in range(values.shape[1]):
            values[c, k] = rows[k, c]


@inlined
def put_in(values, rows):
    """rows (n, BLOCK) of values (C, n); channels that do not exist are 0."""
    for k in range(rows.shape[0]):
        for c in range(BLOCK):
            rows[k, c] = values[c, k] if c < values.shape[0] else 0


def blocks_of(data: Any) -> Spec:
    """What data (N, C, ...), an array or a Spec, becomes."""
    batch, channels, *image = data.shape
    return Spec((batch, -(-channels // BLOCK), math.prod(image), BLOCK), data.dtype)


def blocks_pay(data: Shape, bins: int) -> bool:
    """Whether to put data (N, C, ...) into blocks, for so many bins in all."""
    return bins * USES >= data[0] * math.prod(data[2:])
