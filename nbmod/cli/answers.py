"""Outputs of networks as answers: classes, boxes, segments or a vector, as text, JSON and pictures.

What an output is follows from its shape: (1, classes), (1, boxes, 6) as MultiBoxDetection has it,
three outputs (1, boxes, 1), (1, boxes, 1) and (1, boxes, 4) as GluonCV's detectors have them, in
pixels of the input, and one output (1, classes, height, width).
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import Array
from ..image.drawing import draw
from ..imgproc import codecs

__all__ = ["Reading", "answer", "lines", "picture"]

Answer = dict[str, Any]
BOX = 6
"""Numbers of a box: class, score, left, top, right, bottom."""
LETTER, LINE = 8, 20
"""Pixels of a letter of a name, with its share of the margin, and of its line."""
GOLDEN = 0.618034
"""Steps of hue that keep the colors of any number of classes apart."""


class Reading(NamedTuple):
    """How outputs are read.

    Names of classes, how many are told, the least score of a box, what the outputs are, and height
    and width of the input, which are those of the image by default.
    """

    labels: Sequence[str] = ()
    top: int = 5
    threshold: float = 0.5
    task: str = ""
    input_size: tuple[int, int] | None = None

    def named(self, number: int) -> Answer:
        """The number of a class, and its name if there is one."""
        known = 0 <= number < len(self.labels)
        return {"class": number, **({"label": self.labels[number]} if known else {})}


def answer(outputs: Sequence[Array], size: tuple[int, int], reading: Reading) -> Answer:
    """Read the outputs for one image, whose height and width are the units of boxes.

    The answer, which JSON can hold, has one of the keys ``boxes``, ``segments``, ``vector``,
    ``value``, ``classes`` and ``outputs``.
    """
    boxes = _boxes(outputs, size, reading.input_size or size)
    if boxes is not None:
        return {"boxes": [{**reading.named(int(row[0])), "score": float(row[1]),
                           "box": [round(float(value), 1) for value in row[2:]]}
                          for row in boxes if row[0] >= 0 and row[1] >= reading.threshold]}
    first = outputs[0]
    if first.ndim == 4 and first.shape[1] > 1 and (
            len(outputs) == 1 or reading.task == "segments"):
        return {"segments": _shares(first[0].argmax(0), reading)}
    if reading.task == "vector":
        return {"vector": [float(value) for value in first.ravel()]}
    if first.size == 1:
        return {"value": float(first.ravel()[0])}
    if first.ndim == 2:
        best = np.argsort(-first[0], kind="stable")[:reading.top]
        return {"classes": [{**reading.named(int(number)), "score": float(first[0, number])}
                            for number in best]}
    return {"outputs": [{"shape": [*one.shape], "min": float(one.min()), "max": float(one.max()),
                         "mean": float(one.mean(dtype=np.float64))} for one in outputs]}


def _boxes(outputs: Sequence[Array], size: tuple[int, int], input_size: tuple[int, int]
           ) -> Array | None:
    """Rows of class, score and corners in pixels, the best first; None if there are no boxes."""
    rows = next((one[0] for one in outputs if one.ndim == 3 and one.shape[2] == BOX), None)
    units = np.ones(2)    # of fractions of the image
    if rows is None and [one.shape[2:] for one in outputs] == [(1,), (1,), (4,)]:
        rows, units = np.concatenate([one[0] for one in outputs], axis=1), np.array(input_size)
    if rows is None:
        return None
    corners = (rows[:, 2:] / np.tile(units[::-1], 2)).clip(0, 1) * np.tile(size[::-1], 2)
    boxes = np.concatenate([rows[:, :2], corners], axis=1)
    return np.asarray(boxes[np.argsort(-boxes[:, 1], kind="stable")])


def _shares(classes: Array, reading: Reading) -> list[Answer]:
    """The classes of pixels, those of most pixels first."""
    numbers, counts = np.unique(classes, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [{**reading.named(int(numbers[at])), "share": float(counts[at] / classes.size)}
            for at in order]


def lines(reply: Answer) -> list[str]:
    """Tell an answer in lines of text, one for each class, box or output."""
    if "boxes" in reply:
        return [f"{box['score']:.4f}  {_name(box)}  " + " ".join(f"{at:g}" for at in box["box"])
                for box in reply["boxes"]] or ["no boxes"]
    if "segments" in reply:
        return [f"{part['share']:7.2%}  {_name(part)}" for part in reply["segments"]]
    if "vector" in reply:
        norm = float(np.linalg.norm(reply["vector"]))
        return [f"a vector of {len(reply['vector'])} numbers, norm {norm:.4g}"]
    if "value" in reply:
        return [f"{reply['value']:.6g}"]
    if "classes" in reply:
        return [f"{one['score']:.4f}  {_name(one)}" for one in reply["classes"]]
    return [f"{tuple(one['shape'])}: from {one['min']:.4g} to {one['max']:.4g}, "
            f"mean {one['mean']:.4g}" for one in reply["outputs"]]


def _name(one: Answer) -> str:
    return one.get("label", f"class {one['class']}")


def picture(image: Array, reply: Answer, outputs: Sequence[Array]) -> bytes:
    """Draw an answer into its image: uint8 of shape (height, width, 3), red first.

    The PNG file shows boxes and their names, or the colors of segments; without either, the image.
    """
    from ..image import imresize
    from ..ndarray import array

    canvas = image.copy()
    height, width = canvas.shape[:2]
    for box in reversed(reply.get("boxes", [])):
        name, color = f"{_name(box)} {box['score']:.2f}", _color(box["class"])
        size = np.array([1, width, height, width, height])
        left, top, *_ = box["box"]
        tag = np.array([0, left, top, left + LETTER * len(name), top + LINE])
        draw(canvas, tag / size, color, thickness=-1)
        draw(canvas, np.array([0, *box["box"]]) / size, color, names=[name])
    if "segments" in reply:
        classes = outputs[0][0].argmax(0)
        colors = np.array([_color(number) for number in range(int(classes.max()) + 1)], np.uint8)
        mask = imresize(array(colors[classes]), width, height, 0).asnumpy()
        canvas = np.asarray((canvas.astype(np.float32) + mask) / 2, np.uint8)
    return codecs.encode(canvas, "png", 3)


def _color(number: int) -> list[float]:
    return [255 * part for part in colorsys.hsv_to_rgb(number * GOLDEN % 1, 0.8, 0.9)]
