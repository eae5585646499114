"""Graphs with the casts of MXNet's automatic mixed precision: float16 where it is safe."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ndarray import eager
from nbmod.symbol import compose
from tests.oracle.client import Oracle
from tests.programs import amp_programs, common

SHAPE = (2, 3, 8, 8)
S = mx.sym


def network():
    """Layers that become float16, functions that stay float32, and a sum of both."""
    top = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=4,
                             no_bias=True, name="conv")
    top = mx.sym.Activation(mx.sym.BatchNorm(top, name="norm", fix_gamma=False), act_type="tanh")
    below = mx.sym.Convolution(top, kernel=(1, 1), num_filter=4, no_bias=True, name="conv1")
    top = mx.sym.FullyConnected(mx.sym.log(1 + mx.sym.square(below)) + top, num_hidden=5, name="fc")
    return mx.sym.SoftmaxOutput(top, name="softmax")


def dense(x, name):
    return S.FullyConnected(x, num_hidden=3, no_bias=True, name=name)


def meetings():
    """Operators on tensors of known and unknown types, all of which MXNet can convert."""
    x, y = S.Variable("data"), S.Variable("other")
    low, single = dense(x, "low"), S.exp(x, name="single")
    rectified = S.relu(single, name="rectified")
    parts = S.split(low, num_outputs=3, name="parts")
    return {
        "single and variable": S.elemwise_add(single, x, name="sum"),
        "low and cast variable": S.elemwise_add(x, low, name="sum"),
        "low and single": S.elemwise_add(S.elemwise_add(low, single, name="sum"), low, name="two"),
        "low and neutral single": S.broadcast_mul(low, rectified, name="times"),
        "low and unknown": S.concat(low, S.relu(y, name="unknown"), x, name="joined"),
        "all kinds": S.add_n(low, single, x, name="sum"),
        "parts": S.Group([S.elemwise_add(parts[0], parts[1], name="sum"), parts[2]]),
        "low after unknown": dense(S.elemwise_add(x, y, name="sum"), "next"),
        "conditional": S.LeakyReLU(S.LeakyReLU(low, act_type="gelu", name="gelu"),
                                   act_type="elu", name="elu"),
        "rows": dense(S.Embedding(x, input_dim=4, output_dim=2, name="rows"), "next"),
        "outputs": S.Group([low, S.BatchNorm(low, name="norm"), S.softmax(low, name="soft")]),
        "loss": S.LinearRegressionOutput(x, low, name="loss"),
    }


@pytest.mark.parametrize("name", meetings())
def test_casts_are_mxnets(oracle, name):
    symbol = meetings()[name]
    want = mx.sym.load_json(oracle.call("mx_symbol.mixed_precision", symbol.tojson()))
    got = mx.contrib.amp.convert_symbol(symbol)
    assert got.tojson(remove_amp_cast=False) == want.tojson(remove_amp_cast=False)


def test_network_is_converted_as_by_mxnet(oracle):
    symbol = network()
    want = mx.sym.load_json(oracle.call("mx_symbol.mixed_precision", symbol.tojson()))
    got = mx.contrib.amp.convert_symbol(symbol)
    assert got.tojson(remove_amp_cast=False) == want.tojson(remove_amp_cast=False)


def test_lists_are_mxnets(oracle):
    for name in ("lp16_ops", "fp32_ops", "lp16_fp32_ops", "conditional_fp32_ops",
                 "widest_type_cast", "loss_output_functions", "lp16_use_fp32_params"):
        got = getattr(mx.contrib.amp, f"list_{name}")("float16")
        want = oracle.call("mx_symbol.list_of_amp", f"list_{name}")
        assert (got and sorted(map(list, got))) == (want and sorted(map(list, want))), name


@pytest.fixture(scope="module")
def converted(oracle):
    return oracle.call("mx_symbol.mixed_precision", network().tojson())


def test_casts_are_read_and_written(converted, tmp_path):
    symbol = mx.sym.load_json(converted)
    symbol.save(str(tmp_path / "all.json"), remove_amp_cast=False)
    assert (tmp_path / "all.json").read_text() == converted
    assert "amp_cast" in converted and "amp_cast" not in symbol.tojson()


def test_types_are_mxnets(converted, oracle):
    symbol = mx.sym.load_json(converted).get_internals()
    known = {name: "float32" for name in symbol.list_arguments()}
    want = oracle.call("mx_symbol.types", converted, known)
    got = common.infer(symbol, types=known)
    assert got["out_types"] == want["out_types"] and "float16" in got["out_types"]
    assert (got["arg_types"], got["aux_types"]) == (want["arg_types"], want["aux_types"])


def test_results_and_gradients_are_those_of_single_precision(converted):
    rng = np.random.default_rng(0)
    single, mixed = network(), mx.sym.load_json(converted)
    shapes, _, aux_shapes = single.infer_shape(data=SHAPE)
    names = [*single.list_arguments(), *single.list_auxiliary_states()]
    values = {name: rng.uniform(0.1, 1.0, shape).astype(np.float32)
              for name, shape in zip(names, [*shapes, *aux_shapes], strict=True)}  # fmt: skip
    values["softmax_label"] = np.array([1, 3], np.float32)
    grad = {name: "write" for name in single.list_arguments() if name != "softmax_label"}
    want, got = (common.run(mx, symbol, values, grad) for symbol in (single, mixed))
    for kind in ("grads", "aux"):
        for name, array in want[kind].items():
            # float16 has 11 bits, and gradients pass through a dozen of its roundings
            tolerance = 2e-2 * np.abs(array).max()
            np.testing.assert_allclose(got[kind][name], array, 0, tolerance, err_msg=name)
    np.testing.assert_allclose(got["outputs"][0], want["outputs"][0], 0, 1e-2)


@pytest.fixture
def own_oracle(oracle):
    """MXNet in a process of its own, whose operators may be changed."""
    client = Oracle(oracle.python)
    yield client
    client.close()


def test_amp_init_casts_inputs_as_mxnet_does(own_oracle, monkeypatch):
    monkeypatch.setattr(compose, "cast_inputs", None)
    monkeypatch.setattr(eager, "cast_inputs", None)
    want = own_oracle.call("mx_scripts.run", "amp_programs", "started")
    got = amp_programs.started(mx)
    for name, text in want.items():
        symbol = mx.sym.load_json(text)
        assert got[name] == symbol.tojson(remove_amp_cast=False), name
    assert amp_programs.types(mx)[:8] == own_oracle.call("mx_scripts.run", "amp_programs",
                                                         "types")[:8]


def test_blocks_are_converted_as_by_mxnet(oracle):
    want = oracle.call("mx_scripts.run", "amp_programs", "converted")
    got = amp_programs.converted(mx)
    assert got.keys() == want.keys()
    for name, (text, inputs, parameters) in want.items():
        symbol = mx.sym.load_json(text)
        assert got[name][0] == symbol.tojson(remove_amp_cast=False), name
        assert (got[name][1], got[name][2]) == (inputs, parameters), name


def test_blocks_traced_before_init_stay_as_in_mxnet(own_oracle, monkeypatch):
    monkeypatch.setattr(compose, "cast_inputs", None)
    monkeypatch.setattr(eager, "cast_inputs", None)
    want = own_oracle.call("mx_scripts.run", "amp_programs", "traced_before")
    assert want["traced"][1] == 0 < want["hybridized"][1]
    assert amp_programs.traced_before(mx) == want
