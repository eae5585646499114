"""`SVRGModule`: a Module that trains with stochastic variance-reduced gradients (SVRG).

Every `update_freq` epochs the parameters w are stored as a snapshot s, together with the full
gradient mu there: the mean, over all batches of an epoch, of the batch's gradient at s.  Until the
next snapshot a batch's gradient g(w) is replaced by

    g(w) - g(s) + mu

which has the same mean and vanishing variance as w and s come close.  (Johnson and Zhang,
Accelerating Stochastic Gradient Descent using Predictive Variance Reduction, NIPS 2013.)

`_mod_aux` is an ordinary Module on the same symbol that holds the snapshot and computes g(s);
`_param_dict[k]` is mu on device k, by parameter name.  Everything else is Module's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from ... import ndarray as nd
from ...base import ArgumentError, MXNetError, integer_types
from ...module import Module
from ...module.training_position import TrainingPosition

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """A Module that trains with variance-reduced gradients; see the module docstring.

    Parameters
    ----------
    symbol, data_names, label_names, logger, context, work_load_list, fixed_param_names
        Arguments of `Module`.
    state_names, group2ctxs, compression_params
        Arguments of `Module`.
    update_freq : int
        Number of epochs between two full gradients.  `fit` computes them; a custom training loop
        has to call `update_full_grads`.

    Raises
    ------
    TypeError
        If `update_freq` is not an int.
    ArgumentError
        If it is not positive; it is a ValueError, too.
    """

    def __init__(self, symbol: Any, data_names: Sequence[str] | None = ("data",),
                 label_names: Sequence[str] | None = ("softmax_label",), logger: Any = logging,
                 context: Any = None, work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None,
                 state_names: Sequence[str] | None = None, group2ctxs: Any = None,
                 compression_params: Any = None, update_freq: int | None = None):
        if not isinstance(update_freq, integer_types):
            raise TypeError(f"SVRGModule: update_freq is {update_freq!r}, expected an int, the "
                            "number of epochs between two full gradients")
        if update_freq <= 0:
            raise ArgumentError(f"SVRGModule: update_freq is {update_freq}, expected 1 or more")
        options: dict[str, Any] = {
            "data_names": data_names, "label_names": label_names, "logger": logger,
            "context": context, "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names, "state_names": state_names,
            "group2ctxs": group2ctxs}
        self._mod_aux = Module(symbol, **options)
        super().__init__(symbol, compression_params=compression_params, **options)
        self.update_freq = update_freq
        self._param_dict: list[dict[str, Any]] | None = None

    def _reset_bind(self) -> None:
        super()._reset_bind()
        self._mod_aux._reset_bind()

    def bind(self, data_shapes: Any, label_shapes: Any = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: Any = None,
             grad_req: Any = "write", tune: bool = False) -> None:
        """Bind, as Module does; for training the module of the snapshot, too."""
        super().bind(data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind,
                     shared_module, grad_req, tune)
        if "add" in self._exec_group.grad_req.values():
            self._reset_bind()
            raise MXNetError("SVRGModule: gradients that add up over batches cannot be corrected "
                             "for each of them; use grad_req='write'")
        if for_training and not self._mod_aux.binded:
            self._mod_aux.bind(data_shapes, label_shapes, grad_req=grad_req)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Change the input shapes, keeping parameters and optimizer."""
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run forward; in training also with the parameters of the snapshot."""
        super().forward(data_batch, is_train)
        if self.for_training if is_train is None else is_train:
            if self._param_dict is None:
                raise MXNetError("SVRGModule: there is no full gradient yet; call "
                                 "update_full_grads(train_data) first, as fit does")
            if self._state_names:
                self._mod_aux.set_states(self.get_states(merge_multi_context=False))
            self._mod_aux.forward(data_batch, is_train=True)

    def backward(self, out_grads: Any = None) -> None:
        """Run backward; gradients stay those of the batch until `update`."""
        super().backward(out_grads)
        self._mod_aux.backward(out_grads)

    def update(self) -> None:
        """Reduce the variance of the gradients, and let the optimizer use them."""
        self._require("binded", "params_initialized", "optimizer_initialized")
        for k, name, grad, at_snapshot in self._gradients():
            assert self._param_dict is not None
            grad[:] = grad - at_snapshot + self._param_dict[k][name]
        super().update()

    def update_full_grads(self, train_data: Any) -> None:
        """Take a snapshot of the parameters, and the full gradient there over `train_data`.

        The iterator is reset before and after.  Samples that fill up the last batch count as often
        as training will see them.
        """
        self._require("binded", "params_initialized")
        if not self.for_training:
            raise MXNetError("SVRGModule: bind with for_training=True to compute full gradients")
        self._mod_aux.set_params(*self.get_params())
        full: list[dict[str, Any]] = [{} for _ in self._context]
        count = 0
        train_data.reset()
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            for k, name, _, grad in self._gradients():
                full[k][name] = full[k][name] + grad if name in full[k] else grad.copy()
            count += 1
        train_data.reset()
        if count == 0:
            raise MXNetError("SVRGModule: train_data yields no batch")
        self._param_dict = [{name: total / count for name, total in on_device.items()}
                            for on_device in full]

    def _gradients(self) -> Iterator[tuple[int, str, nd.NDArray, nd.NDArray]]:
        """(device, parameter, gradient, gradient at the snapshot) of all trained parameters."""
        ours, theirs = self._exec_group, self._mod_aux._exec_group
        for name, grads, at_snapshot in zip(ours.param_names, ours.grad_arrays, theirs.grad_arrays,
                                            strict=True):
            for k, pair in enumerate(zip(grads, at_snapshot, strict=True)):
                if pair[0] is not None:
                    yield (k, name, *pair)

    def _train_epoch(self, epoch: int, progress: TrainingPosition, *options: Any) -> None:
        """One epoch of `fit`, with a new snapshot if it is due (or there is none)."""
        if epoch % self.update_freq == 0 or self._param_dict is None:
            self.update_full_grads(progress.train_data)
        super()._train_epoch(epoch, progress, *options)
