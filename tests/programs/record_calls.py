"""Random sequences of calls of record files, whose results must agree in nbmod and MXNet.

A file is written and read, by its index or in turn, closed, reset, opened again and pickled.
"""

from __future__ import annotations

import os
import pickle
import random
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.calls import call, draw_names

Arguments = dict[str, Any]
Call = tuple[str, Arguments]
MAGIC = b"\x0a\x23\xd7\xce"
"""What begins a record; in a record's content it divides it."""


class Records:
    """A record file.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    folder : str
        Where it is.
    indexed : bool
        Whether it has an index.
    """

    def __init__(self, mx: Any, folder: str, indexed: bool):
        self.mx, self.indexed = mx, indexed
        self.path, self.index = os.path.join(folder, "a.rec"), os.path.join(folder, "a.idx")
        self.file: Any = None
        self.open("w")

    def open(self, flag: str) -> None:
        if self.file is not None:
            self.file.close()
        self.file = (self.mx.recordio.MXIndexedRecordIO(self.index, self.path, flag)
                     if self.indexed else self.mx.recordio.MXRecordIO(self.path, flag))

    @property
    def writes(self) -> bool:
        return bool(self.file.is_open and self.file.writable)

    def write(self, size: int, magic: bool, key: int, seed: int) -> Any:
        if not self.file.is_open:
            return None     # ends the process of MXNet
        content = np.random.default_rng(seed).bytes(size)
        if magic:
            content = content[:size // 8 * 4] + MAGIC + content[size // 8 * 4:]
        if not self.indexed:
            return self.file.write(content)
        return None if key in self.file.keys else self.file.write_idx(key, content)

    def read(self) -> Any:
        return self.file.read() if self.file.is_open else None

    def has(self, key: int) -> bool:
        """Whether a record can be read by its key.  After the end was met, MXNet cannot."""
        if not self.indexed or not self.file.is_open or self.writes:
            return False
        self.file.reset()
        return key in self.file.keys

    def read_idx(self, key: int) -> Any:
        return self.file.read_idx(key) if self.has(key) else None

    def seek(self, key: int) -> Any:
        if not self.has(key):
            return None
        self.file.seek(key)
        return [self.file.read(), self.file.read()]

    def tell(self) -> Any:
        return self.file.tell() if self.writes and self.indexed else None

    def reset(self) -> Any:
        self.file.reset()
        return [self.file.is_open, self.file.writable]

    def close(self) -> Any:
        self.file.close()
        return self.file.is_open

    def pickled(self) -> Any:
        """A reader; a writer that goes on erases its file in MXNet."""
        if not self.file.is_open or self.writes:
            return None
        copy = pickle.loads(pickle.dumps(self.file))
        found = [copy.read(), copy.read()]
        copy.close()
        self.open("r")      # MXNet closes what is pickled
        return found

    def keys(self) -> Any:
        return list(self.file.keys) if self.indexed else None

    def bytes(self) -> Any:
        """Of the files, after what is written has been closed."""
        self.file.close()
        found = []
        for path in (self.path, self.index):
            if os.path.exists(path):
                with open(path, "rb") as file:
                    found.append(np.frombuffer(file.read(), np.uint8))
        return found


# -- sequences ------------------------------------------------------------------------------------

CALLS: dict[str, tuple[float, Callable[[random.Random], Arguments]]] = {
    "open": (2, lambda rng: {"flag": rng.choice(("w", "r", "r", "r"))}),
    "write": (8, lambda rng: {"size": rng.choice((0, 1, 4, 7, 40, 3000)),
                              "magic": rng.random() < 0.3, "key": rng.randrange(6),
                              "seed": rng.randrange(100)}),
    "read": (6, lambda rng: {}),
    "read_idx": (3, lambda rng: {"key": rng.randrange(6)}),
    "seek": (2, lambda rng: {"key": rng.randrange(6)}),
    "tell": (2, lambda rng: {}),
    "reset": (1.5, lambda rng: {}),
    "close": (0.5, lambda rng: {}),
    "pickled": (1, lambda rng: {}),
    "keys": (0.5, lambda rng: {}),
    "bytes": (1, lambda rng: {}),
}
"""Weight, and a function that draws the arguments."""


def draw(seed: int) -> tuple[bool, list[Call]]:
    """Whether the file has an index, and calls."""
    rng = random.Random(seed)
    calls: list[Call] = []
    for _ in range(rng.randrange(1, 4)):
        calls += [("write", CALLS["write"][1](rng)) for _ in range(rng.randrange(6))]
        calls.append(("open", {"flag": "r"}))
        calls += [(name, CALLS[name][1](rng)) for name in draw_names(rng, CALLS, 6)]
    return rng.random() < 0.6, [*calls, ("bytes", {})]


def run(mx: Any, seed: int) -> list[Any]:
    """What each call gave, or "error" where it raised."""
    indexed, calls = draw(seed)
    with tempfile.TemporaryDirectory() as folder:
        records = Records(mx, folder, indexed)
        found = [call(records, name, arguments)
                 for name, arguments in calls]
        records.file.close()
        return found
