"""Rows that kernels gather in bound graphs: those that NumPy takes, whatever the indices."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.tensor import gather_scatter

ROWS = 7
KINDS = ("float32", "float64", "int32", "int64", "int8", "uint8")
ODD = [-np.inf, -5, -1, -0.75, -0.0, 0.99, 3, 6, 6.5, 7, 300, 2.0 ** 40, np.inf, np.nan]


def indices(kind: str, count: int) -> np.ndarray:
    """Indices outside of the table, too: for floats those that are no integers."""
    drawn = np.random.default_rng(3).integers(0, ROWS, count).astype(kind)
    if kind[0] == "f":
        drawn[:len(ODD)] = ODD
    else:
        drawn[:2] = np.iinfo(kind).min, np.iinfo(kind).max
    return drawn


def expected(index: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Truncated, then clipped; NaN is 0."""
    whole = np.trunc(np.nan_to_num(index.astype(np.float64), nan=0.0, posinf=1e9, neginf=-1e9))
    return table[np.clip(whole, 0, len(table) - 1).astype(np.int64)]


def bound(net: mx.sym.Symbol, **arrays: np.ndarray) -> mx.executor.Executor:
    """The network on these very arrays."""
    return net.bind(mx.cpu(), {name: mx.nd.array(array, dtype=array.dtype)
                               for name, array in arrays.items()})


NETS = {
    "Embedding": lambda index, table, width: mx.sym.Embedding(
        index, table, input_dim=ROWS, output_dim=width),
    "take": lambda index, table, width: mx.sym.take(table, index),
}


@pytest.mark.parametrize("width", [2, 50])
@pytest.mark.parametrize("count", [1100, 20_000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", NETS)
def test_kernels_gather_clipped_rows(op, kind, count, width):
    table = np.random.default_rng(1).standard_normal((ROWS, width)).astype(np.float32)
    index = indices(kind, count)
    net = NETS[op](mx.sym.Variable("index"), mx.sym.Variable("table"), width)
    found, = bound(net, index=index.reshape(-1, 4), table=table).forward()
    assert found.shape == (count // 4, 4, width)
    np.testing.assert_array_equal(found.asnumpy().reshape(-1, width), expected(index, table))


@pytest.mark.parametrize("kind", ["float16", "float64", "int32"])
def test_tables_of_all_types_are_gathered(kind):
    table = np.arange(ROWS * 3).reshape(ROWS, 3).astype(kind)
    index = indices("float32", 1000)
    net = mx.sym.take(mx.sym.Variable("table"), mx.sym.Variable("index"))
    found, = bound(net, index=index, table=table).forward()
    assert np.dtype(found.dtype) == kind
    np.testing.assert_array_equal(found.asnumpy(), expected(index, table))


def test_rows_of_a_table_of_several_axes_are_gathered():
    table = np.random.default_rng(1).standard_normal((ROWS, 3, 4)).astype(np.float32)
    index = indices("float32", 1000)
    net = mx.sym.take(mx.sym.Variable("table"), mx.sym.Variable("index"), axis=-3)
    found, = bound(net, index=index, table=table).forward()
    np.testing.assert_array_equal(found.asnumpy(), expected(index, table))


@pytest.mark.parametrize("options", [{"axis": 1}, {"mode": "wrap"}, {"mode": "raise"}])
def test_other_axes_and_modes_are_those_of_eager_calls(options):
    table = mx.nd.array(np.random.default_rng(1).standard_normal((ROWS, ROWS, 4)))
    index = mx.nd.array(np.random.default_rng(2).integers(0, ROWS, 400))
    net = mx.sym.take(mx.sym.Variable("table"), mx.sym.Variable("index"), **options)
    found, = net.bind(mx.cpu(), {"table": table, "index": index}).forward()
    np.testing.assert_array_equal(found.asnumpy(),
                                  mx.nd.take(table, index, **options).asnumpy())


def test_indices_change_between_runs(monkeypatch):
    """The kernel reads the array that is bound, each time."""
    monkeypatch.setattr(gather_scatter, "COMPILED_FROM", 1)
    net = mx.sym.Embedding(mx.sym.Variable("index"), mx.sym.Variable("table"), input_dim=3,
                           output_dim=2)
    executor = bound(net, index=np.zeros(2, np.float32), table=np.eye(3, 2, dtype=np.float32))
    for index in ([0, 1], [1, 2]):
        executor.arg_dict["index"][:] = index
        found, = executor.forward()
        np.testing.assert_array_equal(found.asnumpy(), np.eye(3, 2)[index])


PICKS = [   # op, shape of data, shape of indices, parameters
    (mx.sym.batch_take, (20, ROWS), (20,), {}),
    (mx.sym.pick, (20, ROWS), (20,), {}),
    (mx.sym.pick, (20, ROWS), (20, 1), {"keepdims": True}),
    (mx.sym.pick, (20, ROWS, 3), (20, 3), {"axis": 1}),
    (mx.sym.pick, (ROWS, 20), (20,), {"axis": 0, "mode": "wrap"}),
]


@pytest.mark.parametrize(("kind", "dtype"), [*[(kind, "float32") for kind in KINDS],
                                             ("float32", "int32"), ("float32", "float16")])
def test_kernels_pick_what_numpy_picks(kind, dtype, monkeypatch):
    """For each position of the other axes; gradients are put in their places."""
    for op, shape, places, options in PICKS:
        data = (np.arange(np.prod(shape)).reshape(shape) + 1).astype(dtype)
        head = mx.nd.array(np.arange(np.prod(places)).reshape(places) + 1, dtype=dtype)
        found = []
        for least in (1, data.size + 1):
            monkeypatch.setattr(gather_scatter, "PICKED_FROM", least)
            net = op(mx.sym.Variable("data"), mx.sym.Variable("index"), **options)
            arrays = [mx.nd.array(array, dtype=array.dtype)
                      for array in (data, indices(kind, head.size).reshape(places))]
            gradient = mx.nd.full(shape, -1, dtype=dtype)
            executor = net.bind(mx.cpu(), arrays, {"data": gradient})
            out, = executor.forward(is_train=True)
            executor.backward(head)
            found.append((out.asnumpy(), gradient.asnumpy()))
        for kernel, numpy in zip(*found, strict=True):
            np.testing.assert_array_equal(kernel, numpy)
        assert found[0][0].all() and np.count_nonzero(found[0][1]) == head.size
