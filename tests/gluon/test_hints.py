"""Errors of a newcomer's mistakes say what is wrong, and what to write instead."""

from __future__ import annotations

import inspect
import traceback
import urllib.request

import numpy as np
import pytest

import nbmod as mx
from nbmod import gluon, nd
from nbmod.gluon import nn


def network(hybridized=False):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=3))
    net.initialize()
    if hybridized:
        net.hybridize()
        net(nd.ones((1, 3)))
    return net


class Unprepared(gluon.Block):
    def __init__(self):
        self.body = nn.Dense(2)


class Written(gluon.HybridBlock):
    """A block of a function of F and x, with a parameter of its own."""

    def __init__(self, function):
        super().__init__()
        self.hybrid_forward = function


class Taking(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.scale = self.params.get("scale", shape=(1,))

    def hybrid_forward(self, F, x):
        return x * self.scale


def traced(function):
    """Call a block of a function of F and x with symbols."""
    block = Written(function)
    block.hybridize()
    return block(nd.ones((2, 3)))


def called(block, *args):
    block.initialize()
    return block(*args)


def entropy(label):
    return gluon.loss.SoftmaxCrossEntropyLoss()(nd.ones((2, 3)), label)


def step(size):
    return trainer(network().collect_params(), "sgd").step(size)


def exported(folder):
    network(hybridized=True).export(folder / "net")
    return str(folder / "net-symbol.json"), str(folder / "net-0000.params")


def imports(folder):
    symbol, params = exported(folder)
    gluon.SymbolBlock.imports(symbol, ["dat"], params)


def other_prefix(folder):
    net = nn.Dense(2, in_units=3, prefix="other_")
    net.load_parameters(exported(folder)[1])


def trainer(*args):
    return gluon.Trainer(*args)


def batches(size):
    return list(gluon.data.DataLoader([1, 2, 3], size))


# A call of a folder, and what its error says.
MISTAKES = {
    "NumPy's array": (lambda _: network()(np.ones((1, 3))), r"\['numpy.ndarray'\]; mx.nd.array"),
    "list, hybridized": (lambda _: network(True)([[1, 2, 3]]), "mx.nd.array"),
    "Trainer of a block": (lambda _: trainer(network(), "sgd"), "collect_params"),
    "Trainer of blocks": (lambda _: trainer([network()], "sgd"), "collect_params"),
    "rate alone": (lambda _: trainer(network().collect_params(), "sgd", 0.1),
                   "optimizer_params is a float, expected a dict"),
    "ctx is text": (lambda _: nn.Dense(2).initialize(ctx="gpu"),
                    "ctx is 'gpu', expected a Context"),
    "ctx is a number": (lambda _: nn.Dense(2).initialize(ctx=0), "ctx is 0"),
    "ctx is a function": (lambda _: nn.Dense(2).initialize(ctx=mx.cpu), "expected a Context"),
    "ctx_list is text": (lambda _: gluon.utils.split_and_load(nd.ones(6), "cpu"), "ctx is 'cpu'"),
    "ctx_list is a number": (lambda _: gluon.utils.split_and_load(nd.ones(6), 2), "ctx is 2"),
    "name of a parameter": (lambda _: network().collect_params()["dense0_weight"],
                            "net_dense0_weight.*did you mean"),
    "no super().__init__()": (lambda _: Unprepared(), r"Unprepared: call super\(\).__init__\(\)"),
    "F.array": (lambda _: traced(lambda F, x: x + F.array([1.0])), "get_constant"),
    "array in a trace": (lambda _: traced(lambda F, x: x + nd.ones((2, 3))), "get_constant"),
    "array of a block": (lambda _: traced(lambda F, x: F.add_n(x, nd.ones(3))), "get_constant"),
    "index of a symbol": (lambda _: traced(lambda F, x: x[1]), "states are a list"),
    "parameter of no dict": (lambda _: traced(lambda F, x: x * gluon.Parameter("w").var()),
                             r"\['w'\].*self.params.get"),
    "mx.nd in a trace": (lambda _: traced(lambda F, x: nd.relu(x)), "F.relu takes"),
    "NumPy in a trace": (lambda _: traced(lambda F, x: np.exp(x)), "F.exp takes"),
    "slices in a trace": (lambda _: traced(lambda F, x: x[:, :2]), "F.slice, "),
    "x.T in a trace": (lambda _: traced(lambda F, x: x.T), "F.transpose"),
    "x.detach in a trace": (lambda _: traced(lambda F, x: x.detach()), "F.BlockGrad"),
    "x.context in a trace": (lambda _: traced(lambda F, x: F.ones(3, ctx=x.context)), "without"),
    "x.asnumpy in a trace": (lambda _: traced(lambda F, x: x.asnumpy()), "F.where"),
    "no operator": (lambda _: traced(lambda F, x: F.relu6(x)), "'relu6'.*called with symbols.$"),
    "no result": (lambda _: traced(lambda F, x: None), "written.*, a Written, returned None"),
    "parameter not taken": (lambda _: called(Taking(), nd.ones(1)), "'scale' .*own.*: scale"),
    "too many arguments": (lambda _: network()(nd.ones((1, 3)), nd.ones(1)), "own.*: none"),
    "float64": (lambda _: network()(nd.ones((1, 3), dtype="float64")), r"x.astype\('float32'\)"),
    "pixels": (lambda _: network()(nd.ones((1, 3), dtype="uint8")), r"x.astype\('float32'\)"),
    "class as a child": (lambda _: network().add(nn.Dense), r"Dense\(...\) makes one"),
    "list as a child": (lambda _: network().add([nn.Dense(2)]), r"add\(\*blocks\)"),
    "function as a child": (lambda _: network().add(nd.relu), r"HybridLambda\(function\)"),
    "child that is no block": (lambda _: nn.Sequential().add(nd.relu), r"nn.Lambda\(function\)"),
    "children as arguments": (lambda _: nn.Sequential(nn.Dense(2), nn.Dense(3)), r"add\(...\)"),
    "params is a parameter": (lambda _: nn.Dense(2, params=network()[0].weight), "other.params"),
    "pattern": (lambda _: network().collect_params("*weight"), r"'\*weight'.*any text is '.\*'"),
    "one-hot labels": (lambda _: entropy(nd.one_hot(nd.arange(2), 3)), "sparse_label=False"),
    "Trainer of params": (lambda _: trainer(network().params, "sgd"), "collect_params"),
    "no samples": (lambda _: step(0), r"batch_size is 0.*data.shape\[0\]"),
    "step of an array": (lambda _: step(nd.ones(2)), r"is a NDArray.*data.shape\[0\]"),
    "lr": (lambda _: trainer(network().collect_params(), "sgd", {"lr": 1}), "mean 'learning_rate'"),
    "input_names": (imports, r"no variables \['dat'\].*are \['data'\]"),
    "prefix": (other_prefix, "SymbolBlock.imports reads"),
    "picture of a block": (lambda _: mx.viz.plot_network(network()), "mx.sym.var"),
    "summary of a block": (lambda _: mx.viz.print_summary(network()), "mx.sym.var"),
    "no batches": (lambda _: batches(0), "batch_size is 0"),
    "negative batches": (lambda _: batches(-1), "batch_size is -1"),
    "half a sample": (lambda _: batches(2.5), "batch_size is 2.5"),
    "batches of text": (lambda _: batches("2"), "batch_size is '2'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_have_hints(mistake, tmp_path):
    call, text = MISTAKES[mistake]
    with pytest.raises((mx.MXNetError, TypeError, AttributeError, IndexError), match=text):
        call(tmp_path)


@pytest.mark.parametrize(("call", "text"), [
    (lambda net: net.hybridize(static_aloc=True), "static_aloc .*did you mean 'static_alloc'"),
    (lambda net: net.hybridize(fast=True), "fast has no effect$"),
    (lambda net: net.collect_params().setattr("lrmult", 0), "'lrmult'; did you mean 'lr_mult'")])
def test_options_without_an_effect_are_warned_of(call, text):
    with pytest.warns(UserWarning, match=text):
        call(network())


def test_parameters_may_have_further_attributes():
    net = network()
    net.collect_params().setattr("is_new", True)
    net.collect_params().setattr("is_new", False)
    assert not any(each.is_new for each in net.collect_params().values())


def test_sizes_of_batches_may_be_quotients():
    assert [len(each) for each in batches(4 / 2)] == [2, 1]
    assert len(gluon.data.DataLoader([1, 2, 3], 4 / 2)) == 2  # MXNet: TypeError


@pytest.mark.parametrize("kind", [gluon.data.vision.MNIST, gluon.data.vision.CIFAR10])
@pytest.mark.parametrize("there", [False, True])
def test_files_that_cannot_be_fetched_are_announced_and_explained(
        kind, there, tmp_path, capsys, monkeypatch):
    def refuse(url, timeout):
        assert 0 < timeout <= 60
        raise OSError("no network")
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    if there:
        for name in ("train-images-idx3-ubyte.gz", "cifar-10-binary.tar.gz"):
            (tmp_path / name).write_bytes(b"other data")
    state = "has another SHA-1" if there else "is not there"
    with pytest.raises(mx.MXNetError, match=f"{kind.__name__}: .*gz {state}.*no network.*copy"):
        kind(tmp_path)
    assert f"Downloading {tmp_path}" in capsys.readouterr().out


def shown(error):
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("fetch", [
    lambda folder: gluon.utils.download("http://nowhere/file", str(folder), retries=0),
    lambda folder: gluon.data.vision.MNIST(folder),
    lambda folder: gluon.contrib.data.text.WikiText2(folder),
    lambda folder: gluon.model_zoo.model_store.get_model_file("alexnet", folder),
    lambda folder: mx.contrib.text.embedding.GloVe(embedding_root=str(folder))])
def test_a_download_that_fails_shows_one_traceback(tmp_path, monkeypatch, fetch):
    def refuse(url, timeout):
        raise OSError("no network")
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(mx.MXNetError, match="no network") as caught:
        fetch(tmp_path)
    assert shown(caught.value).count("Traceback") == 1


LAYERS = [each for module in (nn, gluon.rnn, gluon.loss, gluon.contrib.nn, gluon.contrib.rnn,
                              gluon.contrib.cnn)
          for each in dict.fromkeys(map(vars(module).get, module.__all__))
          if inspect.isclass(each) and each is not nn.SymbolBlock]
ARGUMENTS = {"function": "relu", "base_cell": gluon.rnn.RNNCell(2), "input_shape": (2, 8, 8, 8)}


class Own(nn.Dense):
    """A layer of a user."""


@pytest.mark.parametrize("layer", [*LAYERS, Own], ids=lambda layer: layer.__name__)
def test_an_unknown_keyword_is_told_with_the_layers_name(layer):
    needed = [ARGUMENTS.get(each.name, 3) for each in inspect.signature(layer).parameters.values()
              if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    if "input_shape" in inspect.signature(layer).parameters:
        needed[0] = ARGUMENTS["input_shape"][:layer._rank + 1]
    with pytest.raises(TypeError, match=rf"^{layer.__name__}.__init__\(\) got .*'wrong'"):
        layer(*needed, wrong=1)


@pytest.mark.parametrize(("keyword", "hint"), [
    ("activatoin", "did you mean 'activation'?"), ("act", "it takes units, activation, use_bias"),
    ("prefx", "did you mean 'prefix'?")])
def test_an_unknown_keyword_has_a_hint(keyword, hint):
    with pytest.raises(TypeError) as caught:
        nn.Dense(2, **{keyword: "relu"})
    assert hint in str(caught.value)
