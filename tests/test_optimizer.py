"""Optimizers: MXNet's weights step by step, rates and counts, and states that change sides."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import nbmod as mx
from nbmod import optimizer
from nbmod.base import MXNetError
from nbmod.optimizer import Optimizer, Updater
from nbmod.optimizer.states import dump_states, load_states
from tests import training

ALL = {"learning_rate": 0.1, "wd": 0.05, "rescale_grad": 0.5, "clip_gradient": 0.2}
# name, parameters
CASES = [
    ("sgd", {}), ("sgd", ALL), ("sgd", {**ALL, "momentum": 0.9}), ("ccsgd", {"momentum": 0.5}),
    ("nag", ALL), ("nag", {**ALL, "momentum": 0.9}),
    ("adam", {}), ("adam", {**ALL, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4}),
    ("rmsprop", {}), ("rmsprop", {**ALL, "gamma1": 0.7, "clip_weights": 0.9}),
    ("rmsprop", {"centered": True}), ("rmsprop", {**ALL, "centered": True, "gamma2": 0.5}),
    ("adagrad", {}), ("adagrad", {**ALL, "eps": 1e-3}),
    ("test", {}),
]
IDS = [f"{name}-{'-'.join(params)}" for name, params in CASES]
SCHEDULE = ("FactorScheduler", {"step": 3, "factor": 0.5, "base_lr": 0.2})
# Ten steps of float32: MXNet orders some sums otherwise.  float16 keeps 11 bits; with master
# weights the roundings are those of one float32 weight.
TOLERANCE = {"float32": 1e-5, "float64": 1e-9, "float16": 1e-3}


def run_both(oracle, *args, **kwargs):
    theirs = oracle.call("mx_scripts.run", "training", "optimizer_steps", *args, **kwargs)
    return training.optimizer_steps(mx, *args, **kwargs), theirs


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name, params", CASES, ids=IDS)
def test_ten_steps_are_mxnets(oracle, name, params, dtype):
    if dtype == "float64" and name in ("rmsprop", "adagrad"):
        return  # MXNet makes float32 states for these, which its ops then refuse
    if dtype == "float16":
        params = {**params, "multi_precision": True}
    ours, theirs = run_both(oracle, name, params, 10, dtype)
    assert ours["weights"].dtype == theirs["weights"].dtype == dtype
    tolerance = TOLERANCE[dtype]
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


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_scheduled_rates(oracle, name):
    params = {"learning_rate": 0.2}
    ours, theirs = run_both(oracle, name, params, 10, scheduler=SCHEDULE)
    np.testing.assert_allclose(ours["weights"], theirs["weights"], rtol=1e-5, atol=1e-6)


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


def test_create():
    assert isinstance(optimizer.create("SGD", momentum=0.5), optimizer.optimizer.SGD)
    assert isinstance(Optimizer.create_optimizer("ccsgd"), optimizer.SGD)
    with pytest.raises(MXNetError, match="did you mean 'adam'"):
        optimizer.create("adaam")
    with pytest.raises(MXNetError, match="param_idx2name"):
        optimizer.SGD(param_idx2name=["w"])


def test_wrong_shapes_are_named():
    with pytest.raises(MXNetError, match=r"grad has shape \(2,\), expected .* \(3,\)"):
        Updater(optimizer.SGD())(0, mx.nd.ones((2,)), mx.nd.ones((3,)))
    with pytest.raises(MXNetError, match="int32 cannot be trained"):
        Updater(optimizer.SGD())(0, mx.nd.ones((2,), dtype="int32"),
                                 mx.nd.ones((2,), dtype="int32"))


class Signed(Optimizer):
    """A user's optimizer, in the words of MXNet's tutorials."""

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


# ------------------------------------------------------------------------------------------ states

@pytest.mark.parametrize("name, params", CASES[5:13], ids=IDS[5:13])
def test_states_change_sides(oracle, name, params):
    """Each reads the other's file and goes on training as the writer does."""
    ours, theirs = run_both(oracle, name, params, 3)
    assert training.read_states(mx, theirs["states"])["arrays"]
    for content in (ours["states"], theirs["states"], ours["whole"], theirs["whole"]):
        here = training.read_states(mx, content)
        there = oracle.call("mx_scripts.run", "training", "read_states", content)
        np.testing.assert_equal(here["arrays"], there["arrays"])
        assert here["optimizer"] == there["optimizer"]
        assert here["fields"] == there["fields"]
    follow = [training.optimizer_steps(mx, name, params, 2, states=theirs["states"]),
              oracle.call("mx_scripts.run", "training", "optimizer_steps", name, params, 2,
                          states=ours["states"])]
    np.testing.assert_allclose(*(run["weights"] for run in follow), rtol=1e-4, atol=1e-5)


def test_scheduler_and_mixed_precision_states():
    params = {"momentum": 0.9, "multi_precision": True}
    run = training.optimizer_steps(mx, "sgd", params, 4, "float16", scheduler=SCHEDULE)
    states, found = load_states(run["whole"])
    assert [state.dtype for state in states[0]] == [np.float32] * 2
    assert found.num_update == 4 and found.lr_scheduler.count == 3
    assert dump_states((states, found)) == run["whole"]


class FakeArray:
    """Pickles as MXNet's arrays do."""

    def __init__(self, array, module="mxnet.ndarray.ndarray"):
        self.array, self.module = array, module


class OldPickler(pickle._Pickler):
    """Writes `FakeArray` under MXNet's class name, in any protocol."""

    def save_global(self, obj, name=None):
        if obj is FakeArray:
            self.write(f"c{self.module}\nNDArray\n".encode())
        else:
            super().save_global(obj, name)

    dispatch = {**pickle._Pickler.dispatch, type: save_global}

    def reducer_override(self, obj):
        if isinstance(obj, FakeArray):
            content = bytearray(mx.serialization.record_bytes(obj.array))
            self.module = obj.module
            return FakeArray, (None,), {"handle": content}
        return NotImplemented


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("module", ["mxnet.ndarray.ndarray", "mxnet.ndarray"])
def test_every_pickle_protocol_is_read(protocol, module, tmp_path):
    fake = FakeArray(np.arange(3, dtype=np.float32), module)
    with open(tmp_path / "x.states", "wb") as stream:
        OldPickler(stream, protocol).dump({0: None, 1: fake, "w": (fake, [fake, 2.5, -(1 << 40)])})
    states, _ = load_states((tmp_path / "x.states").read_bytes())
    assert states[0] is None and states["w"][0] is states["w"][1][0] is states[1]
    assert states["w"][1][1:] == [2.5, -(1 << 40)]
    assert states[1].asnumpy().tolist() == [0, 1, 2]


HOSTILE = {
    "a call": (pickle.dumps({0: print}), "builtins.print is not allowed"),
    "a reduction": (b"cos\nsystem\n(S'true'\ntR.", "os.system is not allowed"),
    "an optimizer elsewhere": (b"cevil.module\nSGD\n)\x81.", "evil.module.SGD is not allowed"),
    "a set": (pickle.dumps({0: {1, 2}}), "EMPTY_SET is not allowed"),
    "a persistent id": (b"Pid\n.", "PERSID is not allowed"),
    "text as a state": (pickle.dumps({0: "text"}), "holds a str"),
    "a number": (pickle.dumps(5), "expected a dict, found int"),
    "no optimizer": (pickle.dumps(({}, 5)), "expected an Optimizer"),
    "an array of nothing": (b"}K\x00cmxnet.ndarray\nNDArray\nN\x85R}bs.", "no contents"),
    "a key of tuples": (b"}))\x86Ns.", "a dict key is a tuple"),
    "a list within itself": (b"}K\x00]\x94h\x00as.", "more than 1000 parts"),
    "a memo that is not there": (b"h\x05.", "damaged at byte 0"),
    "an empty stack": (b"\x85.", "damaged"),
    "not a pickle": (b"\xff\xfe", "damaged"),
    "nothing": (b"", "damaged"),
    "a bad array": (pickle.dumps({0: None})[:-2] + b"cmxnet.ndarray\nNDArray\nN\x85R}"
                    b"X\x06\x00\x00\x00handleC\x02ab" b"sb.", "array record"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_states(kind):
    content, message = HOSTILE[kind]
    with pytest.raises(MXNetError, match=message):
        load_states(content)


def test_damaged_states():
    whole = training.optimizer_steps(mx, "adam", {}, 1)["whole"]
    rng = np.random.default_rng(0)
    for end in range(0, len(whole) - 1, 7):
        damaged = bytearray(whole)
        damaged[int(rng.integers(len(whole)))] = int(rng.integers(256))
        with pytest.raises(MXNetError):
            load_states(whole[:end])
        try:
            load_states(damaged)
        except MXNetError:
            pass


def test_optimizer_of_an_older_mxnet():
    """Attributes that came later have their defaults; the counts are those of the only device."""
    file = (b"(}cmxnet.optimizer\nAdam\n)\x81}(X\x05\x00\x00\x00beta1G?\xe0\x00\x00\x00\x00\x00\x00"
            b"X\x13\x00\x00\x00_index_update_count}K\x00K\x07subt.")
    _, found = load_states(file)
    assert (type(found), found.beta1, found.multi_precision) == (optimizer.Adam, 0.5, False)
    found._set_current_context(0)
    found._update_count(0)
    assert found.num_update == 8


def test_unwritable_states():
    with pytest.raises(MXNetError, match="a set cannot be written"):
        dump_states({0: {1}})
    nested: list = []
    nested.append(nested)
    with pytest.raises(MXNetError, match="too deep"):
        dump_states({0: nested})
