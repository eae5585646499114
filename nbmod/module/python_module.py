"""`PythonModule`: a step of a network written in Python, with no parameters of its own.

A subclass defines the shapes of its outputs (`_compute_output_shapes`), `forward` and `backward`;
the rest of a module's interface is defined here.  `PythonLossModule` is used at the end of a
`SequentialModule`: its outputs are its inputs, and a function of scores and labels computes the
gradient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .. import ndarray as nd
from ..base import ArgumentError, CheckError, MXNetError
from ..callback.monitor import Monitor
from ..initializer import Uniform
from ..io import DataBatch, DataDesc
from ..metric import EvalMetric
from ..ndarray import NDArray
from .arguments import (
    GradReq,
    Grads,
    InitFunction,
    KVStoreLike,
    Labels,
    OptimizerLike,
    OptimizerParams,
    Outputs,
    Params,
    Shapes,
)
from .base_module import BaseModule
from .batch_shapes import as_descs

if TYPE_CHECKING:
    from ..core.log import Logger
    from .module_interface import ModuleInterface

__all__ = ["PythonModule", "PythonLossModule"]


class PythonModule(BaseModule):
    """Base of modules without parameters that are written in Python.

    A subclass defines `_compute_output_shapes`, `forward`, `backward`, `get_outputs` and
    `get_input_grads`.

    Parameters
    ----------
    data_names : list of str
        Names of the data inputs.
    label_names : list of str or None
        Names of the label inputs; None for a module without labels.
    output_names : list of str
        Names of the outputs.
    logger : logging.Logger, optional
        Where warnings are logged; the root logger by default.
    """

    def __init__(self, data_names: Sequence[str], label_names: Sequence[str] | None,
                 output_names: Sequence[str], logger: Logger = logging):
        super().__init__(logger=logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = list(output_names)
        self._data_shapes: list[DataDesc] | None = None
        self._label_shapes: list[DataDesc] | None = None
        self._output_shapes: list[tuple[str, tuple[int, ...]]] | None = None

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc] | None:  # type: ignore[override]  # None before bind
        """Descriptions of the data, None before bind."""
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the labels, None before bind and without labels."""
        return self._label_shapes

    @property
    def output_shapes(self  # type: ignore[override]  # None before bind
                      ) -> list[tuple[str, tuple[int, ...]]] | None:
        """Pairs of name and shape of the outputs, None before bind."""
        return self._output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return two empty dicts: there are no parameters."""
        return {}, {}

    def init_params(self, initializer: InitFunction = Uniform(0.01),  # noqa: B008
                    arg_params: Params = None, aux_params: Params = None,
                    allow_missing: bool = False, force_init: bool = False,
                    allow_extra: bool = False) -> None:
        """Do nothing, as there are no parameters; arguments have no effect."""
        self.params_initialized = True

    def init_optimizer(self, kvstore: KVStoreLike = "local", optimizer: OptimizerLike = "sgd",
                       optimizer_params: OptimizerParams = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """Do nothing, as there are no parameters; arguments have no effect."""
        self.optimizer_initialized = True

    def update(self) -> None:
        """Do nothing, as there are no parameters."""

    def update_metric(self, eval_metric: EvalMetric, labels: Labels, pre_sliced: bool = False
                      ) -> None:
        """Update a metric by the outputs and the labels of the whole batch, if there are any."""
        if pre_sliced:
            raise MXNetError(f"{type(self).__name__}: PythonModule does not support presliced "
                             "labels; give the labels of the whole batch")
        if self._label_shapes is not None:
            eval_metric.update(labels, self.get_outputs())

    def install_monitor(self, mon: Monitor) -> None:
        """Do nothing, as there are no executors to observe."""

    def bind(self, data_shapes: Shapes, label_shapes: Shapes = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False,
             shared_module: ModuleInterface | None = None, grad_req: GradReq = "write",
             tune: bool = False) -> None:
        """Store the shapes of inputs and compute those of outputs. It may be called again.

        `grad_req` must be 'write'; `force_rebind`, `shared_module` and `tune` have no effect.
        """
        if grad_req != "write":
            raise MXNetError(f"{type(self).__name__}: grad_req is {grad_req!r}, but Python modules "
                             "only write gradients; leave it 'write'")
        self._data_shapes = self._described("data", data_shapes, self._data_names)
        self._label_shapes = None if label_shapes is None else self._described(
            "label", label_shapes, self._label_names or [])
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _described(self, kind: str, shapes: Shapes, names: list[str]) -> list[DataDesc]:
        descs = as_descs(shapes)
        if [desc.name for desc in descs] != names:
            raise ArgumentError(f"{type(self).__name__}: {kind}_shapes describes {descs}, expected "
                                f"{kind}_names {names} in this order")
        return descs

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of every output for the bound inputs; defined by subclasses."""
        raise self._abstract("_compute_output_shapes")


class PythonLossModule(PythonModule):
    """A loss whose gradient is a Python function. Its output is its input.

    A subclass may override `_backward_impl`, which sets `_scores_grad` from `_scores` and
    `_labels`, instead of passing `grad_func`.

    Parameters
    ----------
    name : str, default 'pyloss'
        Name of the module; the output is named ``<name>_output``.
    data_names : list of str, default ('data',)
        Name of the input, a list of one.
    label_names : list of str, default ('softmax_label',)
        Name of the labels, a list of one.
    logger : logging.Logger, optional
        Where warnings are logged; the root logger by default.
    grad_func : callable, optional
        Called as ``grad_func(scores, labels)`` with NDArrays; returns the gradient with respect to
        the scores, of their shape, as an NDArray or what `nd.array` takes.

    Examples
    --------
    >>> loss = mx.mod.PythonLossModule(grad_func=lambda scores, labels: scores - labels)
    >>> loss.bind([("data", (2,))], [("softmax_label", (2,))])
    >>> loss.forward(mx.io.DataBatch([mx.nd.array([3, 5])], [mx.nd.array([1, 1])]))
    >>> loss.backward()
    >>> loss.get_input_grads()[0].asnumpy().tolist()
    [2.0, 4.0]
    """

    def __init__(self, name: str = "pyloss", data_names: Sequence[str] = ("data",),
                 label_names: Sequence[str] = ("softmax_label",), logger: Logger = logging,
                 grad_func: Callable[[NDArray, NDArray], object] | None = None):
        super().__init__(data_names, label_names, [f"{name}_output"], logger=logger)
        for kind, names in (("data", self._data_names), ("label", self._label_names or [])):
            if len(names) != 1:
                raise CheckError(f"PythonLossModule {name}: {kind}_names is {names}, expected one "
                                 "name")
        if grad_func is not None and not callable(grad_func):
            raise CheckError(f"PythonLossModule {name}: grad_func is a "
                             f"{type(grad_func).__name__}, expected a function of scores, labels")
        self._name, self._grad_func = name, grad_func
        self._scores: NDArray = None  # type: ignore[assignment]  # until forward
        self._labels: NDArray = None  # type: ignore[assignment]  # until forward in training
        self._scores_grad: NDArray | None = None

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        assert self._data_shapes is not None
        return [(self._output_names[0], self._data_shapes[0].shape)]

    def forward(self, data_batch: DataBatch,  # type: ignore[override]  # not a list
                is_train: bool | None = None) -> None:
        """Store the scores, and in training the labels."""
        self._require("binded")
        self._scores, self._scores_grad = data_batch.data[0], None
        if self.for_training if is_train is None else is_train:
            if not data_batch.label:
                raise MXNetError(f"PythonLossModule {self._name}: the batch has no label; a "
                                 "SequentialModule passes labels on to modules that were added "
                                 "with take_labels=True")
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> Outputs:
        """Get the scores of the last `forward`; there are no devices to merge."""
        self._require_merge("get_outputs", merge_multi_context)
        return [self._scores]

    def backward(self, out_grads: Grads = None) -> None:
        """Compute the gradient with respect to the scores; a loss takes no `out_grads`."""
        self._require("binded")
        if out_grads is not None:
            raise MXNetError(f"PythonLossModule {self._name}: a loss takes no out_grads; add "
                             "nothing after it")
        if not self.for_training:
            raise MXNetError(f"PythonLossModule {self._name}: bind with for_training=True to run "
                             "backward")
        if self._labels is None:
            raise MXNetError(f"PythonLossModule {self._name}: call forward(is_train=True) first")
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise MXNetError(f"PythonLossModule {self._name}: give grad_func, or override "
                             "_backward_impl")
        grad = self._grad_func(self._scores, self._labels)
        grad = grad if isinstance(grad, nd.NDArray) else nd.array(grad)
        if grad.shape != self._scores.shape:
            raise MXNetError(f"PythonLossModule {self._name}: grad_func gave shape {grad.shape}, "
                             f"expected {self._scores.shape}, that of the scores")
        self._scores_grad = grad

    def get_input_grads(self, merge_multi_context: bool = True) -> Outputs:
        """Get the gradient with respect to the scores; there are no devices to merge."""
        self._require_merge("get_input_grads", merge_multi_context)
        return [self._scores_grad]

    def _require_merge(self, method: str, merge: bool) -> None:
        if not merge:
            raise MXNetError(f"PythonLossModule {self._name}: {method} knows no devices; call it "
                             "with merge_multi_context=True")
