"""Charts of comparisons as SVG, for light and dark screens: bars with intervals.

    comparison("Products", [("dot", [Bar("old", 1.0), Bar("new", 0.87, (0.86, 0.88))])], "time")

Every bar stands beside its name and its value: there is no legend.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..diagram.picture import Box, Line, Picture, Text, Theme, svg, text_width
from .report import duration, shortened, three_digits

__all__ = ["LINE", "MARGIN", "THEME", "WIDTH", "Bar", "comparison", "empty_picture", "of_results"]

WIDTH = 880.0
MARGIN = 16.0
LINE = 16.0
"""Pixels from one line of text to the next."""
SERIES = ("first", "second", "third", "fourth", "fifth")
THEME = Theme(
    "nbmod-chart",
    {"paper": "#ffffff", "outline": "#ffffff", "grid": "#e4e7eb", "line": "#8b949e",
     "roof": "#57606a", "whisker": "#111418", "head": "#111418", "name": "#111418",
     "detail": "#39424c", "tick": "#57606a", "point": "#0a63b8", "first": "#0a63b8",
     "second": "#c2571a", "third": "#2f7d4f", "fourth": "#8250a8", "fifth": "#8a6d00"},
    {"paper": "#0d1117", "outline": "#0d1117", "grid": "#252b33", "line": "#6e7681",
     "roof": "#9aa4af", "whisker": "#f0f3f6", "head": "#f0f3f6", "name": "#f0f3f6",
     "detail": "#c9d1d9", "tick": "#9aa4af", "point": "#58a6ff", "first": "#3d84cc",
     "second": "#d9743a", "third": "#4c9e6d", "fourth": "#a879cc", "fifth": "#b3921f"},
    frozenset({"grid", "line", "roof", "whisker"}))


def empty_picture(height: float = 0.0) -> Picture:
    """A picture of the width of all charts."""
    return Picture(WIDTH, height, [], [], [])


class Bar(NamedTuple):
    """A bar with its value.

    Attributes
    ----------
    name : str
        Beside its beginning.
    value : float
        Its length.
    interval : tuple of float, optional
        The bounds of the value.
    text : str
        Beside its end; default: the value.
    series : str
        Bars of one series have one colour; default: the name.
    """

    name: str
    value: float
    interval: tuple[float, float] | None = None
    text: str = ""
    series: str = ""

    @property
    def reach(self) -> float:
        """The largest value that is drawn."""
        return max(self.value, *(self.bounds or ()), 0.0)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval, unless there were too few rounds to know it."""
        return self.interval if self.interval and math.isfinite(self.interval[1]) else None

    @property
    def label(self) -> str:
        """The text beside it."""
        return self.text or three_digits(self.value)


def comparison(title: str, groups: Sequence[tuple[str, Sequence[Bar]]], axis: str) -> str:
    """Groups of horizontal bars.

    Parameters
    ----------
    title : str
        Above the chart.
    groups : sequence of (str, sequence of Bar)
        The name of each group and its bars.
    axis : str
        The quantity, and whether more of it is better.

    Returns
    -------
    str
        An SVG document.
    """
    bars = [bar for _, group in groups for bar in group]
    kinds = {series: SERIES[number % len(SERIES)]
             for number, series in enumerate(dict.fromkeys(bar.series or bar.name for bar in bars))}
    left = 2 * MARGIN + max((text_width(bar.name, "detail") for bar in bars), default=0.0)
    right = WIDTH - MARGIN - max((text_width(bar.label, "detail") for bar in bars), default=0.0)
    largest = max((bar.reach for bar in bars), default=1.0) or 1.0
    scale = (right - left - MARGIN) / largest
    top = 3.5 * LINE
    bottom = top + LINE * (len(bars) + 1.75 * len(groups))
    height = bottom + 3 * LINE
    back, front = empty_picture(height), empty_picture()
    back.texts.append(Text(MARGIN, 1.75 * LINE, title, "head"))
    for tick in _ticks(largest):
        x = left + scale * tick
        back.lines.append(Line([(x, top - 6), (x, bottom)], False,
                               "line" if tick in (0, 1) else "grid"))
        back.texts.append(Text(x, bottom + LINE, f"{tick:,g}", "tick", "middle"))
    back.texts.append(Text(left, bottom + 2.25 * LINE, axis, "tick"))
    y = top
    for name, group in groups:
        front.boxes.append(Box(MARGIN, y, text_width(name, "name"), LINE, "paper", ()))
        front.texts.append(Text(MARGIN, y + LINE - 4, name, "name"))
        y += 1.25 * LINE
        for bar in group:
            _draw_bar(front, bar, kinds[bar.series or bar.name], (left, y), scale)
            y += LINE
        y += 0.5 * LINE
    return svg(back, title, THEME, front)


def _draw_bar(picture: Picture, bar: Bar, kind: str, start: tuple[float, float], scale: float
              ) -> None:
    """A bar from its upper left corner, its name, whisker and value."""
    x, y = start
    picture.texts.append(Text(x - 8, y + LINE - 4.5, bar.name, "detail", "end"))
    picture.boxes.append(Box(x, y + 1, max(scale * bar.value, 1.0), LINE - 2, kind,
                             [f"{bar.name}: {bar.label}"]))
    if bar.bounds:
        low, high = (x + scale * bound for bound in bar.bounds)
        middle = y + LINE / 2
        ways = [[(low, middle), (high, middle)],
                *([(end, middle - 3), (end, middle + 3)] for end in (low, high))]
        picture.lines.extend(Line(way, False, "whisker") for way in ways)
    end = x + scale * bar.reach + 8
    picture.boxes.append(Box(end - 3, y + 1, text_width(bar.label, "detail") + 4, LINE - 2,
                             "paper", ()))
    picture.texts.append(Text(end, y + LINE - 4.5, bar.label, "detail"))


def _ticks(largest: float) -> Iterator[float]:
    """Round numbers from 0 on, eight at most."""
    unit = 10.0 ** math.floor(math.log10(largest / 8))
    step = next(unit * factor for factor in (1, 2, 5, 10, 20) if largest / (unit * factor) <= 8)
    for number in range(math.floor(largest / step + 1e-9) + 1):
        yield float(f"{number * step:.6g}")


def of_results(rows: Iterable[Mapping[str, Any]]) -> str:
    """The comparisons among some results in JSON: each function beside its baseline.

    Parameters
    ----------
    rows : iterable of mapping
        Of `Result.as_json`; those without a baseline are left out.
    """
    groups = []
    for row in rows:
        if row.get("ratio") is not None:
            ours, baseline = (shortened(row[key]) for key in ("name", "baseline"))
            text = f"{row['ratio']:.3f} {row['verdict']}, {duration(row['seconds'])}"
            groups.append((ours, [
                Bar(baseline, 1.0, None, "1", "baseline"),
                Bar(ours, row["ratio"], tuple(row["interval"]), text, "function")]))
    return comparison("Time beside the baseline", groups,
                      "time relative to the baseline, with its 99% interval (shorter is faster)")
