"""Pictures of matplotlib as files."""

from __future__ import annotations

import os
from typing import Any

from ..base import MXNetError
from .atomic import atomic_write

__all__ = ["save_figure"]


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, whose suffix determines the format; .png is the default.

    MXNetError if matplotlib has no such format, or the file cannot be written.
    """
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lstrip(".").lower()
    if not suffix:
        name, suffix = f"{name}.png", "png"
    formats = figure.canvas.get_supported_filetypes()
    if suffix not in formats:
        raise MXNetError(f"{name}: not written: .{suffix} is the suffix of no picture, expected "
                         f"one of {', '.join(sorted(formats))}")
    with atomic_write(name) as stream:
        figure.savefig(stream, format=suffix, dpi=120)
