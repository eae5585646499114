"""Model parallelism: devices of nodes and arrays, copies between devices, and training."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.explain.facts import plan_facts
from nbmod.explain.plan_chart import boxes_of
from nbmod.ops.internal import CrossDeviceCopy
from nbmod.passes.memory.verify import check_plan
from tests.compare import assert_same
from tests.ops import test_ops
from tests.programs import common
from tests.programs import placement_programs as programs

CONTEXTS = programs.contexts(mx)
# A few float32 roundings of values of order 1: MXNet accumulates in another order.
TOLERANCE = 1e-5


@pytest.mark.parametrize("program", ["where", "where_bound", "watched"])
def test_everything_is_where_mxnet_puts_it(oracle, program):
    theirs = oracle.call("mx_scripts.run", "placement_programs", program)
    assert getattr(programs, program)(mx) == theirs


@pytest.mark.parametrize("devices", [[0], [0, 4]])
def test_modules_read_group2ctxs_as_mxnet_does(oracle, devices):
    """Except tuples of dicts, which MXNet rejects."""
    theirs = oracle.call("mx_scripts.run", "placement_programs", "forms", devices)
    assert programs.forms(mx, devices) == theirs


def test_a_step_in_parts_is_that_of_mxnet_and_of_the_whole(oracle):
    ours, whole = programs.stepped(mx), programs.stepped(mx, grouped=False)
    theirs = oracle.call("mx_scripts.run", "placement_programs", "stepped")
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert_same(ours[name], value, TOLERANCE, name)
        assert_same(ours[name], whole[name], 1e-6, name)


@pytest.mark.parametrize("devices, groups", [
    ([0], {"a": 1, "b": 2, "c": 3}),
    ([0, 1], {"a": [0, 1], "b": [2, 3], "c": [0, 1]}),
    ([0, 1], [{"a": 1, "b": 2, "c": 3}, {"a": 4, "b": 5, "c": 1}]),
])
def test_a_network_learns_the_same_in_parts(oracle, devices, groups):
    ours, whole = programs.trained(mx, devices, groups), programs.trained(mx, devices, None)
    theirs = oracle.call("mx_scripts.run", "placement_programs", "trained", devices, groups)
    for name, value in theirs.items():
        assert_same(ours[name], value, 2e-5, name)
        assert_same(ours[name], whole[name], 1e-6, name)


# -- the graph ----------------------------------------------------------------------------------


def grouped(name: str, *groups: str):
    """tanh of a variable in each group, summed in the last."""
    x = mx.sym.Variable("x")
    parts = [mx.sym.tanh(x, name=f"part{i}", attr=programs.attr(group))
             for i, group in enumerate(groups[:-1])]
    return mx.sym.add_n(*parts, name=name, attr=programs.attr(groups[-1]))


def copies(executor):
    return [(node.name, str(executor.compiled.devices[executor.compiled.graph.eid(node.inputs[0])]),
             str(executor.compiled.context_of(node)))
            for node in executor.compiled.nodes if isinstance(node.op, CrossDeviceCopy)]


def test_readers_on_one_device_share_a_copy():
    executor = grouped("top", *"aaba").simple_bind(mx.cpu(), "null", group2ctx=CONTEXTS, x=(2,))
    assert copies(executor) == [("x_0_copy", "cpu(0)", "cpu(1)"), ("x_0_copy", "cpu(0)", "cpu(2)"),
                                ("part2_0_copy", "cpu(2)", "cpu(1)")]


@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("here, crosses", [(0, True), (1, False), (3, True)])
def test_gradients_go_where_the_user_wants_them(request_, here, crosses):
    """MXNet rejects gradient arrays on other devices than those that compute the gradients."""
    grad = mx.nd.ones((2,), ctx=mx.cpu(here))
    executor = grouped("top", *"aab").bind(mx.cpu(), {"x": mx.nd.array([0.5, -1.0])}, {"x": grad},
                                           request_, group2ctx=CONTEXTS)
    assert ("x_grad_add_0_copy" in [name for name, *_ in copies(executor)]) == crosses
    executor.forward(is_train=True)
    executor.backward(mx.nd.array([1.0, 10.0], ctx=mx.cpu(5)))
    want = 2 * np.array([1, 10]) * (1 - np.tanh([0.5, -1.0]) ** 2) + (request_ == "add")
    np.testing.assert_allclose(grad.asnumpy(), want, rtol=1e-6)
    assert grad.context == mx.cpu(here)


def test_gradients_are_computed_and_added_where_they_belong():
    """Two addends from one device are copied as their sum; nodes that an op creates stay with it,
    and so does a gradient that reads nothing of it."""
    with mx.AttrScope(ctx_group="a"):
        x = mx.sym.transpose(mx.sym.Dropout(mx.sym.Variable("x"), name="drop"), name="turn")
    with mx.AttrScope(ctx_group="b"):
        x = mx.sym.tanh(x, name="left") + mx.sym.exp(x, name="right") * mx.sym.sin(x, name="far")
    executor = x.simple_bind(mx.cpu(), group2ctx=CONTEXTS, x=(4, 2))
    where = {node.name: str(executor.compiled.context_of(node)) for node in executor.compiled.nodes}
    assert where["left_backward"] == where["turn_grad_add"] == "cpu(2)"
    assert where["turn_backward"] == where["drop_backward"] == "cpu(1)"
    assert [name for name, *_ in copies(executor)] == ["turn_0_copy", "turn_grad_add_0_copy"]


def test_arrays_are_read_where_they_are():
    """A group is the device on which nodes read an array, not where it is stored."""
    x = mx.sym.Variable("x", attr=programs.attr("b"))
    executor = mx.sym.tanh(x).bind(mx.cpu(), {"x": mx.nd.ones((2,), ctx=mx.cpu(3))},
                                   group2ctx=CONTEXTS)
    assert copies(executor) == [("x_0_copy", "cpu(3)", "cpu(2)")]


@st.composite
def networks(draw):
    """A random graph of sums and products in random groups, with some results as outputs."""
    symbols = [mx.sym.Variable(name, attr=programs.attr(draw(st.sampled_from("ab "))))
               for name in "xyz"]
    for number in range(draw(st.integers(1, 12))):
        left, right = (symbols[draw(st.integers(0, len(symbols) - 1))] for _ in range(2))
        op = draw(st.sampled_from([mx.sym.elemwise_add, mx.sym.elemwise_mul]))
        symbols.append(op(left, right, name=f"n{number}",
                          attr=programs.attr(draw(st.sampled_from("abc ")))))
    shown = draw(st.lists(st.sampled_from(symbols[3:]), min_size=1, max_size=3, unique_by=id))
    return mx.sym.Group([*shown, symbols[-1]])


def answers(network, request, groups):
    """Outputs and gradients of a random network, and its executor."""
    rng = np.random.default_rng(1)
    args = {name: mx.nd.array(rng.uniform(-1, 1, 3)) for name in network.list_arguments()}
    grads = {name: mx.nd.ones((3,), ctx=mx.cpu(number)) for number, name in enumerate(args)}
    if not groups:
        grads = {name: grad.as_in_context(mx.cpu()) for name, grad in grads.items()}
    executor = network.bind(mx.cpu(), args, grads, request, group2ctx=groups)
    executor.forward(is_train=True)
    executor.backward([mx.nd.array(rng.uniform(-1, 1, 3)) for _ in executor.outputs])
    return executor, [array.asnumpy() for array in (*executor.outputs, *grads.values())]


@settings(max_examples=60, deadline=None)
@given(network=networks(), request=st.sampled_from(["write", "add"]))
def test_any_graph_in_parts_is_the_graph(network, request):
    """Only copies read across devices, plans are valid, and results are the same."""
    whole, want = answers(network, request, None)
    executor, got = answers(network, request, CONTEXTS)
    for node in executor.compiled.nodes:
        reads = {executor.compiled.devices[eid] for eid in executor.compiled.graph.input_eids(node)}
        same = reads <= {executor.compiled.context_of(node)}
        assert same != isinstance(node.op, CrossDeviceCopy), node
    check_plan(executor.compiled.plan_steps, executor.compiled.sizes, executor.compiled.plan,
               set(executor.compiled.graph.output_ids) - set(executor.compiled.external))
    for mine, value in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, value, rtol=1e-5, atol=1e-6)


def with_parts(sample, groups):
    """All results of a run of a sample, its op and states in a group of their own."""
    op, inputs = test_ops.compose(sample), sample.arrays(sample.dtypes[0])
    node = op.entries[0].node
    for one in (node, *(node.inputs[i].node for i in node.op.aux_indices())):
        one.attrs |= {"__ctx_group__": "a"}
    args, aux = ({name: common.nd(mx, inputs[name]) for name in names}
                 for names in (op.list_arguments(), op.list_auxiliary_states()))
    grads = {name: mx.nd.ones(args[name].shape, dtype=args[name].dtype)
             for name in sample.differentiated(sample.dtypes[0])}
    aux = {name: array.as_in_context(groups["a"]) if groups else array
           for name, array in aux.items()}
    mx.random.seed(0)
    executor = op.bind(mx.cpu(), args, grads, "write", aux, group2ctx=groups)
    outputs = executor.forward(is_train=sample.is_train)
    if grads:
        heads = sample.heads([output.asnumpy() for output in outputs])
        executor.backward(None if sample.loss else [common.nd(mx, head) for head in heads])
    named = {**dict(enumerate(outputs)), **grads, **aux}
    return {name: array.asnumpy() for name, array in named.items()}


def test_every_op_works_on_a_device_of_its_own():
    """Over the sample table.  Inputs and gradients are copied across devices, so all of them are in
    planned memory: overwriting an input that is still needed shows."""
    for name, sample in test_ops.GOOD.items():
        if not test_ops.compose(sample).entries:
            continue  # reset_arrays has no outputs
        want, got = with_parts(sample, None), with_parts(sample, CONTEXTS)
        for key, value in want.items():
            assert_same(got[key], value, sample.tolerance(sample.dtypes[0]), f"{name}: {key}")


# -- executors ----------------------------------------------------------------------------------


def in_parts(**options):
    return programs.in_parts(mx).simple_bind(mx.cpu(), group2ctx=CONTEXTS, data=(8, 6), **options)


def test_executors_share_an_arena_per_device():
    executor = in_parts()
    small = executor.reshape(data=(2, 6), softmax_label=(2,))
    assert small.arenas is executor.arenas and set(small.arenas) >= set(CONTEXTS.values())
    for space, ctx in enumerate(executor.compiled.spaces):
        assert executor.arenas[ctx].nbytes == executor.compiled.plan.arena.get(space, 0)
    for name in ("arg_dict", "grad_dict", "aux_dict"):
        assert ([array.context for array in getattr(small, name).values()]
                == [array.context for array in getattr(executor, name).values()])
    executor.forward(is_train=True)
    small.forward()
    with pytest.raises(MXNetError, match="another executor that shares"):
        executor.backward()
    larger = executor.reshape(allow_up_sizing=True, data=(64, 6), softmax_label=(64,))
    assert larger.arg_dict["data"].context == CONTEXTS["a"]
    want = executor.forward()[0].asnumpy()
    larger.forward()
    np.testing.assert_array_equal(executor.outputs[0].asnumpy(), want)


def test_a_shared_buffer_keeps_arrays_apart_by_context():
    pool = {}
    whole = programs.in_parts(mx).simple_bind(mx.cpu(), shared_buffer=pool, data=(8, 6))
    executor = in_parts(shared_buffer=pool)
    assert executor.arg_dict["data"].context == CONTEXTS["a"]
    assert whole.arg_dict["data"].context == mx.cpu()


def test_the_plan_says_what_runs_where():
    text = in_parts().debug_str()
    assert "act1_0_copy (_CrossDeviceCopy)" in text
    for part in ("context", "arena of cpu(1): ", "arena of cpu(2): ", "arena of cpu(3): "):
        assert part in text
    assert "context" not in programs.in_parts(mx).simple_bind(mx.cpu(), data=(8, 6)).debug_str()


def test_arenas_stand_one_above_the_other_in_the_chart():
    executor = in_parts()
    boxes = boxes_of(plan_facts(executor.compiled))
    for number, one in enumerate(boxes):
        for other in boxes[number + 1:]:
            apart = other.low >= one.high or one.low >= other.high
            assert apart or other.left >= one.right or one.left >= other.right


def test_monitors_see_copies_and_contexts():
    seen = {}
    executor = in_parts()
    executor.set_monitor_callback(lambda name, array: seen.setdefault(name, array.context), True)
    executor.forward(is_train=True)
    executor.backward()
    for name, number in {"data": 1, "fc1_data": 1, "act1_output": 1, "act1_0_copy_data": 1,
                         "act1_0_copy_output": 2, "norm_data": 2, "softmax_output": 3,
                         "fc2_backward_input1": 2}.items():
        assert seen[name] == mx.cpu(number), name


@pytest.mark.parametrize("groups, error, text", [
    ({"a": mx.cpu(1), "b": mx.cpu(2)}, MXNetError, r"fc3_weight .*'c'.*group2ctx: \['a', 'b'\]"),
    ([("a", mx.cpu(1))], TypeError, "group2ctx is a list"),
    ({"a": "cpu"}, TypeError, r"group2ctx\['a'\] is a str"),
])
def test_wrong_groups_are_named(groups, error, text):
    with pytest.raises(error, match=text):
        programs.in_parts(mx).simple_bind(mx.cpu(), group2ctx=groups, data=(8, 6))


def test_a_state_must_be_where_it_changes():
    names = ("data", "gamma", "beta", "mean", "var")
    variables = {name: mx.sym.Variable(name) for name in names}
    norm = mx.sym.BatchNorm(*variables.values(), name="norm", attr=programs.attr("a"))
    with pytest.raises(MXNetError, match=r"norm \(BatchNorm\) is on cpu\(1\).*mean on cpu\(0\)"):
        norm.simple_bind(mx.cpu(), group2ctx=CONTEXTS, data=(4, 3))
    args = {name: mx.nd.ones((4, 3) if name == "data" else (3,)) for name in names[:3]}
    states = {name: mx.nd.ones((3,), ctx=CONTEXTS["a"]) for name in names[3:]}
    gradients = {"gamma": mx.nd.zeros((3,))}
    executor = norm.bind(mx.cpu(), args, gradients, aux_states=states, group2ctx=CONTEXTS)
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((4, 3)))
    np.testing.assert_allclose(states["var"].asnumpy(), 0.9, rtol=1e-6)


def test_a_norm_without_a_group_runs_where_its_input_is():
    """MXNet refuses such networks."""
    x = mx.sym.Variable("data")
    with mx.AttrScope(ctx_group="a"):
        x = mx.sym.Convolution(x, kernel=(1, 1), num_filter=4, num_group=2, name="conv")
    x = mx.sym.BatchNorm(mx.sym.BatchNorm(x, name="norm") * 2, name="again")
    with mx.AttrScope(ctx_group="b"):
        x = mx.sym.MakeLoss(mx.sym.FullyConnected(x, num_hidden=2, name="fc"))
    answers = []
    for groups in (None, CONTEXTS):
        executor = x.simple_bind(mx.cpu(), group2ctx=groups, data=(3, 4, 2, 2))
        rng = np.random.default_rng(0)
        for array in executor.arg_arrays:
            array[:] = rng.standard_normal(array.shape)
        out, = executor.forward(is_train=True)
        executor.backward()
        answers.append([array.asnumpy() for array in (
            out, *executor.grad_arrays, *executor.aux_arrays)])
    assert {array.context for array in executor.aux_arrays} == {CONTEXTS["a"]}
    for alone, in_parts in zip(*answers, strict=True):
        np.testing.assert_allclose(in_parts, alone, rtol=1e-5, atol=1e-6)    # order of sums


@pytest.mark.parametrize("groups, error, text", [
    ("a", TypeError, "group2ctxs is a str"),
    ([{}], MXNetError, r"1 dicts for 2 context\(s\)"),
    ({"a": [mx.cpu()] * 3}, MXNetError, "3 contexts for group 'a'"),
])
def test_wrong_groups_of_a_module_are_named(groups, error, text):
    with pytest.raises(error, match=text):
        mx.mod.Module(programs.in_parts(mx), context=[mx.cpu(0), mx.cpu(1)], group2ctxs=groups)


def test_groups_survive_a_file_and_may_be_left_alone():
    loaded = mx.sym.load_json(programs.in_parts(mx).tojson())
    executor = loaded.simple_bind(mx.cpu(), group2ctx=CONTEXTS, data=(8, 6))
    assert executor.outputs[0].context == CONTEXTS["c"]
    assert loaded.simple_bind(mx.cpu(), data=(8, 6)).outputs[0].context == mx.cpu()


# -- GPUs ---------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("devices", [
    {"a": mx.gpu(0), "b": mx.cpu(), "c": mx.gpu(0)},
    {"a": mx.gpu(0), "b": mx.gpu(1), "c": mx.cpu()},
    {"a": mx.cpu(), "b": [mx.gpu(0), mx.gpu(1)], "c": [mx.gpu(2), mx.cpu()]},
], ids=["to and fro", "from one to the other", "two executors"])
def test_parts_on_gpus_learn_the_same(devices):
    own = [0, 1] if isinstance(devices["b"], list) else [0]
    got = programs.trained(mx, own, devices)
    want = programs.trained(mx, own, None)
    for name, value in want.items():
        assert_same(got[name], value, TOLERANCE, name)


@pytest.mark.gpu
@pytest.mark.parametrize("request_", ["write", "add"])
def test_a_gradient_may_be_on_another_device(request_):
    """Computed on one GPU, requested on the CPU or another GPU, and perhaps accumulated."""
    for ctx in (mx.cpu(), mx.gpu(1)):
        grad = mx.nd.ones((2,), ctx=ctx)
        executor = grouped("top", *"aab").bind(
            mx.cpu(), {"x": mx.nd.array([0.5, -1.0])}, {"x": grad}, request_,
            group2ctx={"a": mx.gpu(0), "b": mx.gpu(2)})
        executor.forward(is_train=True)
        executor.backward(mx.nd.array([1.0, 10.0]))
        want = 2 * np.array([1, 10]) * (1 - np.tanh([0.5, -1.0]) ** 2) + (request_ == "add")
        np.testing.assert_allclose(grad.asnumpy(), want, rtol=1e-5)
        assert executor.outputs[0].context == mx.gpu(2) and grad.context == ctx


@pytest.mark.gpu
def test_shared_arrays_on_another_device_need_groups():
    net = mx.sym.tanh(mx.sym.Variable("x", attr=programs.attr("a")))
    parts = net.simple_bind(mx.cpu(), group2ctx={"a": mx.gpu(0)}, x=(2,))
    options = {"shared_exec": parts, "shared_arg_names": ["x"], "x": (2,)}
    with pytest.raises(MXNetError, match=r"x is on gpu\(0\), expected cpu\(0\).*group2ctx"):
        net.simple_bind(mx.cpu(), **options)
    again = net.simple_bind(mx.cpu(), group2ctx={"a": mx.gpu(0)}, **options)
    assert again.arg_dict["x"] is parts.arg_dict["x"]


@pytest.mark.gpu
@pytest.mark.usefixtures("plain_copy")
def test_what_one_device_cannot_do_is_named_with_it():
    x = mx.sym.relu(mx.sym.Variable("data"))
    with mx.AttrScope(ctx_group="b"):
        x = mx.sym.PlainCopy(x, name="same")
    with pytest.raises(MXNetError, match=r"bind: gpu\(0\) has no kernels yet for same.*ctx_group"):
        x.simple_bind(mx.cpu(), group2ctx={"b": mx.gpu(0)}, data=(8, 6))
