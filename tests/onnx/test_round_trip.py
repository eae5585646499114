"""Export, import, export: the second file is the first one, byte by byte."""

from __future__ import annotations

import functools
import json
import random

import hypothesis
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod import sym

onnx = pytest.importorskip("onnx")

from nbmod.onnx.exporting.export_model import build_model  # noqa: E402
from nbmod.onnx.importing import ShapeNeeded, import_model  # noqa: E402


def unit(x: sym.Symbol, name: str, filters: int, stride: int = 1) -> sym.Symbol:
    x = sym.Convolution(x, num_filter=filters, kernel=(3, 3), stride=(stride,) * 2, pad=(1, 1),
                        no_bias=True, name=f"{name}_conv")
    return sym.Activation(sym.BatchNorm(x, fix_gamma=False, name=f"{name}_bn"), act_type="relu",
                          name=f"{name}_relu")


def residual() -> sym.Symbol:
    x = unit(sym.Variable("data"), "stem", 4)
    x = sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pool_type="max",
                    pooling_convention="full", name="pool")
    x = sym.elemwise_add(unit(unit(x, "a", 4), "b", 4), x, name="plus")
    x = sym.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg", name="mean")
    x = sym.FullyConnected(sym.Flatten(x, name="flat"), num_hidden=5, name="fc")
    return sym.SoftmaxOutput(x, name="softmax")


def dense() -> sym.Symbol:
    """Concatenation, dropout, PReLU, a fixed gamma, averages that leave the padding out."""
    x = sym.Variable("data")
    for i in range(2):
        y = sym.LeakyReLU(sym.BatchNorm(x, name=f"bn{i}"), act_type="prelu", name=f"prelu{i}")
        y = sym.Convolution(y, num_filter=3, kernel=(3, 3), pad=(1, 1), name=f"conv{i}")
        x = sym.Concat(x, sym.Dropout(y, p=0.3, name=f"drop{i}"), dim=1, name=f"concat{i}")
    x = sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg",
                    count_include_pad=False, name="pool")
    return sym.softmax(sym.FullyConnected(x, num_hidden=4, name="fc"), axis=-1, name="out")


def mobile() -> sym.Symbol:
    """Depthwise convolutions, clipping, hard sigmoids and gates."""
    x = sym.Convolution(sym.Variable("data"), num_filter=6, kernel=(1, 1), name="wide")
    x = sym.clip(x, a_min=0, a_max=6, name="relu6")
    x = sym.Convolution(x, num_filter=6, num_group=6, kernel=(3, 3), stride=(2, 2), pad=(1, 1),
                        name="depthwise")
    gate = sym.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg", name="squeeze")
    gate = sym.hard_sigmoid(sym.Convolution(gate, num_filter=6, kernel=(1, 1), name="excite"),
                            name="gate")
    x = sym.broadcast_mul(x, gate, name="gated")
    return sym.mean(x * 2 + 1, axis=(2, 3), name="features")


def decoder() -> sym.Symbol:
    """What segmentation has: deconvolution, upsampling, bilinear images, slices, channels."""
    x = sym.Deconvolution(sym.Variable("data"), num_filter=4, kernel=(4, 4), stride=(2, 2),
                          pad=(1, 1), name="up")
    x = sym.UpSampling(x, scale=2, sample_type="nearest", name="twice")
    x = sym.contrib.BilinearResize2D(x, height=11, width=13, name="resized")
    x = sym.slice_axis(x, axis=2, begin=1, end=9, name="rows")
    parts = sym.SliceChannel(x, num_outputs=2, axis=1, name="parts")
    x = sym.broadcast_maximum(parts[0], parts[1], name="maxout")
    return sym.log_softmax(sym.LRN(x, nsize=3, name="norm"), axis=1, name="scores")


def words() -> sym.Symbol:
    """Embedding, layer norm and attention."""
    x = sym.Embedding(sym.Variable("data"), input_dim=11, output_dim=6, name="embed")
    x = sym.LayerNorm(x, name="norm")
    key, query, value = (sym.FullyConnected(x, num_hidden=6, flatten=False, name=name)
                         for name in ("key", "query", "value"))
    scores = sym.softmax(sym.batch_dot(query, key, transpose_b=True, name="scores"), name="share")
    x = sym.elemwise_add(x, sym.batch_dot(scores, value, name="attention"), name="plus")
    return sym.tanh(sym.transpose(x, axes=(0, 2, 1), name="turned"), name="out")


NETWORKS = {"residual": (residual, (2, 3, 15, 15)), "dense": (dense, (1, 2, 8, 8)),
            "mobile": (mobile, (2, 3, 8, 8)), "decoder": (decoder, (1, 3, 4, 5)),
            "words": (words, (2, 4))}


def parameters(symbol: sym.Symbol, shape: tuple[int, ...]) -> dict[str, mx.nd.NDArray]:
    rng = np.random.default_rng(0)
    arguments, _, states = symbol.infer_shape(data=shape)
    named = zip([*symbol.list_arguments(), *symbol.list_auxiliary_states()],
                [*arguments, *states], strict=True)
    return {name: mx.nd.array(rng.uniform(0.2, 1.0, size)) for name, size in named
            if name != "data" and "label" not in name}


@pytest.mark.parametrize("opset", [17, 19])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_second_file_is_the_first(name, opset):
    make, shape = NETWORKS[name]
    symbol = make()
    first = build_model(symbol, parameters(symbol, shape), [shape], opset=opset).model()
    again, arguments, states = import_model(first.SerializeToString())
    second = build_model(again, [arguments, states], [shape], opset=opset).model()
    assert [str(node) for node in second.graph.node] == [str(node) for node in first.graph.node]
    assert second.SerializeToString(deterministic=True) == first.SerializeToString(
        deterministic=True)


# -- dynamic axes ----------------------------------------------------------------------------------


def begin() -> sym.Symbol:
    """States that start at zero, of as many samples as there are in the data."""
    data = sym.Variable("data")
    steps = sym.SliceChannel(data, num_outputs=3, axis=1, squeeze_axis=True, name="steps")
    state = sym.zeros(shape=(0, 4), name="zeros") + sym.full(shape=(0, 4), val=0.5, name="half")
    weight, turned = sym.Variable("inner_weight"), sym.Variable("outer_weight")
    for i in range(3):
        inner = sym.FullyConnected(state, turned, num_hidden=4, no_bias=True, name=f"state{i}")
        state = sym.tanh(sym.FullyConnected(steps[i], weight, num_hidden=4, no_bias=True,
                                            name=f"step{i}") + inner, name=f"tanh{i}")
    return state


def likes() -> sym.Symbol:
    """Tensors that are made for sizes of others: shapes, ones, positions."""
    data = sym.Variable("data")
    steps = sym.contrib.arange_like(data, axis=1, name="positions")
    x = sym.broadcast_mul(data, sym.expand_dims(sym.expand_dims(steps, axis=0), axis=2),
                          name="weighed") + sym.ones_like(data, name="ones")
    return sym.Group([x, sym.zeros_like(x, name="zeros"), sym.shape_array(x, name="shape")])


def twins() -> sym.Symbol:
    """Two inputs with a batch, one of them with a length of its own."""
    first = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="first")
    rows = sym.FullyConnected(sym.Variable("rows"), num_hidden=3, flatten=False, name="second")
    x = sym.broadcast_add(rows, sym.expand_dims(first, axis=1), name="both")
    return sym.reshape(sym.sum(x, axis=1, name="total"), shape=(-1, 3), name="out")


def cropped() -> sym.Symbol:
    """An input of which two axes are read, but not its batch."""
    data = sym.Variable("data")
    grid = sym.slice_like(sym.Variable("grid", shape=(1, 1, 9, 9)), data * 0, axes=(2, 3),
                          name="part")
    return sym.broadcast_add(data, sym.repeat(grid, repeats=2, axis=1, name="twice"), name="plus")


N = "batch"
DYNAMIC = {
    "residual": (residual, {"data": (N, 3, 15, 15)}), "dense": (dense, {"data": (N, 2, 8, 8)}),
    "mobile": (mobile, {"data": (N, 3, 8, 8)}), "any image": (mobile, {"data": (N, 3, None, None)}),
    "decoder": (decoder, {"data": (N, 3, 4, 5)}), "words": (words, {"data": (N, 4)}),
    "sentences": (words, {"data": (N, "length")}), "begin": (begin, {"data": (N, 3, 5)}),
    "unnamed": (begin, {"data": (None, 3, 5)}), "likes": (likes, {"data": (N, "length", 2)}),
    "cropped": (cropped, {"data": (N, 2, 4, 5)}),
    "twins": (twins, {"data": (N, 5), "rows": (N, "length", 4)})}
"""Name -> a network, and the sizes of its inputs, of which names and None are dynamic."""


def sized(shapes: dict[str, tuple[int | str | None, ...]], size: int) -> dict[str, tuple[int, ...]]:
    """Shapes with dynamic axes of about this size, which differ."""
    lengths = {N: size, None: size + 5, "length": size + 2}
    return {name: tuple(each if isinstance(each, int) else lengths[each] for each in shape)
            for name, shape in shapes.items()}


def file_of(symbol: sym.Symbol, params: object, shapes: dict[str, tuple[int | str | None, ...]]):
    """The file of an export with dynamic axes, from inputs with two samples."""
    names = [name for name in symbol.list_inputs() if name in shapes]
    return build_model(symbol, params, sized(shapes, 2), dynamic=True,
                       dynamic_shapes=[shapes[name] for name in names]).model()


def parameters_of(symbol: sym.Symbol, shapes: dict[str, tuple[int, ...]]
                  ) -> dict[str, mx.nd.NDArray]:
    rng = np.random.default_rng(0)
    arguments, _, states = symbol.infer_shape(**shapes)
    named = zip([*symbol.list_arguments(), *symbol.list_auxiliary_states()],
                [*arguments, *states], strict=True)
    return {name: mx.nd.array(rng.uniform(0.2, 1.0, size)) for name, size in named
            if name not in shapes and "label" not in name}


@functools.cache
def computed(name: str) -> tuple[bytes, list[tuple[dict[str, np.ndarray], list[np.ndarray]]]]:
    """The file of a network, inputs of several sizes, and what onnxruntime computes."""
    onnxruntime = pytest.importorskip("onnxruntime")
    make, shapes = DYNAMIC[name]
    symbol = make()
    file = file_of(symbol, parameters_of(symbol, sized(shapes, 2)), shapes).SerializeToString()
    session, found = onnxruntime.InferenceSession(file), []
    for size in (1, 2, 5):
        given = {key: np.random.default_rng(size).integers(0, 11, shape).astype(np.float32)
                 for key, shape in sized(shapes, size).items()}
        found.append((given, session.run(None, given)))
    return file, found


def assert_computes(imported: tuple[sym.Symbol, dict, dict], name: str) -> None:
    """Bound to several sizes, what is imported computes what onnxruntime does."""
    symbol, arguments, states = imported
    for given, results in computed(name)[1]:
        inputs = {key: mx.nd.array(value) for key, value in given.items()}
        found = symbol.bind(mx.cpu(), {**arguments, **inputs}, aux_states=states,
                            grad_req="null").forward()
        for result, expected in zip(found, results, strict=True):
            # The same products and sums, in another order: rounding of float32.
            np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", sorted(DYNAMIC))
def test_the_second_file_of_dynamic_axes_is_the_first(name):
    make, shapes = DYNAMIC[name]
    symbol = make()
    first = file_of(symbol, parameters_of(symbol, sized(shapes, 2)), shapes)
    again, arguments, states = import_model(first.SerializeToString())
    second = file_of(again, [arguments, states], shapes)
    assert [str(node) for node in second.graph.node] == [str(node) for node in first.graph.node]
    assert second.SerializeToString(deterministic=True) == first.SerializeToString(
        deterministic=True)


@pytest.mark.parametrize("name", sorted(DYNAMIC))
def test_dynamic_axes_have_any_size_after_import(name):
    assert_computes(import_model(computed(name)[0]), name)


TEXTS = ["0", "1", "2", "(1, 1)", "(0, 4)", "(2, 4)", "(-1, 4)", "tanh", "relu", "True", "False"]


def distorted(rng: random.Random, text: str) -> str:
    """A symbol of which one node is partly another one, or has another attribute."""
    graph = json.loads(text)
    node, other = rng.choice(graph["nodes"]), rng.choice(graph["nodes"])
    key = rng.choice(["op", "name", "attrs", "inputs"])
    if key == "attrs" and node.get("attrs") and rng.random() < 0.8:
        node["attrs"][rng.choice([*node["attrs"]])] = rng.choice(TEXTS)
    else:
        node[key] = other.get(key, {})
    return json.dumps(graph)


@settings(max_examples=80, deadline=None)
@hypothesis.given(st.sampled_from(sorted(DYNAMIC)), st.integers(0, 2 ** 32))
def test_metadata_never_changes_what_a_file_computes(name, seed):
    rng, file = random.Random(seed), onnx.ModelProto.FromString(computed(name)[0])
    entry, = file.metadata_props
    entry.value = distorted(rng, entry.value)
    try:
        imported = import_model(file)
    except ShapeNeeded:
        return
    assert_computes(imported, name)


SYMBOL_NEEDED = {"begin", "unnamed", "likes"}
"""Networks that make tensors of open sizes, for which nodes alone do not say where these end."""


@pytest.mark.parametrize("name", sorted(DYNAMIC))
def test_dynamic_files_of_others(name):
    """Without the metadata, nodes are imported one by one."""
    file = onnx.ModelProto.FromString(computed(name)[0])
    del file.metadata_props[:]
    if name in SYMBOL_NEEDED:
        with pytest.raises(ShapeNeeded, match="follow from dimensions that are open"):
            import_model(file)
    else:
        assert_computes(import_model(file), name)


def test_shapes_of_dynamic_inputs_are_not_trusted():
    """Sizes in the metadata decide at most whether the symbol is accepted."""
    make, shapes = DYNAMIC["begin"]
    symbol = make()
    file = file_of(symbol, parameters_of(symbol, sized(shapes, 2)), shapes)
    entry, = file.metadata_props
    text, expected = entry.value, import_model(file)[0].tojson()
    assert '"__shape__": "(2, 3, 5)"' in text
    for shape in ("(1, 3, 5)", "(11, 3, 5)"):
        entry.value = text.replace("(2, 3, 5)", shape)
        assert import_model(file)[0].tojson() == expected
    for shape in ("(3, 5)", "(2, 4, 5)", "(0, 3, 5)", "(-1, 3, 5)", "(1e300, 3, 5)",
                  f"({'9' * 5000}, 3, 5)", f"({2 ** 62}, 3, 5)"):
        entry.value = text.replace("(2, 3, 5)", shape)
        with pytest.raises(ShapeNeeded, match="follow from dimensions that are open|whole shape"):
            import_model(file)


def test_windows_without_steps_and_borders_are_alike():
    """Whether they are given or not."""
    x = sym.Convolution(sym.Variable("data"), num_filter=3, kernel=(3, 3), name="conv")
    x = sym.Pooling(sym.Activation(x, act_type="tanh", name="tanh"), kernel=(2, 2), stride=(2, 2),
                    pool_type="max", name="pool")
    x = sym.SoftmaxOutput(sym.FullyConnected(sym.Flatten(x, name="flat"), num_hidden=4, name="fc"),
                          name="softmax")
    shape = (1, 2, 8, 8)
    first = build_model(x, parameters(x, shape), [shape], dynamic=True).model()
    again, arguments, states = import_model(first.SerializeToString())
    second = build_model(again, [arguments, states], [shape], dynamic=True).model()
    assert second.SerializeToString(deterministic=True) == first.SerializeToString(
        deterministic=True)


def test_what_is_learned_stays_so():
    """Parameters keep their names, so that an imported network can be trained on."""
    symbol = residual()
    params = parameters(symbol, (2, 3, 15, 15))
    first = build_model(symbol, params, [(2, 3, 15, 15)]).model()
    _, arguments, states = import_model(first)
    assert arguments.keys() | states.keys() == params.keys()
    for name, value in {**arguments, **states}.items():
        np.testing.assert_array_equal(value.asnumpy(), params[name].asnumpy())
