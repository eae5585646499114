"""Hybridized blocks on the tape: random programs equal eager ones, whatever is called how often."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod import autograd, gluon
from nbmod.gluon import nn
from tests.call_counts import calls_of
from tests.programs import gluon_tapes
from tests.programs.gluon_lives import Life
from tests.programs.gluon_tapes import Tape

SEEDS, LIVES = 20, (102, 106, 121, 127, 145, 173)


def test_random_programs_equal_eager_ones():
    """Also where parameters are written between forward and backward, and between backwards."""
    written = 0
    for seed in range(SEEDS):
        with mx.exact():
            eager, hybrid = (Tape(mx, seed, active) for active in (False, True))
            for one, other in zip(eager.run(), hybrid.run(), strict=True):
                # passes keep bits; contributions to one gradient are added in another order, which
                # divisions by small deviations of batches magnify
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4, err_msg=f"{seed}")
        written += hybrid.writes
    assert written > SEEDS


def test_random_programs_are_those_of_mxnet(oracle):
    """Some in which parameters are written between backward passes of one call."""
    theirs = oracle.call("mx_scripts.run", "gluon_tapes", "answers")
    for one, other in zip(gluon_tapes.answers(mx), theirs, strict=True):
        for mine, expected in zip(one, other, strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-2, atol=1e-2)    # as above


def test_networks_that_change_meanwhile_equal_eager_ones():
    """Cast, moved, copied, loaded, stepped while calls of them are on the tape, some of loops and
    recurrent layers in networks with sparse gradients."""
    events = set()
    for seed in LIVES:
        with mx.exact():
            eager, hybrid = (Life(mx, seed, active) for active in (False, True))
            for one, other in zip(eager.run(), hybrid.run(), strict=True):
                # sums of float64 in another order
                np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9, err_msg=f"{seed}")
        assert eager.events == hybrid.events
        events |= {*hybrid.events}
    assert len(events) == 10


def perceptron():
    """Three layers, whose plan overwrites what its backward pass reads."""
    net = nn.HybridSequential()
    net.add(nn.Dense(16, "tanh", in_units=16), nn.Dense(16, "tanh", in_units=16),
            nn.Dense(16, in_units=16))
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    return net


def recorded(net, x):
    x.attach_grad()
    with autograd.record():
        return net(x)


def test_retained_values_are_copies_until_the_last_backward():
    net, x = perceptron(), mx.nd.random.uniform(shape=(3, 16))
    y, gradients = recorded(net, x), []
    program = net.executor.planned
    assert program.compiled.overwritten
    for retains in (True, True, False):
        y.backward(retain_graph=retains)
        gradients.append(x.grad.asnumpy())
        assert bool(program._kept) == retains
        net[1].weight.data()[:] *= 1.5      # read as it is at present, as by the operators
    assert not np.array_equal(gradients[0], gradients[1])
    with pytest.raises(mx.MXNetError, match="no graph any more"):
        y.backward()


def test_monitored_and_sparse_networks_retain_values():
    def gradients(hybrid, monitored):
        mx.random.seed(0)
        net = nn.HybridSequential()
        net.add(nn.Embedding(20, 4, sparse_grad=monitored is None), nn.Flatten(), perceptron(),
                nn.Dense(2, in_units=16))
        net.initialize(mx.init.Uniform(0.5), force_reinit=True)
        net.hybridize(hybrid)
        seen = []
        if monitored:
            net.register_op_hook(lambda *names: seen.append(names))
        with autograd.record():
            y = net(mx.nd.array([[1, 2, 3, 4], [4, 2, 1, 0]]))
        found = []
        for retains in (True, True, False):
            y.backward(retain_graph=retains)
            found += [each.grad().asnumpy() for each in net.collect_params().values()]
            net[2][1].weight.data()[:] *= 1.5
        assert bool(seen) == bool(hybrid and monitored)
        return found

    for monitored in (None, True, False):
        for one, other in zip(gradients(False, monitored), gradients(True, monitored), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_second_backward_after_a_failed_one_is_an_error():
    class Fails(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, dy):
            raise ValueError("backward fails")

    net, x = perceptron(), mx.nd.random.uniform(shape=(3, 16))
    x.attach_grad()
    with autograd.record():
        y = net(Fails()(x))
    with pytest.raises(ValueError, match="backward fails"):
        y.backward()
    with pytest.raises(mx.MXNetError, match="results are overwritten"):
        y.backward()


def test_gradients_of_gradients_after_a_parameter_was_written_are_refused():
    net, x = perceptron(), mx.nd.random.uniform(shape=(3, 16))
    y, again = recorded(net, x), net(x)
    slope, = autograd.grad(y, [x], create_graph=True)
    assert not np.array_equal(slope.asnumpy(), 0 * slope.asnumpy()) and again.shape == y.shape
    net[0].weight.data()[:] *= 1.001
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="written since|no graph any more"):
            autograd.grad(y, [x], create_graph=True)


def test_a_hybridized_step_makes_few_calls_besides_those_of_executors():
    """Calls and returns are counted, as times depend on the machine: 956 in Python 3.11."""
    net, loss = nn.Dense(3, in_units=4), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize()
    for block in (net, loss):
        block.hybridize(static_alloc=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    x, label = mx.nd.ones((2, 4)), mx.nd.zeros(2)

    def step():
        with autograd.record():
            value = loss(net(x), label)
        value.backward()
        trainer.step(2)

    def run():
        for block, head in ((net, mx.nd.ones((2, 3))), (loss, mx.nd.ones(2))):
            block.executor.forward(is_train=True)
            block.executor.backward([head])

    step()
    step()
    run()
    assert calls_of(step) - calls_of(run) < 1040


class Sums(mx.gluon.HybridBlock):
    """A loop over rows of a table."""

    def __init__(self, sparse):
        super().__init__(prefix="sums_")
        self.rows = nn.Embedding(4, 3, sparse_grad=sparse)
        self.initialize(mx.init.Constant(mx.nd.arange(12).reshape((4, 3)) / 10))
        self.hybridize()

    def hybrid_forward(self, F, x, start):
        return F.contrib.foreach(lambda row, total: (F.sin(row * total), row + total),
                                 self.rows(x), start)[0]


def test_loops_cannot_be_unfolded_and_say_so():
    net, start = Sums(False), mx.nd.ones((2, 3))
    start.attach_grad()
    with autograd.record(), pytest.raises(
            mx.MXNetError, match=r"sums__foreach0 .*create_graph.*without hybridize"):
        autograd.grad(net(mx.nd.array([[1, 2], [3, 1]]), start), [start], create_graph=True)


def test_sparse_gradients_of_predictions():
    """Also by a plan, which keeps what the backward pass reads."""
    gradients = []
    for sparse in (False, True):
        net = Sums(sparse)
        with autograd.record(train_mode=False):
            y = net(mx.nd.array([[1, 2], [3, 1]]), mx.nd.ones((2, 3)))
        assert net.executor is not None and net.executor.is_planned != sparse
        y.backward(train_mode=False)
        gradients.append(net.rows.weight.grad().asnumpy())
    assert gradients[0].any()
    np.testing.assert_allclose(*gradients, rtol=1e-6, atol=1e-7)
