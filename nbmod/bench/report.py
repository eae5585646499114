"""Results as a table of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

__all__ = ["duration", "giga", "percent", "shortened", "table", "three_digits"]

COLUMNS = ("kernel", "time", "noise", "ratio", "99% interval", "verdict", "GFLOP/s", "GB/s",
           "share", "of", "compile", "load", "first call")
"""A table shows those in which there is something."""
COMPARISON = 6
"""The first columns; those of speed follow them in a table of their own if both are too wide."""
LEFT = {"kernel", "verdict", "of"}
WIDTH = 80
NAME = 24
"""Columns of a name; longer ones lose their beginning."""
NOTICED = 1e-3
"""Seconds of compilation and of a first call that are worth a word."""


def duration(seconds: float) -> str:
    """Three digits in the unit that suits: 12.1 us."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if seconds >= 0.9995 * scale or unit == "ns":
            return f"{three_digits(seconds / scale)} {unit}"
    raise AssertionError


def three_digits(number: float) -> str:
    """12.1; two decimals at most."""
    return f"{number:.{0 if number >= 99.95 else 1 if number >= 9.995 else 2}f}"


def shortened(name: str) -> str:
    """The end of a long name."""
    return name if len(name) <= NAME else ".." + name[2 - NAME:]


def percent(value: float | None, digits: int = 0) -> str:
    """A share; "?" where too few rounds were run to know it."""
    return "" if value is None else f"{value:.{digits}%}" if value < 10 else "?"


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a table: one for every result in JSON, and warnings below."""
    columns = [_padded(each) for each in zip(COLUMNS, *map(_cells, rows), strict=True)]
    lines = _joined(columns)
    if max(map(len, lines)) > WIDTH:
        lines = _joined(columns[:COMPARISON]) + _joined([columns[0], *columns[COMPARISON:]])
    return lines + [line for row in rows for text in row["conditions"]["warnings"]
                    for line in wrap(f"{row['name']}: {text}", WIDTH, initial_indent="! ",
                                     subsequent_indent="  ")]


def _joined(columns: Sequence[list[str]]) -> list[str]:
    """The lines of the columns in which there is something."""
    shown = [each for each in columns if any(map(str.strip, each[1:]))]
    return ["  ".join(cells).rstrip() for cells in zip(*shown, strict=True)]


def _padded(column: Sequence[str]) -> list[str]:
    """Cells of one width."""
    width = max(map(len, column))
    return [cell.ljust(width) if column[0] in LEFT else cell.rjust(width) for cell in column]


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    name, seconds, share, interval = row["name"], row["seconds"], row["share"], row["interval"]
    return (shortened(name), duration(seconds), percent(row["noise"], 1),
            "" if row["ratio"] is None else f"{row['ratio']:.3f}",
            "" if interval is None else f"{interval[0]:.2f} - {interval[1]:.2f}",
            row["verdict"] or "",
            *(giga(row.get(count, 0.0) / seconds) for count in ("operations", "nbytes")),
            *(("", "") if share is None else (percent(share["value"]), share["roof"].split()[0])),
            *(duration(value) if (value := row.get(name, 0.0)) >= NOTICED else ""
              for name in ("compile_seconds", "load_seconds", "first_seconds")))


def giga(rate: float) -> str:
    """Thousands of millions; nothing for 0."""
    return three_digits(rate / 1e9) if rate else ""
