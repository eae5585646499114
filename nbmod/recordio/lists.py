"""Lists of images: a line is an index, one or more labels and a path, with tabs between them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from ..base import MXNetError
from ..core.atomic import atomic_write

__all__ = ["ListEntry", "read_list", "write_list"]


class ListEntry(NamedTuple):
    """A line of a list."""

    number: int
    labels: tuple[float, ...]
    path: str


def read_list(path: str | os.PathLike[str]) -> list[ListEntry]:
    """The entries of a list.  Raises MXNetError that names the line."""
    entries = []
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file, 1):
            fields = [field.strip() for field in line.rstrip("\r\n").split("\t")]
            if fields == [""]:
                continue
            try:
                entries.append(ListEntry(int(float(fields[0])), tuple(map(float, fields[1:-1])),
                                         fields[-1]))
                if len(fields) < 3 or "\r" in fields[-1]:
                    raise ValueError
            except (ValueError, OverflowError):
                raise MXNetError(f"{os.fspath(path)}, line {number}: expected a number, labels and "
                                 f"a path with tabs between them, found {line[:80]!r}") from None
    return entries


def write_list(path: str | os.PathLike[str], entries: Iterable[ListEntry]) -> None:
    """Write a list that `read_list` reads as these entries.

    Names that are no UTF-8 are written as the bytes that they are.  MXNetError for a name that a
    line cannot hold; nothing is written then.
    """
    with atomic_write(path) as file:
        for number, labels, name in entries:
            if name != name.strip() or any(character in name for character in "\t\n\r"):
                raise MXNetError(f"{os.fspath(path)}: not written: the name {name!r} has tabs, "
                                 "line breaks or blanks at its ends, which a list cannot hold; "
                                 "rename the file")
            line = "\t".join([str(number), *map("{:f}".format, labels), name])
            file.write(os.fsencode(f"{line}\n"))
