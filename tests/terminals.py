"""A terminal in memory, a pseudo terminal, and what is to be seen on them."""

from __future__ import annotations

import io
import os
import struct
import threading
from typing import TextIO


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def screen(text: str, columns: int = 80) -> tuple[list[str], int]:
    """The rows that a terminal shows, and the column of its cursor.

    A carriage return goes to the beginning of the row, and text that does not fit goes on in the
    next one.
    """
    rows: list[list[str]] = [[]]
    column = 0
    for character in text.replace("\r\n", "\n"):
        if character == "\r":
            column = 0
        elif character == "\n":
            rows.append([])
            column = 0
        else:
            if column == columns:
                rows.append([])
                column = 0
            row = rows[-1]
            row += " " * (column + 1 - len(row))
            row[column] = character
            column += 1
    return ["".join(row).rstrip() for row in rows], column


class PseudoTerminal:
    """Two text streams to one pseudo terminal, whose content is read as it is written."""

    def __init__(self, columns: int):
        import fcntl
        import termios

        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.columns = columns
        self.out, self.err = self._stream(os.dup(slave)), self._stream(slave)
        self._content = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @staticmethod
    def _stream(descriptor: int) -> TextIO:
        return os.fdopen(descriptor, "w", buffering=1, encoding="utf-8")

    def _read(self) -> None:
        while True:
            try:
                read = os.read(self._master, 4096)
            except OSError:     # Linux: nobody is left who writes
                return
            if not read:
                return
            self._content += read

    def close(self) -> str:
        """All that was written."""
        self.out.close()
        self.err.close()
        self._reader.join()
        os.close(self._master)
        return self._content.decode()
