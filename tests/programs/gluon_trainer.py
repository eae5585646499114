"""Steps of Gluon's Trainer with every kind of store.

`mx` is nbmod in the tests and MXNet in the oracle's worker.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STORES = ("device", "local", None, "object")
CASES = [(count, kind, updates) for count in (1, 2) for kind in STORES
         for updates in (None, True, False)
         if not (updates and (kind is None or count == 1 and kind != "object"))]
"""(contexts, store, update_on_kvstore), but for stores that are not there, where MXNet fails."""


def steps(mx: Any) -> list[dict[str, Any]]:
    """Of each case: weights and gradients after two steps, and where updates ran."""
    return [_run(mx, *case) for case in CASES]


def _run(mx: Any, count: int, kind: Any, updates: Any) -> dict[str, Any]:
    contexts = [mx.cpu(index) for index in range(count)]
    first, second = (mx.gluon.Parameter(name, shape=(2,)) for name in "ab")
    for each in (first, second):
        each.initialize("ones", ctx=contexts)
    second.lr_mult = 3.0
    store = mx.kv.create("local") if kind == "object" else kind
    trainer = mx.gluon.Trainer({"b": second, "a": first}, "sgd",
                               {"learning_rate": 0.5, "momentum": 0.9, "wd": 0.1}, kvstore=store,
                               update_on_kvstore=updates)
    for step in (1, 2):
        with mx.autograd.record():
            losses = [(a * b * (index + step)).sum() for index, (a, b) in enumerate(
                zip(first.list_data(), second.list_data(), strict=True))]
        for loss in losses:
            loss.backward()
        trainer.step(2)
    try:
        trainer.allreduce_grads()
        allowed = True
    except AssertionError:
        allowed = False
    return {"names": [each.name for each in trainer._params],
            "weights": [[x.asnumpy() for x in each.list_data()] for each in (first, second)],
            "gradients": [[x.asnumpy() for x in each.list_grad()] for each in (first, second)],
            "store": trainer._kvstore and trainer._kvstore.type, "allreduce": allowed,
            "on store": trainer._update_on_kvstore}


def sparse_steps(mx: Any) -> list[Any]:
    """Rows of an embedding with sparse gradients after a step, on one and on two contexts."""
    found = []
    for count in (1, 2):
        contexts = [mx.cpu(index) for index in range(count)]
        layer = mx.gluon.nn.Embedding(4, 2, sparse_grad=True)
        layer.initialize("ones", ctx=contexts)
        trainer = mx.gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 0.5,
                                                                   "wd": 0.1})
        with mx.autograd.record():
            losses = [layer(mx.nd.array([1, index], ctx=ctx)).sum()
                      for index, ctx in enumerate(contexts)]
        for loss in losses:
            loss.backward()
        trainer.step(2)
        found.append(([x.asnumpy() for x in layer.weight.list_data()],
                      trainer._kvstore and trainer._kvstore.type,
                      bool(trainer._update_on_kvstore)))
    return found


def sparse_weights(mx: Any) -> Any:
    """Rows of a row-sparse parameter, pulled from its store before and after a step."""
    weight = mx.gluon.Parameter("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse")
    weight.initialize("ones")
    trainer = mx.gluon.Trainer([weight], "sgd", {"learning_rate": 0.5})
    ids = mx.nd.array([1, 3])
    with mx.autograd.record():
        rows = weight.row_sparse_data(ids)
        loss = mx.nd.Embedding(ids, rows, input_dim=4, output_dim=2, sparse_grad=True).sum()
    loss.backward()
    trainer.step(1)
    return [rows.stype, weight.row_sparse_data(mx.nd.arange(4)).asnumpy(), trainer._kvstore.type]


def slices(mx: Any) -> list[list[Any]]:
    """Storage types, shapes and contents of slices, and what a write to them leaves behind."""
    rows = mx.nd.arange(66).reshape((33, 2))
    eye = mx.nd.array(np.eye(4)).tostype("csr")
    found = [[(part.stype, part.shape, part.asnumpy())
              for part in mx.gluon.utils.split_data(batch, count, axis, even_split=False)]
             for batch, count, axis in [(rows, 5, 0), (rows.T, 4, 1), (rows, 33, 0), (eye, 3, 0),
                                        (eye, 1, 0)]]
    mx.gluon.utils.split_data(rows, 3)[1][:] = -1   # slices of the first axis are views
    mx.gluon.utils.split_data(rows, 2, 1)[1][:] = -2    # those of others are not
    return [*found, [rows.asnumpy()]]


def broadcast_while_recording(mx: Any) -> list[Any]:
    """Gradients and weights where the store is made, pulled from and used under `record`.

    The first call of the sparse layer on the second context makes the store, when the dense layer
    is on the tape for the first.
    """
    contexts = [mx.cpu(1), mx.cpu(2)]
    rows = mx.gluon.Parameter("rows", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse")
    rows.initialize("ones", ctx=contexts)
    dense = mx.gluon.Parameter("dense", shape=(2, 1))
    dense.initialize("ones", ctx=contexts)
    trainer = mx.gluon.Trainer([rows, dense], "sgd", {"learning_rate": 1})
    losses = []
    with mx.autograd.record():
        for ctx in contexts:
            ids = mx.nd.array([1, 2], ctx=ctx)
            late = mx.nd.dot(mx.nd.ones((1, 2), ctx=ctx), dense.data(ctx))
            weight = rows.row_sparse_data(ids)
            found = mx.nd.Embedding(ids, weight, input_dim=4, output_dim=2, sparse_grad=True)
            losses.append(late.sum() + mx.nd.dot(found, dense.data(ctx)).sum())
    for loss in losses:
        loss.backward()
    gradients = [x.asnumpy() for x in dense.list_grad()]
    trainer.step(1)
    return [gradients, [x.asnumpy() for x in dense.list_data()], rows._reduce().asnumpy()]


def stores_while_recording(mx: Any) -> list[Any]:
    """A weight and its gradient after all transfers of a store within `record`."""
    found = []
    for kind in ("local", "device", "teststore"):
        store, weight, gradient = mx.kv.create(kind), mx.nd.ones(2), mx.nd.ones(2)
        weight.attach_grad()
        with mx.autograd.record():
            before = weight * 2
            if kind != "teststore":
                store.init(0, weight)
                store.push(0, [gradient, gradient])
                store.pull(0, out=weight)
                store.broadcast(1, weight, out=[weight])
            loss = (before * weight).sum()
        loss.backward()
        store.pushpull(0, [gradient, gradient], out=weight)
        found.append((weight.asnumpy(), weight.grad.asnumpy()))
    return found


def reduced_rows(mx: Any) -> list[Any]:
    """Arrays of sparse parameters for files, wherever the parameters are."""
    found = []
    for contexts in (mx.cpu(0), mx.cpu(1), [mx.cpu(1), mx.cpu(2)]):
        weight = mx.gluon.Parameter("w", shape=(4, 2), stype="row_sparse")
        weight.initialize("ones", ctx=contexts)
        mx.gluon.Trainer([weight], "sgd")
        whole = weight._reduce()
        weight.reset_ctx(mx.cpu(3))
        found.append((whole.stype, str(whole.context), whole.asnumpy(),
                      weight.row_sparse_data(mx.nd.arange(2, ctx=mx.cpu(3))).asnumpy()))
    return found


def states(mx: Any, fname: str, load: bool) -> np.ndarray:
    """The weight after two steps of Adam, with the states of a file between them or without."""
    weight = mx.gluon.Parameter("w", shape=(2,))
    weight.initialize("ones")
    trainer = mx.gluon.Trainer([weight], "adam", {"learning_rate": 0.125})
    for step in (1, 2):
        if load and step == 2:
            trainer = mx.gluon.Trainer([weight], "adam", {"learning_rate": 9})
            trainer.load_states(fname)
        with mx.autograd.record():
            loss = (weight.data() * mx.nd.array([1, 3])).sum()
        loss.backward()
        trainer.step(1)
        if not load and step == 1:
            trainer.save_states(fname)
    return weight.data().asnumpy()
