"""Executors bound to the shapes of batches, one per device.

Input shapes may change from batch to batch.  Every device keeps its executors for the last
`KEPT_SHAPES` sets of shapes; they share parameters and an arena, so returning to a shape costs a
dictionary look-up.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..base import CheckError, MXNetError, NoSuchKey
from ..callback.monitor import Monitor
from ..context import Context
from ..executor import Executor
from ..io import DataDesc
from ..ndarray import NDArray
from ..symbol import Symbol
from .arguments import Batch, Descs, GradReq
from .batch_shapes import (
    as_descs,
    batch_axis,
    described,
    enclosing,
    explaining_parts,
    samples_in,
    with_samples,
)
from .batch_slices import Part, _split_input_slice

if TYPE_CHECKING:
    from ..core.log import Logger

__all__ = ["BoundExecutors"]

KEPT_SHAPES = 16
"""Sets of input shapes whose executors are kept; an image size per batch must not fill memory."""


class BoundExecutors:
    """Executors of one symbol on several contexts, and their arrays.

    Parameters
    ----------
    symbol : Symbol
        The network.
    contexts : list of Context
        Where to compute.
    workload : list of float or None
        Relative share of each batch that each context computes; equal for None.
    data_shapes, label_shapes : list of DataDesc
        Descriptions of the inputs, for a whole batch.
    param_names : list of str
        Arguments that are parameters.
    for_training : bool
        Whether gradients are to be computed.
    inputs_need_grad : bool
        Whether gradients of the data inputs are to be computed, too.
    shared_group : BoundExecutors, optional
        A group whose parameters and memory are shared.
    logger : logging.Logger, optional
        Where warnings are logged; the root logger by default.
    fixed_param_names : list of str, optional
        Parameters without gradient.
    grad_req : {'write', 'add', 'null'}, list or dict, default 'write'
        How gradients are stored: for all parameters, for all arguments in their order, or by name.
    state_names : list of str, optional
        Inputs that keep their values between batches.
    group2ctxs : list of dict, optional
        For each context a dict of context by ``ctx_group``.
    """

    def __init__(self, symbol: Symbol, contexts: Sequence[Context],
                 workload: Sequence[float] | None, data_shapes: Sequence[DataDesc],
                 label_shapes: Sequence[DataDesc] | None, param_names: Sequence[str],
                 for_training: bool, inputs_need_grad: bool,
                 shared_group: BoundExecutors | None = None, logger: Logger = logging,
                 fixed_param_names: Sequence[str] | None = None, grad_req: GradReq = "write",
                 state_names: Sequence[str] | None = None,
                 group2ctxs: Sequence[Mapping[str, Context] | None] | None = None):
        self.symbol, self.contexts, self.logger = symbol, list(contexts), logger
        self.workload = list(workload) if workload is not None else [1] * len(self.contexts)
        self.arg_names = symbol.list_arguments()
        self.aux_names = symbol.list_auxiliary_states()
        self.output_names = symbol.list_outputs()
        self.param_names = list(param_names)
        self.fixed_param_names = list(fixed_param_names or [])
        self.state_names = list(state_names or [])
        self.group2ctxs = list(group2ctxs or [None] * len(self.contexts))
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        data_shapes = as_descs(data_shapes)
        self.grad_req = self._requests(grad_req, [desc.name for desc in data_shapes])
        self.output_layouts = [DataDesc.get_batch_axis(output.attr("__layout__"))
                               for output in symbol]
        self._kept: list[dict[tuple[Descs, Descs], Executor]] = [{} for _ in self.contexts]
        self._monitors: list[Monitor] = []
        self._total_exec_bytes = 0
        self.execs: list[Executor] = []
        self.batch_size: int | None = None
        self.bind_exec(data_shapes, label_shapes, shared_group)

    def _requests(self, grad_req: GradReq, data_names: Sequence[str]) -> dict[str, str]:
        """The gradient request of every argument.

        One request is for all parameters that are not fixed (and for data if `inputs_need_grad`),
        a list for all arguments; a dict overrides single requests, by default 'write' or 'null'.
        """
        if not self.for_training:
            return dict.fromkeys(self.arg_names, "null")
        if isinstance(grad_req, (list, tuple)):
            if len(grad_req) != len(self.arg_names):
                raise CheckError(f"bind: grad_req lists {len(grad_req)} requests, expected one for "
                                 f"each of {self.arg_names}")
            return dict(zip(self.arg_names, grad_req, strict=True))
        trained = {*self.param_names, *(data_names if self.inputs_need_grad else ())}
        trained -= set(self.fixed_param_names)
        common, own = ("write", grad_req) if isinstance(grad_req, dict) else (grad_req, {})
        return {name: own.get(name, common if name in trained else "null")
                for name in self.arg_names}

    # -- binding ----------------------------------------------------------------------------

    def decide_slices(self, data_shapes: Descs) -> list[int]:
        """Return the batch axis of every input, -1 for none; sets `batch_size` and `slices`, too.

        Parameters
        ----------
        data_shapes : list of DataDesc
            Descriptions of inputs.
        """
        axes = [batch_axis(desc) for desc in data_shapes]
        for desc, axis in zip(data_shapes, axes, strict=True):
            if axis == -1:
                continue
            size = desc.shape[axis]
            if self.batch_size not in (None, size):
                raise CheckError(f"all data must have the same batch size: {self.batch_size}, "
                                 f"but {desc.name} has shape {desc.shape}")
            self.batch_size = size
            self.slices = _split_input_slice(size, self.workload)
        return axes

    def bind_exec(self, data_shapes: Descs, label_shapes: Descs | None,
                  shared_group: BoundExecutors | None = None, reshape: bool = False
                  ) -> None:
        """Bind (or reshape) an executor per context for batches of given shapes.

        If that fails, the group is unchanged.

        Parameters
        ----------
        data_shapes, label_shapes : list of DataDesc
            Descriptions of the inputs, for a whole batch.
        shared_group : BoundExecutors, optional
            A group whose parameters and memory are shared.
        reshape : bool, default False
            Reshape the present executors instead of creating new ones.
        """
        data_shapes, label_shapes = as_descs(data_shapes), as_descs(label_shapes)
        with self._restored_on_error():
            for kind, descs in (("data", data_shapes), ("label", label_shapes)):
                for desc in descs:
                    if desc.name not in self.arg_names:
                        inputs = [one for one in self.arg_names if one not in self.param_names]
                        labels = [one for one in self.arg_names if one.endswith("label")]
                        hint = (f"; its label is another: Module(..., label_names={labels})"
                                if kind == "label" and labels else "")
                        raise NoSuchKey(f"bind: {kind}_shapes describes {desc.name!r}, but the "
                                        f"symbol's inputs are {inputs}{hint}")
            self.batch_size, self.takes_whole = None, True
            self.data_layouts = self.decide_slices(data_shapes)
            self.label_layouts = self.decide_slices(label_shapes)
            self.data_shapes, self.label_shapes = data_shapes, label_shapes or None
            counts = [part.stop - part.start for part in self.slices]
            self._bind_each([(with_samples(data_shapes, count),
                              with_samples(label_shapes, count)) for count in counts],
                            shared_group, reshape)

    def reshape(self, data_shapes: Descs, label_shapes: Descs | None) -> None:
        """Bind to other input shapes; parameters are kept.

        Parameters
        ----------
        data_shapes, label_shapes : list of DataDesc
            Descriptions of the inputs, for a whole batch.
        """
        same = [data_shapes, label_shapes] == [self.data_shapes, self.label_shapes]
        if not (same and self.takes_whole):
            self.bind_exec(data_shapes, label_shapes, reshape=True)

    def reshape_for(self, batch: Batch) -> None:
        """Change the input shapes to those of a batch.

        Parameters
        ----------
        batch : DataBatch or list of DataBatch
            A batch, or one for each device.
        """
        if isinstance(batch, list):
            self.reshape_each([described(part, self.data_shapes, self.label_shapes)
                               for part in batch])
        else:
            data, labels = described(batch, self.data_shapes, self.label_shapes)
            self.reshape(as_descs(getattr(batch, "provide_data", None)) or data,
                         as_descs(getattr(batch, "provide_label", None)) or labels)

    def reshape_each(self, parts: Sequence[tuple[Descs, Descs | None]]) -> None:
        """Bind each device to the shapes of its own batch.

        Afterwards `data_shapes` describes the smallest batch that contains them all.

        Parameters
        ----------
        parts : list of pairs
            Descriptions of data and labels for each device.
        """
        with self._restored_on_error():
            self.takes_whole = False
            data, labels = zip(*parts, strict=True)
            self.data_shapes = [enclosing(descs) for descs in zip(*data, strict=True)]
            self.label_shapes = ([enclosing(descs) for descs in zip(*labels, strict=True)]
                                 if labels[0] else None)
            sizes = [samples_in(descs) for descs in data]
            self.batch_size = sum(sizes)
            self.slices = [slice(sum(sizes[:k]), sum(sizes[:k + 1])) for k in range(len(sizes))]
            self._bind_each(parts, None, True)

    @contextmanager
    def _restored_on_error(self) -> Iterator[None]:
        before = vars(self).copy()
        try:
            yield
        except Exception:
            vars(self).update(before)
            raise

    def _bind_each(self, parts: Sequence[tuple[Descs, Descs | None]],
                   shared_group: BoundExecutors | None, reshape: bool) -> None:
        """Create, or reuse, every device's executor for its shapes."""
        before, execs = self.execs, []
        for k, (data, labels) in enumerate(parts):
            executors, key = self._kept[k], (tuple(data), tuple(labels or ()))
            executor = executors.pop(key, None)
            if executor is None:
                with explaining_parts(len(self.contexts), self.batch_size, data):
                    executor = (self._reshape_ith_exec(k, data, labels) if reshape
                             else self._bind_ith_exec(k, data, labels, shared_group))
            executors[key] = executor
            if len(executors) > KEPT_SHAPES:
                del executors[next(iter(executors))]
            execs.append(executor)
        self.execs = execs
        for old, new in zip(before, execs, strict=False):
            for mon in self._monitors:
                mon.follow(old, new)
        self._collect_arrays()

    def _bind_ith_exec(self, i: int, data_shapes: Descs, label_shapes: Descs | None,
                       shared_group: BoundExecutors | None) -> Executor:
        descs = [*data_shapes, *(label_shapes or ())]
        shared = shared_group.execs[i] if shared_group is not None else None
        return self.symbol.simple_bind(
            ctx=self.contexts[i], grad_req=self.grad_req,
            type_dict={desc.name: desc.dtype for desc in descs}, shared_exec=shared,
            shared_arg_names=self.param_names if shared is not None else None,
            group2ctx=self.group2ctxs[i],
            **{desc.name: desc.shape for desc in descs})

    def _reshape_ith_exec(self, i: int, data_shapes: Descs, label_shapes: Descs | None
                          ) -> Executor:
        """Labels that a batch lacks may change their shape, parameters may not."""
        old = self.execs[i]
        shapes = {desc.name: desc.shape for desc in [*data_shapes, *(label_shapes or ())]}
        new = old.reshape(True, True, **shapes)
        for name in self.param_names:
            bound, reshaped = old.arg_dict[name].shape, new.arg_dict[name].shape
            if bound != reshaped:
                raise MXNetError(f"inputs of shapes {shapes} would change the parameter {name} "
                                 f"from {bound} to {reshaped}")
        return new

    def _collect_arrays(self) -> None:
        """Arrays of all devices, by parameter, input or output."""
        def across(table: str, names: Sequence[str]) -> list[list[NDArray]]:
            return [[getattr(e, table)[name] for e in self.execs] for name in names]

        self.data_names = [desc.name for desc in self.data_shapes]
        self.label_names = [desc.name for desc in self.label_shapes or ()]
        trained = [name for name in self.param_names if name in self.arg_names]
        self.param_arrays = across("arg_dict", trained)
        self.grad_arrays = across("grad_dict", trained) if self.for_training else []
        self.state_arrays = across("arg_dict", self.state_names)
        self.shared_data_arrays = [{name: array for name, array in each.arg_dict.items()
                                    if name not in self.param_names} for each in self.execs]
        self.aux_arrays = across("aux_dict", self.aux_names)
        self.input_grad_arrays = (across("grad_dict", self.data_names)
                                  if self.inputs_need_grad else [])
        self.data_arrays = self._targets(self.data_names)
        self.label_arrays = self._targets(self.label_names) if self.label_shapes else None

    @property
    def arrays_by_param(self) -> dict[str, list[NDArray]]:
        """The arrays of all devices by the name of the parameter."""
        return dict(zip(self.param_names, self.param_arrays, strict=True))

    def _targets(self, names: Sequence[str]) -> list[list[tuple[Part, NDArray]]]:
        """Per input, the array on each device that receives its slice."""
        return [[(part, executor.arg_dict[name])
                 for part, executor in zip(self.slices, self.execs, strict=True)]
                for name in names]
