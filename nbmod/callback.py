"""Callbacks of `fit`: progress, logging and checkpoints.

A batch callback is called with a `BatchEndParam(epoch, nbatch, eval_metric, locals)`, nbatch
counting from 0; an epoch callback with `(epoch, symbol, arg_params, aux_params)`.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from . import model

__all__ = ["Speedometer", "ProgressBar", "LogValidationMetricsCallback", "do_checkpoint",
           "module_checkpoint", "log_train_metric"]


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """Epoch callback: save `prefix-symbol.json` and `prefix-%04d.params` every `period` epochs."""
    every = int(max(1, period))

    def callback(epoch: int, symbol: Any, arg_params: Any, aux_params: Any) -> None:
        if (epoch + 1) % every == 0:
            model.save_checkpoint(prefix, epoch + 1, symbol, arg_params, aux_params)

    return callback


def module_checkpoint(mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
                      ) -> Callable[..., None]:
    """Epoch callback: `mod.save_checkpoint` every `period` epochs, optimizer states on request."""
    every = int(max(1, period))

    def callback(epoch: int, symbol: Any = None, arg_params: Any = None, aux_params: Any = None
                 ) -> None:
        if (epoch + 1) % every == 0:
            mod.save_checkpoint(prefix, epoch + 1, save_optimizer_states)

    return callback


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[Any], None]:
    """Batch callback: log the metric every `period` batches, and then forget it if asked."""

    def callback(param: Any) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name,
                             value)
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


class Speedometer:
    """Batch callback: log samples per second, and the metric, every `frequent` batches.

    With `auto_reset` each line shows the metric over its own batches, else since the epoch began.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True):
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: Any) -> None:
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

    def _log(self, param: Any, count: int) -> None:
        elapsed = time.perf_counter() - self.tic
        speed = self.frequent * self.batch_size / elapsed if elapsed else float("inf")
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
            return
        values = param.eval_metric.get_name_value()
        begin = count - self.frequent if self.auto_reset else 0
        if self.auto_reset:
            param.eval_metric.reset_local()
        logging.info("Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec%s", param.epoch, begin,
                     count, speed, "".join(f"\t{name}={value:f}" for name, value in values))


class ProgressBar:
    """Batch callback: how far an epoch of `total` batches is, drawn `length` characters wide.

    On a terminal one line is redrawn in place, with the metric and the time left; elsewhere a line
    is logged at every tenth.  `stream` is standard error unless given.
    """

    def __init__(self, total: int, length: int = 80, stream: TextIO | None = None):
        self.total = max(1, total)
        self.bar_len = length
        self.stream = stream
        self._began = self._drawn = 0.0
        self._width = self._last = 0

    def __call__(self, param: Any) -> None:
        done = min(param.nbatch + 1, self.total)
        if done <= self._last:
            self._last = 0
        if self._last == 0:
            self._began, self._drawn = time.perf_counter(), 0.0
        stream = self.stream or sys.stderr
        if stream.isatty():
            self._draw(stream, done, param)
        elif done * 10 // self.total > self._last * 10 // self.total:
            logging.info("Epoch[%d] %s%s", param.epoch, self._bar(done, self.bar_len),
                         _metric_text(param))
        self._last = done

    def _bar(self, done: int, length: int) -> str:
        filled = round(length * done / self.total)
        return f"[{'=' * filled}{'-' * (length - filled)}] {100 * done // self.total}%"

    def _draw(self, stream: TextIO, done: int, param: Any) -> None:
        now = time.perf_counter()
        if done < self.total and now - self._drawn < 0.1:
            return
        self._drawn = now
        batches = done - 1 if self._last else 0
        left = (now - self._began) / batches * (self.total - done) if batches else 0.0
        tail = f"{_metric_text(param)} {left:.0f}s left" if done < self.total else (
            f"{_metric_text(param)} {now - self._began:.1f}s")
        columns = shutil.get_terminal_size().columns - 1
        head = f"Epoch[{param.epoch}] "
        room = columns - len(head) - len(tail) - len("[] 100%")
        line = f"{head}{self._bar(done, max(5, min(self.bar_len, room)))}{tail}"[:columns]
        # Spaces wipe the rest of a longer line; a carriage return needs no terminal codes.
        stream.write("\r" + line.ljust(self._width) + ("\n" if done == self.total else ""))
        stream.flush()
        self._width = 0 if done == self.total else len(line)


def _metric_text(param: Any) -> str:
    if param.eval_metric is None:
        return ""
    return "".join(f" {name}={value:.4g}" for name, value in param.eval_metric.get_name_value())


class LogValidationMetricsCallback:
    """Score callback: log the validation metrics of an epoch."""

    def __call__(self, param: Any) -> None:
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
