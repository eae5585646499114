"""`nbmod inspect`: models, states and records; damage, missing operators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.cli import main as cli
from nbmod.optimizer.states import dump_states
from nbmod.recordio import IRHeader, MXIndexedRecordIO, pack
from tests.optimizer.test_tensor_states import steps
from tests.safetensors.test_safetensors import network, parameters

SHAPE = ("--shape", "data=1,1,6,6")


@pytest.fixture
def saved(tmp_path):
    """The prefix of a checkpoint with checksums."""
    net = network()
    prefix = str(tmp_path / "net")
    mx.model.save_checkpoint(prefix, 7, net, *parameters(net, data=(1, 1, 6, 6)), integrity=True)
    return prefix


@pytest.fixture
def inspect(capsys):
    """Exit status and report of `inspect`."""
    def call(*words):
        status = cli.main(["inspect", "--json", *map(str, words)])
        told = capsys.readouterr()
        assert told.err == ""
        return status, json.loads(told.out)

    return call


def test_a_checkpoint_is_described(saved, inspect):
    status, found = inspect(saved, *SHAPE)
    assert status == 0 and found["damage"] == [] and found["missing operators"] == []
    assert [file["name"] for file in found["files"]] == [f"{saved}-symbol.json",
                                                         f"{saved}-0007.params"]
    assert found["provenance"] == {"MXNet": "1.9.1", "checksums": "match"}
    assert found["inputs"] == [{"name": "data", "shape": [1, 1, 6, 6], "type": "float32"}]
    assert found["outputs"] == [{"name": "out_output", "shape": [1, 3], "type": "float32"}]
    assert found["operators"] == {"Convolution": 1, "BatchNorm": 1, "FullyConnected": 1,
                                  "softmax": 1}
    assert found["MACs"] == 2 * 4 * 4 * 9 + 3 * 32    # the convolution, the dense layer
    net = mx.sym.load(f"{saved}-symbol.json")
    bound = net.simple_bind(mx.cpu(), grad_req="null", data=(1, 1, 6, 6))
    assert found["memory plan"] == bound.compiled.plan.total_bytes
    weight = mx.nd.load(f"{saved}-0007.params")["arg:fc_weight"].asnumpy()
    row = next(row for row in found["parameters"] if row["name"] == "fc_weight")
    assert (row["shape"], row["type"], row["NaN"]) == ([3, 32], "float32", 0)
    # float32 values summed in float64
    np.testing.assert_allclose([row["min"], row["max"], row["mean"], row["std"]],
                               [weight.min(), weight.max(), weight.mean(), weight.std()], rtol=1e-6)


def test_the_text_has_the_same(saved, capsys):
    assert cli.main(["inspect", saved, *SHAPE, "--layers"]) == 0
    out = capsys.readouterr().out
    assert "MACs: 384\n" in out and "operators: Convolution (1), BatchNorm (1)" in out
    assert "8 arrays of 127 elements\n" in out and "bn_moving_var (state)   2 " in out
    assert "Total params: 123" in out
    assert cli.main(["inspect", f"{saved}-symbol.json"]) == 0
    out = capsys.readouterr().out
    assert "inputs: data of unknown shape float32\n" in out
    assert "give the shapes of inputs, such as --shape data=1,3,224,224" in out


def test_the_shape_of_an_example_fits_the_first_layer(tmp_path, capsys):
    """So that the command can be pasted: of gray images it has one channel."""
    data = mx.sym.Variable("data")
    net = mx.sym.Convolution(data / 255, kernel=(5, 5), num_filter=2, name="first")
    prefix = str(tmp_path / "gray")
    mx.model.save_checkpoint(prefix, 0, net, {
        "first_weight": mx.nd.zeros((2, 1, 5, 5)), "first_bias": mx.nd.zeros(2)}, {})
    assert cli.main(["inspect", prefix]) == 0
    assert "such as --shape data=1,1,224,224\n" in capsys.readouterr().out
    assert cli.main(["convert", prefix, "-o", f"{prefix}.onnx"]) == 1
    assert "such as --shape data=1,1,224,224" in capsys.readouterr().err


def test_one_file_of_safetensors_is_a_model(saved, tmp_path, inspect):
    path = str(tmp_path / "net.safetensors")
    mx.safetensors.save_model(path, *mx.model.load_checkpoint(saved, 7), {"licence": "mine"})
    status, found = inspect(path, *SHAPE)
    assert status == 0 and found["MACs"] == 384
    assert found["provenance"] == {"format": "mxnet", "licence": "mine", "MXNet": "1.9.1"}


def test_arrays_alone_are_described(tmp_path, inspect):
    path = str(tmp_path / "a.npz")
    np.savez(path, half=np.full(1000, 300, np.float16), empty=np.zeros((0, 2)),
             byte=np.array([[1, 2], [3, 6]], np.int8))
    status, found = inspect(path)
    half, empty, byte = found["parameters"]
    assert status == 0 and "operators" not in found and "inputs" not in found
    assert half["mean"] == 300 and half["std"] == 0  # the sum is beyond float16
    assert empty["min"] is None and empty["shape"] == [0, 2]
    assert (byte["min"], byte["max"], byte["mean"]) == (1, 6, 3) and byte["type"] == "int8"


def test_damage_is_found(saved, tmp_path, inspect, capsys):
    symbol, args, auxs = mx.model.load_checkpoint(saved, 7)
    del args["fc_bias"], auxs["bn_moving_var"]
    args["fc_weight"] = mx.nd.array([[1, np.nan, np.inf, -np.inf]])
    args["other"] = mx.nd.ones(1)
    path = str(tmp_path / "bad.safetensors")
    mx.safetensors.save_model(path, symbol, args, auxs)
    status, found = inspect(path, *SHAPE)
    assert status == 1
    assert found["damage"] == [
        "'other' is not in the network", "'fc_bias' is missing", "'bn_moving_var' is missing",
        "'fc_weight' has shape (1, 4), the network expects (3, 32)",
        "'fc_weight' has 1 NaN and 2 infinite elements"]
    with open(f"{saved}-0007.params", "r+b") as stream:
        stream.truncate(900)
    status, found = inspect(saved)
    assert status == 1 and "0007.params: damaged at byte" in found["damage"][0]
    assert "is not what was saved" in found["damage"][1] and found["operators"]
    assert cli.main(["inspect", saved]) == 1
    assert "\ndamage: " in capsys.readouterr().out
    assert cli.main(["inspect", str(tmp_path / "none")]) == 1
    assert "neither such a file nor a checkpoint" in capsys.readouterr().err


def test_missing_operators_are_listed(saved, tmp_path, inspect, capsys):
    with open(f"{saved}-symbol.json") as stream:
        text = stream.read()
    text = text.replace('"Convolution"', '"MyConv"').replace('"softmax"', '"MySoftmax"')
    for version in ('"mxnet_version": ["int", 10901]', '"mxnet_version": ["int", 905]'):
        (tmp_path / "my-symbol.json").write_text(text.replace('"mxnet_version": ["int", 10901]',
                                                              version))
        status, found = inspect(tmp_path / "my-symbol.json")
        assert status == 0 and found["missing operators"] == ["MyConv", "MySoftmax"]
        assert found["operators"]["MyConv"] == 1
        assert found["provenance"]["MXNet"] == ("0.9.5" if "905]" in version else "1.9.1")
    assert cli.main(["inspect", str(tmp_path / "my-symbol.json")]) == 0
    assert "missing operators: MyConv, MySoftmax; mx.register_op" in capsys.readouterr().out
    path = str(tmp_path / "my.safetensors")
    mx.safetensors.save(path, {"arg:w": mx.nd.ones(3)}, {"mxnet_symbol": text})
    status, found = inspect(path)
    assert status == 0 and found["missing operators"] == ["MyConv", "MySoftmax"]
    assert [row["name"] for row in found["parameters"]] == ["w"]


def test_operators_of_loops_are_counted(tmp_path, inspect):
    data, state = mx.sym.Variable("data"), mx.sym.Variable("state")
    outs, _ = mx.sym.contrib.foreach(lambda x, s: (mx.sym.tanh(x) + s, s), data, state)
    outs.save(str(tmp_path / "loop-symbol.json"))
    _, found = inspect(tmp_path / "loop-symbol.json")
    assert found["operators"]["tanh"] == 1 and found["operators"]["_foreach"] == 1


def test_onnx_files_are_described(tmp_path, inspect, monkeypatch):
    onnx = pytest.importorskip("onnx", reason="needs the package onnx")
    helper = onnx.helper
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    path = str(tmp_path / "a.onnx")
    onnx.save(helper.make_model(graph, producer_name="hand", ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), path)
    stand_in = types.ModuleType("nbmod.onnx")
    stand_in.import_model = lambda path, **kwargs: (mx.sym.relu(mx.sym.Variable("x")), {}, {})
    monkeypatch.setitem(sys.modules, "nbmod.onnx", stand_in)
    status, found = inspect(path)
    assert status == 0 and found["operators"] == {"Relu": 1} and found["inputs"][0]["name"] == "x"
    assert found["provenance"] == {"producer": "hand", "IR version": 8, "opset": "ai.onnx 17"}
    for name, value, key, told in (
            ("nodes", [types.SimpleNamespace(operator="Foo")], "missing operators", ["Foo"]),
            ("inputs", ["x"], "needed", "the shape of x")):
        error = MXNetError("the shape of x")    # UnsupportedModel, ShapeNeeded
        setattr(error, name, value)

        def refuse(path, error=error):
            raise error

        stand_in.import_model = refuse
        status, found = inspect(path)
        assert status == 0 and found[key] == told and found["operators"] == {"Relu": 1}
    (tmp_path / "a.onnx").write_bytes(b"\xff" * 40)
    status, found = inspect(path)
    assert status == 1 and "a.onnx: damaged" in found["damage"][0]


def test_optimizer_states_are_described(tmp_path, inspect, capsys):
    path, tensors = str(tmp_path / "a.states"), str(tmp_path / "a.states.safetensors")
    states, optimizer = steps("adam", {"beta1": 0.8})
    with open(path, "wb") as stream:
        stream.write(dump_states((states, optimizer)))
    mx.safetensors.save_states(tensors, states, optimizer)
    (status, found), (_, other) = inspect(path), inspect(tensors)
    assert status == 0 and found == other
    assert found["optimizer"] == "Adam" and found["hyperparameters"]["beta1"] == 0.8
    assert found["states"] == len(states) and len(found["parameters"]) == 2 * len(states)
    assert cli.main(["inspect", path]) == 0 and "optimizer: Adam, " in capsys.readouterr().out


def test_records_are_described(tmp_path, inspect):
    index, record = tmp_path / "a.idx", tmp_path / "a.rec"
    with MXIndexedRecordIO(str(index), str(record), "w") as writer:
        for number in range(10):
            writer.write_idx(number, pack(IRHeader(0, number % 3, number, 0), b"\x89PNG" * 9))
    status, found = inspect(record)
    assert status == 0 and found["records"] == 10 and found["content"] == {"PNG": 10}
    assert found["labels"] == [3, 0, 2] and found["first"][1]["id"] == 1
    assert inspect(index) == (0, {"bytes": index.stat().st_size, "keys": 10, "damage": [],
                                  "records of": str(record)})
    content = bytearray(record.read_bytes())
    content[300:304] = bytes(4)
    record.write_bytes(content[:500])
    status, found = inspect(record)
    assert status == 1 and "damaged stretches" in found["damage"][0]
    status, found = inspect(index)
    assert status == 1 and "offsets are beyond the end" in found["damage"][0]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are closed otherwise there")
def test_a_reader_that_has_enough_is_no_error(saved):
    """As `head`, which reads some lines and goes."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as stream:
        found = subprocess.run([sys.executable, "-m", "nbmod", "inspect", str(saved)],
                               stdout=stream, stderr=subprocess.PIPE, timeout=300, check=False)
    assert (found.returncode, found.stderr) == (1, b"")
