"""Gradients that are computed of sparse arrays, without dense copies of these.

Those of the ops that read some rows of a table have these rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from .. import OPS
from ..dispatch import SPARSE, Prepare, find, implements
from ..op import Backward, Call, Op
from ..tensor.gather_scatter import in_range
from .formats import CSR, RowSparse, as_dense, require_inside
from .forms import Value, places_set
from .products import multiply, multiply_transposed, sum_equal
from .storage_types import CSR_LABELS, result

__all__ = ["declare", "gradient_letters", "row_gradients"]


def row_gradients(op: Backward, ins: Sequence[Value], requests: Sequence[bool]
                  ) -> list[Value | None] | None:
    """The outputs of `op`, None for those that are not wanted.

    None if it has no form for such inputs: the op itself computes them of dense arrays.
    """
    row = find(type(op.fwd), SPARSE, is_gradient=True)
    if row is None:
        return None
    gradients: list[Value | None] = []
    row.prepare(op.fwd, ins, gradients, Call())()
    if not gradients or gradients[0] is not None or not requests[0]:
        return gradients or None
    return [_of_left(op.fwd, *ins), *gradients[1:]] if op.fwd.name == "dot" else None


def gradient_letters(op: Backward, letters: str) -> list[str] | None:
    """The storage types of the gradients of inputs of these.

    None: there is no form for them, and all are dense.
    """
    fwd: Any = op.fwd
    if fwd.name in ("where", *CSR_LABELS):
        return ["d"] * len(op.list_outputs()) if "c" in letters else None
    if fwd.name == "_square_sum":
        return ["r"] if letters[1] == "r" and result(fwd, "r") else None
    if fwd.name == "dot":
        if letters[1] != "c" or fwd.transpose_b:
            return None
        return ["d", "d" if fwd.transpose_a else "r"]
    reads = fwd.name == "_contrib_SparseEmbedding" or (fwd.name == "Embedding" and fwd.sparse_grad)
    return ["d", "r"] if reads else None


def _of_dot(op: Any, ograd: Value, lhs: Value, rhs: Value) -> list[Value | None] | None:
    """The gradient of a matrix that a csr one is multiplied by."""
    if not isinstance(lhs, CSR) or op.transpose_b:
        return None
    product = multiply if op.transpose_a else multiply_transposed
    return [None, product(lhs, as_dense(ograd))]


def _of_left(op: Any, ograd: Value, lhs: Value, rhs: Value) -> Value:
    """The gradient of the csr matrix itself, dense."""
    head = as_dense(ograd)
    rows = rhs.data if isinstance(rhs, RowSparse) else as_dense(rhs)
    product = np.matmul(rows, head.T) if op.transpose_a else np.matmul(head, rows.T)
    if not isinstance(rhs, RowSparse):
        return product
    grad = np.zeros(lhs.shape, product.dtype)
    grad[rhs.indices if op.transpose_a else (slice(None), rhs.indices)] = product
    return grad


def _of_embedding(op: Any, ograd: np.ndarray, indices: np.ndarray) -> list[Value | None] | None:
    """The gradient of a table: the sum of those of each row that was looked up."""
    if op.name == "Embedding" and not op.sparse_grad:
        return None
    rows = in_range(indices.reshape(-1), op.input_dim)
    return [None, sum_equal(rows, as_dense(ograd).reshape(len(rows), op.output_dim),
                            op.input_dim)]


def _of_square_sum(op: Any, ograd: Value, data: Value) -> list[Value | None] | None:
    """That of the rows stored; others are zeros, and so is their gradient."""
    if not isinstance(data, RowSparse) or result(op, "r") is None:
        return None
    require_inside(data)
    if isinstance(ograd, RowSparse):
        along = ograd.retain(data.indices).data
    else:
        head = as_dense(ograd)
        along = head.reshape(1, -1) if op.axis == (0,) else head.reshape(-1, 1)[data.indices]
    return [data.with_data(data.data * (2 * along))]


def _of_where(op: Any, ograd: Value, condition: Value) -> list[Value | None] | None:
    """The head gradient at the places where the result was chosen from, and elsewhere."""
    if not isinstance(condition, CSR):
        return None
    at, head = places_set(condition), as_dense(ograd)
    chosen, other = np.zeros_like(head), head.copy()
    chosen[at], other[at] = head[at], 0
    return [None, chosen, other]


@cache
def declare() -> None:
    """Add the gradients to the table of implementations, which imports their ops."""
    for form, names in ((_of_dot, "dot"), (_of_where, "where"), (_of_square_sum, "_square_sum"),
                        (_of_embedding, "Embedding _contrib_SparseEmbedding")):
        _declare(form, names)


def _declare(form: Callable[..., list[Value | None] | None], names: str) -> None:
    """The gradient of an op has no results where `form` returns None."""
    def run(op: Op, ins: Sequence[Value], outs: list[Value | None], call: Call) -> None:
        outs[:] = form(op, *ins) or ()

    run.__module__, run.__qualname__ = form.__module__, form.__qualname__
    implements(tuple(map(OPS.find, names.split())), SPARSE, backward=cast("Prepare", run))
