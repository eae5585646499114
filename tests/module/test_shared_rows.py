"""Row-sparse parameters of modules are stored once, and behave as copies do."""

from __future__ import annotations

import tracemalloc
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.callback import nan_guard
from nbmod.kvstore import kvstore
from nbmod.module import executor_group, params, workers
from nbmod.ndarray.sparse_array import share_rows
from tests.programs import sparse_training

FEATURES, BATCH = 20, 4


def batch_of(seed):
    """A batch in which every sample has three features."""
    random = np.random.RandomState(seed)
    columns = np.sort(np.argsort(random.rand(BATCH, FEATURES))[:, :3]).reshape(-1)
    data = mx.nd.sparse.csr_matrix((random.rand(3 * BATCH).astype(np.float32), columns,
                                    np.arange(0, 3 * BATCH + 1, 3)), shape=(BATCH, FEATURES))
    return mx.io.DataBatch([data], [mx.nd.array(random.randint(0, 2, BATCH))])


def rows_of(batch):
    return {"weight": batch.data[0].indices}


class Run:
    """A module under a sequence of actions; `seen` are the values that a user sees."""

    def __init__(self, store, fetches, contexts, optimizer):
        self.store, self.fetches, self.optimizer, self.seen = store, fetches, optimizer, []
        self.module = mx.mod.Module(sparse_training.linear_net(mx),
                                    context=[mx.cpu(i) for i in range(contexts)])
        self.bind()
        mx.random.seed(3)
        self.module.init_params(mx.init.Normal(1))
        self.prepare_optimizer()

    def bind(self):
        batch = batch_of(0)
        self.module.bind([("data", batch.data[0].shape)],
                         [("softmax_label", batch.label[0].shape)], force_rebind=True)

    def prepare_optimizer(self):
        store = mx.kv.create("local") if self.store else None
        self.module.init_optimizer(store, self.optimizer, force_init=True)

    def fetched_batch(self, seed):
        batch = batch_of(seed)
        if self.store and self.fetches:
            self.module.prepare(batch, rows_of)
        return batch

    def train(self, seed):
        self.module.forward_backward(self.fetched_batch(seed))
        self.module.update()

    def predict(self, seed):
        self.module.forward(self.fetched_batch(seed), is_train=False)
        self.seen.append(self.module.get_outputs()[0].asnumpy())

    def get(self):
        params, _ = self.module.get_params()
        self.seen += [array.asnumpy() for _, array in sorted(params.items())]

    def assign_own(self):
        self.module.set_params(*self.module.get_params())

    def assign(self, seed, allow_missing):
        """Assign other values, which the module must not change."""
        values = np.random.RandomState(seed).rand(FEATURES, 2).astype(np.float32)
        values[seed % FEATURES] = 0     # a row that is not stored
        given = {"weight": mx.nd.array(values).tostype("row_sparse"),
                 "bias": mx.nd.array(values[0])}
        self.module.set_params(given, {}, allow_missing)
        self.train(seed)
        np.testing.assert_array_equal(given["weight"].asnumpy(), values)


SEEDS = st.integers(0, 99)
ACTIONS = st.one_of(
    st.tuples(st.just("train"), SEEDS), st.tuples(st.just("predict"), SEEDS),
    st.tuples(st.just("get")), st.tuples(st.just("assign_own")),
    st.tuples(st.just("assign"), SEEDS, st.booleans()), st.tuples(st.just("bind")),
    st.tuples(st.just("prepare_optimizer")))


def seen(actions, options):
    run = Run(*options)
    for name, *arguments in actions:
        getattr(run, name)(*arguments)
    run.get()
    return run.seen


@settings(deadline=None)    # some examples compile kernels
@given(st.lists(ACTIONS, max_size=12),
       st.tuples(st.booleans(), st.booleans(), st.sampled_from([1, 2]),
                 st.sampled_from(["sgd", "adam", "rmsprop"])))
def test_sharing_is_not_seen(actions, options):
    with ExitStack() as copying:
        for user in (kvstore, params, executor_group):
            copying.enter_context(patch.object(user, "share_rows", lambda *_: False))
        expected = seen(actions, options)
    for mine, theirs in zip(seen(actions, options), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("store", [False, True])
def test_training_takes_the_memory_of_weight_and_states(store):
    rows, width = 200_000, 16
    x = mx.sym.Variable("data", stype="csr")
    w = mx.sym.Variable("weight", stype="row_sparse", shape=(rows, width), init=mx.init.One())
    net = mx.sym.LinearRegressionOutput(mx.sym.sparse.dot(x, w), name="softmax")
    data = mx.nd.sparse.csr_matrix((np.ones(64, np.float32), np.arange(64) * 3000 % rows,
                                    np.arange(0, 65, 8)), shape=(8, rows))
    batches = mx.io.NDArrayIter(data, np.zeros((8, width)), 4, label_name="softmax_label")

    def train():
        mx.mod.Module(net).fit(
            batches, eval_metric="mse", num_epoch=2, optimizer="adam",
            kvstore=mx.kv.create("local") if store else None,
            sparse_row_id_fn=rows_of if store else None)

    train()     # kernels are compiled
    tracemalloc.start()
    train()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The weight, two states of Adam, and the indices, which are an eighth of one of them.
    assert peak < 3.5 * rows * width * 4


def test_only_equal_types_are_shared():
    rows = mx.nd.ones((3, 2)).tostype("row_sparse")
    other = mx.nd.sparse.zeros("row_sparse", (3, 2))
    assert share_rows(rows, other) and other.handle is rows.handle
    assert rows.copyto(other) is other and other.handle is rows.handle
    assert not share_rows(rows, mx.nd.ones((3, 2)))
    assert not share_rows(rows, mx.nd.sparse.zeros("row_sparse", (3, 2), dtype="float64"))
    assert not share_rows(rows, mx.nd.sparse.zeros("row_sparse", (4, 2)))
    other[:] = 5
    assert rows.asnumpy().max() == 1


def test_nothing_dense_is_made_of_large_arrays():
    huge = mx.nd.sparse.csr_matrix(([1, float("nan")], [3, 5], [0, 1, 2]), shape=(2, 10 ** 15))

    class Store:
        rank, num_workers = 0, 2

        def all_texts(self, text):
            return [text, text]

    with pytest.warns(UserWarning, match="same first batch"):
        workers._warn_of_equal_data(Store(), mx.io.DataBatch([huge], None))
    name, array = nan_guard._first([("x", huge)])
    assert "of the 2 elements of x (2, 1000000000000000), 1 NaN" in str(
        nan_guard._error((name, array), "here", "hint"))
