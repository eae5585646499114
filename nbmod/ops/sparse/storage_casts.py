"""Ops that exist for sparse arrays.  In bound graphs, whose arrays are dense, they compute the same
values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..elementwise.identity import Copy
from ..op import Call, Op, Types, common_type
from ..shape import ShapeMismatch, Shapes, unify
from ..tensor.indexing import in_range

__all__ = ["CastStorage", "SparseRetain"]


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
