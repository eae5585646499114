"""Draw boxes and names into images, in place: uint8 (height, width, 3), blue first."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import MXNetError

__all__ = ["draw", "show"]

_GAP = 5
"""Pixels between the corner of a box and its name."""


def draw(canvas: np.ndarray, label: np.ndarray, color: Any = None, thickness: int = 2,
         names: Any = None) -> None:
    """Draw an object: the outline of its box, and the name of its class if there is one.

    label: class, xmin, ymin, xmax, ymax as fractions.  color: of the lines, blue first; random by
    default.  names: of classes, a mapping or a sequence.
    """
    height, width = canvas.shape[:2]
    left, top, right, bottom = (label[1:5] * [width, height, width, height]).astype(int).tolist()
    if color is None:
        color = np.random.rand(3) * 255
    _frame(canvas, (left, top, right, bottom), color, thickness)
    if names is not None:
        names_by_class = names if isinstance(names, Mapping) else dict(enumerate(names))
        if int(label[0]) in names_by_class:
            _write(canvas, (left + _GAP, top + _GAP), str(names_by_class[int(label[0])]))


def _frame(canvas: np.ndarray, box: tuple[int, int, int, int], color: Any, thickness: int) -> None:
    """Draw lines centered on the edges of a box; a negative thickness fills it."""
    left, top, right, bottom = box
    reach = max(thickness, 0) // 2
    inner = _crop(canvas, left + reach + 1, top + reach + 1, right - reach, bottom - reach)
    inside = inner.copy()
    outer = _crop(canvas, left - reach, top - reach, right + reach + 1, bottom + reach + 1)
    outer[:] = np.rint(np.broadcast_to(color, 3)).clip(0, 255)
    if thickness >= 0:
        inner[:] = inside


def _crop(canvas: np.ndarray, left: int, top: int, right: int, bottom: int) -> np.ndarray:
    return canvas[max(top, 0):max(bottom, 0), max(left, 0):max(right, 0)]


def _write(canvas: np.ndarray, position: tuple[int, int], text: str) -> None:
    """Write white text at its upper left corner."""
    names = _library("PIL.Image", "names of classes", "nbmod[image]")
    image = names.fromarray(canvas)
    importlib.import_module("PIL.ImageDraw").Draw(image).text(position, text, fill=(255, 255, 255))
    canvas[:] = np.asarray(image)


def show(canvas: np.ndarray, window: str, wait: int) -> None:
    """Show an image in a window for `wait` milliseconds; 0: until a key is pressed."""
    opencv = _library("cv2", "windows", "opencv-python")
    opencv.imshow(window, canvas)
    opencv.waitKey(wait)


def _library(name: str, what: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MXNetError(f"draw_next: {what} need a library that is not installed: pip install "
                         f"'{package}'") from error
