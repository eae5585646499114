"""A drawing of a network: SVG by itself, other formats by matplotlib, text for Graphviz."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from ..base import MXNetError
from ..core.atomic import atomic_write
from ..core.figures import save_figure
from .layered import Point
from .picture import BOLD, FONTS, LIGHT, ROUND, SIZES, Line, Picture, curve, svg

__all__ = ["NetworkDrawing"]

DOT = ("dot", "gv")
PIXEL = 0.75
"""Points of a pixel, of which an inch has 96."""
LARGEST = 12_000
"""Pixels of the longer side, to which matplotlib's pictures are reduced; it has a limit, too."""


class NetworkDrawing:
    """A drawing of a network, with the methods of a ``graphviz.Digraph`` that show or write it.

    Notebooks display it. No method needs Graphviz.  `draw` is called when the picture is needed
    first; `source` is the graph in Graphviz's language, `title` also the stem of its file name,
    `format` that of `render`: svg, dot, or one of matplotlib's.
    """

    def __init__(self, draw: Callable[[], Picture], source: str, title: str, format: str):
        self._draw, self.source, self.name, self.format = draw, source, title, format

    @cached_property
    def picture(self) -> Picture:
        """The boxes, lines and texts."""
        return self._draw()

    @property
    def svg(self) -> str:
        """The drawing as an SVG document, for light and dark screens."""
        return svg(self.picture, self.name)

    def __repr__(self) -> str:
        return f"<NetworkDrawing {self.name!r}; .svg is its text, .render(filename) writes a file>"

    def _repr_svg_(self) -> str:
        return self.svg

    def render(self, filename: str | os.PathLike[str] | None = None,
               directory: str | os.PathLike[str] | None = None, view: bool = False,
               cleanup: bool = False, format: str | None = None) -> str:
        """Write the drawing to a file, and return its name.

        Parameters
        ----------
        filename : str or path, optional
            Name of the file without its suffix, which is the format; without it, the title and
            ``.gv``.
        directory : str or path, optional
            Folder of the file.
        view : bool, default False
            Also open the file with the viewer of the system.
        cleanup : bool, default False
            Without effect: nothing but the picture is written.
        format : str, optional
            svg, dot, or a format of matplotlib such as pdf and png; the drawing's own by default.

        Raises
        ------
        MXNetError
            If the format is unknown, needs matplotlib, which is missing, or the file cannot be
            written.
        """
        kind = (format or self.format).lower()
        path = self._path(filename, directory, f".{kind}")
        if kind in ("svg", *DOT):
            _write(path, self.svg if kind == "svg" else self.source)
        else:
            save_figure(_figure(self.picture), path)
        if view:
            webbrowser.open(Path(path).absolute().as_uri())
        return path

    def view(self, filename: str | os.PathLike[str] | None = None,
             directory: str | os.PathLike[str] | None = None, cleanup: bool = False) -> str:
        """Write the drawing to a file as `render` does, and open it with the system's viewer."""
        return self.render(filename, directory, view=True, cleanup=cleanup)

    def save(self, filename: str | os.PathLike[str] | None = None,
             directory: str | os.PathLike[str] | None = None) -> str:
        """Write the graph in Graphviz's language to a file, and return its name.

        Without `filename` that is the title and ``.gv``; `directory` is its folder.
        """
        path = self._path(filename, directory, "")
        _write(path, self.source)
        return path

    def pipe(self, format: str | None = None) -> bytes:
        """Return the bytes that `render` writes."""
        with tempfile.TemporaryDirectory() as folder:
            return Path(self.render("net", folder, format=format)).read_bytes()

    def _path(self, filename: str | os.PathLike[str] | None,
              directory: str | os.PathLike[str] | None, suffix: str) -> str:
        path = Path(directory or "", (os.fspath(filename) if filename else f"{self.name}.gv")
                    + suffix)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MXNetError(f"{path}: not written: {error.strerror or error}") from error
        return str(path)


def _write(path: str, text: str) -> None:
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8", "replace"))


def _figure(picture: Picture) -> Any:
    """The picture as a figure of matplotlib."""
    try:
        from matplotlib.collections import PatchCollection
        from matplotlib.figure import Figure
        from matplotlib.patches import FancyBboxPatch, PathPatch
    except ImportError:
        raise MXNetError("plot_network: all formats but svg and dot are drawn by matplotlib: "
                         "pip install 'nbmod[viz]', or render(format='svg')") from None
    scale = min(1.0, LARGEST / max(picture.width, picture.height))
    point = PIXEL * scale
    figure = Figure(figsize=(scale * picture.width / 96, scale * picture.height / 96))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, picture.width), ylim=(picture.height, 0))
    axes.set_axis_off()
    axes.add_collection(PatchCollection(
        [FancyBboxPatch((box.x, box.y), box.width, box.height,
                        boxstyle=f"round,pad=0,rounding_size={ROUND.get(box.kind, 3)}")
         for box in picture.boxes], facecolors=[LIGHT[box.kind] for box in picture.boxes],
        edgecolor=LIGHT["outline"], linewidth=point))
    axes.add_collection(PatchCollection(
        [PathPatch(_mpl_path(line)) for line in picture.lines], facecolor="none",
        edgecolor=LIGHT["line"], linewidth=point))
    tips = [line.way[-1] for line in picture.lines if line.arrow]
    axes.plot([tip[0] for tip in tips if tip], [tip[1] - 3.2 for tip in tips if tip], "v",
              color=LIGHT["line"], markersize=6 * point, markeredgewidth=0)
    for text in picture.texts:
        axes.text(text.x, text.y, text.text, family=FONTS[:1], size=SIZES[text.kind] * point,
                  weight="bold" if text.kind in BOLD else "normal", color=LIGHT[text.kind],
                  parse_math=False)
    return figure


def _mpl_path(line: Line) -> Any:
    from matplotlib.path import Path as Outline

    points: list[Point] = []
    codes: list[Any] = []
    curved = False
    for point in line.way:
        if point is None:
            curved = True
        elif curved:
            points += [*curve(points[-1], point), point]
            codes += [Outline.CURVE4] * 3
            curved = False
        else:
            points.append(point)
            codes.append(Outline.LINETO if codes else Outline.MOVETO)
    return Outline(points, codes)
