"""Models of every format: read, written, lost on the way; damaged .npz files."""

from __future__ import annotations

import os
import sys
import types
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import DTYPE_FLAGS, MXNetError
from nbmod.cli import main as cli
from nbmod.convert import OnnxOptions, StoredModel, model_formats, read_model, write_model
from nbmod.optimizer.state_files import read_states_file
from nbmod.optimizer.states import dump_states
from tests.made_archives import detector
from tests.optimizer.test_tensor_states import steps
from tests.safetensors.test_safetensors import network, parameters


@pytest.fixture
def model():
    net = network()
    return StoredModel(net, *parameters(net, data=(1, 1, 6, 6)))


@pytest.fixture
def saved(model, tmp_path):
    """The prefix of a checkpoint."""
    mx.model.save_checkpoint(str(tmp_path / "net"), 7, *model)
    return str(tmp_path / "net")


def same(found, expected):
    """The same network and parameters, in the same order."""
    assert (found.symbol is None) == (expected.symbol is None)
    assert found.symbol is None or found.symbol.tojson() == expected.symbol.tojson()
    for kind in ("arg_params", "aux_params"):
        ours, theirs = getattr(found, kind), getattr(expected, kind)
        assert list(ours) == list(theirs)
        for name in ours:
            np.testing.assert_array_equal(ours[name].asnumpy(), theirs[name].asnumpy(),
                                          strict=True)
    return True


def nbmod(*words):
    return cli.main([str(word) for word in words])


@pytest.mark.parametrize("names", [
    ["net.safetensors"], ["net"], ["net-symbol.json", "net.params"], ["net-symbol.json", "net.npz"],
    ["net.json", "weights.safetensors"]], ids=" ".join)
def test_models_go_round(model, names, tmp_path):
    paths = [str(tmp_path / name) for name in names]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in paths:
            part = model if len(paths) == 1 or path.endswith(".json") else model._replace(
                symbol=None)
            write_model(part, path, 12)
    assert same(read_model(paths), model)


def test_all_types_are_kept(tmp_path):
    arrays = {str(dtype): mx.nd.array([0, 1], dtype=dtype) for dtype in DTYPE_FLAGS.values()}
    model = StoredModel(None, arrays, {"state": mx.nd.ones(3)})
    for suffix in ("npz", "safetensors", "params"):
        path = str(tmp_path / f"a.{suffix}")
        assert write_model(model, path) == [path]
        assert same(read_model(path), model)


def test_checkpoints_by_prefix_and_epoch(model, saved, tmp_path):
    newer = model._replace(arg_params={**model.arg_params, "fc_bias": mx.nd.array([7, 8, 9])})
    mx.model.save_checkpoint(saved, 12, *newer)
    assert same(read_model(saved), newer) and same(read_model(saved, epoch=7), model)
    assert same(read_model(f"{saved}-0007.params"), model)  # brings its network along
    assert model.inputs == ["data"]
    with pytest.raises(MXNetError, match="neither such a file nor a checkpoint"):
        read_model(str(tmp_path / "resnet-1.5"))


def test_names_without_prefix_follow_the_network(model, tmp_path):
    path = str(tmp_path / "plain.npz")
    np.savez(path, **{name: array.asnumpy() for params in model[1:]
                      for name, array in params.items()})
    model.symbol.save(str(tmp_path / "net-symbol.json"))
    assert same(read_model([path, str(tmp_path / "net-symbol.json")]), model)


def test_what_is_lost_is_a_warning(model, tmp_path):
    for name, told in (("a.npz", "network is not written"), ("a.params", "network is not written"),
                       ("a.json", "parameters are not written")):
        with pytest.warns(UserWarning, match=told):
            write_model(model, str(tmp_path / name))


def test_what_cannot_be_written_or_read_is_an_error(model, saved, tmp_path):
    nothing = model._replace(symbol=None)
    for name in ("net", "a.onnx", "a.json"):
        with pytest.raises(MXNetError, match="there is no network, only parameters"):
            write_model(nothing, str(tmp_path / "new" / name))
    with pytest.raises(MXNetError, match=r"shapes of the inputs data.*--shape data=1,1,224,224"):
        write_model(model, str(tmp_path / "a.onnx"))
    with pytest.raises(MXNetError, match=r"torch\.load"):
        read_model(str(tmp_path / "a.pth"))
    with pytest.raises(MXNetError, match="not written: a file of HDF5 is no model"):
        write_model(model, str(tmp_path / "a.h5"))
    write_model(model, str(tmp_path / "one.safetensors"))
    for pair, told in ((("one.safetensors", "net-symbol.json"), "the network is in both"),
                       (("one.safetensors", "net-0007.params"), "the parameters are in both")):
        with pytest.raises(MXNetError, match=told):
            read_model([str(tmp_path / name) for name in pair])
    mx.nd.save(str(tmp_path / "list.params"), [mx.nd.ones(1)])
    with pytest.raises(MXNetError, match="no names"):
        read_model(str(tmp_path / "list.params"))


# -- ONNX ---------------------------------------------------------------------------------------


@pytest.fixture
def onnx_calls(monkeypatch):
    """A stand-in for `nbmod.onnx`, which records its calls."""
    calls = []
    stand_in = types.ModuleType("nbmod.onnx")

    def export_model(*args, **kwargs):
        calls.append((args, kwargs))
        open(kwargs["onnx_file_path"], "w").close()

    def import_model(path, shapes=None):
        calls.append((path, shapes))
        data = mx.sym.Variable("data")
        return mx.sym.BatchNorm(data, name="bn"), {"bn_gamma": mx.nd.ones(2)}, {
            "bn_moving_mean": mx.nd.zeros(2)}

    stand_in.export_model, stand_in.import_model = export_model, import_model
    monkeypatch.setitem(sys.modules, "nbmod.onnx", stand_in)
    return calls


def test_onnx_files_are_exported_and_imported(model, saved, tmp_path, onnx_calls, monkeypatch,
                                              capsys):
    monkeypatch.chdir(tmp_path)
    write_model(model, "a.onnx", onnx=OnnxOptions({"data": (1, 1, 6, 6)}))
    (symbol, params, shapes), given_options = onnx_calls.pop()
    assert symbol is model.symbol and params.keys() == {*model.arg_params, *model.aux_params}
    assert shapes == {"data": (1, 1, 6, 6)}
    assert given_options == {"in_types": None, "onnx_file_path": "a.onnx", "dynamic": False}
    assert nbmod("convert", saved, "-o", "b.onnx", "--shape", "data=1,1,6,6", "--opset", 18,
                 "--dynamic", "--no-verify", "--until", "bn") == 0
    assert onnx_calls.pop()[1] == {"in_types": None, "onnx_file_path": "b.onnx", "dynamic": True,
                                   "opset": 18, "verify": False, "until": "bn"}
    assert "b.onnx: 0 bytes" in capsys.readouterr().out
    out = str(tmp_path / "new.safetensors")
    assert nbmod("convert", "c.onnx", "-o", out, "--shape", "data=1,2") == 0
    assert onnx_calls == [("c.onnx", {"data": (1, 2)})]
    found = read_model(out)
    assert list(found.arg_params) == ["bn_gamma"] and list(found.aux_params) == ["bn_moving_mean"]


def test_inputs_of_onnx_files_have_their_shapes_and_types(tmp_path, capsys):
    """A file is converted, even to itself, and described without shapes."""
    onnx = pytest.importorskip("onnx", reason="needs the package onnx")
    path, again = str(tmp_path / "first.onnx"), str(tmp_path / "second.onnx")
    net = mx.sym.Embedding(mx.sym.Variable("words"), input_dim=5, output_dim=3, name="embed")
    params = {"embed_weight": mx.nd.ones((5, 3))}
    mx.onnx.export_model(net, params, [(2, 4)], np.int32, path)
    assert nbmod("convert", path, "-o", again) == 0
    with open(path, "rb") as first, open(again, "rb") as second:
        assert first.read() == second.read()
    capsys.readouterr()
    assert nbmod("inspect", again, "--layers") == 0
    shown = capsys.readouterr().out
    assert "words (2, 4) int32" in shown and "4x3" in shown
    dynamic, third = str(tmp_path / "dynamic.onnx"), str(tmp_path / "third.onnx")
    assert nbmod("convert", path, "-o", dynamic, "--dynamic") == 0
    dims = onnx.load(dynamic).graph.input[0].type.tensor_type.shape.dim
    assert [dim.HasField("dim_value") for dim in dims] == [False, False]
    assert nbmod("convert", dynamic, "-o", third, "--dynamic") == 1
    assert "shapes of the inputs words" in capsys.readouterr().err
    assert nbmod("convert", dynamic, "-o", third, "--dynamic", "--shape", "words=2,4") == 0
    with open(dynamic, "rb") as first, open(third, "rb") as second:
        assert first.read() == second.read()


def test_models_go_round_by_onnx(model, tmp_path):
    pytest.importorskip("onnx", reason="needs the package onnx")
    path = str(tmp_path / "net.onnx")
    write_model(model, path, onnx=OnnxOptions({"data": (1, 1, 6, 6)}))
    found = read_model(path)
    for kind in ("arg_params", "aux_params"):
        ours, theirs = getattr(found, kind), getattr(model, kind)
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name].asnumpy(), theirs[name].asnumpy())
    data, outputs = np.random.default_rng(0).random((1, 1, 6, 6)), []
    for one in (found, model):
        arrays = {**one.arg_params, "data": mx.nd.array(data)}
        executor = one.symbol.bind(mx.cpu(), {name: arrays[name] for name
                                              in one.symbol.list_arguments()},
                                   aux_states=one.aux_params, grad_req="null")
        outputs.append(executor.forward()[0].asnumpy())
    # The same operators in float32: a sum of 32 products, and softmax.
    np.testing.assert_allclose(*outputs, rtol=1e-5)


# -- the command line ---------------------------------------------------------------------------


def test_the_command_line_converts(model, saved, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    assert nbmod("convert", saved, "-o", out / "a.safetensors") == 0
    assert nbmod("convert", f"{saved}-symbol.json", f"{saved}-0007.params", "-o", out / "b") == 0
    assert sorted(os.listdir(out)) == ["a.safetensors", "b-0000.params", "b-symbol.json"]
    assert capsys.readouterr().err == ""
    assert nbmod("convert", out / "a.safetensors", "-o", out / "c.npz") == 0
    told = capsys.readouterr()
    assert "c.npz: the network is not written" in told.err
    assert told.out == f"{out / 'c.npz'}: {os.path.getsize(out / 'c.npz'):,} bytes\n"
    for path in (out / "a.safetensors", out / "b"):
        assert same(read_model(str(path)), model)
    assert nbmod("convert", out / "b-symbol.json", out / "c.npz", "-o", out / "d",
                 "--epoch", 3) == 0
    assert same(read_model(str(out / "d"), epoch=3), model)
    for words, message in [
            (["a", "b", "c", "-o", "d"], "3 files are given"),
            ([saved, "-o", "a.npz", "--opset", 17], "--opset is for an OUT that is .onnx"),
            ([out / "c.npz", "-o", out / "e"], "there is no network"),
            ([out / "none", "-o", "a.npz"], "neither such a file nor a checkpoint")]:
        assert nbmod("convert", *words) == 1
        assert message in capsys.readouterr().err


def test_optimizer_states_are_converted(tmp_path, capsys):
    first, second, third = (str(tmp_path / name) for name in (
        "a-0001.states", "b.states.safetensors", "c.states"))
    found = steps("adam", {})
    with open(first, "wb") as stream:
        stream.write(dump_states(found))
    assert nbmod("convert", first, "-o", second) == nbmod("convert", second, "-o", third) == 0
    assert "and Adam" in capsys.readouterr().out
    assert dump_states(read_states_file(third)) == dump_states(found)
    assert nbmod("convert", first, "-o", str(tmp_path / "a.npz")) == 1
    assert "has optimizer states" in capsys.readouterr().err


# -- damaged .npz files -------------------------------------------------------------------------


def test_npz_files_of_objects_are_refused(tmp_path):
    path = str(tmp_path / "a.npz")
    np.savez(path, w=np.array([{}], object))
    with pytest.raises(MXNetError, match=r"a\.npz: damaged, or cannot be read as an \.npz file "
                                         "of arrays: .*pickle"):
        read_model(path)
    np.savez(path, w=np.array([1j]))
    with pytest.raises(MXNetError, match=r"a\.npz: array 'w' has elements of complex128"):
        read_model(path)
    with open(path, "wb") as stream:
        stream.write(b"\x89HDF")
    with pytest.raises(MXNetError, match=r"no \.npz file; the file is an HDF5 file"):
        read_model(path)


def test_npz_files_that_claim_to_be_encrypted_are_damaged(tmp_path):
    path = tmp_path / "net.npz"
    np.savez(path, **{"arg:w": np.arange(6.0)})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1     # a flag in the central directory
    path.write_bytes(content)
    with pytest.raises(MXNetError, match="net.npz: damaged.* encrypted"):
        read_model(str(path))


def test_npz_files_that_unpack_to_far_more_than_they_are(tmp_path, monkeypatch):
    path = str(tmp_path / "bomb.npz")
    np.savez_compressed(path, **{"arg:w": np.zeros(2 ** 20, np.float32)})
    assert read_model(path).arg_params["w"].shape == (2 ** 20,)
    monkeypatch.setattr(model_formats, "UNPACKED", 2 ** 20)
    with pytest.raises(MXNetError, match=r"bomb.npz: .*: \d+ bytes would become \d+"):
        read_model(path)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_mutated_npz_files_are_read_or_refused(data, tmp_path_factory):
    path = str(tmp_path_factory.getbasetemp() / "mutated.npz")
    np.savez(path, **{"arg:w": np.arange(6.0), "aux:b": np.ones(2, np.int8)})
    with open(path, "rb") as stream:
        content = bytearray(stream.read())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with open(path, "wb") as stream:
        stream.write(content)
    try:
        read_model(path)
    except MXNetError as error:
        assert "mutated.npz" in str(error) or "parameters" in str(error)


def _reads_frombuffer(prefix):
    with open(f"{prefix}-0007.params", "rb") as file:
        return mx.nd.load_frombuffer(file.read())


READERS = {
    "load_checkpoint": lambda prefix: mx.model.load_checkpoint(prefix, 7),
    "Module.load": lambda prefix: mx.mod.Module.load(prefix, 7, label_names=None),
    "nd.load": lambda prefix: mx.nd.load(f"{prefix}-0007.params"),
    "load_frombuffer": _reads_frombuffer,
    "Predictor": lambda prefix: mx.Predictor(prefix, {"data": (1, 1, 6, 6)}, epoch=7),
    "read_model": lambda prefix: read_model([prefix]),
    "safetensors": lambda prefix: mx.safetensors.load_model(f"{prefix}.safetensors"),
    "npz": lambda prefix: read_model([f"{prefix}-symbol.json", f"{prefix}.npz"]),
    "onnx": lambda prefix: mx.onnx.import_model(f"{prefix}.onnx")}


@pytest.mark.parametrize("reader", READERS)
def test_weights_that_are_nan_are_said_once(model, tmp_path, reader):
    """MXNet's relu drops NaN, which hides that a file is damaged."""
    prefix = str(tmp_path / "net")
    weight = model.arg_params["fc_weight"]
    weight[1, 2:4] = float("nan")
    mx.model.save_checkpoint(prefix, 7, *model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for suffix in ("safetensors", "npz"):
            write_model(model, f"{prefix}.{suffix}")
        write_model(model, f"{prefix}.onnx", 0, OnnxOptions({"data": (1, 1, 6, 6)}))
    with pytest.warns(UserWarning, match="of .* have NaN") as said:
        READERS[reader](prefix)
    text, = (str(one.message) for one in said if "have NaN" in str(one.message))
    assert f"'fc_weight' (2 of {weight.size} elements)" in text.replace("arg:", "")
    assert "net" in text or "<buffer>" in text


def test_labels_are_no_inputs():
    """Under whatever name: those of SSD are called label."""
    net = mx.sym.LinearRegressionOutput(mx.sym.var("data"), mx.sym.var("target"), name="out")
    assert mx.convert.StoredModel(net, {}, {}).inputs == ["data"]
    assert mx.convert.StoredModel(detector(), {}, {}).inputs[0] == "data"
    assert "label" not in mx.convert.StoredModel(detector(), {}, {}).inputs


def test_shapes_of_onnx_files_are_implied_unless_declared(tmp_path):
    """A dense layer tells the features; the batch that a variable declares stays."""
    onnx = pytest.importorskip("onnx")
    for shape, batch in (None, 1), ((4, 3), 4):
        net = mx.sym.FullyConnected(mx.sym.var("data", shape=shape), num_hidden=2, name="fc")
        prefix = str(tmp_path / f"net{batch}")
        mx.model.save_checkpoint(prefix, 0, net, {"fc_weight": mx.nd.ones((2, 3)),
                                                  "fc_bias": mx.nd.ones(2)}, {})
        assert cli.main(["convert", prefix, "-o", f"{prefix}.onnx"]) == 0
        dims = onnx.load(f"{prefix}.onnx").graph.input[0].type.tensor_type.shape.dim
        assert [dim.dim_value for dim in dims] == [batch, 3]


def test_parameters_of_blocks_keep_their_names(tmp_path):
    """MXNet's `load_parameters` does not find `arg:features.0.weight`."""
    path = str(tmp_path / "net.params")
    mx.nd.save(path, {"features.0.weight": mx.nd.ones(2), "features.1.running_var": mx.nd.ones(3)})
    mx.convert.write_model(read_model(path), str(tmp_path / "again.params"))
    again = mx.nd.load(str(tmp_path / "again.params"))
    assert [*again] == ["features.0.weight", "features.1.running_var"]
    assert again["features.1.running_var"].asnumpy().tolist() == [1, 1, 1]
