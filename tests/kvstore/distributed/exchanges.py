"""A script of ranks that push, pull and train, and write what they have.

    nbmod launch -n 2 exchanges.py KIND STEM
"""

from __future__ import annotations

import sys

import numpy as np

import nbmod as mx
from tests.kvstore.distributed import test_overlap, test_store, test_trainer_ranks


def results(store: mx.kv.KVStore) -> dict[str, np.ndarray]:
    """By name: stored arrays after pushes of dense and compressed gradients, and of rows; and the
    parameters of networks that were trained by a Module and by a Trainer."""
    found = test_store.pushed(store, lambda name, step: test_store.gradient(name, store.rank, step),
                              "adam", 3)
    store.init("rows", mx.nd.ones((11, 3)).tostype("row_sparse"))
    for step in range(3):
        store.push("rows", test_store.rows_of(store.rank, step))
    pulled = mx.nd.zeros((11, 3))
    store.pull("rows", out=pulled, ignore_sparse=False)
    found["rows"] = pulled.asnumpy()
    if store.num_workers == 2:
        found |= test_overlap.fit(mx.kv.create(store.type), 2, [store.rank])[0]
        found |= test_trainer_ranks.trained_both_ways(store.type, 2, [store.rank])
    compressed = mx.kv.create(store.type)
    compressed.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    after = test_store.pushed(compressed, lambda name, step: test_store.gradient(
        name, store.rank, step), "sgd", 3)
    return found | {f"compressed {name}": array for name, array in after.items()}


if __name__ == "__main__":
    kind, stem = sys.argv[1:]
    created = mx.kv.create(kind)
    np.savez(f"{stem}-{created.rank}.npz", **results(created))
