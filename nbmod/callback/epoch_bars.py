"""A progress bar of every epoch, drawn by rich or tqdm where one is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from ..base import ArgumentError, MXNetError
from ..metric.eval_metric import as_text
from .mxnet_callbacks import ProgressBar

if TYPE_CHECKING:
    from ..module.base_module import BatchEndParam

__all__ = ["Progress"]


class Progress:
    """Batch callback that shows how far an epoch is, its metrics and the time left.

    On a terminal a bar is drawn by the package `rich`, else by `tqdm`. Without either, it is
    `ProgressBar`, as it is where standard error is no terminal: lines are logged.

    Parameters
    ----------
    total : int, optional
        Batches of an epoch. By default it follows from the iterator, or from the epoch before; as
        long as it is not known, batches are counted.
    library : {'rich', 'tqdm', 'plain'}, optional
        What draws the bar; chosen as described by default.
    stream : text stream, optional
        Where to draw; standard error by default.

    Raises
    ------
    ArgumentError
        For another `library`.
    MXNetError
        If `library` is not installed.

    Examples
    --------
    >>> import nbmod as mx
    >>> progress = mx.callback.Progress()
    >>> # module.fit(train_data, num_epoch=5, batch_end_callback=progress)
    """

    def __init__(self, total: int | None = None, library: str | None = None,
                 stream: TextIO | None = None):
        if library not in (None, "plain", *_BARS):
            raise ArgumentError(f"Progress: library is {library!r}, expected 'rich', 'tqdm' or "
                                "'plain'")
        if library in _BARS and find_spec(library) is None:
            raise MXNetError(f"Progress: {library} is not installed: pip install "
                             + ("'nbmod[progress]'" if library == "rich" else library))
        self.total, self.library, self.stream = total, library, stream
        self._plain: ProgressBar | None = None
        self._bar: _Bar | None = None
        self._last = -1

    def __call__(self, param: BatchEndParam) -> None:
        begins, self._last = param.nbatch <= self._last or self._last < 0, param.nbatch
        if begins:
            self._begin(param)
        ends = param.locals["end_of_batch"]
        if self._bar is not None:
            self._bar.advance(_metrics(param))
        elif self._plain is not None:
            self._plain(param)
        if ends:
            self.total, self._last = param.nbatch + 1, -1
            self._close()

    def _begin(self, param: BatchEndParam) -> None:
        self._close()  # what an interrupted epoch has left
        total = self.total or _batches_in(param.locals.get("train_data"))
        library, stream = self._chosen(), self.stream or sys.stderr
        if library in _BARS:
            # Training may have resumed within the epoch.
            self._bar = _BARS[library](f"Epoch {param.epoch}", total, param.nbatch, stream)
        elif total and (self._plain is None or self._plain.total != total):
            self._plain = ProgressBar(total, 40, self.stream)

    def _chosen(self) -> str:
        if self.library is not None:
            return self.library
        if not (self.stream or sys.stderr).isatty():
            return "plain"
        return next((name for name in _BARS if find_spec(name) is not None), "plain")

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _Bar(Protocol):
    def advance(self, metrics: str) -> None: ...

    def close(self) -> None: ...


class _RichBar:
    """A bar of rich, on a console of its own: one that an error has left disturbs no other."""

    def __init__(self, title: str, total: int | None, done: int, stream: TextIO):
        columns, console = import_module("rich.progress"), import_module("rich.console")
        self._bar = columns.Progress(
            columns.TextColumn(title), columns.BarColumn(), columns.MofNCompleteColumn(),
            columns.TimeElapsedColumn(), columns.TimeRemainingColumn(),
            columns.TextColumn("{task.description}"), console=console.Console(file=stream),
            auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._bar.start()
        self._bar.console.show_cursor(True)  # stays, even if training fails
        self._task = self._bar.add_task("", total=total, completed=done)

    def advance(self, metrics: str) -> None:
        self._bar.update(self._task, advance=1, description=metrics, refresh=True)

    def close(self) -> None:
        self._bar.stop()


class _TqdmBar:
    """A bar of tqdm."""

    def __init__(self, title: str, total: int | None, done: int, stream: TextIO):
        self._bar: Any = import_module("tqdm").tqdm(total=total, desc=title, initial=done,
                                                    unit="batch", file=stream)

    def advance(self, metrics: str) -> None:
        self._bar.set_postfix_str(metrics, refresh=False)
        self._bar.update()

    def close(self) -> None:
        self._bar.close()


_BARS: dict[str, Callable[[str, int | None, int, TextIO], _Bar]] = {
    "rich": _RichBar, "tqdm": _TqdmBar}


def _metrics(param: BatchEndParam) -> str:
    return " ".join(f"{name}={as_text(value, '.4g')}"
                    for name, value in param.eval_metric.get_name_value())


def _batches_in(data: object) -> int | None:
    """Batches of an epoch, of iterators that know their number of samples."""
    samples, size = getattr(data, "num_data", None), getattr(data, "batch_size", None)
    return -(-samples // size) if samples and size else None
