"""The blocked layout of images: (N, blocks, H + 2 halo, W + 2 halo, lanes), as oneDNN's nChw16c.

Channels of (N, C, H, W) are grouped in blocks of `lanes`, one vector of the host, so that a pixel
of a block is one load, and operators are vectorized for images of any width.  With one lane this is
(N, C, H, W) with a halo: the layout of input images, since their few channels would fill only a
small part of a vector.

Memory of an image with 6 channels of 2 x 2 pixels, 4 lanes and a halo of 1 (c: channel, 0: zero):

    block 0    0 0 0 0   0 0 0 0      0 0 0 0      0 0 0 0     a row of the halo
               0 0 0 0   c0 c1 c2 c3  c0 c1 c2 c3  0 0 0 0     row 0 of the image: two pixels
               0 0 0 0   c0 c1 c2 c3  c0 c1 c2 c3  0 0 0 0     row 1
               0 0 0 0   0 0 0 0      0 0 0 0      0 0 0 0
    block 1    0 0 0 0   0 0 0 0      0 0 0 0      0 0 0 0
               0 0 0 0   c4 c5 0  0   c4 c5 0  0   0 0 0 0     two padding channels
               0 0 0 0   c4 c5 0  0   c4 c5 0  0   0 0 0 0
               0 0 0 0   0 0 0 0      0 0 0 0      0 0 0 0

Two invariants hold for every blocked tensor:

    the halo, `halo` pixels around the image, is zero: it is the padding of the convolutions that
    read it, which need no bounds checks
    padding channels of the last block are zero, so that sums over them are correct
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..jit import kernel, prange
from ..op import Tensor
from ..simd.conv_strip import LANES

__all__ = ["LANES", "BlockedLayout", "flat", "image_stride_of", "pad_channels", "zero_halo",
           "zero_tail"]


@dataclass(frozen=True)
class BlockedLayout:
    """Layout of a blocked tensor of `channels` channels of images (height, width) with a halo."""

    channels: int
    height: int
    width: int
    halo: int = 0
    lanes: int = LANES
    stride: int = 0
    """Stride of images where they are not contiguous: slices of images with more channels."""

    @classmethod
    def of(cls, shape: Sequence[int], channels: int, halo: int) -> BlockedLayout:
        """The layout of a blocked shape."""
        return cls(channels, shape[2] - 2 * halo, shape[3] - 2 * halo, halo, shape[4])

    def with_stride_of(self, array: Tensor | None) -> BlockedLayout:
        """This layout with the image stride of a blocked array, which may be a slice; a Spec has
        none."""
        return replace(self, stride=image_stride_of(array))

    @property
    def blocks(self) -> int:
        return -(-self.channels // self.lanes)

    def shape(self, batch: int) -> tuple[int, ...]:
        return (batch, self.blocks, self.height + 2 * self.halo, self.width + 2 * self.halo,
                self.lanes)

    @property
    def row(self) -> int:
        """Row stride in elements."""
        return (self.width + 2 * self.halo) * self.lanes

    @property
    def plane(self) -> int:
        """Stride of blocks of channels in elements."""
        return (self.height + 2 * self.halo) * self.row

    @property
    def image(self) -> int:
        """Stride of images in elements."""
        return self.stride or self.blocks * self.plane

    def at(self, y: int | np.ndarray, x: int | np.ndarray) -> Any:
        """Offset of pixel (y, x) in a plane; ints or arrays, also negative ones in the halo."""
        return (y + self.halo) * self.row + (x + self.halo) * self.lanes

    def inside(self, array: np.ndarray) -> Any:
        """A view of the blocked `array` without its halo."""
        h = self.halo
        return array[:, :, h:h + self.height, h:h + self.width]

    @property
    def tail(self) -> int:
        """Channels of the last block, 0 if it is full."""
        return self.channels % self.lanes


def image_stride_of(array: Tensor | None) -> int:
    """Image stride of a blocked array if it is a slice, else 0."""
    if not isinstance(array, np.ndarray) or array.flags.c_contiguous:
        return 0
    return array.strides[0] // array.itemsize


def flat(array: np.ndarray) -> np.ndarray:
    """The memory of a blocked array from its first element to its last."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    count = (len(array) - 1) * image_stride_of(array) + array[0].size
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))


@kernel(parallel=True)
def _zero_halo(planes, halo, zero):
    """Zero the halo of planes (count, rows, columns, lanes)."""
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


def zero_halo(array: np.ndarray, halo: int, zero: int = 0) -> None:
    """Set the halo of a blocked array, or of planes (count, rows, columns, lanes), to `zero`."""
    if halo:
        for part in array if image_stride_of(array) else (array,):
            _zero_halo(part.reshape(-1, *part.shape[-3:]), halo, zero)


def pad_channels(values: np.ndarray, vectors: np.ndarray) -> None:
    """Copy values per channel into vectors of lanes; padding lanes become 0."""
    lanes = vectors.reshape(-1)
    lanes[:len(values)] = values
    lanes[len(values):] = 0


def zero_tail(array: np.ndarray, channels: int) -> None:
    """Zero the padding lanes of the last block."""
    if channels % LANES:
        array[:, -1, ..., channels % LANES:] = 0
