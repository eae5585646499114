"""Which nodes of a file are one operator of MXNet: written by the exporter, read by the importer.

Some operators become nodes from which nobody could guess them, such as the thirty around
NonMaxSuppression of `box_nms`.  The metadata of the model names each of them with its attributes
and the tensors where it begins and ends; the nodes themselves stay plain ONNX.  Of inputs with
dynamic axes it has the shapes at export, since nodes may follow from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ..ops.param import Shape

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["OperatorRecord", "read_records", "read_shapes", "write_records", "write_shapes"]

KEY, SHAPES_KEY = "nbmod.operators", "nbmod.shapes"
"""The entries of the model's metadata: operators, and shapes of inputs that have dynamic axes."""


class OperatorRecord(NamedTuple):
    """An operator of MXNet that a file has as several nodes.

    Attributes
    ----------
    operator, name : str
        The operator, and the name of its node.
    attributes : dict of str to str
        Its attributes.
    inputs : list of str
        Tensors of the file; '' for those that it does not have as they are.
    outputs : list of str
        Tensors of the file; '' for outputs that nothing needs.
    packed : str
        Name of a parameter that the file has in another form, such as in pieces; '' if there is
        none.
    shapes : list of (list of int or None)
        For each of the inputs that the file lacks its shape, as nothing else of it matters; None
        for `packed`.
    """

    operator: str
    name: str
    attributes: dict[str, str]
    inputs: list[str]
    outputs: list[str]
    packed: str
    shapes: list[list[int] | None]


def write_records(model: ModelProto, records: Sequence[OperatorRecord]) -> None:
    """Add records to the metadata of a model."""
    if records:
        text = json.dumps([each._asdict() for each in records], separators=(",", ":"))
        model.metadata_props.add(key=KEY, value=text)


def write_shapes(model: ModelProto, shapes: Mapping[str, Shape]) -> None:
    """Add the shapes that inputs with dynamic axes had at export to the metadata of a model."""
    if shapes:
        model.metadata_props.add(key=SHAPES_KEY, value=json.dumps(shapes, separators=(",", ":")))


def read_shapes(model: ModelProto) -> dict[str, Shape]:
    """The shapes of inputs in the metadata of a model; what are no shapes are left out."""
    found: dict[str, Shape] = {}
    for given in _entries(model, SHAPES_KEY):
        if isinstance(given, dict):
            found |= {name: tuple(shape) for name, shape in given.items() if _is_shape(shape)}
    return found


def read_records(model: ModelProto) -> list[OperatorRecord]:
    """The records of a model; those that are none are left out, as the nodes say the same."""
    return [OperatorRecord(**each) for given in _entries(model, KEY) if isinstance(given, list)
            for each in given if _is_record(each)]


def _entries(model: ModelProto, key: str) -> Iterator[object]:
    """The values of the entries of a key, as far as they are JSON."""
    for entry in model.metadata_props:
        if entry.key == key:
            with suppress(ValueError, RecursionError):
                yield json.loads(entry.value)


def _is_record(given: object) -> bool:
    if not isinstance(given, dict) or given.keys() != set(OperatorRecord._fields):
        return False
    texts = [given["operator"], given["name"], given["packed"]]
    for key in ("inputs", "outputs"):
        texts += given[key] if isinstance(given[key], list) else [None]
    attributes = given["attributes"]
    texts += attributes.values() if isinstance(attributes, dict) else [None]
    return bool(given["name"]) and all(isinstance(each, str) for each in texts) and _are_shapes(
        given["shapes"], given["inputs"].count(""), bool(given["packed"]))


def _are_shapes(given: object, count: int, packed: bool) -> bool:
    """Whether these are shapes of `count` inputs, None for one that is packed."""
    if not isinstance(given, list) or (len(given), given.count(None)) != (count, int(packed)):
        return False
    return all(shape is None or _is_shape(shape) for shape in given)


def _is_shape(given: object) -> bool:
    return isinstance(given, list) and all(type(size) is int and size > 0 for size in given)
