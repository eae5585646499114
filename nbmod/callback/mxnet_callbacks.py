"""MXNet's callbacks of `fit`: progress, logging and checkpoints."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, TextIO

from ..base import ArgumentError, checks_numbers, wrong_type
from ..checkpoint import save_checkpoint
from ..core.config import is_terminal
from ..core.screen import INTERVAL, LiveLine, bar
from ..metric.eval_metric import as_text
from .nan_guard import warn_not_finite

if TYPE_CHECKING:
    from ..module.module_interface import ModuleInterface
    from ..module.training_position import BatchEndParam
    from ..ndarray import NDArray
    from ..symbol import Symbol

__all__ = ["Speedometer", "ProgressBar", "LogValidationMetricsCallback", "do_checkpoint",
           "module_checkpoint", "log_train_metric"]


def _require_period(what: str, period: object) -> None:
    if not isinstance(period, Real) or float(period) <= 0:
        raise ArgumentError(f"{what} is {period!r}, expected a positive number")


def _at_epochs(period: int, save: Callable[..., None]) -> Callable[..., None]:
    """An epoch callback that calls `save(epoch + 1, symbol, arg_params, aux_params)` by period."""
    every = int(max(1, period))

    def callback(epoch: int, symbol: Symbol | None = None,
                 arg_params: dict[str, NDArray] | None = None,
                 aux_params: dict[str, NDArray] | None = None) -> None:
        if (epoch + 1) % every == 0:
            save(epoch + 1, symbol, arg_params, aux_params)

    return callback


def do_checkpoint(prefix: str, period: int = 1, integrity: bool = False) -> Callable[..., None]:
    """Make an epoch callback that saves symbol and parameters of a network.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, with a directory if wanted: the symbol is written to
        ``prefix-symbol.json`` and the parameters after epoch 7 to ``prefix-0007.params``.
    period : int, default 1
        Save after every `period`-th epoch. Values below 1 count as 1.
    integrity : bool, default False
        Write checksums to ``prefix-0007.sha256``, too, for `mx.model.load_checkpoint` with
        ``verify=True``.

    Returns
    -------
    callable
        For `epoch_end_callback` of `fit`; called as
        ``callback(epoch, symbol, arg_params, aux_params)`` with epochs counted from 0.

    Examples
    --------
    >>> import os, tempfile
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     callback = mx.callback.do_checkpoint(os.path.join(folder, "net"), period=2)
    ...     for epoch in range(4):
    ...         callback(epoch, net, {"fc_bias": mx.nd.zeros((2,))}, {})
    ...     sorted(os.listdir(folder))
    ['net-0002.params', 'net-0004.params', 'net-symbol.json']
    """
    save = partial(save_checkpoint, integrity=True) if integrity else save_checkpoint
    return _at_epochs(period, partial(save, prefix))


def module_checkpoint(mod: ModuleInterface, prefix: str, period: int = 1,
                      save_optimizer_states: bool = False, integrity: bool = False
                      ) -> Callable[..., None]:
    """Make an `epoch_end_callback` of `fit` that calls ``mod.save_checkpoint``.

    Parameters
    ----------
    mod : Module
        The module to save; usually the one that `fit` is called on.
    prefix : str
        Beginning of the file names, as for `do_checkpoint`.
    period : int, default 1
        Save after every `period`-th epoch. Values below 1 count as 1.
    save_optimizer_states : bool, default False
        Save the optimizer's states (momentum and so on) to ``prefix-0007.states``, too, so that
        training can be resumed with `Module.load(..., load_optimizer_states=True)`.
    integrity : bool, default False
        Write checksums to ``prefix-0007.sha256``, too, for `Module.load(..., verify=True)`.
    """
    if not hasattr(mod, "save_checkpoint"):
        raise wrong_type("module_checkpoint: mod", mod, "a Module")
    options = {"integrity": True} if integrity else {}  # modules of users may not have it
    return _at_epochs(period, lambda number, *_: mod.save_checkpoint(
        prefix, number, save_optimizer_states, **options))


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[BatchEndParam], None]:
    """Make a batch callback that logs the training metric.

    Parameters
    ----------
    period : int
        Log at every `period`-th batch, beginning with the first of an epoch.
    auto_reset : bool, default False
        Reset the metric's local values after logging, so that each line shows only the batches
        since the line before.

    Returns
    -------
    callable
        For `batch_end_callback` of `fit`; called with a `BatchEndParam`. It logs by
        ``logging.info``.

    Examples
    --------
    >>> import logging, sys
    >>> metric = mx.metric.create("acc")
    >>> metric.update([mx.nd.array([1, 0])], [mx.nd.array([[0.2, 0.8], [0.1, 0.9]])])
    >>> handler = logging.StreamHandler(sys.stdout)
    >>> logger, level = logging.getLogger(), logging.getLogger().level
    >>> logger.addHandler(handler); logger.setLevel(logging.INFO)
    >>> callback = mx.callback.log_train_metric(period=10)
    >>> callback(mx.model.BatchEndParam(0, 20, metric, None))
    Iter[0] Batch[20] Train-accuracy=0.500000
    >>> logger.removeHandler(handler); logger.setLevel(level)
    """
    _require_period("log_train_metric: period", period)

    def callback(param: BatchEndParam) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            values = [*param.eval_metric.get_name_value()]
            warn_not_finite(param, values)
            for name, value in values:
                logging.info("Iter[%d] Batch[%d] Train-%s=%s", param.epoch, param.nbatch, name,
                             as_text(value))
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


class Speedometer:
    """Batch callback that logs the training speed in samples per second, and the metric.

    Parameters
    ----------
    batch_size : int
        Samples per batch.
    frequent : int, default 50
        Log at every `frequent`-th batch. The speed is the mean over these batches.
    auto_reset : bool, default True
        Show the metric over the batches since the last line, by resetting its local values;
        otherwise over the epoch so far.

    Examples
    --------
    >>> speedometer = mx.callback.Speedometer(batch_size=32, frequent=10)
    >>> # module.fit(train_data, num_epoch=5, batch_end_callback=speedometer)
    """

    @checks_numbers
    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True):
        _require_period("Speedometer: frequent", frequent)
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: BatchEndParam) -> None:
        count = param.nbatch
        if self.last_count > count:
            self.init = False
        self.last_count = count
        if not self.init:
            self.init = True
            self.tic = time.perf_counter()
        elif count % self.frequent == 0:
            self._log(param, count)
            self.tic = time.perf_counter()

    def _log(self, param: BatchEndParam, count: int) -> None:
        elapsed = time.perf_counter() - self.tic
        speed = self.frequent * self.batch_size / elapsed if elapsed else float("inf")
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
            return
        values = [*param.eval_metric.get_name_value()]
        warn_not_finite(param, values)
        begin = count - self.frequent if self.auto_reset else 0
        if self.auto_reset:
            param.eval_metric.reset_local()
        logging.info("Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec%s", param.epoch, begin,
                     count, speed, "".join(f"\t{name}={as_text(value)}" for name, value in values))


class ProgressBar:
    """Batch callback that draws a progress bar of the epoch.

    On a terminal one line is redrawn in place, with the metric and the time left; otherwise a
    line is logged after every tenth of the epoch.

    Parameters
    ----------
    total : int
        Batches per epoch.
    length : int, default 80
        Width of the bar in characters; less where the terminal is narrower.
    stream : text stream, optional
        Where to draw; standard error by default.

    Examples
    --------
    >>> bar = mx.callback.ProgressBar(total=100, length=40)
    >>> # module.fit(train_data, num_epoch=5, batch_end_callback=bar)
    """

    @checks_numbers
    def __init__(self, total: int, length: int = 80, stream: TextIO | None = None):
        self.total = max(1, total)
        self.bar_len = length
        self.stream = stream
        self._line: LiveLine | None = None
        self._began = self._drawn = 0.0
        self._last = 0

    def __call__(self, param: BatchEndParam) -> None:
        done = min(param.nbatch + 1, self.total)
        if done <= self._last:
            self._last = 0
        if self._last == 0:
            self._began, self._drawn = time.perf_counter(), 0.0
            if self._line is not None:      # of an epoch that did not reach its end
                self._line.close()
            self._line = LiveLine(self.stream)
        assert self._line is not None
        if is_terminal(self._line.stream):
            self._draw(self._line, done, param)
        elif done * 10 // self.total > self._last * 10 // self.total:
            logging.info("Epoch[%d] %s%s", param.epoch, self._bar(done, self.bar_len),
                         _metric_text(param))
        self._last = done

    def _bar(self, done: int, length: int) -> str:
        return f"{bar(done, self.total, length)} {100 * done // self.total}%"

    def _draw(self, line: LiveLine, done: int, param: BatchEndParam) -> None:
        now = time.perf_counter()
        if done < self.total and now - self._drawn < INTERVAL:
            return
        self._drawn = now
        batches = done - 1 if self._last else 0
        left = (now - self._began) / batches * (self.total - done) if batches else 0.0
        tail = f"{_metric_text(param)} {left:.0f}s left" if done < self.total else (
            f"{_metric_text(param)} {now - self._began:.1f}s")
        head = f"Epoch[{param.epoch}] "
        width = line.width - len(head) - len(tail) - len("[] 100%")
        text = f"{head}{self._bar(done, max(5, min(self.bar_len, width)))}{tail}"
        if done < self.total:
            line.show(text)
        else:
            line.leave(text)
            line.close()


def _metric_text(param: BatchEndParam) -> str:
    """Present values of the metrics, each after a space; empty without a metric."""
    if param.eval_metric is None:
        return ""
    values = [*param.eval_metric.get_name_value()]
    warn_not_finite(param, values)
    return "".join(f" {name}={as_text(value, '.4g')}" for name, value in values)


class LogValidationMetricsCallback:
    """Score callback that logs the validation metrics of an epoch.

    Pass an instance as `eval_end_callback` of `fit`, or as `score_end_callback` of `score`.
    """

    def __call__(self, param: BatchEndParam) -> None:
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            logging.info("Epoch[%d] Validation-%s=%s", param.epoch, name, as_text(value))
