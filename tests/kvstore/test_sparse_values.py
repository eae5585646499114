"""Row-sparse arrays in key-value stores, as in MXNet."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.programs import sparse_training

STYPES = ("default", "row_sparse")


def assert_same(mine, theirs):
    """Equal, with sums of integers: nothing is rounded."""
    if isinstance(mine, np.ndarray):
        np.testing.assert_array_equal(mine, theirs)
    elif isinstance(mine, (list, tuple)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            assert_same(one, other)
    else:
        assert mine == theirs


@pytest.mark.parametrize("stored", STYPES)
@pytest.mark.parametrize("out", STYPES)
@pytest.mark.parametrize("ignore", [True, False])
@pytest.mark.filterwarnings("ignore:kvstore.pull. out for")
def test_pulls_are_mxnets(oracle, stored, out, ignore):
    assert_same(sparse_training.pulled(mx, stored, out, ignore),
                oracle.call("mx_scripts.run", "sparse_training", "pulled", stored, out, ignore))


@pytest.mark.parametrize("optimizer", [False, True])
@pytest.mark.parametrize("pushes", [["row_sparse"], ["row_sparse"] * 2, ["default"] * 2,
                                    ["row_sparse", "default"]], ids=str)
@pytest.mark.parametrize("stored", STYPES)
@pytest.mark.filterwarnings("ignore:.*there is no sparse form")
def test_pushes_are_mxnets(oracle, stored, pushes, optimizer):
    assert_same(sparse_training.pushed(mx, stored, pushes, optimizer),
                oracle.call("mx_scripts.run", "sparse_training", "pushed", stored, pushes,
                            optimizer))


@pytest.mark.parametrize("program", ["rows_pulled", "sums_of_rows"])
def test_rows_are_mxnets(oracle, program):
    assert_same(getattr(sparse_training, program)(mx),
                oracle.call("mx_scripts.run", "sparse_training", program))


def test_rows_of_dense_and_to_dense_arrays():
    store = mx.kv.create("local")
    dense, sparse = (sparse_training.table(mx, stype) for stype in STYPES)
    store.init(["d", "s"], [dense, sparse])
    for key in "ds":
        outs = [mx.nd.ones((4, 3)), mx.nd.sparse.zeros("row_sparse", (4, 3), dtype="float64")]
        store.row_sparse_pull(key, outs, row_ids=mx.nd.array([3, 0]))
        expected = sparse_training.TABLE * [[1], [0], [0], [1]]
        for out in outs:
            np.testing.assert_array_equal(out.asnumpy(), expected)
        assert outs[1].dtype == np.float64 and outs[1].indices.asnumpy().tolist() == [0, 3]


def test_ignored_arrays_are_told():
    store = mx.kv.create("local")
    store.init("w", sparse_training.table(mx, "row_sparse"))
    with pytest.warns(UserWarning, match=r"out for \['w'\] is sparse, and left alone"):
        store.pull("w", mx.nd.sparse.zeros("row_sparse", (4, 3)))


def test_an_embedding_is_trained_by_rows():
    """Pulls of a batch's rows, and pushes of their gradients, as with the whole matrix."""
    store, whole = mx.kv.create("local"), mx.nd.ones((6, 2))
    store.init("w", whole.tostype("row_sparse"))
    store.set_optimizer(mx.optimizer.Adam(learning_rate=0.5))
    updater = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.5))
    for rows in ([1, 4], [0, 1]):
        part = mx.nd.sparse.zeros("row_sparse", (6, 2))
        store.row_sparse_pull("w", part, row_ids=mx.nd.array(rows))
        np.testing.assert_array_equal(part.asnumpy()[rows], whole.asnumpy()[rows])
        grad = mx.nd.sparse.row_sparse_array((part.data, rows), shape=(6, 2))
        store.push("w", grad)
        updater("w", grad, whole)
    store.pull("w", part, ignore_sparse=False)
    np.testing.assert_array_equal(part.asnumpy(), whole.asnumpy())


def test_what_is_refused():
    store, csr = mx.kv.create("device"), sparse_training.table(mx, "csr")
    store.init("w", sparse_training.table(mx, "row_sparse"))
    with pytest.raises(MXNetError, match="key 'w' is given a csr array"):
        store.push("w", csr)
    with pytest.raises(MXNetError, match="out for key 'w' is a csr array"):
        store.row_sparse_pull("w", csr, row_ids=mx.nd.array([0]))
    with pytest.raises(MXNetError, match="has 4 rows, row_ids ask for 4"):
        store.row_sparse_pull("w", mx.nd.sparse.zeros("row_sparse", (4, 3)),
                              row_ids=mx.nd.array([4]))
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    with pytest.raises(MXNetError, match="takes dense float32 arrays, key 'w' is given float32"):
        store.push("w", sparse_training.table(mx, "row_sparse"))
