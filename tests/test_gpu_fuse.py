"""Chains of elementwise nodes on GPUs: a launch forward, a launch backward, the CPU's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import exact
from nbmod.ops.cuda import launch, simulator
from tests.compare import assert_same

SHAPES = {"a": (3, 5), "b": (3, 5), "row": (1, 5)}


def gated():
    """tanh(a b + a) sigmoid(b), relu of it and its square."""
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    y = mx.sym.tanh(a * b + a) * mx.sym.sigmoid(b)
    return mx.sym.Group([mx.sym.Activation(y, act_type="relu"), mx.sym.square(y)])


def shifted():
    """A row is added to all rows: its gradient is a sum, which is a launch of its own."""
    y = mx.sym.broadcast_add(mx.sym.Variable("a"), mx.sym.Variable("row"))
    return mx.sym.exp(mx.sym.negative(mx.sym.square(y)))


def answers(network, context, dtype, request):
    """Outputs and gradients, which start from ones; how many kernels forward and backward took."""
    shapes = {name: SHAPES[name] for name in network.list_arguments()}
    executor = network.simple_bind(context, grad_req=request, **shapes,
                                   type_dict=dict.fromkeys(shapes, dtype))
    rng, counts = np.random.default_rng(0), [0]
    for array in executor.arg_arrays:
        array[:] = rng.uniform(-1, 1, array.shape)
    for array in executor.grad_arrays:
        array[:] = 1
    heads = [mx.nd.array(rng.standard_normal(y.shape), ctx=context, dtype=dtype)
             for y in executor.outputs]
    with pytest.MonkeyPatch.context() as patch:
        run = simulator.run
        patch.setattr(simulator, "run", lambda *args: (
            counts.__setitem__(-1, counts[-1] + 1), run(*args)))
        executor.forward(is_train=True)
        counts.append(0)
        executor.backward(heads)
    return [x.asnumpy() for x in (*executor.outputs, *executor.grad_arrays)], counts


@pytest.mark.gpu
@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("network, sums", [(gated, 0), (shifted, 1)])
def test_a_chain_is_a_launch(network, sums, dtype, request_):
    got, counts = answers(network(), mx.gpu(0), dtype, request_)
    want, _ = answers(network(), mx.cpu(), dtype, request_)
    for index, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        assert_same(mine, theirs, 1e-6, f"array {index}")
    if launch.SIMULATED and request_ == "write":
        assert counts == [1, 1 + sums]


@pytest.mark.gpu
def test_exact_results_are_those_of_single_nodes():
    """A product and a sum in one kernel are one operation of a GPU, with one rounding."""
    shapes = {"a": (3, 5), "b": (3, 5)}
    assert gated().simple_bind(mx.gpu(0), **shapes).fused.notes
    with exact():
        assert not gated().simple_bind(mx.gpu(0), **shapes).fused.notes
