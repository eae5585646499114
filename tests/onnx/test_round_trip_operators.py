"""Operators that become several nodes are one operator again, unless the file says so wrongly."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping

import numpy as np
import pytest

import nbmod as mx
from nbmod import sym
from nbmod.graph import Graph

onnx = pytest.importorskip("onnx")

from nbmod.onnx.exporting.converter import OPSETS, UNRECORDED  # noqa: E402
from nbmod.onnx.exporting.export_graph import UnsupportedNodes  # noqa: E402
from nbmod.onnx.exporting.export_model import build_model  # noqa: E402
from nbmod.onnx.importing import (  # noqa: E402
    constant_folding,
    import_model,
    recorded_operators,
)
from nbmod.onnx.operator_records import KEY, read_shapes  # noqa: E402
from tests.onnx.test_export_ops import exported, samples  # noqa: E402

Shapes = Mapping[str, tuple[int, ...]]
FIRST = 2
"""Samples of each operator."""
OTHER_NODES = {"_cond", "_while_loop", "_sg_mkldnn_conv", "_sg_mkldnn_fully_connected",
               "amp_multicast"}
"""Operators with graphs inside, with weights folded into others, with inputs as outputs."""


def operators(symbol: sym.Symbol) -> list[str]:
    return [node.op_name for node in Graph(symbol.entries).nodes if not node.is_variable]


def exported_again(model: onnx.ModelProto, opset: int = 17) -> tuple[sym.Symbol, onnx.ModelProto]:
    """The imported symbol, and its file."""
    symbol, arguments, states = import_model(model)
    given = {value.name: value.type.tensor_type for value in model.graph.input}
    names, sizes = [name for name in symbol.list_inputs() if name in given], read_shapes(model)
    shapes = {name: sizes.get(name, tuple(dim.dim_value for dim in given[name].shape.dim))
              for name in names}
    types = [onnx.helper.tensor_dtype_to_np_dtype(given[name].elem_type) for name in names]
    return symbol, build_model(symbol, [arguments, states], shapes, types, opset=opset,
                               dynamic=bool(sizes)).model()


def same(first: onnx.ModelProto, second: onnx.ModelProto) -> bool:
    return first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True)


# -- networks --------------------------------------------------------------------------------------


def detector() -> sym.Symbol:
    """An SSD: anchors, probabilities, offsets, suppression."""
    data = sym.Variable("data")
    classes = sym.reshape(sym.Convolution(data, num_filter=6, kernel=(1, 1), name="score"),
                          shape=(0, 3, -1), name="scores")
    offsets = sym.Flatten(sym.Convolution(data, num_filter=8, kernel=(1, 1), name="offset"),
                          name="offsets")
    anchors = sym.contrib.MultiBoxPrior(data, sizes=(0.3, 0.6), name="anchors")
    return sym.contrib.MultiBoxDetection(sym.softmax(classes, axis=1, name="chances"), offsets,
                                         anchors, nms_topk=5, name="boxes")


def suppression() -> sym.Symbol:
    boxes = sym.contrib.box_nms(sym.Variable("data"), overlap_thresh=0.4, topk=4, coord_start=2,
                                score_index=1, id_index=0, name="kept")
    return sym.slice_axis(boxes, axis=1, begin=0, end=3, name="best")


def proposals() -> sym.Symbol:
    data = sym.Variable("data")
    chances = sym.sigmoid(sym.Convolution(data, num_filter=6, kernel=(1, 1), name="score"))
    offsets = sym.Convolution(data, num_filter=12, kernel=(1, 1), name="offset")
    return sym.contrib.Proposal(chances, offsets, sym.Variable("size"), scales=(4,),
                                ratios=(0.5, 1, 2), rpn_pre_nms_top_n=20, rpn_post_nms_top_n=6,
                                rpn_min_size=2, name="rois")


def losses() -> sym.Symbol:
    """Outputs that are called as the losses that predictions leave out."""
    parts = sym.SliceChannel(sym.Variable("data"), num_outputs=2, axis=1, squeeze_axis=True,
                             name="parts")
    kept = sym.L2Normalization(parts[0], name="unit")
    return sym.Group([sym.MakeLoss(kept, grad_scale=0, name="found"),
                      sym.MakeLoss(parts[1], name="other")])


def layers(mode: str, bidirectional: bool) -> sym.Symbol:
    """Two recurrent layers, whose parameters the file has in pieces."""
    cell = mx.rnn.FusedRNNCell(4, num_layers=2, mode=mode, bidirectional=bidirectional,
                               prefix="deep_")
    return cell.unroll(3, sym.Variable("data"), layout="TNC", merge_outputs=True)[0]


def cells() -> sym.Symbol:
    """Gates are slices of one product: Split."""
    outputs, _ = mx.rnn.GRUCell(4, prefix="gru_").unroll(2, sym.Variable("data"), layout="TNC",
                                                         merge_outputs=True)
    return outputs


def peaks() -> sym.Symbol:
    """Positions of the largest elements, as floating-point numbers."""
    found = sym.topk(sym.Variable("data"), k=3, axis=-1, ret_typ="both", name="top")
    return sym.broadcast_div(found[1], found[0] + 2, name="where")


def pyramid() -> sym.Symbol:
    """Averages over windows of unequal sizes: products with matrices."""
    data = sym.Variable("data")
    return sym.contrib.AdaptiveAvgPooling2D(data, output_size=(2, 3), name="pool")


def offsets() -> sym.Symbol:
    """Arithmetic of parameters, and an input of which only the shape matters."""
    data = sym.Variable("data")
    grid = sym.slice_like(sym.Variable("grid", shape=(1, 1, 9, 9)), data * 0, axes=(2, 3),
                          name="part")
    return sym.broadcast_add(data, sym.repeat(grid, repeats=2, axis=1, name="twice"), name="plus")


def shared() -> sym.Symbol:
    """A layer with the same name at two places, as a block that is called twice makes it."""
    weight, x = sym.Variable("head_weight"), sym.Variable("data")
    for _ in range(2):
        x = sym.FullyConnected(x, weight, num_hidden=5, no_bias=True, name="head")
        x = sym.L2Normalization(x, name="unit")
    return x


NETWORKS = {
    "detector": (detector(), {"data": (2, 3, 4, 4)}), "nms": (suppression(), {"data": (1, 9, 6)}),
    "proposals": (proposals(), {"data": (1, 4, 5, 6), "size": (1, 3)}),
    "lstm": (layers("lstm", False), {"data": (3, 2, 5)}),
    "gru": (layers("gru", True), {"data": (3, 2, 5)}), "cells": (cells(), {"data": (2, 2, 5)}),
    "peaks": (peaks(), {"data": (2, 7)}), "pyramid": (pyramid(), {"data": (1, 2, 5, 7)}),
    "offsets": (offsets(), {"data": (1, 2, 4, 5)}), "losses": (losses(), {"data": (3, 2, 4)}),
    "shared": (shared(), {"data": (2, 5)})}


def first_file(name: str) -> tuple[sym.Symbol, dict[str, mx.nd.NDArray], onnx.ModelProto]:
    symbol, shapes = NETWORKS[name]
    rng = np.random.default_rng(0)
    found, _, _ = symbol.infer_shape(**shapes)
    params = {key: mx.nd.array(rng.uniform(-1, 1, shape))
              for key, shape in zip(symbol.list_arguments(), found, strict=True)
              if key not in shapes}
    return symbol, params, build_model(symbol, params, shapes).model()


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_second_file_is_the_first(name):
    _, _, first = first_file(name)
    onnx.checker.check_model(first, full_check=True)
    again, second = exported_again(first)
    assert [str(node) for node in second.graph.node] == [str(node) for node in first.graph.node]
    assert same(first, second)


@pytest.mark.parametrize("name, operator", [
    ("detector", "_contrib_MultiBoxDetection"), ("nms", "_contrib_box_nms"),
    ("proposals", "_contrib_Proposal"), ("lstm", "RNN"), ("gru", "RNN"), ("peaks", "topk"),
    ("cells", "SliceChannel"), ("pyramid", "_contrib_AdaptiveAvgPooling2D"),
    ("offsets", "slice_like"), ("shared", "L2Normalization")])
def test_the_operator_is_one_again(name, operator):
    symbol, _, model = first_file(name)
    imported, _, _ = import_model(model)
    assert operators(imported).count(operator) == operators(symbol).count(operator)


def test_outputs_keep_their_names():
    imported, _, _ = import_model(first_file("losses")[2])
    assert imported.list_outputs() == ["found_output", "other_output"]


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_parameters_in_pieces_are_whole_again(name):
    _, params, model = first_file(name)
    _, arguments, _ = import_model(model)
    np.testing.assert_array_equal(arguments["deep_parameters"].asnumpy(),
                                  params["deep_parameters"].asnumpy())


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("op", sorted(set(samples()) - UNRECORDED - OTHER_NODES))
def test_an_exported_operator(op, dynamic):
    for name in list(samples()[op])[:FIRST]:
        sample, opset = samples()[op][name], max(17, OPSETS.get(op, 17))
        dtype = "float32" if "float32" in sample.dtypes else sample.dtypes[0]
        try:
            export, _ = exported(op, sample, dtype, opset, dynamic)
        except UnsupportedNodes:
            continue
        first = export.model()
        if any(entry.key == KEY for entry in first.metadata_props):
            _, second = exported_again(first, opset)
            assert same(first, second), name


def test_random_numbers_have_no_inputs():
    noise = sym.random.uniform(0, 1, shape=(2, 3), name="noise")
    first = build_model(sym.broadcast_add(sym.Variable("data"), noise, name="noisy"), {},
                        {"data": (2, 3)}).model()
    again, second = exported_again(first)
    assert operators(again) == ["_random_uniform", "broadcast_add"] and same(first, second)


# -- files that say so wrongly ---------------------------------------------------------------------


def chain() -> tuple[onnx.ModelProto, list[dict[str, object]]]:
    """A file whose normalization is four nodes, and its records."""
    data = sym.Variable("data")
    symbol = sym.tanh(sym.L2Normalization(sym.relu(data, name="first"), name="unit"), name="last")
    model = build_model(symbol, {}, {"data": (2, 3)}).model()
    return model, json.loads(model.metadata_props[0].value)


def with_records(model: onnx.ModelProto, records: object) -> onnx.ModelProto:
    model.metadata_props[0].value = json.dumps(records)
    return model


@pytest.mark.parametrize("change", [
    {"operator": "sigmoid"}, {"operator": "Custom"}, {"operator": "absent"}, {"operator": ""},
    {"attributes": {"eps": "0.5"}}, {"attributes": {"mode": "channel"}},
    {"attributes": {"no": "1"}},
    {"inputs": ["data"]}, {"inputs": ["first", "first"]}, {"inputs": []}, {"inputs": ["nowhere"]},
    {"inputs": ["last"]}, {"inputs": [""], "shapes": [[2, 3]]},
    {"inputs": [""], "shapes": [None], "packed": "stolen"}, {"inputs": [""], "shapes": [[2 ** 62]]},
    {"outputs": ["last"]}, {"outputs": [""]}, {"outputs": ["first"]}, {"outputs": []},
    {"outputs": ["unit", "last"]}, {"outputs": ["unit", "first"]}, {"outputs": ["unit", "data"]},
    {"outputs": "unit"}, {"shapes": [[1]]}, {"name": ""}])
def test_a_record_that_does_not_hold_changes_nothing(change):
    model, records = chain()
    plain = build_plain(model)
    unit = next(record for record in records if record["name"] == "unit")
    unit.update(change)
    symbol, arguments, states = import_model(with_records(model, records))
    assert not arguments and not states
    assert "L2Normalization" not in operators(symbol)
    data = mx.nd.array([[1, -2, 3], [4, 5, -6]])
    expected = plain.bind(mx.cpu(), {"data": data}).forward()[0].asnumpy()
    found = symbol.bind(mx.cpu(), {"data": data}).forward()[0].asnumpy()
    np.testing.assert_array_equal(found, expected)


def build_plain(model: onnx.ModelProto) -> sym.Symbol:
    """What the nodes of a file alone say."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.metadata_props[:]
    return import_model(plain)[0]


def test_attributes_that_contradict_a_parameter():
    """Gather alone does not tell how long the rows of a table are."""
    symbol = sym.Embedding(sym.Variable("data"), input_dim=5, output_dim=4, name="embed")
    model = build_model(symbol, {"embed_weight": mx.nd.ones((5, 4))}, {"data": (2, 3)}).model()
    records = json.loads(model.metadata_props[0].value)
    records[0]["attributes"]["output_dim"] = "2"
    assert import_model(with_records(model, records))[0].infer_shape(
        data=(2, 3), embed_weight=(5, 4))[1] == [(2, 3, 4)]


def test_an_operator_whose_input_is_claimed_to_be_absent_reads_it():
    """Else the tensor that the node reads would become one of zeros, or of ones."""
    for shapes, packed in (([[2, 3]], ""), ([None], "stolen")):
        model, records = chain()
        first = next(record for record in records if record["name"] == "first")
        first.update(inputs=[""], shapes=shapes, packed=packed)
        symbol, arguments, _ = import_model(with_records(model, records))
        assert symbol.list_arguments() == ["data"] and not arguments


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "{}", "3", "[3]", "[{}]", "null",
                                  '[{"operator": "relu"}]'])
def test_metadata_that_is_no_list_of_records(text):
    model, _ = chain()
    model.metadata_props[0].value = text
    symbol, _, _ = import_model(model)
    assert symbol.list_arguments() == ["data"]


def test_nodes_that_other_programs_changed(caplog):
    """Another epsilon: the record does not hold any more, and the log says so."""
    model, _ = chain()
    symbol, _, _ = import_model(model)
    assert "L2Normalization" in operators(symbol) and not caplog.text
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.raw_data = np.full(tuple(tensor.dims), 0.25, np.float32).tobytes()
    assert "L2Normalization" not in operators(import_model(model)[0])
    assert "1 operator(s) of MXNet" in caplog.text and "unit (L2Normalization)" in caplog.text


def test_records_that_make_a_cycle():
    """Two groups, each of which would need the other."""
    data = sym.Variable("data")
    a, b = sym.relu(data, name="a"), sym.tanh(data, name="b")
    symbol = sym.Group([sym.sigmoid(a, name="c"), sym.exp(b, name="d")])
    model = build_model(symbol, {}, {"data": (2,)}).model()
    record = {"operator": "relu", "name": "r", "attributes": {}, "packed": "", "shapes": []}
    with_records(model, [record | {"inputs": ["a", "b"], "outputs": ["c", "b"]},
                         record | {"inputs": ["b", "a"], "outputs": ["d", "a"]}])
    assert sorted(operators(import_model(model)[0])) == ["Activation"] * 3 + ["exp"]


@pytest.mark.parametrize("operator, attributes, shapes", [
    ("_contrib_AdaptiveAvgPooling2D", {"output_size": "(4194304, 1)"}, [(1, 1, 4000000, 1)]),
    ("_contrib_Proposal", {"scales": "(1,)", "ratios": "(1,)"},
     [(1, 2, 4000, 4000), (1, 4, 4000, 4000), (1, 3)]),
    ("_contrib_box_nms", {}, [(4000000, 6)]), ("_arange", {"start": "0", "stop": "4000000"}, []),
    ("RNN", {"mode": "lstm", "state_size": "2", "num_layers": "1000000000"},
     [(2, 1, 2), (8,), (2, 1, 2), (2, 1, 2)])])
def test_operators_that_would_need_much_memory_or_time(operator, attributes, shapes):
    """A small file must not make the importer compute large constants."""
    inputs = [onnx.helper.make_tensor_value_info(f"x{index}", onnx.TensorProto.FLOAT, shape)
              for index, shape in enumerate(shapes or [(2,)])]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x0"], ["y"])], "g", inputs,
                                   [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.metadata_props.add(key=KEY, value=json.dumps([{
        "operator": operator, "name": "large", "attributes": attributes, "packed": "",
        "inputs": [f"x{index}" for index in range(len(shapes))], "outputs": ["y"], "shapes": []}]))
    tracemalloc.start()
    try:
        assert operators(import_model(model)[0]) == ["Activation"]
        # Positions of 4,000,000 elements are 32 MB, and there are a few such arrays.
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


def test_constants_of_all_operators_are_limited_together(monkeypatch):
    model, _ = chain()
    monkeypatch.setattr(constant_folding, "LIMIT", -4 * model.ByteSize())
    assert "L2Normalization" not in operators(import_model(model)[0])


def test_large_tensors_are_imported_node_by_node(monkeypatch):
    """What an operator makes of absurd shapes may need much memory."""
    monkeypatch.setattr(recorded_operators, "LARGEST", 11)
    model, _ = chain()
    assert "L2Normalization" not in operators(import_model(model)[0])
    monkeypatch.setattr(recorded_operators, "LARGEST", 24)
    assert "L2Normalization" in operators(import_model(model)[0])
