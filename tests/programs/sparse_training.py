"""Training with sparse gradients; `mx` is nbmod in the tests and MXNet in the oracle's worker."""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = ([1, 3], [1, 4], [0])
"""Rows that the gradients of successive steps have."""


def gradient(step: int, shape: tuple[int, int] = (5, 3)) -> np.ndarray:
    """The gradient of a step, dense."""
    random = np.random.RandomState(step)
    dense = np.zeros(shape, np.float32)
    dense[ROWS[step]] = random.randn(len(ROWS[step]), shape[1])
    return dense


def arrays(state: Any) -> list[Any]:
    """The arrays of a state."""
    if isinstance(state, (list, tuple)):
        return [array for part in state for array in arrays(part)]
    return [] if state is None else [state]


def plain(array: Any) -> tuple[str, np.ndarray]:
    """Storage type and elements."""
    return array.stype, array.asnumpy()


def updates(mx: Any, name: str, options: dict[str, Any], stype: str, dtype: str = "float32"
            ) -> list[tuple[str, np.ndarray]]:
    """The weight, and the states, after steps with row_sparse gradients."""
    optimizer = mx.optimizer.create(name, learning_rate=0.1, rescale_grad=0.5, **options)
    weight = mx.nd.array(np.random.RandomState(7).randn(5, 3), dtype=dtype).tostype(stype)
    state = optimizer.create_state_multi_precision(0, weight)
    for step in range(len(ROWS)):
        grad = mx.nd.array(gradient(step), dtype=dtype).tostype("row_sparse")
        optimizer.update_multi_precision(0, weight, grad, state)
    return [plain(array) for array in [weight, *arrays(state)]]


def noisy_update(mx: Any, stype: str) -> tuple[str, np.ndarray, np.ndarray]:
    """Storage type, and mean and deviation of each row, of zeros after a step of SGLD.

    The gradient is 20 in two of the rows, which are wide.
    """
    weight = mx.nd.zeros((5, 4000)).tostype(stype)
    dense = np.zeros(weight.shape, np.float32)
    dense[[1, 3]] = 20
    optimizer = mx.optimizer.create("sgld", learning_rate=0.01)
    optimizer.update(0, weight, mx.nd.array(dense).tostype("row_sparse"),
                     optimizer.create_state(0, weight))
    found = weight.asnumpy()
    return weight.stype, found.mean(axis=1), found.std(axis=1)


def update_calls(mx: Any) -> list[tuple[str, np.ndarray]]:
    """Functions of `mx.nd` that update a row_sparse weight."""
    found = []
    weight, state, other = (mx.nd.array(np.full((5, 3), x)).tostype("row_sparse")
                            for x in (1.0, 2.0, 3.0))
    grad = mx.nd.array(gradient(0)).tostype("row_sparse")
    mx.nd.sgd_update(weight, grad, out=weight, lr=0.1, wd=0.1)
    mx.nd.sgd_mom_update(weight, grad, state, out=weight, lr=0.1, momentum=0.5)
    mx.nd.sparse.adam_update(weight, grad, state, other, out=weight, lr=0.1)
    found += [weight, state, other]
    mx.nd.sparse.adagrad_update(weight, grad, state, out=weight, lr=0.1)
    mx.nd.sparse.ftrl_update(weight, grad, state, other, out=weight, lr=0.1)
    return [plain(array) for array in [*found, weight, state, other]]


def state_bytes(mx: Any) -> bytes:
    """The states of a row_sparse weight in a file."""
    updater = mx.optimizer.get_updater(mx.optimizer.create("adam", learning_rate=0.1))
    weight = mx.nd.array(np.ones((5, 3))).tostype("row_sparse")
    updater(0, mx.nd.array(gradient(0)).tostype("row_sparse"), weight)
    mx.nd.waitall()     # MXNet may write states as empty that are not computed yet
    return bytes(updater.get_states())


def resumed(mx: Any, states: bytes) -> list[tuple[str, np.ndarray]]:
    """The states that a file has, and the weight after another step."""
    updater = mx.optimizer.get_updater(mx.optimizer.create("adam", learning_rate=0.1))
    updater.set_states(states)
    found = [plain(array) for array in arrays(updater.states[0])]
    weight = mx.nd.array(np.ones((5, 3))).tostype("row_sparse")
    updater(0, mx.nd.array(gradient(1)).tostype("row_sparse"), weight)
    return [*found, plain(weight)]


# -- key-value stores -------------------------------------------------------------------------

TABLE = np.array([[0, 1, 2], [3, 4, 5], [0, 0, 0], [9, 10, 11]], np.float32)


def table(mx: Any, stype: str, values: np.ndarray = TABLE) -> Any:
    """A matrix of a storage type."""
    return mx.nd.array(values).tostype(stype)


def pulled(mx: Any, stored: str, out: str, ignore_sparse: bool) -> tuple[str, np.ndarray]:
    """What is pulled to an array of zeros."""
    store, target = mx.kv.create("local"), table(mx, out, 0 * TABLE)
    store.init("w", table(mx, stored))
    store.pull("w", target, ignore_sparse=ignore_sparse)
    return plain(target)


def pushed(mx: Any, stored: str, pushes: list[str], optimizer: bool) -> tuple[str, np.ndarray]:
    """The stored array after a push of arrays of several devices."""
    store, target = mx.kv.create("local"), table(mx, stored, 0 * TABLE)
    store.init("w", table(mx, stored, TABLE + 1))
    if optimizer:
        store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5))
    store.push("w", [table(mx, stype, TABLE * (place + 1)) for place, stype in enumerate(pushes)])
    store.pull("w", target, ignore_sparse=False)
    return plain(target)


def rows_pulled(mx: Any) -> list[tuple[str, list[int], np.ndarray]]:
    """Rows of row_sparse arrays, for several keys and devices."""
    store = mx.kv.create("device")
    store.init(["a", "b"], [table(mx, "row_sparse"), table(mx, "row_sparse", TABLE + 1)])
    outs = [table(mx, "row_sparse", 0 * TABLE) for _ in range(5)]
    store.row_sparse_pull("a", outs[0], row_ids=mx.nd.array([3, 1, 1, 2]))
    store.row_sparse_pull(["a", "b"], outs[1:3], row_ids=[mx.nd.array([0]), mx.nd.array([3, 3])])
    store.row_sparse_pull("b", outs[3:], row_ids=[mx.nd.array([[0, 1]]),
                                                  mx.nd.array([3], dtype="int64")])
    return [(out.stype, out.indices.asnumpy().tolist(), out.asnumpy()) for out in outs]


def sums_of_rows(mx: Any) -> list[Any]:
    """What an updater gets that is given rows of two devices."""
    store, found = mx.kv.create("local"), []
    store.init("w", table(mx, "row_sparse"))
    store._set_updater(lambda key, grad, weight: found.append(
        (grad.stype, grad.indices.asnumpy().tolist(), grad.asnumpy(), weight.stype)))
    store.push("w", [mx.nd.sparse.row_sparse_array(parts, shape=(4, 3)) for parts in (
        ([[1, 1, 1]], [3]), ([[2, 2, 2], [5, 5, 5]], [0, 3]))])
    return found


# -- modules ----------------------------------------------------------------------------------

def linear_net(mx: Any) -> Any:
    """Logistic regression of csr data with a row_sparse weight."""
    data = mx.sym.Variable("data", stype="csr")
    weight = mx.sym.Variable("weight", stype="row_sparse", shape=(20, 2))
    bias = mx.sym.Variable("bias", shape=(2,))
    return mx.sym.SoftmaxOutput(mx.sym.broadcast_add(mx.sym.dot(data, weight), bias),
                                mx.sym.Variable("softmax_label"))


def samples(count: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """A matrix of which a fifth is not 0, and classes that follow from it."""
    random = np.random.RandomState(1)
    dense = (random.rand(count, 20) * (random.rand(count, 20) < 0.2)).astype(np.float32)
    return dense, (dense[:, :10].sum(axis=1) > dense[:, 10:].sum(axis=1)).astype(np.float32)


def bucketed(mx: Any, store: bool) -> dict[str, tuple[str, np.ndarray]]:
    """Parameters of a BucketingModule that sums rows of a table, after two epochs."""
    def network(length: int) -> tuple[Any, list[str], list[str]]:
        table = mx.sym.Variable("table", stype="row_sparse", shape=(20, 4),
                                init=mx.init.Constant(0.5))
        rows = mx.sym.Embedding(mx.sym.Variable("ids"), table, input_dim=20, output_dim=4,
                                sparse_grad=True)
        scores = mx.sym.FullyConnected(mx.sym.sum(rows, axis=1), num_hidden=2, name="fc")
        return mx.sym.SoftmaxOutput(scores, mx.sym.Variable("label")), ["ids"], ["label"]

    def batch(length: int) -> Any:
        ids = np.random.RandomState(length).randint(0, 20, (4, length))
        return mx.io.DataBatch([mx.nd.array(ids)], [mx.nd.array([0, 1, 0, 1])], bucket_key=length,
                               provide_data=[("ids", (4, length))],
                               provide_label=[("label", (4,))])

    module = mx.mod.BucketingModule(network, default_bucket_key=5)
    module.bind([("ids", (4, 5))], [("label", (4,))])
    module.init_params(mx.init.One())
    module.init_optimizer(mx.kv.create("local") if store else None, "adagrad",
                          {"learning_rate": 0.1})
    for length in (5, 3, 2, 3, 5, 2):
        given = batch(length)
        if store:
            module.prepare(given, sparse_row_id_fn=lambda given: {"table": given.data[0]})
        module.forward_backward(given)
        module.update()
    if store:       # rows that no batch needed last are fetched
        module.prepare(batch(5), sparse_row_id_fn=lambda given: {"table": mx.nd.arange(20)})
    return {name: plain(array) for name, array in module.get_params()[0].items()}


def trained(mx: Any, optimizer: str, store: bool, rows: bool, contexts: int = 1
            ) -> dict[str, tuple[str, np.ndarray]]:
    """Parameters of a linear module after two epochs.

    `store`: the weight is updated in a key-value store; `rows`: each batch fetches its rows.
    """
    dense, labels = samples()
    module = mx.mod.Module(linear_net(mx), context=[mx.cpu(i) for i in range(contexts)])
    batches = mx.io.NDArrayIter(mx.nd.array(dense).tostype("csr"), labels, 8,
                                last_batch_handle="discard")
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.Constant(0.5))
    module.init_optimizer(mx.kv.create("local") if store else None, optimizer,
                          {"learning_rate": 0.1})

    def row_ids(batch: Any) -> dict[str, Any]:
        return {"weight": mx.nd.array(np.flatnonzero(batch.data[0].asnumpy().any(axis=0)))}

    for _ in range(2):
        batches.reset()
        for batch in batches:
            if rows:
                module.prepare(batch, sparse_row_id_fn=row_ids)
            module.forward_backward(batch)
            module.update()
    return {name: plain(array) for name, array in module.get_params()[0].items()}
