"""Sparse arrays: the same expressions give the same results and storage types as in MXNet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.core.serialization import record_bytes
from nbmod.ndarray import sparse_array
from nbmod.ops.sparse import fallback
from nbmod.ops.sparse.formats import CSR, RowSparse, from_dense, to_dense
from tests.programs import sparse_arrays

DEVIATIONS = {
    "c[2:1]": "no rows, as of dense arrays",
    "d[:] = C; d": "sparse arrays are assigned to dense ones",
    "d[:] = R; d": "sparse arrays are assigned to dense ones",
}
"""Expressions that MXNet refuses, and what they give."""


def same(mine, theirs):
    """Equal storage types, types and shapes; elements to the last few places."""
    if isinstance(mine, list):
        return isinstance(theirs, list) and all(map(same, mine, theirs))
    if isinstance(mine, dict) and "array" in mine:
        if not isinstance(theirs, dict) or mine["stype"] != theirs.get("stype"):
            return False
        ours, real = mine["array"], theirs["array"]
        return (ours.dtype == real.dtype and ours.shape == real.shape
                and np.allclose(ours, real, rtol=2e-5, atol=2e-6, equal_nan=True))
    return bool(np.all(mine == theirs))


@pytest.fixture(autouse=True)
def _silent(monkeypatch):
    """Conversions to dense arrays are not told."""
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")


@pytest.mark.parametrize("table", ["OPS", "ARRAYS"])
def test_answers_are_mxnets(oracle, table):
    expressions = getattr(sparse_arrays, table)
    real = oracle.call("mx_arrays.sparse_answers", expressions)
    found = sparse_arrays.answers(mx, expressions)
    wrong = [f"{expression}: {mine}, MXNet: {theirs}" for expression, mine, theirs
             in zip(expressions, found, real, strict=True)
             if expression not in DEVIATIONS and not same(mine, theirs)]
    assert not wrong, "\n".join(wrong)


# -- formats ----------------------------------------------------------------------------------

MATRICES = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
                      elements=st.sampled_from([0, 0, 0, 1, -2.5, np.inf]))
TENSORS = hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=5),
                     elements=st.sampled_from([0, 0, 0, 3]))


@settings(deadline=None)
@given(MATRICES, st.data())
def test_csr_is_the_matrix(dense, data):
    value = from_dense(dense, "csr")
    assert not value.problem() and np.count_nonzero(dense) == len(value.data)
    np.testing.assert_array_equal(to_dense(value), dense)
    rows, columns = (slice(*sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2))))
                     for size in dense.shape)
    part = value[rows].columns(columns.start, columns.stop)
    np.testing.assert_array_equal(to_dense(part), dense[rows, columns])
    assert not part.problem()
    picked = np.array(data.draw(st.lists(st.integers(0, len(dense) - 1))), np.int64)
    np.testing.assert_array_equal(to_dense(value.take(picked)), dense[picked])
    whole = CSR.concatenate([value, value[rows]])
    np.testing.assert_array_equal(to_dense(whole), np.concatenate([dense, dense[rows]]))


@settings(deadline=None)
@given(TENSORS, st.data())
def test_row_sparse_is_the_tensor(dense, data):
    value = from_dense(dense, "row_sparse")
    assert not value.problem()
    np.testing.assert_array_equal(to_dense(value), dense)
    rows = np.array(data.draw(st.lists(st.integers(0, len(dense) - 1))), np.int64)
    for part in (value, RowSparse(np.arange(len(dense)), dense, dense.shape)):
        np.testing.assert_array_equal(part.retain(rows).data, dense[rows])


@settings(deadline=None)
@given(MATRICES, MATRICES, st.data())
def test_products_are_those_of_dense_matrices(dense, other, data):
    dense, other = np.nan_to_num(dense, posinf=4), np.nan_to_num(other, posinf=4)
    transposed = data.draw(st.booleans())
    depth = dense.shape[0] if transposed else dense.shape[1]
    other = np.resize(other, (depth, other.shape[1]))
    stype = data.draw(st.sampled_from(["default", "row_sparse"]))
    found = mx.nd.dot(mx.nd.array(dense).tostype("csr"), mx.nd.array(other).tostype(stype),
                      transpose_a=transposed)
    assert found.stype == ("row_sparse" if transposed else "default")
    expected = (dense.T if transposed else dense).astype(np.float64) @ other
    np.testing.assert_allclose(found.asnumpy(), expected, 1e-6, 1e-6)   # six terms of 16 or less


@pytest.mark.parametrize("value, problem", [
    (CSR(np.array([0, 1]), np.array([0]), np.ones(1), (2, 3)), "indptr has 2 elements"),
    (CSR(np.array([0, 1, 3]), np.array([0]), np.ones(1), (2, 3)), "goes from 0 to 3"),
    (CSR(np.array([0, 2, 1]), np.array([0]), np.ones(1), (2, 3)), "ascending order"),
    (CSR(np.array([0, 1, 1]), np.array([3]), np.ones(1), (2, 3)), "from 0 to 2"),
    (CSR(np.array([0, 1, 1]), np.array([-1]), np.ones(1), (2, 3)), "from 0 to 2"),
    (RowSparse(np.array([0]), np.ones((1, 3)), (2, 4)), "expected 1 rows of shape"),
    (RowSparse(np.array([2]), np.ones((1, 3)), (2, 3)), "from 0 to 1"),
])
def test_wrong_indices_are_errors_when_they_are_used(value, problem):
    array = sparse_array.of_value(value, mx.cpu())
    for use in (array.asnumpy, array.check_format, lambda: (array + 1).asnumpy(),
                lambda: array.tostype("default")):
        with pytest.raises(MXNetError, match=problem):
            use()


# -- files and others -------------------------------------------------------------------------


@pytest.mark.parametrize("stype, shape", [("csr", (4, 3)), ("row_sparse", (4, 3)),
                                          ("row_sparse", (2, 2, 2)), ("csr", (1, 1))])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8",
                                   "int8"])
def test_files_are_those_of_mxnet(oracle, tmp_path, stype, shape, dtype):
    """Byte for byte, and read both ways; pickles hold the same records."""
    dense = (np.arange(np.prod(shape)) % 3 * (np.arange(np.prod(shape)) > 2)).reshape(shape)
    array = mx.nd.array(dense, dtype=dtype).tostype(stype)
    path = str(tmp_path / "a.params")
    mx.nd.save(path, {"a": array})
    content = (tmp_path / "a.params").read_bytes()
    assert oracle.call("mx_arrays.sparse_file", dense.astype(dtype), stype) == content
    loaded = mx.nd.load(path)["a"]
    assert (loaded.stype, loaded.dtype) == (stype, array.dtype)
    np.testing.assert_array_equal(loaded.asnumpy(), dense.astype(dtype))
    assert array.__getstate__()["handle"] == record_bytes(array._data)


def test_scipy_matrices_go_in_and_out():
    scipy = pytest.importorskip("scipy.sparse")
    matrix = scipy.random(6, 5, 0.3, "csr", random_state=0, dtype=np.float64)
    for array in (mx.nd.array(matrix), mx.nd.sparse.csr_matrix(matrix), mx.nd.sparse.array(matrix)):
        assert array.stype == "csr" and array.dtype == np.float64
        np.testing.assert_array_equal(array.asnumpy(), matrix.toarray())
    assert (array.asscipy() != matrix).nnz == 0
    with pytest.raises(ValueError, match="Please use mx.nd.array"):
        mx.nd.sparse.array(matrix.tocoo())


def test_repeated_places_of_scipy_matrices_are_added():
    scipy = pytest.importorskip("scipy.sparse")
    matrix = scipy.csr_matrix(([1, 2, 3, 4], [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3), dtype="f4")
    array = mx.nd.sparse.csr_matrix(matrix)
    array.check_format()
    assert array.indices.asnumpy().tolist() == [0, 2, 1]
    assert array.data.asnumpy().tolist() == [2, 4, 4] and matrix.nnz == 4


def test_conversions_to_dense_arrays_are_told_once(monkeypatch):
    monkeypatch.setattr(fallback, "_told", set())
    monkeypatch.delenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE")
    array = mx.nd.sparse.zeros("csr", (2, 3))
    with pytest.warns(UserWarning, match=r"exp: .* \(csr\).*dense arrays") as told:
        mx.nd.exp(array)
        mx.nd.exp(array)
    assert len(told) == 1


def test_recorded_calls_are_those_of_dense_arrays():
    x, weight = mx.nd.array([[0, 1], [2, 0]]).tostype("csr"), mx.nd.ones((2, 3))
    weight.attach_grad()
    with mx.autograd.record():
        y = mx.nd.dot(x, weight)
    y.backward()
    assert weight.grad.asnumpy().tolist() == [[2] * 3, [1] * 3]


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_dense_arrays_take_the_elements_of_sparse_ones(stype):
    dense = np.array([[0, 1], [2, 0]], np.float32)
    array = mx.nd.array(dense).tostype(stype)
    net = mx.sym.dot(mx.sym.var("x"), mx.sym.var("w", shape=(2, 2)))
    executor = net.simple_bind(mx.cpu(), x=(2, 2), w=(2, 2))
    executor.copy_params_from({"w": array})
    (found,) = executor.forward(x=array)
    np.testing.assert_array_equal(found.asnumpy(), dense @ dense)
    module = mx.mod.Module(net, ["x"], label_names=None)
    module.bind([("x", (2, 2))], for_training=False)
    module.init_params(arg_params={"w": array})
    np.testing.assert_array_equal(module.get_params()[0]["w"].asnumpy(), dense)


def test_random_elements_are_written_to_sparse_arrays():
    array = mx.nd.sparse.zeros("row_sparse", (20, 3))
    mx.nd.random.uniform(1, 2, out=array)
    assert array.stype == "row_sparse" and array.data.shape == (20, 3)
    assert 1 <= array.asnumpy().min() <= array.asnumpy().max() <= 2


def test_what_is_refused():
    csr, rows = mx.nd.sparse.zeros("csr", (2, 3)), mx.nd.sparse.zeros("row_sparse", (2, 3))
    for use, kind, words in (
            (lambda: mx.nd.sparse.csr_matrix(([], [], [0, 0])), ValueError, "give the shape"),
            (lambda: mx.nd.ones((2,)).tostype("csr"), ValueError, "expected 2 axes"),
            (lambda: csr.size, NotImplementedError, "size is not defined"),
            (lambda: rows.reshape((6,)), MXNetError, "reshape is not supported"),
            (lambda: csr.tostype("row_sparse"), ValueError, "from csr to row_sparse"),
            (lambda: csr.__setitem__(slice(None), 1), ValueError, "numeric types"),
            (lambda: csr.copyto(rows), TypeError, "destination NDArray stype row_sparse"),
            (lambda: mx.nd.sparse.BaseSparseNDArray(None), MXNetError, "csr_matrix or row_sparse"),
            (lambda: mx.nd.sparse.zeros("csr", (2, 3, 4)), MXNetError, "2 axes"),
            (lambda: mx.nd.sparse.retain(rows, mx.nd.array([2])), MXNetError, "contain 2"),
            (lambda: mx.nd.to_dlpack_for_read(csr), MXNetError, "do not share memory"),
            (lambda: mx.nd.abs(csr, out=mx.nd.zeros((3, 3))), MXNetError, "out has shape")):
        with pytest.raises(kind, match=words):
            use()
