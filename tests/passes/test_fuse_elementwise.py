"""Fusion of elementwise nodes: bit-identical results, no cycles, and visible effects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.passes.optimize import elementwise_units, fuse_elementwise
from tests.passes.test_pipelines import unoptimized

SHAPE = (4, 6)
LARGE = (32, 160)
"""From 4096 numbers on nodes are compiled, and fused."""


@contextmanager
def everything_large() -> Iterator[None]:
    """Small arrays are fused, too; NumPy evaluates the results."""
    before, elementwise_units._is_compiled = elementwise_units._is_compiled, lambda shape: True
    try:
        yield
    finally:
        elementwise_units._is_compiled = before


def bind(symbol: Any, shapes: dict[str, tuple[int, ...]], grad_req: Any = "write",
         dtype: str = "float32") -> Any:
    """An executor with values of moderate magnitude."""
    executor = symbol.simple_bind(mx.cpu(), grad_req=grad_req, **shapes,
                                  type_dict=dict.fromkeys(shapes, dtype))
    rng = np.random.default_rng(0)
    for name, array in executor.arg_dict.items():
        array[:] = rng.uniform(0.2, 1.2, shapes[name])
    return executor


def answers(executor: Any) -> list[np.ndarray]:
    """Outputs and gradients of one step; gradients start from ones, to be added to."""
    for grad in executor.grad_arrays:
        if grad is not None:
            grad[:] = 1
    executor.forward(is_train=bool(executor.compiled.heads))
    found = [output.asnumpy() for output in executor.outputs]
    if executor.compiled.heads:
        rng = np.random.default_rng(1)
        executor.backward([mx.nd.array(rng.standard_normal(output.shape), dtype=output.dtype)
                           for output in executor.outputs])
    return found + [grad.asnumpy() for grad in executor.grad_arrays if grad is not None]


def assert_same(executor: Any) -> None:
    """Fused and separate nodes give the same bits."""
    for mine, other in zip(answers(executor), answers(unoptimized(executor)), strict=True):
        np.testing.assert_array_equal(mine, other)


def kernels(executor: Any) -> list[str]:
    """The notes on fused nodes."""
    return [note.removesuffix(" are one kernel") for note in executor.compiled.fused.notes]


# -- random graphs ------------------------------------------------------------------------------

ONE = ("tanh", "square", "negative", "relu", "BlockGrad", "sum", "transpose")
TWO = ("elemwise_add", "elemwise_mul", "broadcast_sub", "broadcast_mul", "broadcast_maximum")
VARIABLES = {"a": SHAPE, "b": SHAPE, "row": (1, 6), "column": (4, 1)}


@st.composite
def networks(draw: Any) -> Any:
    """A graph of elementwise nodes, some with several consumers, and of others between them."""
    known = [(mx.sym.Variable(name), shape) for name, shape in VARIABLES.items()]
    for _ in range(draw(st.integers(2, 14))):
        if draw(st.booleans()):
            name, (x, shape) = draw(st.sampled_from(ONE)), draw(st.sampled_from(known))
            if name == "sum":
                known.append((mx.sym.sum(x, axis=1, keepdims=True), (shape[0], 1)))
            elif name == "transpose":
                known.append((mx.sym.transpose(mx.sym.transpose(x) * 2.0), shape))
            else:
                known.append((getattr(mx.sym, name)(x), shape))
        else:
            name, (x, one) = draw(st.sampled_from(TWO)), draw(st.sampled_from(known))
            alike = [pair for pair in known if pair[1] == one]
            y, other = draw(st.sampled_from(alike if name.startswith("elemwise") else known))
            known.append((getattr(mx.sym, name)(x, y), np.broadcast_shapes(one, other)))
    made = known[len(VARIABLES):]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique_by=id))
    return mx.sym.Group([symbol for symbol, _ in outputs])


def test_terms_that_broadcast_alone_are_all_added():
    """No input has as many elements as the sum has terms."""
    column, a = mx.sym.Variable("column"), mx.sym.Variable("a")
    x = mx.sym.broadcast_mul(mx.sym.square(column), mx.sym.BlockGrad(a) * 0 + 1)
    row = mx.sym.broadcast_add(mx.sym.BlockGrad(mx.sym.Variable("row")) * 0, mx.sym.tanh(column))
    with everything_large():
        for symbol in (x, row, mx.sym.sum(row * 2.0, axis=1)):
            names = symbol.list_arguments()
            assert_same(bind(symbol, {name: VARIABLES[name] for name in names}))


@given(networks(), st.lists(st.sampled_from(["write", "add", "null"]), min_size=4, max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_graphs(network, requests):
    names = network.list_arguments()
    requests = dict(zip(names, requests, strict=False))
    with everything_large():
        executor = bind(network, {name: VARIABLES[name] for name in names}, requests)
        assert_same(executor)
        for node in executor.compiled.nodes:
            assert sum(map(len, (node.op.list_inputs(), node.op.list_outputs()))) <= max(
                fuse_elementwise.MAX_TENSORS, 4)


# -- kernels --------------------------------------------------------------------------------------

def test_functions_keep_their_bits():
    """Compiled together with the nodes before and after them."""
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    inner = mx.sym.broadcast_sub(a, b)
    outputs = [getattr(mx.sym, name)(inner) * a for name in ("exp", "log1p", "erf", "rint")]
    outputs += [getattr(mx.sym, f"broadcast_{name}")(inner, b) * a for name in ("mod", "power")]
    executor = bind(mx.sym.Group(outputs), {"a": LARGE, "b": (1, LARGE[1])})
    assert kernels(executor)
    assert_same(executor)


def lstm_cell() -> Any:
    """One step of an LSTM, with its state; several would be a layer."""
    cell = mx.rnn.LSTMCell(100, prefix="cell_")
    outputs, states = cell.unroll(1, mx.sym.Variable("data"), layout="TNC", merge_outputs=True)
    return mx.sym.Group([outputs, *states])


def attention() -> Any:
    """Scores of attention before their softmax: scaled, masked, with a bias of each head."""
    scores, mask = mx.sym.Variable("scores"), mx.sym.Variable("mask")
    scores = mx.sym.broadcast_add(mx.sym.contrib.div_sqrt_dim(scores), mx.sym.Variable("bias"))
    return mx.sym.broadcast_add(scores, (1 - mask) * -10000.0)


def momentum() -> Any:
    """A step of gradient descent as in a script."""
    weight, grad, state = map(mx.sym.Variable, ("weight", "grad", "state"))
    grad = mx.sym.clip(grad * 0.5, -1.0, 1.0) + 1e-4 * weight
    state = 0.9 * state - 0.1 * grad
    return mx.sym.Group([weight + state, state])


def mixed() -> Any:
    """float16 at both ends, float32 in between."""
    x = mx.sym.Cast(mx.sym.Variable("half"), dtype="float32")
    return mx.sym.Cast(mx.sym.tanh(x * 2.0) + x, dtype="float16")


NETWORKS: dict[str, tuple[Any, dict[str, tuple[int, ...]], int]] = {
    # symbol, shapes, kernels of the fused nodes
    "lstm": (lstm_cell, {"data": (1, 64, 30)}, 2),
    "attention": (attention, {"scores": (2, 4, 32, 32), "mask": (2, 1, 1, 32),
                              "bias": (4, 1, 1)}, 1),
    "momentum": (momentum, dict.fromkeys(("weight", "grad", "state"), LARGE), 2),
    "mixed": (mixed, {"half": LARGE}, 2),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("grad_req", ["write", "add", "null"])
def test_networks(name, grad_req):
    build, shapes, count = NETWORKS[name]
    symbol = build()
    found, _, _ = symbol.infer_shape(**shapes)
    shapes = dict(zip(symbol.list_arguments(), found, strict=True))
    executor = bind(symbol, shapes, grad_req)
    assert len(kernels(executor)) == (count + 1) // 2 if grad_req == "null" else count
    assert_same(executor)


def variance() -> Any:
    """The mean square of rows minus their mean."""
    x = mx.sym.Variable("x")
    centred = mx.sym.broadcast_sub(x, mx.sym.mean(x, axis=1, keepdims=True, name="mean"))
    return mx.sym.mean(mx.sym.square(centred), axis=1, name="variance")


def penalty() -> Any:
    """A sum over two axes of a chain that has no other consumer."""
    return mx.sym.sum(mx.sym.abs(mx.sym.Variable("x") * 2.0 - 1.0), axis=(1, 2), name="penalty")


def offset() -> Any:
    """A bias whose gradient is the sum of the gradient through a chain."""
    y = mx.sym.broadcast_add(mx.sym.BlockGrad(mx.sym.Variable("x")), mx.sym.Variable("bias"))
    return mx.sym.tanh(y, name="outer") * 2.0


def centred() -> Any:
    """A sum whose gradient is a sum again, which elementwise nodes read."""
    x = mx.sym.Variable("x")
    return mx.sym.broadcast_sub(x, mx.sym.sum(x, axis=1, keepdims=True))


SUMS = {"variance": (variance, {"x": LARGE}), "penalty": (penalty, {"x": (32, 8, 40)}),
        "offset": (offset, {"x": LARGE, "bias": (1, LARGE[1])})}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("grad_req", ["write", "add", "null"])
def test_sums_end_a_chain(name, grad_req):
    """Sums of up to 320 terms differ by their order: some 2^-24 of the sum for each."""
    build, shapes = SUMS[name]
    requests = {each: "null" if name == "offset" and each == "x" else grad_req for each in shapes}
    executor = bind(build(), shapes, requests)
    plain = answers(unoptimized(executor))
    for mine, other in zip(answers(executor), plain, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=1e-5)
    joined = [node for node in executor.compiled.nodes if node.op.name == "fused"
              and math.prod(node.op.operand_shapes[-1]) < math.prod(LARGE)]
    # What backward reads is stored, so a sum of it has its own pass; a gradient ends in a sum.
    assert bool(joined) == ((grad_req == "null") != (name == "offset"))


def test_nobody_reads_a_sum_in_its_own_kernel():
    with everything_large():
        assert_same(bind(centred(), {"x": SHAPE}))


def test_no_sums_where_results_are_exact():
    with mx.exact():
        executor = bind(variance(), {"x": LARGE}, "null")
    assert_same(executor)


def test_double_precision():
    x = mx.sym.Variable("x")
    executor = bind(mx.sym.sqrt(x * x + 1.0), {"x": LARGE}, dtype="float64")
    assert kernels(executor)
    assert_same(executor)


TYPES = ("float16", "float32", "float64", "int8", "uint8", "int32")


@pytest.mark.parametrize("source", TYPES[:3])
def test_casts_in_a_chain_are_kept_where_numpy_computes_it(source):
    """5 * 5 is 25 in any type, 25 * 25 wraps in int8, and 0.1 is another number in each."""
    values = np.resize([5, -5, 0.1, 3], SHAPE)
    for first, second in itertools.product(TYPES, repeat=2):
        y = mx.sym.Cast(mx.sym.clip(mx.sym.Variable("x"), a_min=-5, a_max=5), dtype=first)
        y = mx.sym.Cast(y * y, dtype=second)
        y = mx.sym.Cast(y * y, dtype=source)
        results = []
        for fuses in (True, False):
            with everything_large() if fuses else mx.without_passes("fuse_elementwise"):
                executor = bind(y, {"x": SHAPE}, "null", source)
            executor.arg_dict["x"][:] = values
            results.append(executor.forward()[0].asnumpy())
        np.testing.assert_array_equal(*results, err_msg=f"{first}, {second}")


def test_threads_do_not_change_a_bit():
    from nbmod.ops import jit

    executor = bind(lstm_cell(), dict(zip(
        lstm_cell().list_arguments(),
        lstm_cell().infer_shape(data=(1, 256, 30))[0], strict=True)))
    before, threads = answers(executor), jit.num_threads()
    jit.set_num_threads(1)
    try:
        for mine, other in zip(answers(executor), before, strict=True):
            np.testing.assert_array_equal(mine, other)
    finally:
        jit.set_num_threads(threads)


# -- conditions of fusion -------------------------------------------------------------------------

def test_one_kernel_for_one_pattern():
    """Names, scalars and shapes do not make another kernel."""
    def program(name: str, number: float, shape: tuple[int, ...]) -> Any:
        x = mx.sym.Variable(name)
        executor = bind(mx.sym.tanh(x * number) - x, {name: shape}, "null")
        return executor.compiled.nodes[0].op.program

    assert program("a", 2.0, LARGE) == program("b", 3.0, (5, 2000))


def test_a_tensor_that_others_read_is_written():
    x = mx.sym.Variable("x")
    inner = mx.sym.exp(x, name="inner")
    outer = mx.sym.sqrt(inner + 1.0, name="outer")
    executor = bind(mx.sym.Group([outer, mx.sym.sum(inner, axis=1, name="total")]), {"x": LARGE},
                    "null")
    node = next(node for node in executor.compiled.nodes if node.op.name == "fused")
    assert node.op.labels == ("inner", "outer")
    assert_same(executor)


def test_no_cycles():
    """A node between two elementwise nodes separates them, if one of them depends on it."""
    x = mx.sym.Variable("x")
    a = mx.sym.exp(x, name="a")
    b = mx.sym.softmax(a, name="b")
    executor = bind(mx.sym.elemwise_add(a, b, name="c") * 2.0, {"x": LARGE}, "null")
    assert len(kernels(executor)) == 1
    assert kernels(executor)[0].startswith("c, ")
    assert_same(executor)


def test_small_nodes_stay_alone():
    x = mx.sym.Variable("x")
    assert not kernels(bind(mx.sym.tanh(x * 2.0) - x, {"x": (3, 4)}))


def test_devices_are_kept_apart():
    x = mx.sym.Variable("x")
    with mx.AttrScope(ctx_group="one"):
        y = mx.sym.tanh(x * 2.0)
    with mx.AttrScope(ctx_group="two"):
        z = mx.sym.sqrt(y + 3.0)
    executor = z.simple_bind(mx.cpu(), "null", x=LARGE,
                             group2ctx={"one": mx.cpu(1), "two": mx.cpu(2)})
    assert len(kernels(executor)) == 2


def test_an_environment_variable_turns_it_off(monkeypatch):
    monkeypatch.setenv("MXNET_USE_FUSION", "0")
    x = mx.sym.Variable("x")
    assert not kernels(bind(mx.sym.tanh(x * 2.0) - x, {"x": LARGE}))


def test_memory_is_no_larger():
    """Consecutive sums of gradients are not delayed to be fused."""
    x = mx.sym.Variable("x")
    total, weight = x, mx.sym.Variable("weight")
    for i in range(6):
        total = total + mx.sym.softmax(mx.sym.dot(total, weight, name=f"dot{i}"))
    executor = bind(total, {"x": (64, 64), "weight": (64, 64)})
    assert executor.compiled.plan.total_bytes <= unoptimized(executor).compiled.plan.total_bytes
    assert_same(executor)


# -- visible effects ------------------------------------------------------------------------------

def test_monitors_see_every_node():
    x = mx.sym.Variable("x")
    executor = bind(mx.sym.tanh(mx.sym.exp(x, name="inner") * 2.0, name="outer"), {"x": LARGE})
    seen: list[str] = []
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    executor.forward(is_train=True)
    assert {"inner_output", "outer_output"} <= set(seen)
    watched = executor.outputs[0].asnumpy()
    executor.set_monitor_callback(None)
    np.testing.assert_array_equal(executor.forward(is_train=True)[0].asnumpy(), watched)


def test_debug_str_names_the_members():
    x = mx.sym.Variable("x")
    text = bind(mx.sym.tanh(mx.sym.exp(x, name="inner"), name="outer"), {"x": LARGE}).debug_str()
    assert "inner, outer are one kernel" in text
    assert "inner+outer (fused)" in text


def test_errors_name_the_members(monkeypatch):
    x = mx.sym.Variable("x")
    executor = bind(mx.sym.tanh(mx.sym.exp(x, name="inner"), name="outer"), {"x": LARGE}, "null")

    def fails() -> None:
        raise ValueError("no")

    executor.planned.bound.calls[0] = fails
    with pytest.raises(mx.MXNetError, match=r"^inner\+outer \(fused\): no"):
        executor.forward()
