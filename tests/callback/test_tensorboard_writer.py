"""`TensorBoard`: what is in the event file."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.callback.runs import RATE, fit, module
from tests.programs import duplicate_names

pytest.importorskip("tensorboardX")


def events(folder: Path) -> list:
    """The events of a file: records of a length, its checksum, the event, and its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    path, = folder.iterdir()
    content, found, begin = path.read_bytes(), [], 0
    while begin < len(content):
        length, = struct.unpack_from("<Q", content, begin)
        found.append(Event.FromString(content[begin + 12:begin + 12 + length]))
        begin += 12 + length + 4
    return found


def values(folder: Path) -> list[tuple[str, int, object]]:
    return [(value.tag, event.step, value) for event in events(folder)
            for value in event.summary.value]


def test_scalars_histograms_and_the_graph(tmp_path):
    board = mx.callback.TensorBoard(tmp_path, period=3, histograms=2)
    found = fit(module(2), [.5, .75], 2, batch_end_callback=board, eval_end_callback=board)
    board.close()
    scalars = {(tag, step): value.simple_value for tag, step, value in values(tmp_path)
               if value.HasField("simple_value")}
    assert {step for tag, step in scalars if tag == "train/accuracy"} == {1, 4, 5, 8}
    assert scalars["validation/accuracy", 4] == .5 and scalars["validation/accuracy", 8] == .75
    assert scalars["learning_rate", 1] == pytest.approx(.1)
    assert scalars["train/accuracy", 8] == pytest.approx(found.history[1]["train"]["accuracy"])
    histograms = {(tag, step): value.histo for tag, step, value in values(tmp_path)
                  if value.HasField("histo")}
    names = ("first_weight", "first_bias", "last_weight", "last_bias")
    assert histograms.keys() == {(f"{kind}/{name}", 8) for name in names
                                 for kind in ("parameters", "gradients")}
    weight = found.get_params()[0]["first_weight"].asnumpy()
    written = histograms["parameters/first_weight", 8]
    assert written.num == 12 and written.sum == pytest.approx(weight.sum(), rel=1e-5)
    gradient = sum(executor.grad_dict["last_bias"].asnumpy() for executor in found._executors())
    assert histograms["gradients/last_bias", 8].max == pytest.approx(gradient.max(), rel=1e-5)


def test_the_graph_has_the_nodes_of_the_symbol(tmp_path):
    from tensorboardX.proto.graph_pb2 import GraphDef

    board = mx.callback.TensorBoard(tmp_path, histograms=0)
    found = fit(module(), None, 1, batch_end_callback=board)
    board.close()
    graph, = (GraphDef.FromString(event.graph_def) for event in events(tmp_path)
              if event.HasField("graph_def"))
    nodes = {node.name: node for node in graph.node}
    assert {*found.symbol.list_arguments(), "first", "last", "softmax"} <= nodes.keys()
    first = nodes["first"]
    assert first.op == "FullyConnected" and [*first.input] == ["data", "first_weight", "first_bias"]
    assert first.attr["num_hidden"].s == b"4" and nodes["data"].op == "Variable"
    shape, = first.attr["_output_shapes"].list.shape
    assert [one.size for one in shape.dim] == [4, 4]


@pytest.mark.filterwarnings("ignore:outputs of one name")
def test_layers_of_one_name_are_nodes_of_their_own(tmp_path):
    """TensorBoard reads no graph in which two nodes have one name."""
    from tensorboardX.proto.graph_pb2 import GraphDef

    network = mx.mod.Module(duplicate_names.losses_without_labels(mx.sym), label_names=None)
    board = mx.callback.TensorBoard(tmp_path, histograms=0)
    network.fit(mx.io.NDArrayIter(duplicate_names.DATA, None, 6), None, mx.metric.Loss(),
                batch_end_callback=board, num_epoch=1)
    board.close()
    graph, = (GraphDef.FromString(event.graph_def) for event in events(tmp_path)
              if event.HasField("graph_def"))
    nodes = {node.name: node for node in graph.node}
    assert len(nodes) == len(graph.node)
    squares = [nodes[nodes[name].input[0]] for name in ("loss", "loss_1")]
    assert [[*square.input] for square in squares] == [["fc"], ["fc_1"]]
    assert nodes["fc"].input[0] == "data" != nodes["fc_1"].input[0]
    assert nodes["fc"].input[1:] == nodes["fc_1"].input[1:] == ["fc_weight", "fc_bias"]


def test_arrays_of_nan_have_no_histogram(tmp_path):
    board = mx.callback.TensorBoard(tmp_path)
    found = fit(module(), None, 1, batch_end_callback=board,
                optimizer_params=[*RATE, ("wd", float("inf"))])
    board.close()
    assert not np.isfinite(found.get_params()[0]["first_weight"].asnumpy()).all()
    written = {tag for tag, _, _ in values(tmp_path)}
    assert "train/accuracy" in written and "parameters/first_weight" not in written


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MXNetError, match=r"pip install 'nbmod\[tensorboard\]'"):
        mx.callback.TensorBoard(tmp_path)
