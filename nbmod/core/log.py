"""`get_logger`: a logger with one-letter levels, times and places, coloured on a terminal."""

from __future__ import annotations

import logging
import os
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING
from types import ModuleType

from .config import is_terminal

__all__ = ["get_logger", "getLogger", "CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING"]
__dir__ = __all__.copy

Logger = logging.Logger | ModuleType
"""A logger, or the module `logging`, whose functions use the root logger."""

_GREEN, _RED, _YELLOW, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


class _Formatter(logging.Formatter):
    """`I0131 12:00:00 4242 file.py:function:10] text`, the part before the text in colour."""

    def __init__(self, coloured: bool = True):
        super().__init__(datefmt="%m%d %H:%M:%S")
        self.coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        place = (f"{record.levelname[0]}{self.formatTime(record, self.datefmt)} {record.process} "
                 f"{record.pathname}:{record.funcName}:{record.lineno}]")
        if self.coloured:
            colour = _RED if record.levelno >= WARNING else _GREEN
            colour = _YELLOW if record.levelno == DEBUG else colour
            place = f"{colour}{place}{_PLAIN}"
        text = f"{place} {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def get_logger(name: str | None = None, filename: str | None = None, filemode: str | None = None,
               level: int = WARNING) -> logging.Logger:
    """Return the logger `name`, which writes to standard error, or plain messages to `filename`.

    Asking again for the same name returns the logger as it was set up first.
    """
    logger = logging.getLogger(name)
    if name is not None and not getattr(logger, "_nbmod_ready", False):
        handler: logging.Handler
        if filename:
            handler = logging.FileHandler(filename, filemode or "a")
        else:
            stream = logging.StreamHandler()
            plain = bool(os.environ.get("NO_COLOR")) or not is_terminal(stream.stream)
            stream.setFormatter(_Formatter(coloured=not plain))
            handler = stream
        logger.addHandler(handler)
        logger.setLevel(level)
        logger._nbmod_ready = True  # type: ignore[attr-defined]
    return logger


getLogger = get_logger
