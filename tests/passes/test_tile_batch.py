"""Batch tiling: bit-identical results in less memory."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.blocked import ops as blocked_ops
from nbmod.ops.blocked.layout import LANES
from nbmod.passes.optimize import tile_batch

pytestmark = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")
IMAGE = LANES * 12 * 12 * 4
"""Bytes of what the convolutions below give for an image."""


def network(function="tanh", kind="max", shown=False, stride=2):
    x = mx.sym.Variable("data")
    x = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=LANES, name="conv")
    y = mx.sym.Activation(x, act_type=function, name="act")
    z = mx.sym.Pooling(y, kernel=(3, 3), stride=(stride, stride), pool_type=kind, name="pool")
    z = mx.sym.Convolution(z, kernel=(3, 3), pad=(1, 1), num_filter=8, name="after")
    return mx.sym.Group([z, mx.sym.BlockGrad(y)]) if shown else z


def bound(symbol, batch=12):
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=(batch, 3, 12, 12))
    random = np.random.RandomState(0)
    for array in executor.arg_arrays:
        array[:] = random.randn(*array.shape)
    return executor


def images_at_a_time(executor):
    return [node.op.images for node in executor.compiled.nodes if node.op.name == "_batch_tiles"]


@pytest.mark.parametrize("function", ["tanh", "relu", "sigmoid"])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_parts_give_the_bits_of_the_whole(function, kind, monkeypatch):
    symbol = network(function, kind)
    whole = bound(symbol)
    # the largest tile that divides 12 images is 6
    monkeypatch.setattr(tile_batch, "CACHE_BYTES", 7 * IMAGE)
    parted = bound(symbol)
    assert (images_at_a_time(whole), images_at_a_time(parted)) == ([], [6])
    assert parted.compiled.plan.total_bytes < whole.compiled.plan.total_bytes
    assert "image(s) at a time" in parted.debug_str()
    found, expected = (executor.forward(is_train=False)[0].asnumpy()
                       for executor in (parted, whole))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("batch, near, images", [
    (12, 4, []),  # tiles of four leave threads idle
    (12, 12, []),  # all of them are few enough
    (11, 7, []),  # no tile divides 11
    (24, 13, [12]),
])
def test_parts_are_neither_few_nor_all(batch, near, images, monkeypatch):
    monkeypatch.setattr(tile_batch, "CACHE_BYTES", near * IMAGE)
    assert images_at_a_time(bound(network(), batch)) == images


def test_what_others_read_is_made_whole(monkeypatch):
    monkeypatch.setattr(tile_batch, "CACHE_BYTES", 7 * IMAGE)
    assert images_at_a_time(bound(network(shown=True))) == []


def test_tiles_read_tiles(monkeypatch):
    """Of two chains in a row each is divided: the second one reads what the first one makes."""
    x = network()
    x = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=LANES, name="other")
    symbol = mx.sym.Pooling(mx.sym.relu(x), kernel=(2, 2), pool_type="avg", name="last")
    whole = bound(symbol)
    monkeypatch.setattr(tile_batch, "CACHE_BYTES", 7 * IMAGE)
    monkeypatch.setattr(tile_batch, "MIN_IMAGES", 1)
    monkeypatch.setattr(tile_batch, "divisors_up_to", lambda number, most: [6])
    parted = bound(symbol)
    assert images_at_a_time(parted) == [6, 6]
    found, expected = (executor.forward()[0].asnumpy() for executor in (parted, whole))
    np.testing.assert_array_equal(found, expected)


def test_halos_for_gradients_are_made_in_parts(monkeypatch):
    """Elements that the data's gradient reads beyond the output's edge."""
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=LANES, name="one")
    symbol = mx.sym.Convolution(x, kernel=(5, 5), num_filter=LANES, name="two")
    found = []
    for near in (2 ** 19, 3 * LANES * 14 * 14):
        monkeypatch.setattr(blocked_ops, "NEAR", near)
        monkeypatch.setattr(blocked_ops, "SMALL", 2 ** 19)
        executor = symbol.simple_bind(mx.cpu(), data=(6, 3, 12, 12))
        random = np.random.RandomState(0)
        for array in executor.arg_arrays:
            array[:] = random.randn(*array.shape)
        out = executor.forward(is_train=True)[0]
        executor.backward(mx.nd.array(np.cos(np.arange(out.size)).reshape(out.shape)))
        found.append((executor.compiled.plan.total_bytes,
                      [g.asnumpy() for g in executor.grad_arrays]))
    (whole, expected), (parted, grads) = found
    assert parted < whole
    for one, other in zip(grads, expected, strict=True):
        np.testing.assert_array_equal(one, other)
