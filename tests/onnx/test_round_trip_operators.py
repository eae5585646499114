"""Files that nbmod exported give their symbol back, unless the graph is another one."""

from __future__ import annotations

import ast
import json
import tracemalloc
from collections.abc import Mapping

import numpy as np
import pytest

import nbmod as mx
from nbmod import sym
from nbmod.graph import Graph

onnx = pytest.importorskip("onnx")

from nbmod.onnx.exporting import export_model  # noqa: E402
from nbmod.onnx.exporting.converter import OPSETS  # noqa: E402
from nbmod.onnx.exporting.export_graph import UnsupportedNodes  # noqa: E402
from nbmod.onnx.exporting.export_model import build_model  # noqa: E402
from nbmod.onnx.exporting.stored_symbol import KEY  # noqa: E402
from nbmod.onnx.importing import (  # noqa: E402
    constant_folding,
    import_model,
    own_export,
)
from tests.onnx.test_export_ops import exported, samples  # noqa: E402

Shapes = Mapping[str, tuple[int, ...]]
FIRST = 2
"""Samples of each operator."""
FOLDED = {"_contrib_dequantize", "_contrib_quantize", "_contrib_quantized_concat",
          "_contrib_quantized_conv", "_contrib_quantized_elemwise_add",
          "_contrib_quantized_elemwise_mul", "_contrib_quantized_fully_connected",
          "_contrib_requantize", "_sg_mkldnn_conv", "_sg_mkldnn_fully_connected"}
"""Operators whose parameters the file has in no form that tells them: ranges and 8-bit weights."""


def operators(symbol: sym.Symbol) -> list[str]:
    return [node.op_name for node in Graph(symbol.entries).nodes if not node.is_variable]


def exported_again(model: onnx.ModelProto, opset: int = 17) -> tuple[sym.Symbol, onnx.ModelProto]:
    """The imported symbol, and its file."""
    symbol, arguments, states = import_model(model)
    given = {value.name: value.type.tensor_type for value in model.graph.input}
    names = [name for name in symbol.list_inputs() if name in given]
    stored = sym.load_json(model.metadata_props[0].value).attr_dict()
    shapes = {name: ast.literal_eval(stored[name]["__shape__"]) for name in names}
    types = [onnx.helper.tensor_dtype_to_np_dtype(given[name].elem_type) for name in names]
    is_dynamic = any(not dim.dim_value for kind in given.values() for dim in kind.shape.dim)
    return symbol, build_model(symbol, [arguments, states], shapes, types, opset=opset,
                               dynamic=is_dynamic).model()


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
@pytest.mark.parametrize("op", sorted(samples().keys() - FOLDED))
def test_an_exported_operator(op, dynamic):
    for name in list(samples()[op])[:FIRST]:
        sample, opset = samples()[op][name], max(17, OPSETS.get(op, 17))
        dtype = "float32" if "float32" in sample.dtypes else sample.dtypes[0]
        try:
            export, _ = exported(op, sample, dtype, opset, dynamic)
        except UnsupportedNodes:
            continue
        first = export.model()
        _, second = exported_again(first, opset)
        assert same(first, second), name


def test_random_numbers_have_no_inputs():
    noise = sym.random.uniform(0, 1, shape=(2, 3), name="noise")
    first = build_model(sym.broadcast_add(sym.Variable("data"), noise, name="noisy"), {},
                        {"data": (2, 3)}).model()
    again, second = exported_again(first)
    assert operators(again) == ["_random_uniform", "broadcast_add"] and same(first, second)


# -- files whose symbol is another one -------------------------------------------------------------


def chain() -> onnx.ModelProto:
    """A file whose normalization is four nodes."""
    data = sym.Variable("data")
    symbol = sym.tanh(sym.L2Normalization(sym.relu(data, name="first"), name="unit"), name="last")
    return build_model(symbol, {}, {"data": (2, 3)}).model()


def with_symbol(model: onnx.ModelProto, text: object) -> onnx.ModelProto:
    model.metadata_props[0].value = text if isinstance(text, str) else json.dumps(text)
    return model


def assert_imported_by_nodes(model: onnx.ModelProto) -> None:
    """The symbol is that of the nodes alone, and computes the same."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.metadata_props[:]
    symbol, arguments, states = import_model(model)
    expected, *parameters = import_model(plain)
    assert symbol.tojson() == expected.tojson()
    assert [set(arguments), set(states)] == [*map(set, parameters)]


@pytest.mark.parametrize("node, change", [
    ("unit", {"op": "sigmoid"}), ("unit", {"op": "Custom"}), ("unit", {"op": "absent"}),
    ("unit", {"op": []}), ("unit", {"attrs": {"eps": "0.5"}}),
    ("unit", {"attrs": {"mode": "channel"}}), ("unit", {"attrs": {"no": "1"}}),
    ("unit", {"inputs": [[0, 0, 0]]}), ("unit", {"inputs": []}), ("unit", {"inputs": [[3, 0, 0]]}),
    ("unit", {"name": "other"}), ("last", {"inputs": [[1, 0, 0]]}), ("last", {"op": "relu"}),
    ("data", {"name": "other"}), ("data", {"attrs": {}}),
    *[("data", {"attrs": {"__shape__": shape, "__dtype__": "0"}})
      for shape in ("(2,)", "(2, 4)", "(0, 3)", "(-1, 3)", "None", f"({2 ** 62}, 3)", "(2, 3")],
    *[("data", {"attrs": {"__shape__": "(2, 3)", "__dtype__": dtype}})
      for dtype in ("1", "-1", "99", "x")]])
def test_a_symbol_that_is_exported_otherwise_changes_nothing(node, change, caplog):
    model = chain()
    graph = json.loads(model.metadata_props[0].value)
    next(each for each in graph["nodes"] if each["name"] == node).update(change)
    assert_imported_by_nodes(with_symbol(model, graph))
    assert "not what nbmod exports for the symbol in the metadata" in caplog.text


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "{}", "3", "[3]", "[{}]", "null",
                                  '{"nodes": [{"op": "relu"}]}', '{"nodes": [], "heads": []}'])
def test_metadata_that_is_no_symbol(text):
    assert_imported_by_nodes(with_symbol(chain(), text))


@pytest.mark.parametrize("size", ["0", "2", "5"])
def test_attributes_that_contradict_a_parameter(size):
    """Gather alone does not tell how long the rows of a table are."""
    table = sym.Embedding(sym.Variable("data"), input_dim=5, output_dim=4, name="embed")
    symbol = sym.broadcast_mul(table, sym.Variable("scale"), name="scaled")
    params = {"embed_weight": mx.nd.ones((5, 4)), "scale": mx.nd.ones((1, 1, 4))}
    model = build_model(symbol, params, {"data": (2, 3)}).model()
    assert "Embedding" in operators(import_model(model)[0])
    text = model.metadata_props[0].value.replace('"output_dim": "4"', f'"output_dim": "{size}"')
    assert_imported_by_nodes(with_symbol(model, text))


def test_two_symbols():
    model = chain()
    model.metadata_props.add(key=KEY, value=model.metadata_props[0].value)
    assert_imported_by_nodes(model)


def test_a_symbol_is_imported_as_its_predictions():
    """What inference leaves out, and what no output needs, does not come from the metadata."""
    data = sym.Variable("data")
    symbol = sym.SoftmaxOutput(sym.Dropout(data, name="drop"), sym.Variable("label"),
                               preserve_shape=True, name="out")
    model = build_model(symbol, {}, {"data": (2, 3)}).model()
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        if node["name"] == "data":
            node["attrs"] = {"__shape__": "(2, 3)", "__dtype__": "0", "__init__": "zeros"}
    imported, _, _ = import_model(with_symbol(model, graph))
    assert imported.list_arguments() == ["data"] and operators(imported) == ["softmax"]
    assert imported.attr_dict()["data"] == {"__shape__": "(2, 3)"}


def edited_initializer(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.raw_data = np.full(tuple(tensor.dims), 0.25, np.float32).tobytes()


def renamed_tensor(model: onnx.ModelProto) -> None:
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "renamed"
    for node in model.graph.node:
        node.input[:] = ["renamed" if name == "first" else name for name in node.input]


def inserted_node(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "same"
    model.graph.node.insert(0, onnx.helper.make_node("Identity", ["data"], ["same"], "same"))


def overridden_operator(model: onnx.ModelProto) -> None:
    """A function of the model is called as an operator of ONNX."""
    opset = onnx.helper.make_opsetid("", 17)
    model.functions.append(onnx.helper.make_function(
        "", "Tanh", ["x"], ["y"], [onnx.helper.make_node("Sin", ["x"], ["y"])], [opset]))


EDITS = {
    "initializer": edited_initializer, "renamed tensor": renamed_tensor,
    "inserted node": inserted_node, "function": overridden_operator,
    "renamed node": lambda model: setattr(model.graph.node[0], "name", "renamed"),
    "opset": lambda model: setattr(model.opset_import[0], "version", 18),
    "operator": lambda model: setattr(model.graph.node[-1], "op_type", "Sin"),
    "size": lambda model: setattr(
        model.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 4),
    "open size": lambda model: setattr(
        model.graph.input[0].type.tensor_type.shape.dim[0], "dim_param", "batch"),
    "type": lambda model: setattr(
        model.graph.input[0].type.tensor_type, "elem_type", onnx.TensorProto.DOUBLE),
    "output": lambda model: model.graph.output.append(onnx.helper.make_tensor_value_info(
        "first", onnx.TensorProto.FLOAT, (2, 3)))}


@pytest.mark.parametrize("name", sorted(EDITS))
def test_a_file_that_other_programs_changed_is_imported_by_its_nodes(name, caplog):
    model = chain()
    symbol, _, _ = import_model(model)
    assert "L2Normalization" in operators(symbol) and not caplog.text
    EDITS[name](model)
    assert_imported_by_nodes(model)
    assert "imported one by one" in caplog.text


def test_descriptions_do_not_matter(caplog):
    """Names of the graph and the producer, shapes of inner tensors, other metadata."""
    model = onnx.shape_inference.infer_shapes(chain())
    assert model.graph.value_info
    model.graph.name, model.graph.doc_string, model.producer_name = "other", "text", "other"
    model.metadata_props.add(key="author", value="somebody")
    assert "L2Normalization" in operators(import_model(model)[0]) and not caplog.text


@pytest.mark.parametrize("name", ["cells", "lstm"])
def test_parameters_may_be_other_ones(name):
    """As long as the nodes are those of the symbol."""
    _, params, model = first_file(name)
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.size > 4:
            tensor.CopyFrom(onnx.numpy_helper.from_array(array / 2, tensor.name))
    symbol, arguments, _ = import_model(model)
    assert operators(symbol) == operators(NETWORKS[name][0])
    for key, value in params.items():
        np.testing.assert_array_equal(arguments[key].asnumpy(), value.asnumpy() / 2)


def test_a_turned_parameter_of_equal_axes():
    """Its shape does not tell that the file has it in another order."""
    grid = mx.nd.array(np.linspace(-1, 1, 8).reshape(1, 2, 2, 2))
    symbol = sym.BilinearSampler(sym.Variable("data"), sym.Variable("grid"), name="sampled")
    first = build_model(symbol, {"grid": grid}, {"data": (1, 1, 3, 3)}).model()
    _, arguments, _ = import_model(first)
    np.testing.assert_array_equal(arguments["grid"].asnumpy(), grid.asnumpy())
    assert same(first, exported_again(first)[1])


def test_large_parameters_beside_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(export_model, "EXTERNAL_DATA_FROM", 1)
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=30, name="large")
    symbol = sym.L2Normalization(x, name="unit")
    weight = np.random.default_rng(0).normal(size=(30, 40))
    params = {"large_weight": mx.nd.array(weight), "large_bias": mx.nd.zeros(30)}
    path = mx.onnx.export_model(symbol, params, {"data": (2, 40)},
                                onnx_file_path=str(tmp_path / "large.onnx"))
    assert (tmp_path / "large.onnx.data").exists()
    again, arguments, _ = import_model(path)
    assert operators(again) == operators(symbol)
    np.testing.assert_array_equal(arguments["large_weight"].asnumpy(),
                                  params["large_weight"].asnumpy())


def test_inputs_that_become_constants():
    model = first_file("proposals")[2]
    symbol, arguments, _ = import_model(model, constants={"size": np.ones((1, 3), np.float32)})
    assert "_contrib_Proposal" in operators(symbol)
    np.testing.assert_array_equal(arguments["size"].asnumpy(), np.ones((1, 3)))


def test_operators_of_a_domain_have_no_symbol():
    symbol = sym.gammaln(sym.Variable("data"), name="odd")
    assert not build_model(symbol, {}, {"data": (2,)}, custom_domain="own").model().metadata_props


@pytest.mark.parametrize("operator, attributes, shapes", [
    ("_contrib_AdaptiveAvgPooling2D", {"output_size": "(4194304, 1)"}, [(1, 1, 4000000, 1)]),
    ("_contrib_Proposal", {"scales": "(1,)", "ratios": "(1,)"},
     [(1, 2, 4000, 4000), (1, 4, 4000, 4000), (1, 3)]),
    ("_contrib_box_nms", {}, [(4000000, 6)]), ("_arange", {"start": "0", "stop": "4000000"}, []),
    ("_eye", {"N": "4000000", "M": "4000000"}, []), ("_eye", {"N": "11000", "M": "11000"}, []),
    ("diag", {}, [(4000000,)]), ("GridGenerator", {"transform_type": "affine",
                                                   "target_shape": "(10000, 10000)"}, [(1, 6)]),
    ("SliceChannel", {"num_outputs": "1000000000"}, [(2, 4)]),
    ("RNN", {"mode": "lstm", "state_size": "2", "num_layers": "1000000000"},
     [(2, 1, 2), (8,), (2, 1, 2), (2, 1, 2)])])
def test_operators_that_would_need_much_memory_or_time(operator, attributes, shapes):
    """A small file must not make the importer compute large constants."""
    sizes = shapes or [(2,)]
    inputs = [onnx.helper.make_tensor_value_info(f"x{index}", onnx.TensorProto.FLOAT, shape)
              for index, shape in enumerate(sizes)]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x0"], ["y"])], "g", inputs,
                                   [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    nodes = [{"op": "null", "name": f"x{index}", "inputs": [],
              "attrs": {"__shape__": str(shape), "__dtype__": "0"}}
             for index, shape in enumerate(sizes)]
    nodes.append({"op": operator, "name": "large", "attrs": attributes,
                  "inputs": [[index, 0, 0] for index in range(len(shapes))]})
    model.metadata_props.add(key=KEY, value=json.dumps({
        "nodes": nodes, "arg_nodes": [*range(len(sizes))], "heads": [[len(sizes), 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]}}))
    tracemalloc.start()
    try:
        assert operators(import_model(model)[0]) == ["Activation"]
        # Positions of 4,000,000 elements are 32 MB, and there are a few such arrays.
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


def test_constants_of_all_operators_are_limited_together(monkeypatch):
    model = chain()
    monkeypatch.setattr(constant_folding, "LIMIT", -1000)
    assert "L2Normalization" not in operators(import_model(model)[0])


def test_large_tensors_are_imported_node_by_node(monkeypatch):
    """What an operator makes of absurd shapes may need much memory."""
    monkeypatch.setattr(own_export, "LARGEST", 11)
    model = chain()
    assert "L2Normalization" not in operators(import_model(model)[0])
    monkeypatch.setattr(own_export, "LARGEST", 24)
    assert "L2Normalization" in operators(import_model(model)[0])
