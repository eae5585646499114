"""Callbacks of `fit`.

A batch callback is called with a `BatchEndParam(epoch, nbatch, eval_metric, locals)`, nbatch
counting from 0; so is a callback at the end of an evaluation. An epoch callback is called with
`(epoch, symbol, arg_params, aux_params)`.  `locals` are the variables of the training loop, as in
MXNet: `locals["self"]` is the module.

A batch callback with a method `before_update` has it called between the backward pass and the
update.  Every callback may raise `StopTraining`.

    mxnet_callbacks.py     MXNet's own: `Speedometer`, `ProgressBar`, `do_checkpoint` and their like
    watchers.py            follow one metric: `EarlyStopping`, `BestCheckpoint`, `ReduceLROnPlateau`
    limits.py              `ClipGradients`, which works before the update, and `TimeLimit`
    loggers.py             the course of training in a file: `CSVLogger`, `JSONLogger`
    tensorboard_writer.py  graph, scalars and histograms for TensorBoard
    nan_guard.py           `NanGuard` stops at the first step that computes NaN or infinity
    epoch_bars.py          the bars that `fit` shows on a terminal, and `Progress`, which shows them
    monitor.py             `Monitor` prints statistics of outputs and parameters; `fit(monitor=...)`
    history.py             `module.history` as plots
    lr_finder.py           `lr_find`: the loss while the learning rate grows, as an `LRCurve`

Begin with `mxnet_callbacks.py`.  Imports `base`, `checkpoint`, `core`, `executor`,
`graph`, `io`, `metric`, `module`, `ndarray`, `ops`, `optimizer`, `passes.entry_names` and `symbol`.
"""

from ..base import StopTraining
from .epoch_bars import Progress
from .limits import ClipGradients, TimeLimit
from .loggers import CSVLogger, JSONLogger
from .lr_finder import LRCurve, lr_find
from .mxnet_callbacks import (
    LogValidationMetricsCallback,
    ProgressBar,
    Speedometer,
    do_checkpoint,
    log_train_metric,
    module_checkpoint,
)
from .nan_guard import NanGuard
from .tensorboard_writer import TensorBoard
from .watchers import BestCheckpoint, EarlyStopping, ReduceLROnPlateau

__all__ = ["BestCheckpoint", "CSVLogger", "ClipGradients", "EarlyStopping", "JSONLogger", "LRCurve",
           "LogValidationMetricsCallback", "NanGuard", "Progress", "ProgressBar",
           "ReduceLROnPlateau", "Speedometer", "StopTraining", "TensorBoard", "TimeLimit",
           "do_checkpoint", "log_train_metric", "lr_find", "module_checkpoint"]
__dir__ = __all__.copy
