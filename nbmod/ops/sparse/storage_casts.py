"""Ops that exist for sparse arrays.  In bound graphs, whose arrays are dense, they compute the same
values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..elementwise.identity import Copy
from ..op import Call, Op, Types, common_type
from ..shape import ShapeMismatch, Shapes, unify
from ..tensor.gather_scatter import in_range

__all__ = ["CastStorage", "GetNNZ", "SparseRetain"]


@dataclass(frozen=True, kw_only=True)
class CastStorage(Copy, name="cast_storage", aliases=("_sparse_cast_storage",)):
    """`data` in the storage type `stype`, of the same shape and elements.

    Dense arrays are converted to any type, and arrays of any type to dense ones.
    """

    stype: Literal["csr", "default", "row_sparse"]

    @property
    def makes_sparse(self) -> bool:
        return self.stype != "default"


@dataclass(frozen=True)
class SparseRetain(Op, name="_sparse_retain"):
    """The rows `indices` of `data`, at their places; all others are zeros."""

    shapes: ClassVar = "data (rows, ...) and output are alike, indices is a vector"
    inputs: ClassVar = ("data", "indices")
    needs: ClassVar = ("ograd", "indices")
    index_inputs: ClassVar = ("indices",)

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data, indices = unify(ins[0], outs[0], "data and output"), ins[1]
        if indices is not None and len(indices) != 1:
            raise ShapeMismatch(f"indices has shape {indices}, expected one axis")
        return [data, indices], [data]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        dtype = common_type([ins[0], outs[0]])
        return [dtype, ins[1] or dtype], [dtype]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        data, indices = ins
        rows = in_range(indices, len(data), "raise")
        outs[0].fill(0)
        outs[0][rows] = data[rows]

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        if outs[0] is not None:
            self.forward(ins, outs, call)
        if outs[1] is not None:
            outs[1].fill(0)


@dataclass(frozen=True)
class GetNNZ(Op, name="_contrib_getnnz"):
    """The number of stored elements of a csr matrix, of those in each column (axis 0) or in each
    row (axis 1); of a dense one, of elements that are not 0."""

    axis: int | None = None

    shapes: ClassVar = "data is a matrix, output (1,), or a vector for an axis"
    needs: ClassVar = ()

    def require_axis(self) -> None:
        """ShapeMismatch if there is no such axis."""
        if self.axis not in (None, 0, 1):
            raise ShapeMismatch(f"_contrib_getnnz: axis is {self.axis}, expected None, 0 or 1")

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        self.require_axis()
        data = ins[0]
        if not data:
            return list(ins), list(outs)
        if len(data) != 2:
            raise ShapeMismatch(f"data has shape {data}, expected two axes")
        return [data], [(1,) if self.axis is None else (data[1 - self.axis],)]

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        return list(ins), [np.dtype(np.int64)]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        outs[0][:] = np.count_nonzero(ins[0], axis=self.axis)
