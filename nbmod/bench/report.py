"""Results as a table of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

__all__ = ["duration", "percent", "table"]

COLUMNS = ("kernel", "time", "noise", "share", "ratio", "99% interval", "verdict")
WIDTH = 80
NAME = 24
"""Columns of a name; longer ones lose their beginning."""


def duration(seconds: float) -> str:
    """Three digits in the unit that suits: 12.1 us."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if seconds >= 0.9995 * scale or unit == "ns":
            number = seconds / scale
            return f"{number:.{0 if number >= 99.95 else 1 if number >= 9.995 else 2}f} {unit}"
    raise AssertionError


def percent(value: float | None, digits: int = 0) -> str:
    """A share; "?" where too few rounds were run to know it."""
    return "" if value is None else f"{value:.{digits}%}" if value < 10 else "?"


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a table: one for every result in JSON, and warnings below."""
    cells = [COLUMNS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) if number in (0, 6) else cell.rjust(width)
                       for number, (cell, width) in enumerate(zip(line, widths, strict=True))
                       ).rstrip() for line in cells]
    return lines + [line for row in rows for text in row["conditions"]["warnings"]
                    for line in wrap(f"{row['name']}: {text}", WIDTH, initial_indent="! ",
                                     subsequent_indent="  ")]


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    name, interval = row["name"], row["interval"]
    share = row["share"]
    return (name if len(name) <= NAME else ".." + name[2 - NAME:],
            duration(row["seconds"]), percent(row["noise"], 1),
            "" if share is None else percent(share["value"]),
            "" if row["ratio"] is None else f"{row['ratio']:.3f}",
            "" if interval is None else f"{interval[0]:.2f} - {interval[1]:.2f}",
            row["verdict"] or "")
