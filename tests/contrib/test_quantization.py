"""`mx.contrib.quantization`: quantized networks predict what float32 networks predict."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

import nbmod as mx
from nbmod.contrib import quantization
from nbmod.contrib.quantization import quantize_graph, quantize_model, quantize_model_mkldnn
from nbmod.ops import OPS
from nbmod.ops.param import fields_of

IMAGES = (64, 1, 8, 8)


def network():
    """Convolutions with batch norm, a residual connection, pooling, two dense layers."""
    x = mx.sym.Variable("data")
    top = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=8, name="conv0")
    top = mx.sym.Activation(mx.sym.BatchNorm(top, name="norm0"), act_type="relu", name="relu0")
    below = mx.sym.Convolution(top, kernel=(3, 3), pad=(1, 1), num_filter=8, name="conv1")
    top = mx.sym.elemwise_add(mx.sym.BatchNorm(below, name="norm1", fix_gamma=False), top,
                              name="sum")
    top = mx.sym.Pooling(top, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    top = mx.sym.FullyConnected(mx.sym.Flatten(top, name="flat"), num_hidden=16, name="fc0")
    top = mx.sym.Activation(top, act_type="relu", name="relu1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(top, num_hidden=4, name="fc1"),
                                name="softmax")


def images(count):
    """Bright quadrants in noise; the label is the quadrant."""
    rng = np.random.default_rng(count)
    labels = rng.integers(0, 4, count)
    data = rng.uniform(-0.6, 0.6, (count, *IMAGES[1:])).astype(np.float32)
    for image, label in zip(data, labels, strict=True):
        row, column = 4 * (label // 2), 4 * (label % 2)
        image[0, row:row + 4, column:column + 4] += 0.5
    return data, labels.astype(np.float32)


@pytest.fixture(scope="module")
def begun():
    """The symbol, its parameters after a step of training, and two batches for calibration."""
    batches = mx.io.NDArrayIter(*images(2 * IMAGES[0]), batch_size=IMAGES[0])
    module = mx.mod.Module(network())
    module.bind(batches.provide_data, batches.provide_label)
    mx.random.seed(0)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    module.forward_backward(next(batches))
    module.update()
    batches.reset()
    return module.symbol, *module.get_params(), batches


@pytest.fixture(scope="module")
def trained():
    """The symbol, its parameters, and data for calibration."""
    data, labels = images(512)
    batches = mx.io.NDArrayIter(data, labels, batch_size=IMAGES[0])
    module = mx.mod.Module(network())
    mx.random.seed(0)
    module.fit(batches, num_epoch=3, initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    return module.symbol, *module.get_params(), batches


def predictions(symbol, args, aux, data):
    batches = mx.io.NDArrayIter(data, np.zeros(len(data)), batch_size=len(data))
    module = mx.mod.Module(symbol)
    module.bind(batches.provide_data, batches.provide_label, for_training=False)
    module.set_params(args, aux)
    return module.predict(batches).asnumpy()


def ops_of(symbol):
    return [node["op"] for node in json.loads(symbol.tojson())["nodes"] if node["op"] != "null"]


@pytest.mark.parametrize("function", [quantize_model, quantize_model_mkldnn])
@pytest.mark.parametrize("options", [
    {"calib_mode": "naive"}, {"calib_mode": "entropy"}, {"calib_mode": "none"},
    {"calib_mode": "naive", "quantized_dtype": "auto", "quantize_mode": "full"}])  # fmt: skip
def test_predictions_agree(trained, function, options):
    symbol, args, aux, batches = trained
    data, labels = images(256)
    want = predictions(symbol, args, aux, data)
    assert (want.argmax(1) == labels).mean() > 0.97
    if options["calib_mode"] != "none":
        options = {**options, "calib_data": batches}
    quantized, qargs, qaux = function(symbol, args, aux, **options)
    assert "_contrib_quantized_conv" in ops_of(quantized)
    got = predictions(quantized, qargs, qaux, data)
    assert (got.argmax(1) == want.argmax(1)).mean() > 0.98
    assert np.abs(got - want).mean() < 0.02


def test_norms_are_folded_first(begun):
    symbol, args, aux, batches = begun
    quantized, qargs, qaux = quantize_model_mkldnn(symbol, args, aux, calib_mode="naive",
                                                   calib_data=batches)
    assert not qaux and not any("norm" in name or "Norm" in name for name in ops_of(quantized))
    assert "conv0_folded_bias_quantize" in qargs and "norm0_gamma" not in qargs


def test_a_missing_parameter_of_a_folded_norm_is_named(begun):
    symbol, args, aux, _ = begun
    with pytest.raises(mx.MXNetError, match="norm0_moving_mean is in neither.*conv0"):
        quantize_model_mkldnn(symbol, args, {}, calib_mode="none")


def test_checkpoint_of_a_quantized_network(begun, tmp_path):
    symbol, args, aux, batches = begun
    made = quantize_model(symbol, args, aux, calib_mode="naive", calib_data=batches)
    mx.model.save_checkpoint(str(tmp_path / "net"), 1, *made)
    data, _ = images(8)
    loaded = mx.model.load_checkpoint(str(tmp_path / "net"), 1)
    np.testing.assert_array_equal(predictions(*loaded, data), predictions(*made, data))


def test_arrays_are_calibration_data(begun):
    symbol, args, aux, _ = begun
    data, _ = images(32)
    made = [quantize_model(symbol, args, aux, calib_mode="naive", calib_data=given)
            for given in (mx.nd.array(data), data, [data])]
    assert len({symbol.tojson() for symbol, _, _ in made}) == 1
    with pytest.raises(ValueError, match="2 arrays, expected one for each of"):
        quantize_model(symbol, args, aux, calib_data=[data, data])


def test_number_of_samples_and_calib_layer(begun, caplog):
    symbol, args, aux, batches = begun
    logger = logging.getLogger("quantization")
    with caplog.at_level("INFO", "quantization"):
        quantized, _, _ = quantize_model(
            symbol, args, aux, calib_mode="naive", calib_data=batches, num_calib_examples=100,
            logger=logger, calib_layer=lambda name: name != "fc1_output")
    assert "2 batches with batch_size=64" in caplog.text and "using 128 examples" in caplog.text
    assert "conv0 (Convolution) is quantized" in caplog.text
    attrs = quantized.attr_dict()
    assert "min_calib_range" in attrs["requantize_fc0"]
    assert "min_calib_range" not in attrs["requantize_fc1"]


def test_excluded_layers_stay_float(begun):
    symbol, args, aux, batches = begun
    quantized, qargs, _ = quantize_model(
        symbol, args, aux, calib_mode="naive", calib_data=batches,
        excluded_sym_names=["conv0"], excluded_op_names=["FullyConnected"])
    found = ops_of(quantized)
    assert found.count("Convolution") == 1 and found.count("FullyConnected") == 2
    assert "conv0_weight" in qargs and "conv1_weight_quantize" in qargs


def test_fixed_gamma_is_one():
    norm = mx.sym.BatchNorm(mx.sym.Variable("data"), name="norm")
    args = {"norm_gamma": mx.nd.full((3,), 7), "norm_beta": mx.nd.zeros((3,))}
    qargs = quantize_graph(norm, args, {}, calib_mode="naive")[1]
    assert qargs["norm_gamma"].asnumpy().tolist() == [1, 1, 1]


def test_unquantizable_parameters_stay_float():
    x = mx.sym.Variable("data")
    for symbol in (mx.sym.Pooling(x, kernel=(2, 2), pool_type="sum"),
                   mx.sym.Pooling(x, kernel=(2, 2), layout="NHWC"),
                   mx.sym.Convolution(x, kernel=(2, 2), num_filter=2, layout="NHWC"),
                   mx.sym.BatchNorm(x, axis=-1), mx.sym.BatchNorm(x, output_mean_var=True),
                   mx.sym.Activation(x, act_type="tanh")):
        made = quantize_graph(symbol, {}, {}, calib_mode="naive")[0]
        assert ops_of(made) == ops_of(symbol)


def test_a_tensor_read_twice_is_dequantized_once():
    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, no_bias=True, name="fc")
    both = mx.sym.Group([dense, mx.sym.tanh(dense), mx.sym.exp(dense)])
    args = {"fc_weight": mx.nd.array([[1, 2], [3, 4]])}
    made, qargs, _, _ = quantize_graph(both, args, {}, calib_mode="none")
    assert ops_of(made).count("_contrib_dequantize") == 1
    outputs = made.eval(data=mx.nd.array([[0.5, 1]]), **qargs)
    np.testing.assert_allclose(outputs[1].asnumpy(), np.tanh(outputs[0].asnumpy()), 1e-6)


@pytest.mark.parametrize("options, message", [
    ({}, "calib_data must be provided when calib_mode=entropy"),
    ({"calib_mode": "best"}, "unknown calibration mode best"),
    ({"calib_mode": "none", "quantized_dtype": "int4"}, "unknown quantized_dtype int4"),
    ({"calib_mode": "none", "quantize_granularity": "row"}, "unknown quantize_granularity row"),
    ({"calib_mode": "none", "excluded_sym_names": "fc"}, "excluded_sym_names must be a list"),
    ({"calib_mode": "none", "excluded_op_names": "fc"}, "excluded_op_names must be a list"),
    ({"calib_mode": "naive", "calib_data": 3}, "calib_data is of type")])  # fmt: skip
def test_invalid_arguments(options, message):
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    with pytest.raises(ValueError, match=message):
        quantize_model(symbol, {}, {}, **options)


def test_unknown_mode_and_networks_of_gluon():
    with pytest.raises(mx.MXNetError, match="unrecognized quantize mode: half"):
        quantize_graph(mx.sym.Variable("data"), {}, {}, quantize_mode="half")
    with pytest.raises(mx.MXNetError, match="quantize_net: Gluon is not part of nbmod"):
        quantization.quantize_net(object())


def test_a_collector_of_the_users():
    class Fixed:
        min_max_dict = {"data": (-2.0, 2.0), "fc_output": (-3.0, 3.0)}

        def collect(self, name, arr):
            raise AssertionError

    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    args = {"fc_weight": mx.nd.ones((2, 2)), "fc_bias": mx.nd.zeros(2)}
    qsym, qargs, aux, collector = quantize_graph(dense, args, {}, calib_mode="customize",
                                                 LayerOutputCollector=Fixed())
    made, qargs, _ = quantization.calib_graph(qsym, args, aux, collector, "customize")
    assert made.attr_dict()["requantize_fc"]["max_calib_range"] == "3"
    assert sorted(qargs) == ["fc_bias_quantize", "fc_bias_quantize_max", "fc_bias_quantize_min",
                             "fc_weight_quantize", "fc_weight_quantize_max",
                             "fc_weight_quantize_min"]
    with pytest.raises(ValueError, match="expected `none`.*customize"):
        quantize_graph(dense, args, {}, calib_mode="customize")
    with pytest.raises(ValueError, match="unknown calibration mode none"):
        quantization.calib_graph(qsym, args, aux, collector, "none")


def test_histograms_grow_by_whole_bins():
    collector = quantization.LayerHistogramCollector(5, ["x"])
    collector.collect("x", mx.nd.array([-1, 0.5, 1]))
    collector.collect("x", mx.nd.array([0, 1.5]))
    collector.collect("y", mx.nd.array([0]))
    assert list(collector.hist_dict) == ["x"]
    counts, edges, low, high, end = collector.hist_dict["x"]
    assert counts.tolist() == [0, 0, 1, 0, 1, 1, 1, 0, 1] and len(edges) == 10
    assert (low, high, end) == (-1, 1.5, pytest.approx(1.8))


def test_zeros_then_numbers():
    collector = quantization.LayerHistogramCollector(5)
    for values in ([0, 0], [3, -1]):
        collector.collect("x", mx.nd.array(values))
    counts, _, low, high, end = collector.hist_dict["x"]
    assert (counts.sum(), low, high) == (4, -1, 3) and end >= 3


def twins(name, norms=False):
    """Two layers of one weight, whose inputs have ranges that differ; the second one's name."""
    data, weight, bias = map(mx.sym.var, ("data", "fc_weight", "fc_bias"))
    layers = [mx.sym.FullyConnected(x, weight, bias, num_hidden=8, name=each)
              for x, each in ((data, "fc"), (data * 50, name))]
    if norms:
        layers = [mx.sym.BatchNorm(layer, *[mx.sym.var(f"{part}{i}") for part in (
            "gamma", "beta", "moving_mean", "moving_var")], fix_gamma=False, name="norm")
            for i, layer in enumerate(layers)]
    return mx.sym.Group(layers)


def twins_on_integers(function, name, **options):
    """Their outputs, quantized by `function`, and in float32."""
    rng = np.random.default_rng(0)
    net = twins(name, function is quantize_model_mkldnn)
    shapes, _, states = net.infer_shape(data=(64, 16))
    args, aux = ({each: mx.nd.array(rng.uniform(0.5, 1.5, shape) * rng.choice([1, -1], shape)
                                    if "weight" in each else rng.uniform(0.5, 1.5, shape))
                  for each, shape in zip(names, found, strict=True) if each != "data"}
                 for names, found in ((net.list_arguments(), shapes),
                                      (net.list_auxiliary_states(), states)))
    data = mx.nd.array(rng.uniform(-1, 1, (64, 16)))
    found, qargs, qaux = function(net, args, aux, label_names=None, calib_data=data,
                                  calib_mode="naive", **options)
    return found, *([array.asnumpy() for array in symbol.bind(
        mx.cpu(), {"data": data, **given}, aux_states=states).forward()]
        for symbol, given, states in ((found, qargs, qaux), (net, args, aux)))


@pytest.mark.parametrize("function", [quantize_model, quantize_model_mkldnn])
def test_layers_of_one_name_have_their_own_ranges(function):
    """Of both, MXNet takes one range; that of norms that are folded is a weight of their own."""
    _, *named = twins_on_integers(function, "other")
    found, *same = twins_on_integers(function, "fc")
    for one, other in zip(same[0] + same[1], named[0] + named[1], strict=True):
        np.testing.assert_array_equal(one, other)
    for integers, floats in zip(*same, strict=True):    # data, weight, output: 1 / 254 each
        assert np.abs(integers - floats).max() < 0.02 * np.abs(floats).max()
    assert found.list_outputs() == ["fc_dequantize_output", "fc_1_dequantize_output"]


def test_excluding_a_name_excludes_all_layers_of_it():
    found, *_ = twins_on_integers(quantize_model, "fc", excluded_sym_names=["fc"])
    assert "_contrib_quantize_v2" not in ops_of(found)


def test_collectors_refuse_tensors_of_one_name():
    with pytest.raises(ValueError, match=r"called \['fc_output'\].*quantize_model"):
        quantize_graph(twins("fc"), {}, {}, calib_mode="naive")
    quantize_graph(twins("fc"), {}, {}, calib_mode="none")      # ranges are found in each run


@pytest.mark.parametrize(("quantized", "plain"), [
    ("_contrib_quantized_conv", "Convolution"), ("_contrib_quantized_pooling", "Pooling"),
    ("_contrib_quantized_batch_norm", "BatchNorm")])
def test_operators_on_integers_have_the_parameters_of_those_on_floats(quantized, plain):
    """In name, order and default, as in MXNet: eps is float32(1e-3) in both."""
    ours, theirs = ([(field.name, field.default) for field in fields_of(OPS.find(name))]
                    for name in (quantized, plain))
    assert ours == theirs
