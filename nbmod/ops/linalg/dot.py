"""Matrix products: by the kernels of `gemm` in executors, by NumPy's matmul in eager calls.

Every op views its operands as (stacks of) matrices A (M, K) and B (K, N); a transpose is a view.
The gradients of C = A B are then gA = gC B' and gB = A' gC whatever the flags: each is written
through the same view as its operand was read.

float16 operands are multiplied in float32, integers by NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..op import Call, Op, Run, Spec, all_of
from ..param import Shape
from ..shape import ShapeMismatch, normalize_axis, size_of, unify
from .numpy_products import TINY, multiply

__all__ = ["Sizes", "multiply_gradients", "prepare_multiply", "prepare_multiply_gradients",
           "transposed"]

StorageType = Literal["csr", "default", "row_sparse"]


def prepare_multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, work: np.ndarray,
                     alpha: float = 1.0, add: bool = False) -> Run:
    """A function that computes the same; `work` is a `Sizes.workspace`."""
    if out.dtype in (np.float32, np.float64) and out.itemsize in out.strides[-2:]:
        from .gemm import prepare_gemm  # eager products compile nothing

        return prepare_gemm(a, b, out, work, alpha=alpha, add=add)
    return partial(multiply, a, b, out, alpha, add)


def transposed(x: np.ndarray) -> np.ndarray:
    """Transposed matrices: a view."""
    return x.swapaxes(-1, -2)


def multiply_gradients(g: np.ndarray, a: np.ndarray, b: np.ndarray, ga: np.ndarray | None,
                       gb: np.ndarray | None, alpha: float = 1.0, add: Sequence[bool] = ()) -> None:
    """ga = alpha g b', gb = alpha a' g; gradients that are None are skipped."""
    for (left, right), out, adds in _gradients(g, a, b, ga, gb, add):
        multiply(left, right, out, alpha, adds)


def prepare_multiply_gradients(g: np.ndarray, a: np.ndarray, b: np.ndarray, ga: np.ndarray | None,
                               gb: np.ndarray | None, call: Call, alpha: float = 1.0) -> Run:
    """A function that computes the same; `call.scratch` begins with
    `Sizes.gradient_workspaces`."""
    workspaces = dict(zip((id(ga), id(gb)), call.scratch, strict=False))
    return all_of([prepare_multiply(*factors, out, workspaces[id(out)], alpha, adds)
                   for factors, out, adds in _gradients(g, a, b, ga, gb, call.add)])


def _gradients(g: np.ndarray, a: np.ndarray, b: np.ndarray, ga: np.ndarray | None,
               gb: np.ndarray | None, add: Sequence[bool]
               ) -> list[tuple[tuple[np.ndarray, np.ndarray], np.ndarray, bool]]:
    """Factors and target of each requested gradient, and whether to accumulate."""
    adds = (*add, False, False)
    products = [((g, transposed(b)), ga, adds[0]), ((transposed(a), g), gb, adds[1])]
    return [(factors, out, own) for factors, out, own in products if out is not None]


class Sizes(NamedTuple):
    """M, K and N of a stack of products."""

    stack: int
    rows: int
    depth: int
    columns: int

    def workspace(self, dtype: np.dtype) -> Spec:
        """Workspace of the products."""
        tiny = self.rows * self.depth * self.columns * self.stack <= TINY
        if dtype.kind != "f" or tiny:
            return Spec((0, 0), np.dtype(np.float32))
        from .gemm import gemm_workspace

        return gemm_workspace(self.rows, self.depth, self.columns, dtype, self.stack)

    def gradient_workspaces(self, dtype: np.dtype) -> list[Spec]:
        """Workspaces of the products of both gradients."""
        stack, rows, depth, columns = self
        return [Sizes(stack, rows, columns, depth).workspace(dtype),
                Sizes(stack, depth, rows, columns).workspace(dtype)]


class MatrixProduct(Op):
    """Base of operators that are `alpha` times a product of (stacks of) matrices."""

    accumulates_backward: ClassVar = True
    alpha: float = 1.0

    def sizes(self, a: Shape, b: Shape) -> Sizes:
        """Sizes of the products of inputs of these shapes."""
        raise NotImplementedError

    def factors(self, ins: Sequence[np.ndarray | None]) -> tuple[Any, Any]:
        """Views of lhs and rhs, or of their gradients, as A and B; those of None are None."""
        raise NotImplementedError

    def result(self, out: np.ndarray, a: np.ndarray) -> Any:
        """A view of the output, or of its gradient, as A B."""
        raise NotImplementedError

    def forward(self, ins, outs, call):
        a, b = self.factors(ins)
        multiply(a, b, self.result(outs[0], a), self.alpha)

    def prepare(self, ins, outs, call):
        a, b = self.factors(ins)
        return prepare_multiply(a, b, self.result(outs[0], a), call.scratch[0], self.alpha)

    def backward(self, ins, outs, call):
        a, b = self.factors(ins[1:])
        multiply_gradients(self.result(ins[0], a), a, b, *self.factors(outs), self.alpha, call.add)

    def prepare_backward(self, ins, outs, call):
        a, b = self.factors(ins[1:])
        return prepare_multiply_gradients(self.result(ins[0], a), a, b, *self.factors(outs), call,
                                          self.alpha)

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return [self.sizes(ins[0].shape, ins[1].shape).workspace(ins[0].dtype)]

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self.sizes(ins[1].shape, ins[2].shape).gradient_workspaces(ins[1].dtype)


@dataclass(frozen=True)
class Dot(MatrixProduct, name="dot", aliases=("_sparse_dot",)):
    """Sums products over the last axis of `lhs` and the first of `rhs`; all other axes remain.

    `transpose_a` sums over the first axis of lhs instead, `transpose_b` over the last of rhs.  Two
    vectors give shape (1,).  The result of arrays has the storage type `forward_stype`; None: the
    one that follows from theirs.
    """

    transpose_a: bool = False
    transpose_b: bool = False
    forward_stype: StorageType | None = None

    inputs: ClassVar = ("lhs", "rhs")
    needs: ClassVar = ("ograd", "lhs", "rhs")
    bilinear: ClassVar = ("lhs", "rhs")

    @property
    def makes_sparse(self) -> bool:
        return self.forward_stype in ("csr", "row_sparse")

    def infer_shape(self, ins, outs):
        lhs, rhs = ins
        if lhs is None or rhs is None:
            return ins, outs
        if len(lhs) == len(rhs) == 1 and (self.transpose_a or self.transpose_b):
            raise ShapeMismatch("two vectors have nothing to transpose")
        rest_a, k = (lhs[1:], lhs[0]) if self.transpose_a else (lhs[:-1], lhs[-1])
        rest_b, rows = (rhs[:-1], rhs[-1]) if self.transpose_b else (rhs[1:], rhs[0])
        if k and rows and k != rows:
            raise ShapeMismatch(f"lhs {lhs} and rhs {rhs} have {k} and {rows} elements along the "
                                "axes to be summed over, which must agree")
        k = k or rows
        return ([(k, *rest_a) if self.transpose_a else (*rest_a, k),
                 (*rest_b, k) if self.transpose_b else (k, *rest_b)],
                [unify((*rest_a, *rest_b) or (1,), outs[0])])

    def _left(self, x: np.ndarray | None) -> Any:
        if x is None:
            return None
        rest = size_of(x.shape[1:] if self.transpose_a else x.shape[:-1])
        return x.reshape(len(x), rest).T if self.transpose_a else x.reshape(rest, x.shape[-1])

    def _right(self, x: np.ndarray | None) -> Any:
        if x is None:
            return None
        rest = size_of(x.shape[:-1] if self.transpose_b else x.shape[1:])
        return x.reshape(rest, x.shape[-1]).T if self.transpose_b else x.reshape(len(x), rest)

    def sizes(self, a, b):
        depth = (a[0] if self.transpose_a else a[-1]) or 1
        return Sizes(1, size_of(a) // depth, depth, size_of(b) // depth)

    def factors(self, ins):
        return self._left(ins[0]), self._right(ins[1])

    def result(self, out, a):
        return out.reshape(len(a), -1)


class Stacked(MatrixProduct):
    """Base of products of stacks of matrices; `row_axis` is the axis of the matrices' rows."""

    transpose_a: bool
    transpose_b: bool

    def row_axis(self, rank: int) -> int:
        return rank - 2

    def infer_shape(self, ins, outs):
        return ins, outs if None in ins else [self.product_shape(*ins)]

    def check_rank(self, rank: int) -> None:
        if rank < 2:
            raise ShapeMismatch("expected matrices")

    def product_shape(self, a: Shape, b: Shape) -> Shape:
        """Shape of the product, 0 where unknown."""
        if len(a) != len(b):
            raise ShapeMismatch(f"operands {a} and {b} must have the same number of dimensions")
        self.check_rank(len(a))
        axis = self.row_axis(len(a))
        batch = unify(self._batch(a, axis), self._batch(b, axis), "sizes of the operands' stacks")
        assert batch is not None
        m, k = self._sides(a, axis, self.transpose_a)
        rows, n = self._sides(b, axis, self.transpose_b)
        if k and rows and k != rows:
            raise ShapeMismatch(f"matrices of {a} and {b} (transpose_a={self.transpose_a}, "
                                f"transpose_b={self.transpose_b}) have inner sizes {k} and {rows}")
        return (*batch[:axis], m, *batch[axis:], n)

    @staticmethod
    def _batch(shape: Shape, axis: int) -> Shape:
        return shape[:axis] + shape[axis + 1:-1]

    @staticmethod
    def _sides(shape: Shape, axis: int, transposed: bool) -> tuple[int, int]:
        rows, columns = shape[axis], shape[-1]
        return (columns, rows) if transposed else (rows, columns)

    def matrices(self, x: np.ndarray | None, transposed: bool = False) -> Any:
        """`x` as a stack of matrices, transposed where the operator says so; None is returned
        unchanged."""
        if x is None:
            return None
        stack = np.moveaxis(x, self.row_axis(x.ndim), -2)
        return stack.swapaxes(-1, -2) if transposed else stack

    def sizes(self, a, b):
        axis = self.row_axis(len(a))
        m, k = self._sides(a, axis, self.transpose_a)
        return Sizes(size_of(self._batch(a, axis)), m, k, self._sides(b, axis, self.transpose_b)[1])

    def factors(self, ins):
        return self.matrices(ins[0], self.transpose_a), self.matrices(ins[1], self.transpose_b)

    def result(self, out, a):
        return self.matrices(out)


@dataclass(frozen=True)
class BatchDot(Stacked, name="batch_dot"):
    """Products of stacks of matrices (..., M, K) and (..., K, N): (..., M, N)."""

    transpose_a: bool = False
    transpose_b: bool = False
    forward_stype: StorageType | None = None

    inputs: ClassVar = ("lhs", "rhs")
    needs: ClassVar = ("ograd", "lhs", "rhs")
    bilinear: ClassVar = ("lhs", "rhs")

    def check_rank(self, rank):
        if rank < 3:
            raise ShapeMismatch(f"operands have {rank} dimension(s), expected at least 3: a stack "
                                "of matrices")


class Gemm(Stacked):
    """Base of gemm and gemm2: matrices whose rows lie along `axis`."""

    shapes: ClassVar = "A (..., M, K), B (..., K, N), C (..., M, N) -> (..., M, N)"
    bilinear: ClassVar = ("A", "B")
    axis: int

    def row_axis(self, rank):
        return normalize_axis(self.axis, rank)

    def check_rank(self, rank):
        super().check_rank(rank)
        if self.row_axis(rank) == rank - 1:
            raise ShapeMismatch(f"axis is {self.axis}, expected another one than the last, which "
                                "holds the columns")


@dataclass(frozen=True)
class Gemm2(Gemm, name="_linalg_gemm2", aliases=("linalg_gemm2",)):
    """alpha A B for stacks of matrices; rows lie along `axis`, columns along the last axis."""

    shapes: ClassVar = "A (..., M, K), B (..., K, N) -> (..., M, N)"
    transpose_a: bool = False
    transpose_b: bool = False
    alpha: float = 1.0
    axis: int = -2

    inputs: ClassVar = ("A", "B")
    needs: ClassVar = ("ograd", "A", "B")


@dataclass(frozen=True)
class Gemm3(Gemm, name="_linalg_gemm", aliases=("linalg_gemm",)):
    """alpha A B + beta C for stacks of matrices, as gemm2."""

    transpose_a: bool = False
    transpose_b: bool = False
    alpha: float = 1.0
    beta: float = 1.0
    axis: int = -2

    inputs: ClassVar = ("A", "B", "C")
    needs: ClassVar = ("ograd", "A", "B")

    def infer_shape(self, ins, outs):
        a, b = ins[:2]
        if a is None or b is None:
            return ins, outs
        out = unify(self.product_shape(a, b), unify(ins[2], outs[0]), "shapes of A B and C")
        return [a, b, out], [out]

    def forward(self, ins, outs, call):
        super().forward(ins, outs, call)
        outs[0] += ins[2] * outs[0].dtype.type(self.beta)

    def prepare(self, ins, outs, call):
        a, b = self.factors(ins)
        return all_of([partial(np.multiply, ins[2], outs[0].dtype.type(self.beta), out=outs[0]),
                       prepare_multiply(a, b, self.result(outs[0], a), call.scratch[0], self.alpha,
                                        add=True)])

    def backward(self, ins, outs, call):
        super().backward(ins, outs, call)
        self._add_c_gradient(ins, outs, call)

    def prepare_backward(self, ins, outs, call):
        return all_of([super().prepare_backward(ins, outs, call),
                       partial(self._add_c_gradient, ins, outs, call)])

    def _add_c_gradient(self, ins: Sequence[np.ndarray | None], outs: Sequence[np.ndarray | None],
                        call: Call) -> None:
        """The gradient of C."""
        if outs[2] is not None:
            grad = ins[0] * outs[2].dtype.type(self.beta)
            np.add(outs[2], grad, out=outs[2]) if any(call.add[2:]) else np.copyto(outs[2], grad)
