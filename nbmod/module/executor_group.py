"""One executor per device, each with its slice of the batch.

The group owns only executors: parameters are stored in their argument arrays, and
`param_arrays[i][k]` is parameter i on device k.  A batch is split along the batch axis of each
input (the `N` of its layout) in proportion to the work loads; outputs are joined along theirs.  A
batch may also be a list with one batch per device, whose shapes may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

import numpy as np

from .. import ndarray as nd
from ..base import CheckError, MXNetError, _as_list, wrong_type
from ..callback.monitor import Monitor
from ..context import cpu
from ..core.config import is_numpy_first, numpy_first
from ..io import DataBatch, DataDesc, DataIter
from ..kvstore import takes_lists
from ..metric import EvalMetric
from ..ndarray import NDArray
from ..ndarray.sparse_array import share_rows
from .arguments import Batch, Grads, Labels, Outputs, Params, StateValues
from .batch_slices import Part, _merged, converted, told_apart
from .bound_executors import BoundExecutors

if TYPE_CHECKING:
    from ..base import Array
    from ..kvstore import KVStoreBase

__all__ = ["DataParallelExecutorGroup"]


class DataParallelExecutorGroup(BoundExecutors):
    """Executors of one symbol on several contexts; `Module` creates one when it is bound.

    Attributes that scripts read: `execs`, `param_names`, `param_arrays`, `grad_arrays`,
    `aux_arrays`, `data_arrays`, `label_arrays`, `shared_data_arrays` (of each device, by name),
    `input_grad_arrays`, `slices`, `batch_size`.
    """

    # -- parameters -------------------------------------------------------------------------

    def set_params(self, arg_params: Params, aux_params: Params, allow_extra: bool = False) -> None:
        """Copy parameters to every device.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
            Parameters and auxiliary states by name.
        allow_extra : bool, default False
            Whether unknown names are ignored.
        """
        for executor in self.execs:
            executor.copy_params_from(arg_params or {}, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Copy the mean over devices of every parameter.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
            Arrays to copy into, by name.
        """
        for names, arrays, target in ((self.param_names, self.param_arrays, arg_params),
                                      (self.aux_names, self.aux_arrays, aux_params)):
            for name, copies in zip(names, arrays, strict=True):
                _average(copies, target[name])

    # -- running ----------------------------------------------------------------------------

    def fits(self, data_batch: Batch) -> bool:
        """Whether the executors are bound to the shapes of a batch.

        Parameters
        ----------
        data_batch : DataBatch or list of DataBatch
            A batch, or one for each device.
        """
        if not isinstance(data_batch, list):
            shapes = _shapes_of(_arrays_of(data_batch))
            return self.takes_whole and shapes == _shapes_of(self.data_shapes)
        self._require_one_each(data_batch)
        return [_shapes_of(_arrays_of(part)) for part in data_batch] == [
            _shapes_of(executor.arg_dict[name] for name in self.data_names)
            for executor in self.execs]

    def forward(self, data_batch: Batch, is_train: bool | None = None) -> None:
        """Load a batch and compute the outputs.

        Parameters
        ----------
        data_batch, is_train
            As for `Module.forward`.
        """
        self.load(data_batch)
        is_train = self.for_training if is_train is None else is_train
        # No batch is computed partly in another form.
        whole = len(self.execs) > 1 and (not is_train or is_numpy_first())
        with numpy_first(False) if whole else nullcontext():
            for executor in self.execs:
                executor.forward(is_train=is_train)

    def load(self, data_batch: Batch) -> None:
        """Pass a batch to the executors.

        Parameters
        ----------
        data_batch : DataBatch or list of DataBatch
            A batch, or one for each device.
        """
        for executor, part in zip(self.execs, self._parts(data_batch), strict=True):
            for name, array in part.items():
                target = executor.arg_dict[name]
                if array.shape != target.shape:
                    raise MXNetError(f"the batch brings {name} of shape {array.shape} to "
                                     f"{target.context}, but was bound to {target.shape}")
                array.copyto(target)

    def _parts(self, data_batch: Batch) -> list[dict[str, NDArray]]:
        """Every device's arrays by name: slices of a batch, or those of its own batch."""
        if isinstance(data_batch, list):
            self._require_one_each(data_batch)
            return [_named_arrays(part, self.data_names, self.label_names) for part in data_batch]
        whole = _named_arrays(data_batch, self.data_names, self.label_names)
        axes = dict(zip([*self.data_names, *self.label_names],
                        [*self.data_layouts, *self.label_layouts], strict=True))
        return [{name: cut(array, axes[name], part) for name, array in whole.items()}
                for part in self.slices]

    def _require_one_each(self, parts: Sequence[object]) -> None:
        if len(parts) != len(self.contexts):
            raise MXNetError(f"a list of {len(parts)} was given, but the module runs on "
                             f"{len(self.contexts)} device(s): give one for each")

    def backward(self, out_grads: Grads = None) -> None:
        """Compute the gradients.

        Parameters
        ----------
        out_grads : NDArray or list of NDArray, optional
            As for `Module.backward`, for a whole batch; they are split between the devices.
        """
        if not self.for_training:
            raise CheckError("backward: bind with for_training=True to run backward")
        grads = None if out_grads is None else _as_list(out_grads)
        for grad in grads or ():
            if not isinstance(grad, NDArray):
                raise wrong_type("backward: one of out_grads", grad, "an NDArray")
        for k, executor in enumerate(self.execs):
            executor.backward(grads and [
                cut(grad, axis, self.slices[k]).as_in_context(self.contexts[k])
                for grad, axis in zip(grads, self.output_layouts, strict=False)])

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Get pairs of name and shape of the outputs, for a whole batch."""
        shapes = []
        for i, (name, axis) in enumerate(zip(self.output_names, self.output_layouts, strict=True)):
            shape = list(self.execs[0].outputs[i].shape)
            if axis >= 0 and shape:
                shape[axis] = sum(executor.outputs[i].shape[axis] for executor in self.execs)
            shapes.append((name, tuple(shape)))
        return shapes

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None,
                    outputs: Sequence[Sequence[NDArray]] | None = None) -> Outputs:
        """Get the outputs of the last `forward`, one item for each.

        Parameters
        ----------
        merge_multi_context : bool, default True
            As for `Module.get_outputs`.
        begin : int, default 0
            Index of the first output.
        end : int, optional
            Index after the last output; all by default.
        outputs : list of list of NDArray, optional
            The outputs of each device, if they are not those of the executors.
        """
        devices = [e.outputs for e in self.execs] if outputs is None else outputs
        parts = [[device[i] for device in devices]
                 for i in range(begin, len(self.output_names) if end is None else end)]
        return _merged(parts, self.output_layouts[begin:end], merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Outputs:
        """Get the gradients of the data inputs, one item for each.

        Parameters
        ----------
        merge_multi_context : bool, default True
            As for `Module.get_outputs`.
        """
        if not self.inputs_need_grad:
            raise CheckError("get_input_grads: bind with inputs_need_grad=True first")
        return _merged(self.input_grad_arrays, self.data_layouts, merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> Outputs:
        """Get the state inputs, one item for each.

        Parameters
        ----------
        merge_multi_context : bool, default True
            As for `Module.get_outputs`.
        """
        return _merged(self.state_arrays, [0] * len(self.state_arrays), merge_multi_context)

    def set_states(self, states: StateValues | None = None, value: float | None = None) -> None:
        """Set the state inputs.

        Parameters
        ----------
        states, value
            As for `Module.set_states`.
        """
        if (states is None) == (value is None):
            raise CheckError("set_states: give either states or value")
        for i, copies in enumerate(self.state_arrays):
            for k, array in enumerate(copies):
                if states is None:
                    array[:] = value
                elif isinstance(states[i], (list, tuple)):
                    states[i][k].copyto(array)
                else:
                    cut(states[i], 0,  # type: ignore[arg-type]  # not a list
                        self.slices[k]).copyto(array)

    def update_metric(self, eval_metric: EvalMetric, labels: Labels, pre_sliced: bool) -> None:
        """Update a metric by the outputs of the last `forward`, device by device.

        Parameters
        ----------
        eval_metric, labels, pre_sliced
            As for `Module.update_metric`.
        """
        arrays = cast("Outputs", labels)     # `pre_sliced` says which
        if pre_sliced:
            self._require_one_each(arrays)
        for k, executor in enumerate(self.execs):
            mine = arrays[k] if pre_sliced else [
                cut(label, axis, self.slices[k])
                for label, axis in zip(arrays or (), self.label_layouts, strict=False)]
            named = dict(zip(self.label_names, mine, strict=False))
            names = self.output_names
            if len({*names}) < len(names):
                names = told_apart(names, len(named))
            eval_metric.update_dict(named, dict(zip(names, executor.outputs, strict=True)))

    def install_monitor(self, mon: Monitor) -> None:
        """Observe every executor, and those that replace them for other shapes.

        Parameters
        ----------
        mon : Monitor
            The monitor.
        """
        if not hasattr(mon, "install"):
            raise wrong_type("install_monitor: mon", mon, "an mx.mon.Monitor")
        if hasattr(mon, "follow"):
            self._monitors.append(mon)
        for executor in self.execs:
            mon.install(executor)


def _arrays_of(batch: object) -> list[NDArray]:
    """The data arrays of a batch; TypeError for an object without any."""
    data = getattr(batch, "data", None)
    if not isinstance(data, (list, tuple)) or isinstance(batch, DataIter):
        raise TypeError(f"a batch is a {type(batch).__name__}, expected a DataBatch, or anything "
                        "whose `data` is a list of NDArrays")
    for array in data:
        if not hasattr(array, "shape"):
            raise TypeError(f"the data of a batch are a list of {type(array).__name__}, expected "
                            "a list of NDArrays")
    return list(data)


def cut(array: NDArray, axis: int, part: Part) -> NDArray:
    """`array` sliced along `axis`; all of it if the axis is -1 (every device gets everything).

    Parameters
    ----------
    array : NDArray
        The array.
    axis : int
        Its batch axis, or -1.
    part : slice
        The samples.
    """
    if axis == -1 or (part.start == 0 and part.stop == array.shape[axis]):
        return array
    if axis == 0:
        return array[part]
    return nd.slice_axis(array, axis=axis, begin=part.start, end=part.stop)


def _shapes_of(items: Iterable[NDArray | DataDesc]) -> list[tuple[int, ...]]:
    """Shapes of arrays or of descriptions."""
    return [tuple(item.shape) for item in items]


def _named_arrays(batch: DataBatch, data_names: Sequence[str], label_names: Sequence[str]
                 ) -> dict[str, NDArray]:
    """A batch's arrays by name; labels may be missing, and are omitted if no names are given."""
    named = _by_name(_arrays_of(batch), data_names)
    labels = getattr(batch, "label", None)
    return named | _by_name(labels, label_names) if labels and label_names else named


def _by_name(arrays: Sequence[NDArray | Array], names: Sequence[str]) -> dict[str, NDArray]:
    if len(arrays) != len(names):
        raise MXNetError(f"the batch has {len(arrays)} arrays, expected {len(names)}: {names}")
    return {name: array if isinstance(array, NDArray) else converted(name, array)
            for name, array in zip(names, arrays, strict=True)}


def _average(copies: Sequence[NDArray], target: NDArray) -> None:
    """Write the mean of a parameter's copies on the devices to an array on the CPU.

    float16 is summed in float32, so that equal copies are their own mean.
    """
    if len(copies) == 1:
        if not share_rows(copies[0], target):
            copies[0].copyto(target)
        return
    wide = np.promote_types(copies[0].dtype, np.float32)
    first, *others = (copy.as_in_context(cpu()).astype(wide) for copy in copies)
    (sum(others, first) / len(copies)).copyto(target)


def _trained(grad_arrays: Sequence[Sequence[NDArray]]) -> list[int]:
    """Indices of the parameters that have gradients."""
    return [index for index, grads in enumerate(grad_arrays) if grads[0] is not None]


def _update_params(param_arrays: Sequence[Sequence[NDArray]],
                   grad_arrays: Sequence[Sequence[NDArray]],
                   updater: Callable[[list[int], list[NDArray], list[NDArray]], None],
                   num_device: int, kvstore: KVStoreBase | None = None,
                   param_names: Sequence[str] | None = None) -> None:
    """Update on every device by itself, after summing gradients through a store, if any."""
    trained = _trained(grad_arrays)
    keys = [param_names[index] if param_names else index for index in trained]
    if kvstore is not None and takes_lists(kvstore) and trained:
        kvstore.pushpull(keys, [grad_arrays[index] for index in trained])
    elif kvstore is not None:
        for key, index in zip(keys, trained, strict=True):
            kvstore.pushpull(key, grad_arrays[index], priority=-index)
    for device in range(num_device if trained else 0):
        updater([index * num_device + device for index in trained],
                [grad_arrays[index][device] for index in trained],
                [param_arrays[index][device] for index in trained])
