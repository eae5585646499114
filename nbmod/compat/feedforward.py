"""`FeedForward`, MXNet's first model class: one object with data arrays in, predictions out.

A thin layer over Module: training binds a Module (a BucketingModule if there is a network per
bucket), prediction another one on the first context.  It adds numpy arrays as data, batches counted
from 1 in callbacks, and epochs of `epoch_size` batches that may end in the middle of the data.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .. import io
from .. import metric as _metric
from ..base import (
    ArgumentError,
    ArgumentTypeError,
    CheckError,
    MXNetError,
    StopTraining,
    _as_list,
    did_you_mean,
)
from ..callback import LogValidationMetricsCallback
from ..callback.epoch_bars import shown
from ..callback.nan_guard import warn_not_finite
from ..checkpoint import load_checkpoint, save_checkpoint
from ..core.reprs import listed, safe_repr
from ..initializer import Uniform
from ..io.data_iter import why_no_batch
from ..metric.eval_metric import numbers
from ..module.arguments import (
    Callback,
    Contexts,
    InitFunction,
    KVStoreLike,
    OptimizerLike,
    Params,
    Predictions,
    context_list,
)
from ..module.base_module import BaseModule, BatchEndParam
from ..module.bucketing_module import BucketingModule
from ..module.module import Module
from ..module.training_position import call_all
from ..ndarray import NDArray
from ..symbol import Symbol
from .executor_manager import _check_arguments

if TYPE_CHECKING:
    from ..base import Array, Forwarded
    from ..callback.monitor import Monitor
    from ..core.log import Logger
    from ..io import DataBatch, DataIter
    from ..metric.eval_metric import MetricLike, MetricValue

__all__ = ["FeedForward"]

Data: TypeAlias = "DataIter | NDArray | Array"
EvalData: TypeAlias = "DataIter | Sequence[Forwarded] | None"
"""An iterator, or the pair (data, labels), each an array or a list."""
SymbolLike: TypeAlias = "Symbol | Callable[[Hashable], Symbol]"
"""A network, or a function of a bucket key that returns one."""


class FeedForward:
    """A network with its parameters, trained and evaluated on arrays or iterators.

    It is deprecated in MXNet in favour of `Module`.

    Parameters
    ----------
    symbol : Symbol or callable
        The network, or a function of a bucket key that returns it.
    ctx : Context or list of Context, default cpu()
        Where to compute.
    num_epoch : int, optional
        Number of the epoch at which training stops; required by `fit`.
    epoch_size : int, optional
        Batches per epoch; all of the data by default.
    optimizer : str or Optimizer, default 'sgd'
        The optimizer, or the name of one.
    initializer : Initializer, default Uniform(0.01)
        Initializes parameters that are not given.
    numpy_batch_size : int, default 128
        Batch size for data that are arrays.
    arg_params, aux_params : dict of str to NDArray, optional
        Parameters and auxiliary states by name.
    allow_extra_params : bool, default False
        Whether these dicts may have names that the network does not have.
    begin_epoch : int, default 0
        Number of the first epoch.
    **kwargs
        Options of the optimizer, such as `learning_rate`.
    """

    def __init__(self, symbol: SymbolLike, ctx: Contexts = None, num_epoch: int | None = None,
                 epoch_size: int | None = None, optimizer: OptimizerLike = "sgd",
                 initializer: InitFunction = Uniform(0.01),  # noqa: B008
                 numpy_batch_size: int = 128, arg_params: Params = None,
                 aux_params: Params = None, allow_extra_params: bool = False,
                 begin_epoch: int = 0, **kwargs: object):
        warnings.warn("mxnet.model.FeedForward has been deprecated. Please use mxnet.mod.Module "
                      "instead.", DeprecationWarning, stacklevel=2)
        if not isinstance(symbol, Symbol) and not callable(symbol):
            raise TypeError(f"FeedForward: symbol is a {type(symbol).__name__}, expected a Symbol "
                            "or a function from bucket key to Symbol")
        self.symbol: Symbol = (  # None until `fit` calls a function
            symbol if isinstance(symbol, Symbol) else None)  # type: ignore[assignment]
        self.sym_gen = None if isinstance(symbol, Symbol) else symbol
        self.ctx = context_list(ctx)
        self.num_epoch, self.begin_epoch, self.epoch_size = num_epoch, begin_epoch, epoch_size
        self.optimizer, self.initializer, self.kwargs = optimizer, initializer, dict(kwargs)
        self.numpy_batch_size = numpy_batch_size
        self.arg_params, self.aux_params = arg_params, aux_params
        self.allow_extra_params = allow_extra_params
        self._label_names: list[str] = []
        self._pred_exec: Module | None = None

    @safe_repr
    def __repr__(self) -> str:
        name = "of buckets" if self.symbol is None else self.symbol.name or "of a group"
        state = "no parameters" if not self.arg_params else f"{len(self.arg_params)} parameters"
        where = listed(map(str, self.ctx))
        return (f"<FeedForward {name} on {where}: epochs {self.begin_epoch} to {self.num_epoch}, "
                f"{state}>")

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_pred_exec": None}

    # -- data -------------------------------------------------------------------------------

    def _init_iter(self, X: Data, y: NDArray | Array | None, is_train: bool) -> DataIter:
        """An iterator over arrays; an iterator as it is."""
        if not isinstance(X, (np.ndarray, NDArray)):
            if not hasattr(X, "provide_data"):
                raise TypeError(f"X must be DataIter, NDArray or numpy.ndarray, but is a "
                                f"{type(X).__name__}")
            return X
        if y is None:
            if is_train:
                raise ArgumentError("y must be specified when X is numpy.ndarray")
            y = np.zeros(X.shape[0])
        if not isinstance(y, (np.ndarray, NDArray)):
            raise ArgumentTypeError(f"y must be an NDArray or numpy.ndarray, but is a "
                                    f"{type(y).__name__}")
        y = y.asnumpy() if isinstance(y, NDArray) else y
        if X.shape[0] != y.shape[0]:
            raise ArgumentError(f"The numbers of data points and labels not equal: {X.shape[0]} "
                                f"and {y.shape[0]}")
        if y.ndim == 2 and y.shape[1] == 1:
            y = y.flatten()
        if y.ndim != 1:
            raise ArgumentError(f"y must be 1D or 2D (with 2nd dimension being 1), but has shape "
                                f"{y.shape}")
        return io.NDArrayIter(X, y, min(X.shape[0], self.numpy_batch_size), shuffle=is_train,
                              last_batch_handle="roll_over" if is_train else "pad")

    def _init_eval_iter(self, eval_data: EvalData) -> DataIter | None:
        """An iterator from what `fit` takes as `eval_data`."""
        if isinstance(eval_data, (tuple, list)) and len(eval_data) == 2:
            X, y = eval_data
            if y is None and hasattr(X, "provide_data"):
                return X
            X, y = (np.asarray(each) if isinstance(each, list) else each for each in (X, y))
            return self._init_iter(X, y, is_train=True)
        if eval_data is None or hasattr(eval_data, "provide_data"):
            return eval_data  # type: ignore[return-value]  # an iterator, as it has provide_data
        raise TypeError("Eval data must be DataIter, or NDArray/numpy.ndarray/list pair (i.e. "
                        f"tuple/list of length 2), but is a {type(eval_data).__name__}")

    # -- training ---------------------------------------------------------------------------

    def fit(self, X: Data, y: NDArray | Array | None = None, eval_data: EvalData = None,
            eval_metric: MetricLike = "acc", epoch_end_callback: Callback = None,
            batch_end_callback: Callback = None, kvstore: KVStoreLike = "local",
            logger: Logger | None = None, work_load_list: Sequence[float] | None = None,
            monitor: Monitor | None = None,
            eval_end_callback: Callback = LogValidationMetricsCallback(),  # noqa: B008
            eval_batch_end_callback: Callback = None) -> None:
        """Train for the epochs from `begin_epoch` to ``num_epoch - 1``.

        Parameters
        ----------
        X : DataIter, numpy.ndarray or NDArray
            Training data; arrays have the samples along axis 0.
        y : numpy.ndarray or NDArray, optional
            Labels, shape (samples,) or (samples, 1); required if `X` is an array.
        eval_data : DataIter or pair of arrays, optional
            Validation data, evaluated after each epoch.
        eval_metric : str, EvalMetric, callable or list, default 'acc'
            Metric of training and validation.
        epoch_end_callback : callable or list, optional
            Called after each epoch, as in `BaseModule.fit`.
        batch_end_callback : callable or list, optional
            Called after each batch, as in `BaseModule.fit`, but `nbatch` counts from 1.
        kvstore : str, KVStore or None, default 'local'
            Where gradients of several contexts are summed.
        logger : logging.Logger, optional
            Where progress is logged; the root logger by default.
        work_load_list : list of float, optional
            Relative share of each batch that each context computes; equal by default.
        monitor : Monitor, optional
            Observes the network.
        eval_end_callback : callable or list, default LogValidationMetricsCallback()
            Called after each validation.
        eval_batch_end_callback : callable or list, optional
            Called after each validation batch.
        """
        train_data, eval_data = self._init_iter(X, y, True), self._init_eval_iter(eval_data)
        if self.num_epoch is None:
            raise MXNetError("FeedForward.fit: num_epoch is not set; give it to the constructor")
        logger = logger or logging
        logger.info("Start training with %s", str(self.ctx))
        module = self._trainer(train_data, logger, work_load_list, monitor)
        module.init_optimizer(kvstore, self.optimizer, self.kwargs)
        eval_metric = _metric.create(eval_metric)
        train_data.reset()
        num_epoch = self.num_epoch
        callbacks = [] if batch_end_callback is None else _as_list(batch_end_callback)
        with suppress(StopTraining), shown(callbacks, 1) as display:
            if display:
                eval_batch_end_callback = display.with_validation(eval_batch_end_callback)
            for epoch in range(self.begin_epoch, num_epoch):
                tic = time.time()
                eval_metric.reset()
                for nbatch, data_batch in self._batches_of(epoch, train_data, logger):
                    if monitor is not None:
                        monitor.tic()
                    module.forward_backward(data_batch)
                    module.update()
                    if monitor is not None:
                        monitor.toc_print()
                    module.update_metric(eval_metric, data_batch.label)
                    if callbacks:
                        call_all(callbacks, BatchEndParam(epoch, nbatch, eval_metric, locals()))
                past = {"epoch": epoch, "seconds": time.time() - tic, "validation": {},
                        "train": _train_values(BatchEndParam(epoch, nbatch, eval_metric, locals()))}
                logger.info("Epoch[%d] Time cost=%.3f", epoch, past["seconds"])
                self.arg_params, self.aux_params = module.get_params()
                call_all(epoch_end_callback, epoch, self.symbol, self.arg_params, self.aux_params)
                if eval_data is not None:
                    past["validation"] = numbers(module.score(
                        eval_data, eval_metric, None, eval_batch_end_callback, eval_end_callback,
                        epoch=epoch))
                    eval_data.reset()
                if display:
                    display.end_epoch(past, logger)
        self.arg_params, self.aux_params = module.get_params()

    def _trainer(self, train_data: DataIter, logger: Logger, loads: Sequence[float] | None,
                 monitor: Monitor | None) -> BaseModule:
        """The network bound for training, with the existing parameters."""
        data, labels = ([desc[0] for desc in descs] for descs in
                        (train_data.provide_data, train_data.provide_label))
        options: dict[str, Forwarded] = {"logger": logger, "context": self.ctx,
                                         "work_load_list": loads}
        self._label_names = labels
        module: BaseModule
        if self.sym_gen is None:
            module = Module(self.symbol, data, labels, **options)
        else:
            # Iterators over buckets have the attribute.
            draw, key = self.sym_gen, train_data.default_bucket_key  # type: ignore[attr-defined]
            self.symbol = draw(key)
            module = BucketingModule(lambda key: (draw(key), data, labels), key, **options)
        self._check_arguments()
        module.bind(train_data.provide_data, train_data.provide_label)
        if monitor is not None:
            module.install_monitor(monitor)
        module.init_params(self.initializer, self.arg_params, self.aux_params, allow_missing=True)
        return module

    def _check_arguments(self) -> None:
        """Check that argument names are unique; remove parameters of other networks, if allowed."""
        _check_arguments(self.symbol)
        if self.allow_extra_params:
            args, aux = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
            self.arg_params = _only(self.arg_params, args)
            self.aux_params = _only(self.aux_params, aux)

    def _batches_of(self, epoch: int, train_data: DataIter, logger: Logger
                    ) -> Iterator[tuple[int, DataBatch]]:
        """An epoch's batches, counted from 1; the data may start again in the middle of it."""
        nbatch, from_start = 0, False
        while True:
            before = nbatch
            for batch in train_data:
                nbatch += 1
                yield nbatch, batch
                if nbatch == self.epoch_size:
                    return
            if from_start and before == nbatch:
                raise MXNetError("FeedForward.fit: the data yields no batch after a reset, so "
                                 f"epoch_size={self.epoch_size} is never reached")
            logger.info("Epoch[%d] Resetting Data Iterator", epoch)
            train_data.reset()
            from_start = True
            if self.epoch_size is None:
                return

    # -- inference --------------------------------------------------------------------------

    def predict(self, X: Data, num_batch: int | None = None, return_data: bool = False,
                reset: bool = True) -> Predictions:
        """Compute the outputs for all samples, as numpy arrays.

        Parameters
        ----------
        X : DataIter, numpy.ndarray or NDArray
            The data.
        num_batch : int, optional
            Predict at most this many batches; all by default.
        return_data : bool, default False
            Return data and labels, too.
        reset : bool, default True
            Reset an iterator first.

        Returns
        -------
        numpy.ndarray or list, or a tuple of three such
            The outputs: an array, or a list if the network has several. With `return_data`
            outputs, data and labels.
        """
        rows: list[list[Array]] = []
        counts = (0, 0)
        for batch, outputs in self._run(X, num_batch, reset):
            counts = len(outputs), len(batch.data)
            arrays = [*outputs, *batch.data, *(batch.label or ())] if return_data else outputs
            end = batch.data[0].shape[0] - (batch.pad or 0)
            rows.append([array[0:end].asnumpy() for array in arrays])
        if not rows:
            raise MXNetError("FeedForward.predict: the data yields no batch; "
                             f"{why_no_batch(self._init_iter(X, None, False))}")
        joined = [np.concatenate(column) for column in zip(*rows, strict=True)]
        parts = joined[:counts[0]], joined[counts[0]:sum(counts)], joined[sum(counts):]
        results = tuple(part[0] if len(part) == 1 else part for part in parts)
        return results if return_data else results[0]

    def score(self, X: DataIter, eval_metric: MetricLike = "acc", num_batch: int | None = None,
              batch_end_callback: Callback = None, reset: bool = True) -> MetricValue:
        """Compute a metric, including samples that pad the last batch.

        Parameters
        ----------
        X : DataIter
            Data with labels.
        eval_metric : str, EvalMetric, callable or list, default 'acc'
            The metric.
        num_batch : int, optional
            Evaluate on at most this many batches; all by default.
        batch_end_callback : callable or list, optional
            Called after each batch with a `BatchEndParam`.
        reset : bool, default True
            Reset the iterator first.

        Returns
        -------
        float or list of float
            Value of the metric, a list if it consists of several.
        """
        eval_metric = _metric.create(eval_metric)
        eval_metric.reset()
        for nbatch, (batch, outputs) in enumerate(self._run(X, num_batch, reset)):
            eval_metric.update(batch.label, outputs)
            call_all(batch_end_callback, BatchEndParam(0, nbatch, eval_metric, locals()))
        return eval_metric.get()[1]

    def _run(self, X: Data, num_batch: int | None, reset: bool
             ) -> Iterator[tuple[DataBatch, list[NDArray]]]:
        """(batch, outputs) of every batch; labels are ignored."""
        data = self._init_iter(X, None, False)
        if reset:
            data.reset()
        module = self._predictor(data)
        for number, batch in enumerate(data):
            if number == num_batch:
                break
            module.forward(io.DataBatch(batch.data), is_train=False)
            yield batch, module.get_outputs()

    def _predictor(self, data: DataIter) -> Module:
        """The network bound for inference on the first context, with the parameters as they are."""
        self._check_arguments()
        shapes = dict((desc[0], desc[1]) for desc in data.provide_data)
        names, arguments = list(shapes), self.symbol.list_arguments()
        args, aux = self.arg_params or {}, self.aux_params or {}
        labels = [name for name in arguments if name not in names and name not in args
                  and (name in self._label_names or name.endswith("label"))]
        for name in arguments:
            if name not in {*names, *labels, *args}:
                near = did_you_mean(name, args.keys() - set(arguments))
                raise MXNetError(f"FeedForward: arg_params have no {name!r}{near}; call fit, or "
                                 "give it in arg_params")
        if self._pred_exec is None or self._pred_exec.data_names != names:
            inferred = dict(zip(arguments, self.symbol.infer_shape_partial(**shapes)[0],
                                strict=True))
            self._pred_exec = Module(self.symbol, names, labels, context=self.ctx[0])
            self._pred_exec.bind(data.provide_data, [(name, inferred[name]) for name in labels],
                                 for_training=False)
        self._pred_exec.set_params(args, aux, allow_missing=True)
        return self._pred_exec

    # -- files ------------------------------------------------------------------------------

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Save a checkpoint.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, as for `save_checkpoint`.
        epoch : int, optional
            Number of the checkpoint; `num_epoch` by default.
        remove_amp_cast : bool, default True
            Omit casts that mixed precision inserted from the saved symbol.
        """
        epoch = self.num_epoch if epoch is None else epoch
        if epoch is None:
            raise CheckError("FeedForward.save: give the epoch, as num_epoch is not set")
        save_checkpoint(prefix, epoch, self.symbol,
                        self.arg_params, self.aux_params,  # type: ignore[arg-type]  # not None
                        remove_amp_cast)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Contexts = None, **kwargs: Forwarded) -> FeedForward:
        """Create a model from a checkpoint; training continues after that epoch.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, as given to `save`.
        epoch : int
            Number of the checkpoint.
        ctx : Context or list of Context, default cpu()
            Where to compute.
        **kwargs
            Further arguments of the constructor.
        """
        network, arg_params, aux_params = load_checkpoint(prefix, epoch)
        return FeedForward(network, ctx=ctx, arg_params=arg_params, aux_params=aux_params,
                           begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(symbol: SymbolLike, X: Data, y: NDArray | Array | None = None,
               ctx: Contexts = None, num_epoch: int | None = None, epoch_size: int | None = None,
               optimizer: OptimizerLike = "sgd",
               initializer: InitFunction = Uniform(0.01),  # noqa: B008
               eval_data: EvalData = None, eval_metric: MetricLike = "acc",
               epoch_end_callback: Callback = None, batch_end_callback: Callback = None,
               kvstore: KVStoreLike = "local", logger: Logger | None = None,
               work_load_list: Sequence[float] | None = None,
               eval_end_callback: Callback = LogValidationMetricsCallback(),  # noqa: B008
               eval_batch_end_callback: Callback = None, **kwargs: Forwarded) -> FeedForward:
        """Create a model and train it.

        Parameters
        ----------
        symbol, ctx, num_epoch, epoch_size, optimizer, initializer
            As for the constructor.
        X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, logger
            As for `fit`.
        work_load_list, eval_end_callback, eval_batch_end_callback
            As for `fit`.
        **kwargs
            Further arguments of the constructor.
        """
        model = FeedForward(symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs)
        model.fit(X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore,
                  logger, work_load_list, eval_end_callback=eval_end_callback,
                  eval_batch_end_callback=eval_batch_end_callback)
        return model


def _only(params: Params, names: list[str]) -> Params:
    return params and {name: value for name, value in params.items() if name in names}


def _train_values(param: BatchEndParam) -> dict[str, float]:
    """Values of the training metric at the end of an epoch; warns of one that is not finite."""
    values = [*param.eval_metric.get_name_value()]
    warn_not_finite(param, values)
    return numbers(values)
