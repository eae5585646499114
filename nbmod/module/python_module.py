"""`PythonModule`: a step of a network written in Python, with no parameters of its own.

A subclass says what shapes come out (`_compute_output_shapes`) and how to go `forward` and
`backward`; all else that a module promises has an answer here.  `PythonLossModule` is the one that
people use, at the end of a `SequentialModule`: scores pass through it, and a function of scores and
labels gives the gradient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from .. import ndarray as nd
from ..base import ArgumentError, MXNetError
from ..initializer import Uniform
from ..io import DataDesc
from .arguments import as_descs
from .base_module import BaseModule

__all__ = ["PythonModule", "PythonLossModule"]


class PythonModule(BaseModule):
    """Base of modules written in Python.  See the module docstring.

    `data_names` and `label_names` (None: no labels) are the inputs, `output_names` the outputs.
    """

    def __init__(self, data_names: Sequence[str], label_names: Sequence[str] | None,
                 output_names: Sequence[str], logger: Any = logging):
        super().__init__(logger=logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = list(output_names)
        self._data_shapes: list[DataDesc] | None = None
        self._label_shapes: list[DataDesc] | None = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the data, None before bind."""
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the labels, None before bind and without labels."""
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """(name, shape) of every output, None before bind."""
        return self._output_shapes

    def get_params(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two empty dicts: there are no parameters."""
        return {}, {}

    def init_params(self, initializer: Any = Uniform(0.01), arg_params: Any = None,  # noqa: B008
                    aux_params: Any = None, allow_missing: bool = False, force_init: bool = False,
                    allow_extra: bool = False) -> None:
        """Nothing to do: there are no parameters."""
        self.params_initialized = True

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """Nothing to do: there are no parameters."""
        self.optimizer_initialized = True

    def update(self) -> None:
        """Nothing to do: there are no parameters."""

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update `eval_metric` with labels and outputs, if the module is bound with labels."""
        if pre_sliced:
            raise MXNetError(f"{type(self).__name__}: PythonModule does not support presliced "
                             "labels; give the labels of the whole batch")
        if self._label_shapes is not None:
            eval_metric.update(labels, self.get_outputs())

    def install_monitor(self, mon: Any) -> None:
        """Nothing to do: there are no executors to watch."""

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: Any = None,
             grad_req: Any = "write", tune: bool = False) -> None:
        """Take note of the shapes; binding again takes note of others.

        There are no algorithms to `tune`.
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

    def _described(self, kind: str, shapes: Any, names: list[str]) -> list[DataDesc]:
        given = as_descs(shapes)
        if [desc.name for desc in given] != names:
            raise ArgumentError(f"{type(self).__name__}: {kind}_shapes describes {given}, expected "
                                f"{kind}_names {names} in this order")
        return given

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of every output for the bound inputs; a subclass says."""
        raise self._abstract("_compute_output_shapes")


class PythonLossModule(PythonModule):
    """A loss: gives its one input back, and `grad_func(scores, labels)` as that input's gradient.

    `grad_func` gets the NDArrays of the batch and returns the gradient, of the shape of the scores,
    as an NDArray or what `nd.array` takes.  A subclass may instead override `_backward_impl`, which
    sets `_scores_grad` from `_scores` and `_labels`.
    """

    def __init__(self, name: str = "pyloss", data_names: Sequence[str] = ("data",),
                 label_names: Sequence[str] = ("softmax_label",), logger: Any = logging,
                 grad_func: Callable[[Any, Any], Any] | None = None):
        super().__init__(data_names, label_names, [f"{name}_output"], logger=logger)
        for kind, names in (("data", self._data_names), ("label", self._label_names or [])):
            if len(names) != 1:
                raise MXNetError(f"PythonLossModule {name}: {kind}_names is {names}, expected one "
                                 "name")
        if grad_func is not None and not callable(grad_func):
            raise MXNetError(f"PythonLossModule {name}: grad_func is a "
                             f"{type(grad_func).__name__}, expected a function of scores, labels")
        self._name, self._grad_func = name, grad_func
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """The scores, as they come."""
        assert self._data_shapes is not None
        return [(self._output_names[0], self._data_shapes[0].shape)]

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Keep the scores, and in training the labels."""
        self._require("binded")
        self._scores, self._scores_grad = data_batch.data[0], None
        if self.for_training if is_train is None else is_train:
            if not data_batch.label:
                raise MXNetError(f"PythonLossModule {self._name}: the batch has no label; a "
                                 "SequentialModule passes labels on to modules that were added "
                                 "with take_labels=True")
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The scores of the last forward."""
        self._require_merge("get_outputs", merge_multi_context)
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradient of the scores."""
        self._require("binded")
        if out_grads is not None:
            raise MXNetError(f"PythonLossModule {self._name}: a loss takes no out_grads; add "
                             "nothing behind it")
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

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradient of the scores."""
        self._require_merge("get_input_grads", merge_multi_context)
        return [self._scores_grad]

    def _require_merge(self, method: str, merge: bool) -> None:
        if not merge:
            raise MXNetError(f"PythonLossModule {self._name}: {method} knows no devices; call it "
                             "with merge_multi_context=True")
