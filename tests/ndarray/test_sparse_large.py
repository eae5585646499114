"""Rows and columns beyond 2^31: the same as those of few rows, numbered otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.ops.sparse.formats import RowSparse

ROWS = 2 ** 33
"""Of 4 columns, a dense array would take 128 GB."""
IDS = st.one_of(st.integers(0, 40), st.integers(2 ** 31 - 20, 2 ** 31 + 20),
                st.integers(ROWS - 40, ROWS - 1))


@st.composite
def cases(draw):
    """Sorted ids, the positions among them that two arrays have, and a source of elements."""
    ids = np.array(sorted(draw(st.sets(IDS, min_size=1, max_size=8))))
    some, others = (sorted(draw(st.sets(st.integers(0, len(ids) - 1), min_size=1)))
                    for _ in range(2))
    return ids, some, others, np.random.default_rng(draw(st.integers(0, 2 ** 32)))


def rows(values, ids, count=ROWS):
    return mx.nd.sparse.row_sparse_array((values, ids), shape=(count, values.shape[1]))


def same(large, small, ids):
    """Whether two row_sparse arrays are equal when `ids` are numbered from 0."""
    assert large.indices.asnumpy().tolist() == ids[small.indices.asnumpy()].tolist()
    np.testing.assert_array_equal(large.data.asnumpy(), small.data.asnumpy())


@settings(max_examples=60, deadline=None)
@given(cases())
def test_arrays_of_rows(case):
    ids, some, others, rng = case
    left, right = (rng.standard_normal((len(at), 4)).astype("f4") for at in (some, others))
    pair = rows(left, ids[some]), rows(right, ids[others])
    small = rows(left, some, len(ids)), rows(right, others, len(ids))
    for op in ("elemwise_add", "elemwise_sub"):
        same(getattr(mx.nd, op)(*pair), getattr(mx.nd, op)(*small), ids)
    wanted = mx.nd.array(ids[others], dtype="int64")
    kept = mx.nd.sparse.retain(pair[0], wanted)
    same(kept, mx.nd.sparse.retain(small[0], mx.nd.array(others)), ids)
    np.testing.assert_array_equal(mx.nd.take(pair[0], wanted).asnumpy(), kept.data.asnumpy())
    pair[0].check_format()


@settings(max_examples=60, deadline=None)
@given(cases())
def test_products_and_lookups(case):
    ids, some, others, rng = case
    weight = rng.standard_normal((len(some), 4)).astype("f4")
    columns = np.array([some[0], *others])
    found = []
    for numbers, count in ((ids, ROWS), (np.arange(len(ids)), len(ids))):
        table = rows(weight, numbers[some], count)
        table.attach_grad()
        read = numbers[np.unique(columns)]
        x = mx.nd.sparse.csr_matrix((np.ones(len(read), "f4"), read, [0, len(read)]),
                                    shape=(1, count))
        at = mx.nd.array(numbers[columns], dtype="int64")
        with mx.autograd.record():
            y = mx.nd.dot(x, table)
            z = mx.nd.Embedding(at, table, input_dim=count, output_dim=4, sparse_grad=True)
        mx.autograd.backward([y, z], [mx.nd.array(weight[:1]), mx.nd.ones(z.shape) * 3])
        found.append((y.asnumpy(), z.asnumpy(), table.grad))
    for one, other in zip(*(parts[:2] for parts in found), strict=True):
        np.testing.assert_array_equal(one, other)
    same(found[0][2], found[1][2], ids)


@settings(max_examples=30, deadline=None)
@given(cases(), st.sampled_from(["sgd", "adam", "adagrad", "ftrl"]))
def test_updates_stores_and_files(case, name):
    ids, some, others, rng = case
    start, grad = (rng.standard_normal((len(at), 4)).astype("f4") for at in (some, others))
    found = []
    for numbers, count in ((ids, ROWS), (np.arange(len(ids)), len(ids))):
        store = mx.kv.create("local")
        store.init("w", rows(start, numbers[some], count))
        store.set_optimizer(mx.optimizer.create(name, learning_rate=0.5))
        store.push("w", [rows(grad, numbers[others], count), rows(grad, numbers[others], count)])
        pulled = mx.nd.sparse.zeros("row_sparse", (count, 4))
        store.row_sparse_pull("w", pulled, row_ids=mx.nd.array(numbers[others], dtype="int64"))
        found.append(pulled)
    same(*found, ids)


def test_files_keep_large_ids(tmp_path):
    array = rows(np.ones((2, 4), "f4"), np.array([3, ROWS - 1]))
    mx.nd.save(str(tmp_path / "a.params"), {"a": array})
    loaded = mx.nd.load(str(tmp_path / "a.params"))["a"]
    assert loaded.shape == (ROWS, 4)
    assert isinstance(loaded.handle, RowSparse) and loaded.indices.asnumpy()[1] == ROWS - 1


def test_dense_arrays_of_them_cannot_be_had():
    with pytest.raises(MemoryError):
        rows(np.ones((1, 4)), np.array([3]), 2 ** 50).asnumpy()
