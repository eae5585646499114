"""The gradient of dense layers with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch import REFERENCE, implements
from ..nn.fully_connected import FullyConnected
from ..op import Call

__all__: list[str] = []


def fully_connected_gradient(op: FullyConnected, ins: Sequence[Any], outs: Sequence[Any],
                             call: Call) -> None:
    """Gradients of FullyConnected, which may be added to what is there."""
    gy, x, w = ins[0].reshape(-1, op.num_hidden), op._matrix(ins[1]), ins[2]
    products = ((gy, w), (gy.T, x))
    adds = [*call.add, *[False] * len(outs)]
    for out, factors, add in zip(outs, products, adds, strict=False):
        if out is not None:
            _store(np.matmul(*factors), out, add)
    if len(outs) > 2 and outs[2] is not None:
        _store(gy.sum(axis=0), outs[2], adds[2])


def _store(values: np.ndarray, out: np.ndarray, add: bool) -> None:
    values = values.reshape(out.shape)
    if add:
        out += values
    else:
        out[...] = values


implements(FullyConnected, REFERENCE, None, fully_connected_gradient)
