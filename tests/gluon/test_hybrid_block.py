"""Hybridized calls equal eager ones, and traces are those of MXNet."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from itertools import product

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import py_str
from tests.compare import assert_like, assert_same
from tests.programs import gluon_blocks

CLASSES = gluon_blocks.networks(mx)
FLAGS = [{"static_alloc": a, "static_shape": b} for a, b in product((False, True), repeat=2)]


def data():
    return mx.nd.array(gluon_blocks.data())


def test_structures_are_those_of_mxnet(oracle):
    assert_like(gluon_blocks.structures(mx), oracle.call("mx_gluon.structures"))


@pytest.mark.parametrize("hybrid", [False, True])
def test_values_are_drawn_in_the_order_of_mxnet(oracle, hybrid):
    theirs = oracle.call("mx_scripts.run", "gluon_blocks", "order_of_values", hybrid)
    assert gluon_blocks.order_of_values(mx, hybrid) == theirs


def test_functions_are_the_modules_that_users_compare_them_with():
    class Asks(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            seen.append(F)
            return x + 1

    seen = []
    block = Asks()
    block(data())
    block(mx.sym.var("x"))
    assert seen[0] is mx.nd and seen[1] is mx.sym


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("mode", ["predict", "train", "record", "record predict"])
def test_hybridized_calls_are_eager_ones(mode, flags):
    """Outputs, gradients of data and parameters, and statistics; passes may change last bits."""
    eager, net = gluon_blocks.made(mx), gluon_blocks.made(mx)
    net.hybridize(**flags)
    answers = []
    for fresh in (eager, net, net):  # the second call finds what the first one made
        x = data()
        x.attach_grad()
        gluon_blocks.fill(fresh, mx)
        fresh.norm.running_mean.set_data(mx.nd.zeros(3))
        fresh.norm.running_var.set_data(mx.nd.ones(3))
        if mode.startswith("record"):
            with mx.autograd.record(train_mode=mode == "record"):
                out = fresh(x)
                value = (out * out).sum()
            value.backward()
        else:
            with mx.autograd.train_mode() if mode == "train" else mx.autograd.predict_mode():
                out = fresh(x)
        answers.append([out.asnumpy(), x.grad.asnumpy(),
                        *(each.data().asnumpy() for each in fresh.collect_params().values()),
                        *(each.grad().asnumpy() for each in fresh.collect_params().values()
                          if each.grad_req != "null")])
    for other in answers[1:]:
        for number, (found, expected) in enumerate(zip(other, answers[0], strict=True)):
            assert_same(found, expected, 1e-5, f"array {number}")


def test_outputs_are_arrays_of_their_own():
    net = gluon_blocks.made(mx)
    net.hybridize(static_alloc=True, static_shape=True)
    first = net(data())
    kept = first.asnumpy()
    net(data() * 2)
    assert (first.asnumpy() == kept).all()


def test_two_calls_are_recorded_before_a_backward():
    gradients = []
    for active in (False, True):
        net = gluon_blocks.made(mx)
        net.hybridize(active)
        with mx.autograd.record(train_mode=False):
            value = (net(data()) * net(data() + 1)).sum()
        value.backward()
        gradients.append(net.first.weight.grad().asnumpy())
    assert_same(gradients[1], gradients[0], 1e-5, "gradient")


def test_shapes_are_found_by_the_first_call_in_both_modes():
    for active in (False, True):
        net = CLASSES["Net"](prefix="net_")
        net.initialize()
        net.hybridize(active)
        assert net.first.weight.shape == (3, 0)
        with pytest.raises(mx.gluon.DeferredInitializationError):
            net.first.weight.data()
        net(data())
        assert net.first.weight.shape == (3, 4) and net.norm.gamma.shape == (3,)
    net = CLASSES["Net"]()
    net.infer_shape(data())
    assert net.first.weight.shape == (3, 4)


def test_one_seed_gives_one_network_in_both_modes():
    nets = []
    for active in (False, True):
        mx.random.seed(3)
        net = CLASSES["Net"](prefix="net_")
        net.initialize()
        net.hybridize(active)
        net(data())
        nets.append([each.data().asnumpy() for each in net.collect_params().values()])
    for found, expected in zip(*nets, strict=True):
        assert (found == expected).all()


def test_what_is_not_used_is_warned_of_and_computes_even_with_deferred_shapes():
    class Part(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.used, self.unused = CLASSES["Affine"](2), CLASSES["Affine"](3, prefix="unused_")

        def hybrid_forward(self, F, x, y):
            return self.used(x)

    net = Part()
    net.initialize()
    net.hybridize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = net(data(), data())
    assert out.shape == (5, 2) and [str(each.message) for each in caught] == [
        "The 1-th input to HybridBlock is not used by any computation. Is this intended?",
        "Parameter unused_bias, unused_weight is not used by any computation. Is this intended?"]
    with pytest.raises(mx.gluon.DeferredInitializationError):
        net.unused.weight.data()


def test_traces_are_dropped_where_they_would_be_wrong():
    net, x = gluon_blocks.made(mx), data()
    net.hybridize()
    before = net(x).asnumpy()
    net.last = type(net.last)(2, 3, prefix="new_")
    net.last.initialize(mx.init.One())
    changed = net(x).asnumpy()
    assert (changed != before).any() and net._cached_graph[1].name == "new_fwd"
    net.cast("float64")
    assert net(x.astype("float64")).dtype == np.float64
    net.hybridize(False)
    assert_same(net(x.astype("float64")).asnumpy().astype("float32"), changed, 1e-5, "cast")


def test_values_requests_and_devices_of_parameters_change_after_a_trace():
    net, x = gluon_blocks.made(mx), data()
    net.hybridize()
    before = net(x).asnumpy()
    net.last.bias.set_data(net.last.bias.data() + 1)
    assert_same(net(x).asnumpy(), before + 1, 1e-5, "set_data")
    net.collect_params(".*weight|.*bias").setattr("grad_req", "add")
    for _ in range(2):
        with mx.autograd.record():
            value = net(x).sum()
        value.backward()
    assert (net.last.bias.grad().asnumpy() == 10).all()
    net.collect_params().reset_ctx([mx.cpu(1), mx.cpu(2)])
    for ctx in (mx.cpu(1), mx.cpu(2)):
        out = net(x.as_in_context(ctx))
        assert out.context == ctx
    net.initialize(mx.init.Zero(), force_reinit=True)
    assert not net(x).asnumpy().any()


def test_several_devices_have_gradients_of_their_own():
    net = CLASSES["Affine"](2, 4)
    contexts = [mx.cpu(0), mx.cpu(1)]
    net.initialize(ctx=contexts)
    net.hybridize()
    with mx.autograd.record():
        values = [net(mx.nd.ones((1, 4), ctx) * (number + 1)).sum()
                  for number, ctx in enumerate(contexts)]
    mx.autograd.backward(values)
    assert [x.asnumpy().ravel()[0] for x in net.weight.list_grad()] == [1, 2]


@pytest.mark.parametrize("memory", ["cpu_pinned", "cpu_shared"])
@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("units", [0, 4])
def test_arrays_of_loaders_are_computed_with_on_the_cpu(memory, hybridized, units):
    """Shared and pinned memory, whatever its number; MXNet's hybridized calls refuse it."""
    net, loss_of = mx.gluon.nn.Dense(2, in_units=units), mx.gluon.loss.L2Loss()
    net.initialize(mx.init.One())
    if hybridized:
        net.hybridize(inline_limit=0)
        loss_of.hybridize(inline_limit=0)
    x = mx.nd.ones((2, 4)).as_in_context(mx.Context(memory, 1))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
        loss = loss_of(y, mx.nd.zeros((2, 2)).as_in_context(mx.Context(memory, 0)))
    loss.backward()
    assert [each.context for each in (x + 1, y, loss)] == [mx.cpu()] * 3
    assert y.asnumpy().tolist() == [[4] * 2] * 2 and x.grad.asnumpy().tolist() == [[4] * 4] * 2
    assert net.weight.grad().asnumpy().tolist() == [[4] * 4] * 2
    assert net.weight.data(x.context) is net.weight.data(mx.cpu())


def test_errors_of_traces_name_the_block_and_keep_the_line_of_the_user():
    net = CLASSES["Net"](prefix="net_")

    class Wrong(type(net.first.act)):
        def hybrid_forward(self, F, x):
            return x.reshape(x.shape)

    net.first.act = Wrong(prefix="wrong_")
    net.initialize()
    net.hybridize()
    with pytest.raises(AttributeError, match=r"^'Symbol' object has no attribute 'shape' \(in "
                                             r"hybrid_forward of net\.first\.act: wrong, a Wrong"
                                             r".* symbols; .*reshape\(\(0, -1\)\)"
                       ) as caught:
        net(data())
    assert caught.traceback[-1].name != "name_block"
    assert any(entry.path.name == "test_hybrid_block.py" and entry.name == "hybrid_forward"
               for entry in caught.traceback)
    with pytest.raises(ValueError, match=r"^Deferred initialization failed because shape cannot"):
        net._deferred_infer_shape(data())


@pytest.mark.parametrize("layers", [mx.gluon.nn.Sequential, mx.gluon.nn.HybridSequential])
def test_errors_of_eager_calls_name_the_layer(layers):
    """Once, however many blocks are around it."""
    net = layers(prefix="net_")
    with net.name_scope():
        for inputs in (4, 5):
            net.add(mx.gluon.nn.Dense(3, in_units=inputs))
    net.initialize()
    with pytest.raises(mx.MXNetError, match=r"^FullyConnected: weight has shape \(3, 5\), expected "
                                            r"\(3, 3\).*: net_dense1, a Dense, called with "
                                            r"arrays\)$") as caught:
        net(mx.nd.ones((2, 4)))
    assert str(caught.value).count("hybrid_forward") == 1


def test_hooks_of_operators_see_all_arrays_by_mxnets_names():
    net, names = gluon_blocks.made(mx), []
    net.register_op_hook(lambda name, op, array: names.append((py_str(name), py_str(op),
                                                                array.shape)))
    net(data())
    assert not names  # only hybridized calls have operators to show
    net.hybridize()
    net(data())
    assert ("net_affine0_fwd_output", "FullyConnected", (5, 3)) in names
    assert ("net_affine0_act_fwd_output", "Activation", (5, 3)) in names
    assert not any(name.endswith(("_data", "_weight")) for name, _, _ in names)
    names.clear()
    net.register_op_hook(lambda name, op, array: names.append((py_str(name), py_str(op))),
                         monitor_all=True)
    net(data())
    assert [each for each in names if "affine0" in each[0]] == [
        ("net_affine0_fwd_data", "FullyConnected"), ("net_affine0_fwd_weight", "FullyConnected"),
        ("net_affine0_fwd_bias", "FullyConnected"), ("net_affine0_fwd_output", "FullyConnected"),
        ("net_affine0_act_fwd_input0", "Activation"),
        ("net_affine0_act_fwd_output", "Activation")]


def test_an_active_child_of_an_inactive_block_is_traced_by_itself():
    net = gluon_blocks.made(mx, "Outer")
    net.hybridize()
    assert not hasattr(net, "_cached_op") and net.body._active
    net(data())
    assert net.body._cached_op is not None and net.body.first._cached_op is None
    net.body.hybridize(False)
    net.body.first.hybridize()
    net(data())
    assert net.body._cached_op is None and net.body.first._cached_op is not None


def test_hooks_below_a_hybridized_block_are_warned_of():
    net = gluon_blocks.made(mx)
    net.last.register_forward_hook(print)
    with pytest.warns(UserWarning, match="is being hybridized while still having forward hook"):
        net.hybridize()


def test_back_ends_are_accepted_by_name():
    net = gluon_blocks.made(mx)
    net.hybridize(backend="MKLDNN")
    net.optimize_for(data(), backend="MKLDNN")
    assert net._cached_op is not None
    with pytest.raises(mx.MXNetError, match="backend is 'TensorRT', expected None or 'MKLDNN'"):
        net.hybridize(backend="TensorRT")
    with pytest.raises(ValueError, match='Must specify "backend" to optimize_for'):
        net.optimize_for(data())


@pytest.mark.parametrize("loss", [
    lambda net, dense, x: net(x).sum() + net(x * 10).sum(),
    lambda net, dense, x: (dense(net(x)) * net(x * 10)).sum(),
    lambda net, dense, x: (net(dense(net(x)) * 3 + x) * net(x * 10)).sum(),
    lambda net, dense, x: net(x).sum() + net(dense(x) * 10).sum() + net(x * 5).sum()])
def test_moving_averages_follow_the_order_of_eager_backward_passes(loss):
    """Backward passes of later calls come first, whether or not the data is on the tape."""
    averages = []
    for marked, active in product((False, True), repeat=2):
        net, dense = mx.gluon.nn.HybridSequential(), mx.gluon.nn.Dense(1, in_units=1)
        net.add(mx.gluon.nn.BatchNorm(momentum=0.5, in_channels=1),
                mx.gluon.nn.Activation("relu"), mx.gluon.nn.Activation("tanh"))
        for each in (net, dense):
            each.initialize(mx.init.One())
        net.hybridize(active)
        x = mx.nd.array([[1], [3]])
        if marked:
            x.attach_grad()
        with mx.autograd.record():
            value = loss(net, dense, x)
        value.backward()
        averages.append([net[0].running_mean.data().asscalar(),
                         net[0].running_var.data().asscalar()])
    np.testing.assert_allclose(averages[1::2], averages[::2], rtol=1e-5)  # float32


def test_threads_share_a_network():
    net, x, answers = gluon_blocks.made(mx), data(), []
    expected = [net(x + number).asnumpy() for number in range(4)]
    net.hybridize(static_alloc=True)

    def call(number):
        for _ in range(20):
            answers.append((number, net(x + number).asnumpy()))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(answers) == 80
    for number, found in answers:
        assert_same(found, expected[number], 1e-5, f"thread {number}")


def test_a_symbol_block_is_called_within_blocks_and_composed():
    inner = gluon_blocks.made(mx)
    block = mx.gluon.SymbolBlock(inner(mx.sym.var("x")), mx.sym.var("x"),
                                 params=inner.collect_params())

    class Around(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.block = block

        def hybrid_forward(self, F, x):
            return [self.block(x), x * 2]

    net, x = Around(), data()
    eager = [each.asnumpy() for each in net(x)]
    net.hybridize()
    for found, expected in zip(net(x), eager, strict=True):
        assert_same(found.asnumpy(), expected, 1e-5, "output")
    assert (eager[0] == inner(x).asnumpy()).all()
    assert block.collect_params()["net_last_bias"] is inner.last.bias


def test_a_symbol_block_has_nested_inputs_and_outputs():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    block = mx.gluon.SymbolBlock([a + b, [a * 2, b]], [a, [b]])
    x = mx.nd.ones((2, 2))
    total, (double, same) = block(x, [x * 3])
    assert [each.asnumpy()[0, 0] for each in (total, double, same)] == [4, 2, 3]
    composed = block(mx.sym.var("p"), [mx.sym.var("q")])
    assert composed[0].list_arguments() == ["p", "q"] and composed[1][1].name == "q"
    with pytest.raises(ValueError, match="argument structure of HybridBlock does not match"):
        block(x, x)
    with pytest.raises(AssertionError, match="Input symbols must be variable, but _plus"):
        mx.gluon.SymbolBlock(a + b, a + b)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_a_symbol_block_is_copied_with_its_trace(duplicate):
    block = mx.gluon.SymbolBlock(gluon_blocks.made(mx)(mx.sym.var("x")), mx.sym.var("x"))
    block.initialize(mx.init.One())
    expected = block(data()).asnumpy()
    twin = duplicate(block)
    assert (twin(data()).asnumpy() == expected).all()
    twin.collect_params()["net_last_bias"].set_data(mx.nd.ones(2) * 2)
    assert (block(data()).asnumpy() == expected).all() and (twin(data()).asnumpy() > expected).all()


def test_none_may_be_among_the_results():
    class Some(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return [None, x * 2, [None, x + 1]]

    block = Some()
    for active in (False, True):
        block.hybridize(active)
        first, double, (second, more) = block(data())
        assert first is None and second is None
        assert (double.asnumpy() == gluon_blocks.data() * 2).all()
        assert (more.asnumpy() == gluon_blocks.data() + 1).all()


def test_children_are_asked_for_their_parameters():
    class Hidden(type(gluon_blocks.made(mx).last)):
        def collect_params(self, select=None):
            return super().collect_params("(?!.*bias)" + (select or ""))

    net = gluon_blocks.made(mx)
    with net.name_scope():
        outer = mx.gluon.nn.HybridSequential()
        with outer.name_scope():
            outer.add(Hidden(2, 3, prefix="h_"))
    assert [name.rpartition("_")[2] for name in outer.collect_params()] == ["weight"]


def test_a_block_that_changes_within_a_traced_one_is_traced_again():
    """MXNet goes on with the trace of the blocks around it."""
    def dense(value):
        layer = mx.gluon.nn.Dense(4, in_units=4)
        layer.initialize(mx.init.Constant(value))
        return layer

    class Inner(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layers = mx.gluon.nn.HybridSequential()
            self.layers.add(dense(0.1))
            self.last = dense(0.2)

        def hybrid_forward(self, F, x):
            return F.tanh(self.last(F.exp(self.layers(x))))

    def results(hybrid):
        outer, inner, x = mx.gluon.nn.HybridSequential(), Inner(), mx.nd.ones((2, 4))
        outer.add(inner, dense(0.3))
        around = mx.gluon.nn.HybridSequential()
        around.add(outer)
        around.hybridize(hybrid)
        found = [around(x)]
        for change in (lambda: setattr(inner, "last", dense(-0.1)),
                       lambda: inner.layers.add(dense(0.4)), lambda: outer.add(dense(0.5)),
                       lambda: setattr(inner, "last", dense(-0.3))):
            change()
            found += [around(x), copy.deepcopy(around)(x)]
        around.cast("float64")
        return [*found, around(x.astype("float64"))]

    for eager, hybrid in zip(results(False), results(True), strict=True):
        np.testing.assert_allclose(eager.asnumpy(), hybrid.asnumpy(), rtol=1e-5)
