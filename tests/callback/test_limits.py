"""ClipGradients and TimeLimit."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import ArgumentError
from tests.callback import runs
from tests.callback.runs import data, equal, fit, params


def step(contexts: int, kvstore: str, limit: float | None) -> tuple[dict, dict, float]:
    """Parameters before and after one step of SGD with learning rate 1, and the norm."""
    found = runs.module(contexts)
    batches = data(samples=4)
    found.bind(batches.provide_data, batches.provide_label)
    mx.random.seed(1)
    found.init_params(mx.init.Normal(1))
    before = params(found)
    clip = mx.callback.ClipGradients(np.inf if limit is None else limit)
    found.fit(batches, num_epoch=1, kvstore=kvstore, optimizer_params={"learning_rate": 1.0},
              batch_end_callback=clip)
    return before, params(found), clip.norm


def change(before: dict, after: dict) -> np.ndarray:
    return np.concatenate([(after[name] - before[name]).ravel() for name in before])


@pytest.mark.parametrize("contexts, kvstore", [(1, "local"), (2, "local"), (2, "device")])
def test_the_step_has_the_length_of_the_limit(contexts, kvstore):
    before, after, norm = step(contexts, kvstore, None)
    full = change(before, after)
    # Sums of some 26 float32 squares, in other orders.
    assert norm == pytest.approx(np.linalg.norm(full), rel=1e-5)
    before, after, again = step(contexts, kvstore, norm / 3)
    assert again == pytest.approx(norm, rel=1e-6)
    # Differences of parameters near 1 have absolute errors of float32's 6e-8.
    np.testing.assert_allclose(change(before, after), full / 3, atol=2e-7)


def test_smaller_gradients_are_left_alone():
    before, free, norm = step(1, "local", None)
    _, limited, _ = step(1, "local", norm * 1.01)
    assert equal(free, limited)


def test_sequential_modules_are_clipped_as_a_whole():
    body = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="first")
    head = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(
        mx.sym.Variable("data"), num_hidden=2, name="last"), name="softmax")
    found = mx.mod.SequentialModule()
    found.add(mx.mod.Module(body, label_names=None))
    found.add(mx.mod.Module(head), take_labels=True, auto_wiring=True)
    batches = data(samples=4)
    found.bind(batches.provide_data, batches.provide_label)
    mx.random.seed(1)
    found.init_params(mx.init.Normal(1))
    before = params(found)
    found.fit(batches, num_epoch=1, optimizer_params={"learning_rate": 1.0},
              batch_end_callback=mx.callback.ClipGradients(.01))
    # As above: the absolute error of some 22 differences.
    assert np.linalg.norm(change(before, params(found))) == pytest.approx(.01, abs=1e-6)


def test_a_limit_is_positive():
    with pytest.raises(ArgumentError, match="max_norm is 0"):
        mx.callback.ClipGradients(0)


def test_training_that_a_time_limit_ends_within_an_epoch_resumes_there(tmp_path, monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 10.0))  # ten seconds between looks
    whole = fit(runs.module(), None, 3)
    monkeypatch.setattr("nbmod.callback.limits.time.monotonic", lambda: next(clock))
    batches = []
    found = fit(runs.module(), None, 3, batch_end_callback=[
        mx.callback.TimeLimit(timedelta(minutes=1)), batches.append])
    assert len(batches) == 6 and [past["epoch"] for past in found.history] == [0]
    found.save_checkpoint(str(tmp_path / "net"), 1, save_optimizer_states=True)
    again = mx.mod.Module.load(str(tmp_path / "net"), 1, load_optimizer_states=True)
    fit(again, None, 3, begin_epoch=1, batch_end_callback=batches.append)
    assert len(batches) == 12 and equal(params(again), params(whole))
    assert [past["epoch"] for past in again.history] == [0, 1, 2]
