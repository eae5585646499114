"""Sorting on a GPU, and segment sums of the sorted rows: sizes beyond those of the samples."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.cuda.runtime import simulator
from nbmod.ops.cuda.runtime.simulator import SCHEDULES

pytestmark = pytest.mark.gpu


@pytest.fixture(params=SCHEDULES, autouse=True)
def every_schedule(request, monkeypatch):
    monkeypatch.setattr(simulator, "schedule", request.param)


def on_gpu(array: np.ndarray) -> mx.nd.NDArray:
    return mx.nd.array(array, ctx=mx.gpu(0), dtype=array.dtype)


def full_of_ties(dtype: str) -> np.ndarray:
    """(2, n, 3): rows of several tiles, the last of which is not full; among reals NaN and -0."""
    from nbmod.ops.cuda.lib import merge_sort

    x = np.random.default_rng(3).integers(0, 9, (2, 3 * merge_sort.TILE + 5, 3)).astype(dtype)
    if x.dtype.kind == "f":
        x[0, ::5] = np.nan
        x[1, ::3] = -0.0
        x[:, ::7] = -np.inf
    return x


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
def test_rows_of_several_tiles_are_sorted_stably(dtype, ascending):
    x = full_of_ties(dtype)
    keys = x if ascending else -x if x.dtype.kind == "f" else ~x
    order = np.argsort(keys, axis=1, kind="stable")
    got = mx.nd.argsort(on_gpu(x), axis=1, is_ascend=ascending, dtype="int32")
    np.testing.assert_array_equal(got.asnumpy(), order)
    got = mx.nd.sort(on_gpu(x), axis=1, is_ascend=ascending)
    np.testing.assert_array_equal(got.asnumpy(), np.take_along_axis(x, order, 1))
    values, where = mx.nd.topk(on_gpu(x), axis=1, k=7, is_ascend=ascending, ret_typ="both",
                               dtype="int32")
    np.testing.assert_array_equal(where.asnumpy(), order[:, :7])
    np.testing.assert_array_equal(values.asnumpy(), np.take_along_axis(x, order[:, :7], 1))


@pytest.mark.parametrize("runs", [[0, 1, 2], [3, 0, 50], [1], [50, 50, 7, 50], [7, 50, 1, 5, 9]])
def test_runs_of_any_length_are_added_in_order(runs):
    """Integer sums are exact, so a row too many or too few shows."""
    index = np.repeat(np.array(runs), np.arange(1, 1 + len(runs)) ** 3 % 23)
    index = np.random.default_rng(len(runs)).permutation(index).astype(np.int32)
    g = np.random.default_rng(1).integers(0, 100, (len(index), 3)).astype(np.float32)
    want = np.zeros((51, 3), np.float32)
    np.add.at(want, index, g)
    weight = mx.nd.zeros((51, 3), ctx=mx.gpu(0))
    weight.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Embedding(on_gpu(index), weight, input_dim=51, output_dim=3)
    y.backward(on_gpu(g))
    np.testing.assert_array_equal(weight.grad.asnumpy(), want)


def test_what_is_put_twice_is_what_was_put_last():
    index = np.random.default_rng(2).integers(0, 6, (1, 40)).astype(np.int32)
    x = np.arange(80, dtype=np.float32).reshape(40, 2)
    want = np.zeros((6, 2), np.float32)
    want[index[0]] = x
    got = mx.nd.scatter_nd(on_gpu(x), on_gpu(index), shape=(6, 2))
    np.testing.assert_array_equal(got.asnumpy(), want)


def test_rows_that_a_mask_selects():
    x = on_gpu(np.arange(12, dtype=np.float32).reshape(4, 3))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.contrib.boolean_mask(x, on_gpu(np.array([0, 1, 0, -2], np.int32)))
        z = y * y
    z.backward()
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy()[[1, 3]])
    kept = np.array([[0], [1], [0], [1]])
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * kept * x.asnumpy())


@pytest.mark.parametrize("call, wrong", [
    (lambda x, i: mx.nd.take(x, i, mode="raise"), [0, 4]),
    (lambda x, i: mx.nd.gather_nd(x, i.reshape((1, -1))), [0, 4]),
    (lambda x, i: mx.nd.contrib.index_copy(x, i, x[:2]), [0, 4]),
    (lambda x, i: mx.nd.scatter_nd(i, i.reshape((1, -1)), shape=(4,)), [0, 4]),
])  # fmt: skip
def test_indices_outside_are_errors_where_they_are_on_the_cpu(call, wrong):
    with pytest.raises(mx.MXNetError, match="4, expected"):
        call(on_gpu(np.ones((4, 2), np.float32)), on_gpu(np.array(wrong, np.float32))).asnumpy()
