"""Fused steps of all parameters: bitwise equal to separate steps, also after changes."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod import optimizer
from nbmod.ops import jit
from nbmod.ops.device import CPU
from nbmod.ops.optimizer import multi_tensor_apply
from nbmod.ops.simd.raw_arrays import array_at
from nbmod.optimizer import Updater
from tests.optimizer.test_optimizer import CASES, IDS

SHAPES = [(70, 30), (5,), (1,), (64, 64), (3, 700), (17,)]
NAMES = ["a_weight", "b_bias", "c_gamma", "d_weight", "e_weight", "f"]
ALL = {"learning_rate": 0.1, "wd": 0.05, "rescale_grad": 0.5, "clip_gradient": 0.2}


def arrays(dtypes, seed=0):
    rng = np.random.default_rng(seed)
    return [mx.nd.array(rng.standard_normal(shape)).astype(dtype)
            for shape, dtype in zip(SHAPES, dtypes * len(SHAPES), strict=False)]


def updater_of(name, params):
    names = dict(enumerate(NAMES))
    return Updater(optimizer.create(name, param_idx2name=names, **{"multi_precision": True,
                                                                   **params}))


def step_each(updater, grads, weights):
    """One by one: a call of one parameter is not prepared."""
    for index, (grad, weight) in enumerate(zip(grads, weights, strict=True)):
        updater(index, grad, weight)


def step_all(updater, grads, weights):
    updater(list(range(len(weights))), grads, weights)


def everything(updater, weights):
    """The complete state: weights, states, counts."""
    found = [weight.asnumpy() for weight in weights]

    def collect(state):
        for part in state if isinstance(state, (tuple, list)) else [state]:
            if isinstance(part, (tuple, list)):
                collect(part)
            elif part is not None:
                found.append(part.asnumpy())

    for key in sorted(updater.states):
        collect(updater.states[key])
    return found, updater.optimizer._all_index_update_counts, updater.optimizer.num_update


def require_equal(ones, others):
    assert ones[1:] == others[1:]
    for one, other in zip(ones[0], others[0], strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


RULES = [(name, params) for name, params in CASES if name != "groupadagrad"]


@pytest.mark.parametrize("dtypes", [["float32"], ["float16", "float32"], ["float64"]], ids="-".join)
@pytest.mark.parametrize("name, params", RULES,
                         ids=[label for (name, _), label in zip(CASES, IDS, strict=True)
                              if name != "groupadagrad"])
def test_bits_are_those_of_steps_one_by_one(name, params, dtypes):
    """Large enough for kernels in both; groups of SGD count before the first rate is looked up."""
    runs = []
    for way in (step_each, step_all):
        updater, weights = updater_of(name, params), arrays(dtypes)
        for number in range(3):
            way(updater, arrays(dtypes, 1 + number), weights)
        runs.append(everything(updater, weights))
    if name == "nadam" and len(dtypes) > 1:
        runs[0][0][:] = runs[1][0]  # its schedule depends on the order: groups are of one type
    require_equal(*runs)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_any_number_of_threads(name, monkeypatch):
    monkeypatch.setattr(multi_tensor_apply, "PARALLEL_FROM", 1)
    monkeypatch.setattr(multi_tensor_apply, "JOB", 1000)
    before, runs = jit.num_threads(), []
    for count in (1, before):
        jit.set_num_threads(count)
        updater, weights = updater_of(name, ALL), arrays(["float32"])
        for number in range(2):
            step_all(updater, arrays(["float32"], number), weights)
        runs.append(everything(updater, weights))
    jit.set_num_threads(before)
    require_equal(*runs)


# ---------------------------------------------------------------------------- changes between steps

def new_rate(updater, weights, grads):
    updater.optimizer.set_learning_rate(0.03)


def new_multipliers(updater, weights, grads):
    updater.optimizer.set_lr_mult({"a_weight": 0.5, 3: 2.0})
    updater.optimizer.wd_mult["e_weight"] = 3.0


def new_limits(updater, weights, grads):
    updater.optimizer.rescale_grad, updater.optimizer.clip_gradient = 0.25, 0.1


def new_gradients(updater, weights, grads):
    grads[2] = mx.nd.ones(grads[2].shape)


def new_weight(updater, weights, grads):
    weights[0] = mx.nd.ones(weights[0].shape)


def new_shape(updater, weights, grads):
    weights[1], grads[1] = mx.nd.ones((9, 200)), mx.nd.ones((9, 200))
    del updater.states[1]


def new_type(updater, weights, grads):
    weights[0], grads[0] = weights[0].astype("float64"), grads[0].astype("float64")
    del updater.states[0]


def new_states(updater, weights, grads):
    updater.set_states(updater.get_states())


def new_state(updater, weights, grads):
    state = updater.states[3]
    updater.states[3] = (tuple(part * 2 for part in state) if isinstance(state, tuple)
                         else state * 2)


def one_by_itself(updater, weights, grads):
    updater(4, grads[4], weights[4])


def new_optimizer(updater, weights, grads):
    updater.set_states(updater.get_states(dump_optimizer=True))
    updater.optimizer.lr = 0.3


CHANGES = [new_rate, new_multipliers, new_limits, new_gradients, new_weight, new_shape, new_type,
           new_states, new_state, one_by_itself, new_optimizer]


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
@pytest.mark.parametrize("name, params", [("sgd", {**ALL, "momentum": 0.9}), ("adam", ALL)])
def test_changes_between_steps_count(name, params, change):
    runs = []
    for way in (step_each, step_all):
        updater, weights, grads = updater_of(name, params), arrays(["float32"]), arrays(["float32"])
        way(updater, grads, weights)
        if change in (new_shape, new_type):
            change(updater, weights, grads)
            for index in [key for key in updater.states_synced if key not in updater.states]:
                del updater.states_synced[index]
        else:
            change(updater, weights, grads)
        way(updater, grads, weights)
        way(updater, grads, weights)
        runs.append(everything(updater, weights))
    require_equal(*runs)


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop"])
def test_scheduled_rates(name):
    runs = []
    for way in (step_each, step_all):
        scheduler = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
        updater, weights = updater_of(name, {"lr_scheduler": scheduler}), arrays(["float32"])
        for number in range(7):
            way(updater, arrays(["float32"], number), weights)
        runs.append(everything(updater, weights))
    require_equal(*runs)


def test_values_are_no_reason_to_compile(monkeypatch):
    """Rates, counts and gradients of a step are data; prepared calls remain valid."""
    updater, weights, grads = updater_of("adam", ALL), arrays(["float32"]), arrays(["float32"])
    step_all(updater, grads, weights)
    prepared = list(updater._fused.values())
    monkeypatch.setattr(jit.Kernel, "compile", None)
    monkeypatch.setattr("nbmod.ops.optimizer.sgd_update.kernel_for", None)
    for number in range(5):
        updater.optimizer.lr = 0.1 / (1 + number)
        grads[0][:] = number
        step_all(updater, grads, weights)
    assert list(updater._fused.values()) == prepared


def test_few_sets_of_arrays_are_kept():
    updater, weights = updater_of("sgd", {}), arrays(["float32"])
    held = [arrays(["float32"], number) for number in range(40)]
    for grads in held:
        step_all(updater, grads, weights)
    assert len(updater._fused) == 16


# ----------------------------------------------------------------- parameters stepped separately

class Clipped(optimizer.SGD):
    """A user's class, which reads the weight after the step."""

    def update(self, index, weight, grad, state):
        super().update(index, weight, grad, state)
        for one in weight if isinstance(weight, list) else [weight]:
            one[:] = mx.nd.clip(one, -0.1, 0.1)

    def update_multi_precision(self, index, weight, grad, state):
        self.update(index, weight, grad, state)


class Slower(optimizer.Adam):
    """A user's class, with a rate of its own for every parameter."""

    def _get_lr(self, index):
        return super()._get_lr(index) / (1 + index)


@pytest.mark.parametrize("kind", [Clipped, Slower])
def test_optimizers_that_users_derive(kind):
    runs = []
    for way in (step_each, step_all):
        updater, weights = Updater(kind(learning_rate=0.5)), arrays(["float32"])
        for number in range(2):
            way(updater, arrays(["float32"], number), weights)
        runs.append(everything(updater, weights))
    require_equal(*runs)
    if kind is Clipped:
        assert max(abs(weight).max() for weight in runs[1][0][:len(SHAPES)]) == np.float32(0.1)


def test_a_weight_given_twice_is_stepped_twice():
    weight, grad = mx.nd.zeros((2000,)), mx.nd.ones((2000,))
    updater = Updater(optimizer.SGD(learning_rate=0.5))
    updater([0, 1], [grad, grad], [weight, weight])
    assert set(weight.asnumpy()) == {np.float32(-1)}


@pytest.mark.parametrize("sets, expected", [
    ([([0], [1]), ([2], [3])], False), ([([0], [1]), ([0], [3])], False),
    ([([0], [1]), ([1], [3])], True), ([([0], [1]), ([2], [1])], True), ([([0], [0])], True)])
def test_overlap(sets, expected):
    memory = np.zeros((4, 8), np.float32)
    rows = [([memory[i] for i in read], [memory[i] for i in written]) for read, written in sets]
    assert multi_tensor_apply.overlap(rows, CPU.span) == expected
    assert multi_tensor_apply.overlap([*rows, ([], [memory])], CPU.span)


@pytest.mark.parametrize("sizes", [[1], [64] * 5, [100_000, 10, 1, 7, 64], [3] * 1000, [16384] * 3])
def test_jobs_are_all_elements_in_about_equal_shares(sizes):
    parts, jobs = multi_tensor_apply.divided(sizes)
    done = [[False] * size for size in sizes]
    for row, start, count in parts:
        assert count > 0 and not any(done[row][start:start + count])
        done[row][start:start + count] = [True] * count
    assert all(map(all, done)) and jobs[0] == 0 and jobs[-1] == len(parts)
    shares = [parts[a:b, 2].sum() for a, b in zip(jobs, jobs[1:], strict=False)]
    line = multi_tensor_apply.LINE
    assert min(shares) > 0 and max(shares) <= multi_tensor_apply.JOB + line + max(
        size for size in sizes if size < line or size == max(sizes)) % line


def test_array_at_an_address():
    numbers = np.arange(5, dtype=np.float32)
    found = array_at(numbers.ctypes.data + 4, 3, np.float32)
    found[0] = 9
    assert numbers.tolist() == [0, 9, 2, 3, 4] and found.dtype == np.float32
