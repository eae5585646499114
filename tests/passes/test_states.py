"""With every pass, nodes write the states that they write without it, in the same order."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.blocked.layout import LANES

SHARED = ("gamma", "beta", "moving_mean", "moving_var")


def norms() -> Any:
    """A function that makes BatchNorm nodes with the same parameters and moving averages."""
    shared = {name: mx.sym.Variable(f"norm_{name}") for name in SHARED}
    return lambda x: mx.sym.BatchNorm(x, **shared, fix_gamma=False)


def added() -> Any:
    """The norm that could add the other one would run after it."""
    norm, x = norms(), mx.sym.Variable("data")
    x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=2 * LANES, pad=(1, 1), name="conv")
    return norm(x) + norm(mx.sym.tanh(x)), "write", {"data": (2, 3, 12, 12)}


def unrolled() -> Any:
    """A norm of the first output, and one of the second input, which a layer would need first."""
    norm, steps = norms(), [mx.sym.Variable(f"x{t}") for t in range(3)]
    cell = mx.rnn.RNNCell(5, prefix="cell_")
    first, state = cell(steps[0], cell.begin_state(func=mx.sym.Variable))
    shown = norm(first)
    _, state = cell(norm(steps[1]), state)
    third, _ = cell(steps[2], state)
    return mx.sym.Group([shown, third]), {"norm_gamma": "write"}, {
        name: (4, 5) for name in ("x0", "x1", "x2", "cell_begin_state_0")}


def behind(block: Any) -> Any:
    """No gradient reaches the norm, whose parameters are frozen, but one reaches what is added."""
    data = mx.sym.Variable("data")
    x, y = (mx.sym.Convolution(data, kernel=(3, 3), num_filter=2 * LANES, name=name)
            for name in "ab")
    return norms()(block(x)) + y, {"a_weight": "write", "b_weight": "write"}, {
        "data": (2, 3, 12, 12)}


@pytest.mark.parametrize("network", [added, unrolled, lambda: behind(mx.sym.BlockGrad),
                                     lambda: behind(mx.sym.sign)],
                         ids=["added", "unrolled", "blocked", "sign"])
def test_moving_averages_are_those_of_the_symbol(network):
    """The last of two updates weighs more.  Averages of float32 numbers of size 1."""
    symbol, requests, shapes = network()
    found = []
    for exact in (False, True):
        with mx.exact() if exact else nullcontext():
            executor = symbol.simple_bind(mx.cpu(), requests, **shapes)
        for name, array in executor.arg_dict.items():
            array[:] = np.random.RandomState(len(name)).standard_normal(array.shape)
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones(out.shape) for out in executor.outputs])
        found.append({name: array.asnumpy() for name, array in executor.aux_dict.items()})
    for name, expected in found[1].items():
        np.testing.assert_allclose(found[0][name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
