"""Cumulative sums along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..elementwise.float_op import accumulator
from ..op import Op
from ..param import DType
from ..shape import is_known, normalize_axis, size_of, unify

__all__ = ["CumSum"]


def _add_up(x: np.ndarray, y: np.ndarray) -> None:
    """y = inclusive prefix sum of x along axis 1 of (outer, size, inner)."""
    np.add.accumulate(x, axis=1, dtype=accumulator(y.dtype), out=None if x.size == 0 else y)


@dataclass(frozen=True)
class CumSum(Op, name="_np_cumsum", aliases=("cumsum",)):
    """y[..., i, ...] = a[..., 0, ...] + ... + a[..., i, ...] along `axis`.

    Without `axis`, a is flattened first: the output is (size,).  The output has type `dtype`, that
    of a by default (int64 for bool), and sums of float16 are taken in float32.  The gradient is the
    same sum from the end.
    """

    axis: int | None = None
    dtype: DType | None = None

    inputs: ClassVar = ("a",)
    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins, outs):
        a, out = ins[0], outs[0]
        if self.axis is None:
            return ins, [unify((size_of(a) if is_known(a) else 0,), out)]
        a = unify(a, out, "a and output")
        if a is not None:
            normalize_axis(self.axis, len(a))
        return [a], [a]

    def infer_type(self, ins, outs):
        kind = ins[0]
        if kind is None:
            return ins, outs
        return ins, [np.dtype(self.dtype or ("int64" if kind.kind == "b" else kind.name))]

    def _rows(self, shape):
        """(outer, size, inner) of the summed axis."""
        if self.axis is None:
            return 1, size_of(shape), 1
        axis = self.axis % len(shape)
        return size_of(shape[:axis]), shape[axis], size_of(shape[axis + 1:])

    def forward(self, ins, outs, call):
        rows = self._rows(ins[0].shape)
        _add_up(ins[0].reshape(rows), outs[0].reshape(rows))

    def backward(self, ins, outs, call):
        rows = self._rows(outs[0].shape)
        _add_up(ins[0].reshape(rows)[:, ::-1], outs[0].reshape(rows)[:, ::-1])
