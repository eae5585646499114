"""Creation ops: constants are filled on the device, all others are computed on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dispatch import implements
from ...op import Call, Op
from ...rules import to_type
from ...tensor.creation import Arange, ArangeLike, Eye, Fill, Linspace
from ..lib.fill import fill
from ..runtime.device_memory import Array, Arrays

__all__ = ["computed_on_host", "made_on_host"]


def made_on_host(op: Op, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    """Run an op that reads at most shapes on the CPU, and upload the results."""
    return [lambda: _make(op, ins, outs, call)]


def computed_on_host(op: Op, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    """Download, run an op on the CPU, and upload: for ops that draw random numbers on the host."""
    return [lambda: _make(op, [x.device.to_numpy(x) for x in ins], outs, call)]


def _make(op: Op, ins: Sequence[Array | np.ndarray], outs: Arrays, call: Call) -> None:
    host_outs = [None if out is None else np.empty(out.shape, out.dtype) for out in outs]
    op.forward(ins, host_outs, call)
    for array, out in zip(host_outs, outs, strict=True):
        if out is not None:
            out.device.copy(array, out)


implements(Fill, "cuda",
           lambda op, ins, outs, call: fill(outs[0], to_type(op.fill_value(), outs[0].dtype)))
implements((Arange, ArangeLike, Linspace, Eye), "cuda", made_on_host)
