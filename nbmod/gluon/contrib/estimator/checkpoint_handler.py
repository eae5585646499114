"""`CheckpointHandler`: files of parameters and of the trainer, and training that goes on."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ....base import ArgumentError, CheckError, warn_user
from ....core.atomic import finish_sets, replacing_together
from ....metric import EvalMetric
from .events import BatchEnd, EpochEnd, TrainBegin
from .utils import check_monitor, comparison, worst

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["CheckpointHandler"]
__dir__ = __all__.copy


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves parameters and states of the trainer from time to time, and goes on from them.

    Files are `PREFIX-epochEbatchB.params` and `.states`, both replaced at once,
    `PREFIX-best.params` and `.states`, and after the first batch of a hybridized network
    `PREFIX-symbol.json`.

    Parameters
    ----------
    model_dir : str
        Folder, which is made if it is not there.
    model_prefix : str, default 'model'
        Beginning of the names of files.
    monitor : EvalMetric, optional
        Metric that decides which network is the best.
    verbose : int, default 0
        Above 0, checkpoints are logged.
    save_best : bool, default False
        Whether the best network is saved, too, when a checkpoint is.
    mode : {'auto', 'min', 'max'}, default 'auto'
        Whether less or more is better, as for `EarlyStoppingHandler`.
    epoch_period, batch_period : int, optional
        Numbers of epochs and batches from one checkpoint to the next; by default 1 epoch.
    max_checkpoints : int, default 5
        Number of checkpoints to keep; older ones are removed.
    resume_from_checkpoint : bool, default False
        Whether training goes on from the last checkpoint in the folder: parameters, states and
        counts of updates are those of the file, and epochs or batches of `fit` are numbers in
        all.  The order of samples does not go on.

    Raises
    ------
    ValueError
        If `save_best` has no single metric as `monitor`; and in `fit` if no epochs or batches are
        left to train.
    AssertionError
        In `fit`, if periods are not of the kind that `fit` counts, or a file of states is missing.

    Examples
    --------
    >>> import os, tempfile
    >>> from nbmod.gluon.contrib.estimator import CheckpointHandler, Estimator
    >>> data = mx.gluon.data.ArrayDataset(mx.nd.ones((4, 2)), mx.nd.zeros(4))
    >>> net = mx.gluon.nn.Dense(3)
    >>> net.initialize()
    >>> estimator = Estimator(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(),
    ...                       trainer=mx.gluon.Trainer(net.collect_params(), "sgd"))
    >>> folder = tempfile.mkdtemp()
    >>> estimator.fit(mx.gluon.data.DataLoader(data, 2), epochs=2, event_handlers=[
    ...     CheckpointHandler(folder)])  # doctest: +ELLIPSIS
    Training begin: ...
    >>> sorted(os.listdir(folder))[:2]
    ['model-epoch0batch2.params', 'model-epoch0batch2.states']
    """

    def __init__(self, model_dir: str, model_prefix: str = "model",
                 monitor: EvalMetric | None = None, verbose: int = 0, save_best: bool = False,
                 mode: str = "auto", epoch_period: int | None = 1, batch_period: int | None = None,
                 max_checkpoints: int = 5, resume_from_checkpoint: bool = False):
        self.monitor, self.verbose, self.save_best = monitor, verbose, save_best
        if save_best:
            metric = check_monitor(monitor, "CheckpointHandler", "To save best model only, please")
            self.monitor_op = comparison(metric, mode, "ModelCheckpoint")
            self.best = worst(self.monitor_op)
        os.makedirs(model_dir, exist_ok=True)
        self.model_dir, self.model_prefix = model_dir, model_prefix
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.current_batch = self.current_epoch = 0
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints: list[str] = []

    # -- events -------------------------------------------------------------------------------

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Load the last checkpoint, if training is to go on from it."""
        self.current_epoch = self.current_batch = 0
        if self.save_best:
            self.best = worst(self.monitor_op)
        if not self.resume_from_checkpoint:
            return
        period, other = self.epoch_period, self.batch_period
        if estimator.max_batch:
            period, other = other, period
        if other or not period:
            raise CheckError(
                "To use resume from checkpoint, you must only specify the same type of period you "
                "used for training. For example, if you are training based on number of epochs, "
                "you must save only based on epochs, and set batch_period to None; epoch_period "
                f"is {self.epoch_period}, batch_period is {self.batch_period}")
        self._resume_from_checkpoint(estimator)

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Save the symbol after the first batch, and a checkpoint after `batch_period`."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator, self.current_batch + 1)
        self.current_batch += 1

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Save a checkpoint after `epoch_period` epochs."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator, self.current_batch)
        self.current_epoch += 1

    # -- writing ------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return os.path.join(self.model_dir, name)

    def _save_symbol(self, estimator: Estimator) -> None:
        target = self._path(f"{self.model_prefix}-symbol.json")
        graph = getattr(estimator.net, "_cached_graph", None)
        if graph:
            graph[1].save(target)
        else:
            estimator.logger.info(
                "Model architecture(symbol file) is not saved, please use HybridBlock to construct "
                "your model, and call net.hybridize() before passing to Estimator in order to save "
                "model architecture as %s.", target)

    def _save_checkpoint(self, estimator: Estimator, batches: int) -> None:
        """Save a checkpoint after this number of batches, and the best network if this is it."""
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:    # after epochs, the batches of `current_batch` are over
            epoch += self.trained_epoch + 1
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        name = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._save_params_and_trainer(estimator, name)
        self._retain(name)
        self._tell(estimator, "trained total %d batches, saving model at %s with prefix: %s",
                   batches, self.model_dir, name)
        if self.save_best:
            self._save_best(estimator)

    def _tell(self, estimator: Estimator, text: str, *values: object) -> None:
        if self.verbose > 0:
            estimator.logger.info(f"[Epoch %d] CheckpointHandler: {text}", self.current_epoch,
                                  *values)

    def _save_best(self, estimator: Estimator) -> None:
        assert self.monitor is not None
        monitor, value = self.monitor.get()
        if math.isnan(value):
            warn_user(f"Skipping save best because {monitor} is not updated, make sure you pass "
                      "one of the metric objects estimator.train_metrics and "
                      "estimator.val_metrics as monitor", RuntimeWarning)
        elif self.monitor_op(value, self.best):
            name = f"{self.model_prefix}-best"
            self._save_params_and_trainer(estimator, name)
            self._tell(estimator, "%s improved from %0.5f to %0.5f, updating best model at %s with "
                       "prefix: %s", monitor, self.best, value, self.model_dir, name)
            self.best = value
        else:
            self._tell(estimator, "%s did not improve from %0.5f, skipping updating best model",
                       monitor, self.best)

    def _save_params_and_trainer(self, estimator: Estimator, file_prefix: str) -> None:
        with replacing_together():    # where the parameters are new, the states are, too
            estimator.net.save_parameters(self._path(f"{file_prefix}.params"))
            estimator.trainer.save_states(self._path(f"{file_prefix}.states"))

    def _retain(self, name: str) -> None:
        """Count a checkpoint as the newest, and remove the oldest of too many."""
        self.saved_checkpoints = [each for each in self.saved_checkpoints if each != name]
        self.saved_checkpoints.append(name)
        while len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = self._path(self.saved_checkpoints.pop(0))
            for suffix in (".params", ".states"):
                with suppress(FileNotFoundError):
                    os.remove(oldest + suffix)

    # -- going on -----------------------------------------------------------------------------

    def _resume_from_checkpoint(self, estimator: Estimator) -> None:
        """Load the last checkpoint, and leave the rest of epochs or batches to the estimator."""
        kind = "epoch" if estimator.max_epoch else "batch"
        total = estimator.max_epoch or estimator.max_batch
        assert total is not None
        checkpoints = self._checkpoints()
        self.saved_checkpoints = [name for *_, name in checkpoints]
        if not checkpoints:
            self.trained_epoch = self.trained_batch = -1
            estimator.logger.info("CheckpointHandler: No checkpoint found, training from scratch "
                                  f"for %d {kind}{'e' * (kind == 'batch')}s", total)
            return
        self.trained_epoch, self.trained_batch, name = checkpoints[-1]
        rest = total - 1 - (self.trained_epoch if kind == "epoch" else self.trained_batch)
        if rest <= 0:
            raise ArgumentError(
                f"Found checkpoint with maximum number of {kind} {total} reached, please specify "
                "resume_from_checkpoint=False (default value) if you want to train from scratch; "
                f"it is {self._path(name)}")
        self._load(estimator, name)
        if kind == "epoch":
            estimator.max_epoch = rest
        else:
            estimator.max_batch = rest
        estimator.logger.warning(
            "CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for "
            f"%d {kind}{'e' * (kind == 'batch')}s ", self.trained_epoch, self.trained_batch, rest)

    def _load(self, estimator: Estimator, name: str) -> None:
        parameters, states = self._path(f"{name}.params"), self._path(f"{name}.states")
        if not os.path.exists(states):
            raise CheckError(f"Failed to load checkpoint, {states} does not exist")
        estimator.net.load_parameters(parameters, ctx=estimator.context)
        estimator.trainer.load_states(states)

    def _checkpoints(self) -> list[tuple[int, int, str]]:
        """Return epoch, batch and name of the checkpoints in the folder, the last one last."""
        finish_sets(self.model_dir)
        name = re.compile(rf"({re.escape(self.model_prefix)}-epoch(\d+)batch(\d+))\.params")
        matches = map(name.fullmatch, os.listdir(self.model_dir))
        return sorted((int(match[2]), int(match[3]), match[1]) for match in matches if match)
