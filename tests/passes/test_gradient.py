"""Gradients of whole graphs: sums over many consumers, and random graphs without a memory plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod import sym
from nbmod.ops.op import Call, Mode
from nbmod.passes.memory.verify import check_plan


def gradients(executor: Any, heads: Any) -> dict[str, np.ndarray]:
    executor.forward(is_train=True)
    executor.backward(heads)
    return {name: array.asnumpy() for name, array in executor.grad_dict.items()
            if array is not None}


def test_a_thousand_users_need_the_memory_of_a_few():
    x = sym.Variable("x")
    total = x * 0.0
    for number in range(1, 1000):
        total = total + x * float(number)
    executor = total.simple_bind(mx.cpu(), x=(1000,))
    np.testing.assert_allclose(gradients(executor, mx.nd.ones((1000,)))["x"], 499_500)
    assert executor.compiled.plan.total_bytes < 6 * 4000


def test_slopes_behind_a_norm_have_their_true_gradient():
    """PReLU's backward reads the output of BatchNorm, which MXNet has overwritten by then."""
    rng = np.random.default_rng(1)
    x, heads = rng.normal(size=(2, 8, 3, 5)).astype("float32")
    norm = sym.BatchNorm(sym.Variable("x"), eps=2e-5, name="norm")
    net = sym.LeakyReLU(norm, act_type="prelu", name="slope")
    executor = net.simple_bind(mx.cpu(), x=x.shape)
    executor.arg_dict["x"][:] = x
    executor.arg_dict["slope_gamma"][:] = 0.25
    found = gradients(executor, mx.nd.array(heads))["slope_gamma"]
    centred = (x - x.mean((0, 2), keepdims=True)) / np.sqrt(x.var((0, 2), keepdims=True) + 2e-5)
    np.testing.assert_allclose(found, (np.minimum(centred, 0) * heads).sum((0, 2)), rtol=1e-4)


@pytest.mark.parametrize("request_", ["write", "add"])
def test_an_input_that_one_node_reads_several_times(request_):
    x = sym.Variable("x")
    net = sym.add_n(x * x, x, x, sym.broadcast_mul(x, x))
    executor = net.simple_bind(mx.cpu(), grad_req=request_, x=(3,))
    executor.arg_dict["x"][:] = mx.nd.array([1, 2, 3])
    executor.grad_dict["x"][:] = 100
    want = np.array([6, 10, 14]) + (100 if request_ == "add" else 0)
    np.testing.assert_allclose(gradients(executor, mx.nd.ones((3,)))["x"], want)


# -- random graphs ----------------------------------------------------------------------------
# Every tensor is (4, 6). A program is a list of (step, first operand, second operand); operands
# count back from the newest tensor, and the first ones are the variables.

SHAPES = {"x": (4, 6), "y": (4, 6), "weight": (6, 6), "gamma": (6,), "beta": (6,)}
WEIGHT, GAMMA, BETA = (sym.Variable(name) for name in ("weight", "gamma", "beta"))


def halves(x, y):
    return sym.SliceChannel(sym.Concat(x, y, dim=1), num_outputs=2)


STEPS = {
    "tanh": lambda x, y: sym.tanh(x),
    "exp": lambda x, y: sym.exp(x * 0.1),
    "relu": lambda x, y: sym.relu(x),
    "negative": lambda x, y: -x,
    "identity": lambda x, y: sym.identity(x),
    "views": lambda x, y: sym.reshape(sym.reshape(x, shape=(-1,)), shape=(4, 6)),
    "blocked": lambda x, y: sym.BlockGrad(x),
    "made a loss": lambda x, y: sym.make_loss(x),
    "softmax": lambda x, y: sym.softmax(x),
    "dense": lambda x, y: sym.FullyConnected(x, WEIGHT, num_hidden=6, no_bias=True),
    "normalised": lambda x, y: sym.LayerNorm(x, GAMMA, BETA),
    "in batches": lambda x, y: sym.BatchNorm(x, GAMMA, BETA, fix_gamma=False),
    "sum": lambda x, y: x + y,
    "product": lambda x, y: x * y,
    "maximum": lambda x, y: sym.maximum(x, y),
    "broadcast": lambda x, y: sym.broadcast_add(x, sym.mean(y, axis=0, keepdims=True)),
    "many": lambda x, y: sym.add_n(x, y, x),
    "cut": lambda x, y: sym.slice_axis(sym.Concat(x, y, dim=0), axis=0, begin=2, end=6),
    "swapped": lambda x, y: halves(x, y)[1] + halves(x, y)[0],
    "half": lambda x, y: halves(x, y)[0],
    "compared": lambda x, y: sym.LinearRegressionOutput(x, y),
}


def build(program, outputs):
    with mx.name.NameManager():
        tensors = [sym.Variable("x"), sym.Variable("y")]
        for step, first, second in program:
            pair = (tensors[-1 - i % len(tensors)] for i in (first, second))
            tensors.append(STEPS[step](*pair))
        return sym.Group([tensors[-1 - i % len(tensors)] for i in outputs])


def bound(net, requests, rng):
    names = net.list_arguments()
    executor = net.simple_bind(
        mx.cpu(), grad_req={name: requests.get(name, "null") for name in names},
        type_dict=dict.fromkeys(names, "float64"), **{name: SHAPES[name] for name in names})
    arrays = [*executor.arg_arrays, *(g for g in executor.grad_arrays if g is not None)]
    for array in arrays:
        array[:] = rng.standard_normal(array.shape)
    return executor


def unplanned(executor, heads):
    """Outputs and gradients when every tensor of the bound graph has memory of its own."""
    compiled, values = executor.compiled, {}
    graph = compiled.graph
    given = {**executor.arg_dict, **executor.aux_dict,
             **{node.name: head for node, head in zip(compiled.heads, heads, strict=False)}}
    for node in graph.nodes:
        first, *_ = eids = graph.output_eids(node)
        if node.is_variable:
            values[first] = given[node.name].asnumpy()
            continue
        ins = [values[eid] for eid in graph.input_eids(node)]
        specs = [compiled.specs[eid] for eid in eids]
        outs = [np.zeros(*spec) for spec in specs]
        if node.op.view:
            outs = [ins[0].reshape(specs[0].shape).copy()]
        else:
            wants = node.op.scratch([compiled.specs[e] for e in graph.input_eids(node)], specs)
            node.op.forward(ins, outs, Call(Mode(True), [np.zeros(*spec) for spec in wants],
                                            [False] * len(outs), specs))
        values.update(zip(eids, outs, strict=True))
    grads = {name: values[eid] + (executor.grad_dict[name].asnumpy()
                                  if eid in compiled.accumulated else 0)
             for eid, name in compiled.gradients.items()}
    return [values[eid] for eid in graph.output_ids[:len(executor.outputs)]], grads


@settings(max_examples=150, deadline=None)
@given(program=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 5),
                                  st.integers(0, 5)), min_size=1, max_size=14),
       outputs=st.lists(st.integers(0, 8), min_size=1, max_size=3),
       requests=st.fixed_dictionaries({name: st.sampled_from(["write", "add", "null"])
                                       for name in SHAPES}))
def test_a_planned_run_computes_what_an_unplanned_one_does(program, outputs, requests):
    rng = np.random.default_rng(0)
    executor = bound(build(program, outputs), requests, rng)
    heads = [mx.nd.array(rng.standard_normal(y.shape), dtype=y.dtype) for y in executor.outputs]
    want_outputs, want = unplanned(executor, heads)
    compiled = executor.compiled
    keep = set(compiled.graph.output_ids[:len(executor.outputs)])
    check_plan(compiled.plan_steps, compiled.sizes, compiled.plan, keep - set(compiled.external))
    got = gradients(executor, heads)
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
    for output, value in zip(executor.outputs, want_outputs, strict=True):
        np.testing.assert_allclose(output.asnumpy(), value, rtol=1e-9, atol=1e-12)
