"""`mx.gluon.nn`: names, texts and graphs are MXNet's, and so are values from equal weights."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

import nbmod as mx
from nbmod.gluon import nn
from tests.compare import assert_like
from tests.programs import gluon_layers, surface
from tests.test_surface import fits

TOLERANCE = 1e-4
"""Sums over up to 200 products in float32, in another order than MXNet's."""


def test_texts_parameters_and_graphs_are_mxnets(oracle):
    theirs = oracle.call("mx_scripts.run", "gluon_layers", "all_descriptions")
    for case, expected in zip(gluon_layers.CASES, theirs, strict=True):
        assert gluon_layers.describe(mx, case) == expected, case


@pytest.mark.parametrize("hybridized", [False, True])
def test_values_gradients_and_statistics_are_mxnets(oracle, hybridized):
    theirs = oracle.call("mx_scripts.run", "gluon_layers", "all_answers")
    assert sum(each is None for each in theirs) <= 5
    for case, expected in zip(gluon_layers.CASES, theirs, strict=True):
        found = gluon_layers.answers(mx, case, hybridized)
        if expected is not None:
            assert_like(found, expected, TOLERANCE, str(case))


MODULES = ["gluon.loss", "gluon.nn.activations", "gluon.nn.basic_layers", "gluon.nn.conv_layers",
           "gluon.rnn.rnn_cell", "gluon.rnn.rnn_layer", "gluon.trainer"]


def test_constructors_take_mxnets_arguments(oracle):
    theirs = oracle.call("mx_scripts.run", "surface", "offered", MODULES)
    makers = {path: arguments for path, arguments in theirs.items()
              if "." not in path.partition(":")[2]}
    assert len(makers) > 70
    for path, arguments in makers.items():
        ours = surface.parameters(surface.find("nbmod", path))
        assert fits(arguments, ours), (path, arguments, ours)


@pytest.mark.parametrize("name, call", [
    ("MaxPool2D", {"global_pool": True}), ("GlobalMaxPool2D", {"padding": 1}),
    ("GlobalAvgPool1D", {"pool_size": 2}), ("BatchNorm", {"fuse_relu": True}),
    ("LayerNorm", {"momentum": 1}), ("SELU", {"alpha": 1})])
def test_constructors_take_no_arguments_of_others(name, call):
    """Layers of a kind have a base in common, whose arguments are no secret ones of theirs."""
    with pytest.raises(TypeError, match=next(iter(call))):
        getattr(nn, name)(**call)


def test_shapes_of_weights_are_mxnets(oracle):
    theirs = oracle.call("mx_scripts.run", "gluon_layers", "weight_shapes")
    assert_like(gluon_layers.weight_shapes(mx), theirs)


def test_every_class_of_mxnet_has_a_case():
    """And every layer but containers and functions of arrays."""
    without = {"Block", "HybridBlock", "HybridSequential", "Lambda", "Sequential", "SymbolBlock"}
    assert {*nn.__all__} - {case[0] for case in gluon_layers.CASES} == without


@pytest.mark.parametrize("case", gluon_layers.CASES, ids=lambda case: case[0])
def test_layers_are_copied_and_pickled(case):
    name, args, kwargs, _ = case
    layer = getattr(nn, name)(*args, **kwargs)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(twin) is type(layer) and repr(twin) == repr(layer)
        assert [*twin.collect_params()] == [*layer.collect_params()]


# -- containers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Sequential", "HybridSequential"])
def test_containers_are_called_in_order_indexed_and_cut(kind):
    net = getattr(nn, kind)(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=3), nn.Activation("relu"), nn.Dense(4, in_units=2))
    net.initialize(mx.init.One())
    assert net(mx.nd.ones((1, 3))).asnumpy().tolist() == [[6.0] * 4]
    assert len(net) == 3 and net[-1].name == "net_dense1" and [*net][1] is net[1]
    part = net[:2]
    assert type(part) is type(net) and part.prefix == "net_" and [*part] == [net[0], net[1]]
    assert repr(part) == (f"{kind}(\n  (0): Dense(3 -> 2, linear)\n  (1): Activation(relu)\n)")
    with pytest.raises(IndexError):
        net[3]


def test_a_sequence_that_could_be_hybrid_says_so():
    net = nn.Sequential()
    net.add(nn.Dense(1))
    with pytest.warns(UserWarning, match="All children of this Sequential layer 'sequential"):
        net.hybridize()
    with pytest.raises(ValueError, match="Children of HybridBlock must also be HybridBlock"):
        nn.HybridSequential().add(nn.Sequential())


def test_containers_within_containers_are_indented():
    net = nn.Sequential()
    net.add(nn.Sequential(), nn.Dense(1))
    net[0].add(nn.Flatten())
    assert repr(net) == ("Sequential(\n  (0): Sequential(\n    (0): Flatten\n  )\n"
                         "  (1): Dense(None -> 1, linear)\n)")


# -- single layers ------------------------------------------------------------------------------


def test_float16_leaves_batch_normalization_in_float32():
    layer = nn.BatchNorm(in_channels=2)
    layer.cast("float16")
    assert {np.dtype(each.dtype) for each in layer.collect_params().values()} == {
        np.dtype("float32")}
    layer.cast("float64")
    assert np.dtype(layer.gamma.dtype) == np.float64


def test_fixed_scales_are_not_trained():
    """Not even where `grad_req` of all parameters is set, of batch normalization."""
    layer = nn.BatchNorm(scale=False, in_channels=2)
    layer.collect_params().setattr("grad_req", "add")
    assert {each.name.rpartition("_")[2]: each.grad_req
            for each in layer.collect_params().values()} == {
        "gamma": "null", "beta": "add", "mean": "null", "var": "null"}


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: nn.LeakyReLU(-1), AssertionError, "no less than 0"),
    (lambda: nn.HybridLambda("nofun"), AssertionError, "nofun is not found in symbol/ndarray"),
    (lambda: nn.Lambda("nofun"), AssertionError, "Function name nofun is not found in ndarray"),
    (lambda: nn.Lambda(3), ValueError, "Unrecognized function in lambda: 3"),
    (lambda: nn.HybridLambda(3), ValueError, "Unrecognized function in lambda: 3"),
    (lambda: nn.Conv2D(2, 3, layout="NCW"), AssertionError, "Only supports 'NCHW' and 'NHWC'"),
    (lambda: nn.Conv1D(2, 3, layout="NWC"), AssertionError, "Only supports 'NCW' layout"),
    (lambda: nn.Conv2D(2, (3,)), AssertionError, "kernel_size must be a number or a list of 2"),
    (lambda: nn.Conv2D(2, 3, strides=(1,)), mx.MXNetError, "strides must be a number or a list"),
    (lambda: nn.MaxPool2D((2,)), AssertionError, "pool_size must be a number or a list of 2 ints"),
    (lambda: nn.GlobalMaxPool3D("NCHW"), AssertionError, "Only NCDHW and NDHWC layouts are valid"),
    (lambda: nn.Dense(2, units=3), TypeError, "units"),
])
def test_wrong_arguments(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_functions_of_arrays_are_blocks():
    def double(x, factor):
        return x * factor

    layer = nn.Lambda(double)
    assert repr(layer) == "Lambda(double)" and layer(mx.nd.ones(1), 2).asscalar() == 2
    hybrid = nn.HybridLambda(lambda F, x, y: F.relu(x) + y)
    assert repr(hybrid) == "HybridLambda(<lambda>)"
    hybrid.hybridize()
    assert hybrid(-mx.nd.ones(1), mx.nd.ones(1)).asscalar() == 1


def test_dropout_without_a_rate_is_the_identity():
    with mx.autograd.train_mode():
        assert nn.Dropout(0)(mx.nd.ones(3)).asnumpy().tolist() == [1, 1, 1]
        dropped = nn.Dropout(0.5, axes=(1,))(mx.nd.ones((400, 3))).asnumpy()
    assert (dropped == dropped[:, :1]).all() and 0 < np.count_nonzero(dropped) < 1200


def test_layers_are_parts_of_symbols():
    """Programs of the Module API call them on symbols."""
    net = nn.Conv2D(2, 3, activation="relu", prefix="stem_")(mx.sym.var("data"))
    net = nn.BatchNorm(prefix="norm_")(net)
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (1, 3, 5, 5))], for_training=False)
    module.init_params(mx.init.One())
    assert module.predict(mx.io.NDArrayIter(np.ones((1, 3, 5, 5), "f"))).shape == (1, 2, 3, 3)
    assert "stem_relu_fwd" in json.dumps(net.tojson())
