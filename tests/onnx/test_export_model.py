"""`export_model`: whole graphs, their inputs and outputs, what is refused, and verification."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nbmod as mx
from nbmod import MXNetError, sym

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from nbmod.onnx import mx2onnx, verification  # noqa: E402
from nbmod.onnx.exporting import onnx_graph  # noqa: E402
from nbmod.onnx.exporting.converter import CONVERTERS, load_converters  # noqa: E402
from nbmod.onnx.exporting.export_graph import UnsupportedNodes  # noqa: E402
from nbmod.onnx.exporting.export_model import build_model  # noqa: E402
from nbmod.onnx.verification import CASES, VerificationError, verify_export  # noqa: E402
from tests.programs import duplicate_names  # noqa: E402

DATA = (2, 3, 8, 8)


def network() -> sym.Symbol:
    """Convolution, BatchNorm with a fixed gamma, PReLU, dropout, a dense layer and a loss."""
    x = sym.Convolution(sym.Variable("data"), num_filter=4, kernel=(3, 3), pad=(1, 1), name="conv")
    x = sym.BatchNorm(x, fix_gamma=True, name="bn")
    x = sym.LeakyReLU(x, sym.Variable("slope"), act_type="prelu", name="prelu")
    x = sym.Dropout(sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg"), p=0.5)
    x = sym.FullyConnected(sym.Flatten(x), num_hidden=5, name="fc")
    return sym.SoftmaxOutput(x, name="softmax")


def parameters(symbol: sym.Symbol, dtype: str = "float32", **shapes) -> dict[str, mx.nd.NDArray]:
    """Random parameters of a symbol whose inputs have these shapes."""
    rng = np.random.default_rng(0)
    arguments, _, states = symbol.infer_shape(**shapes)
    named = dict(zip([*symbol.list_arguments(), *symbol.list_auxiliary_states()],
                     [*arguments, *states], strict=True))
    return {name: mx.nd.array(rng.uniform(0.2, 1.0, shape), dtype=dtype)
            for name, shape in named.items() if name not in shapes and "label" not in name}


def run(path: str, **feeds: np.ndarray) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(path).run(None, feeds)


def export(tmp_path, symbol, params, shapes, **options) -> str:
    return mx.onnx.export_model(symbol, params, shapes, onnx_file_path=tmp_path / "model.onnx",
                                **options)


def test_a_classifier(tmp_path):
    net = network()
    path = export(tmp_path, net, parameters(net, data=DATA), [DATA])
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [each.name for each in model.graph.input] == ["data"]
    assert [each.name for each in model.graph.output] == ["softmax"]
    kinds = [node.op_type for node in model.graph.node]
    assert kinds == ["Conv", "BatchNormalization", "PRelu", "AveragePool", "Flatten", "Gemm",
                     "Softmax"]
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    assert stored["bn_gamma"].tolist() == [1] * 4 and stored["slope"].shape == (4, 1, 1)


def test_files_and_pairs_of_dicts(tmp_path):
    net = network()
    params = parameters(net, data=DATA)
    states = net.list_auxiliary_states()
    arguments = {name: each for name, each in params.items() if name not in states}
    pair = [arguments, {name: params[name] for name in states}]
    mx.model.save_checkpoint(str(tmp_path / "net"), 3, net, *pair)
    files = export(tmp_path, str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0003.params"),
                   [DATA])
    with open(files, "rb") as stream:
        first = stream.read()
    for given in (params, pair, {f"arg:{name}": each for name, each in params.items()}):
        with open(export(tmp_path, net, given, {"data": DATA}), "rb") as stream:
            assert stream.read() == first


def test_signatures_are_mxnets():
    """Those of MXNet 1.9.1, whose positions are those before 1.9, then keywords of nbmod."""
    theirs = ("(sym, params, in_shapes=None, in_types=<class 'numpy.float32'>, "
              "onnx_file_path='model.onnx', verbose=False, dynamic=False, "
              "dynamic_input_shapes=None, run_shape_inference=False, input_type=None, "
              "input_shape=None")
    assert str(plain_signature(mx.onnx.export_model)).startswith(theirs + ", *, ")
    assert str(plain_signature(mx.onnx.get_operator_support)) == "(opset_version=None)"
    assert mx.contrib.onnx.export_model is mx.onnx.export_model
    assert mx2onnx.export_model is mx.onnx.export_model


def plain_signature(function) -> inspect.Signature:
    """The signature without annotations."""
    signature = inspect.signature(function)
    return signature.replace(return_annotation=inspect.Signature.empty, parameters=[
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()])


def test_arguments_of_older_versions(tmp_path):
    net = network()
    path = mx.contrib.onnx.export_model(net, parameters(net, data=DATA), input_shape=[DATA],
                                        input_type=np.float32,
                                        onnx_file_path=str(tmp_path / "old.onnx"))
    assert run(path, data=np.ones(DATA, np.float32))[0].shape == (2, 5)


def test_operator_support():
    """All names of the operators of an opset; none of opsets that are not written."""
    latest, first = mx.onnx.get_operator_support(), mx.onnx.get_operator_support(17)
    assert {"Convolution", "SoftmaxOutput", "Dropout", "concat", "_Plus"} <= set(first)
    assert set(latest) - set(first) == {"_contrib_DeformableConvolution",
                                        "_contrib_ModulatedDeformableConvolution"}
    assert "erfinv" not in latest and mx.onnx.get_operator_support(11) == []


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_element_types_are_kept(tmp_path, dtype):
    data = sym.Variable("data", dtype=dtype)
    net = sym.Activation(sym.FullyConnected(data, num_hidden=3, name="fc"), act_type="tanh")
    path = export(tmp_path, net, parameters(net, dtype, data=(2, 4)), [(2, 4)], in_types=dtype)
    kinds = {each.data_type for each in onnx.load(path).graph.initializer}
    assert kinds == {onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}
    assert run(path, data=np.ones((2, 4), dtype))[0].dtype == dtype


def test_dynamic_batch(tmp_path):
    net = network()
    path = export(tmp_path, net, parameters(net, data=DATA), [DATA], dynamic=True)
    shape = onnx.load(path).graph.input[0].type.tensor_type.shape
    assert [each.dim_value for each in shape.dim] == [0, 3, 8, 8]
    assert run(path, data=np.ones((7, *DATA[1:]), np.float32))[0].shape == (7, 5)


def test_dynamic_axes_with_names(tmp_path):
    data = sym.Variable("data")
    net = sym.Reshape(sym.Convolution(data, num_filter=2, kernel=(1, 1), name="conv"),
                      shape=(0, -1), name="flat")
    path = export(tmp_path, net, parameters(net, data=DATA), [DATA], dynamic=True,
                  dynamic_input_shapes=[("batch", 3, 8, None)])
    dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    assert [each.dim_param or each.dim_value for each in dims] == ["batch", 3, 8, 0]
    assert run(path, data=np.ones((1, 3, 8, 5), np.float32))[0].shape == (1, 80)
    with pytest.raises(MXNetError, match="axis 1 of data cannot be dynamic"):
        export(tmp_path, net, parameters(net, data=DATA), [DATA], dynamic=True,
               dynamic_input_shapes=[(2, None, 8, 8)])


def test_what_depends_on_a_dynamic_size_is_refused(tmp_path):
    net = sym.broadcast_like(sym.ones((1, 1)), sym.Variable("data"), lhs_axes=(0,), rhs_axes=(0,))
    export(tmp_path, net, {}, [(3, 2)])
    with pytest.raises(UnsupportedNodes, match="dynamic"):
        export(tmp_path, net, {}, [(3, 2)], dynamic=True)


# -- names ------------------------------------------------------------------------------------


def test_hostile_names(tmp_path):
    """Names that repeat, clash with those of other nodes, or are odd."""
    data = sym.Variable("a b/:0")
    x = sym.Activation(data, act_type="relu", name="same")
    x = sym.exp(x, name="same") + sym.Variable("same_1") * sym.Variable("Gewicht ü")
    net = sym.Group([sym.sqrt(x, name="same"), x, data])
    params = {"same_1": mx.nd.ones((2, 3)), "Gewicht ü": mx.nd.ones((2, 3))}
    path = export(tmp_path, net, params, {"a b/:0": (2, 3)})
    model = onnx.load(path)
    onnx.checker.check_model(model)
    assert len({each.name for each in model.graph.output}) == 3
    assert len(run(path, **{"a b/:0": np.ones((2, 3), np.float32)})) == 3


def test_outputs_that_are_inputs_or_repeat(tmp_path):
    data = sym.Variable("data")
    relu = sym.relu(data, name="relu")
    net = sym.Group([sym.BlockGrad(data, name="stopped"), relu, relu, sym.identity(relu)])
    path = export(tmp_path, net, {}, [(2, 2)])
    for found in run(path, data=np.ones((2, 2), np.float32)):
        assert found.tolist() == [[1, 1], [1, 1]]


def test_outputs_have_the_names_of_nodes(tmp_path):
    parts = sym.split(sym.Variable("data"), num_outputs=2, name="half")
    path = export(tmp_path, sym.Group([parts[1], sym.exp(parts[0], name="exp")]), {}, [(2, 4)])
    assert [each.name for each in onnx.load(path).graph.output] == ["half_output1", "exp"]


def test_equal_input_gives_equal_bytes(tmp_path):
    texts, net = set(), network()
    for _ in range(2):
        with open(export(tmp_path, net, parameters(net, data=DATA), [DATA]), "rb") as stream:
            texts.add(stream.read())
    assert len(texts) == 1


# -- what cannot be expressed -----------------------------------------------------------------


def unsupported() -> sym.Symbol:
    x = sym.erfinv(sym.abs(sym.Variable("data"), name="zeroth"), name="first")
    x = sym.relu(x, name="between")
    return sym.LRN(sym.gammaln(x, name="second"), nsize=4, name="third")


def test_all_unsupported_nodes_are_reported(tmp_path):
    with pytest.raises(UnsupportedNodes) as caught:
        export(tmp_path, unsupported(), {}, [(2, 2, 3, 3)])
    assert [node[:2] for node in caught.value.nodes] == [
        ("first", "erfinv"), ("second", "gammaln"), ("third", "LRN")]
    text = str(caught.value)
    assert "nsize=4" in text and "until='zeroth'" in text and "custom_domain=" in text
    assert not (tmp_path / "model.onnx").exists()


def test_random_operators_that_onnx_lacks(tmp_path):
    with pytest.raises(UnsupportedNodes, match="_shuffle .*: it draws random numbers"):
        export(tmp_path, sym.random.shuffle(sym.Variable("data")), {}, [(2, 2)])


def test_until_a_node(tmp_path):
    net = sym.erfinv(sym.relu(sym.Variable("data"), name="between"), name="last")
    for until in ("between", "between_output"):
        path = export(tmp_path, net, {}, [(2, 2)], until=until)
        assert [node.op_type for node in onnx.load(path).graph.node] == ["Relu"]
    with pytest.raises(MXNetError, match="until is 'betwen'.*did you mean 'between'"):
        export(tmp_path, net, {}, [(2, 2)], until="betwen")


def test_a_custom_domain(tmp_path):
    net = sym.relu(sym.erfinv(sym.Variable("data"), name="inverse"), name="relu")
    path = export(tmp_path, net, {}, [(2, 2)], custom_domain="my.ops")
    model = onnx.load(path)
    assert [(node.domain, node.op_type) for node in model.graph.node] == [
        ("my.ops", "erfinv"), ("", "Relu")]
    assert {each.domain for each in model.opset_import} == {"", "my.ops"}
    with pytest.raises(MXNetError, match="cannot be verified"):
        export(tmp_path, net, {}, [(2, 2)], custom_domain="my.ops", verify=True)


# -- wrong arguments --------------------------------------------------------------------------


@pytest.mark.parametrize("shapes, options, message", [
    ([DATA, DATA], {}, "in_shapes has 2 element.s., expected one for each of the 1 inputs"),
    ({"dato": DATA}, {}, "in_shapes has 'dato', which is no input.*did you mean 'data'"),
    (None, {}, "in_shapes lacks the shape of data"),
    ([DATA], {"opset": 16}, "opset is 16, expected 17 to"),
    ([DATA], {"in_types": [np.float32] * 2}, "in_types has 2 element"),
    ([DATA], {"dynamic": True, "dynamic_input_shapes": [(None, 3)]}, "expected 4 axes"),
])  # fmt: skip
def test_wrong_arguments(tmp_path, shapes, options, message):
    net = network()
    with pytest.raises(MXNetError, match=message):
        export(tmp_path, net, parameters(net, data=DATA), shapes, **options)


def test_missing_parameters_are_named(tmp_path):
    net = network()
    params = parameters(net, data=DATA)
    del params["conv_weight"]
    with pytest.raises(MXNetError, match="'conv_weight'.*missing in params"):
        export(tmp_path, net, params, [DATA])


def test_large_parameters_lie_beside_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr("nbmod.onnx.exporting.export_model.EXTERNAL_DATA_FROM", 100)
    net = network()
    path = export(tmp_path, net, parameters(net, data=DATA), [DATA])
    assert (tmp_path / "model.onnx.data").exists()
    assert run(path, data=np.ones(DATA, np.float32))[0].shape == (2, 5)


# -- verification -----------------------------------------------------------------------------


@pytest.fixture
def wrong_relu(monkeypatch):
    """A converter that makes tanh of relu."""
    load_converters()
    monkeypatch.setitem(CONVERTERS, "relu", lambda node: node.emit("Tanh", node.x))


def test_the_first_wrong_tensor_is_named(tmp_path, wrong_relu):
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    net = sym.exp(sym.relu(x * 2, name="wrong"), name="after")
    with pytest.raises(VerificationError, match=r"that of wrong \(relu\)") as caught:
        export(tmp_path, net, parameters(net, data=(2, 4)), [(2, 4)])
    assert caught.value.tensor == "wrong"
    assert "after (random inputs): largest absolute error" in str(caught.value)
    export(tmp_path, net, parameters(net, data=(2, 4)), [(2, 4)], verify=False)


def test_a_wrong_file_replaces_none(tmp_path, wrong_relu, monkeypatch):
    net = sym.relu(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"))
    params = parameters(net, data=(2, 4))
    (tmp_path / "model.onnx").write_text("old")
    for least in (onnx_graph.EXTERNAL_DATA_FROM, 10):  # in one file, and with one beside it
        monkeypatch.setattr("nbmod.onnx.exporting.export_model.EXTERNAL_DATA_FROM", least)
        with pytest.raises(VerificationError, match="model.onnx does not compute"):
            export(tmp_path, net, params, [(2, 4)])
        assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]
        assert (tmp_path / "model.onnx").read_text() == "old"


def test_verification_tells_errors_of_all_cases(tmp_path):
    net = network()
    model = build_model(net, parameters(net, data=DATA), [DATA], dynamic=True)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.model().SerializeToString())
    report = verify_export(model, str(path))
    assert {each.case for each in report.comparisons} == set(CASES)
    assert all(each.passed for each in report.comparisons) and "worst softmax" in str(report)


def test_what_rounding_decides_is_no_error(tmp_path):
    """Softmax of large numbers turns the last digit of its input into any result."""
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=64, no_bias=True, name="wide")
    x = sym.FullyConnected(x * 1e4, num_hidden=64, no_bias=True, name="again")
    net = sym.softmax(x * 1e4, name="softmax")
    rng = np.random.default_rng(0)
    params = {name: mx.nd.array(rng.standard_normal(each.shape))
              for name, each in parameters(net, data=(4, 64)).items()}
    export(tmp_path, net, params, [(4, 64)])


def test_positions_that_float32_rounds_are_no_error(tmp_path):
    """Positions in a large image have few digits after the point; exp amplifies their errors."""
    x = sym.contrib.BilinearResize2D(sym.Variable("data"), height=240, width=240, name="half")
    net = sym.exp(4 * x, name="exp")
    model = build_model(net, {}, [(1, 1, 480, 480)])
    path = tmp_path / "model.onnx"
    path.write_bytes(model.model().SerializeToString())
    assert verify_export(model, str(path), ["random"]).worst.passed


@pytest.mark.parametrize("value, score", [(0.0, lambda x: x + 1), (15.5, sym.sigmoid)])
def test_ties_are_no_error(tmp_path, value, score):
    """Constants and saturated scores are equal but for rounding: any of them may be the largest."""
    feeds = {"data": np.full((2, 6), value, np.float32)}
    net = sym.argmax(score(sym.Variable("data")), axis=1, name="best")
    reference = verification.Reference.of(build_model(net, {}, [(2, 6)]))
    other = verification.Comparison("zeros", "best", 4.0, 1.0, passed=False)
    [found] = reference.excuse([other], feeds, reference.outputs(feeds))
    assert found.passed and found.sensitivity > 0


def test_a_file_that_the_runtime_refuses(tmp_path, monkeypatch):
    load_converters()
    monkeypatch.setitem(CONVERTERS, "relu", lambda node: node.emit("Relou", node.x))
    with pytest.raises(VerificationError, match="onnxruntime cannot load .*Relou"):
        export(tmp_path, sym.relu(sym.Variable("data")), {}, [(2, 2)])


def test_ir_versions_are_those_of_the_opsets():
    for opset, version in onnx_graph.IR_VERSIONS.items():
        if opset <= onnx.defs.onnx_opset_version():
            ids = [onnx.helper.make_opsetid("", opset)]
            assert onnx.helper.find_min_ir_version_for(ids) == version


def test_axes_that_decide_a_rank_are_not_dynamic():
    """An axis of length 1 is squeezed, one of another length is not."""
    squeezed = mx.sym.squeeze(mx.sym.Variable("data"), name="flat")
    model = build_model(squeezed, {}, [(1, 3)], dynamic=True).model()
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [1, 0]
    with pytest.raises(MXNetError, match="axis 0 of data cannot be dynamic.*flat.*instead of"):
        build_model(squeezed, {}, [(1, 3)], dynamic=True, dynamic_shapes=[("n", 3)])


@pytest.mark.parametrize("name", duplicate_names.NETWORKS)
def test_layers_of_one_name_have_their_own_in_the_file(tmp_path, name):
    """And compute what they compute, there and imported again, in the order of the outputs."""
    net = duplicate_names.NETWORKS[name](sym)
    params = {**duplicate_names.params_for(mx, net), **duplicate_names.states_for(mx, net)}
    path = export(tmp_path, net, params, {"data": duplicate_names.DATA.shape})
    model = onnx.load(path)
    names = [node.name for node in model.graph.node]
    outputs = [output for node in model.graph.node for output in node.output]
    assert len({*names}) == len(names) and len({*outputs}) == len(outputs)
    again, args, states = mx.onnx.import_model(path)
    labels = {label: mx.nd.zeros(duplicate_names.DATA.shape[0])
              for label in duplicate_names.labels_of(net)}
    given = {key: params[key] for key in net.list_arguments() if key in params}
    expected, found = (
        [array.asnumpy() for array in symbol.bind(
            mx.cpu(), {**arrays, "data": mx.nd.array(duplicate_names.DATA)},
            aux_states=aux).forward()]
        for symbol, arrays, aux in ((net, {**given, **labels}, duplicate_names.states_for(mx, net)),
                                    (again, args, states)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)    # of float32


def test_until_a_name_of_several_nodes_is_refused():
    net = duplicate_names.two_layers(sym)
    with pytest.raises(MXNetError, match="until is 'fc'.* name of 2 nodes.*get_internals"):
        build_model(net, duplicate_names.params_for(mx, net), [(6, 4)], until="fc")


def test_names_for_many_nodes_of_one_name_take_one_look_each():
    """Names that are taken are not tried again for every node: 20,000 may have one name."""
    class Looks(dict):
        count = 0

        def __contains__(self, name):
            self.count += 1
            return super().__contains__(name)

    taken = Looks()
    names = [onnx_graph.unique_name("relu", taken) for _ in range(100)]
    assert len({*names}) == 100 and names[:3] == ["relu", "relu_1", "relu_2"]
    assert taken.count <= 300
