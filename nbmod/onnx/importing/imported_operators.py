"""Operators of ONNX that are imported, with their opsets: the matrix in docs/onnx.md."""

from __future__ import annotations

from typing import NamedTuple

from ..exporting.onnx_graph import IR_VERSIONS
from .constant_folding import Folder
from .function_body import is_function
from .node_import import load_importers
from .onnx_file import FIRST_OPSET

__all__ = ["OperatorSupport", "imported_operators"]

FIRST = {"Scan": 9}
"""Operators of which an older form is not imported -> first opset."""


class OperatorSupport(NamedTuple):
    """How an operator of ONNX is imported, and the opsets that have it in such a form.

    The `way` is 'operators' of MXNet, the 'function' that defines it, or a 'constant' that is
    computed while the model is imported.
    """

    opsets: range
    way: str


def imported_operators() -> dict[str, OperatorSupport]:
    """Operators of ONNX that are imported, by name."""
    from onnx import defs

    latest, folder, operators = max(IR_VERSIONS), Folder(0), {}
    names = {schema.name for schema in defs.get_all_schemas() if not schema.domain}
    for name in sorted({*names, *load_importers()}):
        opsets = _opsets(name, latest)
        if name in load_importers() and name not in CONSTANTS:
            operators[name] = OperatorSupport(opsets, "operators")
        elif name in folder:
            operators[name] = OperatorSupport(opsets, "constant")
        elif any(is_function(name, opset) for opset in opsets):
            first = min(opset for opset in opsets if is_function(name, opset))
            operators[name] = OperatorSupport(range(first, opsets.stop), "function")
    return operators


CONSTANTS = frozenset({"Constant", "ConstantOfShape", "Range", "Shape", "Size"})
"""Operators whose converter only says that a value is not known."""


def _opsets(name: str, latest: int) -> range:
    """Opsets from 7 that have an operator of ONNX, up to that which deprecates it."""
    from onnx import defs

    versions = {schema.since_version: schema for schema in defs.get_all_schemas_with_history()
                if schema.domain == "" and schema.name == name}
    newest = versions[max(versions)]
    last = newest.since_version - 1 if newest.deprecated else latest
    return range(max(min(versions), FIRST.get(name, FIRST_OPSET)), last + 1)
