"""The model zoo: texts, names, graphs, files, values and gradients are MXNet's."""

from __future__ import annotations

import copy
import hashlib
import pickle
import zipfile

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.gluon import nn
from nbmod.gluon.model_zoo import model_store, vision
from tests.compare import assert_like, assert_same
from tests.programs import gluon_zoo, surface
from tests.test_surface import fits

MODULES = [f"gluon.model_zoo.{name}" for name in (
    "model_store", "vision", *(f"vision.{family}" for family in (
        "alexnet", "densenet", "inception", "mobilenet", "resnet", "squeezenet", "vgg")))]
TINY = {"layers": [2, 1], "channels": [4, 4, 8], "classes": 3, "thumbnail": True}
TOLERANCE = 1e-3
"""Rounding grows through up to 94 layers in float32, with sums in another order than MXNet's."""


def tiny(**arguments):
    return vision.ResNetV2(vision.BasicBlockV2, **{**TINY, **arguments})


def test_texts_parameters_and_graphs_are_mxnets(oracle):
    cases = [*((name, {"prefix": "net_"}) for name in vision._FUNCTIONS.values()),
             *gluon_zoo.NETWORKS]
    theirs = oracle.call("mx_scripts.run", "gluon_zoo", "all_descriptions", cases)
    for case, expected in zip(cases, theirs, strict=True):
        assert gluon_zoo.describe(mx, case) == expected, case


def test_functions_and_constructors_take_mxnets_arguments(oracle):
    theirs = oracle.call("mx_scripts.run", "surface", "offered", MODULES)
    makers = {path: [text.partition("=")[0] + "=None" if text.startswith("root=") else text
                     for text in arguments]    # a folder of MXNet's, found at each call here
              for path, arguments in theirs.items() if "." not in path.partition(":")[2]}
    assert len(makers) > 50
    for path, arguments in makers.items():
        found = surface.find("nbmod", path)
        assert fits(arguments, surface.parameters(found)), (path, arguments)
        assert found.__name__ == path.rpartition(":")[2]


def test_files_go_both_ways_and_outputs_are_equal(oracle, tmp_path):
    folders = [tmp_path / "theirs", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir(exist_ok=True)    # the test runs again where MXNet disagrees
    theirs, ours = map(str, folders)
    expected = oracle.call("mx_scripts.run", "gluon_zoo", "write_all", theirs)
    found = gluon_zoo.read_all(mx, theirs)
    assert_like(found, [[output] * 3 for output in expected], TOLERANCE, "their files")
    written = gluon_zoo.write_all(mx, ours)
    read = oracle.call("mx_scripts.run", "gluon_zoo", "read_all", ours)
    assert_like([[output] * 3 for output in written], read, TOLERANCE, "our files")
    assert all(np.abs(output).max() > 1e-6 for output in written)
    learned = gluon_zoo.learn_all(mx, theirs)
    for name, step in oracle.call("mx_scripts.run", "gluon_zoo", "learn_all", theirs).items():
        for kind, arrays in step.items():
            for key, array in arrays.items():    # by norm, since a few ReLUs switch by rounding
                error = np.linalg.norm(learned[name][kind][key] - array)
                assert error <= 1e-2 * np.linalg.norm(array), (name, kind, key)


def test_parameters_are_cast_as_in_mxnet(oracle):
    assert gluon_zoo.cast_types(mx) == oracle.call("mx_scripts.run", "gluon_zoo", "cast_types")
    net = tiny(prefix="net_")
    net.initialize(mx.init.Xavier())
    data = mx.nd.random.normal(shape=(2, 3, 16, 16))
    expected = net(data).asnumpy()
    net.cast("float16")
    half = net(data.astype("float16"))
    assert half.dtype == np.float16
    assert_same(half.astype("float32").asnumpy(), expected, 2e-2, "output")   # 11 layers of 2**-11


def test_older_files_are_read_and_wrong_ones_named(tmp_path):
    net, other = tiny(prefix="first_"), tiny(prefix="other_")
    net.initialize(mx.init.Xavier())
    data = mx.nd.random.normal(shape=(2, 3, 16, 16))
    expected = net(data).asnumpy()
    net.save_params(str(tmp_path / "old.params"))
    assert "conv0_weight" in mx.nd.load(str(tmp_path / "old.params"))
    other.load_parameters(str(tmp_path / "old.params"))
    assert_same(other(data).asnumpy(), expected, 0, "output")
    net.save_parameters(str(tmp_path / "net.params"))
    assert {"features.0.gamma", "features.2.1.bn2.running_var", "output.bias"} <= {
        *mx.nd.load(str(tmp_path / "net.params"))}
    module = mx.mod.Module(net.symbol, label_names=[])
    module.bind([("data", (2, 3, 16, 16))], for_training=False)
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(str(tmp_path / "net"), 3)
    net.load_parameters(str(tmp_path / "net-0003.params"))
    module.forward(mx.io.DataBatch([data]), is_train=False)
    assert_same(net(data).asnumpy(), module.get_outputs()[0].asnumpy(), 1e-5, "output")
    wider = tiny(classes=5)
    with pytest.raises(AssertionError, match=r"dense0_weight' .*expected \(5, 8\) vs saved \(3,"):
        wider.load_parameters(str(tmp_path / "net.params"))
    with pytest.raises(MXNetError, match="weight' has not been initialized"):  # nothing was loaded
        wider.output.weight.data()


def test_a_network_is_trained_by_a_module_and_shares_its_features():
    net = tiny(prefix="net_")
    assert net.symbol.tojson() == net(mx.sym.var("data")).tojson()
    loss = mx.sym.SoftmaxOutput(net.symbol, name="softmax")
    data = mx.nd.random.normal(shape=(2, 3, 16, 16))
    module = mx.mod.Module(loss, context=mx.cpu())
    module.fit(mx.io.NDArrayIter(data, mx.nd.zeros(2), 2), num_epoch=1,
               initializer=mx.init.Xavier())
    arguments, states = module.get_params()
    parameters = net.collect_params()
    parameters.initialize()
    for name, array in {**arguments, **states}.items():
        parameters[name].set_data(array)
    features = net.features(data)
    assert features.shape == (2, 8)
    assert_same(net.output(features).asnumpy(), net(data).asnumpy(), 0, "output")
    assert_same(mx.nd.softmax(net(data)).asnumpy(), module.predict(
        mx.io.NDArrayIter(data, batch_size=2)).asnumpy(), 1e-5, "prediction")


def test_the_last_layer_is_replaced_and_the_network_trained_on_two_devices():
    """As programs do that adapt a network to other classes."""
    devices = [mx.cpu(0), mx.cpu(1)]
    net = tiny(prefix="net_")
    net.initialize(mx.init.Xavier(), ctx=devices)
    with net.name_scope():
        net.output = nn.Dense(2)
    net.output.initialize(mx.init.Xavier(), ctx=devices)
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    labels = mx.nd.array([0, 1] * 4)
    data = mx.nd.random.normal(shape=(8, 3, 16, 16)) + labels.reshape((8, 1, 1, 1))
    losses = []
    for _ in range(8):
        with mx.autograd.record():
            parts = [loss_of(net(x), y) for x, y in zip(
                *(mx.gluon.utils.split_and_load(each, devices) for each in (data, labels)),
                strict=True)]
        mx.autograd.backward(parts)
        trainer.step(8)
        losses.append(sum(float(part.sum().asscalar()) for part in parts))
    assert losses[-1] < losses[0] / 2
    first, second = net.output.weight.list_data()
    assert first.shape == (2, 8) and first.context == mx.cpu(0) and second.context == mx.cpu(1)
    assert_same(second.asnumpy(), first.asnumpy(), 0, "weight")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda each: pickle.loads(
    pickle.dumps(each))], ids=["copy", "pickle"])
def test_networks_are_copied(duplicate):
    net = tiny(prefix="net_")
    net.initialize(mx.init.Xavier())
    net.hybridize()
    data = mx.nd.random.normal(shape=(2, 3, 16, 16))
    expected = net(data).asnumpy()
    twin = duplicate(net)
    assert twin.symbol.list_inputs() == net.symbol.list_inputs()
    assert_same(twin(data).asnumpy(), expected, 0, "output")
    assert duplicate(vision.resnet18_v1) is vision.resnet18_v1


def test_prefixes_are_counted_as_names_of_nodes_are():
    with mx.name.NameManager():
        assert [vision.alexnet().prefix, vision.alexnet().name] == ["alexnet0_", "alexnet1"]
    with mx.name.Prefix("my_"):
        assert vision.mobilenet_v2_0_25().symbol.list_arguments()[1] == (
            "my_mobilenetv20_features_conv0_weight")


def test_initial_values_are_those_of_each_layer():
    net = vision.VGG([1], [2], classes=2, prefix="net_")
    net.initialize(mx.init.Constant(3))
    net(mx.nd.ones((1, 3, 4, 4)))
    assert 0 < np.abs(net.output.weight.data().asnumpy()).mean() < 1
    assert not net.output.bias.data().asnumpy().any()
    net = tiny()
    net.initialize(mx.init.Constant(3))
    with pytest.raises(mx.gluon.DeferredInitializationError):
        net.features[1].weight.data()
    net(mx.nd.ones((1, 3, 32, 32)))
    assert (net.features[1].weight.data().asnumpy() == 3).all()
    assert (net.features[-4].gamma.data().asnumpy() == 1).all()


# -- pretrained parameters ------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder that stands for MXNet's server, with an archive of parameters of MobileNet 0.25."""
    folder = tmp_path / "server" / "gluon" / "models"
    folder.mkdir(parents=True)
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "server").as_uri())
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    net = vision.mobilenet0_25(classes=2)
    net.initialize(mx.init.Xavier())
    net(mx.nd.ones((1, 3, 32, 32)))
    net.save_parameters(str(tmp_path / "net.params"))
    content = (tmp_path / "net.params").read_bytes()
    digest = hashlib.sha1(content).hexdigest()
    monkeypatch.setitem(model_store.MODELS, "mobilenet0.25", digest)
    with zipfile.ZipFile(folder / f"mobilenet0.25-{digest[:8]}.zip", "w") as archive:
        archive.writestr(f"mobilenet0.25-{digest[:8]}.params", content)
    return folder, net, digest


def test_pretrained_parameters_are_downloaded_once(server, tmp_path, caplog):
    folder, net, digest = server
    devices = [mx.cpu(0), mx.cpu(1)]
    other = vision.get_model("MobileNet0.25", pretrained=True, ctx=devices, classes=2)
    for weight in other.output.weight.list_data():
        assert_same(weight.asnumpy(), net.output.weight.data().asnumpy(), 0, "weight")
    assert other.output.weight.list_ctx() == devices
    models = tmp_path / "home" / "models"
    path = models / f"mobilenet0.25-{digest[:8]}.params"
    assert model_store.get_model_file("mobilenet0.25") == str(path)
    assert [*models.iterdir()] == [path]
    path.write_bytes(b"damaged")
    assert model_store.get_model_file("mobilenet0.25") == str(path)
    assert "Mismatch in the content of model file" in caplog.text
    assert hashlib.sha1(path.read_bytes()).hexdigest() == digest
    for archive in folder.iterdir():
        archive.unlink()
    assert model_store.get_model_file("mobilenet0.25") == str(path)    # without the server
    model_store.purge()
    assert not [*models.iterdir()]


@pytest.mark.parametrize(("content", "error", "message"), [
    (None, MXNetError, "mobilenet0.25-.*params is not there.* could not be fetched .*copy the"),
    (b"no archive", ValueError, "is a damaged archive"),
    ({"other.params": b"1"}, ValueError, "is a damaged archive"),
    ({"mobilenet0.25-{}.params": b"1"}, ValueError, "Downloaded file has different hash")])
def test_faulty_downloads_leave_no_file(server, tmp_path, content, error, message):
    folder, _, digest = server
    archive = folder / f"mobilenet0.25-{digest[:8]}.zip"
    archive.unlink()
    if isinstance(content, bytes):
        archive.write_bytes(content)
    elif content:
        with zipfile.ZipFile(archive, "w") as file:
            for name, data in content.items():
                file.writestr(name.format(digest[:8]), data)
    with pytest.raises(error, match=message):
        vision.mobilenet0_25(pretrained=True)
    assert not [*(tmp_path / "home" / "models").iterdir()]


def test_checksums_are_mxnets(oracle):
    theirs = oracle.call("mx_scripts.evaluate", "mx.gluon.model_zoo.model_store._model_sha1", {})
    assert theirs == [model_store.MODELS]


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="Model nonsense is not supported.*\n\talexnet\n"):
        vision.get_model("nonsense")
    with pytest.raises(ValueError, match="Pretrained model for mobilenet0.30 is not available"):
        vision.get_mobilenet(0.3, pretrained=True)
    with pytest.raises(AssertionError, match="Invalid resnet version: 3"):
        vision.get_resnet(3, 18)
    with pytest.raises(AssertionError, match="Invalid number of layers: 17"):
        vision.get_resnet(1, 17)
    with pytest.raises(KeyError, match="get_vgg: num_layers is 12, expected one of .11, 13"):
        vision.get_vgg(12)
    with pytest.raises(KeyError, match="get_densenet: num_layers is 3, expected one of .121"):
        vision.densenet.get_densenet(3)
    with pytest.raises(AssertionError, match="Unsupported SqueezeNet version 1.2"):
        vision.SqueezeNet("1.2")
    with pytest.raises(AssertionError, match="2 numbers of channels are given, expected 3"):
        vision.ResNetV1(vision.BasicBlockV1, [1, 1], [4, 4])
    with pytest.raises(AssertionError, match="VGG: layers has 1 stages and filters 2"):
        vision.VGG([1], [2, 3])
    with pytest.raises(TypeError, match="unexpected keyword argument 'clases'"):
        vision.alexnet(clases=3)
