"""Results as a table of 80 columns, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .measure import Result

__all__ = ["as_json", "duration", "percent", "table"]

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


def as_json(result: Result) -> dict[str, Any]:
    """Everything that a result holds: all times and their order included."""
    rounds = result.rounds
    return {"name": result.name, "seconds": result.seconds, "noise": result.noise,
            "compile_seconds": result.compile_seconds, "first_seconds": result.first_seconds,
            "baseline": result.baseline, "ratio": result.ratio, "interval": result.interval,
            "verdict": None if result.verdict is None else str(result.verdict),
            "share": None if result.share is None else asdict(result.share),
            "more_rounds": result.more_rounds, "outliers": result.outliers,
            "arms": rounds.names, "calls": rounds.calls, "rounds": rounds.seconds.tolist(),
            "order": rounds.order.tolist(), "conditions": result.conditions.as_json()}
