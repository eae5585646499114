"""Custom operators on a GPU: the user's function receives arrays of the device."""

from __future__ import annotations

from ..custom import Custom
from ..dispatch import implements

__all__: list[str] = []


implements(Custom, "cuda", lambda op, ins, outs, call: [op.prepare(ins, outs, call)],
           lambda op, ins, outs, call: [op.prepare_backward(ins, outs, call)])
