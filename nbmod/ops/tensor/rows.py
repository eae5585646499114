"""Ops on whole rows or positions: index_copy, boolean_mask, index_array, khatri_rao."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from ...base import MXNetError
from ...core.shape_semantics import is_np_shape
from ..op import Op
from ..param import Shape
from ..rules import copy_over, data_type, fill_zero
from ..shape import ShapeMismatch, normalize_axis, size_of, unify

__all__ = ["BooleanMask", "IndexCopy", "IndexArray", "KhatriRao"]


@dataclass(frozen=True)
class IndexCopy(Op, name="_contrib_index_copy"):
    """old_tensor (N, ...) with rows index_vector (M,) replaced by those of new_tensor (M, ...).

    If an index occurs several times, the last row counts.  A row that old_tensor does not have is
    an error.
    """

    inputs: ClassVar = ("old_tensor", "index_vector", "new_tensor")
    needs: ClassVar = ("ograd", "index_vector")
    inplace: ClassVar = (("old_tensor", "output"),)

    def infer_shape(self, ins, outs):
        old, index, new = ins
        old = unify(old, outs[0], "old_tensor and output")
        if old is None or not old:
            return ins, [old]
        rows = new[0] if new else 0
        index = unify(index, (rows,), "index_vector and rows of new_tensor")
        assert index is not None
        return [old, index, unify(new, (index[0], *old[1:]), "new_tensor and rows to be replaced")
                ], [old]

    def infer_type(self, ins, outs):
        kinds, outs = data_type([ins[0] or ins[2], ins[2], ins[1]], outs)
        return [kinds[0], kinds[2], kinds[0]], outs

    def _rows(self, index: np.ndarray, count: int) -> np.ndarray:
        rows = index.astype(np.int64)
        wrong = (rows < 0) | (rows >= count)
        if wrong.any():
            raise MXNetError(f"{self.name}: index_vector holds {rows[wrong][0]}, expected rows "
                             f"from 0 to {count - 1} of old_tensor")
        return rows

    def forward(self, ins, outs, call):
        rows = self._rows(ins[1], len(outs[0]))
        copy_over(ins[0], outs[0])
        outs[0][rows] = ins[2]

    def backward(self, ins, outs, call):
        g, index = ins
        old, _, new = outs
        rows = index.astype(np.int64)
        fill_zero(outs[1:2])
        if old is not None:
            np.copyto(old, g)
            old[rows] = 0
        if new is not None:
            np.take(g, rows, axis=0, out=new)


@dataclass(frozen=True)
class BooleanMask(Op, name="_contrib_boolean_mask"):
    """The rows of data (N, ...) where index (N,) is not zero: (number of those, ...).

    The output shape depends on the values of index, so this runs eagerly only (also under
    `autograd.record`), and cannot be bound.  The gradient of the other rows is zero.
    """

    axis: int = 0

    inputs: ClassVar = ("data", "index")
    needs: ClassVar = ("ograd", "index")
    index_inputs: ClassVar = ("index",)

    def __post_init__(self):
        if self.axis != 0:
            raise MXNetError(f"{self.name}: parameter axis is {self.axis}, expected 0")

    def infer_shape(self, ins, outs):
        data, index = ins
        if data is not None and index is not None:
            index = unify(data[:1], index, "rows of data and index")
            assert index is not None
            data = (*index, *data[1:])
        out = None if data is None else (0, *data[1:])
        return [data, index], [unify(out, outs[0], "output")]

    def infer_type(self, ins, outs):
        return data_type(ins, outs)

    def shape_of_values(self, ins):
        data, index = ins
        if index.shape != data.shape[:1]:
            raise ShapeMismatch(f"{self.name}: index has shape {index.shape}, expected one element "
                                f"for each row of data {data.shape}")
        count = int(np.count_nonzero(index))
        if not count and not is_np_shape():
            raise MXNetError(f"{self.name}: index selects no row of data {data.shape}; arrays "
                             "without elements exist under mx.np_shape only")
        return [(count, *data.shape[1:])]

    def forward(self, ins, outs, call):
        np.compress(ins[1] != 0, ins[0], axis=0, out=outs[0])

    def backward(self, ins, outs, call):
        fill_zero(outs)
        if outs[0] is not None:
            outs[0][ins[1] != 0] = ins[0]


@dataclass(frozen=True)
class IndexArray(Op, name="_contrib_index_array"):
    """Every position of data (d1, ..., dn) as its indices: (d1, ..., dn, n), int64.

    `axes` chooses which indices, and in which order.  There is no gradient.
    """

    axes: Shape | None = None

    def _axes(self, rank: int) -> Shape:
        axes = range(rank) if self.axes is None else self.axes
        return tuple(normalize_axis(axis, rank, "axes") for axis in axes)

    def infer_shape(self, ins, outs):
        data = ins[0]
        return ins, outs if data is None else [(*data, len(self._axes(len(data))))]

    def infer_type(self, ins, outs):
        return ins, [np.dtype(np.int64)]

    def forward(self, ins, outs, call):
        shape = ins[0].shape
        for i, axis in enumerate(self._axes(len(shape))):
            outs[0][..., i] = np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))


@dataclass(frozen=True)
class KhatriRao(Op, name="khatri_rao"):
    """Column by column, the Kronecker product of matrices (M1, N), (M2, N), ...: (M1 M2 ..., N)."""

    num_args: int

    inputs: ClassVar = ("args",)
    needs: ClassVar = ("ograd", "args")
    variadic: ClassVar = "num_args"

    def infer_shape(self, ins, outs):
        for i, shape in enumerate(ins):
            if shape is not None and len(shape) != 2:
                raise ShapeMismatch(f"arg{i} has shape {shape}, expected a matrix (M, N)")
        columns = max((shape[1] for shape in ins if shape), default=0)
        whole = [unify(shape, (0, columns), f"arg{i} and columns of the others")
                 for i, shape in enumerate(ins)]
        rows = size_of(shape[0] for shape in whole if shape is not None)
        return whole, [unify((rows, columns), outs[0], "computed and wanted output")]

    def forward(self, ins, outs, call):
        outs[0][...] = reduce(_rows_times_rows, ins)

    def backward(self, ins, outs, call):
        g, *factors = ins
        for i, out in enumerate(outs):
            if out is None:
                continue
            ones = [np.ones((1, g.shape[1]), g.dtype)]
            before = reduce(_rows_times_rows, [*ones, *factors[:i]])
            after = reduce(_rows_times_rows, [*ones, *factors[i + 1:]])
            whole = g.reshape(len(before), len(out), len(after), -1)
            np.einsum("aibn,an,bn->in", whole, before, after, out=out)


def _rows_times_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Every row of a times every row of b, elementwise."""
    return (a[:, None] * b).reshape(-1, a.shape[1])
