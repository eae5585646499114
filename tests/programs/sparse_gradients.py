"""Gradients of expressions on sparse arrays; `mx` is nbmod in the tests and MXNet in its worker."""

from __future__ import annotations

from typing import Any

import numpy as np

X = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0]], np.float32)
LOOKED_UP = "nd.Embedding(ids, w, input_dim=3, output_dim=3, sparse_grad=True)"
CASES = [
    *(("nd.dot(c, w)", {"w": stype}, {}) for stype in ("default", "row_sparse")),
    *(("nd.dot(c, w, transpose_a=True)", {"w": stype}, {}) for stype in ("default", "row_sparse")),
    ("nd.dot(c, w)", {"w": "default"}, {"w": "row_sparse"}),
    ("nd.dot(x, d)", {"x": "csr"}, {}),
    *((f"nd.dot(x, w, transpose_a={at})", {"x": "csr", "w": stype}, {}) for at in (False, True)
      for stype in ("default", "row_sparse")),
    ("nd.dot(c, w) + nd.dot(c * 2, w)", {"w": "row_sparse"}, {}),
    ("nd.dot(nd.square(c), w * 3)", {"w": "row_sparse"}, {}),
    (LOOKED_UP, {"w": "default"}, {"w": "row_sparse"}), (LOOKED_UP, {"w": "row_sparse"}, {}),
    (f"{LOOKED_UP} * nd.dot(nd.ones((4, 3)), w)", {"w": "row_sparse"}, {}),
    ("nd.contrib.SparseEmbedding(ids, w, input_dim=3, output_dim=3)", {"w": "row_sparse"}, {}),
    ("nd.Embedding(ids, w, input_dim=3, output_dim=3)", {"w": "default"}, {}),
    *((f"nd.{op}(x)", {"x": stype}, {}) for op in ("square", "sqrt", "relu", "sin", "abs")
      for stype in ("row_sparse", "csr")),
    ("nd.exp(x)", {"x": "row_sparse"}, {}),
    *(("nd.sum(x, axis=0)", {"x": stype}, {}) for stype in ("row_sparse", "csr")),
    ("x * 2", {"x": "row_sparse"}, {}), ("x + y", {"x": "row_sparse", "y": "row_sparse"}, {}),
    ("nd.elemwise_mul(x, y)", {"x": "row_sparse", "y": "default"}, {}),
    ("x.tostype('row_sparse') * 3", {"x": "default"}, {}),
    ("x.tostype('default') * 3", {"x": "row_sparse"}, {}),
    ("nd.sparse.retain(x, nd.array([1]))", {"x": "row_sparse"}, {}),
    ("nd.FullyConnected(d, w, num_hidden=3, no_bias=True)", {"w": "row_sparse"}, {}),
    *((f"nd._internal._square_sum(x, axis={axis}, keepdims={keep})", {"x": "row_sparse"}, {})
      for axis in (0, 1) for keep in (False, True)),
    ("nd.broadcast_mul(c, row)", {"row": "default"}, {}),
    *((f"nd.{op}", {"x": stype}, {}) for stype in ("row_sparse", "csr")
      for op in ("norm(x)", "mean(x, axis=1)", "sum(x)")),
    ("nd.take(x, ids)", {"x": "row_sparse"}, {}),
    ("nd.where(c, x, y)", {"x": "default", "y": "default"}, {}),
    ("nd.FullyConnected(d, w, row.reshape((3,)), num_hidden=3)",
     {"w": "row_sparse", "row": "default"}, {}),
]
"""(expression, storage types of the arrays that it is differentiated by, those of gradients)."""


def gradients(mx: Any, expression: str, stypes: dict[str, str], kinds: dict[str, str]
              ) -> list[tuple[str, np.ndarray]]:
    """Storage types and elements of the result and of its gradients."""
    nd = mx.nd
    start = {"w": X + 1, "x": X + (expression != "nd.relu(x)"), "y": X * X + 1,
             "row": np.array([[1, 2, 3]])}
    marked = {name: nd.array(start[name]).tostype(stype) for name, stype in stypes.items()}
    for name, array in marked.items():
        array.attach_grad(**({"stype": kinds[name]} if name in kinds else {}))
    scope = {"nd": nd, "c": nd.array(X).tostype("csr"), "d": nd.array(X + 1),
             "ids": nd.array([0, 2, 2, 0]), **marked}
    with mx.autograd.record():
        result = eval(expression, scope)
    result.backward()
    return [(array.stype, array.asnumpy()) for array in
            [result, *(array.grad for array in marked.values())]]
