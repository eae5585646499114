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


def test_inputs_of_a_fixed_shape_declare_it(tmp_path, capsys):
    text = LAYER.replace("float[N, 3] x", "float[2, 3] x").replace("h)", "h)\nz = Gather(h, i)")
    text = text.replace(") =>", ", int64[2] i) =>").replace(") y)", ", float[2, 2] z)")
    text = text.replace("(float[N, 2] y)", "(float[N, 2] y, float[N, 2] z)")
    proto = model(text)
    symbol, arguments, _ = mx.onnx.import_model(proto)
    assert symbol.infer_shape()[1] == [(2, 2), (2, 2)]
    assert symbol.simple_bind(mx.cpu()).arg_dict["i"].dtype == np.int64
    bound = symbol.simple_bind(mx.cpu(), x=(5, 3), i=(4,))
    assert [each.shape for each in bound.outputs] == [(5, 2), (4, 2)]
    again = mx.sym.load_json(symbol.tojson())
    assert again.infer_shape(x=(7, 3))[1] == [(7, 2), (2, 2)]
    path = tmp_path / "layer.onnx"
    path.write_bytes(proto.SerializeToString())
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "inputs: x (2, 3) float32; i (2,) int64" in shown and "MACs: 12" in shown
    predictor = mx.Predictor(str(path), fixed=True)
    found, _ = predictor(np.ones((2, 3)), np.zeros(2, int))
    np.testing.assert_array_equal(found, [[19, 32]] * 2)


def test_a_predictor_needs_no_shapes_of_fixed_inputs(tmp_path):
    path = tmp_path / "layer.onnx"
    path.write_bytes(model(LAYER.replace("float[N, 3]", "float[2, 3]")).SerializeToString())
    assert mx.Predictor(str(path))(np.ones((5, 3)))[0].shape == (5, 2)


def test_outputs_that_are_constants_keep_their_names():
    proto = model("""g (float[2] x) => (float[2] y, float[2] z, float[2] v)
        <float[2] z = {1, 2}, float[2] w = {3, 4}> {
            y = Add(x, w)  v = Identity(w) }""")
    symbol, arguments, _ = mx.onnx.import_model(proto)
    assert symbol.list_outputs() == ["y_output", "z_output", "v_output"]
    x = np.array([5, 6], np.float32)
    y, z, v = run(symbol, arguments, x=x)
    assert (y.tolist(), z.tolist(), v.tolist()) == ([8, 10], [1, 2], [3, 4])


OPEN_SHAPES = {
    "rows": ("(float[N, 3, 4] x) => (float[N, M] y)", "s = Shape(x) n = Gather(s, zero) "
             "u = Unsqueeze(n, z) t = Concat<axis=0>(u, rest) y = Reshape(x, t)", (3, 4)),
    "heads": ("(float[N, T, 6] x) => (float[N, T, 2, 3] y)", "s = Shape(x) n = Slice(s, z, two) "
              "t = Concat<axis=0>(n, heads) y = Reshape(x, t)", (5, 6)),
    "merged": ("(float[N, T, 6] x) => (float[M, 6] y)", "n = Shape<start=0, end=1>(x) "
               "k = Shape<start=1, end=2>(x) p = Mul(n, k) t = Concat<axis=0>(p, six) "
               "y = Reshape(x, t)", (5, 6)),
    "all": ("(float[N, C] x) => (float[M] y)", "s = Shape(x) n = ReduceProd<keepdims=1>(s) "
            "y = Reshape(x, n)", (3,)),
    "fixed": ("(float[N, 6, 2] x) => (float[N, 12] y)", "k = Shape<start=1, end=2>(x) "
              "d = Mul(k, two) t = Concat<axis=0>(rest, d) y = Reshape(x, t)", (6, 2)),
    "image": ("(float[N, 2, 5, 5] x) => (float[N, 2, 10, 7] y)", "n = Shape<start=0, end=2>(x) "
              "t = Concat<axis=0>(n, size) y = Resize<mode=\"linear\">(x, , , t)", (2, 5, 5)),
    "twice": ("(float[N, 2, 5, 5] x) => (float[N, 2, 10, 10] y)", "y = Resize<coordinate_"
              "transformation_mode=\"asymmetric\", nearest_mode=\"floor\">(x, , scales)",
              (2, 5, 5)),
    "heads of a product": ("(float[N, 2, T, 3] x) => (float[N, 2, T, T] y)", "t = Transpose<perm="
                           "[0, 1, 3, 2]>(x) y = MatMul(x, t)", (2, 5, 3))}


@pytest.mark.parametrize("name", sorted(OPEN_SHAPES))
def test_shapes_that_follow_from_open_ones(name):
    """What exporters write of a batch that is dynamic."""
    onnxruntime = pytest.importorskip("onnxruntime")
    signature, body, sample = OPEN_SHAPES[name]
    proto = model(f"g {signature} <int64 zero = {{0}}, int64[1] z = {{0}}, int64[1] two = {{2}}, "
                  "int64[1] six = {6}, int64[1] rest = {-1}, int64[2] heads = {2, 3}, "
                  "int64[2] size = {10, 7}, float[4] scales = {1, 1, 2, 2}> {" + body + "}")
    proto.ir_version = 8
    symbol, arguments, _ = mx.onnx.import_model(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for batch in (1, 4):
        x = np.random.default_rng(batch).random((batch, *sample), np.float32)
        found, = run(symbol, arguments, x=x)
        # The same products and sums, in another order: rounding of float32.
        np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_shapes_that_do_not_follow_are_named():
    with pytest.raises(ShapeNeeded, match="y: Reshape.*follow from dimensions that are open"):
        mx.onnx.import_model(model("""g (float[N, 2, H, W] x) => (float[N, H, K] y)
            <int64[1] rest = {-1}> {
                n = Shape<start=0, end=1>(x)  h = Shape<start=2, end=3>(x)
                t = Concat<axis=0>(n, h, rest)  y = Reshape(x, t) }"""))
    with pytest.raises(ShapeNeeded, match="m: Min.*follow"):  # 4 at most, not 4
        mx.onnx.import_model(model("""g (float[1, 2] x, float[N] z) => (float[K, 2] y)
            <int64[1] four = {4}, int64[1] two = {2}> {
                n = Shape(z)  m = Min(n, four)  t = Concat<axis=0>(m, two)  y = Expand(x, t) }"""))
    with pytest.raises(ShapeNeeded, match="m: Gather"):  # of a table that has 1 at both sizes
        mx.onnx.import_model(model("""g (float[1, 2] x, float[N] z) => (float[K, 2] y)
            <int64[15] table = {2, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1}, int64[1] two = {2}> {
                n = Shape(z)  m = Gather(table, n)  t = Concat<axis=0>(m, two)
                y = Reshape(x, t) }"""))
    with pytest.raises(ShapeNeeded, match="output.*follow from dimensions that are open"):
        mx.onnx.import_model(model("g (float[N, 2] x) => (int64[2] s) { s = Shape(x) }"))


def test_shapes_that_are_needed():
    wide = """g (float[N, C] x) => (float[N, C] y)
        { s = Shape(x) zeros = ConstantOfShape(s) y = Add(x, zeros) }"""
    with pytest.raises(ShapeNeeded, match="pass shapes="):
        mx.onnx.import_model(model(wide))
    symbol, arguments, _ = mx.onnx.import_model(model(wide), shapes={"x": (2, 3)})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run(symbol, arguments, x=x)[0], x)


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
