"""The model zoo: graphs, names, files and values are MXNet's."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.gluon.model_zoo import model_store, vision
from tests.compare import assert_same

BLOCKS = ("BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2")
NETWORKS = [
    *((name, {}) for name in vision._FUNCTIONS.values()),
    ("resnet18_v1", {"thumbnail": True, "classes": 7}),
    ("resnet50_v2", {"thumbnail": True}),
    ("DenseNet", {"num_init_features": 6, "growth_rate": 3, "block_config": [2, 1], "bn_size": 2,
                  "dropout": 0.25}),
    ("MobileNet", {"multiplier": 0.3}),
    ("MobileNetV2", {"multiplier": 1.4, "classes": 3}),
    ("VGG", {"layers": [1, 2], "filters": [3, 4], "batch_norm": True})]
TINY = {"block": "BasicBlockV2", "layers": [2, 1], "channels": [4, 4, 8], "classes": 3}
SMALL = [
    ("ResNetV2", TINY, (2, 3, 16, 16)),
    ("MobileNetV2", {"multiplier": 0.25, "classes": 3}, (2, 3, 32, 32))]
"""Graphs are equal, so that two networks are enough for values."""


def make(name, arguments):
    if "block" in arguments:
        arguments = {**arguments, "block": getattr(vision, arguments["block"])}
    return getattr(vision, name)(**arguments)


def test_graphs_and_names_are_mxnets(oracle):
    calls = [(name, {**arguments, "prefix": "net_"}) for name, arguments in NETWORKS]
    for call, (graph, keys) in zip(calls, oracle.call("mx_gluon.zoo_graphs", calls), strict=True):
        net = make(*call)
        assert json.loads(net.symbol.tojson()) == json.loads(graph), call
        assert net._keys == keys, call


def test_blocks_are_networks_of_their_own(oracle):
    arguments = {"channels": 8, "stride": 2, "downsample": True, "in_channels": 4}
    theirs = oracle.call("mx_gluon.zoo_graphs", [(block, arguments) for block in BLOCKS])
    for block, (_, keys) in zip(BLOCKS, theirs, strict=True):
        net = make(block, arguments)
        assert sorted(net._keys.values()) == sorted(keys.values())
        assert net.symbol.infer_shape(data=(1, 4, 8, 8))[1] == [(1, 8, 4, 4)]


@pytest.mark.parametrize(("name", "arguments", "shape"), SMALL, ids=[each[0] for each in SMALL])
def test_files_values_and_gradients_are_mxnets(oracle, tmp_path, name, arguments, shape):
    prefix = str(tmp_path / "net")
    arguments = {**arguments, "prefix": "net_"}
    theirs = oracle.call("mx_gluon.zoo_values", name, arguments, shape, prefix)
    data = mx.nd.array(theirs["data"])
    for file in (".params", "-0000.params"):
        net = make(name, arguments)
        net.load_parameters(prefix + file)
        assert_same(net(data).asnumpy(), theirs["output"], 1e-4, "output")
    if name == "MobileNetV2":  # its batch normalization of two elements amplifies rounding
        return
    with mx.autograd.record():
        value = mx.nd.square(net(data)).sum()
    value.backward()
    for key, expected in theirs["gradients"].items():
        scale = np.abs(expected).max() + 1e-3
        assert_same(net.params[key].grad().asnumpy() / scale, expected / scale, 1e-3, key)
    for key, expected in theirs["states"].items():
        assert_same(net.params[key].data().asnumpy(), expected, 1e-4, key)


def test_files_are_those_of_mxnet(tmp_path):
    net = make("ResNetV2", {**TINY, "prefix": "first_"})
    net.initialize(mx.init.Xavier())
    data = mx.nd.random.normal(shape=(2, 3, 16, 16))
    expected = net(data).asnumpy()
    net.save_parameters(str(tmp_path / "net.params"))
    assert {"features.0.gamma", "features.5.1.bn2.running_var", "output.bias"} <= set(
        mx.nd.load(str(tmp_path / "net.params")))
    other = make("ResNetV2", {**TINY, "prefix": "other_"})
    other.load_parameters(str(tmp_path / "net.params"))
    assert_same(other(data).asnumpy(), expected, 1e-6, "output")
    net.export(str(tmp_path / "net"), 3)
    imported = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"],
                                            str(tmp_path / "net-0003.params"))
    assert_same(imported(data).asnumpy(), expected, 1e-6, "output")
    mx.nd.save(str(tmp_path / "old.params"), {
        name.removeprefix("first_"): each.data() for name, each in net.params.items()})
    other.load_parameters(str(tmp_path / "old.params"))
    wider = make("ResNetV2", {**TINY, "classes": 5})
    with pytest.raises(AssertionError, match=r"dense0_weight' .*expected \(5, 8\) vs saved \(3,"):
        wider.load_parameters(str(tmp_path / "net.params"))
    with pytest.raises(MXNetError, match="conv0_weight' has not been ini"):  # nothing was loaded
        wider.params[wider.prefix + "conv0_weight"].data()


def test_a_network_is_trained_by_a_module_and_shares_its_features():
    net = make("ResNetV2", {**TINY, "prefix": "net_"})
    loss = mx.sym.SoftmaxOutput(net(mx.sym.var("data")), name="softmax")
    data = mx.nd.random.normal(shape=(2, 3, 16, 16))
    module = mx.mod.Module(loss, context=mx.cpu())
    module.fit(mx.io.NDArrayIter(data, mx.nd.zeros(2), 2), num_epoch=1,
               initializer=mx.init.Xavier())
    arguments, states = module.get_params()
    for name, array in {**arguments, **states}.items():
        net.params[name].set_data(array)
    features = net.features(data)
    assert features.shape == (2, 8)
    weight, bias = (net.params[f"net_dense0_{each}"].data() for each in ("weight", "bias"))
    assert_same(mx.nd.FullyConnected(features, weight, bias, num_hidden=3).asnumpy(),
                net(data).asnumpy(), 1e-5, "output")


def test_prefixes_are_counted_as_names_of_nodes_are():
    with mx.name.NameManager():
        assert [vision.alexnet().prefix, vision.alexnet().name] == ["alexnet0_", "alexnet1"]
    with mx.name.Prefix("my_"):
        assert vision.mobilenet_v2_0_25().symbol.list_arguments()[1] == (
            "my_mobilenetv20_features_conv0_weight")


def test_initial_values_are_those_of_each_layer():
    net = vision.VGG([1], [2], classes=2, prefix="net_")
    net.initialize(mx.init.Constant(3))
    net.infer_shape(mx.nd.ones((1, 3, 4, 4)))
    assert 0 < np.abs(net.params["net_dense0_weight"].data().asnumpy()).mean() < 1
    assert not net.params["net_dense0_bias"].data().asnumpy().any()
    net = make("ResNetV2", {**TINY, "prefix": "net_"})
    net.initialize(mx.init.Constant(3))
    net.infer_shape(mx.nd.ones((1, 3, 32, 32)))
    assert (net.params["net_conv0_weight"].data().asnumpy() == 3).all()
    assert (net.params["net_batchnorm1_gamma"].data().asnumpy() == 1).all()


def test_pretrained_parameters_are_read_from_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    path = tmp_path / "models" / "alexnet-44335d1f.params"
    with pytest.raises(MXNetError, match="there is no file .*alexnet-44335d1f.params, and nbmod"):
        vision.alexnet(pretrained=True)
    path.parent.mkdir()
    path.write_bytes(b"other")
    with pytest.raises(MXNetError, match="44335d1f: the file is damaged"):
        vision.alexnet(pretrained=True)
    net = vision.squeezenet1_1(prefix="net_")
    net.initialize()
    net.infer_shape(mx.nd.ones((1, 3, 224, 224)))
    net.save_parameters(str(path))
    digits = mx.gluon.utils.sha1(str(path))[:8]
    monkeypatch.setitem(model_store.MODELS, "squeezenet1.1", digits)
    path.rename(tmp_path / f"squeezenet1.1-{digits}.params")
    other = vision.get_model("squeezenet1.1", pretrained=True, root=str(tmp_path))
    assert_same(other.params[other.prefix + "conv3_weight"].data().asnumpy(),
                net.params["net_conv3_weight"].data().asnumpy(), 0, "weight")
    model_store.purge(str(tmp_path))
    assert not list(tmp_path.glob("*.params"))


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="Model nonsense is not supported.*\n\talexnet\n"):
        vision.get_model("nonsense")
    with pytest.raises(ValueError, match="Pretrained model for mobilenet0.3 is not available"):
        vision.get_mobilenet(0.3, pretrained=True)
    with pytest.raises(AssertionError, match="Invalid resnet version: 3"):
        vision.get_resnet(3, 18)
    with pytest.raises(AssertionError, match="Invalid number of layers: 17"):
        vision.get_resnet(1, 17)
    with pytest.raises(AssertionError, match="Unsupported SqueezeNet version 1.2"):
        vision.SqueezeNet("1.2")
    with pytest.raises(AssertionError, match="2 numbers of channels are given, expected 3"):
        make("ResNetV1", {"block": "BasicBlockV1", "layers": [1, 1], "channels": [4, 4]})
    with pytest.raises(TypeError, match="unexpected keyword argument 'clases'"):
        vision.alexnet(clases=3)
