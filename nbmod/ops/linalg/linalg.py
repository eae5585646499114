"""Factorisations and determinants of matrices, or stacks of them, by `numpy.linalg`.

Every operator reads its matrices from the last two axes.  Gradients are the published ones (M.
Giles, Collected matrix derivative results for forward and reverse mode algorithmic differentiation,
2008; M. Seeger et al., Auto-differentiating linear algebra, 2017).  Where an operator reads one
triangle, so does its gradient, except for potrf and syevd: they regard the triangle as half of a
symmetric matrix, and have a symmetric gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base import MXNetError
from ..op import Op
from ..shape import PartialShape, ShapeMismatch, unify
from .dot import transposed

__all__ = ["MatrixOp", "per_matrix", "square"]

Matrices = np.ndarray
SMALLEST_GAP = {4: 1e-6, 8: 1e-12}
"""Least difference of eigenvalues in the gradient, by item size."""


def square(shape: PartialShape, name: str = "A") -> PartialShape:
    """`shape` of square matrices, each side inferred from the other; ShapeMismatch for others."""
    if shape is None:
        return None
    if len(shape) < 2 or 0 not in shape[-2:] and shape[-2] != shape[-1]:
        raise ShapeMismatch(f"{name} has shape {shape}, expected square matrices (..., N, N)")
    side = max(shape[-2:])
    return (*shape[:-2], side, side)


def per_matrix(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of one value per matrix: (1,) for a single one."""
    return shape[:-2] or (1,)


def _solved(compute: Callable[..., Any], *args: Matrices, hint: str) -> Any:
    try:
        return compute(*args)
    except np.linalg.LinAlgError as error:
        raise MXNetError(f"{error}; {hint}") from None


def _solve(a: Matrices, b: Matrices) -> Matrices:
    return _solved(np.linalg.solve, a, b, hint="expected a matrix without zeros on its diagonal")


def _mirrored(x: Matrices) -> Matrices:
    """Symmetric matrices with the lower triangle of x: copyltu of Seeger et al."""
    lower = np.tril(x)
    return lower + transposed(np.tril(x, -1))


@dataclass(frozen=True)
class MatrixOp(Op):
    """Base: float32 and float64 only."""

    inputs: ClassVar[tuple[str, ...]] = ("A",)

    def infer_type(self, ins, outs):
        kinds, outs = super().infer_type(ins, outs)
        if kinds[0] is not None and kinds[0].name not in ("float32", "float64"):
            raise MXNetError(f"{self.inputs[0]} has type {kinds[0]}, expected float32 or float64; "
                             "insert a Cast")
        return kinds, outs


class _SquareOp(MatrixOp):
    """Base of operators from square matrices to square matrices of equal size."""

    shapes: ClassVar = "A (..., N, N) -> (..., N, N)"

    def infer_shape(self, ins, outs):
        shape = square(unify(ins[0], outs[0], "A and output"))
        return [shape], [shape]


class _CholeskyOp(_SquareOp):
    """Base of potrf and potri: the upper factor is the lower one, transposed."""

    lower: bool

    def as_lower(self, x: Matrices) -> Matrices:
        """A view of x whose lower triangle is the factor, or is read of a symmetric matrix."""
        return x if self.lower else transposed(x)


@dataclass(frozen=True)
class Potrf(_CholeskyOp, name="_linalg_potrf", aliases=("linalg_potrf",)):
    """Cholesky factor: lower triangular L of A = L L^T, or with `lower=False` U of A = U^T U.

    Only that triangle of A is read.
    """

    lower: bool = True
    needs: ClassVar = ("ograd", "output")

    def forward(self, ins, outs, call):
        self.as_lower(outs[0])[...] = _solved(
            np.linalg.cholesky, self.as_lower(ins[0]),
            hint="expected a symmetric, positive definite matrix")

    def backward(self, ins, outs, call):
        g, factor = map(self.as_lower, ins)
        left = _solve(transposed(factor), _mirrored(transposed(factor) @ g))
        outs[0][...] = 0.5 * transposed(_solve(transposed(factor), transposed(left)))


@dataclass(frozen=True)
class Potri(_CholeskyOp, name="_linalg_potri", aliases=("linalg_potri",)):
    """The inverse of the matrix whose factor potrf gives: (A A^T)^-1 of a lower triangular A, or
    with `lower=False` (A^T A)^-1 of an upper one.  Only that triangle of A is read.
    """

    lower: bool = True
    needs: ClassVar = ("ograd", "A", "output")

    def forward(self, ins, outs, call):
        inverse = _solved(np.linalg.inv, np.tril(self.as_lower(ins[0])),
                          hint="expected no zero on its diagonal")
        outs[0][...] = transposed(inverse) @ inverse

    def backward(self, ins, outs, call):
        g, a, inverse = ins
        moved, factor = inverse @ (g + transposed(g)), np.tril(self.as_lower(a))
        self.as_lower(outs[0])[...] = -np.tril(transposed(_solve(factor, transposed(moved))))


class Inverse(_SquareOp, name="_linalg_inverse", aliases=("linalg_inverse",)):
    """A^-1."""

    needs: ClassVar = ("ograd", "output")

    def forward(self, ins, outs, call):
        outs[0][...] = _solved(np.linalg.inv, ins[0], hint="expected an invertible matrix")

    def backward(self, ins, outs, call):
        g, inverse = ins
        outs[0][...] = -transposed(inverse) @ g @ transposed(inverse)


@dataclass(frozen=True)
class _Triangular(MatrixOp):
    """Base of trmm and trsm: T, the lower or upper triangle of A, or its transpose."""

    shapes: ClassVar = "A (..., N, N), B (..., N, M), with rightside (..., M, N) -> as B"
    inputs: ClassVar = ("A", "B")
    transpose: bool = False
    rightside: bool = False
    lower: bool = True
    alpha: float = 1.0

    def infer_shape(self, ins, outs):
        a, b = square(ins[0]), unify(ins[1], outs[0], "B and output")
        if b is None or len(b) < 2:
            return [a, b], [b]
        axis = -1 if self.rightside else -2
        a = square(unify(a, (*b[:-2], b[axis], b[axis]), "A and its size for B"))
        assert a is not None
        rest = (b[-2], a[-1]) if self.rightside else (a[-1], b[-1])
        b = unify(b, (*a[:-2], *rest), "B and its size for A")
        return [a, b], [b]

    def triangle(self, a: Matrices) -> Matrices:
        """The selected triangle, zero elsewhere."""
        return np.tril(a) if self.lower else np.triu(a)

    def factor(self, a: Matrices) -> Matrices:
        """T."""
        return transposed(self.triangle(a)) if self.transpose else self.triangle(a)

    def write(self, gradient: Matrices, out: np.ndarray | None) -> None:
        """The gradient of A from that of T."""
        if out is not None:
            out[...] = self.triangle(transposed(gradient) if self.transpose else gradient)


class Trmm(_Triangular, name="_linalg_trmm", aliases=("linalg_trmm",)):
    """alpha T B, with `rightside` alpha B T; T is the lower triangle of A, or upper, or transposed.
    """

    needs: ClassVar = ("ograd", "A", "B")

    def forward(self, ins, outs, call):
        t, b = self.factor(ins[0]), ins[1]
        np.multiply(b @ t if self.rightside else t @ b, self.alpha, out=outs[0])

    def backward(self, ins, outs, call):
        g, a, b = ins
        g = g * g.dtype.type(self.alpha)
        self.write(transposed(b) @ g if self.rightside else g @ transposed(b), outs[0])
        if outs[1] is not None:
            t = transposed(self.factor(a))
            outs[1][...] = g @ t if self.rightside else t @ g


class Trsm(_Triangular, name="_linalg_trsm", aliases=("linalg_trsm",)):
    """X of T X = alpha B, with `rightside` of X T = alpha B; T as in trmm."""

    needs: ClassVar = ("ograd", "A", "output")

    def _divided(self, b: Matrices, t: Matrices) -> Matrices:
        return transposed(_solve(transposed(t), transposed(b))) if self.rightside else _solve(t, b)

    def forward(self, ins, outs, call):
        np.multiply(self._divided(ins[1], self.factor(ins[0])), self.alpha, out=outs[0])

    def backward(self, ins, outs, call):
        g, a, x = ins
        moved = self._divided(g, transposed(self.factor(a)))
        self.write(-(transposed(x) @ moved if self.rightside else moved @ transposed(x)), outs[0])
        if outs[1] is not None:
            np.multiply(moved, self.alpha, out=outs[1])


@dataclass(frozen=True)
class Syrk(MatrixOp, name="_linalg_syrk", aliases=("linalg_syrk",)):
    """alpha A A^T, with `transpose` alpha A^T A."""

    shapes: ClassVar = "A (..., M, N) -> (..., M, M), with transpose (..., N, N)"
    transpose: bool = False
    alpha: float = 1.0
    needs: ClassVar = ("ograd", "A")

    def infer_shape(self, ins, outs):
        a, out = ins[0], square(outs[0], "output")
        if a is None:
            return ins, [out]
        if len(a) < 2:
            raise ShapeMismatch(f"A has shape {a}, expected (..., M, N)")
        side = a[-1] if self.transpose else a[-2]
        return ins, [unify((*a[:-2], side, side), out, "computed and wanted output")]

    def forward(self, ins, outs, call):
        a, b = ins[0], transposed(ins[0])
        np.multiply(b @ a if self.transpose else a @ b, self.alpha, out=outs[0])

    def backward(self, ins, outs, call):
        g, a = ins
        both = (g + transposed(g)) * g.dtype.type(self.alpha)
        outs[0][...] = a @ both if self.transpose else both @ a


class Gelqf(MatrixOp, name="_linalg_gelqf", aliases=("linalg_gelqf",)):
    """A = L Q, L lower triangular (..., M, M), rows of Q (..., M, N) orthonormal; outputs Q, L.

    A is (..., M, N), M <= N, of full rank.
    """

    outputs: ClassVar = ("output0", "output1")
    needs: ClassVar = ("ograds", "outs")

    def infer_shape(self, ins, outs):
        a = unify(ins[0], outs[0], "A and Q")
        if a is None:
            return ins, outs
        if len(a) < 2 or a[-1] and a[-2] > a[-1]:
            raise ShapeMismatch(f"A has shape {a}, expected (..., M, N) with M <= N")
        return [a], [a, (*a[:-1], a[-2])]

    def forward(self, ins, outs, call):
        q, r = np.linalg.qr(transposed(ins[0]))
        for out, value in zip(outs, (q, r), strict=True):
            if out is not None:
                out[...] = transposed(value)

    def backward(self, ins, outs, call):
        gq, gl, q, factor = ins
        inner = transposed(factor) @ gl - gq @ transposed(q)
        outs[0][...] = _solve(transposed(factor), gq + _mirrored(inner) @ q)


class Syevd(MatrixOp, name="_linalg_syevd", aliases=("linalg_syevd",)):
    """Symmetric A = U^T diag(w) U; outputs U (..., N, N), eigenvectors in rows, and w (..., N).

    Eigenvalues ascend; the largest element of each eigenvector is positive.  Only the lower
    triangle of A (..., N, N) is read.
    """

    outputs: ClassVar = ("output0", "output1")
    needs: ClassVar = ("ograds", "outs")

    def infer_shape(self, ins, outs):
        shape = square(unify(ins[0], outs[0], "A and U"))
        return [shape], [shape, None if shape is None else shape[:-1]]

    def forward(self, ins, outs, call):
        values, vectors = np.linalg.eigh(ins[0])
        rows = transposed(vectors)
        largest = np.take_along_axis(rows, np.abs(rows).argmax(-1)[..., None], -1)
        outs[0][...] = rows * np.where(largest < 0, -1, 1).astype(rows.dtype)
        if outs[1] is not None:
            outs[1][...] = values

    def backward(self, ins, outs, call):
        gu, gw, u, w = ins
        gap, least = w[..., :, None] - w[..., None, :], SMALLEST_GAP[w.itemsize]
        gap = np.where(np.abs(gap) < least, np.where(gap < 0, -least, least), gap)
        inner = gu @ transposed(u) / gap
        order = np.arange(w.shape[-1])
        inner[..., order, order] = gw
        outs[0][...] = transposed(u) @ (0.5 * (inner + transposed(inner))).astype(u.dtype) @ u


def _inverse_or_zero(a: Matrices) -> Matrices:
    """A^-1, and 0 for singular matrices."""
    whole = (np.linalg.slogdet(a)[0] != 0)[..., None, None]
    return np.where(whole, np.linalg.inv(np.where(whole, a, np.eye(a.shape[-1], dtype=a.dtype))), 0)


class _Determinant(MatrixOp):
    """Base of det and slogdet; hidden outputs are those of MXNet's files."""

    visible: ClassVar[int]

    @property
    def num_visible(self) -> int:
        return self.visible

    def infer_shape(self, ins, outs):
        a = square(ins[0])
        one = None if a is None else per_matrix(a)
        return [a], [a if name == "inverse" else one for name in self.outputs]

    def _through_inverse(self, scale: np.ndarray, inverse: Matrices, out: np.ndarray) -> None:
        """The gradient: scale, one value per matrix, times A^-T."""
        out[...] = transposed(inverse) * scale.reshape(*out.shape[:-2], 1, 1)


class Det(_Determinant, name="_linalg_det", aliases=("linalg_det",)):
    """Determinants of A (..., N, N): (...), or (1,) of a single matrix.

    The gradient of a singular matrix is 0, as in MXNet.
    """

    outputs: ClassVar = ("output0", "inverse", "sign")
    visible: ClassVar = 1
    needs: ClassVar = ("ograd", "output0", "inverse")

    def forward(self, ins, outs, call):
        determinant, inverse, sign = outs
        determinant[...] = np.linalg.det(ins[0])
        if inverse is not None:
            inverse[...] = _inverse_or_zero(ins[0])
        if sign is not None:
            np.sign(determinant, out=sign)

    def backward(self, ins, outs, call):
        g, determinant, inverse = ins
        self._through_inverse(g * determinant, inverse, outs[0])


class Slogdet(_Determinant, name="_linalg_slogdet", aliases=("linalg_slogdet",)):
    """Sign and log |det A| of A (..., N, N): (...) each, or (1,) of a single matrix.

    A singular matrix has sign 0, -inf and, as in MXNet, gradient 0.
    """

    outputs: ClassVar = ("output0", "output1", "inverse", "determinant")
    visible: ClassVar = 2
    needs: ClassVar = ("ograds", "inverse")

    def forward(self, ins, outs, call):
        sign, size = np.linalg.slogdet(ins[0])
        for out, value in zip(outs[:2], (sign, size), strict=True):
            if out is not None:
                out[...] = value
        if outs[2] is not None:
            outs[2][...] = _inverse_or_zero(ins[0])
        if outs[3] is not None:
            outs[3][...] = sign * np.exp(size)

    def backward(self, ins, outs, call):
        self._through_inverse(ins[1], ins[2], outs[0])
