"""topk, sort and argsort by NumPy's argsort, whatever the number of elements, and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch import REFERENCE, implements
from ..op import Call
from ..tensor.ordering import Argsort, Sort, TopK, _Ordering, _rank_now

__all__: list[str] = []


def ordering(op: _Ordering, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """All outputs that are wanted: values, positions, or a mask."""
    x = op.threefold(ins[0], ins[0].shape)
    where = np.empty((len(x), op.count(x.shape[1]), x.shape[2]), np.int64)
    _rank_now(x, where, not op.is_ascend)
    for kind, out in zip(op.kinds(), outs, strict=True):
        if out is None:
            continue
        y = op.threefold(out, ins[0].shape)
        if kind == "mask":
            y.fill(0)
            np.put_along_axis(y, where, 1, axis=1)
        else:
            values = np.take_along_axis(x, where, axis=1) if kind == "value" else where
            np.copyto(y, values, casting="unsafe")


def ordering_gradient(op: _Ordering, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    """The gradient of values: they pass it to the elements that they are."""
    g, where, gx = (op.threefold(tensor, outs[0].shape) for tensor in (*ins, outs[0]))
    gx.fill(0)
    np.put_along_axis(gx, where, g, axis=1)


implements(Argsort, REFERENCE, ordering)
implements((Sort, TopK), REFERENCE, ordering, ordering_gradient)
