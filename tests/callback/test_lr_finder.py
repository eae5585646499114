"""`lr_find`: the curve, and that nothing else has changed."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import ArgumentError, MXNetError
from tests.callback.runs import RATE, data, equal, module, params


@pytest.fixture
def trained():
    found = module()
    batches = data(shuffle=True)
    mx.random.seed(2)
    found.fit(batches, num_epoch=1, optimizer_params=RATE, initializer=mx.init.Xavier())
    return found, batches


def test_the_suggestion_is_where_the_loss_falls(tmp_path):
    found, batches = module(), data(16)  # all samples in one batch, so that losses do not vary
    found.bind(batches.provide_data, batches.provide_label)
    mx.random.seed(2)
    found.init_params(mx.init.Xavier())
    found.init_optimizer()
    curve = mx.callback.lr_find(found, batches, 1e-5, 100, 60)
    assert len(curve.rates) == len(curve.losses) <= 60
    assert curve.rates[1] / curve.rates[0] == pytest.approx((100 / 1e-5) ** (1 / 59))
    assert 1e-4 < curve.suggestion < 10 and min(curve.losses) < curve.losses[0]
    curve.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000
    known = mx.callback.LRCurve(np.logspace(-3, 0, 7), [1, 1, .8, .3, .3, .3, 2])
    assert known.suggestion == pytest.approx(10 ** -2)  # from 1 to 0.3


def test_the_plot_shows_the_fall_and_the_suggestion():
    """Without a limit, what grows to four times the least loss takes most of the axis."""
    losses = [1, 1, .8, .3, .3, .25, 4]
    curve = mx.callback.LRCurve(np.logspace(-3, 0, 7), losses)
    axes, = curve.plot().axes
    (spot,), (low, high) = axes.collections[0].get_offsets(), axes.get_ylim()
    assert spot.tolist() == [curve.suggestion, .8]
    assert low < .25 and 1 < high < 1.5
    assert [text.get_text() for text in axes.get_legend().texts] == ["suggested: 0.01"]
    rising = mx.callback.LRCurve([1, 2, 3], [1, 2, 4]).plot().axes[0].get_ylim()
    assert rising[0] < 1 and rising[1] > 4


def test_training_goes_on_as_without_it(trained, tmp_path):
    found, batches = trained
    found.save_checkpoint(str(tmp_path / "net"), 1, save_optimizer_states=True)
    mx.callback.lr_find(found, batches, num_iter=20)
    before = params(found)
    assert found._optimizers()[0].learning_rate == .1
    found.save_checkpoint(str(tmp_path / "after"), 1, save_optimizer_states=True)
    for kind in ("params", "states"):
        assert (tmp_path / f"net-0001.{kind}").read_bytes() == (
            tmp_path / f"after-0001.{kind}").read_bytes()
    assert equal(before, params(found)) and len(list(batches)) == 4


def test_a_scheduler_is_put_back():
    found, batches = module(), data()
    found.bind(batches.provide_data, batches.provide_label)
    found.init_params()
    with pytest.raises(MXNetError, match="init_optimizer"):
        mx.callback.lr_find(found, batches)
    scheduler = mx.lr_scheduler.FactorScheduler(10, .5, base_lr=.25)
    found.init_optimizer(optimizer_params={"learning_rate": .25, "lr_scheduler": scheduler})
    mx.callback.lr_find(found, batches, num_iter=15)
    assert found._optimizers()[0].lr_scheduler is scheduler
    assert found._optimizers()[0].learning_rate == .25


def test_mistakes_are_named(trained):
    found, batches = trained
    with pytest.raises(ArgumentError, match="0 < min_lr < max_lr"):
        mx.callback.lr_find(found, batches, 1, .1)
    with pytest.raises(ArgumentError, match="num_iter is 2"):
        mx.callback.lr_find(found, batches, num_iter=2)
    with pytest.raises(MXNetError, match="at 1 rates only"):
        _ = mx.callback.LRCurve([1], [1]).suggestion
