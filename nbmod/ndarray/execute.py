"""Eager execution of one op on device arrays.

What has to be found out before an op can run (shapes and types of its outputs, scratch memory)
depends only on the op and on the shapes and types of what it is given, so it is found once and
remembered: `_plan` is a cached pure function.  Running is then: allocate, call, return.

Hidden outputs are not computed.  An array given as `out` that overlaps an input is written
directly only where the op declares that it may be; otherwise through a temporary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError
from ..ops import OPS
from ..ops.device import Device
from ..ops.op import Call, Mode, Op, Spec
from ..ops.shape import PartialShape, ShapeMismatch, is_known, unify

__all__ = ["execute", "op_instance"]

_CACHED = 4096
_EAGER = Call(Mode(is_train=False))
_FLOAT32 = np.dtype(np.float32)


class Plan(NamedTuple):
    """What running an op on arrays of given shapes and types takes."""

    outs: tuple[Spec | None, ...]
    """None for a hidden output."""
    scratch: tuple[Spec, ...]


def op_instance(cls: Any, params: Mapping[str, Any]) -> Op:
    """The op with these parameters, as the user gave them; the same object for the same call."""
    try:
        return _op_instance(cls, *params.items())
    except TypeError:
        return cls.from_attrs(dict(params))


@lru_cache(maxsize=_CACHED)
def _op_instance(cls: type[Op], *params: tuple[str, Any]) -> Op:
    return cls.from_attrs(dict(params))


@lru_cache(maxsize=_CACHED, typed=True)
def named_op(name: str) -> Op:
    """The op `name` without parameters."""
    return OPS.find(name)()


@lru_cache(maxsize=_CACHED, typed=True)
def scalar_op(name: str, scalar: float) -> Op:
    """The op `name` of an array and a number."""
    return OPS.find(name).from_attrs({"scalar": scalar})


def execute(op: Op, ins: Sequence[Any], device: Device, outs: Sequence[Any] = ()) -> list[Any]:
    """The visible outputs of `op` for device arrays `ins`, all on `device`.

    `outs`: arrays on `device` to write to, one per visible output, or none at all.
    Raises MXNetError naming the op, the argument, what was expected and given.
    """
    plan = _plan(op.name, op, device, tuple([(a.shape, a.dtype) for a in ins]),
                 tuple([(a.shape, a.dtype) for a in outs]))
    if outs:
        arrays = [out if _may_write(op, ins, out, i, device) else device.empty(*spec)
                  for i, (out, spec) in enumerate(_pairs(outs, plan))]
    else:
        arrays = [None if spec is None else device.empty(*spec) for spec in plan.outs]
    _run(op, ins, arrays, device, plan.scratch)
    for out, array in zip(outs, arrays, strict=False):
        if out is not array:
            device.copy(array, out)
    return list(outs) or [array for array in arrays if array is not None]


def _pairs(outs: Sequence[Any], plan: Plan) -> list[tuple[Any, Any]]:
    padded = [*outs, *([None] * (len(plan.outs) - len(outs)))]
    return list(zip(padded, plan.outs, strict=True))


def _run(op: Op, ins: Sequence[Any], outs: list[Any], device: Device, scratch: tuple[Spec, ...]
         ) -> None:
    if op.view:
        device.copy(ins[0].reshape(outs[0].shape), outs[0])
    elif scratch:
        call = Call(Mode(), [device.empty(*spec) for spec in scratch])
        device.run(op, ins, outs, call)
    else:
        device.run(op, ins, outs, _EAGER)


def _may_write(op: Op, ins: Sequence[Any], out: Any, index: int, device: Device) -> bool:
    """Whether `out` can be written while the inputs are still read."""
    if out is None:
        return True
    start, end = device.span(out)
    name = op.list_outputs()[index]
    for input_name, array in zip(op.list_inputs(), ins, strict=True):
        first, last = device.span(array)
        if first < end and start < last:
            if (first, last) != (start, end) or (input_name, name) not in op.inplace:
                return False
    return True


# ------------------------------------------------------------------------------------- inference

@lru_cache(maxsize=_CACHED)
def _plan(name: str, op: Op, device: Device, ins: tuple, outs: tuple) -> Plan:
    """Specs of outputs and scratch.  `name` makes the hashes of parameterless ops differ."""
    names, out_names = op.list_inputs(), op.list_outputs()
    if len(ins) != len(names):
        raise MXNetError(f"{op.name}: {len(ins)} input(s) given, expected {len(names)} "
                         f"({', '.join(names)})")
    hidden = len(out_names) - len(outs)
    shapes = _infer(op, "shape", [shape for shape, _ in ins],
                    [*(shape for shape, _ in outs), *([None] * hidden)])
    types = _infer(op, "type", [dtype for _, dtype in ins],
                   [*(dtype for _, dtype in outs), *([None] * hidden)])
    visible = max(len(outs), op.num_visible)
    specs: list[Spec | None] = [None] * len(out_names)
    for i in range(len(out_names)):
        specs[i] = _spec(op, out_names[i], shapes[i], types[i]) if i < visible else None
    in_specs = [Spec(*given) for given in ins]
    everything = [Spec(shape, dtype or _FLOAT32)
                  for shape, dtype in zip(shapes, types, strict=True)]
    return Plan(tuple(specs), tuple(device.scratch(op, in_specs, everything)))


def _spec(op: Op, name: str, shape: PartialShape, dtype: np.dtype | None) -> Spec:
    if not is_known(shape):
        raise MXNetError(f"{op.name}: the shape of {name} does not follow from the arguments "
                         f"(found {shape}); arrays without elements are not supported by ops")
    assert shape is not None
    return Spec(shape, dtype or _FLOAT32)


def _infer(op: Op, what: str, ins: list, outs: list) -> list:
    """Facts of all outputs; an error where the op's rule contradicts what was given."""
    given = [*ins, *outs]
    try:
        found_ins, found_outs = getattr(op, f"infer_{what}")(list(ins), list(outs))
    except MXNetError as error:
        listed = ", ".join(f"{name} {fact}" for name, fact
                           in zip(op.list_inputs(), ins, strict=True))
        raise type(error)(f"{op.name}: {error} [inputs: {listed}]") from None
    names = [*op.list_inputs(), *(f"output {name}" for name in op.list_outputs())]
    found = [*found_ins, *found_outs]
    for name, before, after in zip(names, given, found, strict=True):
        if before is not None and after is not None and before != after:
            _check(op, what, name, before, after)
    return list(found_outs)


def _check(op: Op, what: str, name: str, given: Any, expected: Any) -> None:
    if what == "shape":
        try:
            unify(given, expected)
            return
        except ShapeMismatch:
            pass
    kind = ShapeMismatch if what == "shape" else MXNetError
    raise kind(f"{op.name}: {name} has {what} {given}, expected {expected}")
