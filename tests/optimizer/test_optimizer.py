"""Optimizers: MXNet's weights step by step, rates and counts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nbmod as mx
from nbmod import optimizer
from nbmod.base import MXNetError
from nbmod.optimizer import Optimizer, Updater
from tests.programs import training

ALL = {"learning_rate": 0.1, "wd": 0.05, "rescale_grad": 0.5, "clip_gradient": 0.2}
# name, parameters
CASES = [
    ("sgd", {}), ("sgd", ALL), ("sgd", {**ALL, "momentum": 0.9}), ("ccsgd", {"momentum": 0.5}),
    ("sgd", {**ALL, "momentum": 0.9, "clip_gradient": 0, "lazy_update": False}),
    ("nag", ALL), ("nag", {**ALL, "momentum": 0.9}),
    ("signum", {}), ("signum", {**ALL, "momentum": 0.7, "wd_lh": 0.1}),
    ("signum", {**ALL, "momentum": 0.0}),
    ("dcasgd", {}), ("dcasgd", {**ALL, "lamda": 0.5}), ("dcasgd", {"clip_gradient": 0, "wd": 0.1}),
    ("lbsgd", {**ALL, "momentum": 0.9}),
    ("lbsgd", {**ALL, "batch_scale": 3, "warmup_epochs": 2, "updates_per_epoch": 4}),
    ("lbsgd", {**ALL, "batch_scale": 2, "warmup_strategy": "power2", "updates_per_epoch": 1}),
    ("lbsgd", {**ALL, "batch_scale": 2, "warmup_strategy": "sqrt", "begin_epoch": 1,
               "updates_per_epoch": 3, "warmup_epochs": 3}),
    ("lbsgd", {**ALL, "momentum": 0.5, "batch_scale": 2, "warmup_strategy": "lars"}),
    ("lbsgd", {"batch_scale": 2, "warmup_strategy": "none", "warmup_epochs": 0}),
    ("lars", {}), ("lars", {**ALL, "eta": 0.1, "eps": 0.1, "momentum": 0.9}),
    ("lars", {**ALL, "eta": 0.5, "momentum": 0.9, "momentum_correction": False}),
    ("lamb", {}), ("lamb", {**ALL, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3}),
    ("lamb", {**ALL, "lower_bound": 5.0, "upper_bound": 5.5, "bias_correction": False}),
    ("lamb", {"lower_bound": 0, "upper_bound": 2.0, "wd": 0.1}),
    ("adam", {}), ("adam", {**ALL, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4}),
    ("adam", {"clip_gradient": 0, "lazy_update": False, "begin_num_update": 7}),
    ("rmsprop", {}), ("rmsprop", {**ALL, "gamma1": 0.7, "clip_weights": 0.9}),
    ("rmsprop", {"centered": True}), ("rmsprop", {**ALL, "centered": True, "gamma2": 0.5}),
    ("adagrad", {}), ("adagrad", {**ALL, "eps": 1e-3}), ("adagrad", {**ALL, "clip_gradient": 0}),
    ("adadelta", {}), ("adadelta", {**ALL, "rho": 0.7, "epsilon": 1e-2}),
    ("ftrl", {}), ("ftrl", {**ALL, "lamda1": 0.3, "beta": 0.5}),
    ("ftml", {}), ("ftml", {**ALL, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3}),
    ("adamax", {}), ("adamax", {**ALL, "beta1": 0.8, "beta2": 0.95}),
    ("nadam", {}), ("nadam", {**ALL, "beta1": 0.8, "beta2": 0.95, "schedule_decay": 0.5}),
    ("groupadagrad", {}), ("groupadagrad", {**ALL, "wd": 0.0, "eps": 1e-3}),
    ("test", {}), ("test", ALL),
]
IDS = [f"{name}-{'-'.join(params)}" for name, params in CASES]
SCHEDULE = ("FactorScheduler", {"step": 3, "factor": 0.5, "base_lr": 0.2})
# Ten steps of float32: MXNet orders some sums differently.  float16 has 11 bits; with master
# weights the roundings are those of one float32 weight.  MXNet's limits of gradients are float32.
TOLERANCE = {"float32": 1e-5, "float64": 1e-8, "float16": 1e-3}
SINGLE_SUMS = ("ftml", "lamb", "lars", "lbsgd")
"""MXNet computes lengths, or powers of beta, in float32 even for float64 weights."""
IMPOSSIBLE = {"float64": ("adadelta", "adagrad", "ftrl", "groupadagrad", "rmsprop", "test"),
              "float16": ("lbsgd",)}
"""What MXNet cannot do: float32 states do not go with float64 weights, and LBSGD overflows."""


def run_both(oracle, *args, **kwargs):
    theirs = oracle.call("mx_scripts.run", "training", "optimizer_steps", *args, **kwargs)
    return training.optimizer_steps(mx, *args, **kwargs), theirs


RUNS = [pytest.param(name, params, dtype, id=f"{label}-{dtype}")
        for (name, params), label in zip(CASES, IDS, strict=True) for dtype in TOLERANCE
        if name not in IMPOSSIBLE.get(dtype, ())]


@pytest.mark.parametrize("name, params, dtype", RUNS)
def test_ten_steps_are_mxnets(oracle, name, params, dtype):
    if dtype == "float16":
        params = {**params, "multi_precision": True}
    ours, theirs = run_both(oracle, name, params, 10, dtype)
    assert ours["weights"].dtype == theirs["weights"].dtype == dtype
    tolerance = 1e-6 if dtype == "float64" and name in SINGLE_SUMS else TOLERANCE[dtype]
    np.testing.assert_allclose(ours["weights"].astype("float64"), theirs["weights"],
                               rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:Accumulating with float16")
@pytest.mark.parametrize("name", ["sgd", "nag", "adam"])
def test_half_precision_without_master(oracle, name):
    """MXNet rounds after every operation, nbmod once per step."""
    ours, theirs = run_both(oracle, name, {"learning_rate": 0.01}, 3, "float16")
    np.testing.assert_allclose(ours["weights"].astype("float32"), theirs["weights"], atol=1e-2)


def test_half_precision_without_master_is_warned_of():
    with pytest.warns(UserWarning, match="multi_precision=True"):
        training.optimizer_steps(mx, "adam", {}, 1, "float16")


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES} - {"test"}))
def test_scheduled_rates(oracle, name):
    """LARS without momentum: see `test_lars_corrects_the_momentum_of_all_parameters`."""
    params = {"learning_rate": 0.2, "begin_num_update": 2}
    ours, theirs = run_both(oracle, name, params, 10, scheduler=SCHEDULE)
    np.testing.assert_allclose(ours["weights"], theirs["weights"], rtol=1e-5, atol=1e-5)


# ----------------------------------------------------------------------- several parameters at once

def stepped(name, params, dtypes, together, steps=3):
    """Weights after steps of one parameter at a time, or of lists of them."""
    names = ["a_weight", "b_bias", "c_gamma", "d_weight", "e_weight", "f"]
    updater = Updater(optimizer.create(name, param_idx2name=dict(enumerate(names)), **params))
    rng = np.random.default_rng(0)
    weights = [mx.nd.array(rng.standard_normal((i + 1, 3))).astype(dtype)
               for i, dtype in zip(range(len(names)), dtypes * len(names), strict=False)]
    for _ in range(steps):
        grads = [mx.nd.array(rng.standard_normal(w.shape)).astype(w.dtype) for w in weights]
        if together:
            updater(list(range(len(weights))), grads, weights)
        else:
            for index, (weight, grad) in enumerate(zip(weights, grads, strict=True)):
                updater(index, grad, weight)
    return [weight.asnumpy() for weight in weights], updater


@pytest.mark.parametrize("dtypes", [["float32"], ["float16", "float32"]], ids="-".join)
@pytest.mark.parametrize("name, params", CASES, ids=IDS)
def test_lists_are_stepped_like_one_after_another(name, params, dtypes, monkeypatch):
    """Bitwise, for any size of the groups and any types in them."""
    params = {**params, "multi_precision": True}
    if name == "nadam":
        dtypes = ["float32"]  # its schedule depends on the order, and groups are of one type
    alone, before = stepped(name, params, dtypes, together=False)
    for size in ("1", "4", "100"):
        monkeypatch.setenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", size)
        together, updater = stepped(name, params, dtypes, together=True)
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_array_equal(one, other)
        assert updater.optimizer.num_update == before.optimizer.num_update


@pytest.mark.parametrize("size", [None, "0", "1", "7", "100"])
def test_sizes_of_groups(oracle, size):
    names = sorted(Optimizer.opt_registry.keys() & {name for name, _ in CASES})
    theirs = oracle.call("mx_scripts.run", "training", "group_sizes", names, size)
    assert training.group_sizes(mx, names, size) == theirs


def test_groups_are_of_one_type_and_not_too_large():
    class Recorder(optimizer.SGD):
        def update_multi_precision(self, index, weight, grad, state):
            groups.append((index, {w.dtype for w in weight}))

    groups: list = []
    updater = Updater(Recorder(multi_precision=True))
    weights = [mx.nd.ones((2,), dtype=kind) for kind in ["float32", "float16"] * 5]
    updater([*range(10)], weights, weights)
    updater(3, weights[0], weights[0])
    updater([], [], [])
    assert groups == [([0, 2, 4, 6], {np.float32}), ([8], {np.float32}),
                      ([1, 3, 5, 7], {np.float16}), ([9], {np.float16}), ([3], {np.float32})]


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("name", ["sgd", "lars", "lamb"])
def test_modules_step_as_mxnets(oracle, name, contexts):
    """Through a kvstore, and on the devices themselves, where parameters come in groups."""
    params = {"learning_rate": 0.05, "wd": 0.01}
    for store in ("device", None):
        theirs = oracle.call("mx_scripts.run", "training", "module_steps", name, params, contexts,
                             store)
        ours = training.module_steps(mx, name, params, contexts, store)
        for key, want in theirs.items():
            np.testing.assert_allclose(ours[key], want, rtol=1e-4, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("method", ["_get_lr", "_get_lrs", "_get_wd", "_get_wds"])
def test_rates_of_users_own(oracle, method):
    """Optimizers that override how rates are found; MXNet's SGD alone looks up several at once."""
    for name in ("sgd", "nag", "signum", "adam", "rmsprop", "adagrad", "adamax", "nadam"):
        theirs = oracle.call("mx_scripts.run", "training", "own_rates", name, method)
        ours = training.own_rates(mx, name, method)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=name)


# ------------------------------------------------------------------------------- single optimizers

def test_langevin_dynamics(oracle):
    """The step less its deterministic part is normal with variance lr, as in MXNet."""
    for numbers in (training.langevin_noise(mx),
                    oracle.call("mx_scripts.run", "training", "langevin_noise")):
        # The mean of 40000 standard normal values is within 5 / 200, their deviation likewise.
        assert abs(numbers.mean()) < 0.025 and abs(numbers.std() - 1) < 0.025
        assert abs((np.abs(numbers) < 1).mean() - 0.6827) < 0.0125


def test_late_gradients_with_momentum():
    """MXNet's DCASGD uses momentum for weights of one element only."""
    lr, momentum, lamda, wd = 0.1, 0.9, 0.5, 0.01
    found = optimizer.DCASGD(momentum, lamda, learning_rate=lr, wd=wd)
    weight, *gradients = training.weight_and_gradients(4)
    array, updater = mx.nd.array(weight), Updater(found)
    velocity, previous = np.zeros_like(weight), weight
    for grad in gradients:
        updater(0, mx.nd.array(grad), array)
        late = grad + wd * weight + lamda * grad * grad * (weight - previous)
        velocity, previous = momentum * velocity - lr * late, weight
        weight = weight + velocity
        np.testing.assert_allclose(array.asnumpy(), weight, rtol=1e-5, atol=1e-6)


def test_lars_corrects_the_momentum_of_all_parameters():
    """In MXNet only those that come first after the rate has changed."""
    for names in (["a_weight"], ["a_weight", "b_weight"]):
        found = optimizer.LARS(0.9, eta=0.5, param_idx2name=dict(enumerate(names)),
                               lr_scheduler=mx.lr_scheduler.FactorScheduler(2, 0.1, base_lr=0.5))
        weights = [mx.nd.array([1, 2, -3]) for _ in names]
        updater = Updater(found)
        for count in range(7):
            for index, weight in enumerate(weights):
                updater(index, mx.nd.array([0.5, -1, 0.25]) * (count + 1), weight)
        for weight in weights:  # MXNet's results for one parameter
            np.testing.assert_allclose(weight.asnumpy(), [-0.6306649, 5.2613301, -3.8153329],
                                       rtol=1e-6)


def test_groups_of_rows():
    updater = Updater(optimizer.create("GroupAdaGrad"))
    with pytest.raises(MXNetError, match=r"parameter 0 has shape \(3,\), expected a matrix"):
        updater(0, mx.nd.ones((3,)), mx.nd.ones((3,)))
    updater = Updater(optimizer.contrib.GroupAdaGrad(wd=0.1, param_idx2name={0: "a_weight"}))
    with pytest.raises(MXNetError, match="weight decay of parameter 0 is 0.1, expected 0"):
        updater(0, mx.nd.ones((3, 1)), mx.nd.ones((3, 1)))


@pytest.mark.parametrize("name", ["sgd", "adagrad", "nadam"])
def test_a_negative_limit_is_none(name):
    params = {"learning_rate": 0.1}
    runs = [training.optimizer_steps(mx, name, {**params, "clip_gradient": clip}, 2)["weights"]
            for clip in (None, -1)]
    np.testing.assert_array_equal(*runs)


# -------------------------------------------------------------------------------- rates and counts

def test_multipliers():
    data = mx.sym.Variable("data")
    weight = mx.sym.Variable("w_weight", lr_mult=3, wd_mult=0.5)
    fc = mx.sym.FullyConnected(data, weight=weight, num_hidden=3, name="fc")
    net = mx.sym.FullyConnected(fc, num_hidden=2, name="out", lr_mult=5)
    names = ["w_weight", "fc_bias", "out_weight", "out_bias", "x_gamma", "x_beta"]
    found = optimizer.SGD(learning_rate=0.1, wd=0.1, sym=net, param_idx2name=dict(enumerate(names)))
    assert found._get_lrs(range(7)) == pytest.approx([0.3, 0.1, 0.5, 0.5, 0.1, 0.1, 0.1])
    assert found._get_wds(range(7)) == pytest.approx([0.05, 0, 0.1, 0, 0.1, 0, 0.1])
    found.set_lr_mult({"w_weight": 7.0, 3: 9.0})
    found.set_wd_mult({"x_beta": 2.0, "out_weight": 4.0})
    assert found._get_lrs(range(7)) == pytest.approx([0.7, 0.1, 0.5, 0.9, 0.1, 0.1, 0.1])
    assert found._get_wds(range(7)) == pytest.approx([0.05, 0, 0.4, 0, 0.1, 0.2, 0.1])


@pytest.mark.parametrize("sides", list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize("name", ["sgd", "lars", "adam"])
def test_multipliers_are_mxnets(oracle, name, sides):
    """From the symbol's attributes, by name, from parameters; LARS decays weights only."""
    want = oracle.call("mx_scripts.run", "training", "multipliers", name, *sides)
    np.testing.assert_allclose(training.multipliers(mx, name, *sides), want, rtol=1e-12)


def test_counts_are_kept_per_device():
    found = optimizer.SGD(begin_num_update=5)
    found._update_count([0, 1])
    found._update_count(0)
    found._set_current_context(1)
    found._update_count(0)
    assert found._all_index_update_counts == {0: {0: 7, 1: 6}, 1: {0: 6}}
    assert found.num_update == 7


@pytest.mark.parametrize("params, rate, base", [
    ({}, 0.3, 0.3), ({"learning_rate": 0.5}, 0.5, 0.5), ({"learning_rate": 0.3}, 0.3, 0.3),
])
def test_rate_beside_a_scheduler(params, rate, base, caplog):
    scheduler = mx.lr_scheduler.FactorScheduler(2, 0.1, base_lr=0.3)
    found = optimizer.SGD(lr_scheduler=scheduler, **params)
    assert (found.learning_rate, scheduler.base_lr) == (rate, base)
    assert ("overwritten" in caplog.text) == (base != 0.3)
    with pytest.raises(MXNetError, match="lr_scheduler"):
        found.set_learning_rate(1)


def test_old_name_of_multipliers():
    with pytest.raises(DeprecationWarning, match="set_lr_mult"):
        optimizer.SGD().set_lr_scale({})


def test_create():
    assert isinstance(optimizer.create("SGD", momentum=0.5), optimizer.optimizer.SGD)
    assert isinstance(Optimizer.create_optimizer("ccsgd"), optimizer.SGD)
    for kind in (MXNetError, ValueError):
        with pytest.raises(kind, match="did you mean 'adam'"):
            optimizer.create("adaam")
    with pytest.raises(TypeError, match="SGD has no argument 'lerning_rate'.* 'learning_rate'"):
        optimizer.create("sgd", lerning_rate=0.1)
    with pytest.raises(MXNetError, match="param_idx2name"):
        optimizer.SGD(param_idx2name=["w"])


def test_wrong_shapes_are_named():
    with pytest.raises(MXNetError, match=r"grad has shape \(2,\), expected .* \(3,\)"):
        Updater(optimizer.SGD())(0, mx.nd.ones((2,)), mx.nd.ones((3,)))
    with pytest.raises(MXNetError, match="int32 cannot be trained"):
        Updater(optimizer.SGD())(0, mx.nd.ones((2,), dtype="int32"),
                                 mx.nd.ones((2,), dtype="int32"))


class Signed(Optimizer):
    """A user's optimizer, written as in MXNet's tutorials."""

    def create_state(self, index, weight):
        return mx.nd.zeros(weight.shape, weight.context)

    def update(self, index, weight, grad, state):
        self._update_count(index)
        state[:] = mx.nd.sign(grad)
        weight[:] = weight - self._get_lr(index) * state


def test_users_optimizer():
    Optimizer.register(Signed)
    updater = Updater(optimizer.create("signed", learning_rate=0.5))
    weight = mx.nd.ones((2,))
    updater([0, 1], [mx.nd.array([3, -3])] * 2, [weight, weight])
    assert weight.asnumpy().tolist() == [0, 2]
    again = Updater(optimizer.SGD())
    again.set_states(updater.get_states(dump_optimizer=True))
    assert isinstance(again.optimizer, Signed) and again.optimizer.num_update == 1


def test_update_functions_write_where_they_are_told():
    weight, grad, mom = (mx.nd.array(a) for a in training.weight_and_gradients(2))
    before = weight.asnumpy()
    new = mx.nd.sgd_mom_update(weight, grad, mom, lr=0.1, momentum=0.9)
    np.testing.assert_array_equal(weight.asnumpy(), before)
    np.testing.assert_allclose(new.asnumpy(), before + mom.asnumpy(), rtol=1e-6)
    mx.nd.sgd_update(weight, grad, lr=0.1, out=weight)
    np.testing.assert_allclose(weight.asnumpy(), before - 0.1 * grad.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, -0.5])  # MXNet takes a negative one for none
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["sgd", "ccsgd", "lars"])
def test_without_momentum_a_velocity_is_left_alone(name, dtype, momentum):
    found = mx.optimizer.create(name, momentum=momentum, multi_precision=True, learning_rate=0.1)
    weight = mx.nd.array([1, 2], dtype=dtype)
    velocity, grad = mx.nd.array([0.5, 0.5]), mx.nd.array([1, -1], dtype=dtype)
    state = velocity if dtype == "float32" else (velocity, weight.astype("float32"))
    found.update_multi_precision(0, weight, grad, state)
    found.update_multi_precision([0], [weight], [grad], [state])
    rate = 0 if name == "lars" else 0.1  # no norm has an effect on a parameter of no known name
    np.testing.assert_allclose(weight.asnumpy(), [1 - 2 * rate, 2 + 2 * rate], rtol=1e-3)
    np.testing.assert_array_equal(velocity.asnumpy(), [0.5, 0.5])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_velocities_stay_when_training_goes_on_without_momentum(dtype):
    found = mx.optimizer.SGD(0.9, multi_precision=True, learning_rate=0.5)
    updater = Updater(found)
    weights = [mx.nd.zeros(2, dtype=dtype) for _ in range(2)]
    grads = [mx.nd.array([1, -1], dtype=dtype) for _ in range(2)]
    updater([0, 1], grads, weights)
    found.momentum = 0.0
    updater([0, 1], grads, weights)
    for index, weight in enumerate(weights):
        np.testing.assert_array_equal(weight.asnumpy(), [-1, 1])
        state = updater.states[index]
        velocity = state if dtype == "float32" else state[0]
        np.testing.assert_array_equal(velocity.asnumpy(), [-0.5, 0.5])
    found.momentum = 0.5
    updater([0, 1], grads, weights)
    np.testing.assert_array_equal(weights[0].asnumpy(), [-1.75, 1.75])
