"""`fit(nan_guard=True)` names the first tensor that is not finite; `fit` warns of such a metric."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError, NotFinite
from nbmod.callback import epoch_bars
from tests.callback import runs
from tests.terminals import Terminal


def network():
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="first")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=2, name="last"), name="softmax")


def train(net, values=None, guard=True, label_names=("softmax_label",), **options):
    data = np.ones((12, 3), np.float32) if values is None else values
    iterator = mx.io.NDArrayIter(data, None if label_names is None else np.zeros(12), 4)
    module = mx.mod.Module(net, label_names=label_names)
    options = {"num_epoch": 2, "initializer": mx.init.One(), "nan_guard": guard} | options
    try:
        module.fit(iterator, **options)
    except NotFinite as error:
        return str(error), module
    return "", module


def test_the_node_that_made_it_is_named_before_parameters_are_updated():
    data = np.ones((12, 3), np.float32)
    data[8:] = np.linspace(-1, 1, 12).reshape(4, 3)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.log(
        mx.sym.Variable("data") * 2, name="logarithm"), num_hidden=2, name="last"), name="softmax")
    message, module = train(net, data, optimizer_params={"learning_rate": 0.1})
    assert "epoch 0, batch 2, step 2: of the 12 elements of logarithm_output (4, 3), 6" in message
    assert "before this step" in message
    for array in module.get_params()[0].values():
        assert np.isfinite(array.asnumpy()).all()


def test_data_and_parameters_are_named():
    data = np.ones((12, 3), np.float32)
    data[5, 1] = np.inf
    message, _ = train(network(), data)
    assert "epoch 0, batch 1, step 1: of the 12 elements of data (4, 3), 1 infinite" in message
    weights = {"first_bias": mx.nd.array([0, np.nan, 0, 0])}
    message, _ = train(network(), arg_params=weights, allow_missing=True)
    assert "of the 4 elements of first_bias (4,), 1 NaN" in message


@pytest.mark.filterwarnings("ignore:overflow")
def test_an_update_that_overflows_is_named():
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2,
                                                     name="last"), name="softmax")
    message, _ = train(net, 1e5 * np.ones((12, 3), np.float32),
                       optimizer_params={"learning_rate": 1e38})
    assert "epoch 0, batch 0, step 0: of the 6 elements of last_weight (2, 3)" in message
    assert "its gradient was finite" in message


def test_a_gradient_alone_is_named():
    """The square root of 0 is 0, and its gradient infinite."""
    x = mx.sym.sqrt(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, no_bias=True,
                                          name="last"))
    message, _ = train(mx.sym.MakeLoss(x, name="loss"), initializer=mx.init.Zero(),
                       eval_metric=mx.metric.Loss(), label_names=None)
    assert "the gradient of last_weight (2, 3), 6 infinite" in message


def test_modules_of_modules_are_guarded():
    data = mx.io.NDArrayIter(np.full((8, 3), np.nan, np.float32), np.zeros(8), 4)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2),
                               name="softmax")
    sequential = mx.mod.SequentialModule().add(mx.mod.Module(net), take_labels=True)
    for module in (sequential, mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(1)])):
        with pytest.raises(NotFinite, match="data"):
            module.fit(data, num_epoch=1, nan_guard=True)
        data.reset()


def test_sound_training_is_as_without_it():
    data = np.random.default_rng(0).random((12, 3), np.float32)
    net = mx.sym.SoftmaxOutput(mx.sym.Dropout(mx.sym.FullyConnected(
        mx.sym.Variable("data"), num_hidden=2, name="last"), p=0.5), name="softmax")
    found = []
    for guard in (False, True):
        mx.random.seed(3)
        message, module = train(net, data, guard)
        found.append(module.get_params()[0]["last_weight"].asnumpy())
        assert not message
    np.testing.assert_array_equal(*found)


def test_it_is_both_kinds_of_error():
    assert issubclass(NotFinite, MXNetError) and issubclass(NotFinite, FloatingPointError)


# -- the warning of a metric -------------------------------------------------------------------


class Diverging(mx.metric.EvalMetric):
    """A metric that is `value` from the third batch of each epoch on."""

    def __init__(self, value: float):
        self.value = value
        super().__init__("diverging", has_global_stats=True)

    def update(self, labels: object, preds: object) -> None:
        self._add(self.value if self.global_num_inst == 2 else 1.0, 1)


def warnings_of(caplog, metric, callback=None, model=None, **options) -> list[str]:
    caplog.clear()
    (model or runs.module()).fit(runs.data(), eval_metric=metric, batch_end_callback=callback,
                                 **options)
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("value, text", [(float("nan"), "nan"), (float("inf"), "inf"),
                                         (-float("inf"), "-inf")])
@pytest.mark.parametrize("callback, batch", [
    (None, 3), (lambda: mx.callback.Speedometer(4, 1), 2), (lambda: mx.callback.Progress(
        stream=Terminal()), 2), (lambda: mx.callback.log_train_metric(2, True), 2)])
def test_a_metric_that_is_not_finite_is_warned_of_once(caplog, monkeypatch, value, text, callback,
                                                       batch):
    monkeypatch.setattr(epoch_bars, "INTERVAL", 0)
    monkeypatch.setattr(epoch_bars, "SHARE", 0)
    monkeypatch.setenv("TERM", "xterm")
    for metric in (Diverging(value), ["acc", Diverging(value)]):
        told = warnings_of(caplog, metric, callback and callback(), num_epoch=3)
        assert len(told) == 1
        assert told[0].startswith(f"fit: epoch 0, batch {batch}: the training metric diverging is "
                                  f"{text}; try a lower learning rate")
        assert "nan_guard=True" in told[0] and "NanGuard()" in told[0]


def test_each_fit_warns_and_sound_ones_do_not(caplog):
    metric, found = Diverging(float("nan")), runs.module()
    assert [len(warnings_of(caplog, metric, model=found, num_epoch=1)) for _ in range(2)] == [1, 1]
    assert warnings_of(caplog, "acc", mx.callback.Speedometer(4, 1), num_epoch=2) == []


def test_a_metric_of_no_samples_yet_is_no_reason_to_warn(caplog):
    """`Speedometer` resets it before other callbacks read it, and some metrics count no batch."""
    class Idle(mx.metric.EvalMetric):
        def update(self, labels: object, preds: object) -> None:
            pass

    callbacks = [mx.callback.Speedometer(4, 1), mx.callback.log_train_metric(1)]
    assert warnings_of(caplog, ["acc", Idle("idle")], callbacks, num_epoch=2) == []


def test_feed_forward_warns_too(caplog):
    with pytest.warns(DeprecationWarning):
        model = mx.model.FeedForward(runs.network(), num_epoch=2, learning_rate=0.1)
    assert len(warnings_of(caplog, Diverging(float("inf")), model=model)) == 1


def test_a_validation_is_not_training(caplog):
    runs.module().fit(runs.data(), runs.data(), num_epoch=1,
                      validation_metric=Diverging(float("nan")),
                      eval_batch_end_callback=mx.callback.Speedometer(4, 1))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
