"""SVRGModule: against MXNet, unbiased where MXNet is not, and wrong use."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.contrib.svrg_optimization.svrg_module import SVRGModule
from tests.compare import assert_like
from tests.programs import svrg

PROGRAMS = [
    ("by_hand", 1), ("by_hand", 2), ("fitted", "sgd", {"learning_rate": 0.1}, 1),
    ("fitted", "sgd", {"learning_rate": 0.05, "momentum": 0.9}, 2),
    ("fitted", "adam", {"learning_rate": 0.05}, 4),
    ("fitted", "sgd", {"learning_rate": 0.1}, 2, 2),
    ("fitted", "sgd", {"learning_rate": 0.1}, 2, 2, None)]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_programs_end_as_in_mxnet(oracle, program):
    name, *args = program
    assert_like(getattr(svrg, name)(mx, *args),
                oracle.call("mx_scripts.run", "svrg", name, *args))


def made(update_freq=1, net=svrg.linear, **options):
    return SVRGModule(net(mx), label_names=["label"], update_freq=update_freq, **options)


def bound(module=None, count=24, **options):
    module, batches = module or made(), svrg.iterator(mx, count)
    module.bind(batches.provide_data, batches.provide_label, **options)
    return module, batches


def ready(module=None, count=24):
    module, batches = bound(module, count)
    module.init_params(mx.init.One())
    module.init_optimizer()
    return module, batches


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("count", [24, 21])
def test_corrected_gradients_have_the_mean_of_plain_ones(contexts, count):
    """Over an epoch at one point, also where the last batch is padded."""
    module, batches = ready(made(context=[mx.cpu(k) for k in range(contexts)]), count)
    module.update_full_grads(batches)
    plain = corrected = 0
    moved = {"fc_weight": mx.nd.zeros((1, svrg.FEATURES)), "fc_bias": mx.nd.ones((1,))}
    module.set_params(moved, {})
    for batch in batches:
        module.forward_backward(batch)
        before = np.concatenate(list(map(np.ravel, svrg._gradients(module))))
        module.update()
        plain = plain + before
        corrected = corrected + np.concatenate(list(map(np.ravel, svrg._gradients(module))))
        module.set_params(moved, {})
    np.testing.assert_allclose(corrected, plain, rtol=1e-4)


def test_variance_vanishes_where_the_snapshot_is():
    module, batches = ready()
    module.update_full_grads(batches)
    found = []
    for batch in batches:
        module.set_params(*module._mod_aux.get_params())
        module.forward_backward(batch)
        module.update()
        found.append(np.concatenate(list(map(np.ravel, svrg._gradients(module)))))
    np.testing.assert_allclose(found, np.broadcast_to(found[0], np.shape(found)), rtol=1e-5)


def test_fit_starts_with_a_snapshot_at_any_epoch():
    """MXNet fails unless the first epoch is a multiple of update_freq."""
    module = made(3)
    module.fit(svrg.iterator(mx), num_epoch=3, begin_epoch=1, eval_metric="mse")
    assert [past["epoch"] for past in module.history] == [1, 2]


def test_fixed_parameters_stay():
    module = made(fixed_param_names=["fc_bias"])
    module.fit(svrg.iterator(mx), num_epoch=2, eval_metric="mse", initializer=mx.init.One())
    params = svrg.numbers(module.get_params()[0])
    assert params["fc_bias"].tolist() == [0] and params["fc_weight"].min() > 1


def test_shapes_and_bindings_change_with_the_snapshots_module():
    module, batches = ready()
    module.update_full_grads(batches)
    data, labels = svrg.samples(24)
    for size in (3, 6):
        module.forward_backward(mx.io.DataBatch([mx.nd.array(data[:size])],
                                                [mx.nd.array(labels[:size])]))
        module.update()
        assert module._mod_aux.data_shapes[0].shape == (size, svrg.FEATURES)
    module.reshape([("data", (2, svrg.FEATURES))], [("label", (2,))])
    assert module._mod_aux.data_shapes[0].shape == (2, svrg.FEATURES)
    bound(module, force_rebind=True)
    assert module._mod_aux.data_shapes[0].shape == (6, svrg.FEATURES)
    module.forward_backward(batches.next())
    module.update()


def test_states_of_the_batch_are_those_of_the_snapshot_too():
    def net(mx):
        state = mx.sym.Variable("state")
        return mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(
            mx.sym.Variable("data") + state, num_hidden=1, name="fc"), mx.sym.Variable("label"))

    module, batches = ready(made(net=net, state_names=["state"]))
    module.update_full_grads(batches)
    module.set_states(value=2)
    module.forward_backward(batches.next())
    for ours, theirs in zip(svrg._gradients(module), svrg._gradients(module._mod_aux),
                            strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_checkpoints_are_those_of_a_module(tmp_path):
    module, batches = ready()
    module.update_full_grads(batches)
    module.save_checkpoint(str(tmp_path / "net"), 1, save_optimizer_states=True)
    again = mx.mod.Module.load(str(tmp_path / "net"), 1, True, label_names=["label"])
    assert svrg.numbers(again.get_params()[0])["fc_weight"].tolist() == [[1] * svrg.FEATURES]


def without_gradient():
    module, batches = ready()
    module.forward(batches.next(), is_train=True)


class Empty(mx.io.DataIter):
    def iter_next(self):
        return False


WRONG_USE = [
    ("no frequency", lambda: SVRGModule(svrg.linear(mx), label_names=["label"]), TypeError,
     "update_freq is None, expected an int"),
    ("half a frequency", lambda: made(1.5), TypeError, "update_freq is 1.5"),
    ("frequency of 0", lambda: made(0), ValueError, "update_freq is 0, expected 1 or more"),
    ("full gradients before bind", lambda: made().update_full_grads(svrg.iterator(mx)), MXNetError,
     "call bind"),
    ("full gradients before parameters", lambda: bound()[0].update_full_grads(svrg.iterator(mx)),
     MXNetError, "call init_params"),
    ("full gradients without training", lambda: evaluating().update_full_grads(svrg.iterator(mx)),
     MXNetError, "for_training=True"),
    ("full gradients of nothing", lambda: ready()[0].update_full_grads(Empty()), MXNetError,
     "yields no batch"),
    ("forward before full gradients", without_gradient, MXNetError, "update_full_grads.train_data"),
    ("update before optimizer", lambda: bound()[0].update(), MXNetError, "call init_params"),
    ("adding gradients", lambda: bound(grad_req="add"), MXNetError, "grad_req='write'"),
]


def evaluating():
    module, _ = bound(for_training=False)
    module.init_params()
    return module


@pytest.mark.parametrize("use, error, text", [row[1:] for row in WRONG_USE],
                         ids=[row[0] for row in WRONG_USE])
def test_wrong_use_says_what_to_do(use, error, text):
    with pytest.raises(error, match=text):
        use()
