"""The progress of training: what `fit` shows on a terminal, and the callback that does so."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from ..base import _as_list
from ..core.config import is_terminal
from ..core.screen import INTERVAL, LiveLine, bar, closed_lines, duration, is_watched, tells
from ..io import NDArrayIter, PrefetchingIter, ResizeIter
from ..io.sampler import SampledIter
from ..metric.eval_metric import as_text, numbers
from .mxnet_callbacks import ProgressBar
from .nan_guard import warn_not_finite

if TYPE_CHECKING:
    from ..core.log import Logger
    from ..module.arguments import Callback
    from ..module.training_position import BatchEndParam

__all__ = ["Progress", "batches_in", "epoch_text", "shown"]

SHARE = 20
"""A look that takes long is followed by a pause this many times as long: metrics may be slow."""
BAR = 10
"""Characters of the bar, where there is room."""

_LOUD = "nbmod.callback.mxnet_callbacks", __name__
"""Modules of the callbacks of batches that show progress themselves."""


class Progress:
    """Batch callback that shows how far training is; `fit` uses one where nothing else does.

    On a terminal one line is overwritten in place: the part of the epoch that is done, the
    metrics, the validation of the epoch before, samples in a second, and the time that is left of
    all epochs. A line with the results of the epoch stays, unless they are logged to the terminal.
    Elsewhere it is `ProgressBar`, whose lines are logged. Epochs are counted from 1, as
    checkpoints are.

    Parameters
    ----------
    total : int, optional
        Batches of an epoch. By default it follows from the iterator, or from the epoch before; as
        long as it is not known, batches are counted.
    stream : text stream, optional
        Where to draw; standard error by default.

    Attributes
    ----------
    first : int
        Number of the first batch of an epoch: 0, or 1 in `FeedForward`.

    Examples
    --------
    >>> progress = mx.callback.Progress()
    >>> # module.fit(train_data, num_epoch=5, batch_end_callback=progress)
    """

    def __init__(self, total: int | None = None, stream: TextIO | None = None):
        self.total = total
        self.line = LiveLine(stream)
        self.first = 0
        self._plain: ProgressBar | None = None
        self._last = -1
        self._epochs: int | None = None
        self._rates = _Rates(), _Rates()    # of training, of the epoch
        self._due = 0.0
        self._validation = ""
        self._heard: int | None = None
        self._is_silent = self._is_of_fit = False

    # -- within `fit` ------------------------------------------------------------------------

    def __enter__(self) -> Progress:
        self._is_of_fit, self._is_silent, self._last = True, False, -1
        self._rates = _Rates(), _Rates()
        self.line.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_of_fit = False
        self.line.close()

    def listen(self, param: BatchEndParam) -> None:
        """Note that other callbacks of a batch follow, whose output replaces the line.

        Parameters
        ----------
        param : BatchEndParam
            The batch.
        """
        self._heard = self.line.interruptions

    def with_validation(self, callbacks: Callback) -> Callback:
        """Add the display of a validation to the callbacks of its batches.

        Parameters
        ----------
        callbacks : callable, list or None
            The callbacks.
        """
        return [*([] if callbacks is None else _as_list(callbacks)), self._validating]

    def _validating(self, param: BatchEndParam) -> None:
        if not self._is_silent and time.perf_counter() >= self._due:
            total = batches_in(param.locals.get("eval_data"))
            self._draw(param, f"{self._head(param)}, validation", param.nbatch + 1, total, [])

    def end_epoch(self, past: Mapping[str, Any], logger: Logger) -> None:
        """Leave a line with the results of an epoch.

        Parameters
        ----------
        past : dict
            The results, as in ``module.history``.
        logger : logging.Logger
            What `fit` tells of the epoch; where that is on the terminal, no line is left.
        """
        self.line.erase()
        self.total, self._last = self._done, -1
        first = next(iter(past["validation"].values()), None)
        self._validation = "" if first is None else f"validation={as_text(first, '.4g')}"
        if not self._is_silent and not tells(logger):
            self.line.leave(epoch_text(past, self._epochs))
        if not self._is_of_fit:
            self.line.close()

    # -- as a callback -----------------------------------------------------------------------

    def __call__(self, param: BatchEndParam) -> None:
        """Show a batch of the training."""
        begins, self._last = param.nbatch <= self._last or self._last < 0, param.nbatch
        if begins:
            self._begin(param)
        if self._heard is not None and self.line.interruptions != self._heard:
            self._is_silent = True
            self.line.erase()
        if self._plain is not None:
            self._plain(param)
        elif not self._is_silent and is_terminal(self.line.stream):
            self._advance(param)
        if param.locals.get("end_of_batch"):
            self._end(param)

    @property
    def _done(self) -> int:
        """Batches of the epoch that are done."""
        return self._last + 1 - self.first

    def _begin(self, param: BatchEndParam) -> None:
        self.total = self.total or batches_in(param.locals.get("train_data"))
        self._epochs = param.locals.get("num_epoch")
        self._rates[1].begin()
        self._due = 0.0
        is_plain = not is_terminal(self.line.stream)
        if is_plain and self.total and (self._plain is None or self._plain.total != self.total):
            self._plain = ProgressBar(self.total, 40, self.line.stream)

    def _advance(self, param: BatchEndParam) -> None:
        now = time.perf_counter()
        for rate in self._rates:
            rate.count(now)
        if now >= self._due:
            speed = self._rates[1].speed * _samples_in(param.locals.get("train_data"))
            after = [self._validation, f"{speed:,.0f}/s" * (speed > 0)]
            self._draw(param, self._head(param), self._done, self.total, after)

    def _draw(self, param: BatchEndParam, head: str, done: int, total: int | None,
              after: list[str]) -> None:
        """Show the line, and say when it is due again."""
        began = time.perf_counter()
        values = _values(param)
        left = self._left(param.epoch, done) * (not head.endswith("validation"))
        self.line.show(_fitted([head, *_done(done, total)], [*values[:1], *after, *values[1:]],
                               f"{duration(left)} left" * (left > 0), self.line.width))
        now = time.perf_counter()
        self._due = now + max(INTERVAL, SHARE * (now - began))

    def _head(self, param: BatchEndParam) -> str:
        of = "" if self._epochs is None else f"/{self._epochs}"
        return f"epoch {param.epoch + 1}{of}"

    def _left(self, epoch: int, done: int) -> float:
        """Seconds that are left of all epochs; 0 if that is not known yet."""
        speed = self._rates[0].speed
        if not self.total or not speed:
            return 0.0
        return ((self._epochs or epoch + 1) - epoch) * self.total / speed - done / speed

    def _end(self, param: BatchEndParam) -> None:
        """The epoch is over; `fit` says so itself where a validation follows."""
        if self._plain is not None:
            self.total, self._last = self._done, -1
        elif not self._is_of_fit or param.locals.get("eval_data") is None:
            now = time.time()
            train = numbers(param.locals.get("eval_name_vals", ()))
            self.end_epoch({"epoch": param.epoch, "train": train, "validation": {},
                            "seconds": now - param.locals.get("tic", now)},
                           getattr(param.locals.get("self"), "logger", logging))


class _Rates:
    """Batches in a second, from the end of the first one on: kernels may be compiled in that."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.done, self.began, self.speed = -1, 0.0, 0.0

    def count(self, now: float) -> None:
        self.done += 1
        if self.done == 0:
            self.began = now
        elif now > self.began:
            self.speed = self.done / (now - self.began)


def shown(callbacks: list[Callable[..., object]], first: int = 0
          ) -> AbstractContextManager[Progress | None]:
    """The display of the progress of a `fit`, added to its batch callbacks.

    Parameters
    ----------
    callbacks : list of callable
        The callbacks; a `Progress` among them is used, and others that show progress replace it.
    first : int, default 0
        Number of the first batch.

    Returns
    -------
    context manager
        Training is within it.  Its value is None where nothing is to be shown.
    """
    own = next((one for one in callbacks if isinstance(one, Progress)), None)
    if own is not None and is_terminal(own.line.stream):
        own.first = first
        return own
    if own is not None or not is_watched() or any(_module_of(one) in _LOUD for one in callbacks):
        return closed_lines()
    progress = Progress()
    progress.first = first
    callbacks[:] = [progress.listen, *callbacks, progress] if callbacks else [progress]
    return progress


def _module_of(callback: object) -> str:
    return getattr(callback, "__module__", "")


def epoch_text(past: Mapping[str, Any], epochs: int | None = None) -> str:
    """Results of an epoch on one line; epochs are counted from 1.

    Parameters
    ----------
    past : dict
        The results, as in ``module.history``.
    epochs : int, optional
        How many epochs there are.

    Examples
    --------
    >>> epoch_text({"epoch": 2, "train": {"accuracy": 0.75}, "validation": {"accuracy": 0.5},
    ...             "seconds": 1.25}, 12)
    'epoch  3/12: accuracy=0.75 validation-accuracy=0.5 1.2 s'
    """
    number = past["epoch"] + 1
    head = f"epoch {number}" if epochs is None else f"epoch {number:{len(str(epochs))}}/{epochs}"
    values = [f"{prefix}{name}={as_text(value, '.4g')}"
              for prefix, kind in (("", "train"), ("validation-", "validation"))
              for name, value in past[kind].items()]
    seconds = past["seconds"]
    return " ".join([f"{head}:", *values, f"{seconds:.1f} s" if seconds < 120 else
                     duration(seconds)])


def _fitted(parts: list[str], values: list[str], tail: str, width: int) -> str:
    """A line of at most `width` characters.

    The last of `values` are left out first, then the bar, which is the second of `parts`.
    """
    values = [value for value in values if value]
    while len(" ".join([*parts, *values, tail])) > width and len(values) > 1:
        values.pop()
    line = " ".join(filter(None, [*parts, *values, tail]))
    return line if len(line) <= width else " ".join([parts[0], *parts[2:], *values, tail])[:width]


def _done(done: int, total: int | None) -> list[str]:
    """How far an epoch is, as a bar and in words."""
    if not total:
        return ["", f"batch {done:,}"]
    return [bar(done, total, BAR), f"{min(done / total, 1.0):4.0%}"]


def batches_in(data: object) -> int | None:
    """Batches of an epoch.

    Parameters
    ----------
    data : DataIter
        An iterator.

    Returns
    -------
    int or None
        The number; None of iterators that do not know it.
    """
    match data:
        case PrefetchingIter():
            return batches_in(data.iters[0])
        case ResizeIter():
            return data.size
        case NDArrayIter():
            discards = data.last_batch_handle == "discard"
            return (data.num_data if discards else data.num_data + data.batch_size - 1
                    ) // data.batch_size
        case SampledIter():
            return -(-data._sampler.count // data.batch_size)
    return None


def _values(param: BatchEndParam) -> list[str]:
    """Present values of the metrics; one that cannot be read yet ends no training."""
    values: list[tuple[str, object]] = []
    with suppress(Exception):
        values = [*param.eval_metric.get_name_value()]
        warn_not_finite(param, values)
    return [f"{name}={as_text(value, '.4g')}" for name, value in values]


def _samples_in(data: object) -> int:
    """Samples of a batch; 0 if that is not known."""
    size = getattr(data, "batch_size", 0)
    return size if isinstance(size, int) else 0
