"""A tensor of an ONNX graph while it is imported: a constant, or an output of nbmod's graph.

MXNet knows no arrays of rank 0: they have shape (1,) in nbmod's graph.  Truth values are carried by
any type, 0 and 1, since comparisons of MXNet return the type of their operands; so a tensor has a
type in ONNX (`dtype`) and one in nbmod's graph (`carrier`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ...graph import Entry
from ...ops.param import Shape
from ...ops.shape import PartialShape

__all__ = ["Array", "BOOL", "DType", "FLOAT", "INT64", "ImportedTensor", "MAX_ELEMENTS"]

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[Any]]"
"""An array of any shape and element type."""

DType: TypeAlias = "np.dtype[Any]"
"""Any element type."""

MAX_ELEMENTS = 2 ** 40
"""Elements of a tensor: more is a damaged shape."""
BOOL, INT64, FLOAT = np.dtype(bool), np.dtype(np.int64), np.dtype(np.float32)


@dataclass(frozen=True, eq=False)
class ImportedTensor:
    """A tensor, with shape and dtype in ONNX's terms: () is a scalar, 0 an open dimension.

    The shape is None if the rank is unknown.  A constant has its values in `array`; `entry` is
    where nbmod's graph computes the tensor, with element type `carrier`; a constant gets one when
    a node reads it.  `name` is that in the file, of constants and inputs.  `samples` are shapes in
    nbmod's graph for the inputs of `sample_shapes`; empty if they are not known, or of a
    constant.  `values` are those for these inputs, of what is computed from shapes that are open;
    it has no entry.
    """

    shape: PartialShape
    dtype: DType
    array: Array | None = None
    entry: Entry | None = None
    carrier: DType | None = None
    name: str = ""
    samples: tuple[Shape, ...] = ()
    values: tuple[Array, ...] = ()

    @classmethod
    def constant(cls, array: Array, name: str = "") -> ImportedTensor:
        """A constant."""
        return cls(array.shape, array.dtype, array, carrier=array.dtype, name=name)

    @property
    def inner_shape(self) -> PartialShape:
        """Shape in nbmod's graph."""
        return (1,) if self.shape == () else self.shape

    @property
    def inner_dtype(self) -> DType:
        """Element type in nbmod's graph."""
        return self.dtype if self.carrier is None else self.carrier

    @property
    def is_static(self) -> bool:
        """Whether the shape is known; a constant's always is."""
        return self.array is not None or (self.shape is not None and 0 not in self.shape)

    def at_sample(self, index: int) -> ImportedTensor:
        """The tensor for one of the inputs of `sample_shapes`: with its values, or its shape."""
        if self.values:
            return ImportedTensor.constant(self.values[index], self.name)
        return replace(self, shape=self.samples[index]) if self.samples else self

    def samples_of(self, count: int) -> tuple[Shape, ...]:
        """Shapes in nbmod's graph for `count` samples of the inputs, none if they are not known."""
        return self.samples if self.array is None else (self.array.shape or (1,),) * count

    def shaped(self, shape: PartialShape) -> ImportedTensor:
        """The entry with a shape of ONNX that nbmod's stands for: () for (1,)."""
        return replace(self, shape=shape)

    def typed(self, dtype: DType) -> ImportedTensor:
        """The entry as the carrier of values of another type."""
        return replace(self, dtype=dtype)
