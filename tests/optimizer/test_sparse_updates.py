"""Updates by sparse gradients: those of MXNet, and rows without a gradient cost nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.ops.device import ALIGNMENT
from nbmod.ops.optimizer import row_update
from tests.programs import sparse_training

OPTIMIZERS = [
    ("sgd", {}), ("sgd", {"wd": 0.1}), ("sgd", {"momentum": 0.9, "wd": 0.1}),
    ("sgd", {"momentum": 0.9, "lazy_update": False, "wd": 0.1}),
    ("sgd", {"lazy_update": False, "wd": 0.1, "clip_gradient": 0.3}),
    ("adam", {"wd": 0.1}), ("adam", {"lazy_update": False, "wd": 0.1}), ("adagrad", {}),
    ("ftrl", {"wd": 0.1, "clip_gradient": 0.3}), ("groupadagrad", {}), ("nag", {"momentum": 0.9}),
    ("rmsprop", {"wd": 0.1}), ("rmsprop", {"centered": True}), ("adadelta", {"wd": 0.1}),
    ("signum", {"wd": 0.1}), ("nadam", {"wd": 0.1}), ("ftml", {"wd": 0.1}), ("lamb", {"wd": 0.1}),
    ("lars", {"wd": 0.1}), ("dcasgd", {"wd": 0.1})]


@pytest.fixture(autouse=True)
def _silent(monkeypatch):
    """Conversions to dense arrays are not told."""
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")


def assert_same(mine, theirs):
    """Equal storage types; elements to the roundings of a few steps, which FTML divides by 0.001
    (1 - beta2)."""
    assert [stype for stype, _ in mine] == [stype for stype, _ in theirs]
    for (_, ours), (_, real) in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(ours, real, 1e-5, 2e-6)


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
@pytest.mark.parametrize("name, options", OPTIMIZERS, ids=str)
def test_updates_are_mxnets(oracle, name, options, stype):
    theirs = oracle.call("mx_scripts.run", "sparse_training", "updates", name, options, stype)
    assert_same(sparse_training.updates(mx, name, options, stype), theirs)


def test_the_optimizer_of_tests_takes_sparse_weights(oracle):
    """MXNet's takes sparse gradients alone."""
    theirs = oracle.call("mx_scripts.run", "sparse_training", "updates", "test", {}, "default")
    mine, sparse = (sparse_training.updates(mx, "test", {}, stype)
                    for stype in ("default", "row_sparse"))
    assert_same(mine, theirs)
    for (_, one), (_, other) in zip(mine, sparse, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_adamax_leaves_rows_without_a_gradient(oracle, stype):
    """There MXNet divides 0 by 0."""
    mine = sparse_training.updates(mx, "adamax", {}, stype)
    theirs = oracle.call("mx_scripts.run", "sparse_training", "updates", "adamax", {}, stype)
    assert [kind for kind, _ in mine] == [kind for kind, _ in theirs]
    untouched = np.isnan(theirs[0][1])
    assert untouched.any() and not np.isnan(mine[0][1]).any()
    np.testing.assert_allclose(mine[0][1][~untouched], theirs[0][1][~untouched], 1e-5, 2e-6)
    start = np.random.RandomState(7).randn(5, 3).astype(np.float32)
    np.testing.assert_array_equal(mine[0][1][2], start[2])      # which no step has


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_noise_is_added_to_all_rows(oracle, stype):
    mine = sparse_training.noisy_update(mx, stype)
    theirs = oracle.call("mx_scripts.run", "sparse_training", "noisy_update", stype)
    assert mine[0] == theirs[0]
    for _, means, deviations in (mine, theirs):     # five standard errors
        np.testing.assert_allclose(means, [0, -0.1, 0, -0.1, 0], atol=5 * 0.1 / 4000 ** 0.5)
        np.testing.assert_allclose(deviations, 0.1, atol=5 * 0.1 / 8000 ** 0.5)


def test_update_functions_are_mxnets(oracle):
    assert_same(sparse_training.update_calls(mx),
                oracle.call("mx_scripts.run", "sparse_training", "update_calls"))


def test_states_are_those_of_mxnet(oracle):
    """Storage types stay in files, which both read alike."""
    for content in (sparse_training.state_bytes(mx),
                    oracle.call("mx_scripts.run", "sparse_training", "state_bytes")):
        mine = sparse_training.resumed(mx, content)
        assert_same(mine, oracle.call("mx_scripts.run", "sparse_training", "resumed", content))
        assert [stype for stype, _ in mine] == ["row_sparse"] * 3


@pytest.mark.parametrize("name, options", OPTIMIZERS, ids=str)
def test_sparse_weights_are_updated_as_dense_ones(name, options):
    dense, sparse = (sparse_training.updates(mx, name, options, stype)
                     for stype in ("default", "row_sparse"))
    if name != "ftrl":      # which is lazy for sparse weights only
        for (_, one), (_, other) in zip(dense, sparse, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("width", [3, 700, 20_000], ids=["NumPy", "a kernel", "threads"])
@pytest.mark.parametrize("name, options", [
    ("sgd", {"wd": 0.1}), ("sgd", {"momentum": 0.9, "wd": 0.1}), ("adam", {"wd": 0.1}),
    ("adagrad", {"wd": 0.1}), ("groupadagrad", {}),
    ("sgd", {"momentum": 0.9, "multi_precision": True})], ids=str)
def test_lazy_updates_are_dense_ones_of_the_rows(name, options, width):
    """Rows change as in a matrix that has these rows alone; others keep every bit."""
    dtype = "float16" if "multi_precision" in options else "float32"
    lazy, rows = (mx.optimizer.create(name, learning_rate=0.1, **options) for _ in range(2))
    start = np.random.RandomState(0).randn(9, width)
    weight, part = mx.nd.array(start, dtype=dtype), mx.nd.array(start[[2, 5]], dtype=dtype)
    state, of_part = (optimizer.create_state_multi_precision(0, array)
                      for optimizer, array in ((lazy, weight), (rows, part)))
    for step in range(3):
        grad = mx.nd.array(np.random.RandomState(step).randn(2, width), dtype=dtype)
        sparse = mx.nd.sparse.row_sparse_array((grad, [2, 5]), shape=(9, width), dtype=dtype)
        lazy.update_multi_precision(0, weight, sparse, state)
        rows.update_multi_precision(0, part, grad, of_part)
    np.testing.assert_array_equal(weight.asnumpy()[[2, 5]], part.asnumpy())
    others = [0, 1, 3, 4, 6, 7, 8]
    np.testing.assert_array_equal(weight.asnumpy()[others], start.astype(dtype)[others])


@pytest.mark.parametrize("threads", [False, True], ids=["serial", "parallel"])
@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 70), width=st.sampled_from([1, 15, 16, 33]),
       dtype=st.sampled_from(["float32", "float64"]), seed=st.integers(0, 2 ** 32 - 1))
def test_kernels_of_rows_update_these_rows(threads, count, width, dtype, seed):
    """Of less than a cache line, or prefetched; fewer and more than there are ahead."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(80, count, replace=False))
    start = rng.standard_normal((3, 80, width)) ** 2
    whole = [mx.nd.array(each, dtype=dtype) for each in start]
    part = [mx.nd.array(each[rows], dtype=dtype) for each in start]
    grad = mx.nd.array(rng.standard_normal((count, width)), dtype=dtype)
    sparse = mx.nd.sparse.row_sparse_array((grad, rows), shape=(80, width), dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_update, "COMPILED_FROM", 0)
        patch.setattr(row_update, "PARALLEL_FROM", 0 if threads else 2 ** 60)
        mx.nd.adam_update(whole[0], sparse, *whole[1:], lr=0.1, wd=0.1, out=whole[0])
    mx.nd.adam_update(part[0], grad, *part[1:], lr=0.1, wd=0.1, out=part[0])
    for found, expected, before in zip(whole, part, start, strict=True):
        before = before.astype(dtype)
        before[rows] = expected.asnumpy()
        np.testing.assert_array_equal(found.asnumpy(), before)


def test_a_gradient_of_more_rows_than_the_weight_is_an_error():
    weight, state = mx.nd.zeros((5, 800)), mx.nd.zeros((4, 800))
    ones = np.ones((2, 800))
    for rows, shape in (([1, 8], (10, 800)), ([1, 4], (5, 800))):
        grad = mx.nd.sparse.row_sparse_array((ones, rows), shape=shape)
        with pytest.raises(MXNetError, match="expected as many rows"):
            mx.nd.sparse.sgd_mom_update(weight, grad, state, lr=0.1, momentum=0.9, out=weight)


def test_rows_that_a_weight_lacks_are_added():
    weight = mx.nd.sparse.zeros("row_sparse", (10**9, 2))
    optimizer = mx.optimizer.Adam(learning_rate=0.5)
    state = optimizer.create_state(0, weight)
    for rows in ([7, 10**9 - 1], [5, 7]):
        grad = mx.nd.sparse.row_sparse_array((np.ones((2, 2)), rows), shape=weight.shape)
        optimizer.update(0, weight, grad, state)
    assert weight.indices.asnumpy().tolist() == [5, 7, 10**9 - 1]
    assert state[0].indices.asnumpy().tolist() == [5, 7, 10**9 - 1]
    assert (weight.data.asnumpy() < 0).all()


def test_states_share_the_indices_of_a_weight():
    """Also those of one that lacks a row at first."""
    dense = np.ones((6, 1), np.float32)
    dense[3] = 0
    weight = mx.nd.array(dense).tostype("row_sparse")
    adam = mx.optimizer.Adam()
    states = adam.create_state(0, weight)
    for rows in ([1, 4], [0, 3]):
        adam.update(0, weight, mx.nd.sparse.row_sparse_array(
            (np.ones((2, 1), np.float32), rows), shape=(6, 1)), states)
        assert all(state.handle.indices is weight.handle.indices for state in states)
    assert weight.indices.asnumpy().tolist() == list(range(6))


def test_several_weights_of_all_kinds_are_updated_at_once():
    kinds = [*itertools.product(("default", "row_sparse"), repeat=2)]
    weights = [mx.nd.ones((5, 3)).tostype(kind) for kind, _ in kinds]
    grads = [mx.nd.array(sparse_training.gradient(0)).tostype(kind) for _, kind in kinds]
    updater = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=1.0))
    updater(list(range(len(kinds))), grads, weights)
    for weight in weights:
        np.testing.assert_array_equal(weight.asnumpy(), 1 - sparse_training.gradient(0))


def test_what_is_refused():
    sgd, csr = mx.optimizer.SGD(), mx.nd.sparse.zeros("csr", (2, 3))
    bad = mx.nd.sparse.row_sparse_array((np.ones((2, 3)), [0, 0]), shape=(2, 3))
    for weight, grad, words in ((csr, csr, "expected a weight on the CPU"),
                                (mx.nd.ones((2, 3)), bad, "not in ascending order"),
                                (mx.nd.ones((2, 2)), csr, r"grad has shape \(2, 3\)")):
        with pytest.raises(MXNetError, match=words):
            sgd.update(0, weight, grad, None)


def test_states_of_another_storage_type_are_errors():
    damaged = sparse_training.state_bytes(mx).replace(b"sparse\nRowSparseNDArray",
                                                      b"ndarray\nNDArray")
    assert damaged != sparse_training.state_bytes(mx)
    with pytest.raises(MXNetError, match="holds a row_sparse array, expected a default one"):
        mx.optimizer.get_updater(mx.optimizer.Adam()).set_states(damaged)


def test_rows_are_not_in_two_cache_lines():
    """Updates of some rows of 64 bytes wait for memory: in two lines each, for twice as much."""
    rng = np.random.RandomState(4)
    weight = mx.nd.array(rng.randn(3000, 16)).tostype("row_sparse")
    grad = mx.nd.array(rng.randn(3000, 16) * (rng.rand(3000, 1) < 0.4)).tostype("row_sparse")
    states = [mx.nd.sparse.zeros("row_sparse", weight.shape) for _ in range(2)]
    mx.nd.sparse.adam_update(weight, grad, *states, lr=0.1, out=weight, lazy_update=True)
    pulled = mx.nd.sparse.retain(weight, grad.indices)
    for array in (weight, grad, *states, pulled, pulled.astype("float64"), weight.copy()):
        assert array.handle.data.ctypes.data % ALIGNMENT == 0
