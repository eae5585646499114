"""Callbacks that follow one metric over the epochs, and act when it improves or does not.

Each is given to `fit` as `eval_end_callback`, where it follows a metric of the validation data, or
as `batch_end_callback`, where it follows one of the training data.  Its state follows from the
metric's values alone, so that it is brought up to date by `module.history` when training resumes.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base import ArgumentError, StopTraining, checks_numbers, did_you_mean
from ..core.integrity import KINDS
from ..metric.eval_metric import numbers

if TYPE_CHECKING:
    from ..module.module_interface import ModuleInterface
    from ..module.training_position import BatchEndParam
    from ..ndarray import NDArray

__all__ = ["BestCheckpoint", "EarlyStopping", "ReduceLROnPlateau", "copied_params",
           "epoch_values"]

_LARGER = re.compile("acc|f1|mcc|pcc|pearson|auc|map|recall|precision|r2")
_SMALLER = re.compile("loss|error|mse|mae|rmse|perplexity|entropy|likelihood")


def larger_is_better(metric: str) -> bool | None:
    """Whether larger values of a metric are better, as its name tells; None if it does not.

    Parameters
    ----------
    metric : str
        Name of the metric.
    """
    larger, smaller = bool(_LARGER.search(metric)), bool(_SMALLER.search(metric))
    return None if larger == smaller else larger


def epoch_values(param: BatchEndParam) -> dict[str, float] | None:
    """Metrics of the epoch that ends with this call of a callback.

    Parameters
    ----------
    param : BatchEndParam
        What the callback is given, at the end of a training batch or of an evaluation.

    Returns
    -------
    dict of str to float or None
        Values by name, without those that are no numbers; None within an epoch.
    """
    if "end_of_batch" in param.locals:  # a training batch; Speedometer may have reset its metric
        return numbers(param.locals["eval_name_vals"]) if param.locals["end_of_batch"] else None
    metric = param.eval_metric
    return numbers(getattr(metric, "get_global_name_value", metric.get_name_value)())


def copied_params(module: ModuleInterface) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Copy the parameters of a module.

    Parameters
    ----------
    module : ModuleInterface
        The module.
    """
    arguments, states = module.get_params()
    return ({name: array.copy() for name, array in arguments.items()},
            {name: array.copy() for name, array in states.items()})


class _Watcher:
    """The best value of a metric, its epoch, and the epochs since then."""

    def __init__(self, monitor: str | None, min_delta: float, mode: str):
        if mode not in ("auto", "min", "max"):
            raise ArgumentError(f"{type(self).__name__}: mode is {mode!r}, expected 'auto', 'min' "
                                "or 'max'")
        if min_delta < 0:
            raise ArgumentError(f"{type(self).__name__}: min_delta is {min_delta}, expected at "
                                "least 0")
        self.monitor, self.min_delta, self.mode = monitor, min_delta, mode
        self._epoch: int | None = None
        self._begin()

    def _begin(self) -> None:
        self.best: float | None = None
        self.best_epoch: int | None = None
        self.waited = 0

    def __call__(self, param: BatchEndParam) -> None:
        values = epoch_values(param)
        if values is None:
            return
        module: ModuleInterface = param.locals["self"]
        name = self._name_in(values)
        if self._epoch is None or param.epoch <= self._epoch:  # the first epoch of a `fit`
            self._begin()
            kind = "train" if "end_of_batch" in param.locals else "validation"
            for past in module.history:
                if past["epoch"] < param.epoch and name in past[kind]:
                    self._look(past["epoch"], past[kind][name], self._is_larger_better(name))
        self._epoch = param.epoch
        improved = self._look(param.epoch, values[name], self._is_larger_better(name))
        self._react(module, param, improved)

    def _name_in(self, values: Mapping[str, float]) -> str:
        name = next(iter(values), "") if self.monitor is None else self.monitor
        if name not in values:
            raise ArgumentError(f"{type(self).__name__}: there is no metric {name!r} to monitor; "
                                f"metrics are {[*values]}{did_you_mean(name, values)}")
        return name

    def _is_larger_better(self, name: str) -> bool:
        if self.mode == "auto":
            larger = larger_is_better(name)
            if larger is None:
                raise ArgumentError(f"{type(self).__name__}: whether a larger {name} is better "
                                    "cannot be told from its name; give mode='max' or 'min'")
            return larger
        return self.mode == "max"

    def _look(self, epoch: int, value: float, larger: bool) -> bool:
        """Take note of an epoch's value; whether it is the best so far (NaN never is)."""
        sign = 1 if larger else -1
        improved = value == value and (
            self.best is None or sign * (value - self.best) > self.min_delta)
        if improved:
            self.best, self.best_epoch, self.waited = value, epoch, 0
        else:
            self.waited += 1
        return improved

    def _react(self, module: ModuleInterface, param: BatchEndParam, improved: bool) -> None:
        raise NotImplementedError


class EarlyStopping(_Watcher):
    """Stops training when a metric has not improved for some epochs.

    Parameters
    ----------
    monitor : str, optional
        Name of the metric; the first by default.
    patience : int, default 3
        Epochs in a row without improvement after which training stops.
    min_delta : float, default 0.0
        An improvement is a change by more than this.
    mode : {'auto', 'min', 'max'}, default 'auto'
        Whether smaller or larger values are better; 'auto' knows names such as accuracy and loss.
    restore_best : bool, default False
        At the end of training set the parameters of the best epoch. Of epochs before training was
        resumed in another process there are no parameters.

    Attributes
    ----------
    best, best_epoch : float and int
        Best value so far, and its epoch.

    Raises
    ------
    ArgumentError
        In `fit`, if there is no such metric, or `mode` has to be given.

    Examples
    --------
    >>> stopping = mx.callback.EarlyStopping("accuracy", patience=5, restore_best=True)
    >>> # module.fit(train_data, eval_data, num_epoch=100, eval_end_callback=stopping)
    """

    @checks_numbers
    def __init__(self, monitor: str | None = None, patience: int = 3, min_delta: float = 0.0,
                 mode: str = "auto", restore_best: bool = False):
        self.patience, self.restore_best = patience, restore_best
        super().__init__(monitor, min_delta, mode)

    def _begin(self) -> None:
        super()._begin()
        self._kept: tuple[dict[str, NDArray], dict[str, NDArray]] | None = None

    def _react(self, module: ModuleInterface, param: BatchEndParam, improved: bool) -> None:
        if improved and self.restore_best:
            self._kept = copied_params(module)
        stops = not improved and self.waited >= self.patience
        if (stops or param.epoch + 1 == param.locals["num_epoch"]) and self._kept and self.waited:
            module.set_params(*self._kept)
            logging.info("Epoch[%d] The parameters of epoch %s are restored", param.epoch,
                         self.best_epoch)
        if stops:
            raise StopTraining(f"no epoch was better than epoch {self.best_epoch} "
                               f"({self.best}) in the last {self.waited}")


class BestCheckpoint(_Watcher):
    """Saves a checkpoint after each epoch that is the best so far, and keeps the last of these.

    Each is saved by ``module.save_checkpoint`` with the states of the optimizer, so that training
    can resume from it exactly. Older ones are removed when the new one is complete.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, as for `do_checkpoint`; the number is that of `do_checkpoint`,
        too: the number of epochs that are finished.
    monitor : str, optional
        Name of the metric; the first by default.
    keep : int, default 1
        Number of checkpoints that are kept.
    min_delta : float, default 0.0
        An improvement is a change by more than this.
    mode : {'auto', 'min', 'max'}, default 'auto'
        As for `EarlyStopping`.
    integrity : bool, default False
        Write checksums, too, for ``verify=True``.

    Attributes
    ----------
    saved : list of int
        Numbers of the checkpoints that are kept; the last is that of the best epoch.
    best, best_epoch : float and int
        Best value so far, and its epoch.

    Examples
    --------
    >>> best = mx.callback.BestCheckpoint("net-best", "accuracy", keep=3)
    >>> # module.fit(train_data, eval_data, num_epoch=100, eval_end_callback=best)
    >>> # mx.mod.Module.load("net-best", best.saved[-1])
    """

    @checks_numbers
    def __init__(self, prefix: str, monitor: str | None = None, keep: int = 1,
                 min_delta: float = 0.0, mode: str = "auto", integrity: bool = False):
        if keep < 1:
            raise ArgumentError(f"BestCheckpoint: keep is {keep}, expected at least 1")
        self.prefix, self.keep, self.integrity = prefix, keep, integrity
        super().__init__(monitor, min_delta, mode)

    def _begin(self) -> None:
        super()._begin()
        self.saved: list[int] = []

    def _look(self, epoch: int, value: float, larger: bool) -> bool:
        improved = super()._look(epoch, value, larger)
        if improved:
            self.saved.append(epoch + 1)
        return improved

    def _react(self, module: ModuleInterface, param: BatchEndParam, improved: bool) -> None:
        if improved:
            options = {"integrity": True} if self.integrity else {}  # as in `module_checkpoint`
            module.save_checkpoint(  # type: ignore[attr-defined]  # modules with a network have it
                self.prefix, self.saved[-1], True, **options)
        for number in self.saved[:-self.keep]:
            self._remove(number)
        self.saved = self.saved[-self.keep:]

    def _remove(self, number: int) -> None:
        for kind in (*KINDS, "sha256"):
            file = f"{self.prefix}-{number:04d}.{kind}"
            if os.path.exists(file):
                os.remove(file)


class ReduceLROnPlateau(_Watcher):
    """Multiplies the learning rate by a factor when a metric has not improved for some epochs.

    Parameters
    ----------
    monitor : str, optional
        Name of the metric; the first by default.
    factor : float, default 0.1
        What the rate is multiplied by, between 0 and 1.
    patience : int, default 10
        Epochs in a row without improvement after which the rate is reduced.
    min_delta : float, default 0.0
        An improvement is a change by more than this.
    mode : {'auto', 'min', 'max'}, default 'auto'
        As for `EarlyStopping`.
    cooldown : int, default 0
        Epochs after a reduction that are not counted.
    min_lr : float, default 0.0
        The rate is not reduced below this.

    Raises
    ------
    SchedulerError
        In `fit`, if the optimizer has an `lr_scheduler`, which decides the rate.

    Examples
    --------
    >>> plateau = mx.callback.ReduceLROnPlateau("accuracy", factor=0.5, patience=2)
    >>> # module.fit(train_data, eval_data, num_epoch=100, eval_end_callback=plateau)
    """

    @checks_numbers
    def __init__(self, monitor: str | None = None, factor: float = 0.1, patience: int = 10,
                 min_delta: float = 0.0, mode: str = "auto", cooldown: int = 0,
                 min_lr: float = 0.0):
        if not 0 < factor < 1:
            raise ArgumentError(f"ReduceLROnPlateau: factor is {factor}, expected a number between "
                                "0 and 1")
        self.factor, self.patience = factor, patience
        self.cooldown, self.min_lr = cooldown, min_lr
        super().__init__(monitor, min_delta, mode)

    def _begin(self) -> None:
        super()._begin()
        self._cooling, self._due = 0, False

    def _look(self, epoch: int, value: float, larger: bool) -> bool:
        improved = super()._look(epoch, value, larger)
        if self._cooling:
            self._cooling, self.waited = self._cooling - 1, 0
        self._due = not improved and self.waited >= max(1, self.patience)
        if self._due:
            self._cooling, self.waited = self.cooldown, 0
        return improved

    def _react(self, module: ModuleInterface, param: BatchEndParam, improved: bool) -> None:
        if not self._due:
            return
        for optimizer in module._optimizers():
            rate = optimizer.learning_rate
            optimizer.set_learning_rate(max(rate * self.factor, min(rate, self.min_lr)))
            logging.info("Epoch[%d] The learning rate is reduced from %g to %g", param.epoch, rate,
                         optimizer.learning_rate)
