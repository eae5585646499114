"""How a Module's parameters change: the optimizer, the store between devices, and their states.

One device: the updater changes each parameter, with integer keys.  Several devices: gradients are
pushed to a key-value store, which sums them and either updates its own copy of the parameter, which
every device then pulls (`_update_on_kvstore`, keys are names), or gives the sum back, and every
device updates its copy (key `index * devices + device`).
"""

from __future__ import annotations

import logging
import os
from typing import Any

from .. import optimizer as opt
from ..base import ArgumentError, MXNetError, did_you_mean, warn_user
from ..context import Context
from ..kvstore import KVStore
from ..model import (
    _create_kvstore,
    _initialize_kvstore,
    _update_params,
    _update_params_on_kvstore,
)
from ..optimizer.updater import load_states_file, save_states_file
from . import resume
from .base_module import BaseModule

__all__ = ["OptimizedModule"]


class OptimizedModule(BaseModule):
    """The half of `Module` that updates parameters.  See the module docstring."""

    _context: list[Context]
    _exec_group: Any
    _arg_params: dict[str, Any] | None
    _params_dirty: bool

    def _sync_params_from_devices(self) -> None:
        raise self._abstract("_sync_params_from_devices")

    def __init__(self, logger: Any = logging, compression_params: Any = None):
        super().__init__(logger=logger)
        self._compression_params = compression_params
        self._optimizer: Any = None
        self._kvstore: Any = None
        self._update_on_kvstore = False
        self._updater: Any = None
        self._preload_opt_states: str | None = None
        self._resume_from: str | None = None
        self._optimizer_begun: dict[str, Any] = {}

    def init_optimizer(self, kvstore: Any = "local", optimizer: Any = "sgd",
                       optimizer_params: Any = (("learning_rate", 0.01),),
                       force_init: bool = False) -> None:
        """Create the optimizer and connect it to the key-value store.

        Gradients are scaled by 1/batch size unless `rescale_grad` is among `optimizer_params`.
        """
        self._require("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None
        store, update_on_kvstore = _create_kvstore(kvstore, len(self._context), self._arg_params)
        workers = 1
        if store is not None and "dist" in store.type and "_sync" in store.type:
            workers = store.num_workers  # of a store of the user's own
        self._optimizer = self._make_optimizer(optimizer, optimizer_params, update_on_kvstore,
                                               workers)
        self._kvstore, self._update_on_kvstore = store, update_on_kvstore
        self._updater = None
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if update_on_kvstore:
                store.set_optimizer(self._optimizer)
            _initialize_kvstore(store, self._exec_group.param_arrays, self._arg_params,
                                self._exec_group.param_names, update_on_kvstore)
        if not update_on_kvstore:
            self._updater = opt.get_updater(self._optimizer)
        self.optimizer_initialized = True
        self._optimizer_begun = resume.attributes(self._optimizer)
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._resume_from, self._preload_opt_states = self._preload_opt_states, None

    def _make_optimizer(self, optimizer: Any, params: Any, update_on_kvstore: bool, workers: int
                        ) -> Any:
        """The optimizer, from its name and parameters or as given."""
        rescale = 1.0 / ((self._exec_group.batch_size or 1) * workers)
        idx2name = self._index_names(update_on_kvstore)
        if isinstance(optimizer, str):
            params = {"rescale_grad": rescale, **dict(params)}
            return opt.create(optimizer, sym=self.symbol, param_idx2name=idx2name, **params)
        if not isinstance(optimizer, opt.Optimizer):
            raise TypeError(f"init_optimizer: optimizer is a {type(optimizer).__name__}, expected "
                            "a name or an mx.optimizer.Optimizer")
        if optimizer.rescale_grad != rescale:
            warn_user("Optimizer created manually outside Module but rescale_grad is not "
                      f"normalized to 1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. "
                      f"{rescale}). Is this intended?")
        if not optimizer.idx2name:
            optimizer.idx2name = idx2name.copy()
        return optimizer

    def _index_names(self, update_on_kvstore: bool) -> dict[Any, str]:
        """Updater key -> parameter name."""
        names = self._exec_group.param_names
        if update_on_kvstore:  # where the keys are the names themselves
            return dict(enumerate(names))
        count = len(self._context)
        return {i * count + k: name for i, name in enumerate(names) for k in range(count)}

    def _params_were_set(self, arg_params: dict[str, Any]) -> None:
        """Let what updates parameters go on from those that were set by hand.

        An updater that is borrowed knows them by the numbers they have in the module it is from.
        """
        keys: dict[str, list[Any]] = {}
        if self._updater is not None:
            for key, name in self._current_optimizer().idx2name.items():
                keys.setdefault(name, []).append(key)
        group = self._exec_group
        for name, copies in zip(group.param_names, group.param_arrays, strict=True):
            if name not in arg_params:
                continue
            if self._update_on_kvstore and isinstance(self._kvstore, KVStore):
                self._kvstore._assign(name, copies[0])
            for key, copy in zip(keys.get(name, ()), copies, strict=False):
                self._updater.weight_was_set(key, copy)

    def borrow_optimizer(self, shared_module: Any) -> None:
        """Use the optimizer, store and updater of another module."""
        shared_module._require("optimizer_initialized")
        self._optimizer = shared_module._optimizer
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self._updater = shared_module._updater
        self._optimizer_begun = shared_module._optimizer_begun
        self.optimizer_initialized = True

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Get ready for a batch that comes next: fetch the rows of sparse parameters it needs.

        `sparse_row_id_fn(data_batch)` gives them: parameter name -> NDArray of row numbers.
        """
        self._require("binded")
        if sparse_row_id_fn is None:
            return
        if self._kvstore is None or not self._update_on_kvstore:
            warn_user("Parameters are not updated in the KVStore. No need to call "
                      "sparse_row_id_fn.")
            return
        rows = sparse_row_id_fn(data_batch)
        if not isinstance(rows, dict):
            raise MXNetError("prepare: expected a dict from sparse_row_id_fn, parameter name -> "
                             f"row numbers, but it gave a {type(rows).__name__}")
        arrays = dict(zip(self._exec_group.param_names, self._exec_group.param_arrays, strict=True))
        for name, ids in rows.items():
            if name not in arrays:
                raise ArgumentError(f"prepare: sparse_row_id_fn names {name!r}, which is no "
                                    f"parameter{did_you_mean(name, arrays)}")
            if arrays[name][0].stype == "row_sparse":
                self._kvstore.row_sparse_pull(name, arrays[name], row_ids=ids)
            else:
                warn_user(f"{name}.stype is not 'row_sparse'. No need to perform row_sparse_pull.")

    def update(self) -> None:
        """Let the optimizer use the gradients of the last backward."""
        self._require("binded", "params_initialized", "optimizer_initialized")
        self._params_dirty = True
        group = self._exec_group
        if self._update_on_kvstore:
            _update_params_on_kvstore(group.param_arrays, group.grad_arrays, self._kvstore,
                                      group.param_names)
        else:
            _update_params(group.param_arrays, group.grad_arrays, self._updater,
                           len(self._context), self._kvstore, group.param_names)

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states."""
        self._require("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
        else:
            save_states_file(self._updater, fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states."""
        self._require("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
        else:
            load_states_file(self._updater, fname)

    def _save_states(self, stem: str, epoch: int) -> None:
        """Write the part of a checkpoint that training needs to go on."""
        self.save_optimizer_states(f"{stem}.states")
        self.logger.info('Saved optimizer state to "%s"', f"{stem}.states")
        self.save_training_state(f"{stem}.resume", epoch=epoch)

    # -- exact resume -----------------------------------------------------------------------

    def save_training_state(self, fname: str, train_data: Any = None, eval_data: Any = None,
                            epoch: int = 0, batch: int = 0) -> None:
        """Write what a checkpoint leaves out, for training to go on exactly (`module.resume`).

        `save_checkpoint` does so beside optimizer states.  In and after `fit` the other arguments
        are known; else training is to go on in `epoch`, after `batch` batches of it.
        """
        self._require("optimizer_initialized")
        progress = self._progress
        if progress is None or train_data is not None:
            progress = resume.Progress(train_data, eval_data, epoch, batch)
        store_state = getattr(self._kvstore, "state_dict", lambda: None)
        states = fname.removesuffix(".resume") + ".states"
        resume.write(fname, {
            **progress.state(), "store": store_state(), "history": self.history,
            "devices": resume.device_copies(self._exec_group),
            "optimizer": resume.optimizer_state(self._current_optimizer(), self._optimizer_begun),
            "states": resume.states_mark(states)})
        if not progress.fresh:
            progress.written.add(fname)

    def load_training_state(self, fname: str, train_data: Any = None, eval_data: Any = None
                            ) -> tuple[int, int]:
        """Go on from what `save_training_state` wrote: (epoch, batches of it that are done).

        Iterators stand where they stood, so one that stood at an epoch's end is to be reset.
        Raises MXNetError for a damaged file and for iterators that are not as they were.
        """
        self._require("optimizer_initialized")
        state, progress = resume.read(fname), resume.Progress(train_data, eval_data)
        self._go_on(fname, state, progress)
        return progress.epoch, progress.batch

    def _current_optimizer(self) -> Any:
        """The optimizer that steps: one that came with loaded states may have replaced ours."""
        updater = self._updater or getattr(self._kvstore, "_updater", None)
        return getattr(updater, "optimizer", self._optimizer)

    def _go_on(self, fname: str, state: dict[str, Any], progress: resume.Progress) -> None:
        try:
            if not resume.restore_optimizer(self._current_optimizer(), state["optimizer"]):
                warn_user(f"{fname}: the optimizer or its lr_scheduler is set up otherwise than "
                          "it was, so its update counts start over")
            if state["store"] is not None and self._kvstore is not None:
                self._kvstore.load_state_dict(state["store"])
            resume.set_device_copies(self._exec_group, state["devices"])
            self._params_dirty = bool(state["devices"])
            self.history = state["history"]
            progress.restore(state)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MXNetError(f"{fname}: damaged: {type(error).__name__}: {error}") from None

    def _begin(self, progress: resume.Progress) -> None:
        """Go on exactly if the states of a checkpoint were loaded and `fit` begins at its epoch."""
        states, self._resume_from = self._resume_from, None
        fname = "" if states is None else states.removesuffix(".states") + ".resume"
        if not os.path.exists(fname):
            return
        state = resume.read(fname)
        if state["states"] != resume.states_mark(str(states)):
            warn_user(f"{fname} is ignored: it was not written together with {states}")
        elif state["epoch"] != progress.epoch:
            self.logger.info('"%s" is for begin_epoch=%d, so random numbers and update counts '
                             'start over', fname, state["epoch"])
        else:
            self._go_on_in_fit(fname, state, progress)

    def _go_on_in_fit(self, fname: str, state: dict[str, Any], progress: resume.Progress) -> None:
        try:
            self._go_on(fname, state, progress)
        except resume.OtherData as error:
            warn_user(f"{fname}: {error}; so epochs of this data start afresh")
            return
        self.logger.info('Resumed from "%s"', fname)
        if not progress.fresh:  # saved at an epoch's end, before what `fit` does then
            for iterator in (progress.eval_data, progress.train_data):
                if iterator is not None:
                    iterator.reset()
            progress.begin_epoch()
