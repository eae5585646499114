"""`import_model`: names, shapes, parameters, what is refused, functions, and blocks of Gluon."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod import MXNetError

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from nbmod.cli.main import main  # noqa: E402
from nbmod.onnx.importing import DamagedModel, ShapeNeeded, UnsupportedModel  # noqa: E402

LAYER = """
g (float[N, 3] x) => (float[N, 2] y)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {10, 20}> {
    [fc] h = Gemm(x, w, b)
    [act] y = Relu(h)
}
"""


def model(text: str, opset: int = 17, **domains: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", opset),
              *(helper.make_opsetid(domain, version) for domain, version in domains.items())]
    return helper.make_model(onnx.parser.parse_graph(text), opset_imports=opsets)


def run(symbol, arguments, states=None, **inputs) -> list[np.ndarray]:
    given = {name: mx.nd.array(value, dtype=value.dtype) for name, value in inputs.items()}
    executor = symbol.bind(mx.cpu(), {**arguments, **given}, aux_states=states or {},
                           grad_req="null")
    return [each.asnumpy() for each in executor.forward()]


def test_a_layer():
    symbol, arguments, states = mx.onnx.import_model(model(LAYER))
    assert symbol.list_arguments() == ["x", "w", "b"] and symbol.list_outputs() == ["act_output"]
    assert not states and arguments.keys() == {"w", "b"}
    x = np.array([[1, -1, 1], [0, 0, -9]], np.float32)
    w = np.array([[1, 2], [3, 4], [5, 6]])
    np.testing.assert_allclose(run(symbol, arguments, x=x)[0],
                               np.maximum(x @ w + [10, 20], 0))


def test_imported_networks_are_trained():
    symbol, arguments, states = mx.onnx.import_model(model(LAYER))
    net = mx.sym.SoftmaxOutput(symbol, name="softmax")
    module = mx.mod.Module(net, data_names=["x"])
    x = np.random.default_rng(0).standard_normal((32, 3)).astype(np.float32)
    data = mx.io.NDArrayIter({"x": x}, {"softmax_label": (x[:, 0] > 0).astype(np.float32)}, 16)
    module.fit(data, num_epoch=12, arg_params=arguments, aux_params=states,
               optimizer_params={"learning_rate": 0.5})
    assert module.score(data, "acc")[0][1] > 0.9


def test_paths_bytes_and_models(tmp_path):
    proto = model(LAYER)
    path = tmp_path / "layer.onnx"
    path.write_bytes(proto.SerializeToString())
    texts = [mx.onnx.import_model(given)[0].tojson()
             for given in (proto, path, str(path), path.read_bytes())]
    assert len(set(texts)) == 1
    with pytest.raises(MXNetError, match="absent.onnx"):
        mx.onnx.import_model(tmp_path / "absent.onnx")
    with pytest.raises(TypeError, match="int is given"):
        mx.onnx.import_model(3)


def test_open_dimensions_stay_open():
    symbol, arguments, _ = mx.onnx.import_model(model(LAYER))
    for rows in (1, 5):
        assert symbol.infer_shape(x=(rows, 3))[1] == [(rows, 2)]


WIDE = """
g (float[N, C] x) => (float[M] y)
{ s = Shape(x) n = ReduceProd<keepdims=1>(s) y = Reshape(x, n) }
"""


def test_shapes_that_are_needed():
    with pytest.raises(ShapeNeeded, match="pass shapes="):
        mx.onnx.import_model(model(WIDE))
    symbol, _, _ = mx.onnx.import_model(model(WIDE), shapes={"x": (2, 3)})
    assert symbol.infer_shape(x=(2, 3))[1] == [(6,)]


def test_values_that_are_needed():
    proto = model("g (float[4] x, int64[1] k) => (float[M] y) {z = Constant<value_ints=[0]>() "
                  "y = Slice(x, z, k)}")
    with pytest.raises(ShapeNeeded, match="depends on k") as caught:
        mx.onnx.import_model(proto)
    assert caught.value.inputs == ["k"]
    symbol, arguments, _ = mx.onnx.import_model(proto, constants={"k": np.array([3])})
    assert symbol.list_arguments() == ["x"]
    assert run(symbol, arguments, x=np.arange(4, dtype=np.float32))[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("given, said", [
    ({"shapes": {"z": (1,)}}, r"shapes has \['z'\], but the inputs are \['x'\]"),
    ({"shapes": {"x": (2, 4)}}, r"shapes gives \(2, 4\), but the model declares \(0, 3\)"),
    ({"constants": {"w": np.ones(2)}}, r"constants has \['w'\]")])
def test_shapes_and_constants_must_fit(given, said):
    with pytest.raises(MXNetError, match=said):
        mx.onnx.import_model(model(LAYER), **given)


def test_all_unsupported_nodes_are_reported():
    proto = model("g (float[2, 3] x, float[1, 4, 4] b) => (float[N] y, float[N] z) {"
                  "[odd] i = own.Odd<level=3>(x) [after] j = Relu(i) [bits] k = NonZero(x) "
                  "[strange] y = Strange(j) [pool] z, w = MaxPool<kernel_shape=[2]>(b)}", own=1)
    with pytest.raises(UnsupportedModel) as caught:
        mx.onnx.import_model(proto)
    assert [(node.name, node.operator) for node in caught.value.nodes] == [
        ("odd", "own.Odd"), ("bits", "NonZero"), ("pool", "MaxPool"), ("strange", "Strange")]
    text = str(caught.value)
    assert "odd: own.Odd(level=3): operators of this domain are not known" in text
    assert "pool: MaxPool(kernel_shape=[2]): indices of maxima have no counterpart" in text


def test_many_nodes_that_need_values():
    """The inputs that values come from are searched for the nodes that the error shows only."""
    nodes = [helper.make_node("Expand", ["x", "x"], [f"y{i}"]) for i in range(250)]
    proto = model("g (float[2] x) => (float[2] y) {y = Relu(x)}")
    proto.graph.node.extend(nodes)
    with pytest.raises(ShapeNeeded, match="and 50 more") as caught:
        mx.onnx.import_model(proto)
    assert caught.value.inputs == ["x"]


def test_functions_of_the_model():
    opsets = [helper.make_opsetid("", 17)]
    scaled = helper.make_function(
        "own", "Scaled", ["a"], ["b"],
        [helper.make_node("LeakyRelu", ["a"], ["t"], alpha=0.5),
         helper.make_node("Neg", ["t"], ["b"])],
        opsets, ["alpha"])
    scaled.node[0].attribute[0].CopyFrom(onnx.AttributeProto(
        name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT))
    proto = model("g (float[2] x) => (float[2] y) {y = own.Scaled<alpha=0.25>(x)}", own=1)
    proto.functions.append(scaled)
    symbol, arguments, _ = mx.onnx.import_model(proto)
    assert run(symbol, arguments, x=np.array([-4, 4], np.float32))[0].tolist() == [1, -4]


def test_old_opsets_are_refused():
    with pytest.raises(MXNetError, match="opset 6 is not supported, only 7 and later"):
        mx.onnx.import_model(model(LAYER, opset=6))


def test_sequences_and_foreign_types_are_refused():
    proto = model(LAYER)
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2]))
    proto.graph.input.append(helper.make_value_info("list", kind))
    proto.graph.input.append(helper.make_tensor_value_info("text", TensorProto.STRING, [2]))
    with pytest.raises(UnsupportedModel, match="list: input(.|\n)*text: input"):
        mx.onnx.import_model(proto)


def test_inputs_without_elements_are_constants():
    proto = model("g (float[2] x, float[0] e) => (float[2] y) {y = Concat<axis=0>(e, x)}")
    symbol, arguments, _ = mx.onnx.import_model(proto)
    assert symbol.list_arguments() == ["x"]
    assert run(symbol, arguments, x=np.ones(2, np.float32))[0].tolist() == [1, 1]


def test_metadata():
    assert mx.onnx.get_model_metadata(model(LAYER)) == {
        "input_tensor_data": [("x", (0, 3))], "output_tensor_data": [("y", (0, 2))]}
    with pytest.raises(DamagedModel):
        mx.contrib.onnx.get_model_metadata(b"nothing")


def test_blocks():
    block = mx.contrib.onnx.import_to_gluon(model(LAYER), mx.cpu())
    assert sorted(block.collect_params()) == ["b", "w"]
    assert block(mx.nd.array([[1, 1, 1]])).asnumpy().tolist() == [[19, 32]]


def test_weights_that_are_shared_stay_one():
    proto = model("g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> "
                  "{a = Add(x, w) b = Gemm(a, w) c = Gemm(b, w) y = MatMul(c, w)}")
    symbol, arguments, _ = mx.onnx.import_model(proto)
    assert symbol.list_arguments() == ["x", "w", "w_1"]  # as it is, and turned
    assert len(arguments) == 2
    x = np.array([[1, 0], [0, 1]], np.float32)
    w = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_allclose(run(symbol, arguments, x=x)[0], (x + w) @ w @ w @ w)


def test_files_are_converted(tmp_path):
    """`nbmod convert` reads ONNX, and writes it again."""
    first, last = (str(tmp_path / name) for name in ("a.onnx", "c.onnx"))
    onnx.save(model(LAYER.replace("N", "4")), first)
    assert main(["convert", first, "-o", str(tmp_path / "b")]) in (None, 0)
    stored = [str(tmp_path / "b-symbol.json"), str(tmp_path / "b-0000.params")]
    assert main(["convert", *stored, "--shape", "x=4,3", "-o", last]) in (None, 0)
    symbol, arguments, _ = mx.onnx.import_model(last)
    assert symbol.list_arguments() == ["x", "w", "b"]
    np.testing.assert_array_equal(arguments["b"].asnumpy(), [10, 20])


def test_open_slices_stay_open():
    """The size that was known at import does not become the end of a slice."""
    proto = model("g (float[2, 4] x) => (float[2, 3] y) <int64[2] b = {0, 1}, "
                  "int64[2] e = {9223372036854775807, 9223372036854775807}> {y = Slice(x, b, e)}")
    symbol, _, _ = mx.onnx.import_model(proto)
    assert symbol.infer_shape(x=(5, 7))[1] == [(5, 6)]


def test_names_that_clash_are_made_different():
    proto = model("g (float[2] x) => (float[2] y, float[2] z) "
                  "{[x] a = Relu(x) [x] y = Neg(a) [y] z = Abs(a)}")
    symbol, arguments, _ = mx.onnx.import_model(proto)
    nodes = symbol.get_internals().list_outputs()
    assert len(set(nodes)) == len(nodes) == 4
    assert run(symbol, arguments, x=np.array([-1, 2], np.float32))[1].tolist() == [0, 2]


def test_loops():
    """Scan becomes foreach, Loop foreach or while_loop, If a branch."""
    scan = model("g (float[3, 2] x, float[2] s) => (float[2] last, float[3, 2] all) {"
                 "last, all = Scan<num_scan_inputs=1, body = b (float[2] a, float[2] row) => "
                 "(float[2] next, float[2] out) {next = Add(a, row) out = Mul(next, next)}>(s, x)}")
    symbol, arguments, _ = mx.onnx.import_model(scan)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    last, stacked = run(symbol, arguments, x=x, s=np.ones(2, np.float32))
    sums = 1 + np.cumsum(x, 0)
    np.testing.assert_array_equal(last, sums[-1])
    np.testing.assert_array_equal(stacked, sums ** 2)
    chosen = model("g (float[1] x, bool[1] c) => (float[1] y) {y = If(c) <then_branch = t () => "
                   "(float[1] p) {p = Neg(x)}, else_branch = e () => (float[1] q) {q = Exp(x)}>}")
    symbol, arguments, _ = mx.onnx.import_model(chosen)
    for choice, expected in ((1, -2), (0, np.exp(2))):
        found = run(symbol, arguments, x=np.array([2], np.float32),
                    c=np.array([choice], np.bool_))
        np.testing.assert_allclose(found[0], [expected], rtol=1e-6)
