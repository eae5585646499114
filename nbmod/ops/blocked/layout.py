"""The blocked form of images: (N, blocks, H + 2 halo, W + 2 halo, lanes).

The channels of (N, C, H, W) stand in blocks of `lanes`, one vector of the host, so that the numbers
of a pixel in so many channels are one load, and an op on them is vector code whatever their number
and the image's width.  With one lane this is (N, C, H, W) in a halo: the form of pictures, whose
few channels would leave most of a vector empty.

Two things hold for every blocked tensor whose producer has run:

    the halo, `halo` pixels around the image, is zero: it is the padding of the convolutions that
    read it, so that none of them has to ask where an image ends
    channels that fill up the last block are zero, so that sums over them do no harm
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..jit import kernel, prange
from ..simd.conv_strip import LANES

__all__ = ["LANES", "Form", "clear_halo", "clear_tail", "distance", "enter_channels", "flat"]


@dataclass(frozen=True)
class Form:
    """A blocked tensor of `channels` channels of images (height, width) within a halo."""

    channels: int
    height: int
    width: int
    halo: int = 0
    lanes: int = LANES
    apart: int = 0
    """Numbers from an image to the next, where they are not behind each other: those of pieces of
    images with more channels."""

    @classmethod
    def of(cls, shape: Sequence[int], channels: int, halo: int) -> Form:
        """Of a blocked shape."""
        return cls(channels, shape[2] - 2 * halo, shape[3] - 2 * halo, halo, shape[4])

    def as_in(self, array: Any) -> Form:
        """The form that a blocked array has, whose images may be apart; no arrays, but a Spec of
        one, are not."""
        return replace(self, apart=distance(array))

    @property
    def blocks(self) -> int:
        return -(-self.channels // self.lanes)

    def shape(self, batch: int) -> tuple[int, ...]:
        return (batch, self.blocks, self.height + 2 * self.halo, self.width + 2 * self.halo,
                self.lanes)

    @property
    def row(self) -> int:
        """Numbers from a pixel to the one below it."""
        return (self.width + 2 * self.halo) * self.lanes

    @property
    def plane(self) -> int:
        """Numbers of a block of channels."""
        return (self.height + 2 * self.halo) * self.row

    @property
    def image(self) -> int:
        """Numbers from an image to the next."""
        return self.apart or self.blocks * self.plane

    def at(self, y: Any, x: Any) -> Any:
        """Where pixel (y, x) is in a plane; numbers or arrays, also negative ones in the halo."""
        return (y + self.halo) * self.row + (x + self.halo) * self.lanes

    def inside(self, array: Any) -> Any:
        """A view of the blocked `array` without its halo."""
        h = self.halo
        return array[:, :, h:h + self.height, h:h + self.width]

    @property
    def tail(self) -> int:
        """Channels of the last block, 0 if it is full."""
        return self.channels % self.lanes


def distance(array: Any) -> int:
    """Numbers from an image of a blocked array to the next if that is more than those of one."""
    apart = isinstance(array, np.ndarray) and not array.flags.c_contiguous
    return array.strides[0] // array.itemsize if apart else 0


def flat(array: np.ndarray) -> np.ndarray:
    """The memory of a blocked array from its first number to its last."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    count = (len(array) - 1) * distance(array) + array[0].size
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))


@kernel(parallel=True)
def _clear_halo(planes, halo, zero):
    """Clear the halo of planes (count, rows, columns, lanes)."""
    count, rows, columns, width = planes.shape
    for k in prange(count):
        plane = planes[k]
        for y in range(rows):
            edge = y < halo or y >= rows - halo
            for x in range(columns if edge else halo):
                for c in range(width):
                    plane[y, x, c] = zero
                    if not edge:
                        plane[y, columns - 1 - x, c] = zero


def clear_halo(array: np.ndarray, halo: int, zero: int = 0) -> None:
    """Clear the halo of a blocked array, or of its planes (count, rows, columns, lanes)."""
    if halo:
        for part in array if distance(array) else (array,):
            _clear_halo(part.reshape(-1, *part.shape[-3:]), halo, zero)


def enter_channels(values: np.ndarray, vectors: np.ndarray) -> None:
    """Numbers per channel into vectors of lanes; 0 for lanes that stand for no channel."""
    lanes = vectors.reshape(-1)
    lanes[:len(values)] = values
    lanes[len(values):] = 0


def clear_tail(array: np.ndarray, channels: int) -> None:
    """Zero the lanes of the last block that stand for no channel."""
    if channels % LANES:
        array[:, -1, ..., channels % LANES:] = 0
