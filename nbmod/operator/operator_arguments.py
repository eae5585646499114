"""Names and types of the inputs and parameters of ops, as text."""

from __future__ import annotations

from typing import NamedTuple

from ..ops import OPS
from ..ops.signature import op_arguments

__all__ = ["OperatorArguments", "get_all_registered_operators", "get_operator_arguments"]


class OperatorArguments(NamedTuple):
    """Inputs, then parameters of an op."""

    narg: int
    names: list[str]
    types: list[str]


def get_all_registered_operators() -> list[str]:
    """Names of all ops, aliases included."""
    return sorted(OPS)


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """The number of inputs and parameters of an op, their names, and their types as text."""
    arguments = op_arguments(OPS.find(op_name))
    return OperatorArguments(len(arguments), list(arguments), list(arguments.values()))
