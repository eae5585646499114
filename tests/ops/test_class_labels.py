"""SoftmaxOutput refuses labels that are neither a class nor ignored."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG

CLASSES = 5
SIZES = [2, 64, 4096]
"""Samples for which gradients are computed by NumPy, by one thread and by all."""


def executor(labels: np.ndarray, **attrs: object) -> mx.executor.Executor:
    net = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax", **attrs)
    shape = (len(labels), CLASSES, *labels.shape[1:])
    bound = net.simple_bind(mx.cpu(), data=shape, softmax_label=labels.shape)
    bound.forward(is_train=True, softmax_label=labels)
    return bound


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("value", [CLASSES, -2, 255, np.nan, np.inf])
def test_a_label_that_is_no_class_is_an_error(count, value):
    labels = np.arange(count, dtype=np.float32) % CLASSES
    labels[count // 2] = value
    bound = executor(labels)
    with pytest.raises(mx.MXNetError, match=rf"softmax_backward .*label\[{count // 2}\] is "
                       rf"{value:g}, expected one of 5 classes, .* 1 of {count} labels"):
        bound.backward()


@pytest.mark.parametrize("count", SIZES)
def test_classes_and_ignored_labels_are_accepted(count):
    """Without `use_ignore`, too: its default -1 marks samples without a class."""
    labels = np.arange(count, dtype=np.float32) % CLASSES + 0.9    # truncated
    for ignored, attrs in ((-1, {}), (255, {"ignore_label": 255, "use_ignore": True})):
        labels[-1] = ignored
        executor(labels, **attrs).backward()


def test_positions_of_images_are_named():
    labels = np.zeros((2, 3, 4), np.float32)
    labels[1, 2, 0] = 9
    with pytest.raises(mx.MXNetError, match=r"label\[1, 2, 0\] is 9, expected one of 5"):
        executor(labels, multi_output=True).backward()


def test_probabilities_are_no_labels():
    shape = (4, CLASSES)
    net = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax")
    bound = net.simple_bind(mx.cpu(), data=shape, softmax_label=shape)
    bound.forward(is_train=True, softmax_label=np.full(shape, 7, np.float32))
    bound.backward()


def test_the_switch_accepts_them(monkeypatch):
    """No class is the target then: the gradient is the output."""
    monkeypatch.setattr(CONFIG, "check_labels", False)
    bound = executor(np.full(2, 7, np.float32))
    bound.backward()
    np.testing.assert_array_equal(bound.grad_dict["data"].asnumpy(), bound.outputs[0].asnumpy())


def test_parameters_stay_as_they_were():
    """Backward fails before the update."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=CLASSES, name="fc")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    data = mx.io.NDArrayIter(np.ones((8, 3), np.float32), np.full(8, CLASSES), 8)
    module.bind(data.provide_data, data.provide_label)
    module.init_params(mx.init.One())
    with pytest.raises(mx.MXNetError, match="expected one of 5 classes"):
        module.fit(data, num_epoch=1)
    assert (module.get_params()[0]["fc_weight"].asnumpy() == 1).all()
