"""Products of CSR matrices and sums of equal rows, against dense products in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.ops.sparse import products, row_numbers
from nbmod.ops.sparse.formats import CSR, RowSparse, from_dense, to_dense
from nbmod.ops.sparse.products import multiply, multiply_rows, multiply_transposed, sum_equal


@st.composite
def cases(draw):
    """A CSR matrix, often with empty rows and columns, a matrix to multiply, and its rows."""
    rows, columns, width = draw(st.tuples(*3 * [st.integers(0, 6)]))
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 32)))
    dtype = draw(st.sampled_from([np.float32, np.float64, np.float16]))
    stored = rng.random((rows, columns)) < draw(st.sampled_from([0, 0.2, 0.7, 1]))
    csr = from_dense(np.where(stored, rng.integers(1, 9, (rows, columns)), 0).astype(dtype), "csr")
    # Integers: every sum is exact, in any order and any type.
    return csr, rng.integers(-4, 5, (columns, width)).astype(dtype), rng


@pytest.mark.parametrize("threads", [False, True], ids=["serial", "parallel"])
@pytest.mark.parametrize("limit", [0, row_numbers.VECTOR_UP_TO], ids=["sorted", "by rank"])
@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_products_are_those_of_dense_matrices(limit, threads, case):
    csr, matrix, rng = case
    dense = to_dense(csr)
    kept = np.flatnonzero(rng.random(len(matrix)) < 0.5)
    some = RowSparse(kept, matrix[kept], matrix.shape)
    read = np.unique(csr.indices)   # what a pull of the rows that a batch reads gives
    pulled = RowSparse(read.copy(), matrix[read], matrix.shape)
    batch = CSR(csr.indptr, csr.indices, csr.data, csr.shape)
    heads = rng.integers(-4, 5, (len(csr), matrix.shape[1])).astype(matrix.dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_numbers, "VECTOR_UP_TO", limit)
        patch.setattr(row_numbers, "COMPILED_FROM", 0)
        patch.setattr(products, "PARALLEL_FROM", 0 if threads else 2 ** 60)
        found = multiply(csr, matrix)
        of_rows = multiply_rows(csr, some)
        gradient = multiply_transposed(csr, heads)
        of_pulled = multiply_rows(batch, pulled)
        pulled.indices[:] = 0       # which changes nothing that the batch remembers
        after_pull = multiply_transposed(batch, heads)
    assert found.dtype == of_rows.dtype == gradient.dtype == matrix.dtype
    np.testing.assert_array_equal(found, dense @ matrix)
    np.testing.assert_array_equal(of_rows, dense @ to_dense(some))
    np.testing.assert_array_equal(of_pulled, found)
    for one in (gradient, after_pull):
        np.testing.assert_array_equal(to_dense(one), dense.T @ heads)
        assert one.indices.tolist() == read.tolist()


@pytest.mark.parametrize("limit", [0, row_numbers.VECTOR_UP_TO], ids=["sorted", "by rank"])
def test_rows_of_equal_indices_are_added(limit, monkeypatch):
    monkeypatch.setattr(row_numbers, "VECTOR_UP_TO", limit)
    ids = np.array([7, 2, 7, 0, 2, 7])
    values = np.arange(12.0).reshape(6, 2)
    found = sum_equal(ids, values, 9)
    assert found.indices.tolist() == [0, 2, 7]
    assert found.data.tolist() == [[6, 7], [10, 12], [14, 17]]
    assert sum_equal(np.empty(0, np.int64), np.empty((0, 2)), 9).data.shape == (0, 2)


def test_sums_have_the_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(products, "PARALLEL_FROM", 0)
    rng = np.random.default_rng(3)
    ids, values = rng.integers(0, 50, 4000), rng.standard_normal((4000, 7)).astype("f4")
    before = mx.get_num_threads()
    try:
        bits = []
        for threads in range(1, before + 1):
            mx.set_num_threads(threads)
            bits.append(sum_equal(ids, values, 50).data.tobytes())
    finally:
        mx.set_num_threads(before)
    assert len(set(bits)) == 1      # on one core, nothing is compared


def test_a_column_beyond_the_matrix_is_an_error():
    wrong = CSR(np.array([0, 2]), np.array([1, 5]), np.ones(2, "f4"), (1, 3))
    good = CSR(np.array([0, 2]), np.array([0, 2]), np.ones(2, "f4"), (1, 3))
    matrix = np.arange(6, dtype="f4").reshape(3, 2)
    for product in (multiply, multiply_transposed):
        with pytest.raises(mx.MXNetError, match="an index is not from 0 to 2"):
            product(wrong, matrix if product is multiply else matrix[:1])
    with pytest.raises(mx.MXNetError, match="from 0 to 3, expected 0 to 2"):
        sum_equal(np.array([3, 0]), matrix[:2], 3)
    with pytest.raises(mx.MXNetError, match="from -1 to 0, expected 0 to 2"):
        sum_equal(np.array([-1, 0]), matrix[:2], 3)
    rows = RowSparse(np.array([0, 2]), matrix[[0, 2]], (3, 2))
    assert multiply_rows(good, rows).tolist() == [[4, 6]]


def test_calls_leave_nothing_in_the_vectors(monkeypatch):
    monkeypatch.setattr(row_numbers, "COMPILED_FROM", 0)
    csr = CSR(np.array([0, 2]), np.array([0, 2]), np.ones(2, "f4"), (1, 3))
    matrix = np.ones((3, 2), "f4")
    assert multiply_rows(csr, RowSparse(np.arange(3), matrix, (3, 2))).tolist() == [[2, 2]]
    assert multiply_transposed(csr, matrix[:1]).indices.tolist() == [0, 2]
    assert multiply_rows(csr, RowSparse(np.array([2]), matrix[:1], (3, 2))).tolist() == [[1, 1]]
    assert not row_numbers._vectors.held.any() and not row_numbers._vectors.used.any()


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=200, deadline=None)
@given(size=st.integers(1, 200) | st.sampled_from([1 << 16, 10 ** 6]), count=st.integers(0, 300),
       share=st.floats(0, 1), kind=st.sampled_from(["i4", "i8"]), seed=st.integers(0, 2 ** 32 - 1))
def test_positions_are_those_of_a_search(compiled, size, count, share, kind, seed):
    """Words that are full, empty and cut by the last row; rows of which some, all or none occur."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, size, count).astype(kind)
    kept = np.flatnonzero(rng.random(size) < share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_numbers, "COMPILED_FROM", 0 if compiled else 2 ** 60)
        rows, which = row_numbers.distinct(ids, size)
        alone = row_numbers.distinct_rows(ids, size)
        found, exact = row_numbers.look_up(ids, kept, size)
    expected, inverse = np.unique(ids, return_inverse=True)
    assert rows.tolist() == alone.tolist() == expected.tolist()
    assert which.tolist() == inverse.tolist()
    places = {row: at for at, row in enumerate(kept.tolist())}
    assert found.tolist() == [places.get(row, -1) for row in ids.tolist()]
    assert not exact or np.array_equal(kept, expected)
    assert not row_numbers._vectors.held.any() and not row_numbers._vectors.used.any()


@pytest.mark.parametrize("compiled", [False, True])
def test_rows_beyond_the_last_are_absent(compiled, monkeypatch):
    monkeypatch.setattr(row_numbers, "COMPILED_FROM", 0 if compiled else 2 ** 60)
    ids = np.array([3, 9, -1, 0, 3])
    assert row_numbers.positions(ids, np.array([0, 3]), 5).tolist() == [1, -1, -1, 0, 1]
    assert row_numbers.positions(ids, np.arange(5), 5).tolist() == [3, -1, -1, 0, 3]
    assert row_numbers.positions(ids[[0, 3]], np.array([0, 3]), 5).tolist() == [1, 0]
    assert row_numbers.positions(ids, np.empty(0, np.int64), 5).tolist() == [-1] * 5
