"""The position of training in its epochs, iterators and random sequences."""

from __future__ import annotations

import logging
import os
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import suppress

from ..base import MXNetError, StopTraining, _as_list, wrong_type
from ..core.atomic import replacing_together
from ..core.integrity import renew_checksum
from ..io import DataBatch, DataIter
from ..io.data_iter import DamagedState, global_random_states, set_global_random_states
from ..ops.random import rng
from .arguments import Callback
from .json_codec import Plain
from .resume import read, write

__all__ = ["BatchEndParam", "OtherData", "TrainingPosition", "call_all", "require_iterator"]

BatchEndParam = namedtuple("BatchEndParam", ["epoch", "nbatch", "eval_metric", "locals"])


def require_iterator(what: str, data: object, attribute: str, optional: bool = False) -> None:
    """Raise TypeError unless the argument has a method of iterators."""
    if not hasattr(data, attribute) and not (optional and data is None):
        raise wrong_type(what, data, "a DataIter, such as mx.io.NDArrayIter")


def call_all(callbacks: Callback, *args: object) -> None:
    """Call one callback or every callback of a list, also those after one that stops training."""
    stops: list[StopTraining] = []
    for callback in _as_list(callbacks) if callbacks is not None else ():
        try:
            callback(*args)
        except StopTraining as stop:
            stops.append(stop)
    if stops:
        raise stops[0]


class TrainingPosition:
    """The position of training in its epochs and iterators, and how to resume there.

    `epoch` and `batch` are those of the first batch that is not trained on yet.  `fresh`
    is false between the end of an epoch and the reset of the training iterator; `written` are the
    files that were written then.  `asked` is set when a callback has asked for the end of training.
    `agreed` ends an epoch when another worker has no further batch.
    """

    def __init__(self, train_data: DataIter | None = None, eval_data: DataIter | None = None,
                 epoch: int = 0, batch: int = 0):
        self.train_data, self.eval_data = train_data, eval_data
        self.epoch, self.batch, self.fresh = epoch, batch, True
        self._before: dict[str, Plain] | None = None
        self._final: dict[str, Plain] | None = None
        self.written: set[str] = set()
        self.stop_request: StopTraining | None = None
        self.agreed: Callable[[Iterator[DataBatch]], Iterator[DataBatch]] = iter

    def batches(self) -> Iterator[DataBatch]:
        """Iterate over the training data; record, before each batch, the state that it changes.

        `fit` fetches a batch before it has finished the previous one.  (Recording takes 50 us.)
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
        if self.stop_request is not None:
            raise self.stop_request

    def call(self, callbacks: Callback, *args: object) -> None:
        """Call callbacks, one of which may ask for the end of training."""
        try:
            call_all(callbacks, *args)
        except StopTraining as stop:
            logging.info("Training stops: %s", stop)
            self.stop_request = self.stop_request or stop

    def calling(self, callbacks: Callback, arguments: dict[str, object]) -> Callback:
        """All batch callbacks as one; they may stop training after their batch.

        They see `fit`'s variables, too, in `param.locals`, as in MXNet.
        """
        def call(param: BatchEndParam) -> None:
            self.call(callbacks, param._replace(locals={**param.locals, **arguments}))
            if self.stop_request is not None and not param.locals["end_of_batch"]:
                self.stop()

        return call

    def stop(self) -> None:
        """End training within an epoch: keep this position, and rewind the training iterator."""
        assert self.stop_request is not None and self.train_data is not None
        train_data = self.train_data
        self.finish()
        train_data.reset()
        raise self.stop_request

    def finish(self) -> None:
        """Record the final state, and release the iterators."""
        self._final = self.state()  # which stays what it was if training has been stopped
        self.train_data = self.eval_data = None

    def state(self) -> dict[str, Plain]:
        """The position as plain data."""
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


def _random_states() -> dict[str, Plain]:
    """The states of all random number generators that nbmod or a script may use."""
    return {"nbmod": rng.get_state(), **global_random_states()}


def _set_random_states(states: dict[str, Plain]) -> None:
    set_global_random_states(states)
    rng.set_state(states["nbmod"])
