"""Arrays in GPU memory.

An `Array` is a shape and an element type over a part of a block, which is one allocation.  Views
share the block, which is freed with the last of them.  All arrays are C-contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...shape import size_of

__all__ = ["Array", "or_scratch"]


def or_scratch(outs: Sequence[Array | None], scratch: Sequence[Array]) -> list[Array]:
    """The outputs, with scratch in place of those that are not requested."""
    return [spare if out is None else out for out, spare in zip(outs, scratch, strict=False)]


class Array:
    """`shape` elements of `dtype`, `offset` bytes into `block`, memory of the `Gpu` `device`."""

    def __init__(self, device: Any, block: Any, offset: int, shape: Sequence[int], dtype: Any):
        self.device, self.block, self.offset = device, block, offset
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.size = size_of(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def address(self) -> int:
        """The device address of the first element."""
        return self.block.address + self.offset

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, by which other packages access the memory."""
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False),
                "version": 3}

    def part(self, first: int, shape: Sequence[int]) -> Array:
        """A view of the elements from flat index `first` on."""
        return Array(self.device, self.block, self.offset + first * self.dtype.itemsize, shape,
                     self.dtype)

    def reshape(self, *shape: Any) -> Array:
        """A view with another shape, given as integers or as one sequence; one extent may be -1."""
        wanted = [int(n) for n in (shape[0] if isinstance(shape[0], Sequence) else shape)]
        if -1 in wanted:
            known = size_of(n for n in wanted if n != -1)
            wanted[wanted.index(-1)] = self.size // max(known, 1)
        if size_of(wanted) != self.size:
            raise ValueError(f"cannot reshape {self.shape} to {tuple(wanted)}")
        return Array(self.device, self.block, self.offset, wanted, self.dtype)
