"""Checkpoints, optimizer states and training states of modules with one symbol."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING

from ..base import AbstractError, warn_user
from ..checkpoint import load_checkpoint
from ..core.integrity import saving_together
from ..io import DataIter
from ..kvstore import KVStoreBase
from ..ndarray import NDArray
from ..optimizer import Optimizer, Updater
from ..optimizer.state_files import load_states_file, save_states_file
from . import params, resume, training_state
from .base_module import BaseModule
from .executor_group import DataParallelExecutorGroup
from .training_position import OtherData, TrainingPosition
from .workers import save_part, writes_files

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..base import Forwarded

__all__ = ["SavedModule"]


class SavedModule(BaseModule):
    """Methods of `Module` that save and load its training."""

    _exec_group: DataParallelExecutorGroup
    _arg_params: dict[str, NDArray] | None
    _aux_names: list[str]
    _aux_params: dict[str, NDArray] | None
    _kvstore: KVStoreBase | None
    _optimizer: Optimizer | None
    _optimizer_begun: dict[str, resume.Plain]
    _param_names: list[str]
    _params_dirty: bool
    _preload_opt_states: str | None
    _update_on_kvstore: bool
    _updater: Updater | None

    @staticmethod
    def load(prefix: str, epoch: int | None, load_optimizer_states: bool = False,
             verify: bool = False, **kwargs: Forwarded) -> SavedModule:
        """Create a module, not bound yet, from a checkpoint.

        The module has parameters, which `init_params` keeps; it has to be bound.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, as given to `save_checkpoint`; or an archive, as for
            `mx.model.load_checkpoint`.
        epoch : int or None
            Number of the checkpoint; None for the newest.
        load_optimizer_states : bool, default False
            Load ``<prefix>-<epoch>.states``, too, when the optimizer is created. If `fit` is then
            called with ``begin_epoch=epoch`` and ``<prefix>-<epoch>.resume`` exists, training
            continues exactly as if it had not been interrupted.
        verify : bool, default False
            Compare all files of the checkpoint with the checksums that ``integrity=True`` wrote,
            so that every damaged bit is an error.
        **kwargs
            Further arguments of `Module`, such as `context` and `label_names`.

        Raises
        ------
        MXNetError
            If a file is damaged; with `load_optimizer_states`, if the files are not of one step,
            because a save of the same epoch was interrupted.

        Examples
        --------
        >>> import os, tempfile
        >>> module = mx.mod.Module(mx.sym.Dropout(mx.sym.Variable("data")), label_names=None)
        >>> module.bind([("data", (2, 4))])
        >>> module.init_params()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     module.save_checkpoint(os.path.join(folder, "net"), 3)
        ...     sorted(os.listdir(folder))
        ...     again = mx.mod.Module.load(os.path.join(folder, "net"), 3, label_names=None)
        ['net-0003.params', 'net-symbol.json']
        >>> again.data_names, again.binded
        (['data'], False)
        """
        raise AbstractError("a module is loaded by its class, such as Module.load")

    @classmethod
    def _from_checkpoint(cls, prefix: str, epoch: int | None, load_optimizer_states: bool,
                         verify: bool, options: dict[str, Forwarded]) -> Self:
        symbol, args, auxs = load_checkpoint(prefix, epoch, verify)
        module = cls(symbol=symbol, **options)  # type: ignore[call-arg]  # classes of modules
        states = resume.states_of_one_step(prefix, epoch) if load_optimizer_states else None
        fname = prefix if epoch is None else f"{prefix}-{epoch:04d}.params"
        module._hold(args, auxs, states, fname)
        return module

    def _hold(self, args: dict[str, NDArray], auxs: dict[str, NDArray],
              states: str | None = None, fname: str = "") -> None:
        """Take loaded parameters, and a file of optimizer states to load later."""
        if fname:
            params.warn_of_absent([*self._param_names, *self._aux_names], {*args, *auxs}, fname)
        self._arg_params, self._aux_params, self.params_initialized = args, auxs, True
        self._preload_opt_states = states

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False,
                        remove_amp_cast: bool = True, integrity: bool = False) -> None:
        """Save the network and its parameters in MXNet's format.

        Writes ``<prefix>-symbol.json`` and ``<prefix>-<epoch>.params``, `epoch` with four digits.
        The files replace older ones when all are complete. With a distributed key-value store rank
        0 writes them; if `save_optimizer_states` is set, all workers must call the method, as each
        has a part of the states.

        Parameters
        ----------
        prefix : str
            Beginning of the file names, with a directory if wanted.
        epoch : int
            Number of the checkpoint: the number of epochs that are finished.
        save_optimizer_states : bool, default False
            Write ``<prefix>-<epoch>.states``, too, and ``<prefix>-<epoch>.resume``, which contains
            what else is needed to resume training exactly: random states, update counts and the
            positions of iterators.
        remove_amp_cast : bool, default True
            Omit casts that mixed precision inserted from the saved symbol.
        integrity : bool, default False
            Write ``<prefix>-<epoch>.sha256``, too, from which `load` with ``verify=True`` finds
            every damaged bit.
        """
        symbol, stem = f"{prefix}-symbol.json", f"{prefix}-{epoch:04d}"
        if not writes_files(self._kvstore):
            return save_part(self, save_optimizer_states, partial(self._save_states, stem, epoch))
        with saving_together(stem, [symbol], integrity):
            self.save_params(f"{stem}.params")
            self._symbol.save(symbol, remove_amp_cast=remove_amp_cast)
            logging.info('Saved checkpoint to "%s"', f"{stem}.params")
            if save_optimizer_states:
                self._save_states(stem, epoch)

    def _save_states(self, stem: str, epoch: int) -> None:
        """Write the part of a checkpoint that is needed to resume training."""
        if self._update_on_kvstore or writes_files(self._kvstore):  # of each worker's part
            self.save_optimizer_states(f"{stem}.states")
            self.logger.info('Saved optimizer state to "%s"', f"{stem}.states")
        self.save_training_state(f"{stem}.resume", epoch=epoch)

    def save_optimizer_states(self, fname: str) -> None:
        """Save the states of the optimizer, such as momentum.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        if self._updater is not None:
            save_states_file(self._updater, fname)
        elif self._kvstore is not None:
            self._kvstore.save_optimizer_states(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Load states that `save_optimizer_states` saved.

        Parameters
        ----------
        fname : str
            Path of the file.
        """
        self._require("optimizer_initialized")
        if self._updater is not None:
            load_states_file(self._updater, fname)
        elif self._kvstore is not None:
            self._kvstore.load_optimizer_states(fname)

    def save_training_state(self, fname: str, train_data: DataIter | None = None,
                            eval_data: DataIter | None = None, epoch: int = 0,
                            batch: int = 0) -> None:
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
            progress = TrainingPosition(train_data, eval_data, epoch, batch)
        training_state.save(self._training_parts(), fname, progress, self.history)

    def load_training_state(self, fname: str, train_data: DataIter | None = None,
                            eval_data: DataIter | None = None ) -> tuple[int, int]:
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
        progress = TrainingPosition(train_data, eval_data)
        self._restore_training_state(fname, resume.read(fname), progress)
        return progress.epoch, progress.batch

    def _restore_training_state(self, fname: str, state: dict[str, resume.Plain],
                                progress: TrainingPosition) -> None:
        self.history, self._params_dirty = training_state.restore(
            self._training_parts(), fname, state, progress)

    def _continue_fit(self, states: str, progress: TrainingPosition) -> None:
        """Resume exactly if `fit` begins at the epoch of the checkpoint of the loaded states."""
        fname = states.removesuffix(".states") + ".resume"
        if not os.path.exists(fname):
            return
        state = resume.read(fname)
        if state["states"] != resume.mark(states):
            warn_user(f"{fname} is ignored: it was not written together with {states}")
            return
        if state["epoch"] != progress.epoch:
            self.logger.info('"%s" is for begin_epoch=%d, so random numbers and update counts '
                             'start over', fname, state["epoch"])
            return
        try:
            self._restore_training_state(fname, state, progress)
        except OtherData as error:
            warn_user(f"{fname}: {error}; so epochs of this data start afresh")
            return
        self.logger.info('Resumed from "%s"', fname)
        if not progress.fresh:  # saved at the end of an epoch, before `fit` resets the iterators
            for iterator in (progress.eval_data, progress.train_data):
                if iterator is not None:
                    iterator.reset()
            progress.begin_epoch()

    def _optimizers(self) -> list[Optimizer]:
        return [self._training_parts().optimizer] if self.optimizer_initialized else []

    def _training_parts(self) -> training_state.TrainingParts:
        updater = self._updater or getattr(self._kvstore, "_updater", None)
        return training_state.TrainingParts(self._exec_group, self._kvstore, updater,
                                            self._optimizer, self._optimizer_begun)
