"""`mx.contrib.quantization` writes the graphs that MXNet's passes write, node for node."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nbmod as mx
from nbmod.contrib import quantization

S = mx.sym


def convolutions():
    """A residual block: convolutions, batch norms, pooling, a sum, and a dense layer."""
    x = S.Variable("data")
    top = S.Convolution(x, kernel=(3, 3), num_filter=4, pad=(1, 1), name="c0")
    top = S.Activation(S.BatchNorm(top, fix_gamma=False, name="bn0"), act_type="relu", name="r0")
    below = S.Convolution(top, kernel=(3, 3), num_filter=4, pad=(1, 1), no_bias=True, name="c1")
    top = S.elemwise_add(S.BatchNorm(below, fix_gamma=False, name="bn1"), top, name="sum")
    top = S.Pooling(top, kernel=(2, 2), pool_type="avg", name="pool")
    dense = S.FullyConnected(S.Flatten(top, name="flat"), num_hidden=5, name="fc")
    return S.SoftmaxOutput(dense, name="softmax")


def branches():
    """Float operators between quantized ones, tensors read twice, parts, and a product."""
    x, y = S.Variable("data"), S.Variable("other")
    halves = S.split(S.clip(x, -1, 1, name="cut"), num_outputs=2, name="half")
    left = S.FullyConnected(halves[0], num_hidden=6, name="left")
    right = S.FullyConnected(halves[1], num_hidden=6, no_bias=True, name="right")
    both = S.concat(left, right, S.FullyConnected(y, num_hidden=6, name="third"), name="both")
    scaled = S.elemwise_mul(S.Activation(both, act_type="relu", name="relu"), both, name="times")
    top = S.tanh(S.FullyConnected(scaled, num_hidden=4, name="fc0"), name="bend")
    return S.Group([S.FullyConnected(top, num_hidden=2, weight=2 * S.Variable("w"), name="fc1"),
                    S.Activation(x, act_type="relu", name="alone")])


def rows():
    """Rows of a table, and a weight that two layers share."""
    weight = S.Variable("weight")
    top = S.Embedding(S.Variable("data"), input_dim=7, output_dim=6, name="rows")
    for number in range(2):
        top = S.FullyConnected(top, weight, num_hidden=6, flatten=False, no_bias=True,
                               name=f"fc{number}")
    return S.Pooling(S.expand_dims(top, 1, name="deeper"), kernel=(2, 2), name="pool")


NETWORKS = {"convolutions": convolutions, "branches": branches, "rows": rows}
WAYS = [{"quantize_mode": mode, "quantized_dtype": dtype}
        for mode in ("smart", "full") for dtype in ("int8", "auto")]
MORE = [("convolutions", {"excluded_sym_names": ["c1", "pool"]}),
        ("convolutions", {"excluded_op_names": ["BatchNorm"], "quantize_mode": "smart"}),
        ("convolutions", {"quantized_dtype": "uint8", "quantize_granularity": "channel-wise"}),
        ("branches", {"excluded_sym_names": ["both", "fc1"], "quantize_mode": "smart"})]
# A product of tensors that may be uint8 stays float; MXNet's graph cannot be bound.
CASES = [(network, way) for network in NETWORKS for way in WAYS
         if (network, way["quantized_dtype"]) != ("branches", "auto")] + MORE  # fmt: skip


def nodes_of(text):
    """Operator, name, inputs and parameters of each node, and the outputs."""
    graph = json.loads(text)
    named = [(node["op"], node["name"], [entry[:2] for entry in node["inputs"]],
              {} if node["op"] == "null" else node.get("attrs", {})) for node in graph["nodes"]]
    return named, [head[:2] for head in graph["heads"]]


def parameters(symbol):
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((3, 2)).astype(np.float32)
            for name in symbol.list_arguments() if name not in ("data", "other", "w")}


def loaded(arrays):
    return {name: mx.nd.array(array) for name, array in arrays.items()}


@pytest.mark.parametrize("network, options", CASES)
def test_graph_is_mxnets(oracle, network, options):
    symbol = NETWORKS[network]()
    arrays = parameters(symbol)
    want = oracle.call("mx_quantize.rewritten", symbol.tojson(), arrays, **options)
    got, args, _, collector = quantization.quantize_graph(symbol, loaded(arrays), {}, **options)
    assert nodes_of(got.tojson()) == nodes_of(want["json"])
    assert collector.include_layer == want["layers"]
    assert list(args) == list(want["args"])
    for name, array in want["args"].items():
        assert args[name].dtype == array.dtype
        np.testing.assert_array_equal(args[name].asnumpy(), array, err_msg=name)


def test_ranges_are_written_where_mxnet_writes_them(oracle):
    symbol, options = convolutions(), {"quantized_dtype": "auto", "quantize_mode": "smart"}
    arrays = parameters(symbol)
    quantized, args, _, collector = quantization.quantize_graph(
        symbol, loaded(arrays), {}, calib_mode="naive", **options)
    names = collector.include_layer
    ranges = {name: [-0.5 * i, 1.25 + i] for i, name in enumerate(names[:-1])}  # one is not known
    want = oracle.call("mx_quantize.calibrated", symbol.tojson(), arrays, ranges, **options)
    collector.min_max_dict = ranges
    got = quantization.calib_graph(quantized, args, {}, collector, "naive")[0]
    (found, heads), (expected, expected_heads) = nodes_of(got.tojson()), nodes_of(want)
    assert heads == expected_heads
    for mine, theirs in zip(found, expected, strict=True):
        assert mine[:3] == theirs[:3]
        assert _numbers(mine[3]) == _numbers(theirs[3])


def _numbers(attrs):
    return {key: float(text) if key.endswith("range") else text for key, text in attrs.items()}


RNG = np.random.default_rng(3)
TENSORS = {
    "normal": [RNG.standard_normal(5000)],
    "long tails": [RNG.standard_normal(400) ** 3],
    "growing": [RNG.standard_normal(900) * scale for scale in (1, 0.5, 3)],
    "positive": [np.abs(RNG.laplace(size=3000))],
    "zeros": [np.zeros(9)],
}


@pytest.mark.parametrize("dtype", ["int8", "auto"])
@pytest.mark.parametrize("name", TENSORS)
def test_ranges_of_least_divergence_are_mxnets(oracle, name, dtype):
    batches = [batch.astype(np.float32) for batch in TENSORS[name]]
    want = oracle.call("mx_quantize.thresholds", batches, dtype, 1601)
    collector = quantization.LayerHistogramCollector(1601, ["x"])
    for batch in batches:
        collector.collect("x", mx.nd.array(batch))
    counts, edges, *_ = collector.hist_dict["x"]
    assert (len(counts), counts.max()) == (want[3], want[4])
    assert edges[-1] == pytest.approx(want[5], rel=1e-6)
    got = quantization._get_optimal_thresholds(collector.hist_dict, dtype)["x"]
    # MXNet compares sums in float32: of ranges with all but equal divergence it may take another.
    np.testing.assert_allclose(got, want[:2], 0, 8 * edges[-1] / len(counts))
