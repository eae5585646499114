"""Sparse arrays whose indices users have given wrong: an error, whatever reads them first."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError

ROWS, WIDTH, COLUMNS = 5000, 4, 3000
sparse = mx.nd.sparse


def _ones(stype="default", rows=ROWS, width=WIDTH):
    return mx.nd.ones((rows, width)).tostype(stype)


def _full():
    return _ones("row_sparse")


def _all_rows():
    return mx.nd.arange(ROWS - 1)


def _row_sparse_pull(array):
    store = mx.kv.create("local")
    store.init("a", array)
    store.row_sparse_pull("a", out=sparse.zeros("row_sparse", array.shape), row_ids=_all_rows())


def _push(array):
    store = mx.kv.create("local")
    store.init("a", _full())
    store.push("a", [array, array])
    store.pull("a", out=_ones(), ignore_sparse=False)


def _embedding_gradient(array):
    array.attach_grad()
    with mx.autograd.record():
        rows = mx.nd.Embedding(_all_rows(), array, input_dim=ROWS, output_dim=WIDTH,
                               sparse_grad=True)
    rows.backward()


def _batch():
    """A csr matrix that reads enough columns for a kernel."""
    return sparse.csr_matrix((np.ones(COLUMNS, "f4"), np.arange(COLUMNS), [0, COLUMNS]),
                             shape=(1, ROWS))


def _adam(weight=None, grad=None, mean=None):
    weight = _full() if weight is None else weight
    sparse.adam_update(weight, _full() if grad is None else grad,
                       _full() if mean is None else mean, _full(), lr=0.1, out=weight)


OF_ROWS = {
    "retain": lambda a: sparse.retain(a, _all_rows()),
    "retain few": lambda a: sparse.retain(a, mx.nd.array([0, 5])),
    "take": lambda a: mx.nd.take(a, _all_rows()),
    "Embedding": lambda a: mx.nd.Embedding(_all_rows(), a, input_dim=ROWS, output_dim=WIDTH),
    "gradient of Embedding": _embedding_gradient,
    "tostype": lambda a: a.tostype("default"),
    "asnumpy": lambda a: a.asnumpy(),
    "sum of rows": lambda a: sparse.sum(a, axis=1),
    "add dense": lambda a: a + _ones(),
    "dot": lambda a: sparse.dot(_batch(), a),
    "gradient": lambda a: _adam(grad=a),
    "weight": lambda a: _adam(weight=a),
    "state": lambda a: _adam(mean=a),
    "row_sparse_pull": _row_sparse_pull,
    "push": _push,
}
BAD_ROWS = {"far beyond": [0, 5, 10 ** 10], "just beyond": [0, 5, ROWS], "negative": [-7, 0, 5],
            "not ascending": [5, 0, 7], "twice": [3, 3, 7]}
IN_ANY_ORDER = ("tostype", "asnumpy", "sum of rows", "add dense", "push")
"""What does not look rows up."""


@pytest.mark.parametrize("kind, name", [
    (kind, name) for kind in BAD_ROWS for name in OF_ROWS
    if kind not in ("not ascending", "twice") or name not in IN_ANY_ORDER])
def test_wrong_indices_of_rows(kind, name):
    """Looking up 2,048 rows and more wrote wherever an index pointed, and ended the process."""
    array = sparse.row_sparse_array((np.ones((3, WIDTH), "f4"), BAD_ROWS[kind]),
                                    shape=(ROWS, WIDTH))
    with pytest.raises(MXNetError, match="ind"):
        OF_ROWS[name](array)


def _dot_gradient(array):
    weight = _ones()
    weight.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        product = sparse.dot(array, weight)
    product.backward()


OF_CSR = {
    "tostype": lambda a: a.tostype("default"),
    "asnumpy": lambda a: a.asnumpy(),
    "dot": lambda a: sparse.dot(a, _ones()),
    "dot with rows": lambda a: sparse.dot(a, _full()),
    "transposed dot": lambda a: sparse.dot(a, _ones(rows=3), transpose_a=True),
    "gradient of dot": _dot_gradient,
    "sum of columns": lambda a: sparse.sum(a, axis=0),
    "sum of rows": lambda a: sparse.sum(a, axis=1),
    "broadcast_mul": lambda a: mx.nd.broadcast_mul(a, _ones(rows=3, width=1)),
    "broadcast_div": lambda a: mx.nd.broadcast_div(a, _ones(rows=1, width=ROWS)),
    "slice": lambda a: mx.nd.slice(a, begin=(0, 0), end=(2, 3)),
    "take": lambda a: mx.nd.take(a, mx.nd.array([0, 1])),
    "getnnz": lambda a: mx.nd.contrib.getnnz(a, axis=0),
    "where": lambda a: mx.nd.where(a, _ones(rows=3, width=ROWS), _ones(rows=3, width=ROWS)),
    "add dense": lambda a: a + _ones(rows=3, width=ROWS),
    "shuffled iterator": lambda a: list(mx.io.NDArrayIter(a, batch_size=3, shuffle=True)),
}
BAD_CSR = {"far beyond": ([0, 1, 10 ** 10], [0, 2, 3, 3]),
           "just beyond": ([0, 1, ROWS], [0, 2, 3, 3]),
           "negative": ([0, 1, -5], [0, 2, 3, 3]), "pointers fall": ([0, 1, 2], [0, 2, 1, 3]),
           "pointers beyond": ([0, 1, 2], [0, 2, 10 ** 9, 3])}


@pytest.mark.parametrize("name", OF_CSR)
@pytest.mark.parametrize("kind", BAD_CSR)
def test_wrong_indices_of_csr(kind, name):
    columns, pointers = BAD_CSR[kind]
    array = sparse.csr_matrix((np.ones(3, "f4"), columns, pointers), shape=(3, ROWS))
    with pytest.raises(MXNetError, match="ind"):
        OF_CSR[name](array)
