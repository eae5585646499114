"""Updates of many weights on a GPU: a launch for those of equal types (`multi_tensor_apply`).

Rules of several stages, and arrays that share memory, are updated one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ...dispatch import CUDA, implements, prepare, workspace
from ...op import Call, Spec
from ...optimizer.multi_tensor_apply import TensorUpdate, group_by_kind, overlap
from ...optimizer.multi_weight_update import MultiUpdate, Preloaded
from ...optimizer.sgd_update import Update
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, each, grid_stride
from .multi_tensor_apply import launch, real_of

Rates: TypeAlias = Sequence[float] | np.ndarray
Tensors: TypeAlias = Sequence[Array] | Sequence[Spec]


def _parts(op: MultiUpdate, lrs: Rates, wds: Rates, ins: Tensors, outs: Tensors) -> Any:
    """The rule of every weight, with its inputs and its output."""
    for index, (lr, wd, out) in enumerate(zip(lrs, wds, outs, strict=True)):
        yield op.rule_for(index, float(lr), float(wd)), op.part(ins, index), [out]


def _scratch(op: MultiUpdate, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    rates = [0.0] * op.count
    return [spec for rule, part, out in _parts(op, rates, rates, ins, outs)
            for spec in workspace(rule, [CUDA], part, out)]


# -- fused ----------------------------------------------------------------------------------------


def _members(op: MultiUpdate, ins: Arrays, outs: Arrays) -> list[TensorUpdate] | None:
    """The update of every weight; None if weights must be updated one by one."""
    rates, updates = [0.0] * op.count, []
    if op.rule.update is not Update.update or op.rule.execute is not Update.execute:
        return None
    for rule, part, out in _parts(op, rates, rates, ins, outs):
        if out[0] is None or not out[0].size:
            return None
        program, tensors = rule.program(), rule.tensors(part, out)
        updates.append(TensorUpdate(program, *([tensors[name] for name in names]
                                               for names in (program.inputs, program.outputs))))
    device = outs[0].device
    return None if overlap(map(_touched, updates), device.span) else updates


def _touched(member: TensorUpdate) -> tuple[list[Any], Sequence[Any]]:
    """The arrays that an update only reads, and those that it writes."""
    written = {array.address for array in member.outs}
    return [array for array in member.ins if array.address not in written], member.outs


def _at_once(op: MultiUpdate, members: Sequence[TensorUpdate], lrs: Rates, wds: Rates
             ) -> list[tuple[list[int], Any, Launch]]:
    """For each kind of update: the positions of its members, their scalars on the device, and a
    launch."""
    rules = [op.rule_for(index, float(lr), float(wd))
             for index, (lr, wd) in enumerate(zip(lrs, wds, strict=True))]
    groups = []
    for positions in group_by_kind(members):
        chosen = [members[position] for position in positions]
        numbers = np.array([rules[position].scalar_values(members[position].program)
                            for position in positions], real_of(chosen))
        there = chosen[0].outs[0].device.from_numpy(numbers)
        groups.append((positions, there, launch(chosen, there)))
    return groups


def _multi(op: MultiUpdate, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    members, rates = _members(op, ins, outs), op.rates(ins)
    if members is None:
        return _one_by_one(op, *rates, ins, outs, call)
    return [update for _, _, update in _at_once(op, members, *rates)]


def _preloaded(op: Preloaded, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    """Write lr and wd, which may be results of other ops, into the scalars on the device."""
    members, rates = _members(op, ins, outs), [0.0] * op.count
    if members is None:
        def later() -> list[Any]:
            lrs, wds = (array.device.to_numpy(array).reshape(-1) for array in ins[-2:])
            return _one_by_one(op, lrs, wds, ins, outs, call)

        return [later]
    launches = []
    for positions, numbers, update in _at_once(op, members, rates, rates):
        rows = numbers.device.from_numpy(np.array(positions, np.int32))
        scalars = members[positions[0]].program.scalars
        kernel = _rates_kernel(numbers.dtype.type, len(scalars), scalars.index("lr"),
                               scalars.index("wd"))
        put = each(kernel, len(positions), *ins[-2:], rows, numbers)
        launches += [*(one._replace(own=(rows,)) for one in put), update]
    return launches


@cache
def _rates_kernel(real: type[np.floating], width: int, lr: int, wd: int) -> CudaKernel:
    """Write lr and wd of weights[i] to row i of the scalars, which has `width` elements."""
    @grid_stride
    def put_rates(row, lrs, wds, weights, numbers):
        numbers[row * width + lr] = real(lrs[weights[row]])
        numbers[row * width + wd] = real(wds[weights[row]])

    return put_rates


# -- one by one -----------------------------------------------------------------------------------


def _one_by_one(op: MultiUpdate, lrs: Rates, wds: Rates, ins: Arrays, outs: Arrays, call: Call
                ) -> list[Any]:
    share = len(call.scratch) // op.count
    launches: list[Any] = []
    for index, (rule, part, out) in enumerate(_parts(op, lrs, wds, ins, outs)):
        own = Call(scratch=call.scratch[index * share:(index + 1) * share])
        launches += prepare(rule, [CUDA], part, out, own)
    return launches


implements(MultiUpdate, "cuda", _multi, scratch=_scratch)
implements(Preloaded, "cuda", _preloaded, scratch=_scratch)
