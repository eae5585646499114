"""Initializers: the rule for each name, fixed values as MXNet's, random ones by distribution."""

from __future__ import annotations

import inspect
import logging
import math
import pickle

import numpy as np
import pytest

import nbmod as mx
from nbmod import initializer
from nbmod.base import MXNetError
from nbmod.initializer import InitDesc
from tests.programs import recurrent, training

C3 = ("Constant", {"value": 3.0})
NAMES = ["x_weight", "x_bias", "x_gamma", "x_beta", "x_min", "x_max", "x_bias_quantize", "weight",
         "x_moving_mean", "x_moving_var", "x_foo", "upsampling0_weight", "stn_loc_bias",
         "A_WEIGHT", "a_Bias", "x_weight_extra", "minimum", "stn_loc_weight", "x_running_mean",
         "rnn_parameters", "x_moving_avg", "x_moving_inv_var"]
ATTRS = ["zeros", "ones", '["one", {}]', "nope", "<initializer object at 0x7f>",
         '["constant", {"value": 2.5}]', '{"initializer": "one"}', '["Constant", {"value": 0.25}]',
         '["lstmbias", {"forget_bias": 2.0}]']
# initializer, parameters, name, shape, `__init__`, plain
FIXED = [
    *((*C3, name, (6,), "", plain) for name in NAMES for plain in (False, True)
      if not (name.startswith("upsampling") and plain)),
    *((*C3, name, (8, 2), attr, False) for name in ("x", "x_bias") for attr in ATTRS),
    *((init, {}, "x_weight", (2, 1, *size), "", False) for size in ((4, 4), (3, 3), (3, 5), (2, 2))
      for init in ("Bilinear", "Zero", "One")),
    ("Uniform", {}, "upsampling0_weight", (1, 1, 4, 4), "", True),
    ("LSTMBias", {"forget_bias": 2.0}, "x_bias", (8,), "", False),
    ("LSTMBias", {"forget_bias": 2.0}, "x_weight", (8,), "", False),
    ("Constant", {"value": [1.0, 2.0, 3.0]}, "x_weight", (2, 3), '["constant", {"value": 1}]',
     False),
    ("Xavier", {}, "x_weight", (3,), "", False),
    ("Xavier", {"rnd_type": "other"}, "x_weight", (3, 3), "", False),
    ("Xavier", {"factor_type": "other"}, "x_weight", (3, 3), "", False),
]
JSON = [("Uniform", {}), ("Uniform", {"scale": 0.5}), ("Normal", {}), ("Xavier", {}),
        ("Xavier", {"magnitude": 2, "rnd_type": "gaussian"}), ("MSRAPrelu", {}),
        ("Orthogonal", {}), ("Zero", {}), ("One", {}), C3, ("Bilinear", {}), ("LSTMBias", {})]


@pytest.mark.parametrize("index", range(len(FIXED)))
def test_rule_and_value_are_mxnets(oracle, index):
    want = oracle.call("mx_scripts.run", "training", "initialized", *FIXED[index])
    got = training.initialized(mx, *FIXED[index])
    np.testing.assert_array_equal(got, want)


LOADED = "init.Load(stored, default_init=init.Zero())"
MIXED = "init.Mixed(['.*bias', 'fc', '.*'], [init.Constant(5.), init.Constant(6.), init.One()])"
# Code that creates an initializer, names that it is called with.
MADE = {
    "init.Constant(mx.nd.array([1, 2, 3]))": ["x_weight", "x_bias"],
    "init.Constant(np.array([1, 2, 3]))": ["x_weight"],
    "init.Constant(mx.nd.array([[1], [2]]))": ["x_weight"],
    "init.Constant(mx.nd.array([1, 2]))": ["x_weight"],
    "init.Constant(np.float32(2))": ["x_weight"],
    "init.Load(stored)": ["a", "b", "c", "arg:a", "d_weight"],
    LOADED: ["a", "b", "c", "d_weight", "d_bias", "e"],
    MIXED: ["x_bias", "fc_weight", "afc_weight", "fc", "q"],
    "init.Mixed(['z'], [init.One()])": ["q", "x_bias", "zzz_weight"],
    "init.Mixed(['.*'], ['zeros'])": ["x_weight"], "init.Mixed(['('], [init.One()])": ["x_weight"],
    "init.Mixed(['a'], [])": ["a"], "init.Load([mx.nd.ones((1,))])": ["a"],
    "init.Load('/nowhere')": ["a"], "init.Initializer()": ["x_weight", "x_bias"],
    "mx.initializer.create('constant', value=4)": ["x_weight"],
    "mx.initializer.create('nope')": ["x_weight"], "mx.initializer.create(None)": ["x_weight"],
    "mx.initializer.create('ONES')": ["x_weight"], "init.LSTMBias(2.5)": ["x_weight", "x_bias"],
    "init.Xavier(rnd_type='x')": ["x_weight"], "init.Orthogonal(rand_type='x')": ["x_weight"],
}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("code", MADE)
def test_initializers_of_initializers_are_mxnets(oracle, code, plain):
    """The values, or an error on both sides: a ValueError where MXNet raises one."""
    for name in MADE[code]:
        want = oracle.call("mx_scripts.run", "training", "filled", code, name, {}, plain)
        got = training.filled(mx, code, name, {}, plain)
        if isinstance(want, str):
            assert got in ("error", "ValueError") and (want != "ValueError" or got == want), name
        else:
            np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("init, params", JSON)
def test_json_is_mxnets(oracle, init, params):
    text = training.dumped(mx, init, params)
    assert text == oracle.call("mx_scripts.run", "training", "dumped", init, params)
    assert initializer.create(text) == getattr(mx.init, init)(**params)


@pytest.mark.parametrize("by_attribute", [False, True])
@pytest.mark.parametrize("mode, layers, both", [("lstm", 2, True), ("gru", 1, False),
                                                ("rnn_relu", 2, True), ("lstm", 1, False)])
def test_fused_rnn_is_mxnets(oracle, mode, layers, both, by_attribute):
    args = (4, layers, mode, both, by_attribute)
    json, values = oracle.call("mx_scripts.run", "recurrent", "initialized", *args)
    ours = recurrent.initialized(mx, *args)
    assert ours[0] == json
    np.testing.assert_array_equal(ours[1], values)


def test_fused_rnn_shows_its_initializer_what_mxnets_does(oracle):
    theirs = oracle.call("mx_scripts.run", "recurrent", "pieces_seen")
    assert recurrent.pieces_seen(mx) == [tuple(seen) for seen in theirs]


def test_fused_rnn_from_json_and_wrong_use():
    init = mx.init.FusedRNN('["constant", {"value": 4}]', 2, 1, "lstm")
    assert initializer.create(init.dumps()) == init  # MXNet cannot read what it wrote here
    with pytest.raises(MXNetError, match="mode is 'lstn'"):
        mx.init.FusedRNN(None, 2, 1, "lstn")
    with pytest.raises(MXNetError, match="parameters has 57 elements, expected 32"):
        init._init_weight("x", mx.nd.zeros((57,)))
    with pytest.raises(MXNetError, match="there is none; give `init`"):
        mx.init.FusedRNN(None, 2, 1, "lstm")._init_weight("x", mx.nd.zeros((56,)))


def filled(init, shape) -> np.ndarray:
    array = mx.nd.zeros(shape)
    init(InitDesc("x_weight"), array)
    return array.asnumpy()


# shape (60, 40, 3, 2): fan-in 240, fan-out 360
SPREAD = [
    (mx.init.Uniform(0.3), 0.3 / math.sqrt(3), 0.3),
    (mx.init.Normal(0.2), 0.2, None),
    (mx.init.Xavier(), math.sqrt(1 / 300), math.sqrt(3 / 300)),
    (mx.init.Xavier(factor_type="in", magnitude=2), math.sqrt(2 / 3 / 240), math.sqrt(2 / 240)),
    (mx.init.Xavier("gaussian", "out", 2), math.sqrt(2 / 360), None),
    (mx.init.MSRAPrelu("in", 0.5), math.sqrt(2 / 1.25 / 240), None),
    (mx.init.Orthogonal(), 1.414 / math.sqrt(240), None),
]


@pytest.mark.parametrize("init, deviation, bound", SPREAD)
def test_distribution(init, deviation, bound):
    values = filled(init, (60, 40, 3, 2))
    # 14,400 values: the deviation is known to about 0.6 percent, the mean to 0.8
    assert values.std() == pytest.approx(deviation, rel=0.03)
    assert abs(values.mean()) < 0.04 * deviation
    if bound:
        assert 0.99 * bound < np.abs(values).max() <= bound


@pytest.mark.parametrize("kind", ["uniform", "normal"])
@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (4, 3, 2, 2)])
def test_orthogonal(kind, shape):
    rows = filled(mx.init.Orthogonal(2.0, kind), shape).reshape(shape[0], -1)
    gram = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)


def test_one_seed_governs_all():
    def draw():
        mx.random.seed(5)
        return filled(mx.init.Xavier(), (4, 5))

    np.testing.assert_array_equal(draw(), draw())
    assert (filled(mx.init.Xavier(), (4, 5)) != draw()).any()


def test_half_precision_arrays():
    array = mx.nd.zeros((3, 3), dtype="float16")
    mx.init.Uniform()(InitDesc("x_weight"), array)
    assert array.dtype == np.float16 and np.ptp(array.asnumpy()) > 0


def test_load(tmp_path, caplog):
    path = str(tmp_path / "x.params")
    mx.nd.save(path, {"arg:w": mx.nd.ones((2, 2)), "aux:v": mx.nd.ones((3,))})
    load = mx.init.Load(path, default_init=mx.init.Zero(), verbose=True)
    array, other = mx.nd.zeros((2, 2)), mx.nd.ones((2,))
    with caplog.at_level(logging.INFO):
        load("w", array)
        load("u_weight", other)
    assert array.asnumpy().sum() == 4 and other.asnumpy().sum() == 0
    assert caplog.messages == ["Initialized w by loading", "Initialized u_weight by default"]
    with pytest.raises(MXNetError, match=r"shape \(3,\), loaded \(2, 2\)"):
        load("w", mx.nd.zeros((3,)))
    with pytest.raises(MXNetError, match="no default initializer"):
        mx.init.Load({})("w", array)


def test_mixed():
    mixed = mx.init.Mixed(["fc1", ".*weight"], [mx.init.One(), mx.init.Zero()])
    arrays = [mx.nd.full((2,), 5) for _ in range(2)]
    for name, array in zip(["fc1_weight", "fc2_weight"], arrays, strict=True):
        mixed(name, array)
    assert [float(array.asnumpy()[0]) for array in arrays] == [1, 0]
    with pytest.raises(MXNetError, match="did not match any pattern"):
        mixed("other", arrays[0])
    with pytest.raises(MXNetError, match="2 patterns for 1"):
        mx.init.Mixed(["a", "b"], [mx.init.Zero()])


def test_verbosity(caplog):
    init = mx.init.One().set_verbosity(True)
    with caplog.at_level(logging.INFO):
        init(InitDesc("x_bias"), mx.nd.ones((2,)))
        init.set_verbosity(True, lambda array: "seen")
        init(InitDesc("x", {"__init__": "ones"}), mx.nd.ones((2,)))
    assert caplog.messages == ["Initialized x_bias as bias: 0.0", "Initialized x as ones: seen"]


def test_registered_initializer_is_found_by_name():
    @mx.init.register
    class Sevens(mx.init.Initializer):
        def __init__(self, value=7):
            super().__init__(value=value)
            self.value = value

        def _init_weight(self, desc, arr):
            arr[:] = self.value

    array = mx.nd.zeros((2,))
    mx.init.Zero()(InitDesc("x", {"__init__": Sevens(8).dumps()}), array)
    assert array.asnumpy().tolist() == [8, 8]


def test_desc():
    desc = InitDesc("x_weight", {"key": "value"})
    mx.init.One()(desc, mx.nd.zeros((1,)))
    assert desc == "x_weight" and desc.attrs == {"key": "value"}
    assert desc.global_init == mx.init.One()


def test_sources_and_pickles_of_classes_are_found():
    made = mx.init.Xavier(magnitude=2)
    assert inspect.getsource(type(made)).startswith("@register")
    assert pickle.loads(pickle.dumps(made)) == made
    # protocol 0, as written when `nbmod.initializer` was one file
    assert pickle.loads(b"cnbmod.initializer\nXavier\n.") is mx.init.Xavier


def _module(init):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params(init)


RECEIVERS = {
    "initialize": lambda init: mx.gluon.nn.Dense(2).initialize(init),
    "initialize, of a known shape": lambda init: mx.gluon.nn.Dense(2, in_units=3).initialize(init),
    "weight_initializer": lambda init: mx.gluon.nn.Dense(2, weight_initializer=init).initialize(),
    "params.get": lambda init: mx.gluon.ParameterDict().get(
        "w", shape=(2, 0), init=init, allow_deferred_init=True).initialize(),
    "init_params": _module,
    "Mixed": lambda init: mx.init.Mixed([".*"], [init]),
    "Variable": lambda init: mx.sym.var("x", init=init),
}


@pytest.mark.parametrize("receiver", RECEIVERS)
def test_what_fills_nothing_is_refused_at_once(receiver):
    """A class, which would make an initializer and leave zeros, and what cannot be called."""
    RECEIVERS[receiver](mx.init.One())
    for wrong in (mx.init.Xavier, 0.5):
        with pytest.raises((AssertionError, TypeError), match="Xavier|float|0.5") as caught:
            RECEIVERS[receiver](wrong)
        assert isinstance(caught.value, (mx.MXNetError, TypeError))
        assert "positional argument" not in str(caught.value)


@pytest.mark.parametrize("receiver", list(RECEIVERS)[:4])
def test_a_misspelt_initializer_is_named_before_shapes_are_known(receiver):
    with pytest.raises(AssertionError, match="did you mean 'xavier'"):
        RECEIVERS[receiver]("xavierr")


def test_an_initializer_by_name_can_be_verbose(caplog):
    with caplog.at_level(logging.INFO):
        mx.gluon.nn.Dense(2, in_units=3).initialize("xavier", verbose=True)
    assert "weight" in caplog.text
