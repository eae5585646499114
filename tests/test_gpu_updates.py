"""Optimizers on GPUs: the weights of a list are stepped by one launch, whatever their rates."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.cuda import launch, simulator
from nbmod.optimizer import Updater
from tests.compare import assert_same

SHAPES = [(5, 7), (3,), (1,), (4, 4)]
MOMENTUM = {"momentum": 0.9, "wd": 0.1}


def stepped(context, name, params, dtype, mark=lambda: None):
    """Weights after three steps of a list at falling learning rates; some of them do not decay.
    `mark` is called before each step and after the last."""
    names = dict(enumerate(("a_weight", "b_bias", "c_gamma", "d_weight")))
    optimizer = mx.optimizer.create(name, param_idx2name=names, multi_precision=True, **params)
    updater, rng = Updater(optimizer), np.random.default_rng(0)
    weights, grads = ([mx.nd.array(rng.standard_normal(shape), ctx=context, dtype=dtype)
                       for shape in SHAPES] for _ in range(2))
    for rate in (0.1, 0.05, 0.01):
        mark()
        optimizer.set_learning_rate(rate)
        updater(list(range(len(weights))), grads, weights)
    mark()
    return [weight.asnumpy() for weight in weights]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name, params", [
    ("sgd", {"wd": 0.1}), ("sgd", MOMENTUM), ("nag", MOMENTUM), ("adam", {"wd": 0.1}),
    ("rmsprop", {"clip_gradient": 0.5})], ids=str)
def test_lists_are_stepped_by_one_launch(name, params, dtype, monkeypatch):
    """Launches are prepared in the first step only: rates are numbers in the card's memory."""
    counts, marks = {"Start": 0, "run": 0}, []
    want = stepped(mx.cpu(), name, params, dtype)
    for what in counts:
        real = getattr(simulator, what)

        def counted(*args, what=what, real=real):
            counts[what] += 1
            return real(*args)
        monkeypatch.setattr(simulator, what, counted)
    got = stepped(mx.gpu(0), name, params, dtype, lambda: marks.append(tuple(counts.values())))
    for mine, theirs in zip(got, want, strict=True):
        assert_same(mine, theirs, 1e-3 if dtype == "float16" else 1e-6, name)
    if launch.SIMULATED:
        steps = [(later[0] - before[0], later[1] - before[1]) for before, later in
                 zip(marks[1:], marks[2:], strict=False)]
        assert steps == [(0, 1), (0, 1)], "launches prepared, launches started"
