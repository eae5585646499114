"""Warnings of `fit` that are logged once."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError


def network(dead=False):
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="first")
    x = mx.sym.BlockGrad(x) if dead else x
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=2, name="last"), name="softmax")


def warnings_of(caplog, module, samples=8, **options):
    """What is logged above the level of progress."""
    caplog.clear()
    data = np.random.default_rng(0).random((samples, 3), np.float32)
    iterator = mx.io.NDArrayIter(data, np.zeros(samples), 4)
    module.fit(iterator, num_epoch=3, **options)
    return [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]


def test_sound_training_says_nothing(caplog):
    assert warnings_of(caplog, mx.mod.Module(network())) == []


def test_a_scale_that_is_constant_need_not_learn(caplog):
    """BatchNorm takes it for 1 by default, so that its gradient is 0."""
    x = mx.sym.BatchNorm(mx.sym.Variable("data"), name="norm")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=2, name="last"), name="softmax")
    assert warnings_of(caplog, mx.mod.Module(net)) == []


def test_gradients_that_are_zero_are_said_once(caplog):
    module = mx.mod.Module(network(dead=True))
    message, = warnings_of(caplog, module)
    assert message.endswith("do not learn: first_weight, first_bias")
    assert warnings_of(caplog, module) == []


def test_data_shorter_than_a_batch_is_said(caplog):
    message, = warnings_of(caplog, mx.mod.Module(network()), samples=3)
    assert "fewer samples than one batch" in message


def test_no_batch_is_explained():
    data = mx.io.NDArrayIter(np.ones((3, 3)), np.zeros(3), 4, last_batch_handle="discard")
    with pytest.raises(MXNetError, match="no batch in epoch 0; has it fewer samples"):
        mx.mod.Module(network()).fit(data, num_epoch=1)


def test_parameters_that_the_network_does_not_have_are_said(caplog):
    given = {f"fc{i}_weight": mx.nd.ones((2, 2)) for i in range(12)}
    message, = warnings_of(caplog, mx.mod.Module(network()), arg_params=given, allow_missing=True)
    assert "fc0_weight, fc1_weight" in message and message.endswith("and 2 more")
