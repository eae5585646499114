"""Learning rate schedulers: MXNet's rates update by update, and errors."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import nbmod as mx
from nbmod import lr_scheduler, misc
from nbmod.base import MXNetError
from tests.programs import training

WARM = {"warmup_steps": 3, "warmup_begin_lr": 0.001, "base_lr": 0.1}
SCHEDULES = [
    ("FactorScheduler", {"step": 2, "factor": 0.5}),
    ("FactorScheduler", {"step": 1, "factor": 0.1, "stop_factor_lr": 1e-4}),
    ("FactorScheduler", {"step": 2, "factor": 0.5, **WARM}),
    ("FactorScheduler", {"step": 2, "factor": 0.5, **WARM, "warmup_mode": "constant"}),
    ("MultiFactorScheduler", {"step": [2, 5], "factor": 0.1}),
    ("MultiFactorScheduler", {"step": [4, 5, 9], "factor": 0.3, **WARM}),
    ("PolyScheduler", {"max_update": 8}),
    ("PolyScheduler", {"max_update": 8, "pwr": 1, "final_lr": 0.002, **WARM}),
    ("CosineScheduler", {"max_update": 8}),
    ("CosineScheduler", {"max_update": 8, "final_lr": 0.002, **WARM}),
]
ERRORS = [
    ("FactorScheduler", {"step": 0}, "step is 0"),
    ("FactorScheduler", {"step": 2, "factor": 1.1}, "must not grow"),
    ("MultiFactorScheduler", {"step": []}, "a list of update counts"),
    ("MultiFactorScheduler", {"step": [2, 1]}, "ascending"),
    ("MultiFactorScheduler", {"step": [1, 1]}, "ascending"),
    ("MultiFactorScheduler", {"step": [0, 1]}, "at least 1"),
    ("MultiFactorScheduler", {"step": [1], "factor": 2}, "must not grow"),
    ("PolyScheduler", {"max_update": 0}, "max_update is 0"),
    ("CosineScheduler", {"max_update": 2.5}, "max_update is 2.5"),
    ("LRScheduler", {"warmup_steps": -1}, "warmup_steps is -1"),
    ("LRScheduler", {"warmup_begin_lr": 1}, "at most base_lr"),
    ("LRScheduler", {"warmup_mode": "slow"}, "'linear' or 'constant'"),
]


@pytest.mark.parametrize("name, params", SCHEDULES)
def test_rates_are_mxnets(oracle, name, params):
    # One by one, as after resuming, and backwards, which does not restore a rate.
    for counts in (list(range(14)), [1, 9, 30], [12, 3, 1, 20, 2]):
        want = oracle.call("mx_scripts.run", "training", "rates", name, params, counts)
        np.testing.assert_allclose(training.rates(mx, name, params, counts), want, rtol=1e-12)


@pytest.mark.parametrize("given", [
    {}, {"learning_rate": 0.2}, {"learning_rate": 0.1}, {"begin_num_update": 4},
    {"learning_rate": 0.3, "begin_num_update": 2},
], ids=lambda given: "-".join(given) or "nothing")  # fmt: skip
@pytest.mark.parametrize("name, params", SCHEDULES)
def test_rates_in_an_optimizer_are_mxnets(oracle, name, params, given):
    """A given `learning_rate` replaces the scheduler's base; its warm-up keeps its target."""
    want = oracle.call("mx_scripts.run", "training", "optimizer_rates", name, params, given)
    np.testing.assert_allclose(training.optimizer_rates(mx, name, params, given), want, rtol=1e-12)


@pytest.mark.parametrize("name, params, message", ERRORS)
def test_nonsense_is_refused(name, params, message):
    with pytest.raises(MXNetError, match=message) as found:
        getattr(lr_scheduler, name)(**params)
    assert isinstance(found.value, (ValueError, AssertionError))


def test_changes_are_logged(caplog):
    scheduler = lr_scheduler.FactorScheduler(1, 0.1, stop_factor_lr=1e-3)
    with caplog.at_level(logging.INFO):
        assert [scheduler(n) for n in (1, 2, 3)] == pytest.approx([1e-2, 1e-3, 1e-3])
    assert "Update[2]: Change learning rate to 1.00000e-03" in caplog.text
    assert "Update[3]: now learning rate arrived at 1.00000e-03" in caplog.text


def test_a_warm_up_as_long_as_the_decay():
    scheduler = lr_scheduler.PolyScheduler(5, warmup_steps=5)
    assert [scheduler(n) for n in (4, 5, 6)] == pytest.approx([0.008, 0.01, 0.01])


def test_legacy_scheduler():
    scheduler = misc.FactorScheduler(3, 0.1)
    scheduler.base_lr = 1
    assert [scheduler(n) for n in range(7)] == pytest.approx([1, 1, 1, 0.1, 0.1, 0.1, 0.01])
    with pytest.raises(MXNetError, match="must fall"):
        misc.FactorScheduler(3, 1.0)
