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
            "on store": bool(trainer._update_on_kvstore)}


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
