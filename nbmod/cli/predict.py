"""`predict`: classes, boxes or segments of images, by a checkpoint or an archive.

    nbmod predict model.tar.gz cat.jpg dog.jpg
    nbmod predict ssd street.jpg --labels classes.txt --out drawn
    nbmod predict linear.tar.gz rows.csv --json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base import Array, MXNetError
from ..core.atomic import atomic_write, require_other_files, require_writable
from ..core.compressed import refusing
from .options import add_model_options, import_modules

if TYPE_CHECKING:
    from ..serving import Predictor
    from .origins import DescribedModel, Pixels

__all__ = ["HELP", "arguments", "run"]

HELP = "tell the classes, boxes or segments of images by a trained network"
TABLES = (".csv", ".npy")


class InputSample(NamedTuple):
    """One input: where it is from, its array, and the image, if it is one."""

    name: str
    value: Array
    image: Array | None


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("model", help="an archive such as model.tar.gz, the prefix of a checkpoint, or .onnx")
    add("files", nargs="+", metavar="IMAGE", help="images; or .csv and .npy files, of which each "
        "row is a sample")
    add_model_options(parser)
    add("--outputs", metavar="NAME", action="append", help="an output, or an inner node, to "
        "predict with; default: those that need no labels")
    add("--labels", metavar="FILE", help="names of classes, a line each, or JSON; default: those "
        "beside the model")
    add("--top", type=int, default=5, help="classes to tell; default: %(default)s")
    add("--threshold", type=float, default=0.5, help="least score of a box; default: %(default)s")
    add("--mean", type=_numbers, metavar="R,G,B", help="subtracted from the pixels")
    add("--std", type=_numbers, metavar="R,G,B", help="divides the pixels after that")
    add("--scale", type=float, help="multiplies the pixels first; default: 1, so 0 to 255")
    add("--bgr", action="store_true", help="the network wants blue first")
    add("--out", metavar="FOLDER", help="draw boxes or segments into a PNG file of each image")
    add("--json", action="store_true", help="print JSON, one line for each image")


def _numbers(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 123,117,104") from None
    return values * 3 if len(values) == 1 else values


def run(options: argparse.Namespace) -> int:
    """Print an answer for each image."""
    from .answers import Reading, answer, lines, picture
    from .face_boxes import face_boxes
    from .origins import describe

    import_modules(options)
    targets = _targets(options)
    description = describe([options.model], options.epoch, dict(options.shape))
    predictor = _predictor(options, description)
    (name, shape), = predictor.input_shapes.items()
    task = "" if options.outputs else description.algorithm.task
    names = _labels(options.labels) or description.metadata.labels or ["face"] * (task == "faces")
    reading = Reading(names, options.top, options.threshold, task,
                      (shape[2], shape[3]) if len(shape) == 4 else None)
    vectors: dict[str, Array] = {}
    pixels = _changed(description.algorithm.pixels, options)
    for sample in _samples(options, shape, pixels):
        outputs = predictor(**{name: sample.value})
        if task == "faces":
            outputs = [face_boxes(dict(zip(predictor.output_names, outputs, strict=True)),
                                  (shape[2], shape[3]), options.threshold)]
        height, width = (1, 1) if sample.image is None else sample.image.shape[:2]
        told = answer(outputs, (height, width), reading)
        if options.json:
            print(json.dumps({"file": sample.name, **told}))
        else:
            print("\n".join([f"{sample.name}:", *(f"  {line}" for line in lines(told))]))
            _tell_similarities(vectors, sample.name, told.get("vector"))
        if sample.name in targets and sample.image is not None:
            with atomic_write(targets[sample.name]) as stream:
                stream.write(picture(sample.image, told, outputs))
    if sample.image is not None:
        print(f"nbmod: predict: pixels: {pixels}{', blue first' if options.bgr else ''} "
              f"({pixels.why})", file=sys.stderr)
    return 0


def _predictor(options: argparse.Namespace, description: DescribedModel) -> Predictor:
    """The network, bound for one sample; MXNetError unless it has one input."""
    from ..serving import Predictor, UnknownInputShape

    symbol, args, auxs = description.model
    if symbol is None:
        page = description.algorithm.page
        see = f": docs/archives/{page} says how to build it" if page else ""
        raise MXNetError(f"predict: {options.model} has parameters but no network "
                         f"({description.algorithm.name}){see}")
    overrides = dict(options.shape)
    shapes = {name: (1, *shape[1:]) for name, shape in {**description.shapes, **overrides}.items()}

    def bound() -> Predictor:
        return Predictor((symbol, args, auxs), shapes, fixed=True,
                         outputs=options.outputs or description.algorithm.outputs)

    try:
        predictor = bound()
    except UnknownInputShape as error:
        rows = _rows(options.files[0]) if options.files[0].endswith(TABLES) else np.empty(0)
        if rows.ndim != len(error.likely):
            sizes = ",".join(str(size).upper() for size in error.likely[1:])
            raise MXNetError(f"predict: the shape of the input {error.name!r} is not known; give "
                             f"it: --shape {error.name}=1,{sizes}") from None
        shapes[error.name] = (1, *rows.shape[1:])
        predictor = bound()
    if len(predictor.input_names) != 1:
        raise MXNetError(f"predict: {options.model} has the inputs {predictor.input_names}, "
                         "expected one; mx.Predictor takes any number")
    return predictor


def _targets(options: argparse.Namespace) -> dict[str, str]:
    """The picture to write for each image."""
    if not options.out:
        return {}
    targets = {path: os.path.join(options.out, f"{_stem(path)}.png") for path in options.files
               if not path.endswith(TABLES)}
    os.makedirs(options.out, exist_ok=True)
    require_other_files([*targets.values()], [*options.files, options.model])
    for target in targets.values():
        require_writable(target)
    return targets


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _labels(path: str | None) -> list[str]:
    from ..core.model_archive import read_labels

    return [] if path is None else read_labels(path)


def _tell_similarities(vectors: dict[str, Array], name: str, vector: Sequence[float] | None
                       ) -> None:
    """Cosines of the angles between a vector and those before it."""
    if vector is None:
        return
    unit = np.array(vector) / max(float(np.linalg.norm(vector)), 1e-12)
    for other, before in vectors.items():
        print(f"  {float(np.dot(unit, before)):.4f}  similarity with {other}")
    vectors[name] = unit


# -- inputs -------------------------------------------------------------------------------------


def _samples(options: argparse.Namespace, shape: tuple[int, ...], pixels: Pixels
             ) -> Iterator[InputSample]:
    """The inputs in files, each of the shape of one sample."""
    for path in options.files:
        if path.endswith(TABLES):
            for number, row in enumerate(_rows(path)):
                yield InputSample(f"{path}:{number + 1}", row.reshape(shape)
                             if row.size == np.prod(shape) else row[None], None)
            continue
        if len(shape) != 4 or shape[1] not in (1, 3):
            raise MXNetError(f"predict: {options.model} has an input of shape {shape}, which "
                             f"images do not have; give rows of numbers in a {' or '.join(TABLES)}")
        yield _image(path, shape, pixels, options.bgr)


def _changed(pixels: Pixels, options: argparse.Namespace) -> Pixels:
    """Pixels with what options say."""
    overrides = {key: value for key in ("scale", "mean", "std")
                 if (value := getattr(options, key)) is not None}
    return pixels._replace(**overrides, why="as options say") if overrides else pixels


def _image(path: str, shape: tuple[int, ...], pixels: Pixels, blue_first: bool) -> InputSample:
    """An image, resized to the input of a network."""
    from ..image import imresize
    from ..imgproc import codecs
    from ..ndarray import array

    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise MXNetError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        image = codecs.decode(content, 3)
        gray = codecs.decode(content, 1) if shape[1] == 1 else image
    except MXNetError as error:
        raise MXNetError(f"{path}: {error}") from None
    _, channels, height, width = shape
    planes = imresize(array(gray), width, height).asnumpy().astype(np.float32)
    mean, std = (np.array(values[:channels], np.float32) for values in (pixels.mean, pixels.std))
    planes = (planes.reshape(height, width, channels) * np.float32(pixels.scale) - mean) / std
    value = planes[..., ::-1] if blue_first else planes
    return InputSample(path, np.ascontiguousarray(value.transpose(2, 0, 1))[None], image)


def _rows(path: str) -> Array:
    """The rows of a file of numbers."""
    with refusing(path, "rows of numbers"):
        rows = np.load(path, allow_pickle=False) if path.endswith(".npy") else np.loadtxt(
            path, np.float32, delimiter=",", ndmin=2)
    return np.atleast_2d(rows).astype(np.float32)
