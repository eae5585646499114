"""Batched matrix products of strided views.

A stack of matrices is a view (outer, inner, rows, columns): it has two batch dimensions, because
rows may be along any axis of a tensor.  Transposition exchanges strides and copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...dispatch import implements
from ...elementwise.program import Assign, Program
from ...linalg.dot import BatchDot, Dot, Gemm2, Gemm3, Stacked
from ...op import Call, Spec
from ..elementwise.formula_op import run_program
from ..lib.gemm import (
    GemmConfig,
    GemmOperands,
    choose_config,
    choose_split_k,
    gemm,
    gemm_grid,
    gemm_kernel,
    gemm_scratch,
    reduce_split_k,
)
from ..lib.kernel_math import sum_type
from ..lib.strided_copy import View, view_of
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function

__all__ = ["SCALED", "Pair", "matmul", "matmul_gradients", "matmul_scratch", "stack_of",
           "transpose"]

MAX_BATCH = 65535
"""Products of one launch: the limit of a grid's third dimension."""

SCALED = Program("scaled", (Assign("y", "x * factor"),), ("x",), ("y",), ("factor",))


Pair = tuple[Any, Any]
"""Views of both factors, or of their gradients; None where not requested."""


class MatmulSpec(NamedTuple):
    """Constants of a kernel, among them the layouts of A, B and C."""

    config: GemmConfig
    inner: int
    starts: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    alpha: float
    splits: int
    size: int
    """Elements of C; partial sums of split-k are that far apart."""


def _offset_function(inner: int, start: int, strides: tuple[int, ...]) -> Callable:
    of_outer, of_inner, of_row, of_column = strides

    @device_function
    def offset(g, i, j):
        return start + g // inner * of_outer + g % inner * of_inner + i * of_row + j * of_column
    return offset


@cache
def _kernel(case: MatmulSpec) -> CudaKernel:
    real, size = case.config.real, case.size
    factor = np.dtype(real).type(case.alpha)
    in_a, in_b, in_c = (_offset_function(case.inner, start, strides) for start, strides
                        in zip(case.starts, case.strides, strict=True))

    def load_a(a, g, i, t, m, lda):
        return real(a[in_a(g, i, t)])

    def load_b(b, g, t, j, ldb, n):
        return real(b[in_b(g, t, j)])

    def store(c, bias, addend, g, split, i, j, ldc, total, add):
        at = split * size + in_c(g, i, j)
        scaled = factor * total
        c[at] = real(c[at]) + scaled if add else scaled

    a_strides, b_strides, _ = case.strides
    return gemm_kernel(GemmOperands(load_a, load_b, store, a_strides[-1] == 1, b_strides[-1] != 1),
                       case.config, case.splits)


def stack_of(array: Array, make: Callable[[np.ndarray], np.ndarray] | None = None) -> View:
    """A tensor (..., rows, columns), or the view of it that `make` returns, as a stack."""
    def stacked(model: np.ndarray) -> np.ndarray:
        view = model if make is None else make(model)
        return view.reshape(-1, 1, *view.shape[-2:]) if view.ndim != 4 else view

    return view_of(array, stacked)


def transpose(stack: View) -> View:
    """The transposed matrices."""
    (*batch, rows, columns), (*strides, of_row, of_column) = stack.shape, stack.strides
    return View(stack.array, stack.start, (*batch, columns, rows), (*strides, of_column, of_row))


def _chunks(stack: View, most: int) -> list[View]:
    """A stack in chunks of at most `most` along the first dimension."""
    outer, *rest = stack.shape
    return [View(stack.array, stack.start + first * stack.strides[0],
                 (min(most, outer - first), *rest), stack.strides)
            for first in range(0, outer, most)]


def matmul(a: View, b: View, c: View, alpha: float = 1.0, add: bool = False,
            scratch: Sequence[Array] = ()) -> list[Launch]:
    """c = alpha a b, or c += alpha a b, for stacks with the same batch dimensions; `scratch` as for
    `gemm`, which computes products of single matrices."""
    most = max(MAX_BATCH // c.shape[1], 1)
    return [launch for part in zip(*(_chunks(stack, most) for stack in (a, b, c)), strict=True)
            for launch in _launches(part, float(alpha), add, scratch)]


def matmul_scratch(dtype: np.dtype, products: Iterable[tuple[int, int, int]]) -> Spec:
    """Scratch that suffices for any of some products of single matrices, of sizes (m, n, k)."""
    real = sum_type(dtype)
    sizes = [spec.size for size in products
             for spec in gemm_scratch(choose_config(dtype, real, size), size)]
    return Spec((max(sizes, default=0),), np.dtype(real))


def _launches(views: tuple[View, ...], alpha: float, add: bool, scratch: Sequence[Array]
              ) -> list[Launch]:
    a, b, c = views
    outer, inner, m, n = c.shape
    k = a.shape[-1]
    factors = np.result_type(a.array.dtype, b.array.dtype)
    config = choose_config(factors, sum_type(c.array.dtype), (m, n, k), outer * inner)
    rows: list[Any] = [_leading(view) for view in views]
    if outer * inner == 1 and alpha == 1 and None not in rows:
        (a_transposed, lda), (b_transposed, ldb), (c_transposed, ldc) = rows
        if not c_transposed:
            own = () if scratch else tuple(c.array.device.empty(*spec)
                                           for spec in gemm_scratch(config, (m, n, k)))
            return [launch._replace(own=own) for launch in gemm(
                _from_start(a), _from_start(b), _from_start(c), (m, n, k),
                (a_transposed, b_transposed), add=add, config=config, scratch=scratch or own,
                leading=(lda, ldb, ldc))]
    batch, is_whole = outer * inner, prod(c.shape) == c.array.size
    splits = choose_split_k(config, (m, n, k), batch) if is_whole else 1
    case = MatmulSpec(config, inner, tuple(view.start for view in views),
                      tuple(view.strides for view in views), alpha, splits, c.array.size)
    target = (c.array if splits == 1
              else c.array.device.empty((1, splits, c.array.size), config.real))
    first = Launch(_kernel(case), gemm_grid((m, n, k), config.tiles, batch * splits),
                   (config.tiles.threads,), (a.array, b.array, *[target] * 3, m, n, k, 0, 0, 0,
                                             bool(add and splits == 1)), (target,))
    return [first, *(reduce_split_k(target, c.array, add) if splits > 1 else ())]


def _leading(view: View) -> tuple[bool, int] | None:
    """Whether a single matrix is transposed, and its leading dimension; None if neither its rows
    nor its columns are contiguous.  Kernels for such matrices are the same for all sizes."""
    (*_, rows, columns), (*_, of_row, of_column) = view.shape, view.strides
    if of_column == 1 or columns == 1:
        return False, of_row
    return (True, of_column) if of_row == 1 or rows == 1 else None


def _from_start(view: View) -> Array:
    """The array from the first element of a view on."""
    array, start = view.array, view.start
    return array.part(start, (array.size - start,)) if start else array


def matmul_gradients(g: View, factors: Pair, gradients: Pair, call: Call, alpha: float = 1.0
                      ) -> list[Launch]:
    """The gradients of a and b in y = alpha a b: alpha g b^T and alpha a^T g."""
    (a, b), (ga, gb), adds = factors, gradients, (*call.add, False, False)
    return [*(matmul(g, transpose(b), ga, alpha, adds[0]) if ga else ()),
            *(matmul(transpose(a), g, gb, alpha, adds[1]) if gb else ())]


def _sides(op: Dot, ins: Outputs) -> Pair:
    left, right = ins
    return (None if left is None else stack_of(left, op._left),
            None if right is None else stack_of(right, op._right))


def _dot_result(a: View, y: Array) -> View:
    return stack_of(y.reshape(a.shape[-2], -1))


def _dot(op: Dot, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    a, b = _sides(op, ins)
    return matmul(a, b, _dot_result(a, outs[0]))


def _dot_backward(op: Dot, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    factors = _sides(op, ins[1:])
    return matmul_gradients(_dot_result(factors[0], ins[0]), factors, _sides(op, outs), call)


def _matrices(op: Stacked, x: Array | None, transposed: bool = False) -> Any:
    """The matrices of a tensor whose rows are along the op's axis; None if it is None."""
    if x is None:
        return None
    axis = op.row_axis(x.ndim)
    stack = view_of(x.reshape(prod(x.shape[:axis]), x.shape[axis], -1, x.shape[-1]),
                    lambda model: model.swapaxes(1, 2))
    return transpose(stack) if transposed else stack


def _factors(op: BatchDot | Gemm2 | Gemm3, ins: Outputs) -> Pair:
    return _matrices(op, ins[0], op.transpose_a), _matrices(op, ins[1], op.transpose_b)


def _multiply(op: BatchDot | Gemm2 | Gemm3, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    start = run_program(SCALED, [ins[2]], outs, [op.beta]) if isinstance(op, Gemm3) else []
    a, b = _factors(op, ins)
    return start + matmul(a, b, _matrices(op, outs[0]), op.alpha, bool(start))


def _multiply_backward(op: BatchDot | Gemm2 | Gemm3, ins: Arrays, outs: Outputs, call: Call
                       ) -> list[Launch]:
    launches = matmul_gradients(_matrices(op, ins[0]), _factors(op, ins[1:]), _factors(op, outs),
                                 call, op.alpha)
    if isinstance(op, Gemm3) and outs[2] is not None:
        launches += run_program(SCALED, [ins[0]], [outs[2]], [op.beta], call.add[2:])
    return launches


implements(Dot, "cuda", _dot, _dot_backward)
implements((BatchDot, Gemm2, Gemm3), "cuda", _multiply, _multiply_backward)
