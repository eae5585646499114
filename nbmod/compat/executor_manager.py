"""Executors on several devices, for scripts with a training loop of their own.

`DataParallelExecutorManager` trains a network without a Module: set the parameters, load a batch,
forward, backward, and read `param_arrays` and `grad_arrays`.  It is based on Module's own group of
executors, as is `DataParallelExecutorGroup` here, which has older names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..base import ArgumentError, MXNetError
from ..context import Context
from ..core.config import numpy_first
from ..module import executor_group
from ..module.batch_slices import _split_input_slice

if TYPE_CHECKING:
    from ..callback.monitor import Monitor
    from ..core.log import Logger
    from ..io import DataBatch, DataIter
    from ..metric import EvalMetric
    from ..module.arguments import Labels, Params
    from ..module.batch_slices import Part
    from ..ndarray import NDArray
    from ..symbol import Symbol

__all__ = ["DataParallelExecutorGroup", "DataParallelExecutorManager", "_split_input_slice",
           "_check_arguments", "_load_data", "_load_label"]
__dir__ = __all__.copy

Group: TypeAlias = executor_group.DataParallelExecutorGroup
Targets: TypeAlias = "Sequence[NDArray | Sequence[tuple[Part, NDArray]]]"
"""For each input an array, or one for each device with the samples that it gets."""


def _check_arguments(symbol: Symbol) -> None:
    """ArgumentError if two arguments or two auxiliary states of `symbol` share a name."""
    for names, what in ((symbol.list_arguments(), "argument"),
                        (symbol.list_auxiliary_states(), "auxiliary state")):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ArgumentError(f"Find duplicated {what} name {twice}; give each variable a name "
                                f"of its own (all: {names})")


def _load_general(data: Sequence[NDArray], targets: Targets) -> None:
    """Copy each array into its target: an NDArray, or a list of (slice, NDArray)."""
    for source, target in zip(data, targets, strict=True):
        if isinstance(target, Sequence):
            for part, array in target:
                source[part].copyto(array)
        else:
            source.copyto(target)


def _load_data(batch: DataBatch, targets: Targets) -> None:
    _load_general(batch.data, targets)


def _load_label(batch: DataBatch, targets: Targets) -> None:
    _load_general(batch.label, targets)


class DataParallelExecutorGroup:
    """Executors of one network, one per context, for the batches of one iterator.

    Parameters
    ----------
    sym : Symbol
        The network.
    arg_names : list of str
        All arguments of the network.
    param_names : list of str
        The arguments that are trained; others have no gradient.
    ctx : list of Context
        Where to compute.
    slices : list of slice
        The part of a batch for each context.
    train_data : DataIter
        Its `provide_data` and `provide_label` are bound.
    shared_group : DataParallelExecutorGroup, optional
        A group whose parameters are shared.
    """

    def __init__(self, sym: Symbol, arg_names: Sequence[str], param_names: Sequence[str],
                 ctx: Sequence[Context], slices: Sequence[Part], train_data: DataIter | DataBatch,
                 shared_group: DataParallelExecutorGroup | None = None):
        _check_arguments(sym)
        self._group: Group = executor_group.DataParallelExecutorGroup(
            sym, ctx, [part.stop - part.start for part in slices], train_data.provide_data,
            train_data.provide_label, [name for name in arg_names if name in param_names],
            for_training=True, inputs_need_grad=False,
            shared_group=None if shared_group is None else shared_group._group)
        group = self._group
        self.slices, self.train_execs = group.slices, group.execs
        self.param_names, self.aux_names = group.param_names, group.aux_names
        self.data_names, self.label_names = group.data_names, group.label_names
        self.param_idx = [i for i, name in enumerate(arg_names) if name in param_names]
        self.param_arrays, self.grad_arrays = group.param_arrays, group.grad_arrays
        self.aux_arrays = group.aux_arrays
        self.data_arrays, self.label_arrays = group.data_arrays, group.label_arrays

    def load_data_batch(self, data_batch: DataBatch) -> None:
        """Copy a batch into the executors.

        Parameters
        ----------
        data_batch : DataBatch
            The batch.
        """
        self._group.load(data_batch)

    def forward(self, is_train: bool = False) -> None:
        """Compute the outputs of the batch that was loaded last.

        Parameters
        ----------
        is_train : bool, default False
            Whether ops work as in training.
        """
        with numpy_first(False):    # all executors compute a batch in one form
            for executor in self.train_execs:
                executor.forward(is_train=is_train)

    def backward(self) -> None:
        """Compute the gradients."""
        self._group.backward()

    def update_metric(self, metric: EvalMetric, labels: Labels, pre_sliced: bool = False) -> None:
        """Update a metric by the outputs of the last `forward`.

        Parameters
        ----------
        metric : EvalMetric
            The metric.
        labels : list of NDArray
            Labels of the batch.
        pre_sliced : bool, default False
            Whether `labels` is a list with such a list for each context.
        """
        self._group.update_metric(metric, labels, pre_sliced)


class DataParallelExecutorManager:
    """A network on several contexts, or several networks by `bucket_key` of the batch.

    Parameters
    ----------
    symbol : Symbol
        The network.
    ctx : list of Context
        Where to compute.
    train_data : DataIter
        Iterator whose batches are computed.
    arg_names, param_names, aux_names : list of str
        All arguments, those that are trained, and the auxiliary states of the network.
    work_load_list : list of float, optional
        Relative share of each batch that each context computes; equal by default.
    logger : logging.Logger, optional
        Where the start is logged; the root logger by default.
    sym_gen : callable, optional
        Function of a bucket key that returns a network.
    """

    def __init__(self, symbol: Symbol, ctx: Sequence[Context], train_data: DataIter,
                 arg_names: Sequence[str], param_names: Sequence[str], aux_names: Sequence[str],
                 work_load_list: Sequence[float] | None = None, logger: Logger | None = None,
                 sym_gen: Callable[[Hashable], Symbol] | None = None):
        (logger or logging).info("Start training with %s", str(list(ctx)))
        loads = [1] * len(ctx) if work_load_list is None else work_load_list
        if len(loads) != len(ctx):
            raise MXNetError(f"{len(loads)} work loads for {len(ctx)} contexts")
        self.slices = _split_input_slice(train_data.batch_size, loads)
        self.symbol, self.ctx, self.sym_gen = symbol, ctx, sym_gen
        self.arg_names, self.param_names, self.aux_names = arg_names, param_names, aux_names
        self.execgrp = DataParallelExecutorGroup(symbol, arg_names, param_names, ctx, self.slices,
                                                 train_data)
        self.execgrp_bucket = {getattr(train_data, "default_bucket_key", None): self.execgrp}
        self.curr_execgrp: DataParallelExecutorGroup = self.execgrp

    def install_monitor(self, monitor: Monitor) -> None:
        """Observe the executors; not with `sym_gen`.

        Parameters
        ----------
        monitor : Monitor
            The monitor.
        """
        if self.sym_gen is not None:
            raise MXNetError("install_monitor: buckets are not watched; use mx.mod.BucketingModule")
        self.execgrp._group.install_monitor(monitor)

    def set_params(self, arg_params: Params, aux_params: Params) -> None:
        """Copy parameters to every device.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
            Parameters and auxiliary states by name.
        """
        self.execgrp._group.set_params(arg_params, aux_params)

    def copy_to(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Copy the mean over devices of every parameter.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
            Arrays to copy into, by name.
        """
        self.execgrp._group.get_params(arg_params, aux_params)

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """Parameters, each as a list over devices."""
        return self.execgrp.param_arrays

    @property
    def grad_arrays(self) -> list[list[NDArray]]:
        """Their gradients, each as a list over devices."""
        return self.execgrp.grad_arrays

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """Auxiliary states, each as a list over devices."""
        return self.execgrp.aux_arrays

    def load_data_batch(self, data_batch: DataBatch) -> None:
        """Copy a batch into the executors, those of its bucket if there are buckets.

        Parameters
        ----------
        data_batch : DataBatch
            The batch.
        """
        if self.sym_gen is not None:
            key = data_batch.bucket_key
            if key not in self.execgrp_bucket:
                symbol = self.sym_gen(key)
                self.execgrp_bucket[key] = DataParallelExecutorGroup(
                    symbol, symbol.list_arguments(), self.param_names, self.ctx, self.slices,
                    data_batch, self.execgrp)
            self.curr_execgrp = self.execgrp_bucket[key]
        self.curr_execgrp.load_data_batch(data_batch)

    def forward(self, is_train: bool = False) -> None:
        """Compute the outputs of the batch that was loaded last.

        Parameters
        ----------
        is_train : bool, default False
            Whether ops work as in training.
        """
        self.curr_execgrp.forward(is_train)

    def backward(self) -> None:
        """Compute the gradients."""
        self.curr_execgrp.backward()

    def update_metric(self, metric: EvalMetric, labels: Labels, pre_sliced: bool = False) -> None:
        """Update a metric by the outputs of the last `forward`.

        Parameters
        ----------
        metric, labels, pre_sliced
            As for `DataParallelExecutorGroup.update_metric`.
        """
        self.curr_execgrp.update_metric(metric, labels, pre_sliced)
