"""The learning-rate range test: train for some batches while the rate grows, and look at the loss.

L. N. Smith, Cyclical Learning Rates for Training Neural Networks, WACV 2017, section 3.3.
"""

from __future__ import annotations

import copy
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import metric as _metric
from ..base import ArgumentError, MXNetError
from ..core.figures import save_figure
from ..metric.eval_metric import as_number
from .watchers import copied_params

if TYPE_CHECKING:
    from ..io import DataBatch, DataIter
    from ..metric.eval_metric import MetricLike
    from ..module import Module
    from ..optimizer import Optimizer

__all__ = ["LRCurve", "lr_find"]


class LRCurve:
    """Losses over learning rates: the result of `lr_find`.

    Parameters
    ----------
    rates : sequence of float
        Learning rates.
    losses : sequence of float
        Smoothed loss at each rate.
    """

    def __init__(self, rates: Sequence[float], losses: Sequence[float]):
        self.rates, self.losses = [*map(float, rates)], [*map(float, losses)]

    @property
    def suggestion(self) -> float:
        """The rate around which the loss falls fastest over the logarithm of the rate.

        The slope at a rate is that between the rates a tenth of all before and after it.
        MXNetError if the loss has been measured at fewer than three rates.
        """
        if len(self.rates) < 3:
            raise MXNetError(f"lr_find: the loss was finite at {len(self.rates)} rates only, "
                             "expected at least 3; begin with a smaller min_lr")
        wide = max(1, len(self.rates) // 10)
        losses, logs = np.array(self.losses), np.log(self.rates)
        slopes = (losses[2 * wide:] - losses[:-2 * wide]) / (logs[2 * wide:] - logs[:-2 * wide])
        return self.rates[wide + int(np.argmin(slopes))]

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Plot the loss over the rates, and mark the suggestion. Needs matplotlib.

        The axis of the loss ends above what is measured before the least loss, so that the growth
        afterwards does not flatten the rest.

        Parameters
        ----------
        path : str or path, optional
            File that the figure is written to; its suffix determines the format.

        Raises
        ------
        MXNetError
            If matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MXNetError("LRCurve.plot draws with matplotlib: pip install 'nbmod[plot]'"
                             ) from None
        rate = self.suggestion
        loss = self.losses[self.rates.index(rate)]
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        axes.plot(self.rates, self.losses)
        axes.axvline(rate, color="0.5", linestyle=":", zorder=0)
        axes.scatter([rate], [loss], s=60, color="tab:red", zorder=3,
                     label=f"suggested: {rate:.2g}")
        least = min(self.losses)
        span = max(self.losses[:self.losses.index(least) + 1]) - least
        axes.set(xscale="log", xlabel="learning rate", ylabel="loss")
        if span > 0:
            axes.set_ylim(least - 0.1 * span, least + 1.2 * span)
        axes.grid(alpha=0.3)
        axes.legend()
        if path is not None:
            save_figure(figure, path)
        return figure


def lr_find(module: Module, train_data: DataIter, min_lr: float = 1e-6, max_lr: float = 10.0,
            num_iter: int = 100, loss: MetricLike = "ce", smoothing: float = 0.9) -> LRCurve:
    """Measure the loss while the learning rate grows from batch to batch.

    Afterwards parameters, optimizer, random numbers and the iterator are what they were before.

    Parameters
    ----------
    module : Module
        A module that is bound for training and has parameters and an optimizer.
    train_data : DataIter
        Batches of data and labels; reset first, and whenever it ends.
    min_lr, max_lr : float
        First and last learning rate; each batch multiplies it by the same factor. The defaults are
        1e-6 and 10.
    num_iter : int, default 100
        Number of batches. The search ends earlier when the loss is four times the best.
    loss : str, EvalMetric or callable, default 'ce'
        The loss, in any form that `mx.metric.create` takes; smaller is better.
    smoothing : float, default 0.9
        Weight of the past in the moving average of the loss, from 0 to below 1.

    Returns
    -------
    LRCurve
        Rates and losses; its `suggestion` is the rate at which the loss falls fastest.

    Raises
    ------
    ArgumentError
        If the rates are not increasing, or an option is out of range.
    MXNetError
        If the module has no optimizer yet.

    Examples
    --------
    >>> mx.random.seed(1)
    >>> x = mx.nd.random.normal(shape=(64, 4))
    >>> data = mx.io.NDArrayIter(x, x[:, 0] > 0, batch_size=16)
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    >>> module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    >>> module.bind(data.provide_data, data.provide_label)
    >>> module.init_params()
    >>> module.init_optimizer()
    >>> curve = mx.callback.lr_find(module, data)
    >>> 1e-3 < curve.suggestion < 10
    True
    """
    if not 0 < min_lr < max_lr:
        raise ArgumentError(f"lr_find: min_lr is {min_lr} and max_lr {max_lr}, expected "
                            "0 < min_lr < max_lr")
    if num_iter < 3 or not 0 <= smoothing < 1:
        raise ArgumentError(f"lr_find: num_iter is {num_iter} and smoothing {smoothing}, expected "
                            "at least 3 and 0 <= smoothing < 1")
    module._require("binded", "params_initialized", "optimizer_initialized")
    train_data.reset()
    metric = _metric.create(loss)
    rates: list[float] = []
    losses: list[float] = []
    average = 0.0
    with _restored(module, train_data):
        for step, batch in zip(range(num_iter), _endless(train_data), strict=False):
            rate = min_lr * (max_lr / min_lr) ** (step / (num_iter - 1))
            average = smoothing * average + (1 - smoothing) * _train(module, batch, rate, metric)
            smooth = average / (1 - smoothing ** (step + 1))
            if not math.isfinite(smooth) or (losses and smooth > 4 * min(losses)):
                break
            rates.append(rate)
            losses.append(smooth)
    return LRCurve(rates, losses)


def _train(module: Module, batch: DataBatch, rate: float, metric: _metric.EvalMetric) -> float:
    """The loss of a batch, which is then trained on."""
    for optimizer in module._optimizers():
        optimizer.lr_scheduler, optimizer.lr = None, rate
    module.forward_backward(batch)
    metric.reset()
    module.update_metric(metric, batch.label)
    module.update()
    value = metric.get_name_value()[0][1]
    number = as_number(value)
    if number is None:
        raise ArgumentError(f"lr_find: the loss is {value!r}, expected a number")
    return number


def _endless(data: DataIter) -> Iterator[DataBatch]:
    while True:
        empty = True
        for batch in data:
            empty = False
            yield batch
        if empty:
            raise MXNetError("lr_find: train_data yields no batch")
        data.reset()


@contextmanager
def _restored(module: Module, data: DataIter) -> Iterator[None]:
    """Restore what training changes when the block ends."""
    params = copied_params(module)
    attributes = [(vars(optimizer), _attributes(optimizer)) for optimizer in module._optimizers()]
    with tempfile.TemporaryDirectory() as folder:
        states, rest = os.path.join(folder, "x.states"), os.path.join(folder, "x.resume")
        module.save_optimizer_states(states)
        module.save_training_state(rest, data)
        try:
            yield
        finally:
            module.set_params(*params)
            module.load_optimizer_states(states)
            for own, before in attributes:
                own.update(before)
            data.reset()
            module.load_training_state(rest, data)


def _attributes(optimizer: Optimizer) -> dict[str, object]:
    """Attributes of an optimizer: updates replace them, except counts, which are copied."""
    counts = {name: value for name, value in vars(optimizer).items()
              if name.endswith(("_count", "_counts"))}
    return vars(optimizer) | copy.deepcopy(counts)  # together, since one is a part of the other
