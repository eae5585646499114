"""Ops that need no tensor: constants are filled in, everything else is made on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..creation import Arange, ArangeLike, Constant, Eye, Linspace, to_type
from .fill import fill
from .launch import Launch, on_gpu

__all__ = ["made_on_host"]


def made_on_host(op: Any, ins: Any, outs: Any, call: Any) -> list[Any]:
    """Run an op on the CPU that reads shapes at most, and upload."""
    def run() -> None:
        made = [None if out is None else np.empty(out.shape, out.dtype) for out in outs]
        op.forward(ins, made, call)
        for array, out in zip(made, outs, strict=True):
            if out is not None:
                out.device.copy(array, out)

    return [run]


def _constant(op: Constant, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return fill(outs[0], to_type(op.number(), outs[0].dtype))


on_gpu(Constant, _constant)
for _op in (Arange, ArangeLike, Linspace, Eye):
    on_gpu(_op, made_on_host)
