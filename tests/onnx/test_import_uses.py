"""Models of one node, in every way that leads in, and every way to use what is there.

The shape of most parameters does not follow from that of the data.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import imported

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from nbmod.cli.main import main  # noqa: E402

F, D, H = np.float32, np.float64, np.float16
SIZE = 5
MODELS = {
    "mul": ("float[N,4] x", "y = Mul(x, v)", {"v": ((4,), F)}),
    "add": ("float[N,4] x", "y = Add(x, v)", {"v": ((1, 4), F)}),
    "sub": ("float[N,4] x", "y = Sub(v, x)", {"v": ((4,), F)}),
    "div": ("float[N,4] x", "y = Div(x, v)", {"v": ((4,), F)}),
    "pow": ("float[N,4] x", "y = Pow(x, v)", {"v": ((4,), F)}),
    "max": ("float[N,4] x", "y = Max(x, v)", {"v": ((4,), F)}),
    "less": ("float[N,4] x", "y = Less(x, v)", {"v": ((4,), F)}),
    "concat": ("float[N,4] x", "y = Concat<axis = 1>(x, v)", {"v": ((SIZE, 2), F)}),
    "where": ("float[5,4] x", "y = Where(c, x, v)", {"c": ((4,), bool), "v": ((4,), F)}),
    "matmul, weight left": ("float[4,N] x", "y = MatMul(v, x)", {"v": ((3, 4), F)}),
    "matmul": ("float[N,4] x", "y = MatMul(x, v)", {"v": ((4, 3), F)}),
    "position embedding": ("float[N,6,4] x", "y = Add(x, v)", {"v": ((1, 6, 4), F)}),
    "layer scale": ("float[N,4,3,3] x", "y = Mul(x, v)", {"v": ((4, 1, 1), F)}),
    "embedding": ("int64[N] x", "y = Gather(v, x)", {"v": ((7, 4), F)}),
    "embedding in float64": ("int64[N] x", "y = Gather(v, x)", {"v": ((7, 4), D)}),
    "indices": ("float[5,4] x", "y = Gather(x, i)", {"i": ((2,), np.int64)}),
    "mul in float16": ("float16[N,4] x", "y = Mul(x, v)", {"v": ((4,), H)}),
    "mul in float64": ("double[N,4] x", "y = Mul(x, v)", {"v": ((4,), D)}),
    "add of integers": ("int32[N,4] x", "y = Add(x, v)", {"v": ((4,), np.int32)}),
    "gemm in float64": ("double[N,4] x", "y = Gemm(x, w, b)", {"w": ((4, 3), D), "b": ((3,), D)}),
    "conv": ("float[N,4,5,5] x", "y = Conv(x, w)", {"w": ((2, 4, 3, 3), F)}),
    "conv in float16": ("float16[N,4,5,5] x", "y = Conv(x, w)", {"w": ((2, 4, 3, 3), H)}),
    "batch norm": ("float[N,4,5,5] x", "y = BatchNormalization(x, g, b, m, v)",
                   dict.fromkeys("gbmv", ((4,), F))),
    "layer norm": ("float[N,4] x", "y = LayerNormalization(x, g, b)",
                   dict.fromkeys("gb", ((4,), F))),
    "of a parameter alone": ("float[N,4] x", "t = Sigmoid(v) y = Add(x, t)", {"v": ((4,), F)}),
}
"""Input, nodes, and the shapes and types of parameters."""


def model_of(name):
    """A file; parameters are between 0.5 and 1.5, integers 0 and 1."""
    given, nodes, params = MODELS[name]
    kind = {"less": "bool", "embedding": "float", "embedding in float64": "double"}.get(
        name, given.split("[")[0])
    graph = onnx.parser.parse_graph(f"g ({given}) => ({kind} y) {{ {nodes} }}")
    graph.output[0].type.tensor_type.ClearField("shape")
    rng = np.random.default_rng(0)
    for key, (shape, dtype) in params.items():
        values = (np.arange(math.prod(shape)) % 2 if dtype in (bool, np.int64, np.int32)
                  else rng.uniform(0.5, 1.5, math.prod(shape)))
        graph.initializer.append(numpy_helper.from_array(values.reshape(shape).astype(dtype), key))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def data_for(model):
    tensor = model.graph.input[0].type.tensor_type
    shape = tuple(dim.dim_value or SIZE for dim in tensor.shape.dim)
    values = (np.arange(math.prod(shape)) % 5 + 1).reshape(shape)
    return values.astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def array(data):
    return mx.nd.array(data, dtype=data.dtype)


# -- ways in: symbol, arguments, states -------------------------------------------------------


def from_contrib(model, folder):
    return mx.contrib.onnx.import_model(model.SerializeToString())


def from_checkpoint(model, folder):
    mx.model.save_checkpoint(f"{folder}/net", 0, *mx.onnx.import_model(model))
    return mx.model.load_checkpoint(f"{folder}/net", 0)


def from_safetensors(model, folder):
    symbol, args, states = mx.onnx.import_model(model)
    mx.safetensors.save_model(f"{folder}/net.safetensors", symbol, args, states)
    return mx.safetensors.load_model(f"{folder}/net.safetensors")


def from_npz(model, folder):
    symbol, args, states = mx.onnx.import_model(model)
    symbol.save(f"{folder}/net-symbol.json")
    np.savez(f"{folder}/net.npz", **{key: each.asnumpy()
                                     for key, each in {**args, **states}.items()})
    return mx.convert.read_model([f"{folder}/net-symbol.json", f"{folder}/net.npz"])


def converted(model, folder):
    onnx.save(model, f"{folder}/net.onnx")
    main(["convert", f"{folder}/net.onnx", "-o", f"{folder}/net"])
    return mx.model.load_checkpoint(f"{folder}/net", 0)


def exported_again(model, folder):
    symbol, args, states = mx.onnx.import_model(model)
    data = data_for(model)
    mx.onnx.export_model(symbol, {**args, **states}, [data.shape], data.dtype, f"{folder}/net.onnx")
    return mx.onnx.import_model(f"{folder}/net.onnx")


# -- ways to use it: outputs ------------------------------------------------------------------


def bound(network, data):
    symbol, args, states = network
    return symbol.bind(mx.cpu(), {**args, "x": array(data)}, aux_states=states).forward()


def simply_bound(network, data):
    symbol, args, states = network
    executor = symbol.simple_bind(mx.cpu(), "null", {"x": data.dtype}, x=data.shape)
    executor.copy_params_from(args, states)
    for name, value in {**args, **states}.items():
        own = {**executor.arg_dict, **executor.aux_dict}[name]
        assert (own.shape, own.dtype) == (value.shape, value.dtype)
    return executor.forward(x=array(data))


def in_a_module(network, data, label_names=None, for_training=False):
    symbol, args, states = network
    module = mx.mod.Module(symbol, data_names=["x"], label_names=label_names)
    module.bind([mx.io.DataDesc("x", data.shape, data.dtype)], for_training=for_training)
    module.init_params(arg_params=args, aux_params=states)
    module.forward(mx.io.DataBatch([array(data)]), is_train=False)
    return module.get_outputs()


def predicted(network, data):
    symbol, args, states = network
    module = mx.mod.Module(symbol, data_names=["x"], label_names=None)
    batches = mx.io.NDArrayIter({"x": array(data)}, batch_size=len(data))
    module.bind(batches.provide_data, for_training=False)
    module.set_params(args, states)
    return module.predict(batches, always_output_list=True)


def in_a_bucket(network, data):
    symbol, args, states = network
    module = mx.mod.BucketingModule(lambda key: (symbol, ("x",), None), default_bucket_key=1)
    module.bind([mx.io.DataDesc("x", data.shape, data.dtype)], for_training=False)
    module.init_params(arg_params=args, aux_params=states)
    batch = mx.io.DataBatch([array(data)], bucket_key=1, provide_label=None,
                            provide_data=[mx.io.DataDesc("x", data.shape, data.dtype)])
    module.forward(batch, is_train=False)
    return module.get_outputs()


def by_feedforward(network, data):
    symbol, args, states = network
    model = mx.model.FeedForward(symbol, arg_params=args, aux_params=states)
    found = model.predict(mx.io.NDArrayIter({"x": array(data)}, batch_size=len(data)))
    return found if isinstance(found, list) else [found]


def served(network, data):
    return mx.Predictor(network, {"x": data.shape}, fixed=True)(data)


def without_shapes(symbol):
    """A network whose variables declare no shapes, as scripts for `bind` write them."""
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        if node["op"] == "null":
            node.get("attrs", {}).pop("__shape__", None)
    return mx.sym.load_json(json.dumps(graph))


def served_without_shapes(network, data):
    symbol, args, states = network
    return served((without_shapes(symbol), args, states), data)


def in_a_block(network, data):
    symbol, args, states = network
    block = mx.gluon.SymbolBlock(symbol, [mx.sym.var("x")])
    block.initialize()
    for name, value in {**args, **states}.items():
        block.params[name].set_data(value)
    return [block(array(data))]


IN = [from_contrib, from_checkpoint, from_safetensors, from_npz, converted, exported_again]
USES = [simply_bound, in_a_module, predicted, in_a_bucket, by_feedforward, served,
        served_without_shapes, in_a_block]


def numbers(outputs):
    return [each if isinstance(each, np.ndarray) else each.asnumpy() for each in outputs]


@pytest.mark.filterwarnings("ignore:.*FeedForward has been deprecated")
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_imported_networks_are_used(name, use):
    """In each way they compute what the network does that is bound to all its arrays."""
    model = model_of(name)
    network, data = mx.onnx.import_model(model), data_for(model)
    assert_like(numbers(use(network, data)), numbers(bound(network, data)), tolerance=0)


@pytest.mark.parametrize("way_in", IN, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_shapes_come_along(name, way_in, tmp_path):
    model = model_of(name)
    data, expected = data_for(model), mx.onnx.import_model(model)
    found = in_a_module(way_in(model, tmp_path), data)
    # Not the same nodes where the file was written from what had been imported.
    tolerance = 1e-3 if data.dtype == H else 1e-6
    assert_like(numbers(found), numbers(bound(expected, data)), tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_all_follows_from_the_data(name, capsys):
    model = model_of(name)
    (symbol, args, states), data = mx.onnx.import_model(model), data_for(model)
    expected = {"x": data.shape, **{key: value.shape for key, value in args.items()}}
    for infer in (symbol.infer_shape, symbol.infer_shape_partial):
        shapes, _, state_shapes = infer(x=data.shape)
        assert dict(zip(symbol.list_arguments(), shapes, strict=True)) == expected
        assert state_shapes == [states[key].shape for key in symbol.list_auxiliary_states()]
    mx.viz.print_summary(symbol, {"x": data.shape})
    assert "Total params" in capsys.readouterr().out


@pytest.mark.parametrize("name", [
    name for name, (given, _, _) in MODELS.items() if given.startswith(("float16", "double"))])
def test_types_follow_those_of_the_data(name):
    """A model in float16 or float64 can be bound to float32, the type of `DataDesc`."""
    model = model_of(name)
    network, data = mx.onnx.import_model(model), data_for(model)
    found, = numbers(in_a_module(network, data.astype(F), for_training=True))
    expected, = numbers(bound(network, data))
    assert found.dtype == F
    np.testing.assert_allclose(found, expected, rtol=4e-3)  # sums of 36 products in float16


@pytest.mark.parametrize("name", [
    name for name in MODELS if name != "conv in float16"])      # MXNet has it on GPUs only
def test_mxnet_reads_what_was_imported(oracle, name):
    model = model_of(name)
    (symbol, args, states), data = mx.onnx.import_model(model), data_for(model)
    given = (symbol.tojson(), {key: value.asnumpy() for key, value in {**args, **states}.items()},
             data)
    assert_like(imported.run(mx, *given), oracle.call("mx_scripts.run", "imported", "run", *given),
                tolerance=1e-3 if data.dtype == H else 1e-5)


def test_an_imported_network_is_fitted():
    """With a label of its own, and parameters that only their declaration gives a shape."""
    symbol, args, states = mx.onnx.import_model(model_of("mul"))
    net = mx.sym.SoftmaxOutput(symbol, name="softmax")
    data = mx.io.NDArrayIter({"x": np.eye(4, dtype=F)[[0, 1, 2, 3] * 4]}, np.arange(16) % 4, 8)
    module = mx.mod.Module(net, data_names=["x"])
    module.fit(data, num_epoch=3, arg_params=args, aux_params=states,
               optimizer_params={"learning_rate": 1.0})
    trained = module.get_params()[0]["v"].asnumpy()
    assert (trained > args["v"].asnumpy() + 0.1).all() and module.score(data, "acc")[0][1] == 1
