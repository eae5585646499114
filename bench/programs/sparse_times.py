"""Sparse operations in either package: `mx` is nbmod, or MXNet in its own process.

The sizes are those of a linear model on hashed features: batches of 256 rows with 100 of 100,000
features each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BATCH, FEATURES, STORED, WIDTH = 256, 100_000, 100, 16
IDS = 4096


def features() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The elements, columns and row pointers of a batch."""
    rng = np.random.RandomState(7)
    columns = np.concatenate([np.sort(rng.choice(FEATURES, STORED, replace=False))
                              for _ in range(BATCH)])
    return (rng.randn(BATCH * STORED).astype(np.float32), columns,
            np.arange(0, BATCH * STORED + 1, STORED))


def _batch(mx: Any) -> Any:
    return mx.nd.sparse.csr_matrix(features(), shape=(BATCH, FEATURES))


def _dense(mx: Any, *shape: int) -> Any:
    return mx.nd.array(np.random.RandomState(8).randn(*shape).astype(np.float32))


def _some_rows(mx: Any) -> Any:
    """A row_sparse matrix with the rows that the batch needs."""
    rows = np.unique(features()[1])
    values = np.random.RandomState(9).randn(len(rows), WIDTH).astype(np.float32)
    return mx.nd.sparse.row_sparse_array((values, rows), shape=(FEATURES, WIDTH))


def dot_dense(mx: Any) -> Callable[[], Any]:
    """csr . dense."""
    batch, weight = _batch(mx), _dense(mx, FEATURES, WIDTH)
    return lambda: mx.nd.sparse.dot(batch, weight)


def dot_rows(mx: Any) -> Callable[[], Any]:
    """csr . row_sparse."""
    batch, weight = _batch(mx), _some_rows(mx)
    return lambda: mx.nd.sparse.dot(batch, weight)


def dot_transposed(mx: Any) -> Callable[[], Any]:
    """csr^T . dense, a row_sparse gradient."""
    batch, heads = _batch(mx), _dense(mx, BATCH, WIDTH)
    return lambda: mx.nd.sparse.dot(batch, heads, transpose_a=True)


def lazy_adam(mx: Any) -> Callable[[], Any]:
    """Adam on the rows of a row_sparse gradient."""
    weight, gradient = _dense(mx, FEATURES, WIDTH), _some_rows(mx)
    mean, var = mx.nd.zeros((FEATURES, WIDTH)), mx.nd.zeros((FEATURES, WIDTH))
    mean, var, weight = (array.tostype("row_sparse") if array is weight else
                         mx.nd.sparse.zeros("row_sparse", array.shape)
                         for array in (mean, var, weight))
    return lambda: mx.nd.sparse.adam_update(weight, gradient, mean, var, lr=0.01, out=weight,
                                            lazy_update=True)


def embedding(mx: Any) -> Callable[[], Any]:
    """Forward and backward of a lookup with a sparse gradient."""
    ids = mx.nd.array(np.random.RandomState(5).randint(0, FEATURES, IDS))
    weight = _dense(mx, FEATURES, WIDTH)
    weight.attach_grad(stype="row_sparse")
    heads = _dense(mx, IDS, WIDTH)

    def step() -> Any:
        with mx.autograd.record():
            out = mx.nd.Embedding(ids, weight, input_dim=FEATURES, output_dim=WIDTH,
                                  sparse_grad=True)
        out.backward(heads)
        return weight.grad

    return step


# -- steps of training --------------------------------------------------------------------------


def _linear(mx: Any) -> Any:
    scores = mx.sym.sparse.dot(mx.sym.Variable("data", stype="csr"), _rows(mx, "w", 2))
    scores = mx.sym.broadcast_add(scores, mx.sym.Variable("b", shape=(2,), init=mx.init.Zero()))
    return mx.sym.SoftmaxOutput(scores, mx.sym.Variable("label"), name="softmax")


def _factorization_machine(mx: Any) -> Any:
    data, factors = mx.sym.Variable("data", stype="csr"), _rows(mx, "v", WIDTH)
    pairs = mx.sym.sum(mx.sym.square(mx.sym.sparse.dot(data, factors)), axis=1, keepdims=True)
    squares = mx.sym._internal._square_sum(factors, axis=1, keepdims=True)
    own = mx.sym.sparse.dot(mx.sym.square(data), squares)
    scores = mx.sym.sparse.dot(data, _rows(mx, "w", 1)) + 0.5 * (pairs - own)
    return mx.sym.LogisticRegressionOutput(scores, mx.sym.Variable("label"))


def _wide_deep(mx: Any) -> Any:
    wide = mx.sym.sparse.dot(mx.sym.Variable("data", stype="csr"), _rows(mx, "w", 2))
    deep = mx.sym.Embedding(mx.sym.Variable("ids"), _rows(mx, "table", WIDTH), input_dim=FEATURES,
                            output_dim=WIDTH, sparse_grad=True)
    deep = mx.sym.Flatten(deep)
    for units in (64, 32):
        deep = mx.sym.Activation(mx.sym.FullyConnected(deep, num_hidden=units), act_type="relu")
    deep = mx.sym.FullyConnected(deep, num_hidden=2)
    return mx.sym.SoftmaxOutput(wide + deep, mx.sym.Variable("label"), name="softmax")


def _rows(mx: Any, name: str, width: int) -> Any:
    return mx.sym.Variable(name, stype="row_sparse", shape=(FEATURES, width),
                           init=mx.init.Normal(0.01))


def training_step(mx: Any, network: Callable[[Any], Any]) -> Callable[[], Any]:
    """Rows pulled, forward, backward and the update, by Module and a local store."""
    net = network(mx)
    ids = mx.nd.array(np.random.RandomState(5).randint(0, FEATURES, (BATCH, 8)))
    labels = mx.nd.array(np.arange(BATCH) % 2)
    reads = {"data": _batch(mx), "ids": ids}
    names = [name for name in reads if name in net.list_arguments()]
    batch = mx.io.DataBatch([reads[name] for name in names], [labels])
    module = mx.mod.Module(net, data_names=names, label_names=["label"])
    module.bind([(name, reads[name].shape) for name in names], [("label", (BATCH,))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(kvstore=mx.kv.create("local"), optimizer="adam")
    pulled = {"w": reads["data"].indices, "v": reads["data"].indices, "table": ids}
    pulled = {name: rows for name, rows in pulled.items() if name in net.list_arguments()}

    def step() -> Any:
        module.prepare(batch, sparse_row_id_fn=lambda _: pulled)
        module.forward_backward(batch)
        module.update()
        return module.get_outputs()

    return step


CASES: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "dot(csr, dense)": dot_dense, "dot(csr, row_sparse)": dot_rows,
    "dot(csr.T, dense)": dot_transposed, "lazy Adam": lazy_adam,
    "Embedding, sparse gradient": embedding,
    "step: linear classification": lambda mx: training_step(mx, _linear),
    "step: factorization machine": lambda mx: training_step(mx, _factorization_machine),
    "step: wide and deep": lambda mx: training_step(mx, _wide_deep)}


def subject(mx: Any, case: str) -> Callable[[], Any]:
    """The call of a case, and its end."""
    call = CASES[case](mx)

    def run() -> None:
        call()
        mx.nd.waitall()

    return run
