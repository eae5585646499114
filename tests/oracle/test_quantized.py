"""Networks quantized by MXNet, or fused for oneDNN: nbmod loads them and computes the same.

Every output of every node is compared, so the first difference shows the node at fault. Integers
agree exactly; float32 values, which only ranges and the last layers are, within rounding.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import nbmod as mx
from tests.symbol.test_real_graphs import texts

FUSED = "quantize_model_mkldnn"
WAYS = {
    "auto": (FUSED, {"calib_mode": "naive", "quantized_dtype": "auto"}),
    "int8": (FUSED, {"calib_mode": "naive", "quantized_dtype": "int8"}),
    "per row": (FUSED, {"calib_mode": "naive", "quantized_dtype": "auto",
                        "quantize_granularity": "channel-wise"}),
    "full": (FUSED, {"calib_mode": "naive", "quantized_dtype": "auto", "quantize_mode": "full"}),
    "uncalibrated": (FUSED, {"calib_mode": "none", "quantized_dtype": "int8"}),
    "excluding": (FUSED, {"calib_mode": "naive", "quantized_dtype": "auto",
                          "excluded_op_names": ["FullyConnected"]}),
}  # fmt: skip
# MXNet loses the limits of clipped convolutions that are not calibrated.
CASES = [(network, way) for network in ("residual", "mobile") for way in WAYS
         if (network, way) != ("mobile", "uncalibrated")]  # fmt: skip


@pytest.mark.parametrize("network, way", CASES)
def test_quantised_network(oracle, exact_products, network, way):
    function, options = WAYS[way]
    want = oracle.call("mx_quantize.quantised", network, function, **options)
    assert any("quantize" in node["op"] for node in json.loads(want["json"])["nodes"])
    assert mx.sym.load_json(want["json"]).tojson() == want["json"]
    with exact_products():
        compare_every_node(want, 2e-6)


@pytest.mark.parametrize("network", ["residual", "mobile"])
def test_fused_network(oracle, network):
    want = oracle.call("mx_quantize.fused", network)
    assert any(node["op"] == "_sg_mkldnn_conv" for node in json.loads(want["json"])["nodes"])
    assert mx.sym.load_json(want["json"]).tojson() == want["json"]
    compare_every_node(want, 1e-5)


# Others have float32 layers before the last `quantize`: a rounding there changes an integer.
REAL = [name for name in sorted(texts())
        if name.endswith(("resnet18_v1b_int8", "mobilenet1.0_int8-symbol.json"))]  # fmt: skip


@pytest.mark.skipif(not REAL, reason="NO REAL GRAPHS beside the checkout")
@pytest.mark.parametrize("name", REAL)
def test_real_network(oracle, exact_products, name):
    want = oracle.call("mx_quantize.real", texts()[name], (1, 3, 64, 48))
    with exact_products():
        compare_every_node(want, 1e-5)


def compare_every_node(want, tolerance):
    symbol = mx.sym.load_json(want["json"])
    inner, names = symbol.get_internals(), list(want["outputs"])
    args, aux = ({name: mx.nd.array(array, dtype=array.dtype) for name, array in arrays.items()}
                 for arrays in (want["args"] | {"data": want["data"]}, want["aux"]))  # fmt: skip
    every = mx.sym.Group([inner[name] for name in names])
    executor = every.bind(mx.cpu(), args, aux_states=aux, grad_req="null")
    for name, array in zip(names, executor.forward(is_train=False), strict=True):
        got, expected = array.asnumpy(), want["outputs"][name]
        assert got.dtype == expected.dtype, name
        if got.dtype.kind == "f":
            scale = max(np.abs(expected).max(), 1e-6)
            np.testing.assert_allclose(got / scale, expected / scale, 0, tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(got, expected, err_msg=name)
    np.testing.assert_array_equal(got.argmax(-1), expected.argmax(-1))


def test_fused_nodes_have_no_gradient(oracle):
    symbol = mx.sym.load_json(oracle.call("mx_quantize.fused", "residual")["json"])
    with pytest.raises(mx.MXNetError, match="for inference and has no gradient.*null"):
        symbol.simple_bind(mx.cpu(), data=(2, 3, 16, 16))
