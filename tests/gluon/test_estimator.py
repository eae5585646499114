"""`mx.gluon.contrib.estimator`: logs, events, values and files are MXNet's, but for its faults."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.gluon.contrib import estimator as module
from tests.compare import assert_like, assert_same
from tests.programs import gluon_estimator
from tests.programs.gluon_estimator import data_of, make


def theirs_of(oracle, function, *arguments):
    return oracle.call("mx_scripts.run", "gluon_estimator", function, *arguments)


def test_trainings_are_mxnets(oracle):
    theirs, ours = theirs_of(oracle, "trained"), gluon_estimator.trained(mx)
    assert [*ours] == [*theirs] == [*gluon_estimator.CASES]
    for name, expected in theirs.items():
        # Values in the log have four digits; sums of a few float32 products differ by less.
        assert ours[name]["log"] == expected["log"], name
        assert_like(ours[name], expected, 1e-5)


def test_names_and_priorities_are_mxnets(oracle):
    assert_like(gluon_estimator.names(mx), theirs_of(oracle, "names"), 0)


@pytest.mark.parametrize("seed", range(6))
def test_random_handlers_get_events_in_mxnets_order(oracle, seed):
    ours = gluon_estimator.events(mx, seed)
    assert len(ours) > 10 and ours == theirs_of(oracle, "events", seed)


def test_files_and_logs_of_checkpoints_are_mxnets(oracle):
    ours, theirs = gluon_estimator.checkpoints(mx), theirs_of(oracle, "checkpoints")
    assert len(ours) == len(theirs) > 2 * len(gluon_estimator.CHECKPOINTS)
    for number, (mine, expected) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == tuple(expected), f"training {number}"


def test_errors_are_mxnets(oracle):
    ours, theirs = gluon_estimator.errors(mx), theirs_of(oracle, "errors")
    assert len(ours) == len(theirs)
    for number, (mine, expected) in enumerate(zip(ours, theirs, strict=True)):
        assert_like(mine, expected, 0, f"call {number}")


# -- where MXNet fails ----------------------------------------------------------------------------


def fit(epochs, *handlers, estimator=None, **options):
    estimator = make(mx, **options) if estimator is None else estimator
    estimator.fit(data_of(mx), epochs=epochs, event_handlers=[*handlers])
    return estimator


def weights(estimator):
    return [each.data().asnumpy() for each in estimator.net.collect_params().values()]


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_that_goes_on_is_the_same_bit_for_bit(tmp_path, optimizer, hybridized):
    def network():
        net = mx.gluon.nn.Dense(3, in_units=2)
        net.hybridize(hybridized)
        net.initialize()
        trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {
            "wd": 0.01, "lr_scheduler": mx.lr_scheduler.FactorScheduler(4, 0.5, base_lr=0.1)})
        return make(mx, net=net, trainer=trainer)

    whole = fit(12, estimator=network())
    for epochs in (5, 11, 12):
        handler = module.CheckpointHandler(str(tmp_path), max_checkpoints=2,
                                           resume_from_checkpoint=epochs > 5)
        last = fit(epochs, handler, estimator=network())
    for mine, expected in zip(weights(last), weights(whole), strict=True):
        np.testing.assert_array_equal(mine, expected)
    assert sorted(os.listdir(tmp_path)) == [
        f"model-epoch{epoch}batch{3 * epoch + 3}.{kind}"
        for epoch in (10, 11) for kind in ("params", "states")] + ["model-symbol.json"] * hybridized


def test_checkpoints_of_other_numbers_and_prefixes_stay(tmp_path):
    others = ["batch-epoch0batch9.params", "model-epoch0batch10.params.bak",
              "my-model-epoch90batch1.params", "model-best-old.params", "model-epochs.params"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    handler = module.CheckpointHandler(str(tmp_path), epoch_period=None, batch_period=1,
                                       max_checkpoints=10, resume_from_checkpoint=True)
    make(mx).fit(data_of(mx), batches=12, event_handlers=handler)    # 0 and 1 go; 10 and 11 stay
    assert sorted(handler.saved_checkpoints) == sorted(
        f"model-epoch{batch // 3}batch{batch}" for batch in range(2, 12))
    assert {*others} < {*os.listdir(tmp_path)} and len(os.listdir(tmp_path)) == 25
    make(mx).fit(data_of(mx), batches=13, event_handlers=handler)
    assert handler.saved_checkpoints[-1] == "model-epoch4batch12"


def test_a_handler_and_its_list_serve_again(tmp_path):
    estimator, handlers = make(mx), [module.CheckpointHandler(str(tmp_path), max_checkpoints=2),
                                     module.StoppingHandler()]
    for _ in range(2):
        estimator.fit(data_of(mx), epochs=3, event_handlers=handlers)
        assert len(handlers) == 2 and handlers[1].current_epoch == 3
        assert handlers[0].saved_checkpoints == ["model-epoch1batch6", "model-epoch2batch9"]
        assert len(os.listdir(tmp_path)) == 4
    assert make(mx, train_metrics=estimator.train_metrics).train_metrics[0].name == (
        "training accuracy")


@pytest.mark.parametrize("kind", ["params", "states"])
def test_a_save_that_fails_leaves_both_files(tmp_path, monkeypatch, kind):
    handler = module.CheckpointHandler(str(tmp_path), "m")
    estimator = fit(1, handler)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 2
    owner, method = {"params": (estimator.net, "save_parameters"),
                     "states": (estimator.trainer, "save_states")}[kind]

    def fail(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, method, fail)
    with pytest.raises(KeyboardInterrupt):
        fit(1, handler, estimator=estimator)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("metric", "better"), [
    (mx.metric.Accuracy(), np.greater), (mx.metric.TopKAccuracy(2), np.greater),
    (mx.metric.F1(), np.greater), (mx.metric.MCC(), np.greater),
    (mx.metric.PearsonCorrelation(), np.greater), (mx.metric.Loss(), np.less),
    (mx.metric.CrossEntropy(), np.less), (mx.metric.MSE(), np.less)])
def test_direction_of_a_metric_follows_from_its_name(tmp_path, metric, better):
    with pytest.warns(UserWarning, match=f"`{better.__name__}` operator will be used"):
        assert module.EarlyStoppingHandler(metric).monitor_op is better
    with pytest.warns(UserWarning, match=better.__name__), \
            pytest.warns(RuntimeWarning, match="mode best is unknown"):
        handler = module.CheckpointHandler(str(tmp_path), monitor=metric, save_best=True,
                                           mode="best")
    assert handler.monitor_op is better


def test_log_of_checkpoints_tells_of_their_epochs(tmp_path):
    lines: list[str] = []
    estimator = make(mx, lines=lines)
    loss = estimator.train_metrics[1]
    handler = module.CheckpointHandler(str(tmp_path), monitor=loss, save_best=True, mode="max",
                                       verbose=1)
    fit(2, handler, estimator=estimator)
    told = [line.partition("CheckpointHandler: ")[::2] for line in lines if "tHandler:" in line]
    assert [(epoch, text[:26]) for epoch, text in told] == [
        ("[Epoch 0] ", "trained total 3 batches, s"), ("[Epoch 0] ", "training softmaxcrossentro"),
        ("[Epoch 1] ", "trained total 6 batches, s"), ("[Epoch 1] ", "training softmaxcrossentro")]
    assert "improved from -inf to 1." in told[1][1] and "did not improve from 1." in told[3][1]


def test_stopping_in_the_first_epoch_is_logged():
    lines: list[str] = []
    estimator = make(mx, lines=lines)
    fit(5, module.EarlyStoppingHandler(estimator.train_metrics[0], mode="max", baseline=2),
        estimator=estimator)
    assert [line for line in lines if "early stopping" in line] == [
        "[Epoch 0] EarlyStoppingHanlder: early stopping due to training accuracy not improving"]


def test_metrics_that_are_not_updated_are_warned_of(tmp_path):
    metric = mx.metric.Accuracy(name="other")
    handlers = [module.EarlyStoppingHandler(metric, mode="max"),
                module.CheckpointHandler(str(tmp_path), monitor=metric, save_best=True, mode="max")]
    with pytest.warns(RuntimeWarning) as warned:
        fit(1, *handlers)
    assert [str(each.message).partition("other is not updated")[0] for each in warned] == [
        "", "Skipping save best because "]


def test_handlers_may_have_attributes_about_metrics_that_are_none():
    class Handler(module.EpochEnd):
        metric_name, best_metrics, metric_limit = "acc", ["acc", "f1"], 0.5

        def update_metrics(self):
            pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(1, Handler())


def test_composite_metrics_of_lists_are_taken_apart():
    metrics = [mx.metric.create(["acc", "loss"]), mx.metric.TopKAccuracy(2)]
    assert len(make(mx, train_metrics=metrics).train_metrics) == 3


@pytest.mark.parametrize("length", [{"epochs": -1}, {"epochs": 1.5}, {"batches": -2},
                                    {"batches": "2"}])
def test_numbers_that_training_never_reaches_are_refused(length):
    samples = mx.gluon.data.ArrayDataset(mx.nd.ones((2, 4)), mx.nd.ones(2))
    ending = module.StoppingHandler()
    ending.epoch_end = lambda *args, **kwargs: True     # or it would train forever
    with pytest.raises(ValueError, match=f"{next(iter(length))} is .*a positive integer"):
        make(mx).fit(mx.gluon.data.DataLoader(samples, 1), event_handlers=[ending], **length)


@pytest.mark.parametrize("call", [
    lambda: make(mx).fit(mx.gluon.data.DataLoader([], batch_size=1), batches=3),
    lambda: module.LoggingHandler(log_interval=0), lambda: module.MetricHandler(3),
    lambda: fit(1, 3), lambda: module.Estimator(mx.gluon.nn.Dense(2), mx.gluon.loss.L2Loss(),
                                                context=[mx.cpu(), 3])])
def test_wrong_arguments_are_named(call):
    with pytest.raises(MXNetError) as raised:
        call()
    assert isinstance(raised.value, ValueError)


def test_missing_states_are_named(tmp_path):
    fit(1, module.CheckpointHandler(str(tmp_path)))
    os.remove(tmp_path / "model-epoch0batch3.states")
    with pytest.raises(MXNetError, match="Failed to load checkpoint, .*batch3.states does not"):
        fit(2, module.CheckpointHandler(str(tmp_path), resume_from_checkpoint=True))


def test_parameters_of_two_contexts_stay_equal_and_go_on(tmp_path):
    """The Trainer's store is made anew with the parameters of the file."""
    estimators = [make(mx, contexts=2) for _ in range(2)]
    fit(4, estimator=estimators[0])
    fit(2, module.CheckpointHandler(str(tmp_path)), estimator=make(mx, contexts=2))
    fit(4, module.CheckpointHandler(str(tmp_path), resume_from_checkpoint=True),
        estimator=estimators[1])
    for whole, resumed in zip(*(each.net.collect_params().values() for each in estimators),
                              strict=True):
        values = [array.asnumpy() for array in whole.list_data() + resumed.list_data()]
        for other in values[1:]:
            assert_same(other, values[0], 0, whole.name)


def test_a_processor_of_batches_is_called():
    class Processor(module.BatchProcessor):
        count = 0

        def fit_batch(self, estimator, train_batch, batch_axis=0):
            self.count += 1
            return super().fit_batch(estimator, train_batch, batch_axis)

    processor = Processor()
    fit(2, batch_processor=processor)
    assert processor.count == 6
