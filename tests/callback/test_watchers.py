"""EarlyStopping, BestCheckpoint, ReduceLROnPlateau and StopTraining in `fit`."""

from __future__ import annotations

import logging
import os

import pytest

import nbmod as mx
from nbmod.base import ArgumentError, MXNetError
from tests.callback.runs import RATE, data, equal, fit, module, params


def epochs(found: mx.mod.Module) -> list[int]:
    return [past["epoch"] for past in found.history]


def test_early_stopping_counts_epochs_without_improvement():
    stopping = mx.callback.EarlyStopping(patience=2)
    found = fit(module(), [.5, .6, .6, .55, .9], eval_end_callback=stopping)
    assert epochs(found) == [0, 1, 2, 3] and (stopping.best, stopping.best_epoch) == (.6, 1)
    assert found.history[-1]["validation"] == {"accuracy": .55}  # the last epoch is recorded whole
    assert epochs(fit(module(), [.5, .4, .6, .6, .6], eval_end_callback=stopping)) == [
        0, 1, 2, 3, 4]  # a second fit counts anew


@pytest.mark.parametrize("options, scores, last", [
    ({"patience": 1, "min_delta": .1}, [.5, .55, .9], 1),
    ({"patience": 1, "mode": "min"}, [.5, .4, .45], 2),
    ({"patience": 1}, [.5, float("nan"), .6], 1),
    ({"patience": 3}, [.1, .2, .3, .4, .5, .6, .7, .8], 7)])
def test_what_an_improvement_is(options, scores, last):
    found = fit(module(), scores, eval_end_callback=mx.callback.EarlyStopping(**options))
    assert epochs(found)[-1] == last


def test_modes_follow_from_names_or_have_to_be_given():
    stopping = mx.callback.EarlyStopping(patience=1)
    assert len(fit(module(), [.5, .4, .3, .35], name="my-loss",
                   eval_end_callback=stopping).history) == 4
    with pytest.raises(ArgumentError, match="give mode='max' or 'min'"):
        fit(module(), [.5], name="score", eval_end_callback=stopping)
    with pytest.raises(ArgumentError, match=r"no metric 'acuracy'.*did you mean 'accuracy'"):
        fit(module(), [.5], eval_end_callback=mx.callback.EarlyStopping("acuracy"))
    with pytest.raises(ArgumentError, match="mode is 'best'"):
        mx.callback.EarlyStopping(mode="best")
    with pytest.raises(ArgumentError, match="min_delta is -1"):
        mx.callback.EarlyStopping(min_delta=-1)


@pytest.mark.parametrize("scores, count", [([.5, .7, .6, .6], 8), ([.5, .7, .6], 3)])
def test_the_best_parameters_are_restored_however_training_ends(scores, count):
    kept = []
    found = fit(module(), scores, count, epoch_end_callback=lambda epoch, *_: kept.append(
        params_of_epoch(_)), eval_end_callback=mx.callback.EarlyStopping(
            patience=2, restore_best=True))
    assert equal(params(found), kept[1]) and not equal(kept[1], kept[-1])


def params_of_epoch(arguments):
    _, args, auxs = arguments
    return {name: array.asnumpy().copy() for name, array in [*args.items(), *auxs.items()]}


def test_a_metric_of_the_training_data_is_watched_by_a_batch_callback():
    stopping = mx.callback.EarlyStopping("cross-entropy", patience=1)
    ended = []
    found = fit(module(), None, eval_metric="ce", batch_end_callback=stopping,
                optimizer_params={"learning_rate": 0.0},
                epoch_end_callback=lambda epoch, *_: ended.append(epoch))
    assert epochs(found) == ended == [0, 1] and len(found.history[-1]["train"]) == 1


def test_other_callbacks_are_called_and_the_iterator_is_rewound(caplog):
    caplog.set_level(logging.INFO)
    called, train = [], data()

    def stop(*_):
        raise mx.callback.StopTraining("that will do")

    for place in ("epoch_end_callback", "eval_end_callback"):
        found = module()
        found.fit(train, data(), num_epoch=9, **{place: [stop, lambda *_: called.append(1)]})
        assert epochs(found) == [0] and found.history[0]["validation"]
    assert len(called) == 2
    assert "Training stops: that will do" in caplog.messages
    found.fit(train, num_epoch=1)  # has all its batches again


def test_feedforward_stops_too():
    def stop(param):
        raise mx.callback.StopTraining("that will do")

    with pytest.warns(DeprecationWarning):
        model = mx.model.FeedForward(module().symbol, num_epoch=5)
    batches = []
    model.fit(data(), batch_end_callback=[batches.append, stop])
    assert len(batches) == 1 and "first_weight" in model.arg_params


def test_the_last_of_the_best_checkpoints_are_kept(tmp_path):
    prefix = str(tmp_path / "net")
    best = mx.callback.BestCheckpoint(prefix, keep=2, integrity=True)
    found = fit(module(), [.5, .6, .55, .7, .8, .1], 6, eval_end_callback=best)
    assert best.saved == [4, 5] and best.best_epoch == 4 and len(found.history) == 6
    assert sorted(os.listdir(tmp_path)) == sorted([
        "net-symbol.json", *(f"net-{number:04d}.{kind}" for number in (4, 5)
                             for kind in ("params", "states", "resume", "sha256"))])
    with pytest.raises(ArgumentError, match="keep is 0"):
        mx.callback.BestCheckpoint(prefix, keep=0)


def test_resumed_training_knows_the_past(tmp_path):
    """Resumed from the best checkpoint, both callbacks go on as if nothing had happened."""
    prefix, scores = str(tmp_path / "net"), [.5, .6, .55, .58, .57]
    best, stopping = mx.callback.BestCheckpoint(prefix), mx.callback.EarlyStopping(patience=3)
    whole = fit(module(), scores, eval_end_callback=[best, stopping])
    assert epochs(whole) == [0, 1, 2, 3, 4] and best.saved == [2]
    again = mx.mod.Module.load(prefix, 2, load_optimizer_states=True, verify=False)
    best = mx.callback.BestCheckpoint(prefix)
    fit(again, scores[2:], begin_epoch=2,
        eval_end_callback=[best, mx.callback.EarlyStopping(patience=3)])
    assert equal(params(again), params(whole)) and epochs(again) == epochs(whole)
    assert best.saved == [2] and best.best == .6


def test_the_rate_is_reduced_on_a_plateau():
    rates = []
    plateau = mx.callback.ReduceLROnPlateau(factor=.5, patience=1, cooldown=1, min_lr=.03)
    found = fit(module(), [.5] * 8, eval_end_callback=[plateau, lambda param: rates.append(
        param.locals["self"]._optimizers()[0].learning_rate)])
    assert rates == [.1, .05, .05, .03, .03, .03, .03, .03] and len(found.history) == 8
    options = [*RATE, ("lr_scheduler", mx.lr_scheduler.FactorScheduler(100, .9))]
    with pytest.raises(MXNetError, match="[Ss]cheduler"):
        fit(module(), [.5] * 3, eval_end_callback=plateau, optimizer_params=options)
    with pytest.raises(ArgumentError, match="factor is 2"):
        mx.callback.ReduceLROnPlateau(factor=2)


def test_the_rate_is_reduced_where_a_store_updates():
    plateau = mx.callback.ReduceLROnPlateau(factor=.5, patience=1)
    found = fit(module(2), [.5] * 3, 3, eval_end_callback=plateau)
    assert found._update_on_kvstore
    assert found._kvstore._updater.optimizer.learning_rate == pytest.approx(.025)
