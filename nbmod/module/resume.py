"""Exact resume: a fourth file of a checkpoint has what the other three omit.

`<prefix>-<epoch:04d>.resume` is written next to the `.states` of a checkpoint.  It is JSON:

    epoch, batch    where training is resumed: in this epoch, after n batches
    fresh           whether the training iterator has been reset for it
    random          random states: nbmod's, Python's and NumPy's global ones
    optimizer       plain attributes of it and of its scheduler, initial and present ones, and the
                    update count of each parameter on each device
    devices         parameters and auxiliary states whose copies on the devices differ, as they may
                    within an epoch (the checkpoint has their mean)
    store           state of the key-value store (residuals of gradient compression)
    train_data, eval_data   positions of the iterators, if available (`DataIter.state_dict`)
    history         results of past epochs
    workers         of a distributed store: for each of its workers what differs between them,
                    random, train_data, eval_data, store and devices (see `workers`)
    symbol, params, states   length and checksum of these files of the checkpoint (None if there is
                    none), which may have been overwritten since; older files have `states` only
    checksum        of all of this, so that a damaged file is never trained on; older files lack it

`fit` resumes from it if it begins at that epoch; otherwise counts and random sequences start as
they do in MXNet.  An attribute of the optimizer that the script now sets to another value keeps the
script's value; the others are restored.  The scheduler is restored as a whole: if it is set up
otherwise than before, it and the update counts start over, because scripts written for MXNet's
resume shift its steps.  (It may be the object that was trained with.)

The marks of the other files tell whether they are of one step (`states_of_one_step`): a process
that is killed while it saves the same epoch again may leave files of both.

The order of events makes this exact.  A checkpoint is written before `fit` evaluates and resets the
training iterator, so a resumed `fit` starts with that reset; evaluation draws from a separate
random sequence (`rng.aside`) and need not be repeated.  Its results are added to the file after it.
"""

from __future__ import annotations

import json
import os
import re
import reprlib
import zlib

from ..base import MXNetError, warn_user
from ..checkpoint import epochs_of
from ..core.atomic import atomic_write, latest
from .json_codec import Plain, decode, encode

__all__ = ["files_of_checkpoint", "latest_epoch", "mark", "read", "states_of_one_step",
           "with_checksum", "write"]

FORMAT = "nbmod training state 1"
_MOST = 2**62
"""Epochs and batches are less."""





def files_of_checkpoint(fname: str) -> dict[str, str]:
    """The other files of the checkpoint that a `.resume` file is part of, by kind."""
    stem = fname.removesuffix(".resume")
    return {"symbol": re.sub(r"-\d{4,}$", "", stem) + "-symbol.json",
            "params": f"{stem}.params", "states": f"{stem}.states"}


def mark(fname: str) -> list[int] | None:
    """Length and checksum of a file; None if there is none."""
    path = latest(fname)
    if not os.path.exists(path):
        return None
    length = checksum = 0
    with open(path, "rb") as file:
        while content := file.read(1 << 20):
            length, checksum = length + len(content), zlib.crc32(content, checksum)
    return [length, checksum]


def states_of_one_step(prefix: str, epoch: int | None) -> str:
    """The `.states` file of a checkpoint; MXNetError if a file of it is of another step.

    Where neither parameters nor states are those of the `.resume` file, the `.resume` file is of
    another step, or MXNet wrote the others: a warning, and `fit` ignores the `.resume` file.
    """
    if epoch is None:
        raise MXNetError(f"{prefix}: load_optimizer_states needs the number of an epoch")
    states, fname = (f"{prefix}-{epoch:04d}.{kind}" for kind in ("states", "resume"))
    if not os.path.exists(fname):
        return states
    state = read(fname)
    files = {kind: file for kind, file in files_of_checkpoint(fname).items()
             if kind in state and os.path.exists(file)}
    other = {kind: file for kind, file in files.items() if mark(file) != state[kind]}
    if "states" not in files or not other:
        return states
    if {"params", "states"} <= other.keys():
        warn_user(f"{fname} is of another step than {' and '.join(other.values())}, so it cannot "
                  "tell whether these are of one step: a save of this epoch may have been "
                  "interrupted; if in doubt, resume from another epoch")
        return states
    raise MXNetError(
        f"{' and '.join(other.values())}: of another step than "
        f"{' and '.join(file for kind, file in files.items() if kind not in other)} and {fname}: "
        "a save of this epoch was interrupted, or a file was replaced. Resume from another epoch; "
        "or load with load_optimizer_states=False, so that optimizer states begin anew; or, if "
        f"the files belong together all the same, remove {fname}")


def latest_epoch(prefix: str) -> int:
    """Find the latest checkpoint from which training resumes exactly.

    It skips checkpoints that lack a file or have files of different steps; a process that is killed
    while it saves leaves such files. Several workers must find the same files.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, as given to `save_checkpoint`.

    Returns
    -------
    int
        Its epoch, for `Module.load` and `begin_epoch` of `fit`; 0 if there is none.

    Examples
    --------
    >>> import os, tempfile
    >>> def train(prefix):
    ...     begin = mx.model.latest_epoch(prefix)
    ...     net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    ...     module = (mx.mod.Module.load(prefix, begin, load_optimizer_states=True) if begin
    ...               else mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax")))
    ...     module.fit(mx.io.NDArrayIter(mx.nd.ones((4, 3)), mx.nd.zeros((4,)), 2), num_epoch=3,
    ...                begin_epoch=begin, epoch_end_callback=mx.callback.module_checkpoint(
    ...                    module, prefix, save_optimizer_states=True))
    ...     return begin
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prefix = os.path.join(folder, "net")
    ...     train(prefix), train(prefix)
    (0, 3)
    """
    return max((epoch for epoch in epochs_of(prefix) if _is_whole(f"{prefix}-{epoch:04d}.resume")),
               default=0)


def _is_whole(fname: str) -> bool:
    """Whether all files of the checkpoint with this training state are there, and of one step."""
    try:
        state = read(fname)
    except (MXNetError, OSError):
        return False
    files = files_of_checkpoint(fname)
    return all(os.path.exists(file) for file in files.values()) and all(
        mark(file) == state[kind] for kind, file in files.items() if kind in state)


def write(fname: str, state: dict[str, Plain]) -> None:
    """Write a training state, whole or not at all; warns of iterators that cannot be part of it."""
    for name in ("train_data", "eval_data"):
        try:
            encode(state[name])
        except TypeError as error:
            warn_user(f"{fname}: {name} will start afresh, its state_dict is not saved: {error}")
            state = {**state, name: None}
    content = {"format": FORMAT, **encode(state)}
    text = json.dumps(with_checksum(content), indent=1)
    with atomic_write(fname) as file:
        file.write(text.encode())


def with_checksum(content: dict[str, Plain]) -> dict[str, Plain]:
    """The content of the file: with its checksum, which replaces an old one."""
    content = {name: part for name, part in content.items() if name != "checksum"}
    return {**content, "checksum": _checksum(content)}


def _checksum(content: dict[str, Plain]) -> int:
    """CRC-32 of a content, independent of the layout of its text."""
    return zlib.crc32(json.dumps(content).encode())


def read(fname: str) -> dict[str, Plain]:
    """Read a training state; raises MXNetError if the file is damaged."""
    try:
        with open(fname, encoding="utf-8") as file:
            content = json.load(file)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"expected the format {FORMAT!r}")
        checksum = content.pop("checksum", None)
        if checksum is not None and checksum != _checksum(content):
            raise ValueError("its checksum is that of another content")
        state: dict[str, Plain] = decode(content)
        _check_parts(state)
    except (KeyError, MXNetError, RecursionError, TypeError, ValueError) as error:
        raise MXNetError(f"{fname}: damaged: {error}; without it training goes on, only not "
                         "exactly as it was") from None
    return state


def _check_parts(state: dict[str, Plain]) -> None:
    """Check the types of those parts of a training state that all files have.

    Parts of the module, its optimizer and iterators are checked when they are restored.
    """
    for name in ("epoch", "batch"):
        if type(state[name]) is not int or not 0 <= state[name] < _MOST:
            raise ValueError(f"{name} is {reprlib.repr(state[name])}")
    if type(state["fresh"]) is not bool:
        raise ValueError(f"fresh is {reprlib.repr(state['fresh'])}, expected true or false")
    if not all(isinstance(past, dict) and type(past.get("epoch")) is int
               for past in _listed(state, "history")):
        raise ValueError("history has other entries than epochs")
    for name in {"symbol", "params"} & state.keys() | {"states"}:
        if state[name] is not None and [*map(type, _listed(state, name))] != [int, int]:
            raise ValueError(f"{name} is {reprlib.repr(state[name])}, expected two integers")


def _listed(state: dict[str, Plain], name: str) -> list[Plain]:
    if not isinstance(state[name], list):
        raise ValueError(f"{name} is {reprlib.repr(state[name])}, expected a list")
    return state[name]
