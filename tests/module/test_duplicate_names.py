"""Layers and outputs of one name: all that runs them goes by position, as in MXNet."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import duplicate_names
from tests.programs.duplicate_names import NETWORKS, WAYS

WRONG_IN_MXNET = {("one_output_twice", "backward"), ("losses_of_two_labels", "fit"),
                  ("losses_of_two_labels", "score"), ("losses_without_labels", "fit")}
"""MXNet takes the last of two head gradients, and shows metrics the last of outputs of one name."""


@pytest.mark.parametrize(("network", "way"), [
    (network, way) for network in NETWORKS for way in WAYS if (network, way) not in WRONG_IN_MXNET])
def test_networks_run_as_in_mxnet(oracle, network, way):
    assert_like(duplicate_names.run(mx, network, way),
                oracle.call("mx_scripts.run", "duplicate_names", "run", network, way))


def test_variables_of_one_name_are_one_parameter_of_a_block(oracle):
    theirs = oracle.call("mx_scripts.run", "duplicate_names", "symbol_block_of",
                         "variables_of_one_name")
    assert_like(duplicate_names.symbol_block_of(mx, "variables_of_one_name"), theirs)


def test_head_gradients_of_one_output_add_up():
    net = duplicate_names.one_output_twice(mx.sym)
    heads = np.arange(2 * 18, dtype=np.float32).reshape(2, 6, 3)
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (6, 4))])
    module.init_params(mx.init.One())
    module.forward(mx.io.DataBatch([mx.nd.array(duplicate_names.DATA[:6])]))
    module.backward([mx.nd.array(head) for head in heads])
    (found,), (bias,) = module._exec_group.grad_arrays
    expected = heads.sum(0).T @ duplicate_names.DATA[:6]
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4)    # sums of 6 float32
    np.testing.assert_array_equal(bias.asnumpy(), heads.sum((0, 1)))


def scored(labels, metric):
    """The value of a metric for outputs called `y_output`, of which the second is always wrong."""
    predictions = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.6, 0.4]]], np.float32)
    inputs = [mx.sym.Variable(name) for name in "xz"]
    given = 2 * [mx.sym.Variable(name) for name in labels]
    net = mx.sym.Group([mx.sym.SoftmaxOutput(x, given[i], name="y") if labels else
                        mx.sym.MakeLoss(mx.sym.exp(x), name="y") for i, x in enumerate(inputs)])
    module = mx.mod.Module(net, data_names=["x", "z"], label_names=labels)
    data = mx.io.NDArrayIter(dict(zip("xz", np.log(predictions), strict=True)),
                             {name: [0, 1] for name in labels}, 2)
    module.bind(data.provide_data, data.provide_label, for_training=False)
    module.init_params()
    with pytest.warns(UserWarning, match="outputs of one name.*the last of them"):
        return module.score(data, metric)


@pytest.mark.parametrize(("labels", "metric", "expected"), [
    (["a", "b"], mx.metric.Accuracy(), {"accuracy": 0.5}),
    (["a"], mx.metric.Accuracy(), {"accuracy": 0}),         # the last one, as in MXNet
    (["a", "b"], mx.metric.Accuracy(output_names=["y_output"], label_names=["a"]),
     {"accuracy": 0}),
    ([], mx.metric.Loss(), {"loss": 0.5}),
    (["a", "b"], mx.metric.CompositeEvalMetric([mx.metric.Accuracy(), mx.metric.CrossEntropy()]),
     {"accuracy": 0.5, "cross-entropy": -np.log([0.9, 0.8, 0.3, 0.4]).mean()}),
], ids=["a label each", "one label", "by name", "no label", "composite"])
def test_metrics_read_outputs_by_position(labels, metric, expected):
    assert dict(scored(labels, metric)) == pytest.approx(expected, rel=1e-5)   # of float32


def norms_with_own_states():
    x, scale, shift = map(mx.sym.Variable, ("data", "bn_gamma", "bn_beta"))
    return mx.sym.Group([mx.sym.BatchNorm(each, scale, shift, name="bn") for each in (x, x + 1)])


def state_and_argument():
    x, state = mx.sym.Variable("data"), mx.sym.Variable("state")
    norm = mx.sym.BatchNorm(x, moving_mean=state, name="bn")
    return mx.sym.broadcast_add(norm, mx.sym.Variable("state", shape=(4,)))


@pytest.mark.parametrize("net", [norms_with_own_states, state_and_argument])
def test_variables_of_one_name_are_refused(net):
    """They would be one array, and MXNet, too, binds no network with states of one name by name."""
    arrays = {"data": mx.nd.ones((6, 4))}
    for bind in (lambda: net().simple_bind(mx.cpu(), data=(6, 4)),
                 lambda: net().bind(mx.cpu(), dict.fromkeys(net().list_arguments(), arrays["data"]),
                                    aux_states=dict.fromkeys(net().list_auxiliary_states())),
                 lambda: mx.mod.Module(net(), label_names=None).bind([("data", (6, 4))])):
        with pytest.raises(ValueError, match=r"duplicated.*state.*a name of its own, or make one"):
            bind()


@pytest.mark.parametrize(("use", "way_out"), [
    (lambda net: net["fc_output"], r"by its position, which is one of \[0, 1\]"),
    (lambda net: net.get_internals()["fc_output"], r"by its position, which is one of \[3, 6\]"),
    (lambda net: net.simple_bind(mx.cpu(), data=(6, 4)).output_dict, "use outputs")])
def test_ambiguous_names_are_refused_with_the_way_out(use, way_out):
    """MXNet refuses the same, with a ValueError, too."""
    with pytest.raises(ValueError, match=f"'fc_output'.*{way_out}"):
        use(duplicate_names.two_layers(mx.sym))
