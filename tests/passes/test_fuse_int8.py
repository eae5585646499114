"""Fused quantized layers in the blocked int8 layout are bit-identical to the operators."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.blocked.layout import LANES
from tests.fuzz.quantized import Network

pytestmark = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")


def few(net, dtype, **params):
    data = net.data(2, 3, 17, 19, dtype=dtype)
    return net.bytes("conv", net.conv("conv", data, 3, 37, **params))


def chain(net, dtype="int8", out_type="int8", channels=2 * LANES + 1):
    """Halos 0, 2 and 1: the image between has the widest."""
    x = net.data(3, channels, 9, 11, dtype=dtype)
    x = net.conv("first", x, channels, LANES + 3, (1, 1))
    x = net.bytes("first", x, high=25.0, out_type=out_type)
    x = net.relu("first", x) if out_type == "int8" else x
    y = net.bytes("second", net.conv("second", x, LANES + 3, 40, (3, 3), pad=(1, 1), stride=(2, 2)))
    z = net.bytes("third", net.conv("third", x, LANES + 3, 40, (5, 5), pad=(2, 2), stride=(2, 2)))
    return [*y, *z]


def grouped(net, dtype):
    data = net.data(2, 24, 9, 9, dtype=dtype)
    params = {"num_group": 2, "dilate": (2, 2), "pad": (2, 1), "no_bias": True}
    return net.bytes("conv", net.conv("conv", data, 24, 4 * LANES, **params), out_type="auto")


def row(net, dtype):
    """Images of one axis."""
    data = net.data(2, 20, 30, dtype=dtype)
    return net.bytes("conv", net.conv("conv", data, 20, 18, (3,), pad=(1,)), low=0, out_type="auto")


def dense(net, dtype, **params):
    x = net.bytes("first", net.dense("first", net.data(5, 7, 9, dtype=dtype), 63, 50))
    x = net.relu("first", x)
    return net.bytes("second", net.dense("second", x, 50, 33, no_bias=True))


def tables(net, dtype):
    """A dense layer of the last axis."""
    return net.dense("dense", net.data(2, 3, 40, dtype=dtype), 40, 10, flatten=False)


def shown(net, dtype):
    """Sums that are read twice, ReLU after requantization, and ranges of a layer."""
    sums = net.conv("conv", net.data(2, 16, 6, 6, dtype=dtype), 16, 16)
    x = net.bytes("conv", sums)
    return [sums[0], x[1], *net.relu("conv", x), x[0]]


def measured(net, dtype):
    """A range that depends on the data."""
    sums = net.conv("conv", net.data(2, 16, 6, 6, dtype=dtype), 16, 16)
    return net.relu("conv", net.contrib.requantize(*sums))


NETWORKS = {"few": few, "chain": chain, "grouped": grouped, "row": row, "dense": dense,
            "tables": tables, "shown": shown, "measured": measured}
DONE = {"few": 1, "chain": 4, "grouped": 1, "row": 1, "dense": 3, "shown": 0, "measured": 0,
        "tables": 0}
"""How many nodes a network has that a layer does."""


def both(build, *args, **params):
    """The outputs of a network from its executor, which is returned too, and from its ops."""
    random, arrays = np.random.default_rng(0), {}

    def array(name, shape, dtype):
        if dtype == "float32":
            number = np.full(shape, random.uniform(0.5, 1.5) * (-0.8 if "low" in name else 1))
        else:
            info = np.iinfo(dtype)
            number = random.integers(info.min, info.max, shape, endpoint=True)
        arrays[name] = mx.nd.array(number, dtype=dtype)
        return arrays[name]

    expected = build(Network(mx.nd, array), *args, **params)
    symbol = mx.sym.Group(list(build(
        Network(mx.sym, lambda name, shape, dtype: mx.sym.Variable(name, dtype=dtype)), *args,
        **params)))
    executor = symbol.bind(mx.cpu(), arrays, grad_req="null")
    return executor, [each.asnumpy() for each in expected]


def check(executor, expected):
    for got, want in zip(executor.forward(is_train=False), expected, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.asnumpy(), want)
    assert any(len(np.unique(each)) > 20 for each in expected)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, dtype):
    executor, expected = both(NETWORKS[name], dtype=dtype)
    assert "works on blocks of bytes" in executor.debug_str()
    assert sum("is done by" in note for note in executor.compiled.simplified.notes) == DONE[name]
    check(executor, expected)


@pytest.mark.parametrize("params", [
    {"kernel": (7, 7), "stride": (2, 2), "pad": (3, 3)}, {"kernel": (3, 3), "no_bias": True},
    {"kernel": (1, 1)}, {"kernel": (2, 4), "pad": (1, 0), "stride": (1, 3)}])
def test_images(params):
    """Adjacent taps of a filter row are processed together if there is a kernel for as many."""
    for dtype in ("uint8", "int8"):
        check(*both(few, dtype=dtype, **params))


@pytest.mark.parametrize("channels", [LANES, 4 * LANES, 70])
@pytest.mark.parametrize("out_type", ["int8", "uint8"])
def test_chains_stay_in_blocks(out_type, channels):
    executor, expected = both(chain, out_type=out_type, channels=channels)
    ops = [node.op.name for node in executor.compiled.nodes]
    assert ops.count("_into_bytes") == 1 and ops.count("_from_bytes") == 2
    check(executor, expected)


def test_weights_that_change_are_packed_again():
    executor, _ = both(chain)
    executor.forward(is_train=False)
    before = executor.outputs[0].asnumpy()
    executor.arg_dict["second_weight"][:] = mx.nd.zeros((40, LANES + 3, 3, 3), dtype="int8")
    executor.forward(is_train=False)
    assert len(np.unique(executor.outputs[0].asnumpy())) < len(np.unique(before))


def test_sums_at_their_limits():
    """2**15 products of 255 and -128 are more than 2**30."""
    def build(net):
        return net.dense("dense", net.data(2, 2 ** 15), 2 ** 15, 3, no_bias=True)

    executor, _ = both(build)
    executor.arg_dict["data"][:] = 255
    executor.arg_dict["dense_weight"][:] = -128
    executor.forward(is_train=False)
    assert np.all(executor.outputs[0].asnumpy() == -128 * 255 * 2 ** 15)
