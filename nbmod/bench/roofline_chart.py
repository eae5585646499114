"""The roofline chart (Williams et al. 2009) as SVG: kernels under the roofs of the host.

Labels are placed one after the other, those of the longest kernels first, where nothing else is;
points whose label has no room have a number, and their labels are listed below the plot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from ..diagram.picture import Box, Line, Picture, Text, svg, text_width
from .charts import LINE, MARGIN, THEME, WIDTH, empty_picture
from .report import duration, giga, percent, shortened, three_digits
from .roofs import LEVELS, Roofs

__all__ = ["roofline"]

PLOT_TOP, PLOT_BOTTOM, PLOT_LEFT, PLOT_RIGHT = 56.0, 476.0, 210.0, 770.0
RADIUS = 4.5
"""Pixels from the centre of a point to its edge."""
LABEL = 15.0
"""Height of a label."""
FARTHEST = 80
"""Pixels from a point to its label."""


class Area(NamedTuple):
    """A rectangle in which nothing else may be written."""

    left: float
    top: float
    right: float
    bottom: float

    def contains(self, other: Area) -> bool:
        """Whether the other one is a part of it."""
        return (self.left <= other.left and other.right <= self.right
                and self.top <= other.top and other.bottom <= self.bottom)

    def overlaps(self, other: Area) -> bool:
        """Whether they have a part in common."""
        return (self.left < other.right and other.left < self.right
                and self.top < other.bottom and other.top < self.bottom)


PLOT = Area(PLOT_LEFT, PLOT_TOP, PLOT_RIGHT, PLOT_BOTTOM)


class Scales(NamedTuple):
    """Logarithmic scales: the bounds of the plot in operations per byte, and in GFLOP/s."""

    intensities: tuple[float, float]
    speeds: tuple[float, float]

    def x(self, intensity: float) -> float:
        """The position of a number of operations per byte."""
        return PLOT_LEFT + (PLOT_RIGHT - PLOT_LEFT) * _part(intensity, self.intensities)

    def y(self, speed: float) -> float:
        """The position of a number of GFLOP/s."""
        return PLOT_BOTTOM - (PLOT_BOTTOM - PLOT_TOP) * _part(speed, self.speeds)


def _part(value: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    return math.log(value / low) / math.log(high / low)


def roofline(rows: Sequence[Mapping[str, Any]], roofs: Roofs, title: str = "Roofline") -> str:
    """Kernels under the roofs of the host (Williams et al. 2009).

    Parameters
    ----------
    rows : sequence of mapping
        Results in JSON, of `Result.as_json` or of the steps of `nbmod bench --json`: name, seconds,
        operations and nbytes.
    roofs : Roofs
        Of the host.
    title : str
        Above the chart.

    Returns
    -------
    str
        An SVG document.  Kernels without operations are listed below the plot.
    """
    drawn = sorted((row for row in rows if row["operations"] and row["nbytes"]),
                   key=lambda row: -float(row["seconds"]))
    bandwidths = _labelled({name: roofs.nbytes[name] / 1e9 for name in LEVELS}, roofs.unsteady,
                           " GB/s")
    used = {str(row["share"]["roof"]).split()[0] for row in drawn if row["share"]}
    peaks = _labelled({name: speed / 1e9 for name, speed in roofs.operations.items()
                       if name in used | {"float32", "float64"}}, roofs.unsteady)
    scales = _scales(drawn, bandwidths, peaks)
    back, front = empty_picture(), empty_picture()
    back.texts.append(Text(MARGIN, 1.75 * LINE, title, "head"))
    _draw_axes(back, scales)
    _draw_bandwidths(back, scales, bandwidths, max(peaks.values()))
    _draw_peaks(back, scales, peaks, max(bandwidths.values()))
    y = PLOT_BOTTOM + 3.75 * LINE
    y = _draw_list(back, _draw_points(front, scales, drawn), y)
    for line in _moves([row for row in rows if not row["operations"]]):
        back.texts.append(Text(MARGIN, y, line, "tick"))
        y += LINE
    return svg(back._replace(height=y), title, THEME, front)


def _labelled(roofs: Mapping[str, float], unsteady: Sequence[str], unit: str = ""
              ) -> dict[str, float]:
    """Roofs by their labels, those of equal height under one; ~ marks what is unsteady."""
    heights: dict[str, list[str]] = {}
    for name, value in roofs.items():
        heights.setdefault(three_digits(value), []).append(name)
    return {f"{', '.join(names)} {'~' if {*names} & {*unsteady} else ''}{value}{unit}":
            roofs[names[0]] for value, names in heights.items()}


def _scales(rows: Sequence[Mapping[str, Any]], bandwidths: Mapping[str, float],
            peaks: Mapping[str, float]) -> Scales:
    """Scales that show all points, the ridges of all roofs, and where each bandwidth begins."""
    slowest, fastest = min(bandwidths.values()), max(bandwidths.values())
    intensities = [row["operations"] / row["nbytes"] for row in rows]
    low = min([*intensities, min(peaks.values()) / fastest]) / 2
    high = 3 * max([*intensities, max(peaks.values()) / slowest])
    speeds = [row["operations"] / row["seconds"] / 1e9 for row in rows]
    return Scales((low, high), (min([*speeds, 1.5 * slowest * low]) / 1.5,
                                max([*speeds, *peaks.values()]) * 2))


def _draw_axes(picture: Picture, scales: Scales) -> None:
    for tick in _decades(scales.intensities):
        x = scales.x(tick)
        picture.lines.append(Line([(x, PLOT_TOP), (x, PLOT_BOTTOM)], False, "grid"))
        picture.texts.append(Text(x, PLOT_BOTTOM + LINE, f"{tick:,g}", "tick", "middle"))
    for tick in _decades(scales.speeds):
        y = scales.y(tick)
        picture.lines.append(Line([(PLOT_LEFT, y), (PLOT_RIGHT, y)], False, "grid"))
        picture.texts.append(Text(MARGIN + 52, y + 4, f"{tick:,g}", "tick", "end"))
        picture.lines.append(Line([(MARGIN + 56, y), (MARGIN + 62, y)], False, "line"))
    picture.lines.append(Line([(MARGIN + 62, PLOT_TOP), (MARGIN + 62, PLOT_BOTTOM)], False))
    picture.lines.append(Line([(PLOT_LEFT, PLOT_BOTTOM), (PLOT_RIGHT, PLOT_BOTTOM)], False))
    picture.texts.append(Text(MARGIN, PLOT_TOP - 8, "GFLOP/s", "tick"))
    picture.texts.append(Text(PLOT_RIGHT, PLOT_BOTTOM + 2 * LINE, "operations per byte", "tick",
                              "end"))


def _decades(bounds: tuple[float, float]) -> Iterator[float]:
    """Powers of ten between two bounds."""
    for power in range(math.ceil(math.log10(bounds[0])), math.floor(math.log10(bounds[1])) + 1):
        yield float(f"1e{power}")


def _draw_bandwidths(picture: Picture, scales: Scales, roofs: Mapping[str, float], peak: float
                     ) -> None:
    """Slanted lines, whose names stand before their lower ends, outside of the plot."""
    low = scales.intensities[0]
    starts = {name: scales.y(bandwidth * low) for name, bandwidth in roofs.items()}
    for name, y in _spread(starts).items():
        begin, end = (PLOT_LEFT, starts[name]), (scales.x(peak / roofs[name]), scales.y(peak))
        picture.lines.append(Line([begin, end], False, "roof"))
        picture.lines.append(Line([(PLOT_LEFT - 14, y), begin], False))
        picture.texts.append(Text(PLOT_LEFT - 18, y + 4, name, "tick", "end"))


def _draw_peaks(picture: Picture, scales: Scales, roofs: Mapping[str, float], bandwidth: float
                ) -> None:
    """Horizontal lines, whose names stand at their right ends, outside of the plot."""
    ends = {name: scales.y(peak) for name, peak in roofs.items()}
    for name, y in _spread(ends).items():
        end = (PLOT_RIGHT, ends[name])
        picture.lines.append(Line([(scales.x(roofs[name] / bandwidth), ends[name]), end], False,
                                  "roof"))
        picture.lines.append(Line([end, (PLOT_RIGHT + 10, y)], False))
        picture.texts.append(Text(PLOT_RIGHT + 14, y + 4, name, "tick"))


def _spread(heights: Mapping[str, float]) -> dict[str, float]:
    """Heights of labels, from the lowest label up, each above those before it."""
    placed: dict[str, float] = {}
    for name, y in sorted(heights.items(), key=lambda item: -item[1]):
        placed[name] = min([y, *(other - LABEL for other in placed.values())])
    return placed


def _draw_points(picture: Picture, scales: Scales, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Draw points and their labels.

    Returns the labels for which there is no room; their points have the numbers of these, from 1.
    """
    places = [(scales.x(row["operations"] / row["nbytes"]),
               scales.y(row["operations"] / row["seconds"] / 1e9)) for row in rows]
    taken = [Area(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in places]
    numbered: list[str] = []
    for row, (x, y) in zip(rows, places, strict=True):
        picture.boxes.append(Box(x - RADIUS, y - RADIUS, 2 * RADIUS, 2 * RADIUS, "point",
                                 _facts(row)))
        text = _label(row)
        area = _free_place(x, y, text, taken)
        if area is None:
            numbered.append(text)
            text = str(len(numbered))
            area = _free_place(x, y, text, taken)
        if area is not None:
            taken.append(area)
            _draw_label(picture, text, area, (x, y))
    return numbered


def _draw_label(picture: Picture, text: str, area: Area, point: tuple[float, float]) -> None:
    """A label, and a line to its point if that is not beside it."""
    near = (min(max(point[0], area.left), area.right), min(max(point[1], area.top), area.bottom))
    if math.dist(near, point) > 2 * RADIUS:
        picture.lines.append(Line([point, near], False))
    picture.boxes.append(Box(area.left, area.top + 1, area.right - area.left, LABEL - 2, "paper",
                             ()))
    picture.texts.append(Text(area.left, area.bottom - 4, text, "detail"))


def _free_place(x: float, y: float, text: str, taken: Sequence[Area]) -> Area | None:
    """The place for a label that is nearest to a point, of those that a free way leads to."""
    width = text_width(text, "detail")
    for distance in range(8, FARTHEST, 10):
        for angle in (0, 180, -90, 90, -30, 30, -150, 150, -60, 60, -120, 120):
            dx, dy = (distance * part(math.radians(angle)) for part in (math.cos, math.sin))
            left = x + dx - (width if abs(angle) > 90 else width / 2 if abs(angle) == 90 else 0)
            top = y + dy - LABEL / 2
            area = Area(left, top, left + width, top + LABEL)
            way = [Area(x + part * dx, y + part * dy, x + part * dx + 1, y + part * dy + 1)
                   for part in (k / distance for k in range(8, distance, 4))]
            if PLOT.contains(area) and not any(
                    one.overlaps(other) for one in (area, *way) for other in taken):
                return area
    return None


def _label(row: Mapping[str, Any]) -> str:
    share = row["share"]
    reached = f", {percent(share['value'])}" if share else ""
    return f"{shortened(row['name'])} {giga(row['operations'] / row['seconds'])}{reached}"


def _facts(row: Mapping[str, Any]) -> list[str]:
    """Lines that a viewer shows at a point."""
    share = row["share"]
    return [row["name"], duration(row["seconds"]),
            f"{giga(row['operations'] / row['seconds'])} GFLOP/s, "
            f"{giga(row['nbytes'] / row['seconds'])} GB/s",
            *([f"{percent(share['value'])} of the {share['roof']}"] if share else [])]


def _draw_list(picture: Picture, labels: Sequence[str], top: float) -> float:
    """Numbers and labels in columns; returns where they end."""
    cells = [f"{number} {label}" for number, label in enumerate(labels, 1)]
    width = max((text_width(cell, "tick") for cell in cells), default=1.0) + MARGIN
    height = math.ceil(len(cells) / max(1, int((WIDTH - MARGIN) / width)))
    for number, cell in enumerate(cells):
        column, line = divmod(number, height)
        picture.texts.append(Text(MARGIN + column * width, top + line * LINE, cell, "tick"))
    return top + height * LINE


def _moves(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines about kernels that only move data."""
    texts = [f"{shortened(row['name'])} {giga(row['nbytes'] / row['seconds'])} GB/s"
             + (f", {percent(row['share']['value'])} of {row['share']['roof'].split()[0]}"
                if row["share"] else "") for row in rows if row["nbytes"]]
    columns = int((WIDTH - 2 * MARGIN) / text_width("m", "tick"))
    return wrap("Without operations: " + "; ".join(texts), columns) if texts else []
