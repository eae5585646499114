"""Where a process is in its training, for messages about ranks that hang or have died.

    position.tell(epoch=3, batch=117)       # by fit, before each batch
    position.doing("push of 161 keys")      # by stores

A process that runs under `launcher.worker` keeps its position in a file, too, mapped into memory,
which the worker reads when the process is dead.  The file has two slots of JSON text, and begins
with the number of the one that holds: a slot is only written while the other one does, so that a
process that is killed while it writes leaves the position before.
"""

from __future__ import annotations

import json
import mmap
import threading
from typing import NamedTuple

from ..core.fork import fresh, in_child

__all__ = ["Position", "adopt", "awaited", "blank", "current", "doing", "is_supervised",
           "last_words", "read", "tell"]

SLOT = 1 << 14
"""Bytes of a slot.  JSON needs up to 12 for a character."""
LONGEST_DOING, LONGEST_WORDS = 200, 1000
"""Characters of texts that are kept."""


class Position(NamedTuple):
    """A step of training, what the process does in it, its last words, and whether others wait."""

    epoch: int | None = None
    batch: int | None = None
    doing: str = ""
    last_words: str = ""
    is_awaited: bool = False

    def __str__(self) -> str:
        numbers = [f"{name} {value}" for name, value in (("epoch", self.epoch),
                                                         ("batch", self.batch))
                   if value is not None]
        return ", ".join([*numbers, *([f"in {self.doing}"] if self.doing else [])])


_lock = fresh(threading.Lock())
_now = Position()
_file: mmap.mmap | None = None


def tell(epoch: int | None = None, batch: int | None = None) -> None:
    """Say which batch the process trains on, by numbers from 0, as callbacks of `fit` get them.

    Examples
    --------
    >>> tell(epoch=3, batch=117)
    >>> str(current())
    'epoch 3, batch 117'
    """
    _set(current()._replace(epoch=epoch, batch=batch))


def doing(what: str) -> None:
    """Say what the process does within its step, by a noun; '' when it is done."""
    _set(current()._replace(doing=what[:LONGEST_DOING]))


def last_words(text: str) -> None:
    """Leave the message about the end of this process to the worker, which prints it."""
    _set(current()._replace(last_words=text[:LONGEST_WORDS]))


def awaited(is_awaited: bool) -> None:
    """Say whether other ranks wait for this one, which must not end then.

    They do from the first exchange until the end of the script.
    """
    _set(current()._replace(is_awaited=is_awaited))


def current() -> Position:
    """The position of this process."""
    return _now


def is_supervised() -> bool:
    """Whether this process runs under a worker that speaks for it when it has ended."""
    return _file is not None


def _set(position: Position) -> None:
    global _now
    with _lock:
        _now = position
        if _file is not None:
            slot = 1 - int(_file[:1])
            text = json.dumps(position).encode()
            _file[1 + slot * SLOT:1 + slot * SLOT + len(text) + 1] = text + b"\n"
            _file[:1] = b"%d" % slot


def adopt(path: str) -> None:
    """Keep the position in a file that `create` has filled from now on."""
    global _file
    with open(path, "r+b") as stream:
        _file = mmap.mmap(stream.fileno(), 1 + 2 * SLOT)
    _set(current())


@in_child
def _forget() -> None:
    """A forked child is another process than the one that trains."""
    global _file
    _file = None


def blank() -> bytes:
    """The content of a file without a position."""
    return b"0" + (b"[]\n" + b" " * (SLOT - 3)) * 2


def read(content: bytes) -> Position:
    """The position in a file; without numbers if the file holds none, or is damaged."""
    slot = 1 if content[:1] == b"1" else 0
    text = content[1 + slot * SLOT:][:SLOT].partition(b"\n")[0]
    try:
        epoch, batch, what, words, is_awaited = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return Position()
    return Position(_number(epoch), _number(batch), str(what), str(words), is_awaited is True)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
