"""Memory of training a large row_sparse weight; `mx` is nbmod, or MXNet in its own process."""

from __future__ import annotations

import resource
import sys
from typing import Any

import numpy as np

BATCH, STORED = 256, 100


def _peak() -> int:
    """Largest resident memory of this process so far, in bytes."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else 1024 * found


def _now() -> int:
    """Resident memory of this process, in bytes; where it is not told, the largest so far."""
    try:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[1]) * resource.getpagesize()
    except OSError:
        return _peak()


def peak_of_training(mx: Any, rows: int, width: int, steps: int) -> int:
    """Largest resident bytes beyond those from before the weight is made.

    The weight is in a store, which updates it by Adam; a step pulls the rows that a batch needs,
    looks them up, differentiates and pushes.
    """
    rng = np.random.RandomState(3)
    batches = [mx.nd.array(rng.randint(0, rows, (BATCH, STORED)), dtype="int64")
               for _ in range(steps)]
    before = _now()
    weight = mx.nd.sparse.row_sparse_array(
        (mx.nd.full((rows, width), 0.5), mx.nd.arange(rows, dtype="int64")), shape=(rows, width))
    store = mx.kv.create("local")
    store.init("w", weight)
    del weight
    store.set_optimizer(mx.optimizer.Adam(learning_rate=0.1))
    for ids in batches:
        pulled = mx.nd.sparse.zeros("row_sparse", (rows, width))
        store.row_sparse_pull("w", pulled, row_ids=ids)
        pulled.attach_grad()
        with mx.autograd.record():
            found = mx.nd.Embedding(ids, pulled, input_dim=rows, output_dim=width,
                                    sparse_grad=True)
        found.backward()
        store.push("w", pulled.grad)
        mx.nd.waitall()
    return _peak() - before


def peak_of_module(mx: Any, rows: int, width: int, steps: int) -> int:
    """As `peak_of_training`, of a Module with a store; the batches of its epoch are `steps`."""
    weight = mx.sym.Variable("weight", stype="row_sparse", shape=(rows, width),
                             init=mx.init.Constant(0.5))
    found = mx.sym.Embedding(mx.sym.Variable("data"), weight, input_dim=rows, output_dim=width,
                             sparse_grad=True)
    net = mx.sym.LinearRegressionOutput(mx.sym.sum(found, axis=1), mx.sym.Variable("label"))
    ids = np.random.RandomState(3).randint(0, rows, (steps * BATCH, STORED))
    batches = mx.io.NDArrayIter(mx.nd.array(ids, dtype="int32"), np.zeros((len(ids), width)),
                                BATCH, label_name="label")
    before = _now()
    mx.mod.Module(net, label_names=["label"]).fit(
        batches, eval_metric="mse", num_epoch=1, kvstore=mx.kv.create("local"), optimizer="adam",
        sparse_row_id_fn=lambda batch: {"weight": batch.data[0]})
    mx.nd.waitall()
    return _peak() - before
