"""One executor per device, each with its slice of the batch.

The group owns nothing but executors: parameters live in their argument arrays, and
`param_arrays[i][k]` is parameter i on device k.  A batch is cut along the batch axis of each input
(the `N` of its layout) in proportion to the work loads; outputs are joined along theirs.

Input shapes may change from batch to batch.  Executors are kept for the last `KEPT_SHAPES` sets of
shapes and share parameters and arenas, so coming back to a shape costs a dictionary look-up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from .. import ndarray as nd
from ..base import MXNetError
from ..context import Context, cpu
from ..executor_manager import _split_input_slice
from ..io import DataDesc

__all__ = ["DataParallelExecutorGroup"]

KEPT_SHAPES = 16
"""Sets of input shapes whose executors are kept; an image size per batch must not fill memory."""


def _batch_axis(desc: Any) -> int:
    return DataDesc.get_batch_axis(getattr(desc, "layout", None))


def _along(array: Any, axis: int, part: slice) -> Any:
    """`array` cut along `axis`; all of it if the axis is -1 (every device gets everything)."""
    if axis == -1 or (part.start == 0 and part.stop == array.shape[axis]):
        return array
    if axis == 0:
        return array[part]
    return nd.slice_axis(array, axis=axis, begin=part.start, end=part.stop)


def _merge(parts: Sequence[Any], axis: int) -> Any:
    """Arrays of several devices as one, on the first device."""
    if len(parts) == 1 or axis == -1:
        return parts[0]
    here = parts[0].context
    return nd.concat(*[part.as_in_context(here) for part in parts], dim=axis)


class DataParallelExecutorGroup:
    """Executors of one symbol on several contexts.  See the module docstring.

    Attributes that scripts read: `execs`, `param_names`, `param_arrays`, `grad_arrays`,
    `aux_arrays`, `data_arrays`, `label_arrays`, `input_grad_arrays`, `slices`, `batch_size`.
    """

    def __init__(self, symbol: Any, contexts: Sequence[Context], workload: Sequence[float] | None,
                 data_shapes: Sequence[DataDesc], label_shapes: Sequence[DataDesc] | None,
                 param_names: Sequence[str], for_training: bool, inputs_need_grad: bool,
                 shared_group: DataParallelExecutorGroup | None = None, logger: Any = logging,
                 fixed_param_names: Sequence[str] | None = None, grad_req: Any = "write",
                 state_names: Sequence[str] | None = None, group2ctxs: Any = None):
        self.symbol, self.contexts, self.logger = symbol, list(contexts), logger
        self.workload = list(workload) if workload is not None else [1] * len(self.contexts)
        self.arg_names = symbol.list_arguments()
        self.aux_names = symbol.list_auxiliary_states()
        self.output_names = symbol.list_outputs()
        self.param_names = list(param_names)
        self.fixed_param_names = list(fixed_param_names or [])
        self.state_names = list(state_names or [])
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.grad_req = self._requests(grad_req, [desc.name for desc in data_shapes])
        self._cache: dict[Any, Any] = {}
        self.execs: list[Any] = []
        self.batch_size: int | None = None
        self.bind_exec(data_shapes, label_shapes, shared_group)

    def _requests(self, grad_req: Any, data_names: Sequence[str]) -> dict[str, str]:
        """The gradient request of every argument.

        One request is for all parameters that are not fixed (and for data if `inputs_need_grad`),
        a list is for all arguments, a dict changes what would be 'write' or 'null' without it.
        """
        if not self.for_training:
            return dict.fromkeys(self.arg_names, "null")
        if isinstance(grad_req, (list, tuple)):
            return dict(zip(self.arg_names, grad_req, strict=True))
        trained = {*self.param_names, *(data_names if self.inputs_need_grad else ())}
        trained -= set(self.fixed_param_names)
        common, own = ("write", grad_req) if isinstance(grad_req, dict) else (grad_req, {})
        return {name: own.get(name, common if name in trained else "null")
                for name in self.arg_names}

    # -- binding ----------------------------------------------------------------------------

    def decide_slices(self, data_shapes: Sequence[DataDesc]) -> list[int]:
        """Batch axis of every input; sets `batch_size` and `slices` on the way."""
        axes = [_batch_axis(desc) for desc in data_shapes]
        for desc, axis in zip(data_shapes, axes, strict=True):
            if axis == -1:
                continue
            size = desc.shape[axis]
            if self.batch_size not in (None, size):
                raise MXNetError(f"all data must have the same batch size: {self.batch_size}, "
                                 f"but {desc.name} has shape {desc.shape}")
            self.batch_size = size
            self.slices = _split_input_slice(size, self.workload)
        return axes

    def bind_exec(self, data_shapes: Sequence[DataDesc], label_shapes: Sequence[DataDesc] | None,
                  shared_group: DataParallelExecutorGroup | None = None, reshape: bool = False
                  ) -> None:
        """Bind (or reshape) an executor per context for these input shapes.

        Whatever goes wrong, the group stays as it was.
        """
        before = vars(self).copy()
        try:
            self._bind(data_shapes, label_shapes, shared_group, reshape)
        except Exception:
            vars(self).update(before)
            raise

    def _bind(self, data_shapes: Sequence[DataDesc], label_shapes: Sequence[DataDesc] | None,
              shared_group: DataParallelExecutorGroup | None, reshape: bool) -> None:
        key = (tuple(map(tuple, data_shapes)), tuple(map(tuple, label_shapes or ())))
        self.batch_size = None
        self.data_layouts = self.decide_slices(data_shapes)
        self.label_layouts = self.decide_slices(label_shapes) if label_shapes else []
        self.data_shapes, self.label_shapes = list(data_shapes), label_shapes
        self.data_names = [desc.name for desc in data_shapes]
        self.label_names = [desc.name for desc in label_shapes or ()]
        self._require_arguments()
        if key in self._cache:
            self.execs = self._cache.pop(key)
        elif reshape:
            self.execs = [self._reshape_ith_exec(k, data_shapes, label_shapes)
                          for k in range(len(self.contexts))]
        else:
            self.execs = [self._bind_ith_exec(k, data_shapes, label_shapes, shared_group)
                          for k in range(len(self.contexts))]
        self._cache[key] = self.execs
        if len(self._cache) > KEPT_SHAPES:
            del self._cache[next(iter(self._cache))]
        self.output_layouts = [self._output_axis(name) for name in self.output_names]
        self._collect_arrays()

    def _require_arguments(self) -> None:
        """MXNetError unless everything a batch brings is an argument of the symbol."""
        inputs = [name for name in self.arg_names if name not in self.param_names]
        for kind, names in (("data", self.data_names), ("label", self.label_names)):
            for name in names:
                if name not in self.arg_names:
                    raise MXNetError(f"bind: {kind}_shapes describes {name!r}, but the symbol's "
                                     f"inputs are {inputs}")

    def _output_axis(self, name: str) -> int:
        """Batch axis of an output: what its `__layout__` says, else 0."""
        return DataDesc.get_batch_axis(self.symbol[name].attr("__layout__"))

    def _sliced_shape(self, shapes: Sequence[DataDesc], k: int, axes: Sequence[int]
                      ) -> list[DataDesc]:
        """Shapes that device `k` sees."""
        sliced = []
        for desc, axis in zip(shapes, axes, strict=True):
            shape = list(desc.shape)
            if axis >= 0:
                shape[axis] = self.slices[k].stop - self.slices[k].start
            sliced.append(DataDesc(desc.name, tuple(shape), desc.dtype, desc.layout))
        return sliced

    def _input_shapes(self, k: int, data_shapes: Sequence[DataDesc],
                      label_shapes: Sequence[DataDesc] | None) -> dict[str, tuple[int, ...]]:
        descs = self._sliced_shape(data_shapes, k, self.data_layouts)
        descs += self._sliced_shape(label_shapes or [], k, self.label_layouts)
        return {desc.name: desc.shape for desc in descs}

    def _bind_ith_exec(self, k: int, data_shapes: Sequence[DataDesc],
                       label_shapes: Sequence[DataDesc] | None,
                       shared_group: DataParallelExecutorGroup | None) -> Any:
        types = {desc.name: desc.dtype for desc in [*data_shapes, *(label_shapes or [])]}
        shared = shared_group.execs[k] if shared_group is not None else None
        return self.symbol.simple_bind(
            ctx=self.contexts[k], grad_req=self.grad_req, type_dict=types, shared_exec=shared,
            shared_arg_names=self.param_names if shared is not None else None,
            **self._input_shapes(k, data_shapes, label_shapes))

    def _reshape_ith_exec(self, k: int, data_shapes: Sequence[DataDesc],
                          label_shapes: Sequence[DataDesc] | None) -> Any:
        """Labels that a batch does not bring may change their shape, parameters may not."""
        old, shapes = self.execs[k], self._input_shapes(k, data_shapes, label_shapes)
        new = old.reshape(partial_shaping=True, allow_up_sizing=True, **shapes)
        for name in self.param_names:
            bound, wanted = old.arg_dict[name].shape, new.arg_dict[name].shape
            if bound != wanted:
                raise MXNetError(f"inputs of shapes {shapes} would change the parameter {name} "
                                 f"from {bound} to {wanted}")
        return new

    def _collect_arrays(self) -> None:
        """Arrays of all devices side by side, by subject."""
        def across(table: str, names: Sequence[str]) -> list[list[Any]]:
            return [[getattr(e, table)[name] for e in self.execs] for name in names]

        trained = [name for name in self.param_names if name in self.arg_names]
        self.param_arrays = across("arg_dict", trained)
        self.grad_arrays = across("grad_dict", trained) if self.for_training else []
        self.state_arrays = across("arg_dict", self.state_names)
        self.aux_arrays = across("aux_dict", self.aux_names)
        self.input_grad_arrays = (across("grad_dict", self.data_names)
                                  if self.inputs_need_grad else [])
        self.data_arrays = self._targets(self.data_names)
        self.label_arrays = self._targets(self.label_names) if self.label_shapes else None

    def _targets(self, names: Sequence[str]) -> list[list[tuple[slice, Any]]]:
        """Per input, where each device's slice of it goes."""
        return [[(part, executor.arg_dict[name])
                 for part, executor in zip(self.slices, self.execs, strict=True)]
                for name in names]

    def reshape(self, data_shapes: Sequence[DataDesc], label_shapes: Sequence[DataDesc] | None
                ) -> None:
        """Rebind for other input shapes, keeping parameters."""
        if data_shapes != self.data_shapes or label_shapes != self.label_shapes:
            self.bind_exec(data_shapes, label_shapes, reshape=True)

    # -- parameters -------------------------------------------------------------------------

    def set_params(self, arg_params: Any, aux_params: Any, allow_extra: bool = False) -> None:
        """Copy parameters to every device."""
        for executor in self.execs:
            executor.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: dict[str, Any], aux_params: dict[str, Any]) -> None:
        """Write the mean over devices of every parameter into the given arrays."""
        for names, arrays, target in ((self.param_names, self.param_arrays, arg_params),
                                      (self.aux_names, self.aux_arrays, aux_params)):
            for name, copies in zip(names, arrays, strict=True):
                mean = copies[0].copyto(cpu())
                for other in copies[1:]:
                    mean += other.as_in_context(cpu())
                if len(copies) > 1:
                    mean /= len(copies)
                mean.astype(target[name].dtype).copyto(target[name])

    # -- running ----------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Hand out the batch and run every executor forward."""
        self._load(data_batch.data, self.data_arrays, self.data_layouts, self.data_names)
        is_train = self.for_training if is_train is None else is_train
        if self.label_arrays is not None and data_batch.label:
            self._load(data_batch.label, self.label_arrays, self.label_layouts, self.label_names)
        for executor in self.execs:
            executor.forward(is_train=is_train)

    @staticmethod
    def _load(arrays: Sequence[Any], targets: Sequence[Any], axes: Sequence[int],
              names: Sequence[str]) -> None:
        if len(arrays) != len(targets):
            raise MXNetError(f"the batch has {len(arrays)} arrays, expected {len(targets)}: "
                             f"{list(names)}")
        for name, array, parts, axis in zip(names, arrays, targets, axes, strict=True):
            for part, target in parts:
                if not isinstance(array, nd.NDArray):
                    raise TypeError(f"the batch brings {name} as a {type(array).__name__}, "
                                    "expected an NDArray")
                mine = _along(array, axis, part)
                if mine.shape != target.shape:
                    raise MXNetError(f"the batch brings {name} of shape {array.shape}, of which a "
                                     f"device takes {mine.shape}, but was bound to {target.shape}")
                mine.copyto(target)

    def backward(self, out_grads: Any = None) -> None:
        """Run every executor backward, with its slice of the head gradients if there are any."""
        if not self.for_training:
            raise MXNetError("backward: bind with for_training=True to run backward")
        if out_grads is None:
            out_grads = []
        elif not isinstance(out_grads, (list, tuple)):
            out_grads = [out_grads]
        for k, executor in enumerate(self.execs):
            executor.backward([
                _along(grad, axis, self.slices[k]).as_in_context(self.contexts[k])
                for grad, axis in zip(out_grads, self.output_layouts, strict=False)])

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of every output for the whole batch."""
        shapes = []
        for name, out, axis in zip(self.output_names, self.execs[0].outputs, self.output_layouts,
                                   strict=True):
            shape = list(out.shape)
            if axis >= 0 and self.batch_size is not None and shape:
                per_device = self.slices[0].stop - self.slices[0].start
                if shape[axis] % per_device == 0:
                    shape[axis] = shape[axis] // per_device * self.batch_size
            shapes.append((name, tuple(shape)))
        return shapes

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None
                    ) -> list[Any]:
        """Outputs `begin` .. `end`, joined over devices, or as a list per output."""
        outputs = [[e.outputs[i] for e in self.execs]
                   for i in range(begin, len(self.output_names) if end is None else end)]
        return self._merged(outputs, self.output_layouts[begin:end]) if merge_multi_context \
            else outputs

    @staticmethod
    def _merged(arrays: Sequence[Sequence[Any]], axes: Sequence[int]) -> list[Any]:
        return [_merge(parts, axis) for parts, axis in zip(arrays, axes, strict=True)]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the data inputs, joined over devices, or as a list per input."""
        if not self.inputs_need_grad:
            raise MXNetError("get_input_grads: bind with inputs_need_grad=True first")
        return self._merged(self.input_grad_arrays, self.data_layouts) if merge_multi_context \
            else self.input_grad_arrays

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """State inputs, joined over devices, or as a list per state."""
        return self._merged(self.state_arrays, [0] * len(self.state_arrays)) \
            if merge_multi_context else self.state_arrays

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set every state input: from arrays as `get_states` gives them, or all to one value."""
        if (states is None) == (value is None):
            raise MXNetError("set_states: give either states or value")
        for i, copies in enumerate(self.state_arrays):
            for k, array in enumerate(copies):
                if states is None:
                    array[:] = value
                elif isinstance(states[i], (list, tuple)):
                    states[i][k].copyto(array)
                else:
                    _along(states[i], 0, self.slices[k]).copyto(array)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool) -> None:
        """Update the metric device by device; `pre_sliced` labels come as a list per device."""
        for k, executor in enumerate(self.execs):
            mine = labels[k] if pre_sliced else [
                _along(label, axis, self.slices[k])
                for label, axis in zip(labels or (), self.label_layouts, strict=False)]
            named = dict(zip(self.label_names, mine, strict=False))
            eval_metric.update_dict(named, dict(zip(self.output_names, executor.outputs,
                                                    strict=True)))

    def install_monitor(self, mon: Any) -> None:
        """Let `mon` watch every executor."""
        for executor in self.execs:
            mon.install(executor)
