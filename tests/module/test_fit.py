"""`fit`, `score` and `predict` against MXNet's: order of calls, log lines, callbacks, history."""

from __future__ import annotations

import json
import logging
import sys
import warnings

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.programs import module_programs

# Variables left in MXNet's frame after an epoch or a callback.
LEFTOVERS = {"batch_end_params", "callback", "name", "val", "toc", "res"}

SAID_AGAIN = ("Already bound", "Parameters already initialized", "optimizer already initialized")
"""What MXNet says at a second `fit`."""


@pytest.mark.parametrize("case", module_programs.FITS)
def test_fit_calls_and_says_what_mxnet_does(oracle, case):
    theirs = oracle.call("mx_scripts.run", "module_programs", "fits", case)
    ours = module_programs.fits(mx, case)
    mine, wanted = ([event for event in side["events"]
                     if not any(text in str(event) for text in SAID_AGAIN)]
                    for side in (ours, theirs))
    assert mine == wanted
    for mine, wanted in zip(ours["locals"], theirs["locals"], strict=True):
        assert set(wanted) - LEFTOVERS <= set(mine)


# -- another optimizer in a second fit ---------------------------------------------------------


def ignored(module, caplog, first, second):
    """What a second `fit` says of the optimizer."""
    for options in (first, second):
        caplog.clear()
        module.fit(module_programs.iterator(mx), num_epoch=1, **options)
    return [text for text in caplog.messages if "optimizer already initialized" in text]


SGD = {"optimizer_params": {"learning_rate": 0.1, "momentum": 0.9}}


def scheduled(factor):
    return {"optimizer_params": {"lr_scheduler": mx.lr_scheduler.FactorScheduler(2, factor)}}


@pytest.mark.parametrize(("first", "second", "differs"), [
    (SGD, SGD, False),
    (SGD, {}, False),
    (SGD, {"optimizer": "SGD", "optimizer_params": (("momentum", 0.9), ("learning_rate", 0.1))},
     False),
    (scheduled(0.5), scheduled(0.5), False),
    (SGD, {"optimizer_params": {"learning_rate": 0.01, "momentum": 0.9}}, True),
    (SGD, {"optimizer": "adam"}, True),
    (SGD, {"optimizer": mx.optimizer.Adam()}, True),
    (SGD, {"optimizer": "no such optimizer"}, True),
    (scheduled(0.5), scheduled(0.25), True),
    ({}, scheduled(0.25), True),
])  # fmt: skip
def test_a_second_fit_warns_of_another_optimizer_only(caplog, first, second, differs):
    said = ignored(mx.mod.Module(module_programs.network(mx)), caplog, first, second)
    assert len(said) == differs
    assert all("force_init=True" in text for text in said)


def test_the_optimizer_in_use_can_be_given_again(caplog):
    optimizer = mx.optimizer.SGD(learning_rate=0.1, rescale_grad=0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rescale_grad
        assert ignored(mx.mod.Module(module_programs.network(mx)), caplog, {"optimizer": optimizer},
                       {"optimizer": optimizer}) == []


def in_parts():
    """A module that takes the parts of a network one after the other."""
    first = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="first")
    last = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="last")
    return mx.mod.SequentialModule().add(mx.mod.Module(first, label_names=None)).add(
        mx.mod.Module(mx.sym.SoftmaxOutput(last, name="softmax")), take_labels=True,
        auto_wiring=True)


@pytest.mark.parametrize("differs", [False, True])
def test_sequential_modules_warn_of_another_optimizer(caplog, differs):
    second = {"optimizer": "adam"} if differs else SGD
    assert len(ignored(in_parts(), caplog, SGD, second)) == differs


@pytest.mark.parametrize("differs", [False, True])
def test_bucketing_modules_warn_of_another_optimizer(caplog, differs):
    names = ["data"], ["softmax_label"]
    module = mx.mod.BucketingModule(lambda key: (module_programs.network(mx), *names), 1)
    data = module_programs.iterator(mx)
    module.bind(data.provide_data, data.provide_label)
    module.init_params()
    module.init_optimizer(**SGD)
    with module._preparing():
        module.init_optimizer(optimizer="adam" if differs else "sgd", **SGD)
    assert len([text for text in caplog.messages if "already initialized" in text]) == differs


# -- history ----------------------------------------------------------------------------------


def fitted(**options):
    module = mx.mod.Module(module_programs.network(mx))
    module.fit(module_programs.iterator(mx), arg_params=module_programs.start(mx), aux_params={},
               **options)
    return module


def test_history_is_what_the_log_says(caplog):
    caplog.set_level("INFO")
    module = fitted(num_epoch=3, eval_metric=["acc", "ce"], validation_metric="acc",
                    eval_data=module_programs.iterator(mx))
    assert [past["epoch"] for past in module.history] == [0, 1, 2]
    for past in module.history:
        epoch, train = past["epoch"], past["train"]
        said = [*(f"Epoch[{epoch}] Train-{name}={value:f}" for name, value in train.items()),
                f"Epoch[{epoch}] Time cost={past['seconds']:.3f}",
                f"Epoch[{epoch}] Validation-accuracy={past['validation']['accuracy']:f}"]
        assert said == [text for text in caplog.messages if text.startswith(f"Epoch[{epoch}]")]
    assert json.loads(json.dumps(module.history)) == module.history


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
def test_resumed_training_goes_on_in_its_history():
    module = fitted(num_epoch=2)
    first = [dict(past) for past in module.history]
    module.fit(module_programs.iterator(mx), num_epoch=4, begin_epoch=2)
    assert [past["epoch"] for past in module.history] == [0, 1, 2, 3]
    assert module.history[:2] == first
    module.fit(module_programs.iterator(mx), num_epoch=1)
    assert [past["epoch"] for past in module.history] == [0]


def test_callbacks_find_the_epoch_in_the_history():
    seen = []
    module = mx.mod.Module(module_programs.network(mx))
    module.fit(module_programs.iterator(mx), num_epoch=2,
               epoch_end_callback=lambda epoch, *rest: seen.append(module.history[epoch]["train"]))
    assert len(seen) == 2 and all("accuracy" in found for found in seen)


def test_metrics_that_give_more_than_numbers_do_not_stop_training(monkeypatch):
    """MXNet fails to log them and continues."""
    class Confusion(mx.metric.EvalMetric):
        def update(self, labels, preds):
            pass

        def get(self):
            return ["table", "rate"], [mx.nd.ones((2, 2)), np.float32(0.5)]

    monkeypatch.setattr(logging, "raiseExceptions", False)
    module = fitted(num_epoch=1, eval_metric=Confusion("confusion"),
                    eval_data=module_programs.iterator(mx))
    assert [module.history[0][kind] for kind in ("train", "validation")] == [{"rate": 0.5}] * 2


def test_a_history_is_drawn(tmp_path):
    module = fitted(num_epoch=3, eval_metric=["acc", "ce"], validation_metric="acc",
                    eval_data=module_programs.iterator(mx))
    figure = mx.history.plot(module.history, tmp_path / "curve.svg", "a title")
    accuracy, entropy = figure.axes
    assert [line.get_label() for line in accuracy.lines] == ["training", "validation"]
    assert [line.get_label() for line in entropy.lines] == ["training"]
    drawn = [list(line.get_xdata()) for line in accuracy.lines]
    assert drawn == [[1, 2, 3]] * 2
    assert entropy.lines[0].get_ydata()[2] == module.history[2]["train"]["cross-entropy"]
    assert (tmp_path / "curve.svg").stat().st_size > 1000


def test_the_best_epoch_is_marked():
    """Of validation before training, of numbers before NaN, and the first of equal ones."""
    def past(epoch, accuracy, loss, other):
        return {"epoch": epoch, "train": {"loss": loss, "other": other, "accuracy": 1.0},
                "validation": {"accuracy": accuracy}}

    figure = mx.history.plot([past(3, .5, 2., 1), past(4, .75, 1., 2),
                              past(5, .75, float("nan"), 3)])
    marks = {axes.get_ylabel(): [tuple(spot) for marker in axes.collections
                                 for spot in marker.get_offsets().tolist()]
             for axes in figure.axes}
    assert marks == {"loss": [(5, 1)], "other": [], "accuracy": [(5, .75)]}
    told = [text.get_text() for axes in figure.axes for text in axes.get_legend().texts]
    assert "best: epoch 5, 0.75" in told and "best: epoch 5, 1" in told
    one, = mx.history.plot([{"epoch": 0, "train": {"f1": 1}, "validation": {}}]).axes
    assert [tick for tick in one.get_xticks() if .5 <= tick <= 1.5] == [1]


@pytest.mark.parametrize("history, absent, text", [
    ([], False, "call fit first"), ([{}], True, r"nbmod\[plot\]")])
def test_what_cannot_be_drawn(monkeypatch, history, absent, text):
    if absent:
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MXNetError, match=text):
        mx.history.plot(history)


def test_a_second_fit_is_silent(caplog):
    module = fitted(num_epoch=1)
    caplog.clear()
    module.fit(module_programs.iterator(mx), num_epoch=1)  # a warning would be an error here
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_binding_without_labels_is_silent():
    net = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax")
    mx.mod.Module(net).bind([("data", (2, 3))], for_training=False)


def test_an_absent_gpu_is_named_where_the_module_is_made():
    with pytest.raises(MXNetError, match=r"gpu\(77\) was asked for"):
        mx.mod.Module(mx.sym.Variable("data"), label_names=[], context=mx.gpu(77))
