"""Gradients of whole graphs: sums over many consumers, and random graphs without a memory plan."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod import sym
from nbmod.graph import Entry, Graph, Node
from nbmod.ops import OPS
from nbmod.ops.op import Call, Mode, Op
from nbmod.passes.gradient import gradient
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


X, G, H = map(sym.Variable, "xgh")
SAME_INPUTS: dict[str, tuple[Any, dict[str, tuple[int, ...]]]] = {
    "LayerNorm": (sym.LayerNorm(X, G, G), {"x": (2, 3), "g": (3,)}),
    "BatchNorm": (sym.BatchNorm(X, G, G, fix_gamma=False), {"x": (4, 3), "g": (3,)}),
    "GroupNorm": (sym.GroupNorm(X, G, G, num_groups=3), {"x": (2, 3, 4), "g": (3,)}),
    "FullyConnected": (sym.FullyConnected(X, X, G, num_hidden=3), {"x": (3, 3), "g": (3,)}),
    "Convolution": (sym.Convolution(X, X, kernel=(2, 2), num_filter=2, pad=(1, 1), no_bias=True),
                    {"x": (2, 2, 2, 2)}),
    "Deconvolution": (sym.Deconvolution(X, X, kernel=(2, 2), num_filter=2), {"x": (2, 2, 2, 2)}),
    "prelu": (sym.LeakyReLU(X - 0.8, X - 0.8, act_type="prelu"), {"x": (2, 3)}),
    "trsm": (sym.linalg.trsm(X, X), {"x": (3, 3)}),
    "Correlation": (sym.Correlation(X, X, max_displacement=1, pad_size=1), {"x": (1, 2, 3, 3)}),
    "Concat": (sym.Concat(X, X, sym.Concat(X, X, dim=0), dim=0), {"x": (2, 3)}),
    "lstm": (sym.RNN(X, G, H, H, mode="lstm", state_size=3, num_layers=1),
             {"x": (2, 2, 3), "g": (96,), "h": (1, 2, 3)}),
    "foreach": (sym.contrib.foreach(lambda data, states: (
        data[0] * states[0] + data[1], [states[1] * data[1], states[0] * data[0]]),
        [X, X], [H, H])[0], {"x": (3, 2), "h": (2,)}),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_INPUTS)
def test_one_array_may_be_several_inputs(name):
    net, shapes = SAME_INPUTS[name]
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(0.4, 1.2, shape) for name, shape in shapes.items()}
    states = {name: np.ones(3) for name in net.list_auxiliary_states()}
    # A difference in float64 is off by the third derivative times 1e-8.
    mx.test_utils.check_numeric_gradient(net, values, states or None, numeric_eps=1e-4, rtol=1e-4,
                                         atol=1e-6, dtype=np.float64)


class Product(Op):
    """lhs rhs of square matrices; its gradient is made of forward operators, which cannot add."""

    name = "test_product"
    inputs = ("lhs", "rhs")

    def forward(self, ins, outs, call):
        np.matmul(*ins, out=outs[0])

    def gradient(self, node, ograds):
        (x, y), dot = node.inputs, OPS["dot"]
        return [Entry(Node(dot(transpose_b=True), "left", [ograds[0], y])),
                Entry(Node(dot(transpose_a=True), "right", [x, ograds[0]]))]


def test_gradients_that_forward_operators_compute_are_summed():
    x, w, v = map(sym.Variable, "xwv")
    twice = (x * 2).entries[0]
    net = sum(sym.Symbol([Entry(Node(Product(), "product", [twice, y.entries[0]]))])
              for y in (w, v)) * 1
    executor = net.simple_bind(mx.cpu(), x=(2, 2), w=(2, 2), v=(2, 2))
    values = [np.arange(4).reshape(2, 2) + k for k in range(3)]
    for name, value in zip("xwv", values, strict=True):
        executor.arg_dict[name][:] = value
    np.testing.assert_array_equal(gradients(executor, mx.nd.ones((2, 2)))["x"],
                                  2 * np.ones((2, 2)) @ (values[1] + values[2]).T)


class Scaled(Op):
    """x s; its gradient reads s, and is decomposed into nodes that read x as well."""

    name = "test_scaled"
    inputs = ("x", "s")
    needs = ("ograd", "s")

    def decompose_backward(self, node):
        x = node.source.inputs[0]
        return [Entry(Node(OPS["elemwise_mul"](), "left", node.inputs)),
                Entry(Node(OPS["elemwise_mul"](), "right", [node.inputs[0], x]))]


def test_a_decomposition_reads_what_backward_does():
    x, s = (sym.Variable(name).entries[0] for name in "xs")
    backward, = gradient(Graph([Entry(Node(Scaled(), "scaled", [x, s]))]), [s.node],
                         [Entry(Node(None, "head"))])
    with pytest.raises(mx.MXNetError, match=r"scaled_backward.* reads x \(variable\), which it "):
        gradient(Graph([backward]), [s.node], [Entry(Node(None, "head"))])


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


# -- one entry in several places ----------------------------------------------------------------
# Every tensor is (2, 2) and float64. Operands, outputs and head gradients are drawn from few
# tensors, so many coincide.

PAIRS: dict[str, Any] = {
    "product": lambda F, x, y: x * y,
    "quotient": lambda F, x, y: x / y,
    "power": lambda F, x, y: x ** y,
    "hypotenuse": lambda F, x, y: F.broadcast_hypot(x, y),
    "larger": lambda F, x, y: F.broadcast_maximum(x, y),
    "column": lambda F, x, y: F.broadcast_div(x, F.slice_axis(y, axis=1, begin=0, end=1)),
    "matrices": lambda F, x, y: F.dot(x, y, transpose_b=True),
    "batch": lambda F, x, y: F.batch_dot(*[F.expand_dims(each, axis=0) for each in (x, y)]),
    "gemm": lambda F, x, y: F.linalg.gemm(x, y, x),
    "dense": lambda F, x, y: F.FullyConnected(x, y, num_hidden=2, no_bias=True),
    "images": lambda F, x, y: F.Convolution(*[F.reshape(each, shape=(2, 2, 1)) for each in (x, y)],
                                            kernel=(1,), num_filter=2, no_bias=True),
    "stacked": lambda F, x, y: F.sum(F.stack(x, y, x * y, axis=0), axis=0),
    "summed": lambda F, x, y: F.add_n(x, y, x),
    "chosen": lambda F, x, y: F.where(x > 1, x * y, y),
    "rows": lambda F, x, y: F.sum(F.take(x, y), axis=1),
    "softmax": lambda F, x, y: F.softmax(x) * y,
    "log_softmax": lambda F, x, y: F.log_softmax(x * y),
    "elu": lambda F, x, y: F.LeakyReLU(x - y, act_type="elu"),
    "identity": lambda F, x, y: F.identity(x),
}  # fmt: skip


def tame(F: Any, tensor: Any) -> Any:
    """A tensor between 0.2 and 2.2, so that powers and quotients stay near 1."""
    return F.sin(F.reshape(tensor, shape=(2, 2))) + 1.2


class Repetitive:
    """Some gradients of a random program for its variables a and b, and theirs."""

    def __init__(self, rng: random.Random):
        self.steps = [(rng.choice(sorted(PAIRS)), rng.randrange(3), rng.randrange(3))
                      for _ in range(rng.randint(1, 4))]
        self.pairs = [(rng.randrange(4), rng.randrange(4)) for _ in range(rng.randint(0, 2))]
        numbers = np.random.default_rng(rng.randrange(1000))
        self.values = list(numbers.uniform(0.3, 1.7, (2, 2, 2)))
        self.weights = list(numbers.standard_normal((3, 2, 2)))

    def __repr__(self) -> str:
        return f"{self.steps}, outputs and their heads {self.pairs}"

    def outputs(self, F: Any, a: Any, b: Any) -> tuple[list[Any], list[Any]]:
        """Outputs, of which the first depends on all that is computed, and their gradients."""
        tensors = [b, a]
        for step, first, second in self.steps:
            x, y = (tensors[-1 - i % len(tensors)] for i in (first, second))
            tensors.append(tame(F, PAIRS[step](F, x, y)))
        whole = F.add_n(a * b, *tensors)
        picked = [[tensors[-1 - i % len(tensors)] for i in each]
                  for each in zip(*self.pairs, strict=True)] or [[], []]
        return [whole, *picked[0]], [tensors[-1], *picked[1]]

    def heads(self, values: list[np.ndarray]) -> list[np.ndarray]:
        return [head.asnumpy() for head in self.outputs(mx.nd, *map(float64, values))[1]]

    def value(self, values: list[np.ndarray], heads: list[np.ndarray]) -> float:
        """The sum of the outputs times given head gradients."""
        outputs, _ = self.outputs(mx.nd, *map(float64, values))
        return sum(float((y.asnumpy() * head).sum())
                   for y, head in zip(outputs, heads, strict=True))

    def by_tape(self, values: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The gradients for a, b and a again, and those of their weighted sum for a and b."""
        a, b = arrays = [*map(float64, values)]
        for array in arrays:
            array.attach_grad()
        with mx.autograd.record():
            outputs, heads = self.outputs(mx.nd, a, b)
            grads = mx.autograd.grad(outputs, [a, b, a], heads, create_graph=True)
        mx.autograd.backward(grads, [*map(float64, self.weights)])
        return [grad.asnumpy() for grad in grads], [array.grad.asnumpy() for array in arrays]

    def by_executor(self) -> list[np.ndarray]:
        """The gradients for a and b that an executor computes."""
        outputs, heads = self.outputs(sym, sym.Variable("a"), sym.Variable("b"))
        executor = sym.Group([*outputs, *heads]).simple_bind(
            mx.cpu(), type_dict=dict.fromkeys("ab", "float64"), a=(2, 2), b=(2, 2))
        for name, value in zip("ab", self.values, strict=True):
            executor.arg_dict[name][:] = value
        found = executor.forward(is_train=True)
        # The head gradients are outputs, too, through which nothing flows.
        executor.backward([*found[len(heads):], *map(mx.nd.zeros_like, found[len(heads):])])
        return [executor.grad_dict[name].asnumpy() for name in "ab"]


def float64(array: np.ndarray) -> Any:
    return mx.nd.array(array, dtype="float64")


def differences(function: Any, values: list[np.ndarray], along: list[np.ndarray]) -> list[float]:
    """The derivative of a number for each of `values` in a direction, by central differences."""
    def moved(index: int, step: float) -> float:
        return function([value + step * direction * (i == index)
                         for i, (value, direction) in enumerate(zip(values, along, strict=True))])

    return [(moved(index, 1e-5) - moved(index, -1e-5)) / 2e-5 for index in range(len(values))]


@pytest.mark.parametrize("seed", range(40))
def test_derivatives_where_entries_coincide_are_differences(seed):
    case = Repetitive(random.Random(seed))
    heads, along = case.heads(case.values), case.weights[::-1][:2]
    (a, b, a_again), second = case.by_tape(case.values)
    once = differences(lambda values: case.value(values, heads), case.values, along)
    twice = differences(lambda values: sum((g * w).sum() for g, w in zip(
        case.by_tape(values)[0], case.weights, strict=True)), case.values, along)
    for found, expected in ((a, b), once), ((a_again, b), once), (second, twice), (
            case.by_executor(), once):
        slopes = [float((grad * direction).sum())
                  for grad, direction in zip(found, along, strict=True)]
        # A difference is off by the third derivative times step^2, and by rounding over step.
        np.testing.assert_allclose(slopes, expected, rtol=1e-5, atol=1e-6, err_msg=repr(case))
