"""Custom operators on a GPU: the user's function receives arrays of the device."""

from __future__ import annotations

from ..custom import Custom
from .runtime.launch import on_gpu

__all__: list[str] = []


on_gpu(Custom, lambda op, ins, outs, call: [op.prepare(ins, outs, call)],
       lambda op, ins, outs, call: [op.prepare_backward(ins, outs, call)])
