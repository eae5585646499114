"""Training symbols without labels: what stays, under which names, with the values of Module."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import ArgumentError, ArgumentTypeError
from nbmod.symbol.inference_symbol import implied_shapes, inference_symbol, labels_of, likely_shape
from tests.made_archives import detector, recognizer_for_training

LOSSES = ["SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput",
          "MAERegressionOutput", "SVMOutput"]


def dense(name="fc", data="data", size=3):
    return mx.sym.FullyConnected(mx.sym.Variable(data), num_hidden=size, name=name)


def outputs(symbol, **inputs):
    bound = symbol.simple_bind(mx.cpu(), grad_req="null",
                               **{name: value.shape for name, value in inputs.items()})
    for name, array in bound.arg_dict.items():
        values = np.random.RandomState(zlib.crc32(name.encode())).uniform(-1, 1, array.shape)
        array[:] = inputs.get(name, values)
    return [one.asnumpy() for one in bound.forward()]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("label", ["variable", "declared", "computed"])
def test_loss_layers_predict_without_labels(loss, label):
    """A label may be any variable, declare the batch of training, or be computed."""
    own = mx.sym.Variable("target", shape=(7,) if label == "declared" else None)
    own = mx.sym.slice_axis(own, axis=1, begin=0, end=1) if label == "computed" else own
    net = getattr(mx.sym, loss)(dense(), own, name="out")
    found = inference_symbol(net)
    assert found.list_outputs() == ["out_output"]
    name = "out_label" if label == "computed" else "target"
    assert found.list_arguments() == ["data", "fc_weight", "fc_bias", name]
    x = np.random.RandomState(0).uniform(-1, 1, (2, 4)).astype(np.float32)
    assert found.infer_shape(data=(2, 4))[1] == [(2, 3)]
    direct = outputs(inference_symbol(net, "fc"), data=x)[0]
    want = {"SoftmaxOutput": mx.nd.softmax, "LogisticRegressionOutput": mx.nd.sigmoid}.get(
        loss, lambda value: value)(mx.nd.array(direct)).asnumpy()
    # The last bits of exp may differ between the two operators.
    np.testing.assert_allclose(outputs(found, data=x)[0], want, rtol=1e-5)


def test_a_detector_answers_without_a_label():
    net = detector()
    found = inference_symbol(net)
    assert found.list_outputs() == ["cls_prob_output", "det_out_output"]
    assert "label" not in found.list_arguments() and net.list_arguments().count("label") == 1
    x = np.random.RandomState(0).uniform(0, 1, (2, 3, 32, 32)).astype(np.float32)
    label = np.full((2, 1, 5), -1, np.float32)
    chances, _, _, boxes = outputs(net, data=x, label=label)
    for got, want in zip(outputs(found, data=x), (chances, boxes), strict=True):
        assert np.array_equal(got, want)


def test_margins_of_labels_are_left_out():
    found = inference_symbol(recognizer_for_training())
    assert len(found.list_outputs()) == 1 and "fc7_weight" not in found.list_arguments()
    assert not labels_of(found)


@pytest.mark.parametrize("end", [
    lambda x, label: mx.sym.softmax_cross_entropy(x, label),
    lambda x, label: mx.sym.MakeLoss(-mx.sym.log(mx.sym.pick(x, label))),
    lambda x, label: mx.sym.make_loss(mx.sym.square(x - mx.sym.one_hot(label, depth=3)))])
def test_of_losses_alone_the_predictions_are_kept(end):
    net = end(dense(), mx.sym.Variable("softmax_label"))
    assert inference_symbol(net).list_outputs() == ["fc_output"]


def test_outputs_are_chosen():
    net = detector()
    for chosen, names in [("det_out", ["det_out_output"]), ("det_out_output", ["det_out_output"]),
                          (-1, ["det_out_output"]), ([0, "multibox_loc_pred"],
                          ["cls_prob_output", "multibox_loc_pred_output"]),
                          (net.get_internals()["conv1_output"], ["conv1_output"])]:
        assert inference_symbol(net, chosen).list_outputs() == names
    split = mx.sym.split(dense(size=4), num_outputs=2, name="parts")
    assert inference_symbol(split[0] + split[1], "parts").list_outputs() == ["parts_output0",
                                                                      "parts_output1"]


@pytest.mark.parametrize(("chosen", "error"), [
    ("loc_loss", r"loc_loss \(MakeLoss\) is computed from the labels \['label'\]"),
    (["det_out", 1], "is computed from the labels"), (4, "no output 4; there are 4"),
    ("det_ou", "no outputs are called 'det_ou'.*did you mean"), ("data", "no outputs are called"),
    (1.5, "outputs is 1.5, expected names"), ([], r"outputs is \[\], expected names")])
def test_wrong_outputs_are_named(chosen, error):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=error):
        inference_symbol(detector(), chosen)


def test_a_name_of_two_nodes_is_refused():
    net = mx.sym.Group([mx.sym.relu(dense("a"), name="same"), mx.sym.tanh(dense("b"), name="same")])
    with pytest.raises(ArgumentError, match="2 outputs are called 'same'"):
        inference_symbol(net, "same")


def test_what_is_no_loss_may_need_its_label():
    """A label that is an input, as that of a conditional generator, cannot be left out."""
    net = dense() + mx.sym.FullyConnected(mx.sym.Variable("label"), num_hidden=3, name="other")
    with pytest.raises(ArgumentError, match=r"\(elemwise_add\) is computed from the labels"):
        inference_symbol(net)
    assert inference_symbol(net, known=["label"]) is net
    shapes = {"fc_weight": (3, 2), "fc_bias": (3,), "other_weight": (3, 1), "other_bias": (3,)}
    weights = {name: mx.nd.ones(shape) for name, shape in shapes.items()}
    predictor = mx.Predictor((net, weights, {}), {"data": (1, 2), "label": (1, 1)})
    assert predictor([[1, 1]], [[1]])[0].tolist() == [[5, 5, 5]]


def test_an_input_that_is_its_own_target_is_no_label():
    x = mx.sym.Variable("data")
    net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(x, num_hidden=4, name="fc"), x)
    assert labels_of(net) == [] and inference_symbol(net) is net
    weights = {"fc_weight": mx.nd.ones((4, 4)), "fc_bias": mx.nd.zeros(4)}
    assert mx.Predictor((net, weights, {}), {"data": (1, 4)})([[1, 2, 3, 4]])[0].tolist() == [
        [10] * 4]


def test_networks_without_labels_stay_as_they_are():
    net = mx.sym.Group([dense(), mx.sym.MakeLoss(mx.sym.Variable("loss"))])
    assert inference_symbol(net) is net


def test_long_chains_are_cut():
    x = mx.sym.Variable("data")
    for _ in range(20_000):
        x = x + 1
    net = mx.sym.Group([x, mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label"), name="out")])
    assert inference_symbol(net).list_outputs()[1] == "out_output"


def test_shapes_are_told_by_the_first_layer():
    conv = mx.sym.Convolution(mx.sym.BatchNorm((mx.sym.Variable("data") - 1) * 2, name="bn"),
                              kernel=(3, 3), num_filter=4, num_group=2, name="conv")
    assert likely_shape(conv, {"conv_weight": (4, 3, 3, 3)}, "data") == [
        "batch size", 6, "height", "width"]
    assert likely_shape(mx.sym.relu(mx.sym.Variable("data")), {}, "data") == ["batch size", "..."]
    assert implied_shapes(conv, {"conv_weight": (4, 3, 3, 3)}) == {}
    assert implied_shapes(dense(), {"fc_weight": (3, 7), "fc_bias": (3,)}) == {"data": (1, 7)}
