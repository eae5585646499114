"""`mx.gluon.Trainer`: where updates run, what they do, and states, are MXNet's."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.gluon import Constant, Parameter, Trainer
from tests.compare import assert_like, assert_same
from tests.programs import gluon_trainer

CPUS = [mx.cpu(0), mx.cpu(1)]


def test_steps_are_mxnets_with_every_store(oracle):
    """Sums of two gradients and steps of a few products in float32: the order is the same."""
    theirs = oracle.call("mx_scripts.run", "gluon_trainer", "steps")
    for case, expected, found in zip(gluon_trainer.CASES, theirs, gluon_trainer.steps(mx),
                                     strict=True):
        assert_like(found, expected, 1e-6, str(case))


@pytest.mark.parametrize("program", ["sparse_steps", "sparse_weights"])
def test_sparse_rows_are_mxnets(oracle, program):
    assert_like(getattr(gluon_trainer, program)(mx),
                oracle.call("mx_scripts.run", "gluon_trainer", program), 1e-6)


@pytest.mark.parametrize("ours_first", [True, False])
def test_states_are_read_both_ways(oracle, tmp_path, ours_first):
    file = str(tmp_path / "trainer.states")
    ours = gluon_trainer.states(mx, file, False) if ours_first else None
    theirs = oracle.call("mx_scripts.run", "gluon_trainer", "states", file, ours_first)
    found = ours if ours_first else gluon_trainer.states(mx, file, True)
    assert_same(found, theirs, 1e-6, "weight")


@pytest.mark.parametrize("program", ["broadcast_while_recording", "stores_while_recording",
                                     "reduced_rows"])
def test_stores_work_under_record_and_anywhere(oracle, program):
    assert_like(getattr(gluon_trainer, program)(mx),
                oracle.call("mx_scripts.run", "gluon_trainer", program), 0)


def parameter(name="w", contexts=None, **kwargs):
    each = Parameter(name, shape=(2,), **kwargs)
    each.initialize("ones", ctx=contexts)
    return each


def backward(*parameters):
    with mx.autograd.record():
        losses = [x.sum() for each in parameters for x in each.list_data()]
    mx.autograd.backward(losses)


@pytest.mark.parametrize("updates", [None, False])
def test_states_of_several_contexts(tmp_path, updates):
    file, weights = str(tmp_path / "trainer.states"), [parameter(contexts=CPUS) for _ in range(2)]
    for number, each in enumerate(weights):
        trainer = Trainer([each], "adam", {"learning_rate": 0.5}, update_on_kvstore=updates)
        backward(each)
        trainer.step(1)
        if number:      # whose states are replaced
            trainer.load_states(file)
            assert trainer.learning_rate == 0.5 and trainer.optimizer.param_dict[0] is each
        trainer.save_states(file)
        backward(each)
        trainer.step(1)
    assert_same(weights[1].data(mx.cpu(1)).asnumpy(), weights[0].data(mx.cpu(0)).asnumpy(), 0, "w")


def test_every_context_steps_all_parameters_by_one_call(monkeypatch):
    weights = [parameter(name, CPUS) for name in "abc"]
    trainer = Trainer(weights, "sgd", update_on_kvstore=False)
    backward(*weights)
    trainer.step(1)
    calls = []
    for updater in trainer._updaters:
        monkeypatch.setattr(type(updater), "__call__",
                            lambda self, index, grad, weight: calls.append((index, weight)))
    backward(*weights)
    trainer.step(1)
    assert [index for index, _ in calls] == [[0, 1, 2], [0, 1, 2]]
    assert all(x is y for x, y in zip(calls[1][1], [each.list_data()[1] for each in weights],
                                      strict=True))


# -- gradients that no backward has written -----------------------------------------------------


def test_a_stale_gradient_is_an_error_or_is_skipped():
    fresh, stale = parameter("a"), parameter("b")
    trainer = Trainer([fresh, stale], "sgd", {"learning_rate": 1})
    backward(fresh)
    with pytest.raises(UserWarning, match=r"Parameter `b` on context cpu\(0\) has not been"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    assert (fresh.data().asnumpy() == 0).all() and (stale.data().asnumpy() == 1).all()
    with pytest.raises(UserWarning, match="Parameter `a`"):
        trainer.step(1)


def test_parameters_without_gradients_are_left_alone():
    fixed, weight, constant = parameter("a", grad_req="null"), parameter("b"), Constant("c", [1])
    constant.initialize(ctx=weight.list_ctx())
    trainer = Trainer([fixed, weight, constant], "sgd", {"learning_rate": 1})
    backward(weight)
    trainer.step(1)
    assert (weight.data().asnumpy() == 0).all()
    assert all((each.data().asnumpy() == 1).all() for each in (fixed, constant))


# -- stores ---------------------------------------------------------------------------------------


def test_gradients_are_summed_apart_from_the_step():
    weight = parameter(contexts=CPUS)
    trainer = Trainer([weight], "sgd", {"learning_rate": 0.25}, update_on_kvstore=False)
    backward(weight)
    trainer.allreduce_grads()
    assert [x.asnumpy().tolist() for x in weight.list_grad()] == [[2, 2]] * 2
    for gradient in weight.list_grad():
        gradient[:] = 4
    trainer.update(2)
    assert [x.asnumpy().tolist() for x in weight.list_data()] == [[0.5, 0.5]] * 2
    trainer = Trainer([weight], "sgd")
    backward(weight)
    for call in (trainer.allreduce_grads, lambda: trainer.update(1)):
        with pytest.raises(AssertionError, match="Try setting `update_on_kvstore` to False"):
            call()


def test_new_values_reach_the_store():
    weight = parameter(contexts=CPUS)
    trainer = Trainer([weight], "sgd", {"learning_rate": 0.25})
    for _ in range(2):
        weight.set_data(mx.nd.array([3, 4]))
        backward(weight)
        trainer.step(1)
        assert weight.data(mx.cpu(1)).asnumpy().tolist() == [2.5, 3.5]


def test_a_store_that_cannot_update_only_sums():
    store = mx.kv.create("teststore")
    weight = parameter()
    trainer = Trainer([weight], "sgd", {"learning_rate": 0.5}, kvstore=store)
    backward(weight)
    trainer.step(1)
    assert weight.data().asnumpy().tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="set update_on_kvstore=False when training with TestSt"):
        Trainer([weight], "sgd", kvstore=store, update_on_kvstore=True).allreduce_grads()


def test_a_request_for_updates_on_no_store_is_granted_here():
    weight = parameter()
    trainer = Trainer([weight], "sgd", {"learning_rate": 0.5}, update_on_kvstore=True)
    backward(weight)
    trainer.step(1)
    assert weight.data().asnumpy().tolist() == [0.5, 0.5] and trainer._kvstore is None


def test_a_weight_of_rows_has_one_trainer_and_its_store():
    weight = Parameter("w", shape=(2, 1), stype="row_sparse")
    weight.initialize("ones")
    with pytest.raises(ValueError, match="sparse weights are present"):
        Trainer([weight], "sgd", update_on_kvstore=False).step(1)
    with pytest.raises(RuntimeError, match="More than one trainers"):
        Trainer([weight], "sgd")
    other = Parameter("w", shape=(2, 1), stype="row_sparse")
    other.initialize("ones")
    with pytest.raises(TypeError, match="Cannot create 'None' KVStore"):
        Trainer([other], "sgd", kvstore=None).step(1)


def test_shapes_may_be_unknown_until_the_first_step():
    net = mx.gluon.nn.Dense(1)
    net.initialize(mx.init.One())
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    with pytest.raises(mx.gluon.DeferredInitializationError):
        trainer.step(1)
    with mx.autograd.record():
        loss = net(mx.nd.array([[1, 2]]))
    loss.backward()
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[0, -1]]


# -- rates and wrong arguments --------------------------------------------------------------------


def test_the_rate_is_that_of_the_optimizer():
    weight = parameter()
    trainer = Trainer([weight], "sgd", {"learning_rate": 0.5})
    trainer.set_learning_rate(0.25)
    assert trainer.learning_rate == trainer.optimizer.lr == 0.25
    backward(weight)
    trainer.step(1)
    assert weight.data().asnumpy().tolist() == [0.75, 0.75]
    schedule = mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=0.25)
    trainer = Trainer([weight], "sgd", {"lr_scheduler": schedule})
    with pytest.raises(UserWarning):
        trainer.set_learning_rate(1)
    assert trainer.learning_rate == 0.25


@pytest.mark.parametrize(("params", "arguments", "kind", "text"), [
    ("x", {}, ValueError, "must be a list or dict of Parameters, got <class 'str'>"),
    (["x"], {}, ValueError, "got list of <class 'str'>"),
    ([], {}, TypeError, "there are no parameters to step"),
    ([parameter("a")], {"optimizer": "nosuch"}, ValueError, "nosuch"),
    ([parameter("a")], {"optimizer": mx.optimizer.SGD(), "optimizer_params": {"wd": 1}},
     AssertionError, "optimizer_params must be None"),
    ([parameter("a"), parameter("b", CPUS)], {}, AssertionError, "on the same set of contexts"),
    ([Parameter("a", shape=(2,))], {}, RuntimeError, "has not been initialized"),
])
def test_wrong_arguments(params, arguments, kind, text):
    with pytest.raises(kind, match=text):
        Trainer(params, **{"optimizer": "sgd", **arguments})


def test_a_wrong_store_is_an_error_at_the_first_step():
    with pytest.raises(TypeError, match="kvstore must be KVStore, str or None"):
        Trainer([parameter()], "sgd", kvstore=3).step(1)


def test_a_loss_goes_down():
    net, loss = mx.gluon.nn.Dense(1), mx.gluon.loss.L2Loss()
    net.initialize()
    data = mx.nd.array(np.random.default_rng(0).standard_normal((8, 3)))
    label = data.sum(axis=1)
    trainer = Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    values = []
    for _ in range(30):
        with mx.autograd.record():
            value = loss(net(data), label)
        value.backward()
        trainer.step(8)
        values.append(value.mean().asscalar())
    assert values[-1] < values[0] / 10
