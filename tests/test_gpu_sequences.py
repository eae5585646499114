"""Sequences on a GPU: recurrent networks in training, labels that nobody placed."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.cuda import simulator
from nbmod.ops.cuda.simulator import SCHEDULES
from tests import either, language_model, sampled
from tests.cases import all_samples
from tests.compare import assert_same

pytestmark = pytest.mark.gpu

SGD = ("sgd", {"learning_rate": 0.1, "momentum": 0.9})
# Three steps of training; each adds a rounding error or two of 6e-8 to numbers of order 1.
TRAINED = 1e-5


@pytest.mark.parametrize("cell, lengths", [
    ("fused lstm", [4]), ("fused gru", [3]), ("fused lstm", [3, 2]), ("lstm", [2])], ids=str)
def test_recurrent_networks_learn_the_same_on_a_gpu(cell, lengths):
    args = (mx, cell, lengths, *SGD, 3)
    want = language_model.trained(*args)
    got = language_model.trained(*args, context=mx.gpu(0))
    assert got.keys() == want.keys() and want["moved"] > 10 * TRAINED
    for name, value in want.items():
        assert_same(got[name], value, TRAINED, name)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_labels_of_many_lengths(monkeypatch, schedule):
    """More samples than there are blocks, places for four turns of a block, ragged ends."""
    from nbmod.ops.cuda.blocks import LANES, MAX_CELLS

    monkeypatch.setattr(simulator, "schedule", schedule)
    most, samples, classes, rng = 2 * LANES, MAX_CELLS + 2, 5, np.random.default_rng(0)
    time = most + 3
    assert 2 * most + 1 > 3 * LANES
    values = {"data": rng.standard_normal((time, samples, classes)),
              "label": rng.integers(1, classes, (samples, most)),
              "data_lengths": rng.integers(most, time + 1, samples),
              "label_lengths": rng.integers(0, most // 2 + 1, samples)}
    values["label_lengths"][:2] = most, 0
    values["data_lengths"][:3] = time, time, 0
    values = {name: array.astype(np.float32) for name, array in values.items()}
    net = mx.sym.CTCLoss(**{name: mx.sym.Variable(name) for name in values}, use_data_lengths=True,
                         use_label_lengths=True)
    heads, runs = [rng.standard_normal(samples).astype(np.float32)], []
    for place in (mx.cpu(), mx.gpu(0)):
        with place:
            runs.append(either.run(mx, net, values, {"data": "write"}, heads))
    assert_same(runs[1]["outputs"][0], runs[0]["outputs"][0], 1e-5, "loss")
    assert_same(runs[1]["grads"]["data"], runs[0]["grads"]["data"], 1e-5, "gradient")


WRONG = {name: sample for name, sample in all_samples().items()
         if sample.op in ("CTCLoss", "RNN") and sample.error.startswith((
             r"label\[", "labels end", "sequence_length has the value"))}


@pytest.mark.parametrize("name", WRONG)
def test_labels_and_lengths_that_cannot_be_are_errors(name):
    sample = WRONG[name]
    with mx.gpu(0), pytest.raises(mx.MXNetError, match=sample.error):
        sampled.run(sample, "float32", {})
