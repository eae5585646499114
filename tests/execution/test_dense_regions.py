"""Dense regions of networks with sparse arrays: the same results as those of the nodes by
themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError

SHAPE = (4, 3)
"""Of most entries; `data` is (4, 5) and weights of it (5, 3)."""


@pytest.fixture(autouse=True)
def _silent(monkeypatch):
    """Conversions to dense arrays are not told."""
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")


# -- random networks --------------------------------------------------------------------------


class Builder:
    """Grows a network: `entries` are of SHAPE, and dense unless a step says otherwise."""

    def __init__(self):
        sym = mx.sym
        self.data = sym.Variable("data", stype="csr", shape=(4, 5))
        self.ids = sym.Variable("ids", shape=(4,))
        self.rows = sym.Variable("rows", stype="row_sparse", shape=(5, 3))
        self.table = sym.Variable("table", shape=(5, 3))
        self.entries = [sym.dot(self.data, self.rows, name="product"),
                        sym.Variable("product:0", shape=SHAPE)]
        self.label = sym.Variable("label", shape=SHAPE)
        self.layers = 0

    def pick(self, draw):
        return draw(st.sampled_from(self.entries))

    def name(self):
        self.layers += 1
        return f"layer{self.layers}"


def unary(build, draw):
    op = draw(st.sampled_from(["tanh", "sigmoid", "square", "relu", "BlockGrad", "sin"]))
    return getattr(mx.sym, op)(build.pick(draw))


def binary(build, draw):
    left, right = build.pick(draw), build.pick(draw)
    return draw(st.sampled_from([left + right, left * right, left - right, left * 2 + 1]))


def layer(build, draw):
    return mx.sym.FullyConnected(build.pick(draw), num_hidden=3, name=build.name())


def normalization(build, draw):
    return mx.sym.BatchNorm(build.pick(draw), name=build.name(), fix_gamma=False)


def product(build, draw):
    """Many nodes have one name, and the variable `product:0` is named like what they compute."""
    weight = draw(st.sampled_from([build.rows, build.table, build.table * 2,
                                   mx.sym.tanh(build.table)]))
    return mx.sym.dot(draw(st.sampled_from([build.data, mx.sym.square(build.data)])), weight,
                      name="product")


def lookup(build, draw):
    return mx.sym.Embedding(build.ids, draw(st.sampled_from([build.rows, build.table])),
                            input_dim=5, output_dim=3, sparse_grad=draw(st.booleans()))


def through_sparse(build, draw):
    """A dense entry made sparse, and dense again."""
    sparse = mx.sym.abs(mx.sym.cast_storage(build.pick(draw), draw(
        st.sampled_from(["csr", "row_sparse"]))))
    return draw(st.sampled_from([sparse + build.pick(draw), mx.sym.cast_storage(sparse, "default"),
                                 mx.sym.exp(sparse) - 1]))


def loss(build, draw):
    """A loss within the network, which starts a gradient."""
    return mx.sym.LinearRegressionOutput(build.pick(draw), build.label, grad_scale=0.5)


STEPS = [unary, unary, binary, binary, layer, normalization, product, lookup, through_sparse, loss]


@st.composite
def networks(draw):
    """A network of some outputs, and what is asked for each argument."""
    build = Builder()
    for _ in range(draw(st.integers(1, 9))):
        step = draw(st.sampled_from(STEPS))
        build.entries.append(step(build, draw))
    outputs = [build.entries[-1], *draw(st.lists(st.sampled_from(build.entries), max_size=2))]
    net = mx.sym.Group([mx.sym.identity(each) for each in outputs])
    requests = {name: "null" if name in ("data", "ids", "label") else
                draw(st.sampled_from(["write", "write", "add", "null"]))
                for name in net.list_arguments()}
    return net, requests


def run(net, requests, *disabled):
    """All arrays after two steps of training and a prediction."""
    with mx.without_passes(*disabled):
        executor = net.simple_bind(mx.cpu(), grad_req=requests)
    rng, found = np.random.default_rng(0), []
    for name, array in [*executor.arg_dict.items(), *executor.aux_dict.items()]:
        fill(name, array, rng)
    for step in range(3):
        fill("data", executor.arg_dict.get("data"), np.random.default_rng(step))
        found.append([output.asnumpy() for output in executor.forward(is_train=step < 2)])
        if step < 2:
            executor.backward([mx.nd.array(rng.standard_normal(output.shape))
                               for output in executor.outputs])
    grads = {name: grad for name, grad in executor.grad_dict.items() if grad is not None}
    return executor, [*sum(found, []), *(grad.asnumpy() for grad in grads.values()),
                      *(array.asnumpy() for array in executor.aux_dict.values())], {
        name: grad.stype for name, grad in grads.items()}


def fill(name, array, rng):
    if array is None:
        return
    values = rng.standard_normal(array.shape)
    if name == "ids":
        values = np.array([0, 3, 3, 1])
    elif name == "data":
        values = np.where(rng.random(array.shape) < 0.5, values, 0)
    mx.nd.array(np.abs(values) if "var" in name else values).tostype(array.stype).copyto(array)


@settings(max_examples=80, deadline=None)
@given(networks())
def test_regions_compute_what_their_nodes_do(case):
    net, requests = case
    executor, fused, types = run(net, requests)
    plain, alone, plain_types = run(net, requests, "dense_regions")
    assert "dense region dense" not in plain.debug_str()
    assert types == plain_types
    for one, other in zip(fused, alone, strict=True):
        # Kernels add and multiply in another order than NumPy; nine steps multiply the error.
        np.testing.assert_allclose(one, other, 2e-4, 2e-4)
    assert executor.debug_str() == executor.debug_str()


# -- examples -----------------------------------------------------------------------------------


def test_nodes_and_variables_of_one_name_are_apart():
    data, start = (mx.sym.Variable(name, shape=shape, stype=stype) for name, shape, stype in (
        ("data", (4, 5), "csr"), ("product:0", SHAPE, "default")))
    first, second = (mx.sym.dot(data, mx.sym.Variable(name, shape=(5, 3)), name="product")
                     for name in "uv")
    net = mx.sym.tanh(first - 2 * second) * start
    requests = {"data": "null", "u": "write", "v": "write", "product:0": "write"}
    (executor, fused, _), (_, alone, _) = run(net, requests), run(net, requests, "dense_regions")
    assert "dense region dense" in executor.debug_str()
    for one, other in zip(fused, alone, strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-5)      # kernels' tanh is not NumPy's


def perceptron(**stypes):
    sym = mx.sym
    hidden = sym.dot(sym.var("x", stype=stypes.get("x", "csr")), sym.var("w", stype="row_sparse"))
    hidden = sym.tanh(sym.broadcast_add(hidden, sym.var("b")), name="hidden")
    return sym.FullyConnected(hidden, num_hidden=2, name="fc")


SHAPES = {"x": (4, 5), "w": (5, 3), "b": (1, 3)}


def test_a_region_is_a_planned_executor():
    executor = perceptron().simple_bind(mx.cpu(), **SHAPES)
    shown = executor.debug_str()
    assert "dot dot" in shown and "dense region dense1:\n    Symbol outputs: fc_output" in shown
    assert "arena" in shown and "user: gradient of fc_weight" in shown
    assert shown.count("dense region dense") == 1


@pytest.mark.parametrize("request_, times", [("write", 1), ("add", 2)])
def test_gradients_are_written_where_they_belong(request_, times):
    """A region writes or adds the gradients of its own weights; those of shared ones are summed."""
    sym, shared, own = mx.sym, mx.sym.var("shared"), mx.sym.var("own")
    before = sym.cast_storage(shared * own * 2, "csr")
    after = sym.cast_storage(sym.abs(before), "default") * shared * 3
    net = after + sym.dot(sym.var("x", stype="csr"), mx.sym.var("w"))
    executor = net.simple_bind(mx.cpu(), {"own": request_, "shared": request_}, x=(2, 2),
                               w=(2, 2), own=(2, 2), shared=(2, 2))
    executor.copy_params_from({"own": mx.nd.ones((2, 2)), "shared": mx.nd.ones((2, 2))})
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2, 2)))
    assert executor.grad_dict["own"].asnumpy()[0, 0] == 6 * times       # y = 6 own shared^2
    assert executor.grad_dict["shared"].asnumpy()[0, 0] == 12 * times
    assert executor.debug_str().count("dense region dense") == 2


@pytest.mark.parametrize("numpy_first", [False, True])
def test_weights_are_read_where_they_are(numpy_first):
    executor = perceptron().simple_bind(mx.cpu(), numpy_first=numpy_first, **SHAPES)
    executor.arg_dict["fc_weight"][:] = 1
    executor.arg_dict["fc_bias"][:] = 3
    assert (executor.forward()[0].asnumpy() == 3).all()
    executor.arg_dict["b"][:] = 100
    assert (executor.forward(is_train=True)[0].asnumpy() == 6).all()
    executor.backward(mx.nd.ones((4, 2)))
    assert (executor.grad_dict["fc_weight"].asnumpy() == 4).all()


def test_a_backward_pass_follows_a_forward_pass():
    """Of prediction, too, as where all arrays are dense."""
    executor = perceptron().simple_bind(mx.cpu(), **SHAPES)
    executor.arg_dict["fc_bias"][:] = 3
    executor.arg_dict["b"][:] = 100
    with pytest.raises(MXNetError, match=r"call forward\(is_train=True\)"):
        executor.backward(mx.nd.ones((4, 2)))
    gradients = []
    for is_train in (False, True):
        executor.forward(is_train=is_train)
        executor.backward(mx.nd.ones((4, 2)))
        gradients.append(executor.grad_dict["fc_weight"].asnumpy())
    assert gradients[0].any() and (gradients[0] == gradients[1]).all()
    executor.release()
    with pytest.raises(MXNetError, match=r"call forward\(is_train=True\)"):
        executor.backward(mx.nd.ones((4, 2)))


def test_monitors_see_every_node():
    executor, seen = perceptron().simple_bind(mx.cpu(), **SHAPES), []
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((4, 2)))
    assert {"hidden_output", "fc_output"} <= {*seen}
    executor.set_monitor_callback(None)
    del seen[:]
    executor.forward()
    assert not seen


def test_a_loss_in_a_region_without_a_head_gradient_is_minimised():
    """Its result is read by ops only that pass no gradient on."""
    x, w = mx.sym.var("x", stype="csr"), mx.sym.var("w", stype="row_sparse")
    made = mx.sym.make_loss(mx.sym.square(mx.sym.tanh(mx.sym.dot(x, w))))
    net = mx.sym.BlockGrad(mx.sym.abs(mx.sym.cast_storage(made, "csr")))
    grads = []
    for disabled in ((), ("dense_regions",)):
        with mx.without_passes(*disabled):
            executor = net.simple_bind(mx.cpu(), {"x": "null", "w": "write"}, x=(4, 5), w=(5, 3))
        fill("data", executor.arg_dict["x"], np.random.default_rng(1))
        fill("w", executor.arg_dict["w"], np.random.default_rng(2))
        executor.forward(is_train=True)
        executor.backward()
        grads.append(executor.grad_dict["w"].asnumpy())
    assert grads[0].any()
    np.testing.assert_allclose(*grads, 1e-5, 1e-6)      # rounding of tanh
