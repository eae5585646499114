"""The live line of a terminal: text that is overwritten in place, and of which nothing stays.

At most one is on the screen, and the cursor rests at its beginning.  Whoever writes to the terminal
meanwhile (`print`, a handler of `logging`, a traceback) comes first: the line is erased before, and
is shown again when its owner has news and the cursor is at the beginning of a line.  Spaces and
carriage returns are all that it needs of a terminal.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TextIO

from .config import CONFIG, is_terminal
from .fork import fresh, in_child

__all__ = ["INTERVAL", "LiveLine", "bar", "closed_lines", "duration", "is_child",
           "is_watched", "log_off_screen", "tells"]

INTERVAL = 0.1
"""Seconds between two texts of a progress."""
WIDTH = 79
"""Columns of the longest line, however wide the terminal is."""

_lock = fresh(threading.RLock())
_open: list[LiveLine] = []
_hooks: list[_Hook] = []
_draws = False
"""Whether a write is one of a live line itself; streams may hand it to each other."""


def is_watched() -> bool:
    """Whether to show progress that nobody has asked for.

    Standard error must be a terminal, and this process one that the user has started: processes
    that it has started itself would share the line.
    """
    return CONFIG.progress and is_terminal(sys.stderr) and not is_child()


def is_child() -> bool:
    """Return whether `multiprocessing` has started this process."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


class LiveLine:
    """A line of a terminal, by default standard error, that is overwritten in place.

    `interruptions` counts how often something else has been written there since it was opened.
    """

    def __init__(self, stream: TextIO | None = None):
        self.stream = sys.stderr if stream is None else stream
        self.interruptions = 0
        self._shown = 0

    def open(self) -> None:
        """Watch what is written to the terminal, until `close`."""
        with _lock:
            if self not in _open:
                _open.append(self)
                streams = [self.stream, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
                hooked = [hook.stream for hook in _hooks]
                _hooks.extend(_Hook(stream) for stream in dict.fromkeys(streams)
                              if stream is not None and stream not in hooked
                              and is_terminal(stream))

    def close(self) -> None:
        """Erase the line and leave the terminal alone."""
        with _lock:
            self.erase()
            if self in _open:
                _open.remove(self)
            if not _open:
                while _hooks:
                    _hooks.pop().remove()

    def show(self, text: str) -> None:
        """Show a text, cut to the width of the terminal."""
        self.open()
        with _lock:
            if any(hook.is_within_line for hook in _hooks):
                return
            for other in _open:
                if other is not self:
                    other.erase()
            text = _plain(text)[:self.width]
            self._shown = width = max(self._shown, len(text))   # Ctrl-C may end the next line
            self._write(f"\r{text:{width}}\r")
            self._shown = len(text)

    def leave(self, text: str) -> None:
        """Write a line that stays."""
        with _lock:
            self.erase()
            self._write(_plain(text) + "\n")

    def erase(self) -> None:
        """Remove the text from the screen; the cursor stays at the beginning of the line."""
        with _lock:
            if self._shown:
                self._write("\r" + " " * self._shown + "\r")
                self._shown = 0

    @property
    def width(self) -> int:
        """Columns that a text may have."""
        columns = 0
        with suppress(OSError, ValueError, AttributeError):
            columns = os.get_terminal_size(self.stream.fileno()).columns
        return min(WIDTH, (columns or shutil.get_terminal_size().columns) - 1)

    def _write(self, text: str) -> None:
        global _draws
        own = next((hook.write for hook in _hooks if hook.stream is self.stream), None)
        try:
            _draws = True
            (own or self.stream.write)(text)
            self.stream.flush()
        except (OSError, ValueError):       # the terminal has been closed
            pass
        finally:
            _draws = False


@contextmanager
def closed_lines() -> Iterator[None]:
    """A block at whose end, however it ends, no live line is left on the screen."""
    before = [*_open]
    try:
        yield
    finally:
        for line in [line for line in _open if line not in before]:
            line.close()


class _Hook:
    """Stands in for the method `write` of a terminal."""

    def __init__(self, stream: TextIO):
        self.stream, self.write = stream, stream.write
        self.is_within_line = False
        self._before = getattr(stream, "__dict__", {}).get("write")
        with suppress(AttributeError, TypeError):   # it goes on as it is
            setattr(stream, "write", self)  # noqa: B010 - a method, to mypy

    def __call__(self, text: str) -> int:
        with _lock:
            if text and not _draws:
                self.is_within_line = not text.endswith(("\n", "\r"))
                for line in _open:
                    line.erase()
                    line.interruptions += 1
            return self.write(text)

    def remove(self) -> None:
        """Restore the stream, unless somebody else has changed it since."""
        own = getattr(self.stream, "__dict__", {})
        if own.get("write") is self:
            if self._before is None:
                del own["write"]
            else:
                own["write"] = self._before


@in_child
def _forget() -> None:
    """The screen is the parent's."""
    for hook in _hooks:
        hook.remove()
    _hooks.clear()
    _open.clear()


def _plain(text: str) -> str:
    """A text whose characters have one column each: names of layers and metrics may have others."""
    return "".join(character if " " <= character <= "~" else "?" for character in text)


def bar(done: int, total: int, length: int) -> str:
    """Draw a part of a whole.

    Examples
    --------
    >>> bar(3, 4, 8)
    '[======--]'
    """
    return f"[{'=' * round(length * min(done, total) / max(total, 1)):-<{length}}]"


def duration(seconds: float) -> str:
    """Format seconds below two minutes as they are, else as minutes and seconds, or hours.

    Examples
    --------
    >>> duration(7.6), duration(200), duration(10000)
    ('8 s', '3:20', '2:46:40')
    """
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# -- messages of `logging` -------------------------------------------------------------------------


def tells(logger: logging.Logger | ModuleType) -> bool:
    """Whether messages of a logger (or of `logging`, the root logger) appear on a terminal."""
    root = logger if isinstance(logger, logging.Logger) else logging.getLogger()
    return root.isEnabledFor(logging.INFO) and any(
        handler.level <= logging.INFO and _is_on_screen(handler) for handler in _handlers(root))


def log_off_screen(name: str, text: str) -> None:
    """Log a message at level INFO to files and pipes, but not to a terminal."""
    logger = logging.getLogger(name)
    if logger.isEnabledFor(logging.INFO):
        record = logger.makeRecord(name, logging.INFO, __file__, 0, text, (), None)
        for handler in _handlers(logger):
            if handler.level <= logging.INFO and not _is_on_screen(handler):
                handler.handle(record)


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """Handlers that get the messages of a logger."""
    now: logging.Logger | None = logger
    while now is not None:
        yield from now.handlers
        now = now.parent if now.propagate else None


def _is_on_screen(handler: logging.Handler) -> bool:
    return is_terminal(getattr(handler, "stream", None))
