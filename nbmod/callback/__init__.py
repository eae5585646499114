"""Callbacks of `fit`.

A batch callback is called with a `BatchEndParam(epoch, nbatch, eval_metric, locals)`, nbatch
counting from 0; so is a callback at the end of an evaluation. An epoch callback is called with
`(epoch, symbol, arg_params, aux_params)`.  `locals` are the variables of the training loop, as in
MXNet: `locals["self"]` is the module.

A batch callback with a method `before_update` has it called between the backward pass and the
update.  Every callback may raise `StopTraining`.
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
