"""Products of matrices and of stacks of them, which may lie anywhere in their arrays.

A stack is a view (outer, inner, rows, columns): two dimensions count the matrices, because rows may
lie along any axis of a tensor.  What is transposed is only looked at otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...elementwise.program import Program, Step
from ...linalg.dot import BatchDot, Dot, Gemm2, Gemm3, Stacked
from ...op import Spec
from ..elementwise.formula_op import run_program
from ..lib.gemm import (
    Product,
    Way,
    add_parts,
    grid_of,
    matrix_product,
    parts_of,
    product_kernel,
    product_scratch,
    way_of,
)
from ..lib.kernel_math import real_of
from ..lib.strided_copy import View, view_of
from ..runtime.device_memory import Array
from ..runtime.launch import Launch, device_function, on_gpu

__all__ = ["SCALED", "Pair", "product", "product_gradients", "product_room", "stack_of", "turned"]

MAX_BATCH = 65535
"""Products that one launch can do: the third dimension of a grid."""

SCALED = Program("scaled", (Step("y", "x * factor"),), ("x",), ("y",), ("factor",))


Pair = tuple[Any, Any]
"""Views of both factors, or of their gradients, None where unwanted."""


class _Case(NamedTuple):
    """What a kernel is specialised to: where elements of A, B and C stand."""

    way: Way
    inner: int
    starts: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    alpha: float
    parts: int
    size: int
    """Elements of C, which stands in as many parts behind each other."""


def _place_function(inner: int, start: int, steps: tuple[int, ...]) -> Any:
    of_outer, of_inner, of_row, of_column = steps

    @device_function
    def place(g, i, j):
        return start + g // inner * of_outer + g % inner * of_inner + i * of_row + j * of_column
    return place


@cache
def _kernel(case: _Case) -> Any:
    real, alpha, size = case.way.real, case.alpha, case.size
    in_a, in_b, in_c = (_place_function(case.inner, start, steps) for start, steps
                        in zip(case.starts, case.steps, strict=True))

    @device_function
    def load_a(a, g, i, t, m, step):
        return real(a[in_a(g, i, t)])

    @device_function
    def load_b(b, g, t, j, step, n):
        return real(b[in_b(g, t, j)])

    @device_function
    def store(c, bias, other, g, s, i, j, step, total, add):
        at = s * size + in_c(g, i, j)
        scaled = real(alpha) * total
        c[at] = real(c[at]) + scaled if add else scaled

    of_a, of_b, _ = case.steps
    return product_kernel(Product(load_a, load_b, store, a_inner=of_a[-1] == 1,
                                  b_inner=of_b[-1] != 1), case.way, case.parts)


def _real(dtype: np.dtype) -> Any:
    """The type in which products are summed."""
    return real_of(dtype) if dtype.kind == "f" else np.int64


def stack_of(array: Array, make: Any = None) -> View:
    """A tensor (..., rows, columns), or what `make` makes of it, as a stack."""
    def stacked(model: np.ndarray) -> np.ndarray:
        seen = model if make is None else make(model)
        return seen.reshape(-1, 1, *seen.shape[-2:]) if seen.ndim != 4 else seen

    return view_of(array, stacked)


def turned(stack: View) -> View:
    """The matrices transposed."""
    (*batch, rows, columns), (*steps, of_row, of_column) = stack.shape, stack.steps
    return View(stack.array, stack.start, (*batch, columns, rows), (*steps, of_column, of_row))


def _pieces(stack: View, most: int) -> list[View]:
    """A stack in pieces of at most `most` along the first dimension."""
    outer, *rest = stack.shape
    return [View(stack.array, stack.start + first * stack.steps[0],
                 (min(most, outer - first), *rest), stack.steps) for first in range(0, outer, most)]


def product(a: View, b: View, c: View, alpha: float = 1.0, add: bool = False,
            scratch: Sequence[Array] = ()) -> list[Launch]:
    """c = alpha a b, or c += alpha a b, for stacks of as many matrices; `scratch` as for a
    `gemm.matrix_product`, where it comes to one."""
    most = max(MAX_BATCH // c.shape[1], 1)
    return [launch for part in zip(*(_pieces(stack, most) for stack in (a, b, c)), strict=True)
            for launch in _launches(part, float(alpha), add, scratch)]


def product_room(dtype: np.dtype, products: Iterable[tuple[int, int, int]]) -> Spec:
    """Scratch for each of some products of single matrices, of sizes (m, n, k)."""
    real = _real(dtype)
    sizes = [spec.size for size in products
             for spec in product_scratch(way_of(dtype, real, size), size)]
    return Spec((max(sizes, default=0),), np.dtype(real))


def _launches(views: tuple[View, ...], alpha: float, add: bool, scratch: Sequence[Array]
              ) -> list[Launch]:
    a, b, c = views
    outer, inner, m, n = c.shape
    k = a.shape[-1]
    factors = np.result_type(a.array.dtype, b.array.dtype)
    way = way_of(factors, _real(c.array.dtype), (m, n, k), outer * inner)
    rows: list[Any] = [_rows(view) for view in views]
    if outer * inner == 1 and alpha == 1 and None not in rows:
        (a_turned, of_a), (b_turned, of_b), (c_turned, of_c) = rows
        if not c_turned:
            own = () if scratch else tuple(c.array.device.empty(*spec)
                                           for spec in product_scratch(way, (m, n, k)))
            return [launch._replace(own=own) for launch in matrix_product(
                _begun(a), _begun(b), _begun(c), (m, n, k), (a_turned, b_turned), add=add, way=way,
                scratch=scratch or own, steps=(of_a, of_b, of_c))]
    batch, is_whole = outer * inner, prod(c.shape) == c.array.size
    parts = parts_of(way, (m, n, k), batch) if is_whole else 1
    case = _Case(way, inner, tuple(view.start for view in views),
                 tuple(view.steps for view in views), alpha, parts, c.array.size)
    target = c.array if parts == 1 else c.array.device.empty((1, parts, c.array.size), way.real)
    first = Launch(_kernel(case), grid_of((m, n, k), way.tiles, batch * parts),
                   (way.tiles.threads,), (a.array, b.array, *[target] * 3, m, n, k, 0, 0, 0,
                                          bool(add and parts == 1)), (target,))
    return [first, *(add_parts(target, c.array, add) if parts > 1 else ())]


def _rows(view: View) -> tuple[bool, int] | None:
    """Whether a single matrix is turned, and the step between the rows it has in memory; None if
    their numbers are no neighbours.  Kernels for such matrices are the same for all sizes."""
    (*_, rows, columns), (*_, of_row, of_column) = view.shape, view.steps
    if of_column == 1 or columns == 1:
        return False, of_row
    return (True, of_column) if of_row == 1 or rows == 1 else None


def _begun(view: View) -> Array:
    """The array from the first element of a view on."""
    array, start = view.array, view.start
    return array.device.view(array, start * array.dtype.itemsize, (array.size - start,),
                             array.dtype) if start else array


def product_gradients(g: View, factors: Pair, gradients: Pair, call: Any, alpha: float = 1.0
                      ) -> list[Launch]:
    """Of the factors a, b: alpha g b', alpha a' g; None where unwanted."""
    (a, b), (ga, gb), adds = factors, gradients, (*call.add, False, False)
    return [*(product(g, turned(b), ga, alpha, adds[0]) if ga else ()),
            *(product(turned(a), g, gb, alpha, adds[1]) if gb else ())]


# -- twins --------------------------------------------------------------------------------------


def _sides(op: Dot, ins: Any) -> Pair:
    left, right = ins
    return (None if left is None else stack_of(left, op._left),
            None if right is None else stack_of(right, op._right))


def _dot_result(a: View, y: Array) -> View:
    return stack_of(y.reshape(a.shape[-2], -1))


def _dot(op: Dot, ins: Any, outs: Any, call: Any) -> list[Launch]:
    a, b = _sides(op, ins)
    return product(a, b, _dot_result(a, outs[0]))


def _dot_backward(op: Dot, ins: Any, outs: Any, call: Any) -> list[Launch]:
    factors = _sides(op, ins[1:])
    return product_gradients(_dot_result(factors[0], ins[0]), factors, _sides(op, outs), call)


def _matrices(op: Stacked, x: Array | None, transposed: bool = False) -> Any:
    """The matrices of a tensor whose rows lie along the op's axis; None stays."""
    if x is None:
        return None
    axis = op.row_axis(x.ndim)
    stack = view_of(x.reshape(prod(x.shape[:axis]), x.shape[axis], -1, x.shape[-1]),
                    lambda model: model.swapaxes(1, 2))
    return turned(stack) if transposed else stack


def _factors(op: Any, ins: Any) -> Pair:
    return _matrices(op, ins[0], op.transpose_a), _matrices(op, ins[1], op.transpose_b)


def _alpha(op: Any) -> float:
    return getattr(op, "alpha", 1.0)


def _multiply(op: Any, ins: Any, outs: Any, call: Any) -> list[Launch]:
    start = run_program(SCALED, [ins[2]], outs, [op.beta]) if isinstance(op, Gemm3) else []
    a, b = _factors(op, ins)
    return start + product(a, b, _matrices(op, outs[0]), _alpha(op), bool(start))


def _multiply_backward(op: Any, ins: Any, outs: Any, call: Any) -> list[Launch]:
    launches = product_gradients(_matrices(op, ins[0]), _factors(op, ins[1:]), _factors(op, outs),
                                 call, _alpha(op))
    if isinstance(op, Gemm3) and outs[2] is not None:
        launches += run_program(SCALED, [ins[0]], [outs[2]], [op.beta], call.add[2:])
    return launches


on_gpu(Dot, _dot, _dot_backward)
for _op in (BatchDot, Gemm2, Gemm3):
    on_gpu(_op, _multiply, _multiply_backward)
