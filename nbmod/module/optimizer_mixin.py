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
    """The half of `Module` that updates parameters.  See the module docstring.

    Parameters
    ----------
    logger : logging.Logger, optional
        Where progress and warnings are logged.
    compression_params : dict, optional
        Options of gradient compression.
    """

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

        Parameters
        ----------
        kvstore : str, KVStore or None, default 'local'
            Where gradients of several contexts are summed: 'local' (on the CPU), 'device' (on the
            devices), 'nccl', a registered name or a store. On one context a name has no effect.
        optimizer : str or Optimizer, default 'sgd'
            The optimizer, or the name of one. It is a warning if the `rescale_grad` of an object
            is not 1 / batch size.
        optimizer_params : dict or sequence of pairs, default learning_rate=0.01
            Options of an optimizer that is given by name. ``rescale_grad`` defaults to 1 / batch
            size.
        force_init : bool, default False
            Replace the optimizer if there is one; otherwise that is a warning and nothing is done.

        Raises
        ------
        MXNetError
            If the module is not bound or has no parameters.
        TypeError
            If `optimizer` is neither a name nor an Optimizer.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, no_bias=True,
        ...                             name="fc")
        >>> module = mx.mod.Module(mx.sym.make_loss(net), label_names=None)
        >>> module.bind([("data", (1, 2))])
        >>> module.init_params(mx.init.One())
        >>> module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5})
        >>> module.forward_backward(mx.io.DataBatch([mx.nd.array([[1, 4]])]))
        >>> module.update()
        >>> module.get_params()[0]["fc_weight"].asnumpy().tolist()
        [[0.5, -1.0]]
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
        """Tell the store and the updater about parameters that were assigned by the user.

        A borrowed updater knows them by their indices in the module that it is from.
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
        """Use the optimizer, store and updater of another module.

        Parameters
        ----------
        shared_module : Module
            A module with an optimizer.
        """
        shared_module._require("optimizer_initialized")
        self._optimizer = shared_module._optimizer
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self._updater = shared_module._updater
        self._optimizer_begun = shared_module._optimizer_begun
        self.optimizer_initialized = True

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Fetch the rows of row-sparse parameters that the next batch needs from the store.

        Parameters
        ----------
        data_batch : DataBatch
            The next batch.
        sparse_row_id_fn : callable, optional
            Function of the batch that returns a dict of parameter name to NDArray of row indices.
            Without it nothing is done.
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
        """Update the parameters by the optimizer and the gradients of the last `backward`."""
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
        """Save the states of the optimizer, such as momentum.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
        else:
            save_states_file(self._updater, fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Load states that `save_optimizer_states` saved.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
        else:
            load_states_file(self._updater, fname)

    def _save_states(self, stem: str, epoch: int) -> None:
        """Write the part of a checkpoint that is needed to resume training."""
        self.save_optimizer_states(f"{stem}.states")
        self.logger.info('Saved optimizer state to "%s"', f"{stem}.states")
        self.save_training_state(f"{stem}.resume", epoch=epoch)

    # -- exact resume -----------------------------------------------------------------------

    def save_training_state(self, fname: str, train_data: Any = None, eval_data: Any = None,
                            epoch: int = 0, batch: int = 0) -> None:
        """Save what a checkpoint omits and an exact resume needs (see `module.resume`).

        `save_checkpoint` with ``save_optimizer_states=True`` calls it. During and after `fit` only
        `fname` is needed.

        Parameters
        ----------
        fname : str
            Path of the file, usually ``<prefix>-<epoch>.resume``.
        train_data, eval_data : DataIter, optional
            Iterators whose positions are saved.
        epoch : int, default 0
            Epoch in which training is to be resumed.
        batch : int, default 0
            Batches of that epoch that are finished.
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
        """Load what `save_training_state` saved.

        Iterators are moved to where they were; one that was at the end of an epoch has to be
        reset.

        Parameters
        ----------
        fname : str
            Path of the file.
        train_data, eval_data : DataIter, optional
            Iterators of the same kind and data as before.

        Returns
        -------
        (int, int)
            Epoch in which to resume, and the batches of it that are finished.

        Raises
        ------
        MXNetError
            If the file is damaged or the iterators differ from those saved.
        """
        self._require("optimizer_initialized")
        state, progress = resume.read(fname), resume.Progress(train_data, eval_data)
        self._go_on(fname, state, progress)
        return progress.epoch, progress.batch

    def _current_optimizer(self) -> Any:
        """The optimizer in use: one that was loaded with its states may have replaced ours."""
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
        """Resume exactly if a checkpoint's states were loaded and `fit` begins at its epoch."""
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
