"""The algorithm that made a model, by names of files and nodes, and the form of its images.

Properties that the makers of a model do not document are called defaults, and options change them.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ..convert.model_formats import (
    Shapes,
    StoredModel,
    find_parts,
    only_archive,
    read_archive,
    read_model,
)
from ..core.model_archive import Metadata, beside
from ..graph import Graph

__all__ = ["Origin", "DescribedModel", "Pixels", "describe", "next_commands", "recognize"]

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SSD_MEAN = (123.0, 117.0, 104.0)
COMPREFACE = ("arcface-r100-msfdrop75", "arcface-r50-msfdrop75", "arcface_mobilefacenet",
              "arcface_resnet34", "arcface_resnet50", "mafa_kaggle123", "retinaface_mnet025_v1",
              "retinaface_mnet025_v2")
"""Models that CompreFace brings, beside those of InsightFace's own model zoo."""


class Pixels(NamedTuple):
    """The input of a network for an image: (pixels * scale - mean) / std, red first."""

    scale: float = 1.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    why: str = "the default for networks of unknown origin"

    def __str__(self) -> str:
        parts = [f"times {self.scale:.5g}"] * (self.scale != 1)
        parts += [f"minus {_numbers(self.mean)}"] * any(self.mean)
        parts += [f"divided by {_numbers(self.std)}"] * any(one != 1 for one in self.std)
        return "RGB from 0 to 255, " + (", ".join(parts) or "as they are")


def _numbers(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in values)


class Origin(NamedTuple):
    """The algorithm or program that made a model.

    `task` says what its outputs are: ``classes``, ``boxes``, ``faces``, ``segments``, ``vector``,
    or is empty if only their shapes tell; `pixels` how images become inputs; `page` is the one
    about it, of docs/archives.  `shape` is that of the `data` of such networks, empty if it
    varies; `outputs` the output to predict with, if it is not among the heads of a training
    symbol.
    """

    name: str
    task: str = ""
    pixels: Pixels = Pixels()
    page: str = ""
    shape: tuple[int, ...] = ()
    outputs: str | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of inputs, as far as they are known."""
        return {"data": self.shape} if self.shape else {}


class DescribedModel(NamedTuple):
    """A model, what lies beside it, and what made it."""

    model: StoredModel
    metadata: Metadata
    names: list[str]
    algorithm: Origin

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of inputs, as far as they are known."""
        hints = {**self.model.implied_shapes(), **self.algorithm.shapes, **self.metadata.shapes}
        return {name: shape for name, shape in hints.items() if name in self.model.inputs}


class _Traits(NamedTuple):
    """Facts of a model that rows of the table test."""

    files: Collection[str]
    nodes: Collection[str]
    operators: Collection[str]
    heads: Collection[str]
    hyperparameters: Collection[str]


_KNOWN: list[tuple[Callable[[_Traits], bool], Origin]] = [
    (lambda found: any(name.startswith("image-classification-") for name in found.files),
     Origin("image classification of SageMaker", "classes",
            Pixels(why="as the service's own container does"), "image-classification.md")),
    (lambda found: "model_algo_1-symbol.json" in found.files
     and "_contrib_MultiBoxDetection" in found.operators,
     Origin("object detection of SageMaker", "boxes",
            Pixels(1.0, SSD_MEAN, why="the mean of MXNet's example/ssd; SageMaker's is not "
                   "documented"), "object-detection.md")),
    (lambda found: "mx-mod-symbol.json" in found.files,
     Origin("linear learner of SageMaker", "classes", page="linear-learner.md")),
    (lambda found: "model_algo-1" in found.files and "backbone" in found.hyperparameters,
     Origin("semantic segmentation of SageMaker", "segments",
            Pixels(1 / 255, *IMAGENET, why="as GluonCV does"), "semantic-segmentation.md")),
    (lambda found: any(head.startswith("face_rpn_cls_prob") for head in found.heads),
     Origin("face detection of InsightFace (RetinaFace)", "faces",
            Pixels(why="as InsightFace does"), "insightface.md", (1, 3, 640, 640))),
    (lambda found: "fc1" in found.nodes and "pre_fc1" in found.nodes,
     Origin("face recognition of InsightFace", "vector",
            Pixels(why="the network scales them itself"), "insightface.md", (1, 3, 112, 112),
            "fc1")),
    (lambda found: "_contrib_MultiBoxDetection" in found.operators,
     Origin("object detection by SSD", "boxes",
            Pixels(1.0, SSD_MEAN, why="the mean of MXNet's example/ssd"),
            "object-detection.md")),
]


def recognize(path: str, names: Collection[str], model: StoredModel, metadata: Metadata
              ) -> Origin:
    """Find the algorithm that made a model, which lies in files of these names."""
    nodes = [] if model.symbol is None else Graph(model.symbol.entries).nodes
    heads = [] if model.symbol is None else model.symbol.list_outputs()
    traits = _Traits({name.rpartition("/")[2] for name in names},
                     {node.name for node in nodes}, {node.op_name for node in nodes}, heads,
                     metadata.hyperparameters)
    plain = Origin("a network of MXNet" if nodes else "parameters without a network")
    algorithm = next((one for fits, one in _KNOWN if fits(traits)), plain)
    if any(known in name for known in COMPREFACE for name in (path, *names)):
        return algorithm._replace(name=f"{algorithm.name}, of CompreFace", page="compreface.md")
    return algorithm


def describe(paths: Sequence[str], epoch: int | None = None, shapes: Shapes | None = None
             ) -> DescribedModel:
    """Read a model and its metadata, and tell which algorithm made it; see `read_model`."""
    archive = only_archive(paths)
    if archive is not None:
        model, metadata, names = read_archive(archive, epoch), archive.metadata, [*archive.members]
    else:
        names = find_parts(paths, epoch)
        model, metadata = read_model(paths, epoch, shapes), beside(names[0])
        names = [os.path.basename(name) for name in names]
    return DescribedModel(model, metadata, names, recognize(paths[0], names, model, metadata))


def next_commands(path: str, model: StoredModel, algorithm: Origin, metadata: Metadata
                  ) -> list[str]:
    """Commands that predict with a model, and that convert it, ready to paste."""
    name, stem = shlex.quote(path), shlex.quote(_stem(path))
    if algorithm.task == "segments":
        return [f"nbmod convert {name} -o {stem}.params",
                f"python -c {shlex.quote(_export_program(_stem(path), metadata.hyperparameters))}"]
    shape = metadata.shapes.get("data") or algorithm.shape
    option = f" --shape data={','.join(map(str, (1, *shape[1:])))}" if shape else (
        "" if algorithm.page == "linear-learner.md" else f" {model.shape_option()}")
    until = f" --until {algorithm.outputs}" if algorithm.outputs else ""
    sample = "rows.csv" if not option else "image.jpg"
    return [f"nbmod predict {name} {sample}{'' if shape or not option else option}",
            f"nbmod convert {name} -o {stem}.onnx{option}{until}"]


def _export_program(stem: str, hyperparameters: Mapping[str, str]) -> str:
    """A program that builds the network of parameters with GluonCV, and exports it."""
    network = {"psp": "PSPNet", "deeplab": "DeepLabV3"}.get(hyperparameters.get("algorithm", ""),
                                                            "FCN")
    backbone = hyperparameters["backbone"].replace("-", "")
    classes = int(hyperparameters.get("num_classes", 21))
    return (f"import gluoncv, mxnet as mx; net = gluoncv.model_zoo.{network}({classes}, "
            f"backbone={json.dumps(backbone)}, pretrained_base=False); "
            f"net.load_parameters({json.dumps(stem + '.params')}); net.hybridize(); "
            f"net(mx.nd.zeros((1, 3, 480, 480))); net.export({json.dumps(stem)})")


def _stem(path: str) -> str:
    """The name of a model without folders and suffixes of archives."""
    base = os.path.basename(path)
    for suffix in (".gz", ".bz2", ".xz", ".tar", ".tgz", ".zip"):
        base = base.removesuffix(suffix)
    return base
