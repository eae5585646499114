"""Exact resume: what the three files of a checkpoint omit is in a fourth.

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
import logging
import os
import re
import reprlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from ..atomic import atomic_write, latest, replacing_together
from ..base import MXNetError, StopTraining, warn_user
from ..checkpoint import epochs_of
from ..history import History
from ..integrity import renew_checksum
from ..io import DataBatch, DataIter
from ..io.data_iter import DamagedState, global_random_states, set_global_random_states
from ..lr_scheduler import LRScheduler
from ..ops.random import rng
from ..optimizer import Optimizer
from ..optimizer.state_checks import check_fields, check_states
from .arguments import Callback, OptimizerLike, OptimizerParams, call_all, make_optimizer
from .json_codec import Plain, decode, encode
from .workers import distributed, gathered_parts, own_part, writes_files

if TYPE_CHECKING:
    from ..callback import Progress
    from ..ndarray import NDArray
    from .base_module import BaseModule
    from .executor_group import DataParallelExecutorGroup
    from .module import Module

__all__ = ["OtherData", "TrainingPosition", "attributes", "continue_fit", "device_copies",
           "is_in_use", "latest_epoch", "mark", "optimizer_of", "optimizer_state", "read",
           "restore", "restore_optimizer", "save", "set_device_copies", "states_of_one_step",
           "with_checksum", "write"]

FORMAT = "nbmod training state 1"
_MOST = 2**62
"""Epochs and batches are less."""

_APART = {"lr_scheduler", "param_dict", "idx2name", "sym_info", "_all_index_update_counts",
          "_index_update_count"}
"""Attributes of optimizers that are restored separately, or follow from the network."""


# ----------------------------------------------------------------------------------------- module

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
    write(fname, state | {kind: mark(file) for kind, file in _set_of(fname).items()})
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


# ------------------------------------------------------------------------------------------- file

def _set_of(fname: str) -> dict[str, str]:
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

    Where neither parameters nor states are those of the `.resume` file, that is what is of another
    step, or MXNet wrote them: a warning, and `continue_fit` ignores it.
    """
    if epoch is None:
        raise MXNetError(f"{prefix}: load_optimizer_states needs the number of an epoch")
    states, fname = (f"{prefix}-{epoch:04d}.{kind}" for kind in ("states", "resume"))
    if not os.path.exists(fname):
        return states
    state = read(fname)
    found = {kind: file for kind, file in _set_of(fname).items()
             if kind in state and os.path.exists(file)}
    other = {kind: file for kind, file in found.items() if mark(file) != state[kind]}
    if "states" not in found or not other:
        return states
    if {"params", "states"} <= other.keys():
        warn_user(f"{fname} is of another step than {' and '.join(other.values())}, so it cannot "
                  "tell whether these are of one step: a save of this epoch may have been "
                  "interrupted; if in doubt, resume from another epoch")
        return states
    raise MXNetError(
        f"{' and '.join(other.values())}: of another step than "
        f"{' and '.join(file for kind, file in found.items() if kind not in other)} and {fname}: "
        "a save of this epoch was interrupted, or a file was replaced. Resume from another epoch; "
        "or load with load_optimizer_states=False, so that optimizer states begin anew; or, if "
        f"the files belong together all the same, remove {fname}")


def latest_epoch(prefix: str) -> int:
    """Find the latest checkpoint from which training resumes exactly.

    Checkpoints that lack a file, or have files of different steps, as a process leaves that is
    killed while it saves, are passed over. Several workers must find the same files.

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
    >>> import nbmod as mx
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
    files = _set_of(fname)
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
    """A content as the file has it: with its checksum, instead of any other."""
    content = {name: part for name, part in content.items() if name != "checksum"}
    return {**content, "checksum": _checksum(content)}


def _checksum(content: dict[str, Plain]) -> int:
    """CRC-32 of a content, however its text is laid out."""
    return zlib.crc32(json.dumps(content).encode())


def read(fname: str) -> dict[str, Plain]:
    """A training state.  MXNetError for a file that holds none."""
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
    """Compare the parts of a training state that are alike in all files with those expected.

    What depends on the module, its optimizer and iterators is looked at when it is restored.
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


# ------------------------------------------------------------------ random states and iterators

def _random_states() -> dict[str, Plain]:
    """The states of all random number generators that nbmod or a script may use."""
    return {"nbmod": rng.get_state(), **global_random_states()}


def _set_random_states(states: dict[str, Plain]) -> None:
    set_global_random_states(states)
    rng.set_state(states["nbmod"])


class TrainingPosition:
    """The position of training in its epochs and iterators, and how to resume there.

    `epoch` and `batch` are those of the first batch that is not trained on yet.  `fresh`
    is false between the end of an epoch and the reset of the training iterator; `written` are the
    files that were written then.  `asked` is set when a callback has asked for the end of training.
    `agreed` ends an epoch when another worker has no further batch.  `display` shows the progress.
    """

    display: Progress | None = None
    is_nan_told = False
    """Whether a metric that is not finite has been warned of."""

    def __init__(self, train_data: DataIter | None = None, eval_data: DataIter | None = None,
                 epoch: int = 0, batch: int = 0):
        self.train_data, self.eval_data = train_data, eval_data
        self.epoch, self.batch, self.fresh = epoch, batch, True
        self._before: dict[str, Plain] | None = None
        self._final: dict[str, Plain] | None = None
        self.written: set[str] = set()
        self.asked: StopTraining | None = None
        self.agreed: Callable[[Iterator[DataBatch]], Iterator[DataBatch]] = iter

    def batches(self) -> Iterator[DataBatch]:
        """Iterate over the training data; what fetching a batch changes is recorded before it.

        `fit` fetches a batch before it has finished the previous one.  (Some 50 us.)
        """
        assert self.train_data is not None
        iterator = self.agreed(iter(self.train_data))
        with suppress(StopIteration):
            while True:
                self._before = {"train_data": _position_of(self.train_data),
                                "random": _random_states()}
                yield next(iterator)

    def end_epoch(self) -> None:
        """All batches of the epoch are trained on."""
        self.epoch, self.batch, self.fresh, self._before = self.epoch + 1, 0, False, None

    def begin_epoch(self) -> None:
        """The training iterator has been reset; StopTraining if a callback has asked for it."""
        self.fresh, self.written = True, set()
        if self.asked is not None:
            raise self.asked

    def call(self, callbacks: Callback, *args: object) -> None:
        """Call callbacks, one of which may ask for the end of training."""
        try:
            call_all(callbacks, *args)
        except StopTraining as asked:
            logging.info("Training stops: %s", asked)
            self.asked = self.asked or asked

    def stop(self) -> None:
        """End training within an epoch: keep this position, and rewind the training iterator."""
        assert self.asked is not None and self.train_data is not None
        train_data = self.train_data
        self.finish()
        train_data.reset()
        raise self.asked

    def finish(self) -> None:
        """Record the final state, and release the iterators."""
        self._final = self.state()  # which stays what it was if training has been stopped
        self.train_data = self.eval_data = None

    def state(self) -> dict[str, Plain]:
        """As plain data."""
        return self._final or {
            "epoch": self.epoch, "batch": self.batch, "fresh": self.fresh,
            "random": _random_states(), "train_data": _position_of(self.train_data),
            "eval_data": _position_of(self.eval_data), **(self._before or {})}

    def restore(self, state: dict[str, Plain]) -> None:
        """Restore the positions of iterators and random sequences.

        An iterator without a position must be at the beginning of its epoch; it is advanced by
        skipping batches, which may draw.  One with a position may start to prefetch, and so draw:
        the training iterator comes last.
        Raises OtherData if the data have changed; then nothing has been drawn.
        """
        before, position = _random_states(), state["train_data"]
        try:
            _load(self.eval_data, state["eval_data"])
            if position is None and self.train_data is not None:
                self._skip(state["batch"])
            _set_random_states(state["random"])
            _load(self.train_data, position)
        except OtherData:
            _set_random_states(before)
            raise
        self.epoch, self.batch, self.fresh = state["epoch"], state["batch"], state["fresh"]

    def _skip(self, batches: int) -> None:
        assert self.train_data is not None
        for skipped in range(batches):
            if next(self.train_data, None) is None:
                raise ValueError(f"training is to resume after {batches} batches, and an epoch "
                                 f"has {skipped}")

    def amend(self, history: list[dict[str, Plain]]) -> None:
        """Add the present state of the epoch to the training states written at its end."""
        for fname in self.written:
            if os.path.exists(fname):
                with replacing_together():
                    write(fname, read(fname) | {"history": history})
                    renew_checksum(fname.removesuffix(".resume"), fname)


class OtherData(MXNetError):
    """The saved position of an iterator does not fit the iterator that is to resume from it."""


def _position_of(iterator: object) -> Plain:
    """The position of an iterator; None if it does not provide it."""
    return getattr(iterator, "state_dict", lambda: None)()


def _load(iterator: DataIter | None, position: Plain) -> None:
    """Move an iterator to a saved position, if there is one."""
    if iterator is not None and position is not None:
        try:
            iterator.load_state_dict(position)
        except DamagedState:
            raise
        except MXNetError as error:
            raise OtherData(str(error)) from None


# ---------------------------------------------------------------------------------------- devices

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


# -------------------------------------------------------------------------------------- optimizer

def attributes(optimizer: Optimizer) -> dict[str, Plain]:
    """The plain attributes of an optimizer, and of its scheduler, by value."""
    scheduler = optimizer.lr_scheduler
    return {"class": type(optimizer).__name__, "own": _plain(optimizer),
            "scheduler": None if scheduler is None else
            {"class": type(scheduler).__name__, "own": _plain(scheduler)}}


def is_in_use(module: BaseModule, optimizer: OptimizerLike, params: OptimizerParams) -> bool:
    """Whether the optimizer that these arguments describe is the one that a module began with.

    True of modules without one.
    """
    own: Optimizer | None = getattr(module, "_optimizer", None)
    if own is None or optimizer is own:
        return True
    begun: dict[str, dict[str, float]] = getattr(module, "_optimizer_begun", {})
    try:
        if isinstance(optimizer, str):
            optimizer = make_optimizer(optimizer, params, module.symbol, own.idx2name,
                                       begun["own"]["rescale_grad"])
        return attributes(optimizer) == begun
    except (MXNetError, TypeError, ValueError, AttributeError):  # none that can be made
        return False


def _plain(owner: object) -> dict[str, Plain]:
    found = {}
    for name, value in getattr(owner, "__dict__", {}).items():
        if name not in _APART:
            try:
                found[name] = decode(encode(value))
            except TypeError:  # attributes that are not plain data are left to the script
                continue
    return found


def optimizer_state(optimizer: Optimizer, begun: dict[str, Plain]) -> dict[str, Plain]:
    """Attributes and counts of an optimizer that began training with the attributes `begun`."""
    return {"begun": begun, "now": attributes(optimizer),
            "counts": optimizer._all_index_update_counts}


def restore_optimizer(optimizer: Optimizer, saved: dict[str, Plain]) -> bool:
    """Restore an optimizer, except what the script has set up differently.

    Returns whether update counts and scheduler were restored: see the module docstring.
    """
    here, begun, now = attributes(optimizer), saved["begun"], saved["now"]
    if here["class"] != begun["class"]:
        return False
    same = {name for name, value in here["own"].items()
            if name not in begun["own"] or _equal(value, begun["own"][name])}
    continues = "begin_num_update" in same and any(
        _equal(here["scheduler"], known["scheduler"]) for known in (begun, now))
    own = {name: value for name, value in now["own"].items() if name not in _APART
           and (name in same or name not in here["own"]) and (name != "num_update" or continues)}
    scheduled = {}
    if continues:
        counts = {device: dict(of_device) for device, of_device in saved["counts"].items()}
        own |= {"_all_index_update_counts": counts, "_index_update_count": counts.setdefault(0, {})}
        scheduled = (now["scheduler"] or {"own": {}})["own"]
    _check_attributes(optimizer, {**own, "lr_scheduler": None})
    _check_attributes(optimizer.lr_scheduler, scheduled)
    vars(optimizer).update(own)
    if scheduled:
        vars(optimizer.lr_scheduler).update(scheduled)
    return continues


def _check_attributes(owner: object, values: dict[str, Plain]) -> None:
    """TypeError for attributes of an optimizer or a scheduler that it cannot have."""
    for name in values:
        hidden = getattr(type(owner), name, None)
        if callable(hidden) or isinstance(hidden, property):
            raise TypeError(f"{type(owner).__name__}.{name} is no attribute that training changes")
    if values and type(owner).__module__.startswith("nbmod."):
        stand_in = object.__new__(type(owner))
        vars(stand_in).update(values)
        assert isinstance(stand_in, (Optimizer, LRScheduler))
        check_fields(stand_in)


def _equal(one: Plain, other: Plain) -> bool:
    return encode(one) == encode(other)
