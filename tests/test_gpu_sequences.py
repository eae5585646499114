"""Sequences on a GPU: recurrent networks in training."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests import language_model
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
