"""Files with the states of an `Updater`: `.states`, or `.safetensors`."""

from __future__ import annotations

import os

from ..base import MXNetError
from ..core.atomic import atomic_write
from ..core.foreign import refuse_suffix
from .base_optimizer import Optimizer
from .states import load_states, write_states
from .update_step import Index, State
from .updater import Updater

__all__ = ["load_states_file", "read_states_file", "save_states_file"]

SAFETENSORS = ".safetensors"


def save_states_file(updater: Updater, fname: str, dump_optimizer: bool = False) -> None:
    """Write the states of an updater to a `.states` file, as a whole or not at all.

    Parameters
    ----------
    updater : Updater
        The updater.
    fname : str
        Name of the file; one that ends in ``.safetensors`` is written in that format.
    dump_optimizer : bool, default False
        Whether to write the optimizer, too.

    Raises
    ------
    MXNetError
        If the file cannot be written, or its name has the suffix of another format.
    """
    if os.fspath(fname).endswith(SAFETENSORS):
        from . import tensor_states

        tensor_states.save_states(fname, updater.states,
                                  updater.optimizer if dump_optimizer else None)
        return
    refuse_suffix(os.fspath(fname), ".states")
    with atomic_write(fname) as file:
        if type(updater).get_states is not Updater.get_states:
            file.write(updater.get_states(dump_optimizer))
        else:   # the same, piece by piece
            write_states(file, updater._saved(dump_optimizer))


def load_states_file(updater: Updater, fname: str) -> None:
    """Replace the states of an updater by those of a file that `save_states_file` wrote.

    Parameters
    ----------
    updater : Updater
        The updater.
    fname : str
        Name of the file; one that ends in ``.safetensors`` is read in that format.

    Raises
    ------
    MXNetError
        With the name of the file, if its content is not that of a `.states` file.
    """
    content = read_states_file(fname)
    try:
        updater._replace_states(*content)
    except MXNetError as error:
        raise MXNetError(f"{fname}: {error}") from None


def read_states_file(fname: str) -> tuple[dict[Index, State], Optimizer | None]:
    """The states in a file, and the optimizer if it was written with them.

    Parameters
    ----------
    fname : str
        Name of the file; one that ends in ``.safetensors`` is read in that format.

    Returns
    -------
    states : dict
        States by the index of the parameter.
    optimizer : Optimizer or None
        The optimizer.

    Raises
    ------
    MXNetError
        With the name of the file, if its content is not that of a file of states.
    """
    if os.fspath(fname).endswith(SAFETENSORS):
        from . import tensor_states

        return tensor_states.load_states(fname)
    with open(fname, "rb") as file:
        content = file.read()
    try:
        return load_states(content)
    except MXNetError as error:
        raise MXNetError(f"{fname}: {error}") from None
