"""Training states of modules: saved, restored, and continued by `fit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import MXNetError, warn_user
from ..callback.history import History
from ..io.data_iter import DamagedState
from ..kvstore import KVStoreBase
from ..optimizer import Optimizer, Updater
from ..optimizer.state_checks import check_states
from .json_codec import Plain
from .optimizer_setup import optimizer_state, restore_optimizer
from .resume import files_of_checkpoint, mark, write
from .training_position import TrainingPosition
from .workers import distributed, gathered_parts, own_part, writes_files

if TYPE_CHECKING:
    from ..ndarray import NDArray
    from .executor_group import DataParallelExecutorGroup

__all__ = ["device_copies", "restore", "save", "set_device_copies",
           "TrainingParts"]


@dataclass
class TrainingParts:
    """The parts of a module that training changes, except its parameters.

    `updater` is that of the module or of its store; None if the store has another kind.  `created`
    is the optimizer that `init_optimizer` created, `begun` its attributes then.
    """

    group: DataParallelExecutorGroup
    store: KVStoreBase | None
    updater: Updater | None
    created: Optimizer | None
    begun: dict[str, Plain]

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer in use: loaded states may contain one, which replaces the created one."""
        used: Optimizer | None = getattr(self.updater, "optimizer", self.created)
        assert used is not None
        return used


def save(parts: TrainingParts, fname: str, progress: TrainingPosition,
         history: list[dict[str, Plain]]) -> None:
    """Write the training state of a module."""
    store, workers = parts.store, distributed(parts.store)
    state = {**progress.state(), "history": history,
             "store": None if store is None else store.state_dict(),
             "devices": device_copies(parts.group),
             "optimizer": optimizer_state(parts.optimizer, parts.begun)}
    if workers is not None:
        state = gathered_parts(workers, state, parts.group)
    if not writes_files(store):
        return
    write(fname, state | {kind: mark(file) for kind, file in files_of_checkpoint(fname).items()})
    if not progress.fresh:
        progress.written.add(fname)


def restore(parts: TrainingParts, fname: str, state: dict[str, Plain], progress: TrainingPosition
            ) -> tuple[History, bool]:
    """Restore a module, iterators and random states from the `state` that was read from a file.

    Returns the history, and whether copies of parameters differ between devices.
    """
    try:
        state = own_part(distributed(parts.store), state, fname)
        if not restore_optimizer(parts.optimizer, state["optimizer"]):
            warn_user(f"{fname}: the optimizer or its lr_scheduler is set up otherwise than "
                      "it was, so its update counts start over")
        check_states(parts.optimizer, getattr(parts.updater, "states", {}))
        if state["store"] is not None and parts.store is not None:
            parts.store.load_state_dict(state["store"])
        set_device_copies(parts.group, state["devices"])
        history = History(state["history"])
        progress.restore(state)
    except (ArithmeticError, AttributeError, DamagedState, LookupError, TypeError,
            ValueError) as error:
        raise MXNetError(f"{fname}: damaged: {type(error).__name__}: {error}") from None
    return history, bool(state["devices"])


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
