"""Modules with float16 weights, and optimizers that keep float32 masters of them."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx

STORES = [(1, None), (2, "local"), (3, "device")]
X = np.random.default_rng(0).standard_normal((12, 5)).astype("float32")
Y = X[:, :3].argmax(1).astype("float32")


def batches():
    return mx.io.NDArrayIter(X, Y, 6)


def half_module(contexts, store, optimizer, params):
    """A dense layer in float16, ready to be trained."""
    halves = mx.sym.Cast(mx.sym.Variable("data"), dtype="float16")
    scores = mx.sym.FullyConnected(halves, num_hidden=3, name="fc")
    symbol = mx.sym.SoftmaxOutput(mx.sym.Cast(scores, dtype="float32"), name="softmax")
    module = mx.mod.Module(symbol, context=[mx.cpu(k) for k in range(contexts)])
    module.bind(batches().provide_data, batches().provide_label)
    rng = np.random.default_rng(1)
    module.init_params(arg_params={"fc_weight": mx.nd.array(0.3 * rng.standard_normal((3, 5))),
                                   "fc_bias": mx.nd.zeros(3)})
    module.init_optimizer(store, optimizer, {"multi_precision": True, **params})
    return module


def train(module):
    for batch in batches():
        module.forward_backward(batch)
        module.update()


def weights(module):
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}


@pytest.mark.parametrize("on_store", [True, False])
@pytest.mark.parametrize("allow_missing", [True, False])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
@pytest.mark.parametrize("contexts, store", STORES)
def test_weights_set_by_hand_are_those_that_training_goes_on_from(
        contexts, store, optimizer, allow_missing, on_store, monkeypatch):
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", str(int(on_store)))
    module = half_module(contexts, store, optimizer, {"learning_rate": 0.1})
    train(module)
    module._optimizer.set_learning_rate(0.0)
    module.set_params({name: mx.nd.full(value.shape, 2) for name, value in weights(module).items()},
                      {}, allow_missing=allow_missing)
    train(module)
    assert {name: value.tolist() for name, value in weights(module).items()} \
        == {"fc_weight": np.full((3, 5), 2.0).tolist(), "fc_bias": [2.0] * 3}


@pytest.mark.parametrize("contexts", [1, 2])
def test_weights_set_through_a_module_that_shares_them(contexts):
    """It has the same parameters in another order, so with other indices."""
    def network(first, second):
        x = mx.sym.Cast(mx.sym.Variable("data"), dtype="float16")
        for name in (first, second):
            x = mx.sym.FullyConnected(x, num_hidden=5, name=name)
        return mx.sym.SoftmaxOutput(mx.sym.Cast(x, dtype="float32"), name="softmax")

    here = [mx.cpu(k) for k in range(contexts)]
    module, other = (mx.mod.Module(network(*names), context=here)
                     for names in (("fc", "output"), ("output", "fc")))
    module.bind(batches().provide_data, batches().provide_label)
    module.init_params()
    module.init_optimizer(None, "adam", {"multi_precision": True, "learning_rate": 0.1})
    train(module)
    other.bind(batches().provide_data, batches().provide_label, shared_module=module)
    wanted = {name: np.full(value.shape, 1 + i, np.float16)
              for i, (name, value) in enumerate(sorted(weights(module).items()))}
    other.set_params({name: mx.nd.array(value) for name, value in wanted.items()}, {})
    module._optimizer.set_learning_rate(0.0)
    train(module)
    np.testing.assert_equal(weights(module), wanted)


@pytest.mark.filterwarnings("ignore:Accumulating with float16")
@pytest.mark.parametrize("contexts, store", STORES)
def test_setting_what_is_there_costs_masters_no_digits(contexts, store):
    """`fit` does so at the end of every epoch."""
    params = {"learning_rate": 1e-3, "momentum": 0.9}
    alone, disturbed = (half_module(contexts, store, "sgd", params) for _ in range(2))
    for _ in range(5):
        train(alone)
        train(disturbed)
        disturbed.set_params(*disturbed.get_params())
    np.testing.assert_equal(weights(disturbed), weights(alone))
    rounded = half_module(contexts, store, "sgd", {**params, "multi_precision": False})
    for _ in range(5):
        train(rounded)
    assert (weights(rounded)["fc_weight"] != weights(alone)["fc_weight"]).any()


def test_states_of_ones_own_are_left_alone():
    """The position of a float32 master copy in the states of users' optimizers is not known."""
    class Own(mx.optimizer.SGD):
        def create_state_multi_precision(self, index, weight):
            return [mx.nd.zeros(weight.shape), weight.astype(np.float32)]

    optimizer = Own(momentum=0.9, multi_precision=True)
    weight = mx.nd.ones((2,), dtype="float16")
    updater = mx.optimizer.get_updater(optimizer)
    updater(0, weight, weight)
    before = [part.asnumpy() for part in updater.states[0]]
    weight[:] = 7
    updater.weight_was_set(0, weight)
    np.testing.assert_equal([part.asnumpy() for part in updater.states[0]], before)


def test_the_mean_of_large_halves_is_no_infinity():
    module = half_module(2, "device", "sgd", {})
    module.set_params({"fc_weight": mx.nd.full((3, 5), 40000), "fc_bias": mx.nd.zeros(3)}, {})
    module._params_dirty = True
    assert weights(module)["fc_weight"].tolist() == np.full((3, 5), 40000.0).tolist()
