"""Errors of importing ONNX files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ...base import ArgumentError, MXNetError

if TYPE_CHECKING:
    from onnx import NodeProto

__all__ = ["RULE_ERRORS", "SHOWN", "DamagedModel", "ShapeNeeded", "UnsupportedModel",
           "UnsupportedNode", "attribute_text"]

SHOWN = 200
"""Nodes that an error describes."""
RULE_ERRORS = (MXNetError, ValueError, TypeError, KeyError, IndexError, ArithmeticError)
"""Errors of operators and converters for attributes and shapes that they do not expect."""


class DamagedModel(ArgumentError):
    """An ONNX file that is damaged, inconsistent or hostile; it is a ValueError, too."""


class ShapeNeeded(MXNetError):
    """A model that cannot be imported without the shape or the values of an input.

    `inputs` are those whose values are needed (the argument `constants`).
    """

    def __init__(self, message: str, inputs: Sequence[str] = ()):
        super().__init__(message)
        self.inputs = list(inputs)


class UnsupportedNode(NamedTuple):
    """A node that cannot be imported, and why.

    `name` is its own or that of its first output; `operator` has the domain unless that is ONNX's
    own; `reason` says what nbmod lacks; `inputs` are those of the model whose values the node
    needs.
    """

    name: str
    operator: str
    attributes: str
    reason: str
    inputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.operator}({self.attributes}): {self.reason}"


class UnsupportedModel(MXNetError):
    """A model with nodes that nbmod has no equivalent for: all of them are in `nodes`."""

    def __init__(self, nodes: Sequence[UnsupportedNode]):
        shown = "\n".join(f"  {node}" for node in nodes[:SHOWN])
        more = f"\n  and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
        super().__init__(f"import_model: {len(nodes)} nodes cannot be imported:\n{shown}{more}")
        self.nodes = list(nodes)


def attribute_text(proto: NodeProto) -> str:
    """The attributes of a node, shortened."""
    import onnx

    shown = []
    for attribute in proto.attribute:
        value: object = "..."
        if not (attribute.HasField("t") or attribute.HasField("g") or attribute.graphs):
            with suppress(ValueError):
                value = onnx.helper.get_attribute_value(attribute)
        shown.append(f"{attribute.name}={value!r}"[:100] if value != "..."
                     else f"{attribute.name}=...")
    return ", ".join(shown)
