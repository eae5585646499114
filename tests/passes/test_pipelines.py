"""Simplification of inference graphs: the remaining nodes, and unchanged results."""

from __future__ import annotations

import ast
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from bench.networks import NETWORKS
from nbmod import passes
from nbmod.core.config import CONFIG
from nbmod.executor import Executor
from nbmod.explain.explanation import Explanation
from nbmod.explain.pass_differences import listing
from nbmod.graph import Graph
from nbmod.ops.op import Spec
from nbmod.passes.infer import infer_shape, infer_type
from nbmod.passes.optimize.cse import cse, skip_identities
from nbmod.passes.optimize.fold_batch_norm import fold_batch_norm
from nbmod.passes.optimize.hoist_constants import LARGEST, derived_groups
from nbmod.passes.optimize.pipelines import simplify
from nbmod.passes.rewrite import Rewritten, unchanged
from nbmod.passes.switches import PASSES

sym = mx.sym


def x(name: str = "x"):
    return sym.Variable(name)


def facts(symbol, shape=(2, 3, 4, 4)) -> tuple[Graph, list[Spec]]:
    """The graph and the specs of its entries for inputs of one shape."""
    graph = Graph(symbol.entries)
    known = dict.fromkeys(("x", "y"), shape)
    return graph, list(map(Spec, infer_shape(graph, known), infer_type(graph, {})))


def skipped(symbol, shape=(2, 3, 4, 4)) -> Rewritten:
    graph, specs = facts(symbol, shape)
    return skip_identities(unchanged(graph, specs))


def folded(symbol, shape=(2, 3, 4, 4)) -> Rewritten:
    graph, specs = facts(symbol, shape)
    return fold_batch_norm(unchanged(graph, specs))


def ops(graph: Graph) -> list[str]:
    return [node.op_name for node in graph.nodes if not node.is_variable]


# -- identities -----------------------------------------------------------------------------------

NOTHING = {
    "copy": lambda a: sym.identity(a),
    "block": lambda a: sym.BlockGrad(a),
    "loss": lambda a: sym.make_loss(a),
    "MakeLoss": lambda a: sym.MakeLoss(a, grad_scale=2.0),
    "dropout": lambda a: sym.Dropout(a, p=0.7),
    "no dropout": lambda a: sym.Dropout(a, p=0, mode="always"),
    "cast": lambda a: sym.Cast(a, dtype="float32"),
    "amp": lambda a: sym.amp_cast(a, dtype="float32"),
    "reshape": lambda a: sym.Reshape(a, shape=(0, 3, -1, 4)),
    "transpose": lambda a: sym.transpose(a, axes=(0, 1, 2, 3)),
    "swap": lambda a: sym.SwapAxis(a, dim1=2, dim2=-2),
    "slice": lambda a: sym.slice(a, begin=(0, None), end=(2, None)),
    "slice axis": lambda a: sym.slice_axis(a, axis=1, begin=0, end=3),
    "there and back": lambda a: sym.transpose(sym.transpose(a, axes=(0, 2, 3, 1)),
                                              axes=(0, 3, 1, 2)),
    "reversed twice": lambda a: sym.transpose(sym.transpose(a)),
    "all at once": lambda a: sym.Dropout(sym.BlockGrad(sym.identity(sym.Dropout(a)))),
}
SOMETHING = {
    "dropout": lambda a: sym.Dropout(a, p=0.7, mode="always"),
    "cast": lambda a: sym.Cast(a, dtype="float64"),
    "reshape": lambda a: sym.Reshape(a, shape=(3, 2, 4, 4)),
    "transpose": lambda a: sym.transpose(a, axes=(0, 1, 3, 2)),
    "swap": lambda a: sym.SwapAxis(a, dim1=2, dim2=3),
    "backwards": lambda a: sym.slice(a, begin=(None, None, -1), end=(None, None, None),
                                     step=(1, 1, -1)),
    "slice": lambda a: sym.slice_axis(a, axis=1, begin=0, end=2),
    "moved": lambda a: sym.identity(a, attr={"ctx_group": "elsewhere"}),
}


@pytest.mark.parametrize("name", NOTHING)
def test_readers_of_a_node_that_passes_on_read_its_input(name):
    symbol = sym.sqrt(NOTHING[name](sym.square(x(), name="before")), name="after")
    before = str(Graph(symbol.entries))
    found = skipped(symbol)
    assert ops(found.graph) == ["square", "sqrt"] and found.notes
    assert str(Graph(symbol.entries)) == before


@pytest.mark.parametrize("name", SOMETHING)
def test_what_does_something_stays(name):
    symbol = sym.sqrt(SOMETHING[name](sym.square(x())))
    assert skipped(symbol).graph.nodes == Graph(symbol.entries).nodes


def test_two_transpositions_are_one():
    symbol = sym.transpose(sym.transpose(x(), axes=(0, 2, 3, 1)), axes=(0, 2, 1, 3))
    found = skipped(sym.sqrt(symbol))
    assert ops(found.graph) == ["transpose", "sqrt"]
    assert found.graph.nodes[1].op.axes == (0, 3, 2, 1)


@pytest.mark.parametrize("build", [
    lambda: sym.BlockGrad(x()),                                     # would be the variable
    lambda: sym.Group([a := sym.sqrt(x()), sym.BlockGrad(a)]),      # would be one array twice
    lambda: sym.Group([sym.Dropout(a := sym.sqrt(x())), a]),
], ids=["variable", "shown before", "shown after"])
def test_outputs_stay_memory_of_their_own(build):
    outputs = skipped(build()).graph.outputs
    assert len(set(outputs)) == len(outputs) and not any(e.node.is_variable for e in outputs)


def test_the_same_output_twice_stays_the_same():
    shown = sym.Dropout(sym.sqrt(x()))
    first, second = skipped(sym.Group([shown, shown])).graph.outputs
    assert first == second and first.node.op_name == "sqrt"


def test_an_output_may_be_what_its_node_passed_on():
    assert ops(skipped(sym.Dropout(sym.sqrt(x()))).graph) == ["sqrt"]


# -- common subexpressions ------------------------------------------------------------------------

def merged(symbol, **shapes):
    """The graph after common subexpression elimination."""
    graph = Graph(symbol.entries)
    specs = [None] * graph.num_entries
    if shapes:
        specs = list(map(Spec, infer_shape(graph, shapes), infer_type(graph, {})))
    return cse(unchanged(graph, specs))


def test_equal_nodes_are_computed_once_and_so_are_their_readers():
    data, weight = x(), sym.Variable("w")
    first, second = (sym.sqrt(sym.FullyConnected(data, weight, num_hidden=2, no_bias=True))
                     for _ in range(2))
    found = merged(first + second)
    assert ops(found.graph) == ["FullyConnected", "sqrt", "elemwise_add"]
    total = found.graph.nodes[-1]
    assert total.inputs[0] == total.inputs[1]


DIFFERENT = {
    "parameters": lambda a: (a + 1, a + 2),
    "signs of zero": lambda a: (a * 0.0, a * -0.0),
    "random numbers": lambda a: (sym.Dropout(a), sym.Dropout(a)),
    "streams": lambda a: (sym.random.uniform(shape=(2,)), sym.random.uniform(shape=(2,))),
    "groups": lambda a: (sym.sqrt(a), sym.sqrt(a, attr={"ctx_group": "other"})),
    "inputs": lambda a: (sym.sqrt(a), sym.sqrt(sym.Variable("y"))),
    "states": lambda a: (sym.BatchNorm(a, *(v := [sym.Variable(n) for n in "gbmv"])),
                         sym.BatchNorm(a, *v)),
    "outputs": lambda a: tuple(sym.split(a, num_outputs=3, axis=1))[:2],
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_nodes_stay(name):
    first, second = DIFFERENT[name](x())
    symbol = sym.Group([first + second])
    assert merged(symbol).notes == []


def test_zeros_whose_readers_tell_their_shapes_are_merged_by_shape():
    """As the initial states of cells over batches of several sizes are."""
    a, b = x(), sym.Variable("y")
    pairs = [variable + sym.zeros((0, 2)) for variable in (a, b)]
    assert merged(sym.Group(pairs), x=(3, 2), y=(4, 2)).notes == []
    assert len(merged(sym.Group(pairs), x=(3, 2), y=(3, 2)).notes) == 1


def test_outputs_that_are_equal_stay_two():
    a = x()
    found = merged(sym.Group([sym.sqrt(a), sym.sqrt(a)]))
    assert len(set(found.graph.outputs)) == 2


# -- batch norm -----------------------------------------------------------------------------------

def conv(a, **options):
    return sym.Convolution(a, name="layer", **{"kernel": (3, 3), "num_filter": 6, **options})


def deconv(a, **options):
    return sym.Deconvolution(a, name="layer", **{"kernel": (3, 3), "num_filter": 6, **options})


def dense(a, **options):
    return sym.FullyConnected(a, **{"name": "layer", "num_hidden": 6, **options})


def norm(a, **options):
    return sym.BatchNorm(a, name="norm", **options)


FOLDED = {
    "convolution": ((2, 3, 8, 8), lambda a: norm(conv(a))),
    "no bias": ((2, 3, 8, 8), lambda a: norm(conv(a, no_bias=True), fix_gamma=False)),
    "padding": ((2, 3, 8, 8), lambda a: norm(conv(a, pad=(1, 1), stride=(2, 2)), fix_gamma=False)),
    "groups": ((2, 4, 8, 8), lambda a: norm(conv(a, num_group=2), fix_gamma=False)),
    "depthwise": ((2, 6, 8, 8), lambda a: norm(conv(a, num_group=6, no_bias=True))),
    "1-D": ((2, 3, 8), lambda a: norm(conv(a, kernel=(3,)), fix_gamma=False, eps=0.1)),
    "3-D": ((2, 3, 4, 4, 4), lambda a: norm(conv(a, kernel=(2, 2, 2)), fix_gamma=False)),
    "channels last": ((2, 8, 8, 3), lambda a: norm(conv(a, layout="NHWC"), axis=3,
                                                   fix_gamma=False)),
    "transposed": ((2, 4, 5, 5), lambda a: norm(deconv(a), fix_gamma=False)),
    "transposed groups": ((2, 4, 5, 5), lambda a: norm(deconv(a, num_group=2, no_bias=False),
                                                       fix_gamma=False)),
    "dense": ((4, 3, 2), lambda a: norm(dense(a), fix_gamma=False)),
    "dense last": ((4, 3, 2), lambda a: norm(dense(a, flatten=False), axis=-1)),
    "global": ((2, 3, 8, 8), lambda a: norm(conv(a), use_global_stats=True, fix_gamma=False)),
    "dropout between": ((2, 3, 8, 8), lambda a: norm(sym.Dropout(conv(a)), fix_gamma=False)),
    "sync": ((2, 3, 8, 8), lambda a: sym.contrib.SyncBatchNorm(conv(a), key="k", name="norm")),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FOLDED)
def test_folding_keeps_the_numbers(name, dtype):
    """The unit in the last place of each of some 30 products and their sum: 1e-6 in float32."""
    shape, build = FOLDED[name]
    symbol = sym.Activation(build(x()), act_type="tanh")
    plain, executor = bound_twice(symbol, {"x": shape}, dtype)
    assert "norm" not in [node.name for node in executor.compiled.nodes]
    assert any("is folded into layer" in note for note in executor.compiled.simplified.notes)
    want, got = plain.forward()[0].asnumpy(), executor.forward()[0].asnumpy()
    np.testing.assert_allclose(got, want, 0, 2e-6 if dtype == "float32" else 1e-14)


NOT_FOLDED = {
    "other reader": lambda a: norm(c := conv(a)) + c,
    "output": lambda a: sym.Group([norm(c := conv(a)), c]),
    "statistics shown": lambda a: sym.Group(list(norm(conv(a), output_mean_var=True))),
    "other axis": lambda a: norm(conv(a), axis=2),
    "no layer": lambda a: norm(sym.sqrt(a)),
    "before": lambda a: conv(norm(a), pad=(1, 1)),
    "computed weight": lambda a: norm(conv(a, weight=sym.sqrt(sym.Variable("w")))),
    "dense over rows": lambda a: norm(dense(a, flatten=False), axis=1),
    "other group": lambda a: norm(conv(a, attr={"ctx_group": "other"})),
    "transposed, channels last": lambda a: norm(deconv(a, layout="NHWC"), axis=3),
}


@pytest.mark.parametrize("name", NOT_FOLDED)
def test_what_cannot_be_folded_stays(name):
    assert folded(NOT_FOLDED[name](x())).notes == []


def test_float16_is_not_folded():
    """Weights would be rounded again, and could overflow."""
    symbol = norm(conv(sym.Cast(x(), dtype="float16")))
    assert folded(symbol).notes == []


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_real_networks_agree(name):
    """Before the softmax, where a difference would show."""
    build, shape = NETWORKS[name]
    symbol = build().get_internals()["fc_output"]
    plain, executor = bound_twice(symbol, {"data": (1, 3, 64, 64)})
    want, got = plain.forward()[0].asnumpy(), executor.forward()[0].asnumpy()
    assert not any(node.op_name == "BatchNorm" for node in executor.compiled.nodes)
    np.testing.assert_allclose(got, want, 0, 1e-5 * np.abs(want).max())


# -- dense layers ---------------------------------------------------------------------------------

FOLLOWED = {
    "relu": (1, lambda a: sym.relu(dense(a))),
    "activation": (1, lambda a: sym.Activation(dense(a, no_bias=True), act_type="relu")),
    "sum": (1, lambda a: sym.Reshape(a, shape=(0, -1)) + dense(a)),
    "sum and relu": (1, lambda a: sym.relu(dense(a) + sym.sin(dense(a, name="other")))),
    "rows": (1, lambda a: sym.relu(dense(a, flatten=False))),
    "two layers": (2, lambda a: sym.relu(dense(sym.relu(dense(a)) * 2, name="other"))),
    "two in a sum": (1, lambda a: dense(a) + dense(a * 3, name="other")),
    "what is added stays": (2, lambda a: sym.Group([
        y := sym.relu(dense(a)), dense(a * 2, name="other") + y])),
    "other reader": (0, lambda a: sym.Group([y := dense(a), sym.relu(y)])),
    "the same twice": (0, lambda a: (y := dense(a)) + y),
    "sum and then": (1, lambda a: sym.tanh(dense(a) + sym.sum(a, axis=2))),
    "relu of relu": (1, lambda a: sym.relu(sym.relu(dense(a)))),
    "relu, then sum": (1, lambda a: sym.relu(dense(a)) + sym.sin(sym.sum(a, axis=2))),
    "clip": (0, lambda a: sym.clip(dense(a), 0, 6)),
    "tanh": (0, lambda a: sym.tanh(dense(a))),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("rows", [1, 7, 300])
@pytest.mark.parametrize("name", FOLLOWED)
def test_dense_layers_do_what_follows(name, rows, dtype):
    """Sums of some ten terms below 1, up to the units in their last place."""
    layers, build = FOLLOWED[name]
    plain, executor = bound_twice(build(x()), {"x": (rows, 6, 1)}, dtype)
    assert sum(node.op_name == "_fused_layer" for node in executor.compiled.nodes) == layers
    close = {"float32": 1e-6, "float64": 1e-15, "float16": 1e-3}[dtype]
    for got, want in zip(executor.forward(), plain.forward(), strict=True):
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), close, close)


def test_dense_layers_that_learn_stay():
    executor = sym.relu(dense(x())).simple_bind(mx.cpu(), x=(3, 6))
    executor.forward(is_train=True)
    assert [node.op_name for node in executor.compiled.nodes][:1] == ["FullyConnected"]


# -- constants ------------------------------------------------------------------------------------

def groups_of(symbol) -> list[list[str]]:
    graph, specs = facts(symbol)
    return [[node.name for node in group] for group in derived_groups(graph, specs)]


def test_constants_are_grouped_by_what_they_read_of_each_other():
    ones = sym.ones((3, 1, 1), name="ones")
    steps = sym.arange(4, name="steps")
    symbol = sym.broadcast_add(sym.broadcast_mul(x(), sym.sqrt(ones, name="root")), steps)
    assert groups_of(symbol) == [["ones", "root"], ["steps"]]
    assert groups_of(sym.broadcast_mul(x(), sym.broadcast_add(ones, steps, name="sum"))) == [
        ["ones", "steps", "sum"]]


@pytest.mark.parametrize("constant", [
    lambda: sym.random.uniform(shape=(4,)),
    lambda: sym.ones((LARGEST,)).slice_axis(axis=0, begin=0, end=4),
    lambda: sym.sqrt(sym.Variable("y", shape=(4,))),
], ids=["random", "large", "variable"])
def test_what_is_no_constant(constant):
    assert groups_of(sym.broadcast_add(x(), constant())) == []


def test_what_reads_shapes_only_is_a_constant():
    """Anchors of a detector, which MXNet computes for every batch."""
    data = x()
    deep = sym.square(sym.square(data))
    priors = [sym.contrib.MultiBoxPrior(a, sizes=(0.3, 0.5), ratios=(1, 2), name=f"priors{i}")
              for i, a in enumerate([data, deep])]
    anchors = sym.concat(*priors, dim=1, name="anchors")
    other = sym.slice_axis(sym.shape_array(deep, name="shape"), axis=0, begin=0, end=1)
    symbol = sym.Group([sym.broadcast_add(data, sym.sum(anchors)), other])
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", x=(2, 3, 4, 4))
    fill(executor)
    want = [out.asnumpy() for out in unoptimized(executor).forward()]
    got = [out.asnumpy() for out in executor.forward()]
    assert [node.op_name for node in executor.compiled.nodes] == ["broadcast_add", "slice_axis"]
    notes = executor.compiled.simplified.notes
    assert "priors1 (_contrib_MultiBoxPrior) follows from shapes" in notes
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    executor = sym.zeros_like(x()).simple_bind(mx.cpu(), grad_req="null", x=(2,))
    assert [node.op_name for node in executor.compiled.nodes] == ["zeros_like"]  # shown to users
    large = data + sym.ones_like(data)
    executor = large.simple_bind(mx.cpu(), grad_req="null", x=(LARGEST,))
    assert [node.op_name for node in executor.compiled.nodes] == ["ones_like", "elemwise_add"]


def test_a_constant_that_is_shown_is_computed_every_time():
    ones = sym.ones((2,), name="ones")
    executor = sym.Group([ones, x() + ones]).simple_bind(mx.cpu(), grad_req="null", x=(2,))
    executor.forward()
    executor.outputs[0][:] = 5
    executor.forward()
    assert [out.asnumpy().tolist() for out in executor.outputs] == [[1, 1], [1, 1]]


def test_constants_are_computed_as_steps_are():
    """Steps flush denormals to 0, unless exactness is asked for: so does what is hoisted."""
    tiny = sym.ones((3,)) * 1e-40 * 1e38
    for exact, value in ((False, 0), (True, 0.01)):
        with mx.exact() if exact else nullcontext():
            executor = (x() + tiny).simple_bind(mx.cpu(), grad_req="null", x=(3,))
        assert executor.planned.constants
        for each in (executor, unoptimized(executor)):
            np.testing.assert_allclose(each.forward()[0].asnumpy(), value, rtol=1e-3)


def test_buckets_share_no_constants_that_differ_in_the_sign_of_zero():
    """Such operators compare equal."""
    def network(key: int):
        zero = sym.ones((1,)) * (0.0 if key == 4 else -0.0)
        return sym.broadcast_div(sym.ones_like(sym.sum(x("data"), axis=1)), zero), ("data",), None

    module = mx.mod.BucketingModule(network, 4)
    module.bind([("data", (2, 4))], for_training=False)
    module.init_params()
    for key, value in ((4, np.inf), (3, -np.inf)):
        module.forward(mx.io.DataBatch([mx.nd.ones((2, key))], bucket_key=key,
                                       provide_data=[("data", (2, key))]))
        assert module.get_outputs()[0].asnumpy().tolist() == [value] * 2


# -- whole pipelines ------------------------------------------------------------------------------

def fill(executor, seed=0) -> None:
    rng = np.random.RandomState(seed)
    for name, array in sorted({**executor.arg_dict, **executor.aux_dict}.items()):
        positive = name.endswith(("_var", "_gamma"))
        array[:] = rng.uniform(0.5, 1.5, array.shape) if positive else (
            0.1 * rng.standard_normal(array.shape))


def unoptimized(executor):
    """An executor of the same arrays, memory and states that runs every node by itself."""
    return Executor(executor._binding, executor, executor._states, optimize=False)


def bound_twice(symbol, shapes, dtype="float32", **options):
    """Executors of the symbol with passes and without, holding the same values."""
    types = dict.fromkeys(shapes, dtype)
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", type_dict=types, **shapes)
    for bound in (executor, unoptimized(executor)):
        fill(bound)
    return unoptimized(executor), executor


UNARY = [sym.sqrt, sym.square, sym.BlockGrad, sym.Dropout, sym.transpose, sym.identity,
         lambda a: a * 0.5, lambda a: a + 1, lambda a: sym.Reshape(a, shape=(0, -1)),
         lambda a: sym.Cast(a, dtype="float32"), lambda a: sym.Reshape(a, shape=(3, 3)),
         lambda a: sym.SwapAxis(a, dim1=0, dim2=1), sym.zeros_like]
BINARY = [lambda a, b: a + b, lambda a, b: a * b, sym.broadcast_maximum, sym.dot]
LEAVES = [lambda: sym.ones((3, 3)), lambda: sym.arange(9).reshape((3, 3)),
          lambda: sym.random.uniform(shape=(3, 3))]


@st.composite
def random_symbols(draw):
    """Few ops over few inputs, so that equal nodes and constants are likely."""
    known = [x(), sym.Variable("y")]
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from("uuubbl"))
        pick = st.sampled_from(known)
        known.append(draw(st.sampled_from(UNARY))(draw(pick)) if kind == "u"
                     else draw(st.sampled_from(BINARY))(draw(pick), draw(pick)) if kind == "b"
                     else draw(st.sampled_from(LEAVES))())
    count = draw(st.integers(1, 3))
    return sym.Group([draw(st.sampled_from(known[2:])) for _ in range(count)])


@given(random_symbols())
@settings(max_examples=120, deadline=None)
def test_random_graphs_give_the_same_bit_for_bit(symbol):
    names = symbol.list_arguments()
    values = {name: mx.nd.array(np.random.RandomState(i).uniform(0, 2, (3, 3)))
              for i, name in enumerate(names)}
    executor = symbol.bind(mx.cpu(), values)
    for is_train in (False, True, False):
        mx.random.seed(7)
        want = [out.asnumpy() for out in unoptimized(executor).forward(is_train)]
        mx.random.seed(7)
        got = [out.asnumpy() for out in executor.forward(is_train)]
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_draws_of_which_only_the_shape_is_read_take_place():
    """Later draws have other numbers without them."""
    draws = [sym.random.uniform(shape=(3, 3)) for _ in range(2)]
    executor = sym.Group([sym.sqrt(sym.zeros_like(sym.square(draws[0]))), draws[1] * 2]).bind(
        mx.cpu(), {})
    want, got = ([mx.random.seed(7), bound.forward()[1].asnumpy()][1]
                 for bound in (unoptimized(executor), executor))
    np.testing.assert_array_equal(got, want)


def dropped(step):
    return sym.Dropout(step, p=0.5)


def stacked_steps():
    """Two cells, and draws on the inputs and outputs of every step."""
    h, outs = [sym.var("h0"), sym.var("h1")], []
    weights = {name: sym.var(name) for name in ("x0", "x1", "h0_", "h1_")}
    for step in sym.SliceChannel(sym.var("data"), num_outputs=3, axis=0, squeeze_axis=True):
        x = dropped(step)
        for i in range(2):
            x = h[i] = sym.tanh(sym.elemwise_add(*[sym.FullyConnected(
                each, weights[name], num_hidden=8, no_bias=True)
                for each, name in ((x, f"x{i}"), (h[i], f"h{i}_"))]))
            x = dropped(x)
        outs.append(x)
    return sym.add_n(*outs)


def beside_sparse():
    """Draws on what follows from a sparse product, and on what does not."""
    data = sym.var("csr", stype="csr")
    product = [sym.dot(data, sym.var(name)) for name in "wv"]
    late = dropped(sym.sin(product[0]) + 1) + dropped(sym.cos(sym.var("x")))
    return dropped(sym.tanh(late) + product[1]) * 2


@pytest.mark.parametrize("build, shapes", [
    (stacked_steps, {"data": (3, 4, 8), "h0": (4, 8), "h1": (4, 8)}),
    (beside_sparse, {"csr": (4, 8), "w": (8, 6), "v": (8, 6), "x": (4, 6)})])
def test_random_numbers_are_drawn_in_the_order_of_the_symbol(build, shapes):
    def trained():
        executor = network.simple_bind(mx.cpu(), **shapes)
        for name, array in executor.arg_dict.items():
            array[:] = np.random.default_rng(len(name)).uniform(-1, 1, array.shape)
        mx.random.seed(7)
        return executor.forward(is_train=True)[0].asnumpy()

    network = build()
    with mx.without_passes(*PASSES):
        expected = trained()
    np.testing.assert_allclose(trained(), expected, rtol=1e-4, atol=1e-5)   # sums in another order


def test_simplifying_twice_changes_nothing_more():
    build, shape = NETWORKS["resnet18"]
    graph = Graph(build().entries)
    specs = list(map(Spec, infer_shape(graph, {"data": shape}), infer_type(graph, {})))
    found = simplify(graph, specs)
    again = simplify(found.graph, list(map(Spec, infer_shape(found.graph, {"data": shape}),
                                           infer_type(found.graph, {}))))
    assert found.notes and again.notes == [] and again.graph is found.graph


def test_passes_are_functions_of_their_names():
    defined = {node.name for path in Path(passes.__file__).parent.rglob("*.py")
               for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
               if isinstance(node, ast.FunctionDef)}
    assert set(PASSES) <= defined


# -- what passes change ---------------------------------------------------------------------------

def residual():
    a = sym.Convolution(x("data"), kernel=(3, 3), pad=(1, 1), num_filter=32, name="conv")
    b = sym.Activation(sym.BatchNorm(a, fix_gamma=False, name="bn"), act_type="relu", name="relu")
    return sym.FullyConnected(sym.Dropout(a + b, name="drop"), num_hidden=4, name="fc")


def changes(symbol, request="null", **shapes):
    """The passes that change the graph of a network, each with the difference."""
    return Explanation.planned(symbol, shapes, grad_req=request).passes().data["differences"]


def test_passes_are_listed_in_their_order():
    shapes = {"data": (2, 16, 8, 8)}
    order = [*PASSES, "with_gradients"]
    order.insert(order.index("write_gradients"), order.pop())
    for request in ("null", "write"):
        names = [name for name, _ in changes(residual(), request, **shapes)]
        assert len(names) >= 3 and names == sorted(names, key=order.index)
        with mx.without_passes(*names[:1]):
            assert [name for name, _ in changes(residual(), request, **shapes)][:1] != names[:1]
    assert changes(x() + 1, x=(2,)) == []


@given(random_symbols(), st.sampled_from(["null", "write"]))
@settings(max_examples=60, deadline=None)
def test_differences_lead_from_the_symbol_to_what_runs(symbol, request):
    shapes = dict.fromkeys(symbol.list_arguments(), (3, 3))
    executor = symbol.simple_bind(mx.cpu(), request, **shapes)
    explanation = executor.explain()
    facts = explanation.facts
    lines = Counter(listing(facts, facts.graph, facts.outputs))
    for _, diff in explanation.passes().data["differences"]:
        for line in diff.splitlines()[2:]:
            lines[line[1:]] += {"+": 1, "-": -1}.get(line[0], 0)
    last = facts.passes[-1] if facts.passes else facts
    assert +lines == Counter(listing(facts, last.graph, last.outputs))
    assert [facts.nodes[number].name for number in last.graph] == [
        node.name for node in executor.compiled.graph.nodes]


def test_differences_are_printed_where_that_is_asked_for(monkeypatch, capsys):
    net, shapes = residual(), {"data": (2, 16, 8, 8)}
    net.simple_bind(mx.cpu(), "null", **shapes)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(CONFIG, "print_passes", True)
    net.simple_bind(mx.cpu(), "null", **shapes)
    text = capsys.readouterr().err
    assert text == f"{Explanation.planned(net, shapes).passes()}\n\n"
    for name, diff in changes(net, **shapes):
        assert f"fc: pass {name} ({PASSES[name]})\n{diff}\n" in text
    assert "\n-drop: " in text and "computed only when what they read has changed: " in text


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["no bias", "groups", "convolution", "dense"])
def test_gpus_fold_the_same(name):
    shape, build = FOLDED[name]
    symbol = build(x())
    want = symbol.simple_bind(mx.cpu(), grad_req="null", x=shape)
    got = symbol.simple_bind(mx.gpu(0), grad_req="null", x=shape)
    for executor in (want, got):
        fill(executor)
        executor.forward()
    np.testing.assert_allclose(got.outputs[0].asnumpy(), want.outputs[0].asnumpy(), 1e-5, 1e-5)
    for executor in (want, got):
        executor.arg_dict["layer_weight"][:] *= 2
        executor.forward()
    np.testing.assert_allclose(got.outputs[0].asnumpy(), want.outputs[0].asnumpy(), 1e-5, 1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("groups, transposed", [(1, True), (2, True), (1, False)])
def test_folded_weights_on_gpus(groups, transposed):
    from nbmod.ops.internal import FoldedBatchNorm

    op = FoldedBatchNorm(1e-3, False, False, groups, transposed)
    rng = np.random.RandomState(0)
    arrays = [rng.uniform(0.5, 2, (4, 3, 2, 2))] + [
        rng.uniform(0.5, 2, 3 * groups if transposed else 4) for _ in range(5)]
    results = []
    for ctx in (mx.cpu(), mx.gpu(0)):
        ins = [mx.nd.array(array, ctx=ctx) for array in arrays]
        results.append([out.asnumpy() for out in mx.nd.invoke(op, ins)])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, 1e-6)
