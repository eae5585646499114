"""Parameters that are set, cast and moved between steps: their trainer goes on from them."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.gluon import Parameter, Trainer

CPUS = [mx.cpu(0), mx.cpu(1)]
OPTIMIZERS = [("sgd", {}), ("sgd", {"momentum": 0.9}), ("nag", {"momentum": 0.9}), ("adam", {}),
              ("rmsprop", {}), ("lamb", {}), ("adagrad", {}), ("signum", {}), ("ftrl", {})]
WAYS = [(CPUS[:1], None), (CPUS, None), (CPUS, False)]
"""Contexts, and whether a store updates; None: where there are several."""


def parameters(contexts, dtype):
    """Two, which an updater steps by one call."""
    made = [Parameter(name, shape=(3,), dtype=dtype) for name in "ab"]
    for each in made:
        each.initialize(ctx=contexts)
        each.set_data(mx.nd.array([1, 2, 3], dtype=dtype))
    return made


def trained(weights, optimizer, options, updates=None):
    return Trainer(weights, optimizer, {"learning_rate": 0.01, "multi_precision": True, **options},
                   update_on_kvstore=updates)


def step(trainer, weights, rows=((1, -2, 0.5),)):
    """Rows are divided among the contexts; the gradient is their sum plus a tenth of the weight."""
    contexts = weights[0].list_ctx()
    with mx.autograd.record():
        losses = [(each.data(ctx) * mx.nd.array(row, ctx, each.dtype)).sum()
                  for each in weights for position, ctx in enumerate(contexts)
                  for row in rows[position::len(contexts)]]
        losses += [(each.data(contexts[0]) ** 2).sum() / 20 for each in weights]
    mx.autograd.backward(losses)
    for each in weights:
        for array in each.list_data():
            array._fresh_grad = True
    trainer.step(1)


@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS)
def test_states_follow_weights_that_are_cast(optimizer, options):
    """Masters are made and left; float16 rounds weights of up to 3 by 0.001 in each step."""
    def values(*dtypes):
        weights = parameters(CPUS[:1], dtypes[0])
        trainer = trained(weights, optimizer, options)
        for dtype in dtypes:
            for each in weights:
                if each.dtype != dtype:
                    each.cast(dtype)
            step(trainer, weights)
            step(trainer, weights)
        return weights[1].data().asnumpy().astype(float)

    expected = values("float32", "float32", "float32")
    assert np.abs(expected - [1, 2, 3]).max() > 0.01
    for dtypes in (("float16", "float32", "float16"), ("float32", "float16", "float64")):
        np.testing.assert_allclose(values(*dtypes), expected, atol=6e-3, err_msg=str(dtypes))


@pytest.mark.parametrize(("contexts", "updates"), WAYS)
@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS[1::2])
def test_values_that_are_set_are_stepped(tmp_path, contexts, updates, optimizer, options):
    """Not the copies that masters and stores have of former values, by any of two trainers; nothing
    else changes, such as states of other parameters."""
    file, new = str(tmp_path / "new.params"), np.array([5, -7, 11])
    mx.nd.save(file, {"a": mx.nd.array(new, dtype="float16")})

    def reinitialized(each):
        each.initialize(mx.init.Constant(mx.nd.array(new)), contexts, force_reinit=True)

    expected = None
    for change in (lambda each: None, reinitialized,
                   lambda each: each.set_data(mx.nd.array(new, dtype="float16")),
                   lambda each: each._load_init(mx.nd.load(file)["a"], None)):
        weights = parameters(contexts, "float16")
        trainer = trained(weights, optimizer, options, updates)
        step(trainer, weights)
        latest = trained(weights, optimizer, options, updates)
        change(weights[0])
        step(trainer, weights)
        set_one, other = ([each.asnumpy() for each in weight.list_data()] for weight in weights)
        if expected is None:
            expected = other
        else:
            assert all(1e-3 < np.abs(each - new).max() < 0.2 for each in set_one)
        np.testing.assert_array_equal(other, expected)
        assert latest._params == weights


@pytest.mark.parametrize("updates", [None, False])
@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS[:4])
def test_a_trainer_follows_to_other_contexts(optimizer, options, updates):
    """With momenta and counts of steps, and sums over the contexts that there are now."""
    rows = ((1, -2, 0.5), (0.3, 0.2, 0.1))

    def values(*places):
        weights = parameters(places[0], "float32")
        trainer = trained(weights, optimizer, options, updates)
        for contexts in places:
            for each in weights:
                each.reset_ctx(contexts)
            step(trainer, weights, rows)
            step(trainer, weights, rows)
        return [array.asnumpy() for array in weights[1].list_data()]

    expected = values(*[CPUS[:1]] * 3)[0]
    for places in ((CPUS[:1], CPUS[1:], CPUS), (CPUS, CPUS[1:], CPUS[::-1]), (CPUS, CPUS[:1])):
        moved = values(*places, *places[:3 - len(places)])
        for array in moved:     # gradients are summed in another order
            np.testing.assert_allclose(array, expected, rtol=1e-5)


def test_a_cast_keeps_gradients():
    each = Parameter("w", shape=(2,), grad_req="add")
    each.initialize("ones", ctx=CPUS)
    for dtype in ("float32", "float64", "float16"):
        each.cast(dtype)
        with mx.autograd.record():
            losses = [array.sum() for array in each.list_data()]
        mx.autograd.backward(losses)
    assert [array.asnumpy().tolist() for array in each.list_grad()] == [[3, 3]] * 2
    assert each.grad(mx.cpu(0)).dtype == np.float16


def test_errors_of_updates_name_what_is_wrong_with_a_parameter():
    weights = parameters(CPUS[:1], "float32")
    weights[0].lr_mult = "two"
    with pytest.raises(mx.MXNetError, match="param_dict.*numbers as lr_mult"):
        step(trained(weights, "sgd", {}), weights)


@pytest.mark.parametrize(("contexts", "updates"), WAYS)
def test_a_refused_initialization_leaves_states_as_they_are(contexts, updates):
    values = []
    for refused in (False, True):
        weights = parameters(contexts, "float32")
        trainer = trained(weights, "sgd", {"momentum": 0.9}, updates)
        step(trainer, weights)
        if refused:
            with pytest.raises(mx.MXNetError, match="initializer"):
                weights[0].initialize(mx.init.Xavier, force_reinit=True)
        step(trainer, weights)
        values.append([each.data(contexts[-1]).asnumpy() for each in weights])
    np.testing.assert_array_equal(*values)
