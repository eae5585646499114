"""Conversions of several tensors; Cast itself is a formula."""

from __future__ import annotations

from ...dispatch import implements
from ...elementwise.cast import AmpMulticast
from ...op import Call
from ..runtime.device_memory import Arrays
from ..runtime.launch import Launch
from .formula_op import COPY, run_program


def _convert(op: AmpMulticast, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return [launch for data, out in zip(ins, outs, strict=True) if out is not None
            for launch in run_program(COPY, [data], [out])]


implements(AmpMulticast, "cuda", _convert, _convert)
