"""Loops and branches.  Samples of tests/cases/control.py compare results with MXNet's; here are
their graphs, cost and errors."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from tests.compare import assert_same
from tests.programs import common
from tests.programs import control_programs as programs

C = mx.sym.contrib
INPUTS = {
    "products": ["data", "state", "weight"],
    "rnn": ["data", "state", "weight", "recurrent", "bias"],
    "lists": ["a", "b", "s", "t"], "captured": ["data", "state", "weight"],
    "mapped": ["data", "weight"], "folded": ["data", "state"], "twice": ["data", "state"],
    "chosen": ["data", "state", "limit"], "counted": ["data", "state"],
    "powers": ["count", "x", "weight"], "until": ["x", "weight", "limit"],
    "one_variable": ["count"], "loops": ["count", "x"], "branch": ["test", "x", "y"],
    "branches": ["test", "x", "y"],
}  # fmt: skip
FRESH = (f"fresh{number}" for number in itertools.count())
SHAPES = {"data": (3, 2), "state": (2,), "weight": (2,)}


def normal(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}


def var(*names: str) -> list[mx.sym.Symbol]:
    return [mx.sym.Variable(name) for name in names]


def run(net: mx.sym.Symbol, values: dict[str, np.ndarray], request: str = "write",
        is_train: bool = True) -> dict[str, Any]:
    outputs = net.infer_shape(**{n: v.shape for n, v in values.items()})[1]
    heads = [np.ones(shape, "float32") for shape in outputs]
    grad = dict.fromkeys(net.list_arguments(), request) if request != "null" else {}
    return common.run(mx, net, values, grad, heads, is_train)


# -- the graph -----------------------------------------------------------------------------------



@pytest.mark.parametrize("program", ["structures", "subgraph_counts"])
def test_results_are_nested_and_subgraphs_named_as_in_mxnet(oracle, program):
    found = getattr(programs, program)(mx)
    assert found == oracle.call("mx_scripts.run", "control_programs", program)


def test_files_are_those_of_mxnet_byte_for_byte(oracle):
    name = next(FRESH)
    ours = programs.texts(mx, name, INPUTS)
    theirs = oracle.call("mx_scripts.run", "control_programs", "texts", name, INPUTS)
    for program, text in theirs.items():
        assert ours[program] == text, program
        assert mx.sym.load_json(text).tojson() == text, program


def test_names_are_those_of_mxnet(oracle):
    assert programs.names(mx, INPUTS) == oracle.call(
        "mx_scripts.run", "control_programs", "names", INPUTS)


def test_files_of_either_run_in_the_other(oracle):
    text = programs.texts(mx, next(FRESH), {"rnn": INPUTS["rnn"]})["rnn"]
    arrays = normal(data=(4, 2, 2), state=(2, 3), weight=(3, 2), recurrent=(3, 3), bias=(3,))
    theirs = oracle.call("mx_scripts.run", "control_programs", "runs_json", text, arrays)
    ours = programs.runs_json(mx, text, arrays)
    for got, want in zip(ours, theirs, strict=True):
        assert_same(got, want, 1e-5, "outputs and gradients")


@pytest.mark.parametrize("copied", [copy.copy, lambda net: pickle.loads(pickle.dumps(net)),
                                    lambda net: net(data=mx.sym.Variable("data")),
                                    lambda net: mx.sym.Group(list(net))])
def test_copies_compute_the_same(copied):
    net, values = programs.symbol(mx, "products", INPUTS["products"]), normal(**SHAPES)
    for part in ("outputs", "grads"):
        ours, theirs = run(copied(net), values)[part], run(net, values)[part]
        pairs = zip(ours, theirs, strict=True) if part == "outputs" else (
            (ours[name], theirs[name]) for name in theirs)
        assert all(np.array_equal(a, b) for a, b in pairs)


def test_composing_replaces_what_a_loop_reads():
    net = programs.symbol(mx, "products", INPUTS["products"])
    values = normal(**SHAPES)
    weight = values.pop("weight")
    composed = net(weight=mx.sym.Variable("w") * 2)
    assert composed.list_arguments() == ["data", "state", "w"]
    got = run(composed, {**values, "w": weight})["outputs"]
    want = run(net, {**values, "weight": 2 * weight})["outputs"]
    assert all(map(np.array_equal, got, want))


def test_attributes_of_a_loop_can_be_set():
    net = programs.symbol(mx, "folded", ["data", "state"])
    net._set_attr(ctx_group="here")
    assert net.attr("ctx_group") == "here" and net.infer_shape(data=(3, 2))[1] == [(2,)]


@pytest.mark.parametrize("known, found", [
    ({"data": (5, 0), "s": (2, 3)}, None),
    ({"data": (5, 0, 3), "s": (2, 0)}, [(5, 2, 3), (2, 3), (2, 3)]),
    ({"s": (2, 3), "w": (2, 3)}, [(0, 2, 3), (2, 3), (2, 3)]),
    ({"out": (5, 2, 3)}, [(5, 2, 3), (2, 3), (2, 3)]),
    ({"out": (5, 2, 0), "last": (0, 3)}, [(5, 2, 3), (2, 3), (2, 3)]),
])
def test_shapes_spread_both_ways(known, found):
    data, s, w = var("data", "s", "w")
    out, last = C.foreach(lambda x, h: (x * w + h, h + x), data, s)
    net = mx.sym.Group([mx.sym.elemwise_add(out, mx.sym.Variable("out")),
                        mx.sym.elemwise_add(last, mx.sym.Variable("last"))])
    if found is None:
        with pytest.raises(MXNetError):
            net.infer_shape_partial(**known)
    else:
        shapes = dict(zip(net.list_arguments(), net.infer_shape_partial(**known)[0], strict=True))
        assert [shapes[name] for name in ("data", "s", "w")] == found


def test_types_spread_both_ways():
    data, s = var("data", "s")
    out, last = C.foreach(lambda x, h: (mx.sym.Cast(x, dtype="float16"), h + x * 2), data, s)
    for known in ({"data": "float64"}, {"s": "float64"}):
        types = mx.sym.Group([out, last]).infer_type(**known)
        assert [np.dtype(t).name for t in types[0] + types[1]] == [
            "float64", "float64", "float16", "float64"]


# -- results ---------------------------------------------------------------------------------------


TERMS = {
    "sum": lambda F, x, s, w: x + s, "product": lambda F, x, s, w: x * w,
    "sine": lambda F, x, s, w: F.sin(s * w), "square": lambda F, x, s, w: s * s * x,
    "state": lambda F, x, s, w: s, "data": lambda F, x, s, w: x,
    "free": lambda F, x, s, w: F.exp(w), "constant": lambda F, x, s, w: F.zeros_like(x) + 1,
}  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(out=st.lists(st.sampled_from(sorted(TERMS)), min_size=1, max_size=3),
       state=st.lists(st.sampled_from(sorted(TERMS)), min_size=1, max_size=3),
       rows=st.integers(1, 4), request=st.sampled_from(["write", "add", "null"]))
def test_a_loop_is_its_iterations_written_out(out, state, rows, request):
    def body(x: Any, s: Any) -> tuple[Any, Any]:
        y, z = ([TERMS[name](mx.sym, x, s, w) for name in names] for names in (out, state))
        touch = (x + s) * 0  # everything is used
        return mx.sym.add_n(*y) + touch, mx.sym.add_n(*z) * 0.5 + touch

    data, s, w = var("data", "state", "weight")
    loop = mx.sym.Group([*C.foreach(body, data, s), mx.sym.sum(w)])
    ys, last = [], s
    for t in range(rows):
        row = mx.sym.reshape(mx.sym.slice_axis(data, axis=0, begin=t, end=t + 1), shape=(2,))
        y, last = body(row, last)
        ys.append(y)
    written = mx.sym.Group([mx.sym.stack(*ys, axis=0), last, mx.sym.sum(w)])
    values = normal(data=(rows, 2), state=(2,), weight=(2,))
    got, want = run(loop, values, request), run(written, values, request)
    for a, b in zip(got["outputs"], want["outputs"], strict=True):
        assert_same(a, b, 1e-6, "outputs")
    for name, b in want["grads"].items():
        assert_same(got["grads"][name], b, 2e-6, name)


def test_a_while_loop_leaves_zeros_where_it_did_not_go():
    count, x = var("count", "x")
    out, states = C.while_loop(lambda i, p: i < 2, lambda i, p: (p * p, [i + 1, p * 2]),
                               [count, x], 4)
    net = mx.sym.Group([out, *states])
    values = {"count": np.zeros(1, "float32"), "x": np.array([1, 3], "float32")}
    found = run(net, values)
    assert found["outputs"][0].tolist() == [[1, 9], [4, 36], [0, 0], [0, 0]]
    assert found["outputs"][2].tolist() == [4, 12]
    assert found["grads"]["x"].tolist() == [2 + 8 + 4, 6 + 24 + 4]
    none = run(net, {**values, "count": np.full(1, 5, "float32")})
    assert not none["outputs"][0].any() and none["outputs"][2].tolist() == [1, 3]
    assert none["grads"]["x"].tolist() == [1, 1] and none["grads"]["count"].tolist() == [1]


def test_one_symbol_may_be_given_several_times():
    data, s = var("data", "s")
    out, (last, _) = C.foreach(lambda x, h: (x[0] * x[1] + h[1], [h[0] * x[0], h[1]]),
                               [data, data], [s, s])
    values = {"data": np.array([[2], [3]], "float32"), "s": np.array([5], "float32")}
    found = run(mx.sym.Group([out, last]), values)
    assert [y.tolist() for y in found["outputs"]] == [[[9], [14]], [30]]
    assert found["grads"]["data"].tolist() == [[4 + 15], [6 + 10]]
    assert found["grads"]["s"].tolist() == [2 + 6]


def test_an_executor_runs_loops_of_other_lengths_one_after_another():
    count, x = var("count", "x")
    net = C.while_loop(lambda i, p: i < 3, lambda i, p: ([], [i + 1, p * p]), [count, x], 5)[1][1]
    executor = net.bind(mx.cpu(), {"count": mx.nd.zeros(1), "x": mx.nd.array([1.5])},
                        args_grad={"x": mx.nd.zeros(1)})
    for start, power in ((0, 8), (2, 2), (1, 4), (3, 1)):
        executor.forward(is_train=True, count=mx.nd.array([start]))
        executor.backward(mx.nd.ones(1))
        assert_same(executor.outputs[0].asnumpy()[0], np.float32(1.5 ** power), 1e-6, "x")
        assert_same(executor.grad_dict["x"].asnumpy()[0],
                    np.float32(power * 1.5 ** (power - 1)), 1e-6, "its gradient")


def test_batch_norm_in_a_loop_keeps_its_averages():
    """They are updated once per iteration, from the last to the first, in backward as always."""
    data, s = var("data", "s")
    out, _ = C.foreach(lambda x, h: (mx.sym.BatchNorm(x, momentum=0.5, eps=1e-5, fix_gamma=False,
                                                      name="bn"), h), data, s)
    assert out.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    values = normal(data=(3, 8, 2), s=(1,)) | {
        "bn_gamma": np.ones(2, "float32"), "bn_beta": np.zeros(2, "float32"),
        "bn_moving_mean": np.zeros(2, "float32"), "bn_moving_var": np.ones(2, "float32")}
    found = common.run(mx, out, values, {"data": "write"}, [np.ones((3, 8, 2), "float32")])
    mean, var_ = values["bn_moving_mean"], values["bn_moving_var"]
    for row in values["data"][::-1]:
        mean, var_ = (mean + row.mean(0)) / 2, (var_ + row.var(0)) / 2
    assert_same(found["aux"]["bn_moving_mean"], mean, 1e-5, "mean")
    assert_same(found["aux"]["bn_moving_var"], var_, 1e-5, "variance")
    centred = values["data"] - values["data"].mean(1, keepdims=True)
    assert_same(found["outputs"][0], centred / np.sqrt(values["data"].var(1, keepdims=True) + 1e-5),
                1e-5, "output")


def test_dropout_draws_in_every_iteration_and_gradients_know_what():
    data, s = var("data", "s")
    out, _ = C.foreach(lambda x, h: (mx.sym.Dropout(x, p=0.5), h), data, s)
    values = {"data": np.ones((4, 50), "float32"), "s": np.ones(1, "float32")}
    found = run(out, values)
    masks = found["outputs"][0]
    assert set(np.unique(masks)) == {0, 2} and len({row.tobytes() for row in masks}) == 4
    assert np.array_equal(found["grads"]["data"], masks)
    assert (run(out, values, is_train=False)["outputs"][0] == 1).all()


def test_outputs_that_nobody_wants_gradients_of():
    """A trained weight in the body, data and states without gradients."""
    net, values = programs.symbol(mx, "rnn", INPUTS["rnn"]), normal(
        data=(4, 2, 2), state=(2, 3), weight=(3, 2), recurrent=(3, 3), bias=(3,))
    heads = [np.ones((4, 2, 3), "float32"), np.zeros((2, 3), "float32")]
    everything = common.run(mx, net, values, dict.fromkeys(INPUTS["rnn"], "write"), heads)
    for name in INPUTS["rnn"]:
        alone = common.run(mx, net[0], values, {name: "write"}, heads[:1])["grads"][name]
        assert_same(alone, everything["grads"][name], 1e-6, name)


def test_a_module_learns_through_a_loop_of_cells(oracle):
    name = next(FRESH)
    ours, written = programs.trained(mx, name), programs.trained(mx, name, unrolled=True)
    theirs = oracle.call("mx_scripts.run", "control_programs", "trained", name)
    assert list(ours) == list(theirs) and sorted(ours) == sorted(written)
    for key, value in theirs.items():
        assert_same(ours[key], value, 2e-5, key)  # four steps of float32 sums in another order
        assert_same(ours[key], written[key], 2e-6, key)


# -- memory and steps ------------------------------------------------------------------------------


def bound(rows: int, request: str) -> mx.executor.Executor:
    net = programs.symbol(mx, "rnn", INPUTS["rnn"])
    return net.simple_bind(mx.cpu(), grad_req=request, data=(rows, 2, 2))


def test_inference_keeps_nothing_of_an_iteration():
    small, large = bound(2, "null"), bound(200, "null")
    assert small.compiled.plan.arena == large.compiled.plan.arena and len(large.compiled.nodes) == 1
    assert large.compiled.plan.held_bytes == 4 * (200 * 2 * 3 + 2 * 3)


def test_training_keeps_what_gradients_read_and_no_more():
    row = 2 * 3 * 4
    executor = bound(400, "write")
    kept = [spec for spec in executor.compiled.specs if spec.shape[:1] == (400,)]
    # data, its gradient and head gradient aside: the state, tanh, and the outputs
    assert sum(spec.nbytes for spec in kept) <= 400 * (2 * 2 * 2 * 4 + 5 * row)
    assert executor.compiled.plan.total_bytes < 400 * 4 * row


def test_parameters_of_bodies_are_counted(capsys):
    net = programs.symbol(mx, "rnn", INPUTS["rnn"])
    outer, _ = C.foreach(lambda x, h: tuple(net(data=x, state=h)), *var("d", "s"))
    for symbol, shape in ((net, {"data": (5, 2, 2)}), (outer, {"d": (4, 5, 2, 2)})):
        mx.viz.print_summary(symbol, shape)
        assert f"Total params: {3 * 2 + 3 * 3 + 3}" in capsys.readouterr().out


def test_other_lengths_share_the_memory():
    executor, net = bound(8, "write"), programs.symbol(mx, "rnn", INPUTS["rnn"])
    smaller = executor.reshape(data=(3, 2, 2))
    assert smaller.arena is executor.arena
    values = normal(data=(3, 2, 2), state=(2, 3), weight=(3, 2), recurrent=(3, 3), bias=(3,))
    for name, array in smaller.arg_dict.items():
        array[:] = values[name]
    smaller.forward(is_train=True)
    smaller.backward([mx.nd.ones((3, 2, 3)), mx.nd.ones((2, 3))])
    want = run(net, values)
    for output, other in zip(smaller.outputs, want["outputs"], strict=True):
        assert np.array_equal(output.asnumpy(), other)
    for name, other in want["grads"].items():
        assert np.array_equal(smaller.grad_dict[name].asnumpy(), other), name


def test_monitors_and_the_profiler_see_a_loop_as_a_step(tmp_path):
    executor, seen = bound(3, "write"), []
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    mx.profiler.set_config(filename=str(tmp_path / "trace.json"), profile_symbolic=True)
    mx.profiler.set_state("run")
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((3, 2, 3)), mx.nd.ones((2, 3))])
    mx.profiler.set_state("stop")
    assert seen[:2] == ["_foreach0_output0", "_foreach0_output1"]
    assert not any("saved" in name for name in seen)
    assert "_foreach" in mx.profiler.dumps(reset=True)
    mx.profiler.dump()  # reset the profiler's records


def test_eager_loops_are_recorded():
    """Gradients by autograd of an eager loop equal those of the symbol."""
    values = normal(**SHAPES)
    arrays = {name: mx.nd.array(value) for name, value in values.items()}
    for array in arrays.values():
        array.attach_grad()
    with mx.autograd.record():
        outputs = programs.PROGRAMS["products"](mx.nd, **arrays)
    mx.autograd.backward(outputs)
    want = run(programs.symbol(mx, "products", list(SHAPES)), values)
    for name, array in arrays.items():
        assert_same(array.grad.asnumpy(), want["grads"][name], 1e-6, name)


def test_the_plan_shows_bodies():
    text = bound(5, "write").debug_str()
    for word in ("body of _foreach0", "body of _foreach0_backward", "fullyconnected0", "tanh0"):
        assert word in text, word


@pytest.mark.parametrize("program", ["twice", "counted", "chosen"])
def test_plans_of_bodies_are_sound(program, monkeypatch):
    monkeypatch.setattr(mx.core.config.CONFIG, "check", True)
    net = programs.symbol(mx, program, INPUTS[program])
    shapes = {"data": (3, 4, 1), "state": (1,)} if program == "twice" else {"data": (3, 2)}
    net.simple_bind(mx.cpu(), **shapes, **({"limit": (1,)} if program == "chosen" else {}))


def test_bodies_can_be_mirrored_too(monkeypatch):
    net = C.foreach(lambda x, h: (mx.sym.sin(mx.sym.tanh(mx.sym.sin(x * h))), h), *var("d", "s"))[0]
    values = normal(d=(30, 20), s=(20,))
    want, bound = run(net, values), net.simple_bind(mx.cpu(), d=(30, 20))
    monkeypatch.setenv("MXNET_BACKWARD_DO_MIRROR", "1")
    got, lean = run(net, values), net.simple_bind(mx.cpu(), d=(30, 20))
    assert 2 * sum(lean.compiled.plan.arena.values()) < sum(bound.compiled.plan.arena.values())
    for name, other in want["grads"].items():
        assert np.array_equal(got["grads"][name], other), name


def test_a_mirrored_loop_is_computed_again():
    net = programs.symbol(mx, "folded", ["data", "state"])
    values = normal(data=(3, 2), state=(2,))
    with mx.AttrScope(force_mirroring="True"):
        forced = programs.symbol(mx, "folded", ["data", "state"])
    got, want = (run(mx.sym.sin(loop), values) for loop in (forced, net))
    assert np.array_equal(got["outputs"][0], want["outputs"][0])
    for name in want["grads"]:
        assert np.array_equal(got["grads"][name], want["grads"][name])


def test_a_loop_is_on_the_device_of_its_group():
    with mx.AttrScope(ctx_group="loop"):
        net = programs.symbol(mx, "products", INPUTS["products"])
    whole = mx.sym.sin(net[0])
    values = normal(**SHAPES)
    args = {name: mx.nd.array(value) for name, value in values.items()}
    executor = whole.bind(mx.cpu(), args, group2ctx={"loop": mx.cpu(1)})
    compiled = executor.compiled
    placed = {node.name: str(compiled.context_of(node)) for node in compiled.nodes}
    assert placed["_foreach0"] == "cpu(1)"
    assert_same(executor.forward()[0].asnumpy(), run(whole, values)["outputs"][0], 0, "output")


# -- errors ----------------------------------------------------------------------------------------


def _errors() -> dict[str, tuple[Any, str]]:
    d, s, w = var("d", "s", "w")
    return {
        "unused data": (lambda: C.foreach(lambda x, h: (h, h), d, s), r"foreach: data \['d-0'\]"),
        "unused state": (lambda: C.foreach(lambda x, h: (x, x), d, s), r"states \['s-0'\]"),
        "one result": (lambda: C.foreach(lambda x, h: x, d, s), "must return two things"),
        "a number": (lambda: C.foreach(lambda x, h: (1, h), d, s), "outputs of the body: a int"),
        "other states": (lambda: C.foreach(lambda x, h: (x, [h]), d, s),
                         r"takes states as x, but returns them as \[x\]"),
        "no data": (lambda: C.foreach(lambda x, h: (h, h), [], s), "no data to take rows of"),
        "own state": (lambda: C.foreach(lambda x, h: (mx.sym.BatchNorm(x, moving_mean=h), h), d, s),
                      r"an op of the body keeps \['s-0'\] as its own state"),
        "arrays": (lambda: C.foreach(lambda x, h: (x, h), mx.nd.ones(2), s), "data: a NDArray"),
        "no limit": (lambda: C.while_loop(lambda i: i, lambda i: (i, i), d), "max_iterations"),
        "limit 0": (lambda: C.while_loop(lambda i: i, lambda i: (i, i), d, 0), "at least 1"),
        "no variables": (lambda: C.while_loop(lambda: w, lambda: (w, []), [], 2), "at least one"),
        "no symbol": (lambda: C.while_loop(lambda i: 1, lambda i: (i, i), d, 2), "cond is a int"),
        "variables lost": (lambda: C.while_loop(lambda i, j: i, lambda i, j: (j, [i]), [d, s], 2),
                           r"takes states as \[x, x\], but returns them as \[x\]"),
        "branches": (lambda: C.cond(d, lambda: [w, w], lambda: w), "2 outputs and else_func 1"),
        "predicate": (lambda: C.cond(True, lambda: w, lambda: w), "pred is a bool"),
    }


@pytest.mark.parametrize("case", _errors())
def test_what_cannot_be_a_loop_is_said(case):
    make, message = _errors()[case]
    with pytest.raises(MXNetError, match=message):
        make()


@pytest.mark.parametrize("body", [lambda x, h: (h, h), lambda x, h: (x, x)])
def test_what_a_body_does_not_use_is_an_assertion_error_as_in_mxnet(body):
    with pytest.raises(AssertionError, match="not used in the loop body"):
        C.foreach(body, *var("d", "s"))


def test_a_state_that_changes_its_shape_is_named():
    d, s = var("d", "s")
    _, last = C.foreach(lambda x, h: (x, mx.sym.Concat(h, x, dim=0)), d, s)
    with pytest.raises(MXNetError, match=r"_foreach\d+ .*state 0 \(s-0\) has shape \(3,\) before "
                                         r"the first iteration and \(5,\) after it"):
        last.infer_shape(d=(4, 2), s=(3,))
    _, last = C.foreach(lambda x, h: (x, mx.sym.Cast(h, dtype="float16")), d, s)
    with pytest.raises(MXNetError, match="state 0.*float32 before .* float16 after"):
        last.infer_type(s="float32")


@pytest.mark.parametrize("shapes, message", [
    ({"a": (3, 2), "b": (4, 2)}, "3 in input 0, 4 in input 1"),
    ({"a": (3, 2), "b": (3, 2), "s": (5,)}, "in its body: .*elemwise_add"),
])
def test_shapes_that_do_not_fit_name_the_loop(shapes, message):
    a, b, s = var("a", "b", "s")
    out, _ = C.foreach(lambda x, h: (x[0] * x[1] + h, h), [a, b], s)
    with pytest.raises(MXNetError, match=rf"_foreach\d+ \(_foreach\).*{message}"):
        out.infer_shape(**shapes)


def test_a_condition_is_one_number():
    net = C.while_loop(lambda i: i < 3, lambda i: (i, i + 1), var("i")[0], 3)[0]
    with pytest.raises(MXNetError, match=r"the condition has shape \(2,\), expected one number"):
        net.infer_shape(i=(2,))


def test_branches_agree_in_shape():
    d, x, y = var("d", "x", "y")
    net = C.cond(d, lambda: x, lambda: mx.sym.Concat(y, y, dim=0))
    with pytest.raises(MXNetError, match=r"output 0 has shape \(4,\) in the else-branch, expected "
                                         r"\(3,\)"):
        net.infer_shape(d=(1,), x=(3,), y=(2,))


class Keeps(mx.operator.CustomOp):
    """Squares; stores what its backward pass needs."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.kept = in_data[0].copy()
        self.assign(out_data[0], req[0], in_data[0] * in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 2 * self.kept * out_grad[0])


@mx.operator.register("test_control_keeps")
class KeepsProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Keeps()


def test_custom_operators_remember_their_own_iteration():
    def square(x: Any) -> Any:
        return mx.sym.Custom(x, op_type="test_control_keeps")

    def rows(x: Any, h: Any) -> tuple[Any, Any]:
        out, h = C.foreach(lambda y, g: (square(y), g), x, h)
        return square(mx.sym.sum(out)), h

    values = {"d": np.arange(6, dtype="float32").reshape(3, 2), "s": np.ones(1, "float32")}
    found = run(C.foreach(rows, *var("d", "s"))[0], values)
    squares = (values["d"] ** 2).sum(1, keepdims=True)
    assert np.array_equal(found["outputs"][0], squares ** 2)
    assert np.array_equal(found["grads"]["d"], 4 * squares * values["d"])


class Fails(mx.operator.CustomOp):
    """Raises for a negative value."""

    def forward(self, is_train, req, in_data, out_data, aux):
        if in_data[0].asnumpy().min() < 0:
            raise ValueError("negative")
        self.assign(out_data[0], req[0], in_data[0])


@mx.operator.register("test_control_fails")
class FailsProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Fails()


def test_an_error_in_a_body_names_loop_iteration_and_node():
    d, s = var("d", "s")
    out, _ = C.foreach(lambda x, h: (mx.sym.Custom(x, op_type="test_control_fails", name="bad"), h),
                       d, s)
    executor = out.bind(mx.cpu(), {"d": mx.nd.array([[1], [2], [-1]]), "s": mx.nd.ones(1)})
    with pytest.raises(MXNetError, match=r"_foreach\d+ \(_foreach\): iteration 2: bad .*negative"):
        executor.forward()


@pytest.mark.parametrize("change, message", [
    (lambda node: node["subgraphs"].clear(), "no subgraphs"),
    (lambda node: node["attrs"].update(in_data_locs="[7]"), "connected|stand|variables"),
    (lambda node: node["attrs"].update(num_outputs="5"), "5"),
    (lambda node: node["subgraphs"].append(node["subgraphs"][0]), "2 subgraphs are given"),
])
def test_files_whose_loops_do_not_fit_are_refused(change, message):
    import json

    graph = json.loads(programs.symbol(mx, "products", INPUTS["products"]).tojson())
    change(next(node for node in graph["nodes"] if node["op"] == "_foreach"))
    with pytest.raises(MXNetError, match=message):
        mx.sym.load_json(json.dumps(graph)).infer_shape(data=(3, 2))
