"""The training loop of all kinds of modules."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from math import isfinite
from typing import TYPE_CHECKING

from .. import metric as _metric
from ..base import CheckError, MXNetError, StopTraining, _as_list
from ..callback.epoch_bars import Progress, shown
from ..callback.history import History
from ..callback.monitor import Monitor
from ..callback.nan_guard import NanGuard
from ..core.config import is_terminal
from ..initializer import Uniform
from ..io import DataIter
from ..io.data_iter import why_no_batch
from ..metric import EvalMetric
from ..metric.eval_metric import as_text, numbers
from ..ops.random import rng
from ..symbol import Symbol
from .arguments import (
    Batch,
    Callback,
    Callbacks,
    InitFunction,
    KVStoreLike,
    OptimizerLike,
    OptimizerParams,
    Outputs,
    Params,
    RowFunction,
    StateValues,
    _check_input_names,  # noqa: F401
)
from .batch_shapes import _check_names_match, _parse_data_desc  # noqa: F401
from .fit_warnings import (
    FitWarnings,
    warn_after_epoch,
    warn_of_other_optimizer,
    warn_of_unknown_parameters,
)
from .module_text import module_text
from .prediction import PredictingModule
from .training_position import BatchEndParam, TrainingPosition, call_all, require_iterator
from .turns import Turns

if TYPE_CHECKING:
    from ..core.log import Logger
    from ..executor import Executor
    from ..metric.eval_metric import MetricLike
    from .json_codec import Plain

__all__ = ["BaseModule", "BatchEndParam"]


class BaseModule(PredictingModule):
    """Base of all modules: the training loop, evaluation and prediction.

    Subclasses provide `bind`, `init_params`, `init_optimizer`, `forward`, `backward`, `update`,
    `get_outputs`, `update_metric` and `get_params`; `fit`, `score` and `predict` rely on these.

    Parameters
    ----------
    logger : logging.Logger, optional
        Where progress and warnings are logged; the root logger by default.

    Attributes
    ----------
    binded, params_initialized, optimizer_initialized : bool
        Whether `bind`, `init_params` and `init_optimizer` have been called.
    for_training, inputs_need_grad : bool
        As given to `bind`.
    history : list of dict
        Results of each epoch of `fit`: its number ``epoch``, the metrics ``train`` and
        ``validation`` (name -> value) and the ``seconds`` of training. See `nbmod.history.plot`.
    """

    def __init__(self, logger: Logger = logging):
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Symbol = None  # type: ignore[assignment]  # modules may have none
        self._total_exec_bytes = 0
        self.history: list[dict[str, Plain]] = History()
        self._progress: TrainingPosition | None = None
        self._fit_warnings = FitWarnings()
        self._turns = Turns()

    __repr__ = module_text

    @contextmanager
    def _preparing(self) -> Iterator[None]:
        """Let a second `fit` call `bind`, `init_params` and `init_optimizer` without warnings."""
        self._fit_warnings.is_preparing = True
        try:
            yield
        finally:
            self._fit_warnings.is_preparing = False

    def _ignore(self, message: str) -> None:
        if not self._fit_warnings.is_preparing:
            self.logger.warning(message)

    def _ignore_optimizer(self, modules: Sequence[BaseModule], optimizer: OptimizerLike,
                          params: OptimizerParams) -> None:
        """Warn that `modules` have an optimizer already; during `fit` only of a different one."""
        self._ignore("optimizer already initialized, ignoring...")
        known = self._fit_warnings.first_optimizer, ("sgd", (("learning_rate", 0.01),))
        if self._fit_warnings.is_preparing and (optimizer, params) not in known:
            warn_of_other_optimizer(self.logger, modules, optimizer, params)

    def _require(self, *states: str) -> None:
        calls = {"binded": "bind()", "params_initialized": "init_params()",
                 "optimizer_initialized": "init_optimizer()",
                 "for_training": "bind(for_training=True)"}
        for state in states:
            if not getattr(self, state):
                raise CheckError(f"{type(self).__name__}: call {calls[state]} first")

    def get_states(self, merge_multi_context: bool = True) -> Outputs:
        self._require("binded", "params_initialized")
        return []    # of kinds of modules that override neither method

    def set_states(self, states: StateValues | None = None, value: float | None = None) -> None:
        self._require("binded", "params_initialized")
        if states or value is not None:
            raise MXNetError(f"{type(self).__name__} has no states to set")

    @property
    def executor(self) -> Executor:
        """Executor of the first context; of buckets that of the current one."""
        self._require("binded")
        executors = self._executors()
        if not executors:
            raise CheckError(f"{type(self).__name__} computes without executors")
        return executors[0]

    # -- training and evaluation ------------------------------------------------------------

    def forward_backward(self, data_batch: Batch) -> None:
        """Run forward in training mode, then backward.

        Parameters
        ----------
        data_batch : DataBatch
            Data and labels, as for `forward`.
        """
        self.forward(data_batch, is_train=True)
        self.backward()

    def score(self, eval_data: DataIter, eval_metric: MetricLike, num_batch: int | None = None,
              batch_end_callback: Callback = None, score_end_callback: Callback = None,
              reset: bool = True, epoch: int = 0,
              sparse_row_id_fn: RowFunction = None) -> list[tuple[str, float]]:
        """Evaluate the network on labelled data.

        Samples that pad the last batch are counted, as in MXNet; choose a batch size that divides
        the number of samples, or an iterator with ``last_batch_handle="discard"``, for exact
        values.

        Parameters
        ----------
        eval_data : DataIter
            Batches of data and labels.
        eval_metric : str, EvalMetric, callable or list
            What is computed, in any form that `mx.metric.create` takes.
        num_batch : int, optional
            Evaluate on at most this many batches; on all by default.
        batch_end_callback : callable or list, optional
            Called after each batch with a `BatchEndParam`.
        score_end_callback : callable or list, optional
            Called once at the end with a `BatchEndParam` whose `nbatch` is the number of batches.
        reset : bool, default True
            Reset `eval_data` first.
        epoch : int, default 0
            Epoch number that callbacks are given.
        sparse_row_id_fn : callable, optional
            As for `prepare`.

        Returns
        -------
        list of (str, float)
            Name and value of each metric.

        Raises
        ------
        MXNetError
            If the module is not bound or has no parameters yet.

        Examples
        --------
        >>> data = mx.io.NDArrayIter(mx.nd.array([[1, 0], [0, 1]]), mx.nd.array([0, 0]), 2)
        >>> module = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax"))
        >>> module.bind(data.provide_data, data.provide_label, for_training=False)
        >>> module.init_params()
        >>> module.score(data, "acc")
        [('accuracy', 0.5)]
        """
        self._require("binded", "params_initialized")
        require_iterator("score: eval_data", eval_data, "reset")
        if reset:
            eval_data.reset()
        eval_metric = _metric.create(eval_metric)
        eval_metric.reset()
        actual_num_batch = 0
        for nbatch, eval_batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            with self._turns.lock:
                self.forward(eval_batch, is_train=False)
                self._update_metric_of(eval_batch, eval_metric)
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            actual_num_batch += 1
        call_all(score_end_callback, BatchEndParam(epoch, actual_num_batch, eval_metric, locals()))
        return [*eval_metric.get_name_value()]

    def _update_metric_of(self, batch: Batch, eval_metric: EvalMetric) -> None:
        """`update_metric` with the labels of a batch, or of a list with one for every device."""
        if isinstance(batch, list):
            self.update_metric(eval_metric, [part.label for part in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def fit(self, train_data: DataIter, eval_data: DataIter | None = None,
            eval_metric: MetricLike = "acc", epoch_end_callback: Callback = None,
            batch_end_callback: Callback = None, kvstore: KVStoreLike = "local",
            optimizer: OptimizerLike = "sgd",
            optimizer_params: OptimizerParams = (("learning_rate", 0.01),),
            eval_end_callback: Callback = None, eval_batch_end_callback: Callback = None,
            initializer: InitFunction = Uniform(0.01),  # noqa: B008
            arg_params: Params = None, aux_params: Params = None, allow_missing: bool = False,
            force_rebind: bool = False, force_init: bool = False, begin_epoch: int = 0,
            num_epoch: int | None = None, validation_metric: MetricLike | None = None,
            monitor: Monitor | None = None, sparse_row_id_fn: RowFunction = None,
            nan_guard: bool = False) -> None:
        """Train the network for the epochs from `begin_epoch` to ``num_epoch - 1``.

        A callback that raises `mx.callback.StopTraining` ends training there (docs/callbacks.md).
        Calls `bind`, `init_params` and `init_optimizer` unless that has been done. Each batch is
        then run forward and backward, parameters are updated, the metric is updated and batch
        callbacks are called. After each epoch the metric is logged, epoch callbacks are called
        and the network is evaluated on `eval_data`. Results are recorded in `history`.

        Parameters
        ----------
        train_data : DataIter
            Batches of data and labels; reset after each epoch.
        eval_data : DataIter, optional
            Validation data, evaluated after each epoch.
        eval_metric : str, EvalMetric, callable or list, default 'acc'
            Metric of the training data, in any form that `mx.metric.create` takes.
        epoch_end_callback : callable or list, optional
            Called after each epoch as ``callback(epoch, symbol, arg_params, aux_params)``, before
            validation; see `mx.callback.do_checkpoint`.
        batch_end_callback : callable or list, optional
            Called after each training batch with a `BatchEndParam`; see
            `mx.callback.Speedometer`. A method `before_update` of a callback is called with one,
            too, between the backward pass and the update; see `mx.callback.ClipGradients`.
        kvstore : str, KVStore or None, default 'local'
            Where gradients of several devices are summed: 'local', 'device', 'nccl' or a store.
            A name has no effect on a single device.
        optimizer : str or Optimizer, default 'sgd'
            The optimizer, or the name of one.
        optimizer_params : dict or sequence of pairs, default learning_rate=0.01
            Options of an optimizer that is given by name. ``rescale_grad`` defaults to 1 / batch
            size.
        eval_end_callback : callable or list, optional
            Called after each validation with a `BatchEndParam`.
        eval_batch_end_callback : callable or list, optional
            Called after each validation batch with a `BatchEndParam`.
        initializer : Initializer, default Uniform(0.01)
            Initializes parameters that are not given.
        arg_params, aux_params : dict of str to NDArray, optional
            Initial parameters and auxiliary states by name, from a checkpoint for example.
        allow_missing : bool, default False
            Whether `arg_params` and `aux_params` may lack names; `initializer` provides these.
        force_rebind : bool, default False
            Bind again even if the module is bound, for example after it was bound for inference.
        force_init : bool, default False
            Initialize parameters even if they have been.
        begin_epoch : int, default 0
            Number of the first epoch; that of the checkpoint when training is resumed.
        num_epoch : int
            Number of the epoch at which training stops, itself not trained; required.
        validation_metric : str, EvalMetric, callable or list, optional
            Metric of `eval_data`; `eval_metric` by default.
        monitor : Monitor, optional
            Observes the network; its results are logged.
        sparse_row_id_fn : callable, optional
            As for `prepare`.
        nan_guard : bool, default False
            Whether outputs, gradients and parameters are looked at in every step, and NaN or
            infinity in one is an error that names the first such tensor; a gradient is found
            before the parameters are updated. It reads all of them, so that steps take longer.

        Raises
        ------
        MXNetError
            If `num_epoch` is not given or `train_data` has no batches.
        NotFinite
            If `nan_guard` is set and training computes NaN or infinity.
        TypeError
            If `train_data` or `eval_data` is not an iterator.

        Examples
        --------
        >>> x, y = mx.nd.array([[0, 1], [1, 0], [0, 2], [2, 0]]), mx.nd.array([0, 1, 0, 1])
        >>> data = mx.io.NDArrayIter(x, y, batch_size=2)
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
        >>> module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
        >>> module.fit(data, optimizer_params={"learning_rate": 0.5}, num_epoch=5)
        >>> module.score(data, "acc")
        [('accuracy', 1.0)]
        >>> [past["epoch"] for past in module.history]
        [0, 1, 2, 3, 4]
        """
        if num_epoch is None:
            raise CheckError("fit: please specify number of epochs (num_epoch)")
        require_iterator("fit: train_data", train_data, "provide_data")
        require_iterator("fit: eval_data", eval_data, "reset", optional=True)
        with self._preparing():
            self.bind(data_shapes=train_data.provide_data, label_shapes=train_data.provide_label,
                      for_training=True, force_rebind=force_rebind)
            if monitor is not None:
                self.install_monitor(monitor)
            self.init_params(initializer=initializer, arg_params=arg_params,
                             aux_params=aux_params, allow_missing=allow_missing,
                             force_init=force_init)
            if arg_params or aux_params:
                warn_of_unknown_parameters(self.logger, self._symbol, arg_params, aux_params)
            if not self.optimizer_initialized:
                self._fit_warnings.first_optimizer = optimizer, optimizer_params
            self.init_optimizer(kvstore=kvstore, optimizer=optimizer,
                                optimizer_params=optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        eval_metric = _metric.create(eval_metric)
        self.history = History(past for past in self.history if past["epoch"] < begin_epoch)
        self._fit_warnings.has_told_of_nan = False
        progress = self._progress = TrainingPosition(train_data, eval_data, begin_epoch)
        callbacks: Callbacks = [NanGuard()] if nan_guard else []
        callbacks += [] if batch_end_callback is None else _as_list(batch_end_callback)
        before_update = [one.before_update for one in callbacks if hasattr(one, "before_update")]
        bars = shown(callbacks) if is_terminal(sys.stderr) else nullcontext()
        batch_end_callback = progress.calling(callbacks, locals()) if callbacks else None
        with suppress(StopTraining), bars as display, self._begin_fit(
                progress, not before_update and monitor is None):
            for epoch in range(begin_epoch, num_epoch):
                self._train_epoch(epoch, progress, eval_metric, batch_end_callback, monitor,
                                  sparse_row_id_fn, before_update)
                progress.end_epoch()
                if epoch_end_callback is not None or self._averages_params():
                    arg_params, aux_params = self.get_params()
                    self.set_params(arg_params, aux_params)
                    progress.call(epoch_end_callback, epoch, self.symbol, arg_params, aux_params)
                if eval_data is not None:
                    self._validate(epoch, progress, display, validation_metric,
                                   eval_end_callback, eval_batch_end_callback, locals())
                train_data.reset()
                progress.begin_epoch()
        progress.finish()

    def _validate(self, epoch: int, progress: TrainingPosition, display: Progress | None,
                  metric: MetricLike, end_callback: Callback, batch_end_callback: Callback,
                  arguments: dict[str, object]) -> None:
        """Evaluate on the validation data of `fit`; log and record the results.

        Callbacks see the `arguments`, `fit`'s variables, too.
        """
        def at_end(param: BatchEndParam) -> None:
            progress.call(end_callback, param._replace(locals={**param.locals, **arguments}))

        if display:
            batch_end_callback = display.with_validation(batch_end_callback)
        with rng.aside():
            scores = self.score(progress.eval_data,  # type: ignore[arg-type]  # not None
                                metric, epoch=epoch, score_end_callback=at_end,
                                batch_end_callback=batch_end_callback)
        self.history[-1]["validation"] = numbers(scores)
        progress.amend(self.history)
        for name, value in scores:
            self.logger.info("Epoch[%d] Validation-%s=%s", epoch, name, as_text(value))
        if display:
            display.end_epoch(self.history[-1], self.logger)

    def _train_epoch(self, epoch: int, progress: TrainingPosition, eval_metric: EvalMetric,
                     batch_end_callback: Callback, monitor: Monitor | None,
                     sparse_row_id_fn: RowFunction, before_update: Callback) -> None:
        """Train on every batch once.

        Local variables have the names that batch callbacks written for MXNet read.
        """
        tic, nbatch, warnings = time.time(), progress.batch, self._fit_warnings
        eval_name_vals: list[tuple[str, float]] = []
        eval_metric.reset()
        data_iter = progress.batches()
        next_data_batch = next(data_iter, None)
        if next_data_batch is None and nbatch == 0:
            raise MXNetError(f"fit: train_data yields no batch in epoch {epoch}; "
                             f"{why_no_batch(progress.train_data)}")
        while next_data_batch is not None:
            data_batch = next_data_batch
            if monitor is not None:
                monitor.tic()
            self.forward_backward(data_batch)
            if before_update:
                call_all(before_update, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            self.update()
            self._update_metric_of(data_batch, eval_metric)
            next_data_batch = next(data_iter, None)
            end_of_batch = next_data_batch is None
            if next_data_batch is not None:
                self.prepare(next_data_batch, sparse_row_id_fn=sparse_row_id_fn)
            else:  # callbacks may reset the metric, so read it before them
                read = getattr(eval_metric, "get_global_name_value", eval_metric.get_name_value)
                eval_name_vals = [*read()]
                finite = all(map(isfinite, numbers(eval_name_vals).values()))
                if not (warnings.has_examined_epoch and finite):
                    warn_after_epoch(BatchEndParam(epoch, nbatch, eval_metric, locals()),
                                     self._executors())
            if monitor is not None:
                monitor.toc_print()
            progress.batch = nbatch + 1
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            nbatch += 1
        seconds = time.time() - tic
        for name, value in eval_name_vals:
            self.logger.info("Epoch[%d] Train-%s=%s", epoch, name, as_text(value))
        self.logger.info("Epoch[%d] Time cost=%.3f", epoch, seconds)
        self.history.append({"epoch": epoch, "train": numbers(eval_name_vals),
                             "validation": {}, "seconds": seconds})
