"""Attributes whose text has a meaning for nbmod: malformed ones are named, with their variable."""

from __future__ import annotations

import json

import pytest

import nbmod as mx

KEYS = ("__lr_mult__", "__wd_mult__", "__shape__", "__dtype__", "__init__", "__ctx_group__",
        "__storage_type__", "__profiler_scope__", "__force_mirroring__", "__mirror_stage__",
        "__layout__", "lr_mult", "wd_mult", "weight_lr_mult")
MUST_FAIL = {"__lr_mult__", "__wd_mult__", "__shape__", "__dtype__", "__init__",
             "__storage_type__"}
"""Any of these texts is wrong for them; other attributes are names, or mean yes or no."""
GARBAGE = ("abc", "[[[[", "(1,", "{}", '["zzz", {}]', "(a,b)", "[" * 5000, "9" * 5000 + "x",
           "\N{SNOWMAN}", "float99")
INITIALIZERS = [
    "null", "[]", '["xavier", 1]', '["xavier", {}, 3]', '["xavier", []]', '[["xavier"], {}]',
    '["xavier", {"zzz": 1}]', '["xavier", {"magnitude": "abc"}]', '["xavier", {"magnitude": -1}]',
    '["xavier", {"magnitude": null}]', '["xavier", {"factor_type": []}]',
    '["xavier", {"rnd_type": {}}]', '["constant", {"value": "abc"}]', '["constant", {}]',
    '["constant", {"value": [1, [2]]}]', '["constant", {"value": {}}]', '["fusedrnn", {}]',
    '["normal", {"sigma": "a"}]', '["uniform", {"scale": []}]', '["initializer", {}]',
    '["uniform", ' + '{"scale": ' * 5000 + "1" + "}" * 5000 + "]",
    json.dumps(["fusedrnn", {"init": '["zzz", {}]', "num_hidden": 1, "num_layers": 1,
                             "mode": "lstm"}]),
    json.dumps(["fusedrnn", {"init": '["fusedrnn", {"init": 1}]', "num_hidden": 1, "num_layers": 1,
                             "mode": "lstm"}])]


def train(attrs: dict[str, str]) -> None:
    """Whatever reads the attributes of a weight."""
    weight = mx.sym.Variable("fc_weight", attr=attrs)
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), weight, num_hidden=2, no_bias=True,
                                name="fc")
    net = mx.sym.load_json(mx.sym.LinearRegressionOutput(net, name="loss").tojson())
    module = mx.mod.Module(net, label_names=["loss_label"])
    module.bind([("data", (4, 3))], [("loss_label", (4, 2))])
    module.init_params(mx.init.Uniform())
    module.init_optimizer()
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((4, 3))], [mx.nd.ones((4, 2))]))
    module.update()
    mx.viz.print_summary(net, {"data": (4, 3), "loss_label": (4, 2)})
    net.simple_bind(mx.cpu(), data=(4, 3), group2ctx={"dev": mx.cpu(1)})


@pytest.mark.parametrize("key", KEYS)
def test_malformed_attributes_are_named(key, capsys):
    for text in GARBAGE:
        try:
            train({key: text})
        except mx.MXNetError as error:
            assert "fc_weight" in str(error), (text, error)
        else:
            assert key not in MUST_FAIL, text


@pytest.mark.parametrize("text", INITIALIZERS, ids=lambda text: text[:40])
def test_malformed_initializers_are_named(text):
    with pytest.raises(mx.MXNetError, match=r"the attribute __init__ of fc_weight is "):
        train({"__init__": text})


@pytest.mark.parametrize("given", [5, "ab", [("a", "b")], {1: "a"}])
def test_attributes_are_a_dict_of_text(given):
    for make in (mx.sym.Variable, lambda name, attr: mx.sym.relu(mx.sym.Variable("x"), attr=attr)):
        with pytest.raises(mx.MXNetError, match="attr is .* expected a dict of text by names"):
            make("x", attr=given)


def test_an_enormous_shape_is_refused():
    with pytest.raises(mx.MXNetError, match="x .variable.: attribute __shape__ is"):
        mx.sym.Variable("x", shape=(10 ** 30,)).infer_shape()
