"""Expressions on sparse arrays and their results, in a form that both packages share.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

X = [[0, 1, 0], [2, 0, 3], [0, 0, 0]]
Y = [[0, 0, 5], [1, 0, 3], [2, 0, 0]]


def names(mx: Any) -> dict[str, Any]:
    """Two matrices, each dense, row_sparse and csr: `d`, `r` and `c`, `D`, `R` and `C`."""
    nd = mx.nd
    x, y = (np.array(values, np.float32) for values in (X, Y))
    made = {"d": nd.array, "r": nd.sparse.row_sparse_array, "c": nd.sparse.csr_matrix}
    return {"mx": mx, "nd": nd, "sp": nd.sparse, "np": np, "pickle": pickle, "x": x,
            "row": nd.array([[1, 2, 3]]), "column": nd.array([[1], [2], [3]]),
            **{name: make(x) for name, make in made.items()},
            **{name.upper(): make(y) for name, make in made.items()}}


def answers(mx: Any, expressions: Sequence[str]) -> list[Any]:
    """The result of each expression, or `{"error": ""}`."""
    found = []
    for expression in expressions:
        scope = names(mx)
        before, _, last = expression.rpartition(";")
        try:
            exec(before, scope)
            found.append(_plain(mx, eval(last.strip(), scope)))
        except Exception:
            found.append({"error": ""})
    return found


def _plain(mx: Any, value: Any) -> Any:
    if isinstance(value, mx.nd.NDArray):
        return {"stype": value.stype, "array": value.asnumpy()}
    return [_plain(mx, part) for part in value] if isinstance(value, (list, tuple)) else value


UNARY = """abs relu sign round rint ceil floor trunc fix negative square sqrt cbrt log1p expm1 sin
tan arcsin arctan sinh tanh arcsinh arctanh degrees radians identity BlockGrad make_loss zeros_like
ones_like sigmoid exp cos erf softmax sum mean max min norm transpose sort L2Normalization Flatten
contrib.round_ste contrib.sign_ste square""".split()
SCALAR = """plus minus rminus mul div rdiv power rpower mod maximum minimum hypot equal not_equal
greater greater_equal lesser lesser_equal logical_and""".split()
BINARY = """elemwise_add elemwise_sub elemwise_mul elemwise_div _internal._maximum
_internal._minimum _internal._hypot _internal._power _internal._equal
_internal._scatter_elemwise_div _internal._grad_add broadcast_add broadcast_sub broadcast_mul
broadcast_maximum""".split()
OPERATORS = ("+", "-", "*", "**", "%", ">", "==")
PAIRS = [pair for pair in itertools.product("drc", "DRC") if pair != ("d", "D")]

OPS = [
    *(f"nd.{op}({a})" for op in UNARY for a in "rc"),
    *(f"nd._internal._{op}_scalar({a}, scalar={s})" for op in SCALAR for s in (0.0, 2.0, -1.0)
      for a in "rc"),
    *(f"nd.{op}({a}, {b})" for op in BINARY for a, b in PAIRS),
    *(f"{a} {op} {b}" for op in OPERATORS for a in "rc" for b in ("D", "R", "C", "2", "row")),
    *(f"nd.{op}({a}, axis={axis}, keepdims={keep})" for op in ("sum", "mean") for a in "rc"
      for axis in (0, 1) for keep in (True, False)),
    *(f"nd.norm({a}, ord={order}{axis})" for a in "rc" for order in (1, 2)
      for axis in ("", ", axis=0", ", axis=1", ", axis=1, keepdims=True", ", axis=(0, 1)")),
    *(f"nd.{op}({a}{axis})" for op in ("sum", "mean") for a in "rc"
      for axis in (", keepdims=True", ", axis=(0, 1)", ", axis=0, exclude=True", ", axis=-1")),
    *(f"nd.take({a}, nd.array([2, 1, -1, 5]), axis={axis}, mode='{mode}')" for a in "rc"
      for axis in (0, 1) for mode in ("clip", "wrap")),
    "nd.take(r, nd.array([[2, 1], [0, 0]]))",
    *(f"nd.broadcast_{op}({a}, {b})" for op in ("add", "sub", "mul", "div")
      for a, b in (("r", "row"), ("c", "row"), ("c", "column"), ("row", "c"))),
    *(f"nd.{op}" for args in itertools.product("drc", repeat=3) for op in (
        f"add_n({', '.join(args)})", f"concat({', '.join(args)}, dim=0)",
        f"where({', '.join(args)})")),
    *(f"nd.dot({a}, {b}, transpose_a={at}, transpose_b={bt}{stype})"
      for a, b in itertools.product("drc", "DRC") for at in (0, 1) for bt in (0, 1)
      for stype in ("", *(f", forward_stype='{each}'" for each in ("default", "row_sparse", "csr")))
      ),
    *(f"nd.{call}".replace("A", a) for a in "rc" for call in (
        "slice(A, (0,), (2,))", "slice(A, (0, 1), (2, 3))", "slice(A, (1,), (None,))",
        "slice(A, (0,), (3,), (2,))", "slice_axis(A, axis=0, begin=0, end=2)", "clip(A, -1, 1)",
        "cast(A, 'float64')", "contrib.quadratic(A, a=1, b=1, c=0)",
        "contrib.quadratic(A, a=1, b=1, c=1)", "take(A, nd.array([2, 1, 1]))",
        "reshape(A, shape=(9,))", "LinearRegressionOutput(D, A)", "cast_storage(A, 'default')")),
    "nd.Embedding(nd.array([0, 1]), r, input_dim=3, output_dim=3)",
    "sp.retain(r, nd.array([1, 2]))", "nd.cast_storage(d, 'csr')", "nd.cast_storage(d, 'default')",
    "nd.cast_storage(d, 'row_sparse')", "nd.FullyConnected(D, sp.row_sparse_array(x + 1), "
    "num_hidden=3, no_bias=True)",
    *(f"nd.FullyConnected(D, sp.row_sparse_array(x + 1), {bias}, num_hidden=3)" for bias in (
        "sp.row_sparse_array([1, 2, 3])", "sp.row_sparse_array([[1], [2], [3]])",
        "nd.array([[1], [2], [3]])", "nd.array([[1, 2, 3]])")),
    *(f"nd.contrib.getnnz(c{axis})" for axis in ("", ", axis=1", ", axis=2")),
]
"""Every storage type of the table in `ops.sparse.storage_types`."""

ARRAYS = [
    "sp.csr_matrix([[0, 1], [2, 0]])", "sp.csr_matrix(x.astype('d'))",
    "sp.csr_matrix(x.astype('i'))", "sp.csr_matrix(x, dtype='float16')",
    "sp.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 3, 3]), shape=(3, 3))",
    "sp.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 3, 3]))",
    "sp.csr_matrix((np.array([1, 2, 3], 'd'), [1, 0, 2], [0, 1, 3, 3]), shape=(3, 5))",
    "sp.csr_matrix(([], [], [0, 0]))", "nd.ones((2,)).tostype('csr')",
    "sp.csr_matrix((3, 4))", "sp.csr_matrix((3, 4), dtype='float64')", "sp.csr_matrix(c)",
    "sp.csr_matrix(r)", "sp.csr_matrix([1, 2, 3])", "sp.csr_matrix(x, shape=(2, 2))",
    "sp.csr_matrix(([1, 2, 3], [2, 0, 1], [0, 2, 3, 3]), shape=(3, 3))",
    "sp.row_sparse_array(([[1, 2], [3, 4]], [1, 3]), shape=(5, 2))",
    "sp.row_sparse_array(([[1, 2], [3, 4]], [1, 3]))",
    "sp.row_sparse_array((np.array([[1, 2], [3, 4]], 'd'), [1, 3]), shape=(5, 2))",
    "sp.row_sparse_array((3, 4))", "sp.row_sparse_array((3, 4, 5))", "sp.row_sparse_array(r)",
    "sp.row_sparse_array([0, 1, 2])", "sp.row_sparse_array(np.ones((2, 2, 2)))",
    "sp.row_sparse_array(c)", "sp.array(c)", "sp.array(r, dtype='float64')", "sp.array(x)",
    "nd.array(c)", "sp.zeros('csr', (2, 3))", "sp.zeros('row_sparse', (2, 3), dtype='float64')",
    "sp.zeros('default', (2, 3))", "sp.zeros('x', (2, 3))", "sp.empty('csr', (2, 3))",
    "nd.zeros((2, 3), stype='csr')", "nd.empty((2, 3), stype='row_sparse')",
    "c[1]", "c[-1]", "c[1:3]", "c[:]", "c[0:3:2]", "c[0, 1]", "c[-2:]", "c[2:1]", "c[[0, 1]]",
    "c[1:9]", "r[1]", "r[1:3]", "r[:]", "r[0, 1]",
    "c[:] = 5; c", "r[:] = 5; r", "c[:] = x * 2; c", "r[:] = x * 2; r", "c[:] = D; c",
    "r[:] = D; r", "c[:] = C; c", "r[:] = R; r", "r[:] = C; r", "c[:] = R; c", "c[0] = 1; c",
    "r[0:1] = 1; r", "d[:] = C; d", "d[:] = R; d", "c.shape, c.ndim, c.stype, len(c)",
    "r.shape, r.ndim, r.stype, len(r)", "c.size", "c.T", "r.T", "repr(c)", "repr(r)",
    "c.data", "c.indices", "c.indptr", "r.data", "r.indices", "str(c.indices.dtype)",
    *(f"{a}.tostype('{stype}')" for a in "drc" for stype in ("default", "csr", "row_sparse", "x")),
    "nd.ones((2, 2, 2)).tostype('csr')", "c.astype('float64')", "r.astype('int32')", "c.copy()",
    "c.copyto(nd.zeros((3, 3)))", "c.copyto(sp.zeros('csr', (3, 3)))", "r.copyto(C)",
    "c.copyto(sp.zeros('csr', (3, 4)))", "d.copyto(C)", "d.copyto(R)", "r.copyto(D)",
    "c.as_in_context(mx.cpu()) is c", "c.reshape((9,))", "c.check_format()", "r.check_format()",
    *(f"sp.csr_matrix(({parts}), shape=(3, 3)).check_format({full})" for full in (True, False)
      for parts in ("[1, 2, 3], [2, 0, 1], [0, 2, 3, 3]", "[1, 2, 3], [1, 0, 7], [0, 1, 3, 3]",
                    "[1, 2, 3], [1, 0, 2], [0, 2, 1, 3]", "[1, 2, 3], [1, 0, 2], [0, 2, 3]")),
    *(f"sp.row_sparse_array(([[1, 2], [3, 4]], {rows}), shape=(5, 2)).check_format()"
      for rows in ("[3, 1]", "[1, 9]", "[1, 1]", "[0, 4]")),
    "pickle.loads(pickle.dumps(c))", "pickle.loads(pickle.dumps(r))",
    *(f"{a} {op}= {b}; {a}" for a in "rc" for op in "+-*" for b in ("2", "D", a)), "c /= 2; c",
    "sp.add(c, C)", "sp.add(c, D)", "sp.subtract(r, R)", "sp.multiply(c, row)", "sp.add(c, 2)",
    "nd.dot(c, D, out=nd.zeros((3, 3)))", "nd.sqrt(r, out=R)", "nd.exp(r, out=R)",
    "nd.abs(r, out=D)",
]
"""How arrays are made, read, changed and converted."""
