"""Export, import, export: the second file is the first one, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod import sym

pytest.importorskip("onnx")

from nbmod.onnx.exporting.export_model import build_model  # noqa: E402
from nbmod.onnx.importing import import_model  # noqa: E402


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


def test_the_second_file_of_a_dynamic_batch_is_the_first():
    """Windows without steps and borders are recorded alike, whether these are given or not."""
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
