"""Callbacks that write the course of training to files, as CSV or as lines of JSON."""

from __future__ import annotations

import csv
import json
import math
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..base import MXNetError, checks_numbers
from ..core.atomic import named_errors
from ..metric.eval_metric import as_number, distinct
from .watchers import epoch_values

if TYPE_CHECKING:
    from ..module.module_interface import ModuleInterface
    from ..module.training_position import BatchEndParam

__all__ = ["CSVLogger", "JSONLogger", "learning_rate"]


def learning_rate(module: ModuleInterface) -> float | None:
    """Present learning rate of a module; None without an optimizer.

    Parameters
    ----------
    module : ModuleInterface
        The module.
    """
    return next((optimizer.learning_rate for optimizer in module._optimizers()), None)


class CSVLogger:
    """Writes a row for each epoch to a CSV file.

    Pass it to `fit` as `eval_end_callback`: columns are ``epoch``, ``seconds`` of training,
    ``learning_rate`` and the metrics as ``train-<name>`` and ``validation-<name>``. Without
    validation data pass it as `batch_end_callback`. Every row is in the file when the next epoch
    begins.

    Parameters
    ----------
    path : str or path
        The file.
    append : bool, default False
        Add to an existing file, where training is resumed; otherwise the first row replaces it.

    Raises
    ------
    MXNetError
        In `fit`, if the metrics are not the columns of the file.

    Examples
    --------
    >>> logger = mx.callback.CSVLogger("training.csv")
    >>> # module.fit(train_data, eval_data, num_epoch=5, eval_end_callback=logger)
    """

    def __init__(self, path: str | os.PathLike[str], append: bool = False):
        self.path = os.fspath(path)
        self._columns = self._header() if append and os.path.exists(self.path) else None

    def _header(self) -> list[str] | None:
        with open(self.path, newline="", encoding="utf-8") as file:
            return next(csv.reader(file), None)

    def __call__(self, param: BatchEndParam) -> None:
        values = epoch_values(param)
        if values is None:
            return
        module: ModuleInterface = param.locals["self"]
        row: dict[str, object] = {"epoch": param.epoch}
        if "end_of_batch" in param.locals:
            row["seconds"] = time.time() - param.locals["tic"]
            train, validation = values, {}
        else:
            row["seconds"] = module.history[-1]["seconds"]
            train, validation = module.history[-1]["train"], values
        row["learning_rate"] = learning_rate(module)
        row |= {f"train-{name}": value for name, value in train.items()}
        row |= {f"validation-{name}": value for name, value in validation.items()}
        self._write(row)

    def _write(self, row: dict[str, object]) -> None:
        begins = self._columns is None
        if self._columns is None:
            self._columns = [*row]
        if {*self._columns} != row.keys():
            raise MXNetError(f"CSVLogger: {self.path} has the columns {self._columns}, this epoch "
                             f"{[*row]}; write to another file")
        with named_errors(self.path), open(self.path, "w" if begins else "a", newline="",
                                           encoding="utf-8") as file:
            writer = csv.DictWriter(file, self._columns)
            if begins:
                writer.writeheader()
            writer.writerow(row)


class JSONLogger:
    """Writes a line of JSON for each event of training to a file.

    Pass one object to `fit` as both `batch_end_callback` and `eval_end_callback`, or as one of
    them. A line is an object with the keys ``event``, ``epoch``, ``batch``, ``time`` (seconds since
    1970), ``learning_rate`` and ``metrics``; values that JSON does not have, such as NaN, are null.
    Events are ``batch``, ``train`` (the end of an epoch) and ``validation``.

    Parameters
    ----------
    path : str or path
        The file.
    period : int, default 50
        Write a line for every `period`-th batch of an epoch, beginning with the first; 0 for none.
    append : bool, default False
        Add to an existing file instead of replacing it.

    Examples
    --------
    >>> logger = mx.callback.JSONLogger("training.jsonl", period=10)
    >>> # module.fit(train_data, eval_data, num_epoch=5, batch_end_callback=logger,
    >>> #            eval_end_callback=logger)
    """

    @checks_numbers
    def __init__(self, path: str | os.PathLike[str], period: int = 50, append: bool = False):
        self.path, self.period = os.fspath(path), period
        self._mode = "a" if append else "w"

    def __call__(self, param: BatchEndParam) -> None:
        if "end_of_batch" not in param.locals:
            self._write("validation", param, (epoch_values(param) or {}).items())
            return
        if self.period and param.nbatch % self.period == 0:
            self._write("batch", param, distinct([*param.eval_metric.get_name_value()]))
        values = epoch_values(param)
        if values is not None:
            self._write("train", param, values.items())

    def _write(self, event: str, param: BatchEndParam, metrics: Iterable[tuple[str, object]]
               ) -> None:
        record = {"event": event, "epoch": param.epoch, "batch": param.nbatch, "time": time.time(),
                  "learning_rate": learning_rate(param.locals["self"]),
                  "metrics": {name: _finite(value) for name, value in metrics}}
        with named_errors(self.path), open(self.path, self._mode, encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")
        self._mode = "a"


def _finite(value: object) -> float | None:
    number = as_number(value)
    return number if number is not None and math.isfinite(number) else None
