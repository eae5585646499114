"""Diagonals and triangles of matrices, extracted as vectors and inserted.

A boolean mask (N, N) selects elements of each matrix, on or below its diagonal, in row-major order.
Elements above are read from the transposed matrix, so an upper triangle is read column by column.
Extraction and insertion are each other's gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

import numpy as np

from ..shape import ShapeMismatch, unify
from .dot import transposed
from .linalg import MatrixOp, per_matrix, square


class _Part(MatrixOp):
    """Base of the four operators: parameters and sizes."""

    diagonal: ClassVar[bool] = False
    needs: ClassVar = ("ograd",)
    offset: int
    lower: bool

    def count(self, side: int) -> int:
        """Number of selected elements of a matrix."""
        length = side - abs(self.offset)
        if length < 1:
            raise ShapeMismatch(f"offset is {self.offset}, expected less than the {side} rows of "
                                "the matrix")
        return length if self.diagonal else length * (length + 1) // 2

    def side(self, count: int) -> int:
        """Side of the matrix with `count` selected elements."""
        length = count if self.diagonal else (isqrt(8 * count + 1) - 1) // 2
        if not self.diagonal and length * (length + 1) // 2 != count:
            raise ShapeMismatch(f"A holds {count} elements, expected as many as a triangle: 1, 3, "
                                "6, 10, ...")
        return length + abs(self.offset)

    def _part(self, matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(matrices, transposed for a part above the diagonal, mask of the selected elements)."""
        above = self.offset > 0 or not (self.offset or self.diagonal or self.lower)
        make = np.eye if self.diagonal else np.tri
        mask = make(matrices.shape[-1], k=-abs(self.offset), dtype=bool)
        return transposed(matrices) if above else matrices, mask

    def take(self, matrices: np.ndarray, vectors: np.ndarray) -> None:
        """Extract vectors (..., L) from matrices (..., N, N)."""
        view, mask = self._part(matrices)
        vectors[...] = view[..., mask]

    def put(self, vectors: np.ndarray, matrices: np.ndarray) -> None:
        """Set matrices to 0 and insert vectors."""
        matrices.fill(0)
        view, mask = self._part(matrices)
        view[..., mask] = vectors


class _Extract(_Part):
    def infer_shape(self, ins, outs):
        a = square(ins[0])
        if a is None:
            return [a], outs
        return [a], [unify((*a[:-2], self.count(a[-1]) if a[-1] else 0), outs[0],
                           "computed and wanted output")]

    def forward(self, ins, outs, call):
        self.take(ins[0], outs[0])

    def backward(self, ins, outs, call):
        self.put(ins[0], outs[0])


class _Make(_Part):
    def infer_shape(self, ins, outs):
        a, out = ins[0], square(outs[0], "output")
        if a is None or not a:
            return [a], [out]
        side = self.side(a[-1]) if a[-1] else 0
        return [a], [unify((*a[:-1], side, side), out, "computed and wanted output")]

    def forward(self, ins, outs, call):
        self.put(ins[0], outs[0])

    def backward(self, ins, outs, call):
        self.take(ins[0], outs[0])


@dataclass(frozen=True)
class ExtractDiag(_Extract, name="_linalg_extractdiag", aliases=("linalg_extractdiag",)):
    """Diagonal number `offset` (above the main one if positive) of A: (..., N, N) -> (..., L)."""

    offset: int = 0
    diagonal: ClassVar = True


@dataclass(frozen=True)
class MakeDiag(_Make, name="_linalg_makediag", aliases=("linalg_makediag",)):
    """Matrices with A on diagonal number `offset`: (..., L) -> (..., N, N), N = L + |offset|."""

    offset: int = 0
    diagonal: ClassVar = True


@dataclass(frozen=True)
class ExtractTrian(_Extract, name="_linalg_extracttrian", aliases=("linalg_extracttrian",)):
    """A triangle of A: (..., N, N) -> (..., L (L + 1) / 2), L = N - |offset|.

    It begins at diagonal number `offset`: the upper one, column by column, if that is positive, the
    lower one, row by row, if negative, else the one that `lower` says.
    """

    offset: int = 0
    lower: bool = True


@dataclass(frozen=True)
class MakeTrian(_Make, name="_linalg_maketrian", aliases=("linalg_maketrian",)):
    """Matrices with A for a triangle, as extracttrian: (..., L (L + 1) / 2) -> (..., N, N)."""

    offset: int = 0
    lower: bool = True


class SumLogDiag(MatrixOp, name="_linalg_sumlogdiag", aliases=("linalg_sumlogdiag",)):
    """Sum of the logarithms of the diagonal: A (..., N, N) -> (...), or (1,) of a single matrix."""

    needs: ClassVar = ("ograd", "A")

    def infer_shape(self, ins, outs):
        a = square(ins[0])
        return [a], outs if a is None else [per_matrix(a)]

    def forward(self, ins, outs, call):
        diagonal = np.diagonal(ins[0], axis1=-2, axis2=-1)
        with np.errstate(all="ignore"):
            outs[0][...] = np.log(diagonal).sum(axis=-1)

    def backward(self, ins, outs, call):
        g, a = ins
        outs[0].fill(0)
        order = np.arange(a.shape[-1])
        with np.errstate(all="ignore"):
            outs[0][..., order, order] = g.reshape(*a.shape[:-2], 1) / a[..., order, order]
