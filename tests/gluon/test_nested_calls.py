"""Hybridized calls inside operators, workers and other modes, and on arrays that alias."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod import autograd, gluon
from nbmod.gluon import nn

WIDTH = 8
X = mx.nd.array(np.random.RandomState(0).rand(3, WIDTH))


def network(hybrid, *extra):
    net = nn.HybridSequential()
    net.add(nn.Dense(WIDTH, "tanh", in_units=WIDTH), *extra,
            nn.Dense(WIDTH, "tanh", in_units=WIDTH), nn.Dense(WIDTH, in_units=WIDTH))
    net.initialize(mx.init.Constant(0.1))
    net[0].weight.set_data(mx.nd.array(np.random.RandomState(1).rand(WIDTH, WIDTH)))
    net.hybridize(hybrid)
    return net


def marked(request="write"):
    x = X.copy()
    x.attach_grad(request)
    return x


def recorded_values_in_parameters(hybrid):
    """A parameter without gradient whose value is recorded, as in networks that make weights."""
    net, x, seen = network(hybrid), marked(), []
    net[0].weight.grad_req = "null"
    for factor in (0, 1, 2, 0):
        with autograd.record():
            if factor:
                net[0].weight.data()[:] = mx.nd.dot(x, x, transpose_a=True) * factor
            y = net(X)
        plain = net(X)
        y.backward()
        seen += [y, plain, x.grad.copy(), net[1].weight.grad().copy()]
    return seen


def outputs_written_before_backward(hybrid):
    net, x = network(hybrid), marked()
    with autograd.record():
        y = net(x)
        z = y * 2
    y[:] = 0
    z.backward()
    return [x.grad, net[0].weight.grad()]


def calls_in_nested_pauses(hybrid):
    net, x = network(hybrid, nn.BatchNorm(in_channels=WIDTH)), marked()
    with autograd.record():
        y = net(x)
        with autograd.pause():
            constant = net(x)
            with autograd.record():
                inner = net(constant)
        with autograd.pause(train_mode=True):
            batch = net(x)
        z = net(y * constant + inner * batch)
    z.backward()
    return [z, x.grad, net(X), *[each.grad() for each in net.collect_params("dense").values()]]


class CallsBlock(mx.operator.CustomOp):
    """Calls a block, and differentiates it, inside an operator."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], self.block(in_data[0]))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        x = in_data[0].copy()
        x.attach_grad()
        with autograd.record():
            y = self.block(x)
        y.backward(out_grad[0])
        self.assign(in_grad[0], req[0], x.grad)


class AroundCustom(gluon.HybridBlock):
    """An operator that calls a block, in a network of its own."""

    def __init__(self, op_type):
        super().__init__()
        self.first, self.op_type = nn.Dense(WIDTH, in_units=WIDTH), op_type

    def hybrid_forward(self, F, x):
        return F.tanh(F.Custom(F.tanh(self.first(x)), op_type=self.op_type))


def calls_inside_an_operator(hybrid):
    inner, name = network(hybrid), f"calls_block_{hybrid}"

    class Properties(mx.operator.CustomOpProp):
        def create_operator(self, *args):
            return CallsBlock(inner)

    mx.operator.register(name)(Properties)
    outer, x, seen = AroundCustom(name), marked("add"), []
    outer.initialize(mx.init.Constant(0.1))
    outer.hybridize(hybrid)
    for _ in range(2):
        with autograd.record():
            other = inner(x)        # in flight while the operator calls the same block
            y = outer(x)
        y.backward()
        seen += [y, other, x.grad.copy(), outer.first.weight.grad().copy(),
                 inner[0].weight.grad().copy()]
    return seen


def calls_in_workers(hybrid):
    net, seen = network(hybrid), []
    samples = gluon.data.SimpleDataset([each.asnumpy()[None] for each in X] * 4)
    for options in ({"num_workers": 2, "thread_pool": True}, {"num_workers": 1}, {}):
        called = samples.transform(lambda each: net(mx.nd.array(each))[0])
        for batch in gluon.data.DataLoader(called, 6, **options):
            with autograd.record():
                y = net(batch)      # on a context of shared memory
            y.backward()
            seen += [y, net[0].weight.grad().copy()]
    return seen


def aliases(hybrid):
    """Parameters as inputs, and one array for several."""
    class Product(gluon.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.tanh(F.exp(F.sin(x * y))), y

    net, product, x = network(hybrid), Product(), marked()
    product.hybridize(hybrid)
    weight = net[0].weight.data()
    with autograd.record():
        first, second = product(x, x)
        y = net(net(weight) + weight).sum() + net(first * second).sum()
    slope, = autograd.grad(y, [weight], retain_graph=True)
    autograd.backward([y, y], [mx.nd.ones(1), mx.nd.ones(1) * 2])
    return [y, slope, x.grad, *[each.grad() for each in net.collect_params().values()]]


class Cubed(gluon.Parameter):
    """A weight that is computed for each call, as by dropout of weights."""

    def data(self, ctx=None):
        return super().data(ctx) ** 3


def values_computed_for_each_call(hybrid):
    """Such a weight is trained, shared by two layers, read in both modes and assigned."""
    net, seen = nn.HybridSequential(), []
    layer = nn.Dense(WIDTH, "tanh")
    name = layer.weight.name
    weight = Cubed(name, shape=(WIDTH, 0), allow_deferred_init=True)
    layer.params._params[name] = layer._reg_params["weight"] = weight
    object.__setattr__(layer, "weight", weight)
    net.add(layer, nn.Dense(WIDTH, "tanh", params=layer.params))
    net.initialize(mx.init.Constant(0.1))
    net.hybridize(hybrid)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    for number in range(3):
        seen.append(net(X))
        with autograd.record():
            y = net(X)
        y.backward()
        trainer.step(1)
        seen += [y, weight.grad().copy(), weight.list_data()[0].copy()]
        if number == 1:
            weight.set_data(mx.nd.ones((WIDTH, WIDTH)) / 2)
    return seen


@pytest.mark.parametrize("program", [
    recorded_values_in_parameters, values_computed_for_each_call, outputs_written_before_backward,
    calls_in_nested_pauses, calls_inside_an_operator, calls_in_workers, aliases],
    ids=lambda each: each.__name__)
def test_hybridized_calls_equal_eager_ones(program):
    eager, hybrid = program(False), program(True)
    assert any(each.asnumpy().any() for each in eager)
    for number, (one, other) in enumerate(zip(eager, hybrid, strict=True)):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=2e-5, atol=1e-6,
                                   err_msg=f"result {number}")


def test_recorded_values_in_parameters_compile_once(monkeypatch):
    from nbmod.execution import programs

    compiled, compile_graph = [], programs.compile_graph
    monkeypatch.setattr(programs, "compile_graph",
                        lambda *args: compiled.append(args) or compile_graph(*args))
    recorded_values_in_parameters(True)
    assert len(compiled) == 3   # plain; recorded; recorded with gradients of a parameter


@pytest.mark.parametrize("ctx", [mx.context.cpu_shared(0), mx.cpu_pinned(0)], ids=str)
def test_memory_of_the_host_is_computed_with_parameters_on_the_cpu(ctx):
    """As eagerly in MXNet, which refuses it in hybridized calls."""
    for hybrid in (False, True):
        net = network(hybrid)
        np.testing.assert_array_equal(net(X.as_in_context(ctx)).asnumpy(), net(X).asnumpy())
        assert net[0].weight.data(ctx) is net[0].weight.data()
        assert net[0].weight.grad(ctx) is net[0].weight.grad()
