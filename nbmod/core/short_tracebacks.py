"""Tracebacks of mistakes that nbmod reports, without nbmod's own frames.

`install` wraps `sys.excepthook`: nothing is paid until an uncaught exception ends the program.
Exceptions that nbmod does not raise itself, such as those of NumPy in its code, keep all frames.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import TracebackType

from .config import CONFIG

__all__ = ["install", "shorten"]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
RUNNERS = ("<frozen runpy>", "runpy.py")
NOTE = "(Frames of nbmod are left out; NBMOD_FULL_TRACEBACK=1 shows them.)"


def install() -> None:
    """Shorten tracebacks before they are shown, unless NBMOD_FULL_TRACEBACK=1."""
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException,
                   traceback: TracebackType | None) -> None:
        short = not CONFIG.full_traceback and shorten(error)
        show(kind, error, error.__traceback__ if short else traceback)
        if short:
            print(NOTE, file=sys.stderr)

    sys.excepthook = excepthook


def shorten(error: BaseException) -> bool:
    """Remove nbmod's frames from an exception that nbmod raises, and from its causes.

    Returns whether frames were removed: not if another package raised it, nor if no frame would
    remain.
    """
    frames = list(_frames(error.__traceback__))
    others = [frame for frame in frames if not _is_own(frame)]
    if not others or not _is_raised_by_package(frames[-1]):
        return False
    for each in _chain(error):
        each.__traceback__ = _linked([f for f in _frames(each.__traceback__) if not _is_own(f)])
    return True


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and what it came from, as far as that is shown."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _linked(frames: list[TracebackType]) -> TracebackType | None:
    following = None
    for frame in reversed(frames):
        following = TracebackType(following, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return following


def _is_own(frame: TracebackType) -> bool:
    name = frame.tb_frame.f_code.co_filename
    return name.startswith(PACKAGE) or os.path.basename(name) in RUNNERS


def _is_raised_by_package(frame: TracebackType) -> bool:
    """Whether it is at a `raise` of nbmod."""
    import linecache

    name = frame.tb_frame.f_code.co_filename
    return (name.startswith(PACKAGE)
            and linecache.getline(name, frame.tb_lineno).lstrip().startswith("raise "))
