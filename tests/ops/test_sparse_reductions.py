"""Sums, and choices of rows and elements, of sparse arrays: those of dense ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.ops.sparse import formats

LARGE = 10 ** 11
"""Rows or columns of which a dense array would take 400 GB."""


@st.composite
def matrices(draw):
    """A matrix, often with empty rows and columns."""
    shape = draw(st.tuples(*2 * [st.integers(1, 6)]))
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 32)))
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int32", "int64"]))
    stored = rng.random(shape) < draw(st.sampled_from([0, 0.2, 0.7, 1]))
    return np.where(stored, rng.integers(-9, 9, shape), 0).astype(dtype)


@settings(max_examples=60, deadline=None)
@given(matrices(), st.sampled_from(["csr", "row_sparse"]), st.sampled_from(["sum", "mean", "norm"]),
       st.sampled_from([None, 0, 1, -1, (0, 1)]), st.booleans(), st.integers(1, 2))
def test_reductions_are_those_of_dense_arrays(dense, stype, name, axis, keepdims, order):
    options = {"keepdims": keepdims, **({} if axis is None else {"axis": axis})}
    if name == "norm":
        options["ord"] = order
    elif axis is not None:
        options["exclude"] = order == 1
    array = mx.nd.array(dense, dtype=dense.dtype)
    expected = getattr(mx.nd, name)(array, **options)
    found = getattr(mx.nd, name)(array.tostype(stype), **options)
    assert (found.stype, found.shape, found.dtype) == ("default", expected.shape, expected.dtype)
    # Sums of integers are exact; means, roots and their types are rounded once each.
    tolerance = 2 * np.finfo(dense.dtype).eps if dense.dtype.kind == "f" else 0
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), tolerance)


@settings(max_examples=60, deadline=None)
@given(matrices(), st.sampled_from(["csr", "row_sparse"]), st.sampled_from(["clip", "wrap"]),
       st.lists(st.integers(-9, 9), min_size=1, max_size=5))
def test_rows_that_are_taken_are_those_of_dense_arrays(dense, stype, mode, indices):
    array, at = mx.nd.array(dense, dtype=dense.dtype), mx.nd.array(indices)
    found = mx.nd.take(array.tostype(stype), at, mode=mode)
    assert found.stype == ("csr" if stype == "csr" else "default")
    np.testing.assert_array_equal(found.asnumpy(), mx.nd.take(array, at, mode=mode).asnumpy())


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_sparse_conditions_choose_as_dense_ones(dense):
    condition = mx.nd.array(dense, dtype=dense.dtype)
    choices = {}
    for stype in ("default", "csr"):
        x, y = mx.nd.ones(dense.shape) * 2, mx.nd.ones(dense.shape) * 3
        x.attach_grad()
        y.attach_grad()
        with mx.autograd.record():
            z = mx.nd.where(condition.tostype(stype), x, y)
        z.backward(mx.nd.arange(dense.size).reshape(dense.shape))
        choices[stype] = [array.asnumpy() for array in (z, x.grad, y.grad)]
    for one, other in zip(*choices.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_zeros_that_a_condition_stores_are_zeros():
    condition = mx.nd.sparse.csr_matrix(([0, 1], [0, 1], [0, 2]), shape=(1, 2))
    found = mx.nd.where(condition, mx.nd.ones((1, 2)), mx.nd.zeros((1, 2)))
    assert found.asnumpy().tolist() == [[0, 1]]


def test_what_is_not_stored_takes_no_memory():
    wide = mx.nd.sparse.csr_matrix(([3, 4], [5, LARGE - 1], [0, 1, 2]), shape=(2, LARGE))
    tall = mx.nd.sparse.row_sparse_array(([[3, 1], [4, 1]], [5, LARGE - 1]), shape=(LARGE, 2))
    assert mx.nd.sum(wide, axis=1).asnumpy().tolist() == [3, 4]
    assert mx.nd.mean(wide).asscalar() == np.float32(7 / (2 * LARGE))
    assert mx.nd.norm(wide).asscalar() == 5
    assert mx.nd.take(wide, mx.nd.array([1])).indices.asnumpy().tolist() == [LARGE - 1]
    assert mx.nd.sum(tall, axis=0).asnumpy().tolist() == [7, 2]
    assert mx.nd.norm(tall, axis=0).asnumpy()[0] == 5
    rows = mx.nd.array([LARGE - 1, 6], dtype="int64")
    assert mx.nd.take(tall, rows).asnumpy().tolist() == [[4, 1], [0, 0]]


def test_arrays_of_all_rows_are_not_copied(monkeypatch):
    """Weights of FullyConnected are read where they are, in the backward pass, too."""
    def dense_only(value):
        assert isinstance(value, np.ndarray)
        return value

    monkeypatch.setattr(formats, "to_dense", dense_only)
    weight = mx.nd.sparse.row_sparse_array([[1, 2, 3], [4, 5, 6]])
    weight.attach_grad(stype="default")
    with mx.autograd.record():
        y = mx.nd.FullyConnected(mx.nd.ones((4, 3)), weight, num_hidden=2, no_bias=True)
    y.backward()
    assert y.asnumpy()[0].tolist() == [6, 15] and weight.grad.asnumpy().tolist() == [[4] * 3] * 2


def test_rows_of_a_csr_array_are_a_matrix():
    with pytest.raises(MXNetError, match=r"indices have shape \(1, 1\), expected one axis"):
        mx.nd.take(mx.nd.sparse.zeros("csr", (2, 3)), mx.nd.zeros((1, 1)))
