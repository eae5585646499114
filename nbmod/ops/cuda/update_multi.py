"""Updates of many weights on a GPU: the launches of each weight's rule."""

from __future__ import annotations

from typing import Any

from ..op import Call, Spec
from ..update_multi import MultiUpdate, Preloaded
from .launch import on_gpu, twin_of


def _parts(op: MultiUpdate, lrs: Any, wds: Any, ins: Any, outs: Any) -> Any:
    """The rule of every weight, with its inputs and its output."""
    for index, (lr, wd, out) in enumerate(zip(lrs, wds, outs, strict=True)):
        yield op.rule_for(index, float(lr), float(wd)), op.part(ins, index), [out]


def _scratch(op: MultiUpdate, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    rates = [0.0] * op.count
    return [spec for rule, part, out in _parts(op, rates, rates, ins, outs)
            for spec in twin_of(rule).scratch(rule, part, out)]  # type: ignore[union-attr]


def _launches(op: MultiUpdate, lrs: Any, wds: Any, ins: Any, outs: Any, call: Any) -> list[Any]:
    each = len(call.scratch) // op.count
    found: list[Any] = []
    for index, (rule, part, out) in enumerate(_parts(op, lrs, wds, ins, outs)):
        own = Call(scratch=call.scratch[index * each:(index + 1) * each])
        found += twin_of(rule).prepare(rule, part, out, own)  # type: ignore[union-attr]
    return found


def _multi(op: MultiUpdate, ins: Any, outs: Any, call: Any) -> list[Any]:
    return _launches(op, *op.rates(ins), ins, outs, call)


def _preloaded(op: Preloaded, ins: Any, outs: Any, call: Any) -> list[Any]:
    """The rates are read when it is their turn."""
    def later() -> list[Any]:
        lrs, wds = (array.device.to_numpy(array).reshape(-1) for array in ins[-2:])
        return _launches(op, lrs, wds, ins, outs, call)

    return [later]


on_gpu(MultiUpdate, _multi, scratch=_scratch)
on_gpu(Preloaded, _preloaded, scratch=_scratch)
