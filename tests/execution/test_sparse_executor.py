"""Executors of networks with sparse arguments: storage types, values and gradients of MXNet."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.execution.sparse_program import SparseProgram
from nbmod.execution.steps import PlannedProgram
from nbmod.ops.sparse import fallback
from tests.programs import sparse_networks
from tests.programs.sparse_networks import X


@pytest.fixture(autouse=True)
def _silent(monkeypatch):
    """Conversions to dense arrays are not told."""
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")


@pytest.mark.parametrize("name", sparse_networks.NETWORKS)
def test_networks_are_mxnets(oracle, name):
    mine = sparse_networks.results(mx, name)
    theirs = oracle.call("mx_scripts.run", "sparse_networks", "results", name)
    assert mine["arguments"] == theirs["arguments"]
    for each, (stype, values) in mine["arrays"].items():
        assert stype == theirs["arrays"][each][0], each
        np.testing.assert_array_equal(values, theirs["arrays"][each][1])    # integers


def net(**stypes):
    x, w = mx.sym.var("x", stype=stypes.get("x")), mx.sym.var("w", stype=stypes.get("w"))
    return mx.sym.dot(x, w, name="y")


def test_dense_networks_have_the_planned_executor():
    for given in ({}, {"stype_dict": {"x": "default"}}):
        executor = net().simple_bind(mx.cpu(), x=(2, 3), w=(3, 2), **given)
        assert type(executor._program) is PlannedProgram
        assert "run node by node" not in executor.debug_str()


@pytest.mark.parametrize("requests", ["write", "add"])
def test_storage_types_are_given_by_name_or_by_arrays(requests):
    made = net().simple_bind(mx.cpu(), {"x": "null", "w": requests}, x=(3, 3), w=(3, 2),
                             stype_dict={"x": "csr", "w": "row_sparse"})
    arrays = {"x": mx.nd.array(X).tostype("csr"), "w": mx.nd.ones((3, 2)).tostype("row_sparse")}
    given = net().bind(mx.cpu(), arrays, {"w": mx.nd.sparse.zeros("row_sparse", (3, 2))},
                       {"x": "null", "w": requests})
    made.copy_params_from(arrays)
    for executor in (made, given):
        assert type(executor._program) is SparseProgram
        assert executor.grad_dict["w"].stype == "row_sparse"
        for _ in range(2):
            outputs = executor.forward(is_train=True)
            executor.backward(mx.nd.ones((3, 2)))
        np.testing.assert_array_equal(outputs[0].asnumpy(), X @ np.ones((3, 2)))
        expected = X.T @ np.ones((3, 2)) * (2 if requests == "add" else 1)
        np.testing.assert_array_equal(executor.grad_dict["w"].asnumpy(), expected)
    found, = net().eval(**arrays)
    np.testing.assert_array_equal(found.asnumpy(), X @ np.ones((3, 2)))
    changed = mx.nd.array(2 * X).tostype("csr")
    assert given.forward(x=changed)[0] is outputs[0]
    np.testing.assert_array_equal(outputs[0].asnumpy(), 2 * X @ np.ones((3, 2)))


def test_gradients_of_csr_data_are_dense():
    executor = net(x="csr").simple_bind(mx.cpu(), x=(3, 3), w=(3, 2))
    executor.copy_params_from({"x": mx.nd.array(X), "w": mx.nd.ones((3, 2))})
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((3, 2)))
    assert {name: grad.stype for name, grad in executor.grad_dict.items()} == {
        "x": "default", "w": "row_sparse"}
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), np.full((3, 3), 2))
    np.testing.assert_array_equal(executor.grad_dict["w"].asnumpy(), X.T @ np.ones((3, 2)))


def test_batches_of_other_sizes():
    executor = net(x="csr", w="row_sparse").simple_bind(mx.cpu(), x=(3, 3), w=(3, 2))
    executor.copy_params_from({"w": mx.nd.ones((3, 2))})
    small = executor.reshape(x=(2, 3), w=(3, 2))
    assert small.arg_dict["w"] is executor.arg_dict["w"] and small.arg_dict["x"].stype == "csr"
    found, = small.forward(x=mx.nd.array(X[:2]).tostype("csr"))
    np.testing.assert_array_equal(found.asnumpy(), X[:2] @ np.ones((3, 2)))


def test_running_statistics_and_dropout_know_training():
    y = mx.sym.BatchNorm(net(x="csr", w="row_sparse"), name="bn", fix_gamma=False, momentum=0.5)
    executor = mx.sym.Dropout(y, p=0.999).simple_bind(mx.cpu(), x=(3, 3), w=(3, 2))
    executor.copy_params_from({"x": mx.nd.array(X), "w": mx.nd.ones((3, 2)),
                               "bn_gamma": mx.nd.ones(2)})
    assert np.count_nonzero(executor.forward()[0].asnumpy()) == 4
    assert executor.aux_dict["bn_moving_mean"].asnumpy().tolist() == [0, 0]
    assert np.count_nonzero(executor.forward(is_train=True)[0].asnumpy()) < 4
    executor.backward(mx.nd.ones((3, 2)))
    assert executor.aux_dict["bn_moving_mean"].asnumpy().tolist() == [1, 1]


def test_what_runs_is_shown():
    x, w = mx.sym.var("x", stype="csr"), mx.sym.var("w", stype="row_sparse")
    y = mx.sym.Group([mx.sym.dot(x, w, name="y"), mx.sym.exp(w, name="d")])
    executor = y.simple_bind(mx.cpu(), x=(3, 3), w=(3, 1))
    shown = executor.debug_str()
    assert "dot y: (csr, row_sparse) -> default\n" in shown
    assert "cast_storage w_dense: (row_sparse) -> default\nexp d: (default) -> default\n" in shown
    assert "-- backward --" not in shown
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append((name, array.stype)), True)
    executor.forward()
    assert ("x", "csr") in seen and ("y_output", "default") in seen
    assert ("d_input0", "row_sparse") in seen


def test_conversions_are_told_once_with_their_node(monkeypatch):
    monkeypatch.setattr(fallback, "_told", set())
    x, w = mx.sym.var("x", stype="csr"), mx.sym.var("w", stype="row_sparse")
    net = mx.sym.Group([mx.sym.exp(w, name="first"), mx.sym.exp(w, name="second"),
                        mx.sym.norm(mx.sym.dot(x, w, transpose_a=True, name="p"), name="length")])
    shapes = {"x": (3, 3), "w": (3, 2)}
    with warnings.catch_warnings(record=True) as silent:
        net.simple_bind(mx.cpu(), **shapes)
    monkeypatch.delenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE")
    with pytest.warns(UserWarning) as told:
        executor = net.simple_bind(mx.cpu(), **shapes)
        net.simple_bind(mx.cpu(), **shapes)
    assert not silent
    texts = [str(each.message) for each in told]
    assert [text.split(":")[0] for text in texts] == [
        "first (exp)", "second (exp)", "length_backward (_backward_norm)"]
    assert all("no sparse form for inputs of storage type (row_sparse" in text
               for text in texts[:2])
    shown = executor.debug_str()
    assert shown.count("cast_storage w_dense: (row_sparse) -> default\n") == 1
    assert "backward --\ncast_storage p_dense: (row_sparse) -> default, for length_ba" in shown


def test_states_are_dense():
    y = mx.sym.BatchNorm(net(x="csr"), name="bn")
    arrays = {"x": mx.nd.sparse.zeros("csr", (3, 3)), "w": mx.nd.ones((3, 2)),
              "bn_gamma": mx.nd.ones(2), "bn_beta": mx.nd.ones(2)}
    states = [mx.nd.ones(2).tostype("row_sparse"), mx.nd.ones(2)]
    with pytest.raises(MXNetError, match="bn_moving_mean is row_sparse, expected a dense array"):
        y.bind(mx.cpu(), arrays, aux_states=states)


def test_what_is_refused():
    executor = net(x="csr").simple_bind(mx.cpu(), x=(3, 3), w=(3, 2))
    with pytest.raises(MXNetError, match="call forward"):
        executor.backward(mx.nd.ones((3, 2)))
    executor.forward(is_train=True)
    for use, words in (
            (executor.backward, "'y_output' is not a loss"),
            (executor.plan_chart, "there is no plan"),
            (lambda: net().simple_bind(mx.cpu(), x=(3, 3), w=(3, 2), stype_dict={"x": "coo"}),
             "storage type of x is 'coo', expected one of"),
            (lambda: net(x="csr").simple_bind(mx.cpu(), x=(3, 3), w=(3, 2),
                                              group2ctx={"a": mx.cpu(1)}), "spread over devices")):
        with pytest.raises(MXNetError, match=words):
            use()


@pytest.mark.parametrize("kind", ["loop", "branch", "states", "states alone"])
def test_loops_and_first_states_beside_sparse_gradients(kind):
    """Loops run in dense regions; shapes of first states follow from what reads them."""
    rows = mx.sym.Embedding(mx.sym.var("x"), mx.sym.var("w"), input_dim=4, output_dim=3,
                            sparse_grad=True)
    states = [mx.sym.zeros((1, 0, 2)) for _ in range(2)]
    if kind == "loop":
        y = mx.sym.contrib.foreach(lambda row, state: (mx.sym.tanh(row * state), row + state),
                                   rows, mx.sym.var("v"))[0]
    elif kind == "branch":
        y = mx.sym.contrib.cond(mx.sym.sum(rows) > 0, lambda: rows * 2, lambda: mx.sym.tanh(rows))
    else:
        y = mx.sym.RNN(rows, mx.sym.var("v"), *states, state_size=2, num_layers=1, mode="lstm")
    y = mx.sym.MakeLoss(y if kind == "states alone" else mx.sym.sin(y))
    shapes = {"w": (4, 3), **{"loop": {"v": (3, 3)}, "branch": {}}.get(kind, {"v": (56,)})}

    def answers(stype):
        arrays = {name: mx.nd.array(np.random.RandomState(len(name)).uniform(-1, 1, shape))
                  for name, shape in shapes.items()}
        grads = {name: mx.nd.zeros(array.shape) for name, array in arrays.items()}
        grads["w"] = grads["w"].tostype(stype)
        executor = y.bind(mx.cpu(), {"x": mx.nd.array([[0, 1, 2], [3, 0, 0]]), **arrays}, grads,
                          {"x": "null", "w": "write", "v": "write"})
        assert (type(executor._program) is SparseProgram) == (stype == "row_sparse")
        seen = []
        for monitored in (False, True):
            if monitored:
                executor.set_monitor_callback(lambda *shown: seen.append(shown))
            outputs = executor.forward(is_train=True)
            executor.backward()
        assert seen
        return [array.asnumpy() for array in (*outputs, *grads.values())]

    for found, expected in zip(answers("row_sparse"), answers("default"), strict=True):
        assert expected.any()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)   # other kernels


@pytest.mark.parametrize("names", [("y", "y", "b"), ("y", "z", "y:0")], ids=str)
def test_dense_regions_tell_layers_of_one_name_apart(names):
    """What a region reads, results of sparse layers and variables, it knows by name."""
    def answers(first, second, bias):
        x, others = mx.sym.var("x", stype="csr"), [mx.sym.var(name) for name in ("v", "w", bias)]
        one, two = (mx.sym.dot(x, each, name=name)
                    for each, name in zip(others, (first, second), strict=False))
        y = mx.sym.broadcast_add(mx.sym.exp(one) * two + mx.sym.tanh(two), others[2])
        arrays = {"x": mx.nd.array(X).tostype("csr"), "v": mx.nd.array(X[:, :2] / 4),
                  "w": mx.nd.array(X[:, 1:] / 5), bias: mx.nd.array([[1, 2]])}
        grads = {name: mx.nd.zeros(arrays[name].shape) for name in ("v", "w", bias)}
        executor = mx.sym.MakeLoss(y).bind(mx.cpu(), arrays, grads)
        assert type(executor._program) is SparseProgram
        outputs = executor.forward(is_train=True)
        executor.backward()
        return [array.asnumpy() for array in (*outputs, *grads.values())]

    for found, expected in zip(answers(*names), answers("one", "two", "three"), strict=True):
        np.testing.assert_array_equal(found, expected)
