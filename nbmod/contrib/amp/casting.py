"""Casts of `amp.init`: nodes and calls made afterwards read their inputs cast.

Unlike `passes.mixed_precision`, which converts a finished graph and casts each entry once, this
looks at one operator at a time, so that every operator has casts of its own, named as by any other
call (`amp_cast0`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph import Entry, Node
from ...ndarray import NDArray, eager, invoke
from ...ops import OPS, Op
from ...passes.mixed_precision import Precision
from ...symbol import Symbol, compose

__all__ = ["install", "installed"]

_LOW, _SINGLE = np.dtype(np.float16), np.dtype(np.float32)


def installed() -> bool:
    """Whether inputs are cast."""
    return compose.cast_inputs is not None


def install(precision: Precision) -> None:
    """Cast the inputs of all nodes that are made, and of all arrays' operations, from now on."""
    casts = _InputCasts(precision)
    compose.cast_inputs = casts.of_node
    eager.cast_inputs = casts.of_call


class _InputCasts:
    """The casts of inputs, by operator."""

    def __init__(self, precision: Precision):
        self.precision = precision
        self._to = {dtype: OPS.find("amp_cast").from_attrs({"dtype": dtype.name})
                    for dtype in (_LOW, _SINGLE)}

    def of_node(self, node: Node) -> list[Entry]:
        """Inputs of a node, cast; auxiliary states stay as they are."""
        assert node.op is not None
        if node.op_name in self.precision.widest:
            casts = compose.named_node("amp_multicast", [Symbol([entry]) for entry in node.inputs],
                                       "amp_multicast", num_outputs=len(node.inputs))
            return [Entry(casts, i) for i in range(len(node.inputs))]
        dtype, aux = self._type_for(node.op), node.op.aux_indices()
        if dtype is None:
            return node.inputs
        return [entry if i in aux else _cast_node(entry, dtype.name)
                for i, entry in enumerate(node.inputs)]

    def of_call(self, op: Op, inputs: Sequence[NDArray]) -> Sequence[NDArray]:
        """Inputs of a call; only float16 and float32 are cast."""
        if op.name in self.precision.widest:
            meet = {np.dtype(array.dtype) for array in inputs} >= {_LOW, _SINGLE}
            dtype = _SINGLE if meet else None
        else:
            dtype = self._type_for(op)
        if dtype is None:
            return inputs
        aux = op.aux_indices()
        return [array if i in aux or array.dtype == dtype or array.dtype not in (_LOW, _SINGLE)
                else invoke(self._to[dtype], [array]) for i, array in enumerate(inputs)]

    def _type_for(self, op: Op) -> np.dtype[Any] | None:
        """The type of an operator's inputs; None if they stay as they are."""
        if op.name in self.precision.low:
            return _LOW
        if op.name in self.precision.single:
            return _SINGLE
        if any(op.name == name and str(getattr(op, key, None)) in values
               for name, key, values in self.precision.conditional):
            return _SINGLE
        return None


def _cast_node(entry: Entry, dtype: str) -> Entry:
    return Entry(compose.named_node("amp_cast", [Symbol([entry])], "amp_cast", dtype=dtype))
