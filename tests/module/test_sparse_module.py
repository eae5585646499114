"""Modules with row_sparse weights and csr batches train as in MXNet."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from tests.programs import sparse_training


@pytest.fixture(autouse=True)
def _silent(monkeypatch):
    """Conversions to dense arrays are not told."""
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad"])
@pytest.mark.parametrize("store, rows, contexts", [(False, False, 1), (True, True, 1),
                                                   (True, True, 2)])
def test_training_is_mxnets(oracle, optimizer, store, rows, contexts):
    mine = sparse_training.trained(mx, optimizer, store, rows, contexts)
    theirs = oracle.call("mx_scripts.run", "sparse_training", "trained", optimizer, store, rows,
                         contexts)
    for name, (stype, values) in mine.items():
        assert stype == theirs[name][0]
        # Adam divides by square roots of sums that are rounded differently.
        np.testing.assert_allclose(values, theirs[name][1], 1e-4, 1e-5)


def test_weights_are_fetched_whole_without_rows():
    """MXNet's executors would keep the first weights."""
    mine, rows = (sparse_training.trained(mx, "adam", True, rows) for rows in (False, True))
    for name, (_, values) in mine.items():
        np.testing.assert_array_equal(values, rows[name][1])


@pytest.mark.parametrize("store", [False, True])
def test_buckets_fetch_their_rows(oracle, store):
    mine = sparse_training.bucketed(mx, store)
    theirs = oracle.call("mx_scripts.run", "sparse_training", "bucketed", store)
    assert mine.keys() == theirs.keys()
    for name, (stype, values) in mine.items():
        assert stype == theirs[name][0]
        np.testing.assert_allclose(values, theirs[name][1], 1e-5, 1e-6)     # roundings of 6 steps


def module_and_batches(size=8):
    dense, labels = sparse_training.samples()
    batches = mx.io.NDArrayIter(mx.nd.array(dense).tostype("csr"), labels, size,
                                last_batch_handle="discard")
    return mx.mod.Module(sparse_training.linear_net(mx)), batches


def test_fit_score_predict_and_checkpoints(tmp_path):
    module, batches = module_and_batches()

    def rows(batch):
        return {"weight": batch.data[0].indices}

    module.fit(batches, eval_data=batches, kvstore=mx.kv.create("local"), optimizer="adam",
               optimizer_params={"learning_rate": 0.2}, num_epoch=15, sparse_row_id_fn=rows)
    score = module.score(batches, "acc", sparse_row_id_fn=rows)[0][1]
    assert score > 0.9
    predicted = module.predict(batches, sparse_row_id_fn=rows).asnumpy()
    prefix = str(tmp_path / "net")
    module.save_checkpoint(prefix, 1)
    assert mx.nd.load(f"{prefix}-0001.params")["arg:weight"].stype == "row_sparse"
    loaded = mx.mod.Module.load(prefix, 1)
    loaded.bind(batches.provide_data, batches.provide_label, for_training=False)
    np.testing.assert_array_equal(loaded.predict(batches).asnumpy(), predicted)


def test_batches_of_other_sizes_and_monitors():
    module, batches = module_and_batches()
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params()
    seen = []
    module.install_monitor(mx.mon.Monitor(1, lambda array: mx.nd.norm(array), pattern="dot.*"))
    module._exec_group.execs[0].set_monitor_callback(lambda name, array: seen.append(name))
    first = next(iter(batches))
    half = mx.io.DataBatch([first.data[0][:4]], [first.label[0][:4]])
    module.forward(first, is_train=False)
    whole = module.get_outputs()[0].asnumpy()
    module.forward(half, is_train=False)
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), whole[:4])
    assert any(name.startswith("dot") for name in seen)
