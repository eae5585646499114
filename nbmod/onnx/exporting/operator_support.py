"""Operators that are exported, with their opsets: the matrix in docs/onnx.md."""

from __future__ import annotations

from ...ops import OPS
from .converter import OPSETS, load_converters
from .inference_form import IDENTITIES, REPLACED
from .onnx_graph import IR_VERSIONS

__all__ = ["exported_opsets", "get_operator_support"]


def exported_opsets() -> dict[str, range]:
    """Operator -> opsets that it is exported with."""
    names = {*load_converters(), *IDENTITIES, *REPLACED}
    return {name: range(OPSETS.get(name, min(IR_VERSIONS)), max(IR_VERSIONS) + 1)
            for name in sorted(names)}


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """Names of the operators that `export_model` writes.

    Parameters
    ----------
    opset_version : int, optional
        Version of ONNX's operators; by default the latest.

    Returns
    -------
    list of str
        All names of these operators, sorted; none for an opset that is not written.

    Examples
    --------
    >>> "Convolution" in mx.onnx.get_operator_support()
    True
    """
    opset = max(IR_VERSIONS) if opset_version is None else opset_version
    supported = {name for name, opsets in exported_opsets().items() if opset in opsets}
    return sorted(name for name, op in OPS.items() if op.name in supported)
