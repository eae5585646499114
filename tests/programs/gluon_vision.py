"""Gluon's data sets of images and transformations, in MXNet and nbmod."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import numpy as np

from tests.programs.gluon_data import plain

TRANSFORMS = (
    ("ToTensor", (), "image"), ("ToTensor", (), "batch"), ("Cast", ("float16",), "image"),
    ("Normalize", (0.1, 2.0), "tensor"), ("Normalize", ((0.1, 0.2, 0.3), (1, 2, 3)), "tensor"),
    ("Resize", (4,), "image"), ("Resize", ((4, 5), True), "image"), ("Resize", (3, True), "image"),
    ("Resize", ((4, 5), False, 0), "batch"), ("CenterCrop", (3,), "image"),
    ("CenterCrop", ((4, 9),), "image"), ("CropResize", (1, 2, 4, 3), "image"),
    ("CropResize", (1, 2, 4, 3, (2, 2), 1), "image"), ("CropResize", (0, 0, 3, 3, 5, 1), "batch"),
    ("Rotate", (30,), "tensor"), ("Rotate", (30, True), "tensor"),
    ("Rotate", (30, False, True), "tensor"), ("RandomResizedCrop", (3,), "image"),
    ("RandomResizedCrop", ((3, 4), (0.2, 0.5), (1, 2), 0), "image"),
    ("RandomRotation", ((-50, 50),), "tensor"),
    ("RandomRotation", ((-50, 50), False, True, 0.5), "tensor"),
)
RANDOM = (
    ("RandomFlipLeftRight", ()), ("RandomFlipTopBottom", ()), ("RandomBrightness", (0.3,)),
    ("RandomContrast", (2,)), ("RandomSaturation", (0.3,)), ("RandomHue", (0.3,)),
    ("RandomColorJitter", (0.1, 0.2, 0.3, 0.4)), ("RandomLighting", (0.1,)),
)


def arrays(mx: Any) -> dict[str, Any]:
    """A ramp as an image, as two images, and as a tensor."""
    image = (np.arange(6 * 8 * 3).reshape(6, 8, 3) * 7 % 256).astype(np.uint8)
    return {"image": mx.nd.array(image, dtype="uint8"),
            "batch": mx.nd.array(np.stack([image, 255 - image]), dtype="uint8"),
            "tensor": mx.nd.array(image.transpose(2, 0, 1) / 255)}


def transformed(mx: Any) -> list[np.ndarray]:
    """Three results of each transformation whose draws, if any, are Python's or NumPy's."""
    transforms, given = mx.gluon.data.vision.transforms, arrays(mx)
    random.seed(1)
    np.random.seed(1)
    return [transform(given[name]).asnumpy()
            for transform, name in [(getattr(transforms, kind)(*arguments), name)
                                    for kind, arguments, name in TRANSFORMS] for _ in range(3)]


def draws(mx: Any) -> list[Any]:
    """How often a transformation is applied, and where the generators stand then."""
    transforms, given = mx.gluon.data.vision.transforms, arrays(mx)
    random.seed(1)
    np.random.seed(1)
    chance = transforms.RandomApply(transforms.ToTensor(), 0.3)
    found: list[Any] = [np.dtype(chance(given["image"]).dtype).name for _ in range(12)]
    turn = transforms.RandomRotation((-5, 5))
    turn(given["tensor"])
    return [*found, random.random(), np.random.rand()]


def structures(mx: Any) -> list[Any]:
    """Texts of blocks, arguments of their operators, and the graph of a composition."""
    transforms = mx.gluon.data.vision.transforms
    with mx.name.NameManager():
        several = transforms.Compose([
            transforms.ToTensor(), transforms.Normalize(0, 1), transforms.CenterCrop(2),
            transforms.Cast("float16"), transforms.Rotate(3), transforms.Resize((2, 3), True),
            transforms.CropResize(0, 0, 1, 1), transforms.RandomFlipLeftRight()])
        nodes = [json.loads(several[k](mx.sym.var("data")).tojson())["nodes"] for k in (0, 2, 4)]
        texts = [repr(several), repr(transforms.Compose([])),
                 repr(transforms.RandomApply(several)), several.prefix]
    factors = ("RandomBrightness", "RandomContrast", "RandomSaturation", "RandomHue")
    arguments = [getattr(transforms, name)(amount)._args for amount in (0.3, 2) for name in factors]
    return [texts, nodes, [list(map(float, each)) for each in arguments]]


def shapes(mx: Any) -> list[Any]:
    """Shapes and types of results with draws of the library, which are not compared."""
    transforms, image = mx.gluon.data.vision.transforms, arrays(mx)["image"]
    found = []
    for name, arguments in RANDOM:
        result = getattr(transforms, name)(*arguments)(image)
        found.append([name, list(result.shape), np.dtype(result.dtype).name])
    return found


def errors(mx: Any) -> list[tuple[str, str]]:
    """Errors of wrong arguments."""
    transforms, given = mx.gluon.data.vision.transforms, arrays(mx)
    calls = (lambda: transforms.RandomRotation((5, 2)),
             lambda: transforms.RandomRotation((1, 2), rotate_with_proba=2),
             lambda: transforms.Rotate(3)(given["image"]),
             lambda: transforms.RandomRotation((1, 2))(given["image"]))
    found = []
    for call in calls:
        try:
            call()
        except (TypeError, ValueError) as error:
            kind = next(each for each in (TypeError, ValueError) if isinstance(error, each))
            found.append((kind.__name__, str(error)))
    return found


def image_files(mx: Any, folder: str) -> list[Any]:
    """Samples of folders of images and of a record file."""
    vision = mx.gluon.data.vision
    path = os.path.join(folder, "images")
    folders = [vision.ImageFolderDataset(path), vision.ImageFolderDataset(path, flag=0),
               vision.ImageFolderDataset(path, transform=lambda x, y: (x.shape, 10 * y))]
    records = [vision.ImageRecordDataset(os.path.join(folder, "a.rec"), **options) for options in (
        {}, {"flag": 0}, {"transform": lambda x, y: (x.shape, y)})]
    items = [[os.path.relpath(name, folder), label] for name, label in folders[0].items]
    return [folders[0].synsets, items, [len(each) for each in (*folders, *records)],
            [[plain(part) if not isinstance(part, np.ndarray) else part.tolist()
              for part in sample] for each in (*folders, *records) for sample in each]]


def small_files(mx: Any, folder: str) -> list[Any]:
    """Samples of files in the formats of MNIST and CIFAR."""
    vision = mx.gluon.data.vision
    datasets = getattr(mx.gluon.data, "published_files", vision.datasets)    # nbmod's, MXNet's
    kept = datasets.download, datasets.check_sha1
    datasets.download = lambda url, path, sha1_hash: os.path.join(path, url.rpartition("/")[2])
    datasets.check_sha1 = lambda path, sha1: True
    try:
        found = []
        for make, options in ((vision.MNIST, {}), (vision.FashionMNIST, {}), (vision.CIFAR10, {}),
                              (vision.CIFAR100, {}), (vision.CIFAR100, {"fine_label": True})):
            for train in (True, False):
                root = os.path.join(folder, make.__name__)
                images = make(root, train=train, **options)
                first = images[0]
                found.append([len(images), plain(first[0]), str(first[1].dtype),
                              [int(label) for _, label in images]])
        found.append(plain(vision.MNIST(os.path.join(folder, "MNIST"),
                                        transform=lambda x, y: (x.shape, y))[1]))
    finally:
        datasets.download, datasets.check_sha1 = kept
    return found
