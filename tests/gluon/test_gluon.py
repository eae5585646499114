"""What scripts of the Module API import from Gluon works, and the rest says that it is absent."""

from __future__ import annotations

import hashlib
import importlib
from types import ModuleType

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.compare import assert_like, assert_same
from tests.execution.test_startup import run
from tests.programs import gluon_trainer

MODULES = ("", ".block", ".trainer", ".nn", ".rnn", ".data", ".data.vision",
           ".data.vision.transforms", ".loss", ".utils", ".model_zoo", ".model_zoo.vision",
           ".contrib", ".contrib.nn", ".contrib.rnn", ".contrib.estimator", ".contrib.cnn",
           ".contrib.data")
FILES = (".contrib.estimator.batch_processor", ".contrib.estimator.estimator",
         ".contrib.estimator.event_handler", ".contrib.estimator.utils",
         ".data.dataloader", ".data.dataset", ".data.sampler", ".data.vision.datasets",
         ".contrib.cnn.conv_layers", ".contrib.data.sampler", ".contrib.data.text",
         ".contrib.nn.basic_layers", ".contrib.rnn.conv_rnn_cell", ".contrib.rnn.rnn_cell",
         ".nn.activations", ".nn.basic_layers", ".nn.conv_layers", ".rnn.rnn_cell",
         ".rnn.rnn_layer", ".model_zoo.model_store",
         *(f".model_zoo.vision.{family}" for family in (
             "alexnet", "densenet", "inception", "mobilenet", "resnet", "squeezenet", "vgg")))
PROCESSES = {"ConnectionWrapper", "DataLoaderV1", "Queue", "SimpleQueue", "fetcher_loop_v1",
             "rebuild_ndarray", "rebuild_np_ndarray", "reduce_ndarray", "reduce_np_ndarray",
             "worker_loop_v1"}
"""How MXNet's workers send arrays, and its older loader."""
"""Modules of MXNet that are modules here, too."""


# -- names ----------------------------------------------------------------------------------------


def test_modules_are_found_under_both_names():
    run("import importlib, nbmod; nbmod.as_mxnet()\n"
        f"for name in {(*MODULES, *FILES)}:\n"
        "    module = importlib.import_module(f'nbmod.gluon{name}')\n"
        "    assert importlib.import_module(f'mxnet.gluon{name}') is module, name")


@pytest.mark.parametrize("name", (*MODULES, *FILES))
def test_every_public_class_of_mxnet_has_a_name(oracle, name):
    theirs = oracle.call("mx_gluon.public_names", name)
    module = importlib.import_module(f"nbmod.gluon{name}")
    internal = {"HookHandle", "replace_file", "shape_is_known", *PROCESSES}
    assert {each for each in theirs if not hasattr(module, each)} - internal == set()


# -- networks of files ----------------------------------------------------------------------------


def test_an_exported_network_runs_and_learns_as_in_mxnet(oracle, tmp_path):
    theirs = oracle.call("mx_gluon.export", str(tmp_path / "net"))
    net = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), "data",
                                       str(tmp_path / "net-0000.params"))
    data = mx.nd.array(theirs["data"])
    for _ in range(2):
        assert_same(net(data).asnumpy(), theirs["output"], 1e-5, "output")
    with mx.autograd.record():
        value = mx.nd.square(net(data)).sum()
    value.backward()
    weight = next(each for name, each in net.collect_params().items() if "conv" in name)
    assert_same(weight.grad().asnumpy(), theirs["gradient"], 1e-4, "gradient")
    mean = net.collect_params(".*running_mean")
    assert_same(next(iter(mean.values())).data().asnumpy(), theirs["mean"], 1e-5, "mean")
    net.hybridize()
    assert repr(net) == "SymbolBlock(\n<Symbol net_dense0_fwd> : 1 -> 1\n)"


def block():
    data = mx.sym.var("data")
    return mx.gluon.SymbolBlock(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), data)


def test_parameters_are_initialized_by_the_first_call_and_kept_in_files(tmp_path):
    net = block()
    with pytest.raises(RuntimeError, match="'fc_weight' has not been initialized. Call initialize"):
        net(mx.nd.ones((1, 3)))
    net.initialize(mx.init.One())
    with pytest.raises(mx.gluon.DeferredInitializationError):
        net.params["fc_weight"].data()
    assert net(mx.nd.ones((4, 3))).shape == (4, 2) and net(mx.nd.ones((1, 3))).shape == (1, 2)
    net.save_parameters(str(tmp_path / "net.params"))
    other = block()
    other.load_parameters(str(tmp_path / "net.params"))
    other.params["fc_weight"].set_data(other.params["fc_weight"].data() * 2)
    assert_same(other(mx.nd.ones((1, 3))).asnumpy(), 2 * net(mx.nd.ones((1, 3))).asnumpy()
                - net.params["fc_bias"].data().asnumpy(), 1e-6, "outputs")
    mx.nd.save(str(tmp_path / "other.params"), {"arg:fc_weight": mx.nd.ones((2, 3)),
                                                "arg:more": mx.nd.ones(1)})
    with pytest.raises(AssertionError, match="Parameter 'fc_bias' is missing in file: "):
        other.load_parameters(str(tmp_path / "other.params"))
    with pytest.raises(AssertionError, match="'more' loaded from .* is not present in"):
        other.load_parameters(str(tmp_path / "other.params"), allow_missing=True)
    unused = mx.gluon.SymbolBlock(net.symbol, [mx.sym.var("data"), mx.sym.var("x")], net.params)
    with pytest.warns(UserWarning, match="The 1-th input to HybridBlock is not used"):
        unused(mx.nd.ones((1, 3)), mx.nd.ones(1))
    with pytest.raises(MXNetError, match="expected arrays for .'data'"):
        net(np.ones((1, 3)))


class Shifted(mx.gluon.HybridBlock):
    """A parameter that states no element type."""

    def __init__(self):
        super().__init__()
        self.shift = self.params.get("shift", shape=(3,), dtype=None)

    def hybrid_forward(self, F, x, shift):
        return F.broadcast_add(x, shift)


def test_types_are_found_without_a_call():
    net = Shifted()
    net.infer_type(mx.nd.ones((1, 3), dtype="float64"))
    assert net.shift.dtype == np.float64
    with pytest.raises(MXNetError, match="float64 and float32 do not agree"):
        mx.gluon.nn.Dense(2).infer_type(mx.nd.ones((1, 3), dtype="float64"))


def test_variables_of_one_name_are_one_parameter_which_a_dict_may_share():
    data, first, second = (mx.sym.var(name) for name in ("data", "w", "w"))
    shared = {"w": mx.gluon.Parameter("w", shape=(3,), init="ones")}
    net = mx.gluon.SymbolBlock(data * first + second, data, shared)
    net.initialize()
    assert list(net.collect_params()) == ["w"] and net.params["w"] is shared["w"]
    assert net(2 * mx.nd.ones(3)).asnumpy().tolist() == [3, 3, 3]
    with pytest.raises(ValueError, match="symbols of structure .0, 0. are given, expected .0."):
        net(data, first)


def test_gradients_are_set_to_zero_and_constants_have_none():
    net = block()
    net.initialize()
    with mx.autograd.record():
        net(mx.nd.ones((1, 3))).sum().backward()
    assert net.params["fc_weight"].grad().asnumpy().any()
    net.collect_params().zero_grad()
    assert not net.params["fc_weight"].grad().asnumpy().any()
    one = mx.gluon.Constant("one", [1, 2])
    one.initialize()
    with pytest.raises(RuntimeError, match="Cannot get gradient array .* grad_req='null'"):
        one.grad()


# -- utils ----------------------------------------------------------------------------------------


def test_batches_are_split_as_in_mxnet(oracle):
    theirs = oracle.call("mx_scripts.run", "gluon_trainer", "slices")
    assert_like(gluon_trainer.slices(mx), theirs, 0)
    assert theirs[0][0][1] == (7, 2)    # of 33 samples, 5 slices: the first ones are larger


def test_batches_that_cannot_be_split_are_errors():
    parts = mx.gluon.utils.split_and_load(np.arange(4), [mx.cpu(0), mx.cpu(1)])
    assert [x.context for x in parts] == [mx.cpu(0), mx.cpu(1)]
    with pytest.raises(ValueError, match="cannot be split evenly into 2"):
        mx.gluon.utils.split_data(mx.nd.ones((5, 2)), 2)
    with pytest.raises(ValueError, match="too few for 6"):
        mx.gluon.utils.split_data(mx.nd.ones((5, 2)), 6)


def test_gradients_are_clipped_by_their_norm():
    x, y = mx.nd.array([3.0]), mx.nd.array([[4.0]])
    assert mx.gluon.utils.clip_global_norm([x, y], 10) == pytest.approx(5)
    assert x.asscalar() == 3
    mx.gluon.utils.clip_global_norm([x, y], 1)
    assert (x.asscalar(), y.asscalar()) == pytest.approx((0.6, 0.8))
    rows = mx.nd.array([[6, 8]])
    assert mx.gluon.utils.clip_global_norm(rows, 5) == pytest.approx(10)    # as in MXNet
    mx.gluon.utils.clip_global_norm((each for each in [rows]), 1)
    np.testing.assert_allclose(rows.asnumpy(), [[0.6, 0.8]], rtol=1e-6)
    with pytest.warns(UserWarning, match="norm of the arrays is not finite"):
        mx.gluon.utils.clip_global_norm([mx.nd.array([np.inf])], 1)


def test_files_are_fetched_once_and_whole(tmp_path):
    source = tmp_path / "source.bin"
    source.write_bytes(b"contents")
    digest = hashlib.sha1(b"contents").hexdigest()
    folder = tmp_path / "here"
    folder.mkdir()
    path = mx.gluon.utils.download(source.as_uri(), str(folder), sha1_hash=digest)
    assert mx.gluon.utils.check_sha1(path, digest)
    source.write_bytes(b"other")
    assert mx.gluon.utils.download(source.as_uri(), str(folder)) == path
    assert (folder / "source.bin").read_bytes() == b"contents"
    with pytest.raises(MXNetError, match="another SHA-1"):
        mx.gluon.utils.download(source.as_uri(), str(folder), True, digest, retries=0)
    assert [each.name for each in folder.iterdir()] == ["source.bin"]
    assert (folder / "source.bin").read_bytes() == b"contents"


def test_a_network_is_cast_but_for_batch_normalization():
    data = mx.sym.var("data")
    layer = mx.sym.FullyConnected(data, num_hidden=2, name="fc")
    net = mx.gluon.SymbolBlock(mx.sym.BatchNorm(layer, name="norm"), data)
    net.initialize(mx.init.One())
    x = mx.nd.array([[1, 2], [3, 5]])
    single = net(x)
    net.cast("float16")
    with mx.autograd.record(train_mode=False):
        half = net(x.astype("float16"))
    half.backward()
    types = {name: np.dtype(each.grad().dtype).name for name, each in net.params.items()
             if each.grad_req != "null"}
    assert types == {"fc_weight": "float16", "fc_bias": "float16", "norm_gamma": "float32",
                     "norm_beta": "float32"}
    net.cast(np.float64)
    double = net(x.astype("float64"))
    assert (half.dtype, double.dtype) == (np.float16, np.float64)
    # Sums of three float32 products.
    np.testing.assert_allclose(double.asnumpy(), single.asnumpy(), rtol=1e-5)


def test_a_label_that_is_taken_for_a_parameter(tmp_path):
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"),
                               name="softmax")
    params = {"arg:fc_weight": mx.nd.ones((2, 3)), "arg:fc_bias": mx.nd.ones(2)}
    net.save(str(tmp_path / "net.json"))
    mx.nd.save(str(tmp_path / "net.params"), params)
    with pytest.raises(MXNetError, match="'softmax_label'.* look like labels: name them among the "
                                         "inputs"):
        mx.gluon.nn.SymbolBlock.imports(str(tmp_path / "net.json"), ["data"],
                                        str(tmp_path / "net.params"))


def test_completion_offers_names_of_gluon_alone():
    """From `mx.gluon.` on, everything that `dir` tells exists and is no import of a file."""
    waiting, told = [mx.gluon], {}
    while waiting:
        module = waiting.pop()
        names = [name for name in dir(module) if name[0] != "_"]
        told[module.__name__] = [name for name in names
                                 if name in ("annotations", "Any", "np", "CheckError", "Sequence")]
        values = [getattr(module, name) for name in names]
        waiting += [each for each in values if isinstance(each, ModuleType)
                    and each.__name__.startswith(module.__name__) and each.__name__ not in told]
    assert not {path: names for path, names in told.items() if names}
    assert {"resnet50_v1", "get_model", "VGG"} <= {*dir(mx.gluon.model_zoo.vision)}
    assert len(told) > 25 and "nbmod.gluon.data.vision.transforms" in told
