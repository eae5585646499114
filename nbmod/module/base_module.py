"""The training loop, and the interface that it requires of every kind of module.

`fit`, `score` and `predict` are written once, against a few methods that subclasses provide:
`bind`, `init_params`, `init_optimizer`, `forward`, `backward`, `update`, `get_outputs`,
`update_metric`, `get_params`, `prepare`.  Four flags are the state of a module: `binded`,
`params_initialized`, `optimizer_initialized`, and `for_training`.

`history` is plain data: for every epoch of `fit` a dict of its number `epoch`, the metrics `train`
and `validation` (name -> value) and the `seconds` that training took.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import namedtuple
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from .. import metric as _metric
from .. import ndarray as nd
from ..base import (
    AbstractError,
    ArgumentError,
    CheckError,
    MXNetError,
    StopTraining,
    _as_list,
    wrong_type,
)
from ..callback.epoch_bars import shown
from ..callback.nan_guard import NanGuard
from ..checkpoint import join_params, split_params
from ..config import is_terminal
from ..history import History
from ..initializer import Uniform
from ..io import DataBatch, DataDesc, DataIter
from ..io.data_iter import why_no_batch
from ..metric import EvalMetric
from ..metric.eval_metric import as_text, numbers
from ..monitor import Monitor
from ..ndarray import NDArray
from ..ops.random import rng
from ..symbol import Symbol
from .arguments import (  # noqa: F401
    Batch,
    Callback,
    Callbacks,
    GradReq,
    Grads,
    InitFunction,
    KVStoreLike,
    Labels,
    OptimizerLike,
    OptimizerParams,
    Outputs,
    Params,
    Predictions,
    RowFunction,
    Shapes,
    StateValues,
    _check_input_names,
)
from .batch_shapes import _check_names_match, _parse_data_desc  # noqa: F401
from .executor_group import cut
from .fit_warnings import warn_after_epoch, warn_of_unknown_parameters
from .module_text import module_text
from .optimizer_setup import is_in_use
from .training_position import TrainingPosition, call_all
from .turns import Turns

if TYPE_CHECKING:
    from ..base import Array
    from ..executor import Executor
    from ..log import Logger
    from ..metric.eval_metric import MetricLike
    from ..optimizer import Optimizer
    from .json_codec import Plain

__all__ = ["BaseModule", "BatchEndParam"]

BatchEndParam = namedtuple("BatchEndParam", ["epoch", "nbatch", "eval_metric", "locals"])


class BaseModule:
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
        self._fitting = False
        self._has_warned = False  # after the first epoch
        self._asked: object = None  # optimizer and its options at the first fit
        self._turns = Turns()

    __repr__ = module_text

    @contextmanager
    def _prepared_once(self) -> Iterator[None]:
        """A second `fit` asks again for what has been done: nothing to warn of."""
        self._fitting = True
        try:
            yield
        finally:
            self._fitting = False

    def _ignore(self, message: str) -> None:
        if not self._fitting:
            self.logger.warning(message)

    def _ignore_optimizer(self, modules: Sequence[BaseModule], optimizer: OptimizerLike,
                          params: OptimizerParams) -> None:
        """Warn that `modules` have an optimizer already; during `fit` only of a different one."""
        if not self._fitting:
            self.logger.warning("optimizer already initialized, ignoring...")
        elif (optimizer, params) not in (self._asked, ("sgd", (("learning_rate", 0.01),))) \
                and not all(is_in_use(module, optimizer, params) for module in modules):
            self.logger.warning(
                "optimizer already initialized, ignoring...: training goes on with the optimizer "
                "of the first fit, which differs from optimizer=%r, optimizer_params=%r; to "
                "replace it call init_optimizer with these arguments and force_init=True before "
                "fit", optimizer, params)

    def _require(self, *states: str) -> None:
        """MXNetError naming the method to call first, unless every state has been reached."""
        calls = {"binded": "bind()", "params_initialized": "init_params()",
                 "optimizer_initialized": "init_optimizer()",
                 "for_training": "bind(for_training=True)"}
        for state in states:
            if not getattr(self, state):
                raise CheckError(f"{type(self).__name__}: call {calls[state]} first")

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
        >>> import nbmod as mx
        >>> data = mx.io.NDArrayIter(mx.nd.array([[1, 0], [0, 1]]), mx.nd.array([0, 0]), 2)
        >>> module = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax"))
        >>> module.bind(data.provide_data, data.provide_label, for_training=False)
        >>> module.init_params()
        >>> module.score(data, "acc")
        [('accuracy', 0.5)]
        """
        self._require("binded", "params_initialized")
        _require_iterator("score: eval_data", eval_data, "reset")
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

    def iter_predict(self, eval_data: DataIter, num_batch: int | None = None, reset: bool = True,
                     sparse_row_id_fn: RowFunction = None
                     ) -> Iterator[tuple[list[NDArray], int, Batch]]:
        """Iterate over predictions, batch by batch.

        Parameters
        ----------
        eval_data : DataIter
            Batches of data; labels are not needed.
        num_batch : int, optional
            Predict at most this many batches; all by default.
        reset : bool, default True
            Reset `eval_data` first.
        sparse_row_id_fn : callable, optional
            As for `prepare`.

        Yields
        ------
        (list of NDArray, int, DataBatch)
            Outputs without the samples that pad the last batch, the number of the batch, and the
            batch. Outputs may be overwritten by the next iteration; copy those to be kept.
        """
        self._require("binded", "params_initialized")
        _require_iterator("iter_predict: eval_data", eval_data, "reset")
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            pad = (batch[-1] if isinstance(batch, list) else batch).pad or 0
            outputs = self.get_outputs()
            yield [cut(out, axis, slice(0, out.shape[axis] - pad)) for out, axis in
                   zip(outputs, self._output_axes(len(outputs)), strict=True)], nbatch, batch

    def _output_axes(self, count: int) -> list[int]:
        """Batch axis of each output, -1 for none: the first, in modules that do not define it."""
        return [0] * count

    def predict(self, eval_data: DataIter | NDArray | Array, num_batch: int | None = None,
                merge_batches: bool = True, reset: bool = True, always_output_list: bool = False,
                sparse_row_id_fn: RowFunction = None) -> Predictions:
        """Compute the outputs for all samples of an iterator, or for one array.

        Samples that pad the last batch are removed.

        Parameters
        ----------
        eval_data : DataIter, NDArray or numpy.ndarray
            Batches of data, or one batch as an array. Labels are not needed.
        num_batch : int, optional
            Predict at most this many batches; all by default.
        merge_batches : bool, default True
            Join the outputs of all batches along the batch axis.
        reset : bool, default True
            Reset `eval_data` first.
        always_output_list : bool, default False
            Return a list even if the network has only one output; has no effect without
            `merge_batches`.
        sparse_row_id_fn : callable, optional
            As for `prepare`.

        Returns
        -------
        NDArray or list
            With `merge_batches`, one NDArray, or a list with one for each output; without it a
            list with a list of outputs for each batch. For an array: the first output.

        Raises
        ------
        MXNetError
            If the number of outputs differs between batches that are to be merged.

        Examples
        --------
        >>> import nbmod as mx
        >>> data = mx.io.NDArrayIter(mx.nd.array([[1], [2], [3]]), batch_size=2)
        >>> module = mx.mod.Module(mx.sym.Variable("data") * 10, label_names=None)
        >>> module.bind(data.provide_data, for_training=False)
        >>> module.init_params()
        >>> module.predict(data).asnumpy().tolist()
        [[10.0], [20.0], [30.0]]
        """
        self._require("binded", "params_initialized")
        if isinstance(eval_data, (nd.NDArray, np.ndarray)):
            data = nd.array(eval_data) if isinstance(eval_data, np.ndarray) else eval_data
            self.forward(DataBatch([data]))
            return self.get_outputs()[0]
        if not hasattr(eval_data, "provide_data"):
            raise ArgumentError(f"predict: eval_data is a {type(eval_data).__name__}, expected a "
                                "DataIter, NDArray or numpy.ndarray")
        batches = [[out.copy() for out in outputs] for outputs, _, _ in
                   self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)]
        if not batches or not merge_batches:
            return batches
        if any(len(outputs) != len(batches[0]) for outputs in batches):
            raise MXNetError("predict: cannot merge batches, as the number of outputs differs "
                             "between batches (bucketing?); set merge_batches=False")
        merged = [nd.concatenate(list(column), axis=max(axis, 0)) for column, axis in
                  zip(zip(*batches, strict=True), self._output_axes(len(batches[0])), strict=True)]
        return merged if len(merged) > 1 or always_output_list else merged[0]

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
        >>> import nbmod as mx
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
        _require_iterator("fit: train_data", train_data, "provide_data")
        _require_iterator("fit: eval_data", eval_data, "reset", optional=True)
        with self._prepared_once():
            self.bind(data_shapes=train_data.provide_data, label_shapes=train_data.provide_label,
                      for_training=True, force_rebind=force_rebind)
            if monitor is not None:
                self.install_monitor(monitor)
            self.init_params(initializer=initializer, arg_params=arg_params,
                             aux_params=aux_params, allow_missing=allow_missing,
                             force_init=force_init)
            if arg_params or aux_params:
                warn_of_unknown_parameters(self, arg_params, aux_params)
            if not self.optimizer_initialized:
                self._asked = optimizer, optimizer_params
            self.init_optimizer(kvstore=kvstore, optimizer=optimizer,
                                optimizer_params=optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        eval_metric = _metric.create(eval_metric)
        self.history = History(past for past in self.history if past["epoch"] < begin_epoch)
        progress = self._progress = TrainingPosition(train_data, eval_data, begin_epoch)
        callbacks: Callbacks = [NanGuard()] if nan_guard else []
        callbacks += [] if batch_end_callback is None else _as_list(batch_end_callback)
        before_update = [one.before_update for one in callbacks if hasattr(one, "before_update")]
        display = shown(callbacks) if is_terminal(sys.stderr) else nullcontext()
        batch_end_callback = self._calling(progress, callbacks, locals()) if callbacks else None
        with suppress(StopTraining), display as progress.display, self._begin_fit(
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
                    self._validate(epoch, progress, validation_metric, eval_end_callback,
                                   eval_batch_end_callback, locals())
                train_data.reset()
                progress.begin_epoch()
        progress.finish()

    def _train_epoch(self, epoch: int, progress: TrainingPosition, eval_metric: EvalMetric,
                     batch_end_callback: Callback, monitor: Monitor | None,
                     sparse_row_id_fn: RowFunction, before_update: Callback) -> None:
        """Train on every batch once.

        Local variables have the names that batch callbacks written for MXNet read.
        """
        tic, nbatch = time.time(), progress.batch
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
                if not (self._has_warned and all(map(isfinite, numbers(eval_name_vals).values()))):
                    warn_after_epoch(BatchEndParam(epoch, nbatch, eval_metric, locals()))
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

    def _calling(self, progress: TrainingPosition, callbacks: Callback,
                 arguments: dict[str, object]) -> Callback:
        """All batch callbacks; they may stop training after their batch.

        They see `fit`'s variables, too, in `param.locals`, as in MXNet.
        """
        def call(param: BatchEndParam) -> None:
            progress.call(callbacks, param._replace(locals={**param.locals, **arguments}))
            if progress.asked is not None and not param.locals["end_of_batch"]:
                progress.stop()

        return call

    def _validate(self, epoch: int, progress: TrainingPosition, metric: MetricLike,
                  end_callback: Callback, batch_end_callback: Callback,
                  arguments: dict[str, object]) -> None:
        """Evaluate on the validation data; log and record the results."""
        def at_end(param: BatchEndParam) -> None:
            progress.call(end_callback, param._replace(locals={**param.locals, **arguments}))

        display = progress.display
        if display:
            batch_end_callback = display.with_validation(batch_end_callback)
        with rng.aside():
            found = self.score(progress.eval_data,  # type: ignore[arg-type]  # not None
                               metric, epoch=epoch, score_end_callback=at_end,
                               batch_end_callback=batch_end_callback)
        self.history[-1]["validation"] = numbers(found)
        progress.amend(self.history)
        for name, value in found:
            self.logger.info("Epoch[%d] Validation-%s=%s", epoch, name, as_text(value))
        if display:
            display.end_epoch(self.history[-1], self.logger)

    # -- parameters -------------------------------------------------------------------------

    def set_params(self, arg_params: Params, aux_params: Params, allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        """Assign parameters and auxiliary states by name.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
            Values of parameters and auxiliary states.
        allow_missing : bool, default False
            Whether names may be missing; these parameters keep their values.
        force_init : bool, default True
            Assign even if parameters have been initialized; otherwise that is a warning.
        allow_extra : bool, default False
            Whether unknown names are ignored.
        """
        self.init_params(initializer=None, arg_params=arg_params, aux_params=aux_params,
                         allow_missing=allow_missing, force_init=force_init,
                         allow_extra=allow_extra)

    def save_params(self, fname: str) -> None:
        """Save parameters and auxiliary states to a file in MXNet's format.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        nd.save(fname, join_params(*self.get_params()))

    def load_params(self, fname: str) -> None:
        """Load parameters and auxiliary states that `save_params` or MXNet saved.

        Parameters
        ----------
        fname : str
            Path of the file.

        Raises
        ------
        MXNetError
            If the file is damaged, or its arrays are not named ``arg:...`` or ``aux:...``.
        """
        loaded = nd.load(fname)
        if not isinstance(loaded, dict):
            raise MXNetError(f"{fname}: the arrays have no names, so these are no parameters")
        params = split_params(loaded, fname)
        try:
            self.set_params(*params)
        except MXNetError as error:
            if type(error) is not MXNetError:
                raise
            raise MXNetError(f"{fname}: {error}") from None

    @property
    def symbol(self) -> Symbol:
        """Symbol of the network."""
        return self._symbol

    # -- defaults for modules without this state --------------------------------------------

    def _executors(self) -> list[Executor]:
        """Executors that ran the last batch; none in modules that have none."""
        return []

    def _optimizers(self) -> list[Optimizer]:
        """Optimizers that `update` uses; none in modules that have none."""
        return []

    def _param_gradients(self) -> list[list[NDArray]]:
        """For each parameter that `update` changes, its gradient on every device."""
        return []

    def _averages_params(self) -> bool:
        """Whether an epoch ends with `get_params` and `set_params`, for the mean over devices."""
        return True

    def _begin_fit(self, progress: TrainingPosition, overlaps: bool
                   ) -> AbstractContextManager[None]:
        """Before the first epoch of `fit`: resume from a checkpoint, if one was loaded for it.

        Training is within the result.  Several workers may exchange gradients while these are
        computed, if it `overlaps`.
        """
        return nullcontext()

    def prepare(self, data_batch: Batch, sparse_row_id_fn: RowFunction = None) -> None:
        """Prepare the module for the next batch; called by `fit`, `score` and `predict`.

        Parameters
        ----------
        data_batch : DataBatch
            The next batch.
        sparse_row_id_fn : callable, optional
            Function of a batch that returns the rows of row-sparse parameters that it needs:
            a dict of parameter name to NDArray of row indices.
        """

    def get_states(self, merge_multi_context: bool = True) -> Outputs:
        """Get the states that are carried from batch to batch: none in this kind of module.

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the states of several devices along the batch axis.

        Returns
        -------
        list
            Always empty here.
        """
        self._require("binded", "params_initialized")
        return []

    def set_states(self, states: StateValues | None = None, value: float | None = None) -> None:
        """Set the states that are carried from batch to batch: none in this kind of module.

        Parameters
        ----------
        states : list of NDArray, optional
            Values of the states.
        value : float, optional
            One value for all elements of all states.

        Raises
        ------
        MXNetError
            If anything is given.
        """
        self._require("binded", "params_initialized")
        if states or value is not None:
            raise MXNetError(f"{type(self).__name__} has no states to set")

    # -- abstract methods -------------------------------------------------------------------

    def _abstract(self, method: str) -> AbstractError:
        return AbstractError(f"{type(self).__name__} does not define {method}")

    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        raise self._abstract("data_names")

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        raise self._abstract("output_names")

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the data inputs, as bound."""
        raise self._abstract("data_shapes")

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the label inputs, as bound; None or empty without labels."""
        raise self._abstract("label_shapes")

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Pairs of name and shape of the outputs."""
        raise self._abstract("output_shapes")

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Get the parameters.

        Returns
        -------
        (dict, dict)
            Parameters and auxiliary states by name.
        """
        raise self._abstract("get_params")

    def init_params(self, initializer: InitFunction = Uniform(0.01),  # noqa: B008
                    arg_params: Params = None, aux_params: Params = None,
                    allow_missing: bool = False, force_init: bool = False,
                    allow_extra: bool = False) -> None:
        """Initialize the parameters; does nothing if that was done, unless `force_init`.

        Parameters
        ----------
        initializer : Initializer, default Uniform(0.01)
            Initializes parameters that are not given.
        arg_params, aux_params : dict of str to NDArray, optional
            Initial parameters and auxiliary states by name.
        allow_missing : bool, default False
            Whether these dicts may lack names.
        force_init : bool, default False
            Initialize even if parameters have been initialized.
        allow_extra : bool, default False
            Whether unknown names are ignored.
        """
        raise self._abstract("init_params")

    def bind(self, data_shapes: Shapes, label_shapes: Shapes = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: BaseModule | None = None, grad_req: GradReq = "write",
             tune: bool = False) -> None:
        """Allocate memory for inputs of given shapes and prepare to compute.

        Parameters
        ----------
        data_shapes : list of DataDesc or (str, tuple)
            Names and shapes of the data inputs; `provide_data` of an iterator.
        label_shapes : list of DataDesc or (str, tuple), optional
            Names and shapes of the label inputs; `provide_label` of an iterator.
        for_training : bool, default True
            Whether gradients are to be computed.
        inputs_need_grad : bool, default False
            Whether gradients of the data inputs are to be computed, too.
        force_rebind : bool, default False
            Bind again if the module is bound; otherwise that is a warning.
        shared_module : Module, optional
            A bound module whose parameters and memory are shared.
        grad_req : str, list or dict, default 'write'
            How gradients are stored: 'write', 'add' or 'null', for all arguments, in their order,
            or by name.
        tune : bool, default False
            Measure which algorithm is fastest for each convolution.
        """
        raise self._abstract("bind")

    def init_optimizer(self, kvstore: KVStoreLike = "local", optimizer: OptimizerLike = "sgd",
                       optimizer_params: OptimizerParams = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """Create the optimizer.

        Parameters
        ----------
        kvstore : str, KVStore or None, default 'local'
            Where gradients of several devices are summed.
        optimizer : str or Optimizer, default 'sgd'
            The optimizer, or the name of one.
        optimizer_params : dict or sequence of pairs, default learning_rate=0.01
            Options of an optimizer that is given by name.
        force_init : bool, default False
            Replace an optimizer that has been created; otherwise that is a warning.
        """
        raise self._abstract("init_optimizer")

    def forward(self, data_batch: Batch, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch.

        Parameters
        ----------
        data_batch : DataBatch
            Data, and labels where they are needed.
        is_train : bool, optional
            Whether ops such as Dropout work as in training; `for_training` by default.
        """
        raise self._abstract("forward")

    def backward(self, out_grads: Grads = None) -> None:
        """Compute the gradients of the last `forward`.

        Parameters
        ----------
        out_grads : NDArray or list of NDArray, optional
            Gradients of a loss with respect to the outputs; not needed for outputs that are
            losses themselves.
        """
        raise self._abstract("backward")

    def update(self) -> None:
        """Update the parameters by the optimizer and the gradients of the last `backward`."""
        raise self._abstract("update")

    def get_outputs(self, merge_multi_context: bool = True) -> Outputs:
        """Get the outputs of the last `forward`.

        Parameters
        ----------
        merge_multi_context : bool, default True
            Join the outputs of several devices along the batch axis; otherwise each output is a
            list with one NDArray per device.

        Returns
        -------
        list
            One item for each output.
        """
        raise self._abstract("get_outputs")

    def get_input_grads(self, merge_multi_context: bool = True) -> Outputs:
        """Get the gradients with respect to the data inputs.

        Parameters
        ----------
        merge_multi_context : bool, default True
            As for `get_outputs`.

        Returns
        -------
        list
            One item for each data input.
        """
        raise self._abstract("get_input_grads")

    def update_metric(self, eval_metric: EvalMetric, labels: Labels, pre_sliced: bool = False
                      ) -> None:
        """Update a metric by the outputs of the last `forward`.

        Parameters
        ----------
        eval_metric : EvalMetric
            The metric.
        labels : list of NDArray
            Labels of the batch.
        pre_sliced : bool, default False
            Whether `labels` is a list with such a list for each device.
        """
        raise self._abstract("update_metric")

    def install_monitor(self, mon: Monitor) -> None:
        """Observe the executors of the module.

        Parameters
        ----------
        mon : Monitor
            The monitor.
        """
        raise self._abstract("install_monitor")


def _require_iterator(what: str, data: object, attribute: str, optional: bool = False) -> None:
    """TypeError unless the argument has the methods that all iterators have."""
    if not hasattr(data, attribute) and not (optional and data is None):
        raise wrong_type(what, data, "a DataIter, such as mx.io.NDArrayIter")


