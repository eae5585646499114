"""Concat inputs and slice outputs share the memory of the whole; results are bit-identical."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.ops.blocked.layout import LANES
from nbmod.passes.memory import plan as memory

blocked = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")


def relu_convolution(data, filters, kernel, name, **others):
    data = mx.sym.Convolution(data, kernel=(kernel, kernel), pad=(kernel // 2, kernel // 2),
                              num_filter=filters, name=name, **others)
    return mx.sym.relu(data)


def fire():
    x = relu_convolution(mx.sym.Variable("data"), LANES, 1, "squeeze")
    pieces = [relu_convolution(x, LANES, 1, "one"), relu_convolution(x, LANES + 3, 3, "three")]
    return relu_convolution(mx.sym.concat(*pieces, dim=1, name="join"), 9, 3, "after")


def dense():
    """Nested concatenations, whose inputs have other consumers; one input is a pooling's."""
    x = mx.sym.Pooling(relu_convolution(mx.sym.Variable("data"), 2 * LANES, 3, "stem"),
                       kernel=(3, 3), pad=(1, 1), pool_type="max", name="pool")
    for number in range(3):
        y = relu_convolution(x, LANES, 3, f"layer{number}")
        x = mx.sym.concat(x, y, dim=1, name=f"join{number}")
    return mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")


def residual():
    """A convolution that accumulates, and a grouped one, cannot write strided rows."""
    x = relu_convolution(mx.sym.Variable("data"), LANES, 3, "stem")
    y = mx.sym.Convolution(x, kernel=(1, 1), num_filter=LANES, name="added") + x
    z = relu_convolution(x, LANES, 3, "depthwise", num_group=LANES)
    w = relu_convolution(x, LANES, 3, "alone")
    return mx.sym.concat(mx.sym.relu(y), z, w, dim=1, name="join")


def gates():
    """Plain tensors along the first axis: functions of slices, concatenated again."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    parts = mx.sym.split(mx.sym.exp(x * 0.1), num_outputs=2, axis=0, name="cut")
    first = mx.sym.slice_axis(parts[0], axis=0, begin=0, end=1)
    return mx.sym.concat(mx.sym.tanh(parts[1]), mx.sym.sin(first), x, dim=0, name="join")


def executed(symbol, shape, trained, together=True):
    homes = memory.alias_concat
    if not together:
        memory.alias_concat = lambda *given: {}
    try:
        executor = symbol.simple_bind(mx.cpu(), grad_req="write" if trained else "null",
                                      data=shape)
    finally:
        memory.alias_concat = homes
    random = np.random.RandomState(3)
    for _, array in sorted(executor.arg_dict.items()):
        array[:] = random.randn(*array.shape)
    found = [out.asnumpy() for out in executor.forward(is_train=trained)]
    if trained:
        executor.backward([mx.nd.array(np.cos(np.arange(out.size)).reshape(out.shape))
                           for out in found])
        found += [grad.asnumpy() for grad in executor.grad_arrays]
    return executor, found


def steps(executor, kind):
    """Names of the nodes that are elided because of aliasing."""
    return {executor.compiled.nodes[index].name for index in executor.compiled.plan.views
            if getattr(executor.compiled.plan_steps[index], kind)}


@pytest.mark.parametrize("network, batch, trained, joined", [
    pytest.param(fire, 3, False, {"join"}, marks=blocked),
    pytest.param(fire, 1, False, {"join"}, marks=blocked),
    pytest.param(fire, 3, True, set(), marks=blocked),  # relu's gradient reads its result
    pytest.param(fire, 1, True, {"join"}, marks=blocked),
    pytest.param(dense, 2, False, {"join0", "join1", "join2"}, marks=blocked),
    pytest.param(dense, 1, False, {"join0", "join1", "join2"}, marks=blocked),
    pytest.param(residual, 2, False, set(), marks=blocked),
    pytest.param(residual, 1, False, {"join"}, marks=blocked),
])
def test_blocked_images_are_joined_in_place(network, batch, trained, joined, monkeypatch):
    monkeypatch.setattr(CONFIG, "check", True)
    shape = batch, LANES, 7, 6
    executor, found = executed(network(), shape, trained)
    apart, expected = executed(network(), shape, trained, together=False)
    assert steps(executor, "concat_offsets") == joined and steps(apart, "concat_offsets") == set()
    assert executor.compiled.plan.total_bytes <= apart.compiled.plan.total_bytes
    assert ("joined in place" in executor.debug_str()) == bool(joined)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("trained", [False, True])
def test_plain_tensors_are_joined_and_cut_in_place(trained, monkeypatch):
    monkeypatch.setattr(CONFIG, "check", True)
    symbol = gates()
    executor, found = executed(symbol, (4, 5), trained)
    assert "cut" in steps(executor, "split_offsets")
    _, expected = executed(symbol, (4, 5), trained, together=False)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("axis, places", [(0, True), (1, False)])
def test_pieces_of_an_argument_are_views_of_it(axis, places):
    data = mx.sym.Variable("data")
    symbol = mx.sym.Group([mx.sym.sin(part) for part in mx.sym.split(
        data, num_outputs=2, axis=axis, name="cut")])
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=(4, 6))
    assert ("= data (piece)" in executor.debug_str()) is places
    for start in (0, 100):
        given = np.arange(start, start + 24, dtype=np.float32).reshape(4, 6)
        found = executor.forward(is_train=False, data=mx.nd.array(given))
        for out, part in zip(found, np.split(given, 2, axis), strict=True):
            np.testing.assert_allclose(out.asnumpy(), np.sin(part), rtol=2e-6, atol=1e-6)


@blocked
def test_whoever_watches_sees_whole_arrays():
    seen = {}
    executor, _ = executed(fire(), (3, LANES, 7, 6), False)
    executor.set_monitor_callback(lambda name, array: seen.update({name: array.asnumpy()}))
    executor.forward(is_train=False)
    joined = np.concatenate([seen[f"relu{k}_output"] for k in _numbers(seen)], axis=1)
    np.testing.assert_array_equal(seen["join_output"], joined)


def _numbers(seen):
    """Of the two functions before the concatenation."""
    names = sorted(int(name[4:-7]) for name in seen if name.startswith("relu"))
    return names[1:3]


@pytest.mark.parametrize("exact", [False, True])
def test_joins_that_share_memory_one_inside_the_other(exact):
    """With one row, x is an input of the inner and the outer concatenation, at the same offset."""
    data = mx.sym.Variable("data")
    x = mx.sym.transpose(mx.sym.transpose(data) * 2)
    inner = mx.sym.Concat(mx.sym.reshape(data, (-1, 1, 2)), mx.sym.reshape(x, (-1, 1, 2)), dim=1)
    y = mx.sym.reshape(mx.sym.sum(inner, axis=1), (-1, 2))
    net = mx.sym.slice_axis(mx.sym.Concat(y, x, dim=1), axis=1, begin=1, end=3)
    with mx.exact() if exact else nullcontext():
        executor = net.bind(mx.cpu(), {"data": mx.nd.array([[1, 2]])})
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), [[6, 2]])
