"""Lists of images: a line is an index, one or more labels and a path, with tabs between them."""

from __future__ import annotations

import os
from typing import NamedTuple

from ..base import MXNetError

__all__ = ["ListEntry", "read_list"]


class ListEntry(NamedTuple):
    """A line of a list."""

    number: int
    labels: tuple[float, ...]
    path: str


def read_list(path: str | os.PathLike[str]) -> list[ListEntry]:
    """The entries of a list.  Raises MXNetError that names the line."""
    entries = []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            fields = [field.strip() for field in line.rstrip("\r\n").split("\t")]
            if fields == [""]:
                continue
            try:
                entries.append(ListEntry(int(float(fields[0])), tuple(map(float, fields[1:-1])),
                                         fields[-1]))
                if len(fields) < 3:
                    raise ValueError
            except (ValueError, OverflowError):
                raise MXNetError(f"{os.fspath(path)}, line {number}: expected a number, labels and "
                                 f"a path with tabs between them, found {line[:80]!r}") from None
    return entries
