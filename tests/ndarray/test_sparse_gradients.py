"""`autograd` on sparse arrays: gradients of MXNet's storage types and values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.ops.sparse import formats
from tests.programs import sparse_gradients


@pytest.fixture(autouse=True)
def _silent(monkeypatch):
    """Conversions to dense arrays are not told."""
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")


@pytest.mark.parametrize("expression, stypes, kinds", sparse_gradients.CASES, ids=str)
def test_gradients_are_mxnets(oracle, expression, stypes, kinds):
    mine = sparse_gradients.gradients(mx, expression, stypes, kinds)
    theirs = oracle.call("mx_scripts.run", "sparse_gradients", "gradients", expression, stypes,
                         kinds)
    assert [stype for stype, _ in mine] == [stype for stype, _ in theirs]
    for (_, ours), (_, real) in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(ours, real, 1e-6)    # roundings of cos and exp


def rows_of(array):
    return array.indices.asnumpy().tolist()


@settings(deadline=None)
@given(st.lists(st.integers(0, 99), min_size=1, max_size=30), st.sampled_from(["write", "add"]))
def test_a_table_gets_gradients_of_the_rows_that_were_read(ids, request):
    table, dense = mx.nd.ones((100, 2)), mx.nd.ones((100, 2))
    table.attach_grad(request, stype="row_sparse")
    dense.attach_grad(request)
    scale = mx.nd.arange(2 * len(ids)).reshape((len(ids), 2))
    for _ in range(2):
        for array, sparse in ((table, True), (dense, False)):
            with mx.autograd.record():
                y = scale * mx.nd.Embedding(mx.nd.array(ids), array, input_dim=100, output_dim=2,
                                            sparse_grad=sparse)
            y.backward()
    assert rows_of(table.grad) == sorted(set(ids))
    np.testing.assert_array_equal(table.grad.asnumpy(), dense.grad.asnumpy())


def test_products_do_not_make_large_gradients_dense():
    """A dense gradient of ten million rows of 64 would be 2.5 GB."""
    x = mx.nd.sparse.csr_matrix(([1, 2, 3], [5, 9_999_999, 5], [0, 2, 3]), shape=(2, 10_000_000))
    weight = mx.nd.sparse.row_sparse_array((np.ones((2, 64)), [5, 9_999_999]),
                                           shape=(10_000_000, 64))
    weight.attach_grad()
    with mx.autograd.record():
        y = mx.nd.dot(x, weight)
    y.backward()
    assert rows_of(weight.grad) == [5, 9_999_999]
    assert weight.grad.data.asnumpy()[:, 0].tolist() == [4, 2]


@pytest.mark.parametrize("transposed", [False, True])
def test_both_factors_of_a_product_have_gradients(transposed, monkeypatch):
    """Neither is copied to a dense array."""
    monkeypatch.setattr(formats, "to_dense", lambda value: value)
    x = mx.nd.sparse.csr_matrix(([1, 2], [0, 1], [0, 1, 2]), shape=(2, 2))
    tall = mx.nd.sparse.row_sparse_array((np.ones((2, 4)), [0, 1]), shape=(2, 4))
    x.attach_grad(stype="default")
    tall.attach_grad()
    with mx.autograd.record():
        y = mx.nd.dot(x, tall, transpose_a=transposed)
    y.backward()
    assert x.grad.asnumpy().tolist() == [[4, 4]] * 2
    assert rows_of(tall.grad) == [0, 1] and tall.grad.data.asnumpy()[:, 0].tolist() == [1, 2]


def test_gradients_are_returned_and_differentiated_again():
    x, weight = mx.nd.array([[0, 1], [2, 0]]).tostype("csr"), mx.nd.array([[1], [3]])
    weight.attach_grad()
    with mx.autograd.record():
        y = mx.nd.square(mx.nd.dot(x, weight))
        slope, = mx.autograd.grad(y, [weight], create_graph=True)
    assert slope.stype == "row_sparse" and slope.asnumpy().tolist() == [[8], [6]]
    slope.backward()
    assert weight.grad.asnumpy().tolist() == [[8], [2]]


def test_a_linear_model_is_trained_on_rows():
    """The whole path: csr batches, gradients of rows, lazy updates."""
    random = np.random.RandomState(0)
    truth = random.randn(50, 1)
    dense = random.rand(200, 50) * (random.rand(200, 50) < 0.1)
    x, y = mx.nd.array(dense).tostype("csr"), mx.nd.array(dense @ truth)
    weight = mx.nd.zeros((50, 1)).tostype("row_sparse")
    weight.attach_grad()
    updater = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.1))
    for _ in range(60):
        for start in range(0, 200, 50):
            with mx.autograd.record():
                loss = mx.nd.square(mx.nd.dot(x[start:start + 50], weight) - y[start:start + 50])
            loss.backward()
            assert weight.grad.stype == "row_sparse"
            updater(0, weight.grad, weight)
    np.testing.assert_allclose(weight.asnumpy(), truth, atol=0.05)  # what 60 epochs come to


def test_arrays_in_a_computation_are_not_overwritten():
    x = mx.nd.ones((2, 2)).tostype("row_sparse")
    x.attach_grad()
    with mx.autograd.record(), pytest.raises(MXNetError, match="is part of a recorded"):
        mx.nd.square(x, out=x)


@pytest.mark.parametrize("request_", ["write", "add"])
def test_gradients_share_no_elements_with_other_arrays(request_):
    """Those that are new are stored without a copy; the head gradient of a sum is not new."""
    a, b, table = (mx.nd.ones((3, 2)).tostype("row_sparse") for _ in range(3))
    head = mx.nd.ones((3, 2)).tostype("row_sparse")
    for array in (a, b, table):
        array.attach_grad(request_)
    with mx.autograd.record():
        y = mx.nd.elemwise_add(a, b)
        z = mx.nd.square(table)
    mx.autograd.backward([y, z], [head, head], retain_graph=True)
    first = table.grad
    for array in (a.grad, first):
        mx.nd.sgd_update(array, array, lr=0.5, lazy_update=True, out=array)     # in place
    assert [array.asnumpy()[0, 0] for array in (a.grad, first, b.grad, head, table)] == [
        0.5, 1, 1, 1, 1]
    mx.autograd.backward([y, z], [head, head])
    add = request_ == "add"
    assert first is table.grad
    assert [array.asnumpy()[0, 0] for array in (a.grad, b.grad, first)] == [
        1 + 0.5 * add, 1 + add, 2 + add]
