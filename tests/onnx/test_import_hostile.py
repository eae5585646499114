"""Hostile ONNX files: a named error, bounded memory, no file outside the folder read."""

from __future__ import annotations

import os
import random
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod import MXNetError

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from nbmod.base import NoSuchFile  # noqa: E402
from nbmod.onnx.importing import (  # noqa: E402
    DamagedModel,
    UnsupportedModel,
    graph_import,
    import_model,
    onnx_file,
    tensor_data,
)

MEMORY = 600 * 2 ** 20
"""Bytes: folded constants may have 256 MiB, besides four times the file."""


def model(text: str, opset: int = 17) -> onnx.ModelProto:
    """A model from the text of its graph."""
    graph = onnx.parser.parse_graph(text)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def refused(given, error=DamagedModel, match: str | None = None) -> None:
    """Importing raises the error, without much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=match):
            import_model(given)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


# -- shapes and values -----------------------------------------------------------------------------


@pytest.mark.parametrize("body", [
    "y = ConstantOfShape(big)", "y = Expand(one, big)", "t = Tile(one, long) y = Add(x, t)",
    "n = Constant<value_int=4611686018427387904>() z = Constant<value_int=0>() "
    "s = Constant<value_int=1>() y = Range(z, n, s)",
    "a = ConstantOfShape(part) b = Concat<axis=0>(a, a, a, a) c = Concat<axis=0>(b, b, b, b) "
    "y = Concat<axis=0>(c, c, c, c)",
    "m = ConstantOfShape(column) r = ConstantOfShape(row) y = Add(m, r)"])
def test_constants_that_need_much_memory(body):
    text = ("g (float[2] x) => (float[N] y) <int64[2] big = {1099511627776, 1048576}, "
            "float[1] one = {1}, int64[1] long = {1099511627776}, int64[1] part = {16777216}, "
            "int64[2] column = {1048576, 1}, int64[2] row = {1, 1048576}> {" + body + "}")
    refused(model(text), match="would need [0-9]+ bytes")


def test_weights_with_absurd_dimensions():
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2 ** 40, 2 ** 20],
                         raw_data=b"1234")
    text = "g (float[2] x) => (float[2] y) {y = Add(x, w)}"
    for dims in ([2 ** 40, 2 ** 20], [-1], [0, -5], [1] * 40, [3]):
        proto = model(text)
        del tensor.dims[:]
        tensor.dims.extend(dims)
        proto.graph.initializer.append(tensor)
        refused(proto, match="initializer 'w'")


def test_inputs_with_absurd_dimensions():
    refused(model("g (float[1099511627776, 1099511627776] x) => (float[N] y) {y = Relu(x)}"),
            match="input 'x'")


@pytest.mark.parametrize("body", [
    "r = Constant<value_floats=[1.0, 1.0, 1e9, 1e9]>() y = Resize(x, , r)",
    "p = Constant<value_ints=[0, 0, 0, 4611686018427387904, 0, 0, 0, 0]>() y = Pad(x, p)",
    "y = AveragePool<kernel_shape=[4611686018427387904, 1]>(x)",
    "y = MaxPool<kernel_shape=[2000, 2000], dilations=[2, 2], pads=[4000, 4000, 4000, 4000]>(x)",
    "y = Transpose<perm=[0, 1, 2, 7]>(x)", "y = Softmax<axis=99>(x)",
    "y = Conv<group=0>(x, x)", "y = LRN<size=-3>(x)", "y = DepthToSpace<blocksize=0>(x)",
    "y = Split<axis=-9>(x)", "d = Constant<value_int=4611686018427387904>() "
    "v = Constant<value_floats=[0.0, 1.0]>() y = OneHot(x, d, v)"])
def test_attributes_out_of_range(body):
    refused(model("g (float[1, 1, 4, 4] x) => (float[N] y) {" + body + "}"), MXNetError)


def test_unrolled_steps_are_limited():
    text = ("g (float[100000, 1, 2] x, float[1, 6, 2] w, float[1, 6, 2] r) => (float[N] y) "
            "{y = GRU<hidden_size=2>(x, w, r)}")  # MXNet's GRU resets after the product
    refused(model(text), UnsupportedModel, "100000 steps")


# -- graphs ----------------------------------------------------------------------------------------


def test_cycles():
    refused(model("g (float[2] x) => (float[2] y) {y = Add(x, z) z = Relu(y)}"),
            match="form a cycle")
    refused(model("g (float[2] x) => (float[2] y) {y = Relu(y)}"), match="form a cycle")


@pytest.mark.parametrize("body, said", [
    ("y = Relu(x) y = Abs(x)", "already"), ("x = Relu(x) y = Abs(x)", "already"),
    ("y = Relu(absent)", "'absent' is read"), ("z = Relu(x)", "'y' is read")])
def test_names_that_are_defined_twice_or_never(body, said):
    refused(model("g (float[2] x) => (float[2] y) {" + body + "}"), match=said)


def test_functions_that_call_themselves():
    node = helper.make_node("f", ["a"], ["b"], domain="own")
    function = helper.make_function("own", "f", ["a"], ["b"], [node],
                                    [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)])
    proto = model("g (float[2] x) => (float[2] y) {y = Relu(x)}")
    proto.graph.node[0].CopyFrom(helper.make_node("f", ["x"], ["y"], domain="own"))
    proto.functions.append(function)
    refused(proto, match="inside of each other")


def test_functions_that_grow_exponentially(monkeypatch):
    monkeypatch.setattr(graph_import, "MAX_INLINED", 2000)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    proto = model("g (float[2] x) => (float[2] y) {y = Relu(x)}")
    for level in range(12):
        inner = f"f{level - 1}" if level else "Relu"
        names = ["a", *[f"t{i}" for i in range(30)]]
        nodes = [helper.make_node(inner, [a], [b], domain="own" if level else "")
                 for a, b in zip(names, names[1:], strict=False)]
        proto.functions.append(helper.make_function("own", f"f{level}", ["a"], [names[-1]], nodes,
                                                    opsets))
    proto.graph.node[0].CopyFrom(helper.make_node("f11", ["x"], ["y"], domain="own"))
    refused(proto, match="more than 2000 nodes")


def test_deeply_nested_graphs():
    body = "y = Relu(x)"
    proto = model("g (float[2] x) => (float[2] y) {" + body + "}")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "inner", [],
                              [helper.make_tensor_value_info("z", 1, [2])])
    for _ in range(60):
        node = helper.make_node("If", ["c"], ["z"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([node], "outer", [], list(graph.output))
        if graph.ByteSize() > 2 ** 18:
            break
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    proto.graph.node.extend(graph.node)
    import_or_refuse(proto.SerializeToString())
    chain = b"\x0a\x02\x3a\x00"
    for _ in range(2000):  # GraphProto.node.attribute.g, again and again
        chain = field(1, field(5, field(6, chain)))
    refused(field(7, chain))


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf that holds bytes."""
    size, parts = len(content), []
    while size > 127:
        parts.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *parts, size]) + content


def test_many_nodes_of_one_name():
    """Their constants are not all compared with each other."""
    count = 3 * graph_import.COMPARED
    text = " ".join(f"i{n} = Constant<value_ints=[-{n + 1}]>() [same] g{n} = Gather(x, i{n})"
                    for n in range(count))
    names = ", ".join(f"g{n}" for n in range(count))
    proto = model(f"g (float[{count}] x) => (float[{count}] y) {{{text} y = "
                  f"Concat<axis=0>({names})}}")
    symbol, arguments, _ = import_model(proto)
    data = mx.nd.arange(count)
    found = symbol.bind(mx.cpu(), {"x": data, **arguments}).forward()[0].asnumpy()
    np.testing.assert_array_equal(found, data.asnumpy()[::-1])


def test_many_open_dimensions():
    """Sizes are inferred for each of them, so there is a limit."""
    for count in (3, 40):
        inputs = ", ".join(f"float[1, T{n}] x{n}" for n in range(count))
        names = ", ".join(f"x{n}" for n in range(count))
        proto = model(f"g ({inputs}) => (float[1, T, 1] y) {{ rest = Constant<value_ints=[-1, 1]>()"
                      f" z = Concat<axis=1>({names}) n = Shape<start=0, end=1>(z)"
                      " t = Concat<axis=0>(n, rest) y = Reshape(z, t) }")
        symbol = import_model(proto)[0]
        shapes = {f"x{n}": (1, n + 1) for n in range(count)}
        assert symbol.infer_shape(**shapes)[1] == [(1, count * (count + 1) // 2, 1)]


# -- files ----------------------------------------------------------------------------------------


def test_paths_that_are_no_files(tmp_path):
    for path in (tmp_path, tmp_path / "absent.onnx", "a\0b.onnx"):
        refused(path, NoSuchFile, "import_model")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_and_devices(tmp_path):
    """Neither waits for ever, nor reads without an end."""
    os.mkfifo(tmp_path / "pipe.onnx")
    for path in (tmp_path / "pipe.onnx", "/dev/zero"):
        refused(path, match="expected a regular file")


def test_files_that_are_too_large_for_a_model(tmp_path, monkeypatch):
    path = tmp_path / "large.onnx"
    path.write_bytes(NETWORK)
    assert import_model(path)
    monkeypatch.setattr(onnx_file, "MAX_BYTES", 100)
    refused(path, match="no ONNX model: .*at most 100 bytes")


# -- external data ---------------------------------------------------------------------------------


def external(folder, location: str, **entries: str):
    """The path of a model whose weights are in another file."""
    proto = model("g (float[2] x) => (float[2] y) {y = Add(x, w)}")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2],
                         data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    proto.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.fixture
def folder(tmp_path):
    """The folder of a model, beside a file that must not be read."""
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    for path in (tmp_path / "secret.bin", inside / "weights.bin", inside / "sub" / "weights.bin"):
        path.write_bytes(np.array([1, 2], "<f4").tobytes())
    return inside


@pytest.mark.parametrize("location", ["weights.bin", "sub/weights.bin", "./weights.bin"])
def test_external_data_inside_the_folder(folder, location):
    arguments = import_model(external(folder, location))[1]
    assert arguments["w"].asnumpy().tolist() == [1, 2]


@pytest.mark.parametrize("location", [
    "../secret.bin", "sub/../../secret.bin", "..\\secret.bin", "/etc/hostname", "", ".", "sub",
    "absent.bin", "C:\\secret.bin", "\\\\host\\share\\x", "weights.bin\0", "file:///etc/hostname"])
def test_external_data_outside_the_folder(folder, location):
    refused(external(folder, location), match="initializer 'w': external data")


def test_absolute_paths_are_refused_inside_the_folder_too(folder):
    refused(external(folder, str(folder / "weights.bin")), match="expected a relative path")


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("target", ["../secret.bin", "sub/link.bin"])
def test_links_out_of_the_folder(folder, target):
    os.symlink("../../secret.bin", folder / "sub" / "link.bin")
    os.symlink(target, folder / "link.bin")
    refused(external(folder, "link.bin"), match="no file inside the folder")


@pytest.mark.parametrize("entries", [
    {"offset": "4"}, {"offset": "-4"}, {"offset": "99"}, {"length": "4"}, {"length": "-1"},
    {"length": str(2 ** 62)}, {"offset": str(2 ** 80)}, {"offset": "x"}, {"length": ""}])
def test_external_data_beyond_its_file(folder, entries):
    refused(external(folder, "weights.bin", **entries), match="initializer 'w'")


def test_external_data_that_many_tensors_share(folder, monkeypatch):
    """A small model could ask for the same bytes again and again."""
    path = external(folder, "weights.bin")
    proto = onnx.load(path, load_external_data=False)
    for number in range(9):
        tensor = proto.graph.initializer.add()
        tensor.CopyFrom(proto.graph.initializer[0])
        tensor.name = f"w{number}"
    path.write_bytes(proto.SerializeToString())
    assert import_model(path)[1].keys() == {"w"}
    monkeypatch.setattr(tensor_data, "SHARED", 0)
    refused(path, match="tensors need 40 bytes together, and their files have 8")


def test_external_data_needs_a_folder(folder):
    refused(external(folder, "weights.bin").read_bytes(), match="import the model from a file")


# -- damage ----------------------------------------------------------------------------------------


def network() -> bytes:
    """A file with weights, attributes, a branch and a loop."""
    data = mx.sym.Variable("data")
    x = mx.sym.Convolution(data, num_filter=2, kernel=(3, 3), name="conv")
    x = mx.sym.BatchNorm(x, name="bn", fix_gamma=False)
    x = mx.sym.Pooling(x, kernel=(2, 2), pool_type="avg", name="pool")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=3, name="fc")
    x = mx.sym.softmax(mx.sym.Embedding(x, input_dim=3, output_dim=2, name="embed"), name="out")
    arguments, _, states = x.infer_shape(data=(1, 1, 6, 6))
    names = [*x.list_arguments(), *x.list_auxiliary_states()]
    params = {name: mx.nd.ones(shape) for name, shape in zip(names, [*arguments, *states],
                                                             strict=True) if name != "data"}
    from nbmod.onnx.exporting.export_model import build_model

    proto = build_model(x, params, [(1, 1, 6, 6)]).model()
    proto.graph.node.extend(onnx.parser.parse_graph(
        "g (float[1] data) => (float[1] z) {c = Constant<value_int=3>() t = Equal(c, c) "
        "z = If(t) <then_branch = a () => (float[1] p) {p = Relu(data)}, "
        "else_branch = b () => (float[1] q) {q = Abs(data)}>}").node)
    proto.graph.output.append(helper.make_tensor_value_info("z", 1, None))
    return proto.SerializeToString()


NETWORK = network()


def import_or_refuse(content: bytes) -> bool:
    """Whether a file is imported; errors must be nbmod's."""
    try:
        import_model(content)
    except MXNetError:
        return False
    return True


def test_the_network_is_sound():
    assert import_or_refuse(NETWORK)


@pytest.mark.parametrize("content", [b"", b"\0", b"not a model", b"\xff" * 1000,
                                     bytes(range(256)) * 10])
def test_no_models(content):
    refused(content, match="no ONNX model")


def test_files_that_end_early():
    for size in range(0, len(NETWORK), 37):
        assert not import_or_refuse(NETWORK[:size])


edits = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(
    ["flip", "set", "cut", "insert", "copy"]), st.integers(0, 255)), min_size=1, max_size=6)


def edited(content: bytes, changes) -> bytes:
    """The content with bytes changed, removed, added or repeated."""
    found = bytearray(content)
    for where, how, value in changes:
        i = int(where * len(found))
        if how == "flip":
            found[i:i + 1] = bytes([found[i] ^ 1 << value % 8]) if found else b""
        elif how == "set":
            found[i:i + 1] = bytes([value])
        elif how == "cut":
            del found[i:i + value % 9]
        elif how == "insert":
            found[i:i] = bytes([value] * (1 + value % 4))
        else:
            found[i:i] = found[i:i + value]
    return bytes(found)


@pytest.mark.parametrize("text", [b"Conv", b"conv_bias", b"conv_weight", b"data"])
def test_text_that_is_not_utf8(text):
    """protobuf gives such text as bytes."""
    content = NETWORK.replace(text, b"\xff" + text[1:])
    assert content != NETWORK
    refused(content, match="is no text|no ONNX model")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits)
def test_damaged_bytes(changes):
    """A damaged file is imported, or refused by an error of nbmod's."""
    import_or_refuse(edited(NETWORK, changes))


NUMBERS = [0, 1, -1, 2, 7, 2 ** 15, 2 ** 31 - 1, -2 ** 31, 2 ** 40, 2 ** 63 - 1, -2 ** 63]


def distort_attribute(rng: random.Random, graph, node) -> None:
    if node.attribute:
        found = rng.choice(node.attribute)
        found.i = rng.choice(NUMBERS)
        found.f = rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e38])
        if found.ints:
            found.ints[rng.randrange(len(found.ints))] = rng.choice(NUMBERS)


def distort_inputs(rng: random.Random, graph, node) -> None:
    names = ["", *[each.name for each in graph.initializer],
             *[name for each in graph.node for name in each.output]]
    kind = rng.randrange(3)
    if kind == 0 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif kind == 1 and node.input:
        del node.input[rng.randrange(len(node.input))]
    else:
        node.input.append(rng.choice(names))


def distort_operator(rng: random.Random, graph, node) -> None:
    node.op_type = rng.choice([each.op_type for each in graph.node])


def distort_weights(rng: random.Random, graph, node) -> None:
    tensor = rng.choice(graph.initializer)
    shape = (rng.choice([0, 1, 2, 5]),) * rng.choice([0, 1, 2, 4])
    dtype = rng.choice([np.float32, np.int64, np.bool_, np.float16, np.uint8])
    array = np.resize(numpy_helper.to_array(tensor), shape).astype(dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def distort_dimension(rng: random.Random, graph, node) -> None:
    dims = graph.input[0].type.tensor_type.shape.dim
    dims[rng.randrange(len(dims))].dim_value = rng.choice(NUMBERS)


DISTORTIONS = [distort_attribute, distort_inputs, distort_operator, distort_weights,
               distort_dimension]


def distorted(rng: random.Random) -> onnx.ModelProto:
    """The network with parts exchanged for others that the protobuf allows."""
    proto = onnx.ModelProto()
    proto.ParseFromString(NETWORK)
    for _ in range(rng.choice([1, 2, 3])):
        rng.choice(DISTORTIONS)(rng, proto.graph, rng.choice(proto.graph.node))
    proto.opset_import[0].version = rng.choice([17, 17, 17, 0, 7, 9, 11, 13, 19, 99])
    return proto


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2 ** 32))
def test_distorted_graphs(seed):
    import_or_refuse(distorted(random.Random(seed)).SerializeToString())
