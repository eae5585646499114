"""Binding and running graphs: requests, sharing, reshaping, errors, depth."""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.core.config import CONFIG
from nbmod.graph import Graph
from nbmod.ops.jit import num_threads, set_num_threads
from nbmod.passes.memory.verify import check_plan
from tests.compare import assert_same
from tests.programs import executor_programs


def array(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def bound(symbol, grad_req="write", **values):
    executor = symbol.simple_bind(mx.cpu(), grad_req=grad_req,
                                  **{name: value.shape for name, value in values.items()})
    for name, value in values.items():
        executor.arg_dict[name][:] = value
    return executor


@pytest.mark.parametrize("program", executor_programs.programs())
def test_programs_answer_as_in_mxnet(oracle, program):
    theirs = oracle.call("mx_scripts.run", "executor_programs", "answer", program)
    same(executor_programs.answer(mx, program), theirs)


def same(got, want, where="answer"):
    """Nested data, arrays compared by type, shape and value (float32 sums in another order)."""
    if isinstance(want, np.ndarray):
        assert_same(got, want, 1e-3 if want.dtype == np.float16 else 2e-5, where)
    elif isinstance(want, dict):
        assert list(got) == list(want), where
        for key, value in want.items():
            same(got[key], value, f"{where}[{key!r}]")
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), where
        for index, value in enumerate(want):
            same(got[index], value, f"{where}[{index}]")
    else:
        assert got == want, where


def residual():
    """Branches that join again, a shared weight, views, and a loss."""
    data = mx.sym.Variable("data")
    weight = mx.sym.Variable("shared_weight")
    x = mx.sym.FullyConnected(data, weight, num_hidden=6, no_bias=True, name="fc1")
    y = mx.sym.Activation(x, act_type="tanh", name="act")
    z = mx.sym.FullyConnected(mx.sym.reshape(y, shape=(-1, 6)), weight, num_hidden=6,
                              no_bias=True, name="fc2")
    return mx.sym.LinearRegressionOutput(x + y * z + x, mx.sym.Variable("label"), name="loss")


def residual_by_hand(data, weight, label):
    x = data @ weight.T
    y = np.tanh(x)
    z = y @ weight.T
    out = 2 * x + y * z
    g = (out - label) / label.shape[1]
    gz, gy = g * y, g * z
    gy = gy + gz @ weight
    gx = 2 * g + gy * (1 - y * y)
    return out, gx @ weight, gx.T @ data + gz.T @ y


@pytest.mark.parametrize("request_", ["write", "add"])
def test_gradients_of_branches_and_shared_weights(request_):
    data, weight, label = array(4, 6), array(6, 6, seed=1), array(4, 6, seed=2)
    executor = bound(residual(), {"data": request_, "shared_weight": request_}, data=data,
                     shared_weight=weight, label=label)
    for name in ("data", "shared_weight"):
        executor.grad_dict[name][:] = 1
    out, gdata, gweight = residual_by_hand(data, weight, label)
    executor.forward(is_train=True)
    executor.backward()
    base = 1 if request_ == "add" else 0
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), out, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), gdata + base,
                               rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(executor.grad_dict["shared_weight"].asnumpy(), gweight + base,
                               rtol=2e-5, atol=2e-5)


def test_a_labels_zero_gradient_is_added_too():
    net = mx.sym.LinearRegressionOutput(mx.sym.Variable("data"), mx.sym.Variable("label"))
    executor = bound(net, "add", data=array(4, 6), label=array(4, 6, seed=1))
    executor.grad_dict["label"][:] = 5
    executor.forward(is_train=True)
    executor.backward()
    assert executor.grad_dict["label"].asnumpy().min() == 5


@pytest.mark.parametrize("requests", [("add", "add"), ("add", "write"), ("write", "add")])
def test_one_gradient_goes_to_two_arguments_in_two_ways(requests):
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    executor = bound(mx.sym.tanh(a + b), dict(zip("ab", requests, strict=True)),
                     a=array(4, 6), b=array(4, 6, seed=1))
    for number, name in enumerate("ab"):
        executor.grad_dict[name][:] = 10 + number
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((4, 6)))
    want = 1 - np.tanh(array(4, 6) + array(4, 6, seed=1)) ** 2
    for number, (name, request) in enumerate(zip("ab", requests, strict=True)):
        base = 10 + number if request == "add" else 0
        np.testing.assert_allclose(executor.grad_dict[name].asnumpy(), want + base, rtol=1e-5,
                                   atol=1e-5)


def test_null_requests_give_no_gradient_arrays():
    executor = bound(residual(), {"data": "write"}, data=array(4, 6), shared_weight=array(6, 6),
                     label=array(4, 6))
    assert executor.grad_dict["shared_weight"] is None and executor.grad_dict["label"] is None
    assert [g is None for g in executor.grad_arrays] == [False, True, True]


def test_one_gradient_for_two_arguments():
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    executor = bound(mx.sym.make_loss(a + b), a=array(2, 3), b=array(2, 3))
    executor.forward(is_train=True)
    executor.backward()
    for name in "ab":
        np.testing.assert_array_equal(executor.grad_dict[name].asnumpy(), np.ones((2, 3)))


def test_unreachable_arguments_get_zero_gradients():
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    executor = bound(mx.sym.Group([mx.sym.make_loss(a), mx.sym.BlockGrad(b)]), a=array(2),
                     b=array(3))
    executor.grad_dict["b"][:] = 5
    executor.forward(is_train=True)
    executor.backward()
    np.testing.assert_array_equal(executor.grad_dict["b"].asnumpy(), np.zeros(3))


def test_a_loss_under_blockgrad_still_trains_as_in_mxnet():
    net = mx.sym.BlockGrad(mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax"))
    executor = bound(net, data=array(2, 3))
    executor.forward(is_train=True)
    executor.backward()
    assert np.abs(executor.grad_dict["data"].asnumpy()).max() > 0.1


def test_head_gradients_of_an_output_that_comes_twice_are_summed():
    """MXNet uses the last one only."""
    x = mx.sym.Variable("x")
    y = x * 2
    executor = bound(mx.sym.Group([y, y, x]), x=array(3))
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((3,)), mx.nd.ones((3,)) * 10, mx.nd.ones((3,)) * 100])
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), [122] * 3)
    with pytest.raises(ValueError, match="several outputs are called"):
        _ = executor.output_dict


def test_head_gradients_beyond_the_outputs_are_ignored():
    executor = bound(mx.sym.square(mx.sym.Variable("x")), x=array(3))
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones(3), mx.nd.ones(7)])
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), 2 * array(3), rtol=1e-6)


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_head_gradients_may_be_recorded(stype):
    """They are copied, and the copy is no part of the recorded computation."""
    executor, head = bound(mx.sym.Variable("x") * 2, x=array(3, 2)), mx.nd.ones((3, 2))
    head.attach_grad()
    with mx.autograd.record():
        for scale in (1, 5):
            executor.forward(is_train=True)
            executor.backward([(head * scale).tostype(stype)])
            np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), 2 * scale)


def test_head_gradients_are_needed_only_where_they_are_read():
    x = mx.sym.Variable("x")
    executor = bound(mx.sym.Group([x * 2, mx.sym.make_loss(x)]), x=array(2))
    executor.forward(is_train=True)
    with pytest.raises(MXNetError, match="not a loss.*make_loss"):
        executor.backward()
    executor.backward([mx.nd.array([1, 2])])
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), [3, 5])
    with pytest.raises(MXNetError, match="shape"):
        executor.backward([mx.nd.ones((3,))])


def test_backward_needs_what_forward_left():
    net = residual()
    executor = bound(net, data=array(4, 6), shared_weight=array(6, 6), label=array(4, 6))
    other = executor.reshape(data=(2, 6), label=(2, 6))
    with pytest.raises(MXNetError, match="call forward"):
        executor.backward()
    executor.forward(is_train=True)
    executor.backward()
    with pytest.raises(MXNetError, match="once for each forward"):  # MXNet gives wrong gradients
        executor.backward()
    executor.forward(is_train=True)
    other.forward()
    with pytest.raises(MXNetError, match="another executor that shares"):  # and here as well
        executor.backward()
    executor.forward(is_train=True)
    executor.reshape(allow_up_sizing=True, data=(64, 6), label=(64, 6))
    with pytest.raises(MXNetError, match="another executor that shares"):
        executor.backward()


def test_outputs_are_stable_buffers():
    executor = bound(mx.sym.Variable("x") * 2, x=array(3))
    first = executor.forward()[0]
    executor.arg_dict["x"][:] = 1
    assert executor.forward()[0] is first
    np.testing.assert_array_equal(first.asnumpy(), [2, 2, 2])


def test_executors_that_share_an_arena_do_not_spoil_outputs():
    net = mx.sym.tanh(mx.sym.Variable("x") * 3) + 1
    large = bound(net, x=array(64))
    small = net.simple_bind(mx.cpu(), shared_exec=large, x=(8,))
    small.arg_dict["x"][:] = array(8)
    kept = large.forward()[0].asnumpy()
    small.forward()
    np.testing.assert_array_equal(large.outputs[0].asnumpy(), kept)
    assert small.arena is large.arena


def test_a_shared_arena_is_as_large_as_its_largest_tenant_needs():
    net = mx.sym.exp(mx.sym.tanh(mx.sym.Variable("x") * 3) + 1)
    first = net.simple_bind(mx.cpu(), x=(64,))
    first.arg_dict["x"][:] = array(64)
    want, block = first.forward()[0].asnumpy(), weakref.ref(first.arena.block)
    tenants = [first, *(net.simple_bind(mx.cpu(), shared_exec=first, x=(n,)) for n in (4096, 8))]
    assert first.arena.nbytes == max(tenant.compiled.plan.arena[0] for tenant in tenants)
    assert block() is None, "the smaller block is kept beside the larger one"
    for tenant in [*tenants, first]:
        tenant.forward()
    np.testing.assert_array_equal(first.outputs[0].asnumpy(), want)


def test_an_executor_is_freed_when_nobody_holds_it():
    executor = bound(residual(), data=array(4, 6), shared_weight=array(6, 6), label=array(4, 6))
    executor.set_monitor_callback(lambda name, value: None)
    executor.forward(is_train=True)
    gone = weakref.ref(executor)
    gc.disable()
    try:
        del executor
        assert gone() is None
    finally:
        gc.enable()


def test_a_monitor_sees_executors_of_other_shapes():
    executor = bound(mx.sym.exp(mx.sym.Variable("x"), name="e"), x=array(2))
    seen = []
    executor.set_monitor_callback(lambda name, value: seen.append((name, value.shape)))
    executor.reshape(x=(5,), allow_up_sizing=True).forward()
    assert seen == [("e_output", (5,))]


def test_a_monitor_may_raise():
    executor = bound(mx.sym.exp(mx.sym.Variable("x")), x=array(2))

    def stop(name, value):
        raise StopIteration(name)

    executor.set_monitor_callback(stop)
    with pytest.raises(StopIteration):
        executor.forward()
    executor.set_monitor_callback(None)
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), np.exp(array(2)), rtol=1e-6)


def test_reshape_shares_parameters_and_memory():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    executor = bound(net, data=array(8, 5))
    executor.arg_dict["fc_weight"][:] = array(3, 5)
    smaller = executor.reshape(data=(2, 5))
    assert smaller.arg_dict["fc_weight"] is executor.arg_dict["fc_weight"]
    smaller.arg_dict["data"][:] = array(2, 5, seed=1)
    np.testing.assert_allclose(smaller.forward()[0].asnumpy(),
                               array(2, 5, seed=1) @ array(3, 5).T, rtol=1e-5, atol=1e-6)
    with pytest.raises(MXNetError, match="allow_up_sizing"):
        executor.reshape(data=(16, 5))
    with pytest.raises(MXNetError, match="fc_weight.*partial_shaping"):
        executor.reshape(data=(8, 4))
    assert executor.reshape(allow_up_sizing=True, data=(16, 5)).forward()[0].shape == (16, 3)
    changed = executor.reshape(partial_shaping=True, data=(8, 4))
    assert changed.arg_dict["fc_weight"].shape == (3, 4)


def test_auxiliary_states_and_copy_params():
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), fix_gamma=False, name="bn")
    executor = bound(net, data=array(4, 3))
    executor.copy_params_from({"bn_gamma": mx.nd.ones((3,))}, {"bn_moving_var": mx.nd.ones((3,))})
    assert executor.aux_dict["bn_moving_var"].asnumpy().tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="bn_gama.*bn_gamma"):
        executor.copy_params_from({"bn_gama": mx.nd.ones((3,))})
    executor.copy_params_from({"other": mx.nd.ones((3,))}, allow_extra_params=True)


MONITORED = {
    "Activation": (mx.sym.Activation, {"act_type": "relu"}, "input0"),
    "exp": (mx.sym.exp, {}, "input0"),
    "sum": (mx.sym.sum, {}, "input0"),
    "Flatten": (mx.sym.Flatten, {}, "input0"),
    "LeakyReLU": (mx.sym.LeakyReLU, {}, "data"),
    "softmax": (mx.sym.softmax, {}, "data"),
    "Dropout": (mx.sym.Dropout, {}, "data"),
    "squeeze": (mx.sym.squeeze, {}, "data"),
    "concat": (mx.sym.concat, {}, "arg0"),
}


@pytest.mark.parametrize("name", MONITORED)
def test_a_monitor_of_everything_names_inputs_as_mxnet_does(name):
    function, params, given = MONITORED[name]
    executor, seen = bound(function(mx.sym.Variable("x"), name="n", **params), x=array(2, 3)), []
    executor.set_monitor_callback(lambda name, value: seen.append(name), monitor_all=True)
    executor.forward()
    assert seen[:3] == ["x", f"n_{given}", "n_output"]


def test_monitor_sees_every_output():
    seen = []
    executor = bound(residual(), data=array(4, 6), shared_weight=array(6, 6), label=array(4, 6))
    executor.set_monitor_callback(lambda name, value: seen.append((name, value.shape)))
    executor.forward(is_train=True)
    executor.backward()
    assert ("act_output", (4, 6)) in seen and ("loss_output", (4, 6)) in seen
    assert ("act_backward_output", (4, 6)) in seen


def test_a_view_of_an_argument_as_output_does_not_alias_it():
    executor = bound(mx.sym.reshape(mx.sym.Variable("x"), shape=(3, 2)), x=array(2, 3))
    out = executor.forward()[0]
    executor.arg_dict["x"][:] = 7
    assert not np.any(out.asnumpy() == 7)


def test_the_plan_holds_and_can_be_shown(tmp_path):
    executor = bound(residual(), data=array(4, 6), shared_weight=array(6, 6), label=array(4, 6))
    keep = set(executor.compiled.graph.output_ids[:len(executor.outputs)])
    check_plan(executor.compiled.plan_steps, executor.compiled.sizes, executor.compiled.plan, keep)
    text = executor.debug_str()
    assert "fc1 (FullyConnected)" in text and "-- backward --" in text
    # As detection scripts read MXNet's text (int(text.split("\n")[-3].split()[1])).
    *_, total, temporary, end = text.split("\n")
    assert re.fullmatch(r"Total \d+ MB allocated", total)
    assert re.fullmatch(r"Total \d+ TempSpace resource requested", temporary) and not end
    chart = executor.plan_chart(tmp_path / "plan.svg")
    assert chart.startswith("<svg") and (tmp_path / "plan.svg").read_text() == chart


MISUSES = [
    (lambda e: e.backward(1.0), TypeError, "out_grads is a float"),
    (lambda e: e.backward([1.0]), TypeError, "head gradient of 'fc_output' is a float"),
    (lambda e: e.backward(np.ones((2, 4))), TypeError, "out_grads is a ndarray"),
    (lambda e: e.backward({"fc_outptu": mx.nd.ones((2, 4))}), MXNetError, "fc_output.*needed"),
    (lambda e: e.copy_params_from({"fc_weight": mx.nd.ones((3, 3))}), MXNetError,
     r"fc_weight has shape \(3, 3\), bound with \(4, 3\)"),
    (lambda e: e.copy_params_from({"fc_weight": np.ones((4, 3))}), TypeError, "fc_weight is a nda"),
    (lambda e: e.set_monitor_callback(3), TypeError, "callback is a int"),
    (lambda e: e.reshape(), MXNetError, "reshape: cannot infer the shape of data"),
    (lambda e: e.reshape(data=5), TypeError, "shape of data is 5"),
    (lambda e: e._symbol.simple_bind(mx.cpu(), shared_exec=3, data=(2, 3)), TypeError,
     "shared_exec is a int"),
    (lambda e: e._symbol.simple_bind(mx.cpu(), shared_buffer=3, data=(2, 3)), ValueError,
     "shared_buffer is a int"),
]


@pytest.mark.parametrize("misuse, error, text", MISUSES)
def test_misuse_is_named_and_changes_nothing(misuse, error, text):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc")
    executor = bound(net, data=array(2, 3), fc_weight=array(4, 3))
    want = executor.forward(is_train=True)[0].asnumpy()
    with pytest.raises(error, match=text):
        misuse(executor)
    np.testing.assert_array_equal(executor.outputs[0].asnumpy(), want)
    executor.backward(mx.nd.ones((2, 4)))
    np.testing.assert_array_equal(executor.grad_dict["fc_bias"].asnumpy(), [2, 2, 2, 2])
    executor.reshape(data=[1, 3])


BAD_BINDS = [
    ("misspelt", dict(date=(2, 3)), MXNetError, "data.*given.*date"),
    ("incomplete", dict(fc_weight=(4, 5)), MXNetError, "data"),
    ("conflict", dict(data=(2, 3), fc_weight=(4, 5)), MXNetError, r"fc \(FullyConnected\).*weight"),
]


@pytest.mark.parametrize("shapes, error, text", [row[1:] for row in BAD_BINDS],
                         ids=[row[0] for row in BAD_BINDS])
def test_bind_errors_name_the_argument(shapes, error, text):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc")
    with pytest.raises(error, match=text):
        net.simple_bind(mx.cpu(), **shapes)


def test_scripts_read_the_context_of_an_executor():
    assert mx.sym.Variable("x").simple_bind(mx.cpu(1), x=(1,))._ctx == mx.cpu(1)


def test_monitors_decode_the_names_they_get():
    seen = []
    executor = (mx.sym.Variable("x") * 2).simple_bind(mx.cpu(), x=(1,))
    executor.set_monitor_callback(lambda name, array: seen.append(mx.base.py_str(name)))
    executor.forward()
    assert len(seen) == 1 and seen[0].endswith("_output")


def test_bind_with_arrays_checks_them():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, no_bias=True, name="fc")
    good = {"data": mx.nd.ones((2, 3)), "fc_weight": mx.nd.ones((4, 3))}
    assert net.bind(mx.cpu(), good).forward()[0].asnumpy().tolist() == [[3.0] * 4] * 2
    assert net.bind(mx.cpu(), list(good.values())).grad_dict == {"data": None, "fc_weight": None}
    with pytest.raises(ValueError, match="fc_weight"):
        net.bind(mx.cpu(), {"data": good["data"]})
    with pytest.raises(ValueError, match="expected 2"):
        net.bind(mx.cpu(), [good["data"]])
    with pytest.raises(TypeError, match="NDArray"):
        net.bind(mx.cpu(), {**good, "data": np.ones((2, 3))})
    with pytest.raises(MXNetError, match="gradient of data.*expected"):
        net.bind(mx.cpu(), good, args_grad={"data": mx.nd.ones((1,))})
    with pytest.raises(MXNetError, match="gradient of data.*float64, expected float32"):
        net.bind(mx.cpu(), good, args_grad={"data": mx.nd.ones((2, 3), dtype="float64")})
    with pytest.raises(MXNetError, match="grad_req"):
        net.bind(mx.cpu(), good, grad_req="sometimes")
    with pytest.raises(MXNetError, match="forward: unknown argument"):
        net.bind(mx.cpu(), good).forward(date=mx.nd.ones((2, 3)))


def test_a_chain_of_20000_nodes_binds_and_runs_both_ways():
    x = mx.sym.Variable("x")
    for _ in range(20_000):
        x = x + 1
    executor = bound(x, x=np.zeros(3, np.float32))
    assert len(Graph(x.entries).nodes) == 20_001
    assert executor.compiled.plan.total_bytes < 10_000
    assert executor.forward(is_train=True)[0].asnumpy().tolist() == [20_000] * 3
    executor.backward(mx.nd.ones((3,)))
    assert executor.grad_dict["x"].asnumpy().tolist() == [1] * 3


def test_gpu_without_one_says_how_to_go_on(monkeypatch):
    if mx.num_gpus():
        pytest.skip("there is a GPU here")
    net = mx.sym.Variable("x") * 2
    with pytest.raises(MXNetError, match="mx.cpu.*NBMOD_GPU_TO_CPU=1"):
        net.simple_bind(mx.gpu(0), x=(2,))


@pytest.mark.parametrize("op", ["BatchNorm", "LayerNorm"])
def test_the_first_output_may_be_left_unread(op):
    net = getattr(mx.sym, op)(mx.sym.Variable("data"), output_mean_var=True, name="norm")[1]
    data = array(4, 3)
    executor = bound(net, data=data)
    mean = executor.forward(is_train=True)[0].asnumpy()
    np.testing.assert_allclose(mean.ravel(), data.mean(axis=0 if op == "BatchNorm" else 1),
                               rtol=1e-5, atol=1e-7)


def test_scratch_keeps_its_size_when_the_number_of_threads_changes():
    """Workspace is planned for one thread; later runs with more threads must not need more."""
    def gradients(while_bound, while_run):
        set_num_threads(while_bound)
        net = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=8, kernel=(3, 3), name="conv")
        net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
        executor = net.simple_bind(mx.cpu(), data=(4, 3, 16, 16))
        for number, array in enumerate(executor.arg_arrays):
            array[:] = np.sin(np.arange(array.size) + number).reshape(array.shape)
        executor.release()
        set_num_threads(while_run)
        out = executor.forward(is_train=True)
        executor.backward(mx.nd.ones(out[0].shape))
        return [array.asnumpy() for array in [*out, *executor.grad_arrays]]

    most = num_threads()
    try:
        for one, other in zip(gradients(most, most), gradients(1, most), strict=True):
            np.testing.assert_array_equal(one, other)
    finally:
        set_num_threads(most)


def test_a_graph_without_outputs_runs():
    reset = mx.sym.reset_arrays(mx.sym.Variable("a"), num_arrays=1)
    executor = reset.bind(mx.cpu(), {"a": mx.nd.ones((2,))})
    assert executor.forward() == [] and Graph([]).num_entries == 0


def test_bind_prints_its_plan_where_that_is_asked(monkeypatch, capsys):
    monkeypatch.setattr(CONFIG, "debug", 1)
    mx.sym.exp(mx.sym.Variable("x"), name="y").simple_bind(mx.cpu(), x=(16,), grad_req="null")
    assert capsys.readouterr().out == (
        "bind y on cpu(0): x (16,) -> y_output (16,) 1 steps, 64 bytes of memory for results\n")


def test_an_executor_says_that_it_is_interpreted():
    layer = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=2, name="fc")
    with mx.np_shape():
        executor = layer.simple_bind(mx.cpu(), x=(0, 3))
    assert not executor.is_planned and layer.simple_bind(mx.cpu(), x=(1, 3)).is_planned
    assert "Interpreted: nodes run one by one" in executor.debug_str()
    with pytest.raises(mx.MXNetError, match="fc: nodes are interpreted .* no plan; see debug_str"):
        executor.plan_chart()


@pytest.mark.parametrize("net", [
    mx.sym.Variable("a") * mx.sym.Variable("b"),
    mx.sym.sigmoid(mx.sym.Variable("a")) * mx.sym.tanh(mx.sym.Variable("b"))])
@pytest.mark.parametrize("size", [8, 5000])     # NumPy, and one kernel for both gradients
def test_one_array_for_several_gradients_has_their_sum(net, size):
    """Layers share a weight by its arrays: bind(args={"a": w, "b": w}, args_grad=...)."""
    args = {name: mx.nd.array(array(size, seed=seed)) for seed, name in enumerate("ab")}
    found = []
    for grads in ({name: mx.nd.zeros(size) for name in "ab"},
                  dict.fromkeys("ab", mx.nd.zeros(size))):
        executor = net.bind(mx.cpu(), args, grads, "add")
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones(size))
        found.append([grad.asnumpy() for grad in grads.values()])
    np.testing.assert_array_equal(found[1][0], sum(found[0]))


@pytest.mark.parametrize("requests", [("add", "add"), ("write", "add"), ("write", "write")])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("op", ["dot", "FullyConnected", "LinearRegressionOutput"])
def test_one_array_for_the_gradients_of_one_layer(op, dtype, requests):
    """They are written in turn, also where the layer computes with copies."""
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    options = {"num_hidden": 4, "no_bias": True} if op == "FullyConnected" else {}
    net = getattr(mx.sym, op)(a, b, **options)
    args = {name: mx.nd.array(array(4, 4, seed=seed).round(), dtype=dtype)
            for seed, name in enumerate("ab")}
    apart, one = ({name: mx.nd.ones((4, 4), dtype=dtype) for name in "ab"} for _ in range(2))
    one = dict.fromkeys("ab", one["a"])
    for grads, requested in ((apart, "write"), (one, dict(zip("ab", requests, strict=True)))):
        executor = net.bind(mx.cpu(), args, grads, requested)
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((4, 4), dtype=dtype))
    expected = {("add", "add"): apart["a"] + apart["b"] + 1, ("write", "write"): apart["b"],
                ("write", "add"): apart["a"] + apart["b"]}[requests]
    np.testing.assert_array_equal(one["a"].asnumpy(), expected.asnumpy())


def test_outputs_that_are_renewed_are_not_differentiated():
    """A gradient reads the output, whose new array has nothing yet."""
    executor = bound(mx.sym.softmax(mx.sym.Variable("x")), x=array(2, 3))
    executor.forward(is_train=True)
    executor.renew_outputs()
    with pytest.raises(MXNetError, match="call forward"):
        executor.backward(mx.nd.ones((2, 3)))


@pytest.mark.parametrize("op, shapes, options, result", [
    ("dot", [(2, 0), (0, 3)], {}, (2, 3)), ("dot", [(0,), (0,)], {}, (1,)),
    ("dot", [(2, 2, 0), (0, 3)], {}, (2, 2, 3)), ("dot", [(2, 0), (0,)], {}, (2,)),
    ("dot", [(0, 2), (0, 3)], {"transpose_a": True}, (2, 3)),
    ("dot", [(2, 0), (3, 0)], {"transpose_b": True}, (2, 3)),
    ("batch_dot", [(2, 3, 0), (2, 0, 4)], {}, (2, 3, 4)),
    ("linalg_gemm2", [(2, 0), (0, 3)], {}, (2, 3)),
    ("FullyConnected", [(2, 0), (3, 0)], {"num_hidden": 3, "no_bias": True}, (2, 3))])
def test_products_over_no_elements_are_zero(op, shapes, options, result):
    """MXNet ends its process at dot."""
    with mx.np_shape():
        a, b = map(mx.nd.zeros, shapes)
        net = getattr(mx.sym, op)(mx.sym.Variable("a"), mx.sym.Variable("b"), **options)
        executor = net.bind(mx.cpu(), {"a": a, "b": b}, {"a": a.copy(), "b": b.copy()})
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones(result))
        for out in (executor.outputs[0], getattr(mx.nd, op)(a, b, **options)):
            assert out.asnumpy().tolist() == np.zeros(result).tolist()
