"""Which nodes of a file are one operator of MXNet: written by the exporter, read by the importer.

Some operators become nodes from which nobody could guess them, such as the thirty around
NonMaxSuppression of `box_nms`.  The metadata of the model names each of them with its attributes
and the tensors where it begins and ends; the nodes themselves stay plain ONNX.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["OperatorRecord", "read_records", "write_records"]

KEY = "nbmod.operators"
"""The entry of the model's metadata."""


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


def read_records(model: ModelProto) -> list[OperatorRecord]:
    """The records of a model; those that are none are left out, as the nodes say the same."""
    found: list[OperatorRecord] = []
    for entry in model.metadata_props:
        if entry.key == KEY:
            try:
                given = json.loads(entry.value)
            except (ValueError, RecursionError):
                continue
            found += [OperatorRecord(**each) for each in given if _is_record(each)] if isinstance(
                given, list) else []
    return found


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
    return all(shape is None or isinstance(shape, list) and all(
        type(size) is int and size > 0 for size in shape) for shape in given)
