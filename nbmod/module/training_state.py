"""Training states of modules: saved, restored, and continued by `fit`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..base import MXNetError, warn_user
from ..history import History
from ..io.data_iter import DamagedState
from ..optimizer import Optimizer
from ..optimizer.state_checks import check_states
from .json_codec import Plain
from .optimizer_setup import optimizer_state, restore_optimizer
from .resume import files_of_checkpoint, mark, read, write
from .training_position import OtherData, TrainingPosition
from .workers import distributed, gathered_parts, own_part, writes_files

if TYPE_CHECKING:
    from ..ndarray import NDArray
    from .executor_group import DataParallelExecutorGroup
    from .module import Module

__all__ = ["continue_fit", "device_copies", "optimizer_of", "restore", "save",
           "set_device_copies"]


def save(module: Module, fname: str, progress: TrainingPosition) -> None:
    """Write the training state of a module."""
    store, workers = module._kvstore, distributed(module._kvstore)
    state = {**progress.state(), "history": module.history,
             "store": None if store is None else store.state_dict(),
             "devices": device_copies(module._exec_group),
             "optimizer": optimizer_state(optimizer_of(module), module._optimizer_begun)}
    if workers is not None:
        state = gathered_parts(workers, state, module._exec_group)
    if not writes_files(store):
        return
    write(fname, state | {kind: mark(file) for kind, file in files_of_checkpoint(fname).items()})
    if not progress.fresh:
        progress.written.add(fname)


def optimizer_of(module: Module) -> Optimizer:
    """The optimizer in use: loaded states may contain one, which replaces the given one."""
    found: Optimizer | None = getattr(_updater_of(module), "optimizer", module._optimizer)
    assert found is not None
    return found


def _updater_of(module: Module) -> object:
    """What updates parameters: here, or in the store, if any of them is an `Updater`."""
    return module._updater or getattr(module._kvstore, "_updater", None)


def restore(module: Module, fname: str, state: dict[str, Plain], progress: TrainingPosition
            ) -> None:
    """Restore a module, iterators and random states from the `state` that was read from a file."""
    try:
        state = own_part(distributed(module._kvstore), state, fname)
        if not restore_optimizer(optimizer_of(module), state["optimizer"]):
            warn_user(f"{fname}: the optimizer or its lr_scheduler is set up otherwise than "
                      "it was, so its update counts start over")
        check_states(optimizer_of(module), getattr(_updater_of(module), "states", {}))
        if state["store"] is not None and module._kvstore is not None:
            module._kvstore.load_state_dict(state["store"])
        set_device_copies(module._exec_group, state["devices"])
        module._params_dirty = bool(state["devices"])
        module.history = History(state["history"])
        progress.restore(state)
    except (ArithmeticError, AttributeError, DamagedState, LookupError, TypeError,
            ValueError) as error:
        raise MXNetError(f"{fname}: damaged: {type(error).__name__}: {error}") from None


def continue_fit(module: Module, states: str, progress: TrainingPosition) -> None:
    """Resume exactly if `fit` begins at the epoch of the checkpoint whose states were loaded."""
    fname = states.removesuffix(".states") + ".resume"
    if not os.path.exists(fname):
        return
    state = read(fname)
    if state["states"] != mark(states):
        warn_user(f"{fname} is ignored: it was not written together with {states}")
        return
    if state["epoch"] != progress.epoch:
        module.logger.info('"%s" is for begin_epoch=%d, so random numbers and update counts '
                           'start over', fname, state["epoch"])
        return
    try:
        restore(module, fname, state, progress)
    except OtherData as error:
        warn_user(f"{fname}: {error}; so epochs of this data start afresh")
        return
    module.logger.info('Resumed from "%s"', fname)
    if not progress.fresh:  # saved at the end of an epoch, before `fit` resets the iterators
        for iterator in (progress.eval_data, progress.train_data):
            if iterator is not None:
                iterator.reset()
        progress.begin_epoch()


def device_copies(group: DataParallelExecutorGroup) -> dict[str, list[NDArray]]:
    """Every array of an executor group of which its devices have different copies, by name."""
    return {name: list(copies) for name, copies in _arrays_of(group) if len(copies) > 1
            and len({copy.asnumpy().tobytes() for copy in copies}) > 1}


def set_device_copies(group: DataParallelExecutorGroup, saved: dict[str, list[NDArray]]) -> None:
    """Restore the copies of every device, unless the number of devices has changed."""
    for name, copies in _arrays_of(group):
        values = saved.get(name, ())
        if len(values) == len(copies):
            for array, value in zip(copies, values, strict=True):
                value.copyto(array)


def _arrays_of(group: DataParallelExecutorGroup) -> list[tuple[str, list[NDArray]]]:
    return [*zip(group.param_names, group.param_arrays, strict=True),
            *zip(group.aux_names, group.aux_arrays, strict=True)]
