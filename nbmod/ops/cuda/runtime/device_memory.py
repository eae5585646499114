"""Arrays in GPU memory.

An `Array` is a shape and an element type over a part of a block, which is one allocation.  Views
share the block, which is freed with the last of them.  All arrays are C-contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from ...shape import size_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["Argument", "Array", "ArrayDevice", "Arrays", "Outputs", "or_scratch"]


class Allocation(Protocol):
    """A block of memory, of a GPU or of the simulator."""

    address: int


class ArrayDevice(Protocol):
    """The GPU of an array, as kernels use it."""

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> Array: ...

    def from_numpy(self, array: np.ndarray) -> Array: ...

    def to_numpy(self, array: Array) -> np.ndarray: ...

    def copy(self, src: Any, dst: Any) -> None: ...

    def span(self, array: Array) -> tuple[int, int]: ...


def or_scratch(outs: Outputs, scratch: Arrays) -> list[Array]:
    """The outputs, with scratch in place of those that are not requested."""
    return [spare if out is None else out for out, spare in zip(outs, scratch, strict=False)]


class Array:
    """`shape` elements of `dtype`, `offset` bytes into `block`, memory of `device`."""

    def __init__(self, device: ArrayDevice, block: Allocation, offset: int,
                 shape: Sequence[int], dtype: DTypeLike):
        self.device, self.block, self.offset = device, block, offset
        self.shape = tuple(shape)
        self.dtype: np.dtype = np.dtype(dtype)
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

    def reshape(self, *shape: int | Sequence[int]) -> Array:
        """A view with another shape, given as integers or as one sequence; one extent may be -1."""
        extents = [int(n) for one in shape for n in (one if isinstance(one, Sequence) else [one])]
        if -1 in extents:
            known = size_of(n for n in extents if n != -1)
            extents[extents.index(-1)] = self.size // max(known, 1)
        if size_of(extents) != self.size:
            raise ValueError(f"cannot reshape {self.shape} to {tuple(extents)}")
        return Array(self.device, self.block, self.offset, extents, self.dtype)


Argument: TypeAlias = Array | np.generic | float
"""An argument of a kernel; int is int32, float is float64, NumPy scalars keep their types."""
Arrays: TypeAlias = Sequence[Array]
Outputs: TypeAlias = Sequence[Array | None]
"""Results; None is one that nothing reads."""
