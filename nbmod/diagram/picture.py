"""Pictures of rectangles, texts and lines, and their SVG.

Letters are of one width in a monospaced font; 0.62 of the font size is more than the common ones
need, so that the text of a box fits into it whatever font a viewer has.  Colours are those of a
`Theme`, as attributes for light screens; a style sheet replaces them where the screen is dark.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from .layered import Point

__all__ = ["BOLD", "DARK", "FONTS", "LIGHT", "NETWORK", "ROUND", "SIZES", "Box", "Line", "Picture",
           "Text", "Theme", "cells_of", "curve", "svg", "text_width", "without_controls"]

FONTS = ("DejaVu Sans Mono", "Menlo", "Consolas", "Liberation Mono", "monospace")
SIZES = {"name": 12.0, "detail": 11.0, "shape": 10.5, "head": 12.0, "tick": 10.5}
"""Kind of text -> size of its font in pixels."""
BOLD = ("name", "head")
ROUND = {"variable": 9, "point": 4.5}
"""Kind of box -> radius of its corners; that of all others is 3."""
WIDTHS = {"roof": 1.75, "whisker": 1.5}
"""Kind of line -> its width in pixels; that of all others is 1."""
LIGHT = {"variable": "#d5efe9", "product": "#fbc4bd", "norm": "#dcd9ee", "activation": "#fff8c2",
         "pool": "#c3daea", "layout": "#fddcb2", "other": "#f4e4ee", "frame": "#f3f4f6",
         "paper": "#ffffff", "outline": "#8b949e", "line": "#57606a", "name": "#111418",
         "detail": "#39424c", "shape": "#39424c", "head": "#111418"}
DARK = {"variable": "#1d4f47", "product": "#70302b", "norm": "#403a69", "activation": "#57501b",
        "pool": "#214a66", "layout": "#66431a", "other": "#553349", "frame": "#21262d",
        "paper": "#0d1117", "outline": "#6e7681", "line": "#9aa4af", "name": "#f0f3f6",
        "detail": "#c9d1d9", "shape": "#c9d1d9", "head": "#f0f3f6"}
"""Kind of box, text or line -> colour."""


class Theme(NamedTuple):
    """The colours of a sort of pictures, by kinds, and the class of their SVG."""

    name: str
    light: Mapping[str, str]
    dark: Mapping[str, str]
    lines: frozenset[str] = frozenset({"line"})
    """The kinds that are lines, whose colour is that of a stroke."""


NETWORK = Theme("nbmod-net", LIGHT, DARK)


class Box(NamedTuple):
    """A rectangle, with the names of all that it stands for."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    names: Sequence[str]


class Text(NamedTuple):
    """A line of text, from the left end of its base line, or around that point."""

    x: float
    y: float
    text: str
    kind: str
    anchor: str = "start"
    """The point is at this part of the text: start, middle or end."""


class Line(NamedTuple):
    """A way as `layered.Arrangement` describes it, perhaps with an arrowhead, which points down."""

    way: Sequence[Point | None]
    arrow: bool = True
    kind: str = "line"


class Picture(NamedTuple):
    """Shapes from back to front: boxes, lines, texts."""

    width: float
    height: float
    boxes: list[Box]
    lines: list[Line]
    texts: list[Text]

    def add(self, other: Picture, x: float, y: float) -> None:
        """Copy what another picture has, its upper left corner at (x, y)."""
        self.boxes.extend(box._replace(x=box.x + x, y=box.y + y) for box in other.boxes)
        self.texts.extend(text._replace(x=text.x + x, y=text.y + y) for text in other.texts)
        self.lines.extend(line._replace(way=[point and (point[0] + x, point[1] + y)
                                             for point in line.way]) for line in other.lines)


def text_width(text: str, kind: str) -> float:
    """Pixels that a text needs at most."""
    return 0.62 * SIZES[kind] * cells_of(text)


def cells_of(text: str) -> int:
    """Columns that a text takes on a terminal, where East Asian letters take two."""
    return len(text) if text.isascii() else sum(
        0 if unicodedata.combining(letter) else
        2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def without_controls(text: str) -> str:
    """Text on one line, without control characters and halves of surrogate pairs."""
    return re.sub("[^ -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?",
                  " ".join(text.split()))


def curve(start: Point, end: Point) -> tuple[Point, Point]:
    """The inner control points of the cubic curve, vertical at its ends, between two points."""
    middle = (start[1] + end[1]) / 2
    return (start[0], middle), (end[0], middle)


def svg(picture: Picture, title: str, theme: Theme = NETWORK, front: Picture | None = None) -> str:
    """The picture as an SVG document; the shapes of `front` are drawn over it."""
    name, dark = theme.name, theme.dark
    rules = "".join(f".{name} .{kind}{{{'stroke' if kind in theme.lines else 'fill'}:{colour}}}"
                    for kind, colour in dark.items() if kind != "outline")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" width="{picture.width:.0f}" '
        f'height="{picture.height:.0f}" viewBox="0 0 {picture.width:.0f} {picture.height:.0f}" '
        f'font-family="{escape(", ".join(map(_font, FONTS)))}">',
        f"<title>{_clean(title)}</title>",
        f"<style>@media (prefers-color-scheme: dark){{{rules}.{name} rect:not(.paper){{stroke:"
        f"{dark['outline']}}}.{name} .head-of-arrow{{fill:{dark['line']}}}}}</style>",
        f'<rect class="paper" width="100%" height="100%" fill="{theme.light["paper"]}" '
        'stroke="none"/>']
    for layer in filter(None, (picture, front)):
        lines += _shapes(layer, theme.light)
    return "\n".join([*lines, "</svg>\n"])


def _shapes(picture: Picture, colours: Mapping[str, str]) -> Iterator[str]:
    for box in picture.boxes:
        yield _rectangle(box, colours)
    for line in picture.lines:
        yield from _path(line, colours[line.kind])
    for text in picture.texts:
        anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
        yield (f'<text class="{text.kind}" x="{text.x:.1f}" y="{text.y:.1f}" font-size='
               f'"{SIZES[text.kind]:g}"{_weight(text.kind)}{anchor} fill="{colours[text.kind]}">'
               f'{_clean(text.text)}</text>')


def _font(name: str) -> str:
    return f"'{name}'" if " " in name else name


def _weight(kind: str) -> str:
    return ' font-weight="600"' if kind in BOLD else ""


def _clean(text: str) -> str:
    """Text for XML, which has no control characters."""
    return escape(without_controls(text))


def _rectangle(box: Box, colours: Mapping[str, str]) -> str:
    outline = "none" if box.kind == "paper" else colours["outline"]
    return (f'<rect class="{box.kind}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
            f'height="{box.height:.1f}" rx="{ROUND.get(box.kind, 3)}" '
            f'fill="{colours[box.kind]}" stroke="{outline}">'
            f'<title>{chr(10).join(map(_clean, box.names))}</title></rect>')


def _path(line: Line, colour: str) -> Iterator[str]:
    steps, last, curved = list[str](), line.way[0], False
    for point in line.way:
        if point is None:
            curved = True
            continue
        if not steps:
            steps.append(f"M{_pair(point)}")
        elif curved and last is not None:
            steps.append("C" + " ".join(map(_pair, (*curve(last, point), point))))
        elif point != last:
            steps.append(f"L{_pair(point)}")
        last, curved = point, False
    width = f' stroke-width="{WIDTHS[line.kind]}"' if line.kind in WIDTHS else ""
    yield (f'<path class="{line.kind}" d="{"".join(steps)}" fill="none" stroke="{colour}"'
           f'{width}/>')
    if line.arrow and last is not None:
        yield (f'<path class="head-of-arrow" d="M{_pair(last)}l-3.5 -6.5h7z" '
               f'fill="{colour}"/>')


def _pair(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"
