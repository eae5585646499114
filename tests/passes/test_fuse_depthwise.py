"""Fused depthwise-separable convolutions are bit-identical to separate ones."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.execution.cost_model import costs_of
from nbmod.ops.blocked import depthwise_chain
from nbmod.ops.blocked.layout import LANES
from nbmod.ops.jit import num_threads
from tests.passes.test_blocked_layout import convolution, executed

pytestmark = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")
WIDE = 2 * LANES + 5
APART = 2 ** 40


def clipped(data):
    return mx.sym.clip(data, a_min=0, a_max=0.7)


def depthwise(data, channels, kernel=3, stride=1):
    return clipped(convolution(data, channels, "depthwise", kernel, kernel // 2,
                               stride=(stride, stride), num_group=channels))


def unit(filters=12, add=False, **how):
    """Narrow, wide, deep and narrow again, between convolutions with a halo."""
    x = convolution(mx.sym.Variable("data"), 12, "first")
    y = clipped(convolution(x, WIDE, "expand", 1, 0))
    y = convolution(depthwise(y, WIDE, **how), filters, "project", 1, 0, no_bias=True)
    return convolution(x + y if add else y, 20, "last")


def image():
    """The expansion reads an image, with a stride; the last result is clipped."""
    x = clipped(convolution(mx.sym.Variable("data"), 24, "stem", stride=(2, 2)))
    return clipped(convolution(depthwise(x, 24), 3 * LANES + 1, "project", 1, 0))


def unprojected():
    x = clipped(convolution(mx.sym.Variable("data"), WIDE, "expand", pad=2, dilate=(2, 2)))
    return convolution(depthwise(x, WIDE, stride=2), 20, "last")


def unexpanded():
    x = mx.sym.Pooling(convolution(mx.sym.Variable("data"), WIDE, "first"), kernel=(2, 2))
    return convolution(depthwise(x, WIDE, 5), 20, "project", 1, 0)


def twice():
    """Depthwise convolutions that follow each other are in chains of their own."""
    x = convolution(depthwise(mx.sym.Variable("data"), 3), WIDE, "a", 1, 0)
    y = clipped(convolution(x, WIDE, "b", num_group=WIDE))
    return convolution(convolution(y, WIDE, "c", num_group=WIDE), 8, "d", 1, 0)


# symbol, shape of data, chains: names of their last links
CASES = {
    "unit": (unit(), (3, 3, 13, 16), ["project"]),
    "with its input": (unit(add=True), (2, 3, 9, 14), ["project"]),
    "stride": (unit(stride=2), (2, 3, 12, 17), ["project"]),
    "size 5": (unit(kernel=5, add=True), (1, 3, 17, 11), ["project"]),
    "size 5, stride": (unit(kernel=5, stride=2), (5, 3, 7, 7), ["project"]),
    "image": (image(), (2, 3, 23, 30), ["project"]),
    "not projected": (unprojected(), (2, 3, 15, 9), ["depthwise"]),
    "not expanded": (unexpanded(), (2, 3, 20, 21), ["project"]),
    "twice": (twice(), (2, 3, 11, 12), ["b", "d"]),
}


def run(case, near, monkeypatch):
    monkeypatch.setattr(depthwise_chain, "L2_ELEMENTS", near)
    (output,), *_, executor = executed(case[0], [], False, case[1])
    return output, executor


@pytest.mark.parametrize("name", CASES)
def test_chains_are_their_links(name, monkeypatch):
    """In bands of one row, of some, and in one band."""
    case = CASES[name]
    expected, apart = run(case, APART, monkeypatch)
    assert "_blocked_chain" not in [step.node.op_name for step in apart.steps]
    assert np.ptp(expected) > 0
    for near in (1, 200 * LANES, 1000 * LANES):
        found, executor = run(case, near, monkeypatch)
        names = [step.node.name for step in executor.steps
                 if step.node.op_name == "_blocked_chain"]
        assert names == case[2] or (near > 1 and set(names) <= set(case[2]))
        np.testing.assert_array_equal(found, expected)
    costs = [sum(cost.operations for cost in costs_of(each.compiled)) for each in (executor, apart)]
    assert costs[0] == costs[1]


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    """Images are divided into parts where there are more threads than images."""
    case, many = CASES["with its input"], num_threads()
    expected, _ = run(case, APART, monkeypatch)
    try:
        for threads in range(1, many + 1):
            mx.set_num_threads(threads)
            np.testing.assert_array_equal(run(case, 1, monkeypatch)[0], expected)
    finally:
        mx.set_num_threads(many)


@pytest.mark.parametrize("threads, images, parts", [(1, 1, 1), (2, 1, 2), (3, 2, 3), (4, 16, 1),
                                                    (8, 3, 8), (64, 1, 9)])
def test_parts_keep_threads_busy(threads, images, parts, monkeypatch):
    monkeypatch.setattr(depthwise_chain, "L2_ELEMENTS", APART)
    executor = CASES["unit"][0].simple_bind(mx.cpu(), grad_req="null", data=(images, 3, 36, 36))
    graph = executor.compiled.graph
    links = [node.op for node in graph.nodes if node.name in ("expand", "depthwise", "project")]
    whole = depthwise_chain.BlockedChain(tuple(links))
    data = next(node for node in graph.nodes if node.name == "expand").inputs[0]
    spec = executor.compiled.specs[graph.eid(data)]
    bands = depthwise_chain.Bands(*whole.three(whole.kernels(spec)))
    assert bands.parts(threads) == parts


def test_who_trains_has_no_chains(monkeypatch):
    monkeypatch.setattr(depthwise_chain, "L2_ELEMENTS", 1)
    symbol = unit()
    *_, executor = executed(symbol, symbol.list_arguments(), False, (2, 3, 9, 9))
    assert "_blocked_chain" not in [step.node.op_name for step in executor.steps]
