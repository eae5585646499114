"""Networks and parameters in archives, and what lies beside them.

    model.tar.gz                        the network of the archive, and its newest parameters
    model.tar.gz/image-classification   that of this prefix

An archive has whatever a training service or an author has put into it, so a network is found by
what files contain and by how MXNet calls them.  What describes a model is read from an archive or
from the folder of a checkpoint: shapes of inputs, hyperparameters, names of classes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, NoReturn

from ..base import MXNetError

__all__ = ["Metadata", "ModelArchive", "ModelMembers", "archive_at", "archive_name", "beside",
           "read_labels"]

PARAMS_MAGIC = b"\x12\x01\0\0\0\0\0\0"
EPOCH = re.compile(r"(.*)-(\d{4,})\.params", re.DOTALL)
SERVICE_ARTIFACT = "model_algo-1"
"""How the training service calls the model of an algorithm that has one file."""
SHAPES = ("model-shapes.json", "signature.json")
HYPERPARAMETERS = ("hyperparams.json", "additional-params.json")
LABELS = ("synset.txt", "labels.txt", "label.txt", "classes.txt", "classes.names", "labels.json",
          "classes.json", "index_to_name.json")
MOST_METADATA = 1 << 22
"""Bytes of a file that describes a model."""
SYNSET = re.compile(r"n\d{8}[ \t]+(.+)")
"""A line of ImageNet's list: a number of WordNet, and names."""
MOST_NAMED = 20
"""Members that an error lists."""
Shapes = dict[str, tuple[int, ...]]


class Metadata(NamedTuple):
    """Files that describe a model, parsed.

    They have shapes of inputs, hyperparameters of the training service, and names of classes, from
    class 0; what no file has is empty.
    """

    shapes: Shapes
    hyperparameters: dict[str, str]
    labels: list[str]


class ModelMembers(NamedTuple):
    """Names of the members that are a model; None for what is not there."""

    symbol: str | None
    params: str | None


class ModelArchive:
    """An archive with a model.

    `prefix` is that of the network in it, or the folder; needed if there are several.
    """

    def __init__(self, path: str, prefix: str = ""):
        from .archive_members import read_members

        self.path, self.prefix = path, prefix
        self.members = read_members(path)

    def find(self, epoch: int | None = None) -> ModelMembers:
        """Choose the network, and its parameters, of an epoch or the newest.

        MXNetError if there is neither, or if there are several, and nothing says which.
        """
        if self.prefix and not self._selected:
            self.fail("no member begins so", "give the prefix of a network in it")
        networks = {name: members for name in self._networks
                    if (members := self._params_of(name, epoch)) is not None or epoch is None}
        complete = [name for name, members in networks.items() if members] or [*networks]
        if len(complete) > 1:
            prefix = complete[0].removesuffix("-symbol.json")
            self.fail(f"there are {len(complete)} networks: {_listed(complete)}",
                      f"name one of them, such as {self.path}/{prefix}")
        if complete:
            return ModelMembers(complete[0], networks[complete[0]])
        if self._networks:
            self.fail(f"there are no parameters of epoch {epoch}",
                      "choose one of those in the archive, or leave the epoch out")
        params = self._only_params(self._params, epoch)
        if params is None:
            self.fail("there is neither a network (-symbol.json) nor parameters (.params)",
                      "give the archive of a model")
        return ModelMembers(None, params)

    def fail(self, problem: str, cure: str) -> NoReturn:
        """Raise MXNetError with the members of the archive."""
        where = f"{self.path}/{self.prefix}" if self.prefix else self.path
        names = _listed([*self.members]) if self.members else "nothing"
        raise MXNetError(f"{where}: {problem}; {cure}; the archive holds {names}")

    @cached_property
    def _selected(self) -> list[str]:
        """Names of the members that begin with the prefix, as a name or a folder."""
        prefix = self.prefix.removesuffix("-symbol.json")
        return [name for name in self.members if not prefix or name.startswith(
            (f"{prefix}-", f"{prefix}/", f"{prefix}.")) or name == prefix]

    @cached_property
    def _networks(self) -> list[str]:
        return [name for name in self._selected if name.endswith(".json") and (
            name.endswith("symbol.json") or _is_symbol(self.members[name]))]

    @cached_property
    def _params(self) -> list[str]:
        return [name for name in self._selected if name.endswith(".params") or (
            not os.path.splitext(name)[1] and self.members[name][:8] == PARAMS_MAGIC)]

    def _params_of(self, network: str, epoch: int | None) -> str | None:
        """The parameters of a network: those of its prefix, or else the only ones beside it."""
        owners = {name: f"{match[1]}-symbol.json" if (match := EPOCH.fullmatch(name)) else ""
                  for name in self._params}
        own = [name for name, owner in owners.items() if owner == network]
        beside = [name for name, owner in owners.items() if owner not in self._networks
                  and os.path.dirname(name) == os.path.dirname(network)]
        return self._only_params(own or beside, epoch)

    def _only_params(self, names: Sequence[str], epoch: int | None) -> str | None:
        """The newest parameters, or those of an epoch; MXNetError if it is not clear which."""
        epochs = {int(match[2]): name for name in names if (match := EPOCH.fullmatch(name))}
        if epoch is not None:
            return epochs.get(epoch)
        of_service = [name for name in names if os.path.basename(name) == SERVICE_ARTIFACT]
        chosen = [epochs[max(epochs)]] if epochs else of_service or names
        if len(chosen) > 1:
            self.fail(f"there are parameters in {len(chosen)} files: {_listed(chosen)}",
                      "unpack it, and name one of them")
        return chosen[0] if chosen else None

    def content(self, name: str) -> bytes:
        """The content of a member."""
        return bytes(self.members[name])

    @cached_property
    def metadata(self) -> Metadata:
        """The description of the model in the archive; files beside the network count first."""
        folder = os.path.dirname(next(iter([*self._networks, *self._params]), ""))
        order = sorted(self.members, key=lambda name: os.path.dirname(name) == folder)
        return _metadata({os.path.basename(name): self.members[name] for name in order
                          if len(self.members[name]) <= MOST_METADATA})


def _is_symbol(content: memoryview) -> bool:
    """Whether JSON text is that of a symbol."""
    text = bytes(content[:1 << 20])
    return text.lstrip().startswith(b"{") and b'"nodes"' in text


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def archive_at(path: str | os.PathLike[str]) -> ModelArchive | None:
    """Open the archive that a name is of, or leads into; None if there is no archive of that name.

    Names are such as ``model.tar.gz`` or ``model.tar.gz/image-classification``.  MXNetError if the
    archive cannot be read, or has what no archive of a model has.
    """
    names = archive_name(path)
    return None if names is None else ModelArchive(*names)


def archive_name(path: str | os.PathLike[str]) -> tuple[str, str] | None:
    """The name of the archive that `path` is of, or leads into, and the name within it, or None."""
    name = os.fspath(path).replace(os.sep, "/")
    if os.path.isfile(f"{name}-symbol.json"):    # a checkpoint, whose prefix may be a file, too
        return None
    from .archive_members import is_archive

    outer, inner = name, ""
    while outer and not os.path.exists(outer):
        outer, _, last = outer.rpartition("/")
        inner = f"{last}/{inner}" if inner else last
    return (outer, inner) if outer and is_archive(outer) else None


def beside(prefix: str) -> Metadata:
    """Read the files that lie in the folder of a checkpoint and describe it, if there are any."""
    folder = os.path.dirname(prefix)
    contents: dict[str, memoryview] = {}
    for name in (*SHAPES, *HYPERPARAMETERS, *LABELS):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.path.getsize(path) <= MOST_METADATA:
            with open(path, "rb") as stream:
                contents[name] = memoryview(stream.read())
    return _metadata(contents)


def read_labels(path: str | os.PathLike[str]) -> list[str]:
    """Read the names of classes, from class 0; MXNetError if the file has none.

    It is a text file with a line for each class, of which ImageNet's may begin with a number of
    WordNet; or a JSON file with a list, or with a dict by the numbers of classes.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as stream:
            labels = _labels(name, memoryview(stream.read(MOST_METADATA)))
    except OSError as error:
        raise MXNetError(f"{name}: cannot be read: {error.strerror or error}") from error
    if not labels:
        raise MXNetError(f"{name}: there are no names of classes, expected a line for each, or "
                         "JSON: a list, or a dict by number")
    return labels


# -- what describes a model ---------------------------------------------------------------------


def _metadata(files: Mapping[str, memoryview]) -> Metadata:
    """The description of a model in files by their names; unreadable ones add nothing."""
    def parsed(names: Sequence[str]) -> list[object]:
        return [_json(files[name]) for name in names if name in files]

    hyperparameters = {key: str(value) for content in parsed(HYPERPARAMETERS)
                       if isinstance(content, dict) for key, value in content.items()
                       if isinstance(value, (str, int, float))}
    shapes = next((shapes for content in parsed(SHAPES) if (shapes := _shapes(content))), {})
    labels = next((names for name in LABELS if name in files
                   if (names := _labels(name, files[name]))), [])
    return Metadata(shapes or _image_shape(hyperparameters.get("image_shape", "")),
                    hyperparameters, labels)


def _json(content: memoryview) -> object:
    try:
        return json.loads(bytes(content))
    except (ValueError, RecursionError):
        return None


def _shapes(description: object) -> Shapes:
    """Shapes of inputs, as the training service or MXNet's model server writes them."""
    entries = description.get("inputs") if isinstance(description, dict) else description
    shapes = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            name = entry.get("name", entry.get("data_name"))
            shape = entry.get("shape", entry.get("data_shape"))
            if isinstance(name, str) and isinstance(shape, list) and all(
                    type(size) is int for size in shape):
                shapes[name] = tuple(size or 1 for size in shape)    # 0: any number of samples
    return {name: shape for name, shape in shapes.items() if shape and min(shape) > 0}


def _image_shape(text: str) -> Shapes:
    """The shape of `data` for the hyperparameter image_shape: 3,224,224, or one side."""
    sizes = [int(size) for size in text.split(",") if size.strip().isdigit()]
    if len(sizes) == 1:
        sizes = [3, *sizes * 2]
    return {"data": (1, *sizes)} if len(sizes) == 3 and min(sizes) > 0 else {}


def _labels(name: str, content: memoryview) -> list[str]:
    """Names of classes: a line each, or a list or dict of JSON."""
    if name.endswith(".json"):
        classes = _json(content)
        if isinstance(classes, dict) and all(key.isdigit() for key in classes):
            classes = [classes[key] for key in sorted(classes, key=int)]
        return [str(label) for label in classes] if isinstance(classes, list) else []
    lines = bytes(content).decode("utf-8", "replace").splitlines()
    return [match[1] if (match := SYNSET.fullmatch(line.strip())) else line.strip()
            for line in lines if line.strip()]
