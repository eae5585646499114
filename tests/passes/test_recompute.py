"""Rematerialization (mirroring): the backward pass recomputes what forward does not store."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from bench.memory import planned_megabytes
from nbmod.base import MXNetError
from nbmod.passes.memory.verify import check_plan
from tests import sample_runs
from tests.cases import Sample
from tests.compare import assert_same
from tests.ops import test_ops
from tests.programs import common
from tests.programs import recompute_programs as programs
from tests.programs.placement_programs import attr


def test_mirrored_are_the_nodes_that_mxnet_mirrors(oracle):
    theirs = oracle.call("mx_scripts.run", "recompute_programs", "choices")
    assert programs.choices(mx) == theirs


@pytest.mark.parametrize("text", ["True", "1", "true", "False", "0", "false", "yes", "", "2"])
def test_the_attribute_is_read_as_in_mxnet(oracle, text):
    theirs = oracle.call("mx_scripts.run", "recompute_programs", "spelled", text)
    assert programs.spelled(mx, text) == theirs


@pytest.mark.parametrize("network", ["chain", "residual"])
def test_training_is_that_of_mxnet(oracle, network):
    theirs = oracle.call("mx_scripts.run", "recompute_programs", "numbers", network)
    for name, value in programs.numbers(mx, network).items():
        assert_same(value, theirs[name], 2e-4, name)


@pytest.mark.parametrize("network", programs.SHAPES)
@pytest.mark.parametrize("train", [True, False])
def test_training_is_bitwise_the_same_in_less_memory(network, train):
    """Statistics are updated once, masks are kept, and recomputed results equal those of forward:
    also where backward trains after a forward that did not."""
    plain, want = programs.trained(mx, network, False, train=train)
    executor, got = programs.trained(mx, network, True, train=train)
    assert list(got) == list(want)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)
        assert np.isfinite(value).all(), name
    assert executor.compiled.plan.total_bytes < plain.compiled.plan.total_bytes
    keep = set(executor.compiled.graph.output_ids) - set(executor.compiled.external)
    check_plan(executor.compiled.plan_steps, executor.compiled.sizes, executor.compiled.plan, keep)


@pytest.mark.planned_only
@pytest.mark.parametrize("name, share", [("resnet18", 0.75), ("resnet50", 0.6), ("vgg16", 0.95),
                                         ("mobilenet_v2", 0.55)])
def test_large_networks_need_less(name, share):
    """Fractions of the plan without recomputation, as measured (bench/memory.py), rounded up."""
    plain = planned_megabytes(name, True)
    with programs.switched(True):
        assert planned_megabytes(name, True) <= share * plain


def deep(**options):
    """A chain of sines after a dense layer."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=32, name="fc")
    for number in range(20):
        x = mx.sym.sin(x, name=f"s{number}", **options)
    return mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(x, num_hidden=1, name="last"),
                                         mx.sym.Variable("label"), name="loss")


def test_a_chain_is_computed_again_from_the_nearest_kept_tensor():
    executor = deep(force_mirroring="True").simple_bind(mx.cpu(), data=(64, 32))
    text = executor.debug_str()
    backward = text[text.index("-- backward --"):]
    assert programs.mirrored(executor) == sorted(f"s{number}" for number in range(20))
    again = [node for node in executor.compiled.nodes if node.recomputes]
    assert again[0].inputs[0].node.name == "fc" and again[1].inputs[0].node is again[0]
    assert "s0_mirror (sin)" in backward and "s0_mirror" not in text[:text.index("-- backward")]
    assert executor.compiled.num_forward == 23


def test_stages_bound_what_is_alive_at_once():
    """Every fifth node stored: four of them, four of a segment, and the gradients' workspace."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=256, name="fc")
    y = x
    for number in range(20):
        y = mx.sym.sin(y, name=f"s{number}", force_mirroring=str(number % 5 != 4))
    for number in range(20):
        x = mx.sym.sin(x, name=f"s{number}")
    staged, plain = (mx.sym.MakeLoss(net).simple_bind(mx.cpu(), data=(1024, 256))
                     for net in (y, x))
    one = 1024 * 256 * 4
    assert plain.compiled.plan.total_bytes > 20 * one > 13 * one > staged.compiled.plan.total_bytes


def squared(sample: Sample, force: str) -> dict:
    """All results of a run of the squares of a sample's outputs."""
    op, inputs = sample_runs.compose(sample), sample.arrays(sample.dtypes[0])
    op.entries[0].node.attrs |= {"__force_mirroring__": force}
    net = mx.sym.Group([mx.sym.square(op[i]) for i in range(len(op.list_outputs()))])
    shapes, types = sample_runs.inferred(net, inputs)
    heads = [np.cos(np.arange(np.prod(shape))).reshape(shape).astype(kind)
             for shape, kind in zip(shapes, types, strict=True)]
    gradients = dict.fromkeys(sample.differentiated(sample.dtypes[0]), "write")
    return common.run(mx, net, inputs, gradients, heads, sample.is_train)


def test_every_op_gives_the_same_bits_when_it_is_computed_again():
    """Over the sample table, with results that are read again by the gradient of a square."""
    for name, sample in test_ops.GOOD.items():
        if not sample.differentiated(sample.dtypes[0]):
            continue
        want, got = squared(sample, "False"), squared(sample, "True")
        for part in ("grads", "aux", "args"):
            for argument, value in want[part].items():
                np.testing.assert_array_equal(got[part][argument], value, f"{name}: {argument}")


@st.composite
def networks(draw):
    """A random graph, its nodes forced to be mirrored or not, as (inputs, op, forced) per node."""
    nodes = []
    for number in range(draw(st.integers(1, 15))):
        inputs = [draw(st.integers(0, number + 1)) for _ in range(2)]
        nodes.append((inputs, draw(st.sampled_from(["sin", "tanh", "square", "add", "mul"])),
                      draw(st.booleans())))
    return nodes


def built(nodes, mirrored):
    """The last node of a random graph and one in its middle."""
    symbols = [mx.sym.Variable("x"), mx.sym.Variable("y")]
    for number, ((left, right), op, forced) in enumerate(nodes):
        inputs = [symbols[left], symbols[right]] if op in ("add", "mul") else [symbols[left]]
        make = getattr(mx.sym, {"add": "elemwise_add", "mul": "elemwise_mul"}.get(op, op))
        symbols.append(make(*inputs, name=f"n{number}",
                            attr={"force_mirroring": str(forced and mirrored)}))
    return mx.sym.Group([symbols[2 + len(nodes) // 2], symbols[-1]])


@settings(max_examples=60, deadline=None)
@given(nodes=networks(), request=st.sampled_from(["write", "add"]))
def test_any_graph_gives_the_same_bits(nodes, request):
    found = []
    for mirrored in (False, True):
        executor = built(nodes, mirrored).simple_bind(mx.cpu(), request, x=(3,), y=(3,))
        for seed, (_, array) in enumerate(sorted(executor.arg_dict.items())):
            array[:] = np.random.default_rng(seed).uniform(-1, 1, 3)
        executor.forward(is_train=True)
        executor.backward([mx.nd.array([1, 2, 3]), mx.nd.array([3, -2, 1])])
        compiled = executor.compiled
        keep = set(compiled.graph.output_ids) - set(compiled.external)
        check_plan(compiled.plan_steps, compiled.sizes, compiled.plan, keep)
        found.append([array.asnumpy() for array in (*executor.outputs, *executor.grad_arrays)])
    for mine, want in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, want)


def test_outputs_and_variables_are_not_mirrored():
    with mx.AttrScope(force_mirroring="True"):
        x = mx.sym.sin(mx.sym.Variable("data"), name="inner")
        shown = mx.sym.exp(x, name="shown")
    net = mx.sym.Group([shown, mx.sym.sin(mx.sym.tanh(shown, name="kept"), name="end")])
    executor = net.simple_bind(mx.cpu(), data=(2, 3))
    assert programs.mirrored(executor) == []      # exp needs its output, and sin its input: data
    net = mx.sym.sin(mx.sym.exp(x, name="second", force_mirroring="1"), name="end")
    assert programs.mirrored(net.simple_bind(mx.cpu(), data=(2, 3))) == ["inner", "second"]


@pytest.mark.parametrize("op, options", [
    ("Dropout", {}), ("LeakyReLU", {"act_type": "rrelu"}),
    ("BatchNorm", {"use_global_stats": True}), ("IdentityAttachKLSparseReg", {}),
])
def test_what_would_differ_the_second_time_is_never_mirrored(op, options):
    with mx.AttrScope(force_mirroring="True"):
        x = getattr(mx.sym, op)(mx.sym.Variable("data"), name="op", **options)
    x = mx.sym.sin(x[0] if len(x.list_outputs()) > 1 else x, name="after")
    with programs.switched(True):
        executor = mx.sym.FullyConnected(x, num_hidden=2).simple_bind(mx.cpu(), data=(4, 3))
    assert programs.mirrored(executor) == ["after"]


def test_what_forward_notes_for_backward_is_kept():
    """Statistics of BatchNorm; recomputing its output does not update them again."""
    with programs.switched(True):
        executor = programs.residual(mx).simple_bind(mx.cpu(), data=programs.SHAPES["residual"])
    nodes = {node.name: node for node in executor.compiled.nodes}
    assert nodes["a0_bn_mirror"].source is nodes["a0_bn"]
    read = {(entry.node.name, entry.index) for entry in nodes["a0_bn_backward"].inputs}
    assert {("a0_bn", 1), ("a0_bn", 2)} <= read


def test_shapes_that_follow_from_readers_are_found_again():
    """Such as the initial states of recurrent cells: zeros of an unknown batch."""
    state = mx.sym.tanh(mx.sym.zeros(shape=(0, 4), name="begin"), name="state")
    x = mx.sym.FullyConnected(state, num_hidden=4, name="fc")
    x = mx.sym.elemwise_add(x, mx.sym.Variable("x"), name="sum")
    with programs.switched(True):
        executor = mx.sym.FullyConnected(x, num_hidden=2, name="last").simple_bind(
            mx.cpu(), x=(3, 4))
    assert programs.mirrored(executor) == ["begin", "state", "sum"]
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((3, 2)))
    assert executor.grad_dict["fc_weight"].asnumpy().tolist() == [[0] * 4] * 4


def test_without_gradients_there_is_nothing_to_mirror():
    with programs.switched(True):
        executor = deep().simple_bind(mx.cpu(), "null", data=(4, 32))
    assert programs.mirrored(executor) == []


def test_bad_attributes_are_named():
    net = mx.sym.sin(mx.sym.Variable("x"), name="op", force_mirroring="perhaps") * 2
    with pytest.raises(MXNetError, match=r"op \(sin\): attribute force_mirroring is 'perhaps'"):
        net.simple_bind(mx.cpu(), x=(2,))


def test_mirroring_in_parts():
    """A clone is placed on the device of its original."""
    parts = {"a": mx.cpu(1), "b": mx.cpu(2)}
    x = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=4, name="fc", attr=attr("a"))
    x = mx.sym.exp(x, name="e", attr=attr("a"))
    x = mx.sym.sin(mx.sym.sin(x, name="s", attr=attr("b")), name="t", attr=attr("b"))
    net = mx.sym.FullyConnected(x, num_hidden=2, name="last", attr=attr("b"))
    gradients = []
    for on in (False, True):
        with programs.switched(on):
            executor = net.simple_bind(mx.cpu(), group2ctx=parts, x=(3, 5))
        for seed, array in enumerate(executor.arg_dict.values()):
            array[:] = np.random.default_rng(seed).standard_normal(array.shape)
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((3, 2)))
        gradients.append([grad.asnumpy() for grad in executor.grad_dict.values()])
    where = {node.name: executor.compiled.context_of(node) for node in executor.compiled.nodes}
    assert where["e_mirror"] == mx.cpu(1) and where["s_mirror"] == mx.cpu(2)
    for mine, want in zip(*gradients, strict=True):
        np.testing.assert_array_equal(mine, want)
