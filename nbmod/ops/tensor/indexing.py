"""Gather and scatter: ops that read or write elements by index.

Almost all of them reduce to a 2-D table and a list of row indices; `take` along another axis and
`gather_nd` with several indices first convert their indices to row indices.  The forward pass
gathers rows, the backward pass is a scatter-add of gradient rows.

Indices may have any type and are truncated to integers.  They get no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np

from ..op import Op, Run
from ..param import DType, Shape
from ..rules import common_type, copy_over, data_type, fill_zero, to_type
from ..shape import PartialShape, ShapeMismatch, Shapes, normalize_axis, require_sizes, unify
from .creation import dtype_named
from .gather_scatter import (
    add_rows,
    in_range,
    prepare_gather,
    prepare_pick,
    put_rows,
    row_adder,
    to_integers,
)
from .reduce import reduced_shape


@dataclass(frozen=True)
class Gather(Op):
    """Base of the ops that gather rows of a table; subclasses compute the row indices.

    Inputs are the table and the indices, the table at position `table`.
    """

    needs: ClassVar = ("ograd", "indices")
    index_inputs: ClassVar = ("indices",)
    table: ClassVar = 0
    """Position of the table among the inputs; the indices are the other one."""
    distinct: ClassVar[bool] = False
    """Whether no row is read twice, so that gradients are put in their places, not added."""

    def rows(self, x: Shape, index: np.ndarray) -> np.ndarray:
        """Row indices, flat, in the order of the output."""
        raise NotImplementedError

    def width(self, x: Shape, index: Shape) -> int:
        """Elements of a row of a table of shape `x`."""
        raise NotImplementedError

    def infer_type(self, ins, outs):
        return data_type(ins, outs)

    def forward(self, ins, outs, call):
        x, index = ins[self.table], ins[1 - self.table]
        width = self.width(x.shape, index.shape)
        x.reshape(-1, width).take(self.rows(x.shape, index), axis=0,
                                  out=outs[0].reshape(-1, width), mode="clip")

    def backward(self, ins, outs, call):
        self._add(put_rows if self.distinct else add_rows, ins, outs)

    def prepare_backward(self, ins, outs, call):
        return partial(self._add, put_rows if self.distinct else row_adder(ins[0]), ins, outs)

    def _add(self, add: Callable[[np.ndarray, np.ndarray, np.ndarray], None],
             ins: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
        g, index = ins
        gx = outs[self.table]
        fill_zero([outs[1 - self.table]])
        if gx is not None:
            width = self.width(gx.shape, index.shape)
            add(self.rows(gx.shape, index), g.reshape(-1, width), gx.reshape(-1, width))


@dataclass(frozen=True)
class Take(Gather, name="take"):
    """Slices of `a` along `axis` at `indices`: (before, *indices, after).

    `mode`: indices out of range are clipped, wrapped around, or an error.
    """

    axis: int = 0
    mode: Literal["clip", "raise", "wrap"] = "clip"

    inputs: ClassVar = ("a", "indices")

    def infer_shape(self, ins, outs):
        a, indices = ins
        if a is None or indices is None:
            return ins, outs
        axis = normalize_axis(self.axis, len(a))
        return ins, [(*a[:axis], *indices, *a[axis + 1:])]

    def forward(self, ins, outs, call):
        x, index = ins
        np.take(x, in_range(index, x.shape[self.axis], self.mode), axis=self.axis, out=outs[0],
                mode="clip")

    def prepare(self, ins, outs, call):
        x, index = ins
        if self.mode != "clip" or self.axis % x.ndim:
            return super().prepare(ins, outs, call)
        return prepare_gather(index, x.reshape(len(x), -1), outs[0]) or super().prepare(
            ins, outs, call)

    def width(self, x, index):
        return prod(x[self.axis % len(x) + 1:])

    def rows(self, x, index):
        axis = self.axis % len(x)
        picked = in_range(index.reshape(-1), x[axis], self.mode)
        before = np.arange(prod(x[:axis]), dtype=np.int64)
        return picked if axis == 0 else (before[:, None] * x[axis] + picked).reshape(-1)


@dataclass(frozen=True)
class Embedding(Gather, name="Embedding", aliases=("_sparse_Embedding",)):
    """Rows of `weight` (input_dim, output_dim) at `data`: (*data, output_dim).

    Indices outside are clipped.  With `sparse_grad`, gradients of arrays are row_sparse.
    """

    input_dim: int
    output_dim: int
    dtype: DType = "float32"
    sparse_grad: bool = False

    inputs: ClassVar = ("data", "weight")
    needs: ClassVar = ("ograd", "data")
    index_inputs: ClassVar = ("data",)
    table: ClassVar = 1

    def infer_shape(self, ins, outs):
        weight = (self.input_dim, self.output_dim)
        if ins[0] is None:
            return [None, weight], outs
        return [ins[0], weight], [(*ins[0], self.output_dim)]

    def infer_type(self, ins, outs):
        dtype = common_type([ins[1], *outs]) or dtype_named(self.dtype)
        return [ins[0], dtype], [dtype]

    def prepare(self, ins, outs, call):
        index, table = ins
        return prepare_gather(index, table, outs[0]) or super().prepare(ins, outs, call)

    def width(self, x, index):
        return self.output_dim

    def rows(self, x, index):
        return in_range(index.reshape(-1), self.input_dim)


@dataclass(frozen=True)
class SparseEmbedding(Embedding, name="_contrib_SparseEmbedding"):
    """An older Embedding with a row_sparse, `deterministic` gradient of weight (input_dim,
    output_dim)."""
    deterministic: bool = False


class Picked(Gather):
    """Base of the ops that read one element along `axis` for each position of the other axes."""

    distinct: ClassVar = True
    axis: int | None = -1
    mode: str = "clip"

    def width(self, x, index):
        return 1

    def rows(self, x, index):
        axis = self._axis(len(x))
        after = prod(x[axis + 1:])
        picked = in_range(index.reshape(-1, after), x[axis], self.mode)
        picked += np.arange(0, len(picked) * x[axis], x[axis], dtype=np.int64)[:, None]
        if after > 1:
            picked *= after
            picked += np.arange(after)
        return picked.reshape(-1)

    def _axis(self, rank: int) -> int:
        assert self.axis is not None
        return self.axis % rank

    def prepare(self, ins, outs, call):
        x, index = ins
        return self._kernel(x, index, outs[0]) or super().prepare(ins, outs, call)

    def prepare_backward(self, ins, outs, call):
        (g, index), (gx, gindex) = ins, outs
        put = self._kernel(gx, index, g, True) if gx is not None and gindex is None else None
        return put or super().prepare_backward(ins, outs, call)

    def _kernel(self, x: np.ndarray, index: np.ndarray, picked: np.ndarray, puts: bool = False
                ) -> Run | None:
        if self.mode != "clip":
            return None
        return prepare_pick(x, index, picked, self._axis(x.ndim), puts)


class BatchTake(Picked, name="batch_take"):
    """a[i, indices[i]] for `a` (..., K), with one index for each row of it; clipped."""

    inputs: ClassVar = ("a", "indices")

    def infer_shape(self, ins, outs):
        a, indices = ins[0], unify(ins[1], outs[0])
        if a is not None and len(a) < 2:
            raise ShapeMismatch(f"a has shape {a}, expected at least 2 dimensions")
        if a is not None and len(a) == 2:
            indices = unify(indices, a[:1], "shape of indices and the rows of a,")
        if a is not None and indices is not None and 0 not in (*a, *indices):
            if prod(a[:-1]) != prod(indices):
                raise ShapeMismatch(f"indices has shape {indices}, expected {prod(a[:-1])} "
                                    f"element(s), one for each row of a {a}")
        return [a, indices], [indices]

    def infer_type(self, ins, outs):
        dtype = common_type([ins[0], *outs])
        return [dtype, ins[1] or np.dtype(np.int32)], [dtype]


@dataclass(frozen=True)
class Pick(Picked, name="pick", aliases=("choose_element_0index",)):
    """The element at `index` along `axis`, for every position of the other axes."""

    shapes: ClassVar = "data (2, 3), index (2,), axis=1 -> (2,), with keepdims (2, 1)"
    axis: int | None = -1
    keepdims: bool = False
    mode: Literal["clip", "wrap"] = "clip"

    inputs: ClassVar = ("data", "index")
    needs: ClassVar = ("ograd", "index")
    index_inputs: ClassVar = ("index",)

    def infer_shape(self, ins, outs):
        data, index = ins
        if self.axis is None:
            raise ShapeMismatch("axis is None, expected an integer")
        if data is None:
            return ins, outs
        axis = normalize_axis(self.axis, len(data))
        flat, full_rank = (reduced_shape(data, (axis,), keepdims) for keepdims in (False, True))
        if index == data and 0 not in data and data != full_rank:
            raise ShapeMismatch(f"index has shape {index}, which is that of data, expected {flat}; "
                                "SoftmaxCrossEntropyLoss takes a vector for each sample, such as a "
                                "one-hot one, with sparse_label=False")
        wide = index is not None and len(index) == len(full_rank) != len(flat)
        return [data, full_rank if wide else flat], [full_rank if self.keepdims else flat]


@dataclass(frozen=True)
class GatherND(Gather, name="gather_nd"):
    """data[indices[0], indices[1], ...] for `indices` (M, ...): (*indices[1:], *data[M:]).

    Negative indices count from the end; others outside are an error.  `axis` has no effect, as in
    MXNet, which ignores it: programs pass it.
    """

    axis: int | None = None

    inputs: ClassVar = ("data", "indices")

    def infer_shape(self, ins, outs):
        data, indices = ins
        if data is None or indices is None or not indices[0]:
            return ins, outs
        _check_depth(indices, len(data))
        return ins, [(*indices[1:], *data[indices[0]:])]

    def width(self, x, index):
        return prod(x[index[0]:])

    def rows(self, x, index):
        return _flat_rows(index, x)


def _check_depth(indices: Shape, rank: int) -> None:
    if len(indices) < 2 or indices[0] > rank:
        raise ShapeMismatch(f"indices has shape {indices}, expected (M, ...) with M at most {rank}")


def _flat_rows(indices: np.ndarray, shape: Shape) -> np.ndarray:
    """Indices of rows of a tensor of `shape`; row i of `indices` indexes axis i."""
    rows = np.zeros(indices[0].size, np.int64)
    for size, index in zip(shape, indices.reshape(len(indices), -1), strict=False):
        exact = index.astype(np.float64 if index.dtype.kind == "f" else np.int64)
        rows = rows * size + in_range(np.where(exact < 0, exact + size, exact), size, "raise")
    return rows


def _put(x: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
    """Scatter the rows of `x` to the positions `indices`, without their fractions: -0.5 is 0."""
    width = prod(out.shape[len(indices):])
    out.reshape(-1, width)[_flat_rows(np.trunc(indices), out.shape)] = x.reshape(-1, width)


@dataclass(frozen=True)
class ScatterND(Op, name="scatter_nd"):
    """Zeros of `shape` with data[k] at indices[:, k]; of equal indices the last one counts.

    Indices lose their fractions first, so that -0.5 is 0; to `gather_nd` it is the last, as in
    MXNet.
    """

    shape: Shape

    inputs: ClassVar = ("data", "indices")
    needs: ClassVar = ("ograd", "indices")
    index_inputs: ClassVar = ("indices",)

    def infer_shape(self, ins, outs):
        return [_scattered(ins[0], ins[1], self.shape), ins[1]], [self.shape]

    def infer_type(self, ins, outs):
        return data_type(ins, outs)

    def forward(self, ins, outs, call):
        outs[0].fill(0)
        _put(ins[0], ins[1], outs[0])

    def backward(self, ins, outs, call):
        fill_zero(outs[1:])
        if outs[0] is not None:
            GatherND().forward([ins[0], np.trunc(ins[1])], outs, call)


def _scattered(data: PartialShape, indices: PartialShape, shape: Shape) -> PartialShape:
    """Shape of the data that `indices` scatter into a tensor of `shape`."""
    require_sizes(shape, "shape")
    if indices is None or not indices[0]:
        return data
    _check_depth(indices, len(shape))
    return unify(data, (*indices[1:], *shape[indices[0]:]), "shape of data and that from indices")


@dataclass(frozen=True)
class ScatterSetND(Op, name="_scatter_set_nd"):
    """`lhs` with rhs[k] put at indices[:, k].  No gradient."""

    shapes: ClassVar = "lhs and output have one shape, indices (M, K) with M axes of it"
    shape: Shape

    inputs: ClassVar = ("lhs", "rhs", "indices")
    inplace: ClassVar = (("lhs", "output"),)

    def infer_shape(self, ins, outs):
        return [self.shape, _scattered(ins[1], ins[2], self.shape), ins[2]], [self.shape]

    def infer_type(self, ins, outs):
        dtype = common_type([ins[0], ins[1], *outs])
        return [dtype, dtype, ins[2]], [dtype]

    def forward(self, ins, outs, call):
        copy_over(ins[0], outs[0])
        _put(ins[1], ins[2], outs[0])


# ---------------------------------------------------------------------- one-hot and flat indices

def _mark(index: np.ndarray, rows: np.ndarray, value: Any) -> None:
    """rows[i, index[i]] = value (or value[i]) where the index is within the row."""
    whole = np.where(np.isnan(index), -1, to_integers(index)).reshape(-1)   # NaN is within none
    inside = np.flatnonzero((whole >= 0) & (whole < rows.shape[1]))
    rows[inside, whole[inside]] = value if np.ndim(value) == 0 else value[inside]


@dataclass(frozen=True)
class OneHot(Op, name="one_hot"):
    """`on_value` at the index, `off_value` elsewhere, along a new last axis of size `depth`.

    An index outside, and NaN, gives a row of `off_value`.  No gradient.
    """

    shapes: ClassVar = "indices (2, 3) -> (2, 3, depth)"
    depth: int
    on_value: float = 1.0
    off_value: float = 0.0
    dtype: DType = "float32"

    inputs: ClassVar = ("indices",)

    def infer_shape(self, ins, outs):
        if self.depth < 1:
            raise ShapeMismatch(f"depth is {self.depth}, expected at least 1")
        return ins, outs if ins[0] is None else [(*ins[0], self.depth)]

    def infer_type(self, ins, outs):
        return ins, [dtype_named(self.dtype)]

    def forward(self, ins, outs, call):
        y = outs[0]
        y.fill(to_type(self.off_value, y.dtype))
        _mark(ins[0], y.reshape(-1, self.depth), to_type(self.on_value, y.dtype))


def _with_rows(matrix: PartialShape, others: Shapes) -> Shapes:
    """`others`, one element for each row of `matrix`."""
    return [unify(other, matrix[:1]) if matrix is not None else other for other in others]


@dataclass(frozen=True)
class OneHotEncode(Op, name="_onehot_encode"):
    """One-hot rows of the indices `lhs` (N,), shaped and typed as `rhs` (N, K).  No gradient."""

    inputs: ClassVar = ("lhs", "rhs")

    def infer_shape(self, ins, outs):
        matrix = unify(ins[1], outs[0])
        return [*_with_rows(matrix, ins[:1]), matrix], [matrix]

    def infer_type(self, ins, outs):
        dtype = common_type([ins[1], *outs])
        return [ins[0], dtype], [dtype]

    def forward(self, ins, outs, call):
        outs[0].fill(0)
        _mark(ins[0], outs[0], 1)


@dataclass(frozen=True)
class FillElement(Op, name="fill_element_0index"):
    """`lhs` (N, K) with lhs[i, rhs[i]] = mhs[i].  No gradient."""

    inputs: ClassVar = ("lhs", "mhs", "rhs")
    inplace: ClassVar = (("lhs", "output"),)

    def infer_shape(self, ins, outs):
        matrix = unify(ins[0], outs[0])
        return [matrix, *_with_rows(matrix, ins[1:])], [matrix]

    def infer_type(self, ins, outs):
        dtype = common_type([*ins[:2], *outs])
        return [dtype, dtype, ins[2]], [dtype]

    def forward(self, ins, outs, call):
        copy_over(ins[0], outs[0])
        _mark(ins[2], outs[0], ins[1].reshape(-1))


@dataclass(frozen=True)
class RavelMultiIndex(Op, name="_ravel_multi_index", aliases=("ravel_multi_index",)):
    """Flat indices of the positions in the columns of `data` (M, ...) in a tensor of `shape`.

    No gradient; no check of the range.
    """

    shape: Shape

    def infer_shape(self, ins, outs):
        if ins[0] is None:
            return ins, outs
        return [unify(ins[0], (len(self.shape), *ins[0][1:]))], [ins[0][1:]]

    def forward(self, ins, outs, call):
        flat = np.zeros(outs[0].shape, np.int64)
        for size, index in zip(self.shape, ins[0], strict=True):
            flat = flat * size + to_integers(index)
        np.copyto(outs[0], flat, casting="unsafe")


@dataclass(frozen=True)
class UnravelIndex(Op, name="_unravel_index", aliases=("unravel_index",)):
    """Positions (M, ...) in a tensor of `shape` of the flat indices `data`.  No gradient.

    The first dimension of `shape` is not used, so it may be unknown (-1).
    """

    shape: Shape

    def infer_shape(self, ins, outs):
        return ins, outs if ins[0] is None else [(len(self.shape), *ins[0])]

    def forward(self, ins, outs, call):
        rest = to_integers(ins[0])
        for axis in range(len(self.shape) - 1, 0, -1):
            size = self.shape[axis]
            quotient = np.sign(rest) * (np.abs(rest) // size)
            np.copyto(outs[0][axis], rest - quotient * size, casting="unsafe")
            rest = quotient
        np.copyto(outs[0][0], rest, casting="unsafe")
