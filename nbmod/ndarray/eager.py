"""Eager execution of one op on device arrays.

What has to be found out before an op can run (shapes and types of its outputs, scratch memory)
depends only on the op and on the shapes and types of what it is given, so it is found once and
remembered: `_plan` is a cached pure function.  Running is then: allocate, call, return.

Hidden outputs are computed only if the caller wants them.  An array given as `out` that overlaps
an input is written directly only where the op declares that it may be; otherwise through a
temporary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError, OutOfMemory
from ..context import Context
from ..ops import OPS
from ..ops.device import Device
from ..ops.op import Call, Mode, Op, Spec
from ..ops.shape import PartialShape, ShapeMismatch, is_known, unify
from .recording import STATE

__all__ = ["execute", "forget", "op_instance"]

_CACHED = 4096
_PREDICTING, _TRAINING = Call(Mode(is_train=False)), Call(Mode(is_train=True))
_FLOAT32 = np.dtype(np.float32)


class Plan(NamedTuple):
    """What running an op on arrays of given shapes and types takes."""

    outs: tuple[Spec | None, ...]
    """None for a hidden output that is not wanted."""
    scratch: tuple[Spec, ...]
    specs: tuple[Spec, ...]
    """Of all outputs."""


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


def execute(op: Op, ins: Sequence[Any], device: Device, outs: Sequence[Any] = (),
            ctx: Context | None = None, wanted: int = 0, state: dict[str, Any] | None = None
            ) -> list[Any]:
    """The outputs of `op` for device arrays `ins`, all on `device`; None for hidden ones.

    `outs`: arrays on `device` to write to, one per visible output, or none at all.  `ctx` is the
    context that ops see in their call.  `wanted` of the outputs are computed even if hidden;
    `state` is that of a recorded call, which backward will get too.
    Raises MXNetError naming the op, the argument, what was expected and given.
    """
    given = tuple([(a.shape, a.dtype) for a in outs])
    if op.shape_of_values is not None:
        given = _follow_values(op, ins, device, given)
    plan = _plan(op.name, op, device, tuple([(a.shape, a.dtype) for a in ins]), given, wanted)
    try:
        if outs:
            arrays = [out if spec is None or _may_write(op, ins, out, i, device)
                      else device.empty(*spec) for i, (out, spec) in enumerate(_pairs(outs, plan))]
        else:
            arrays = [None if spec is None else device.empty(*spec) for spec in plan.outs]
        _run(op, ins, arrays, device, plan, ctx, state)
    except MemoryError as error:
        listed = _listed(op, [array.shape for array in ins])
        raise OutOfMemory(f"{op.name}: {error} {listed}") from None
    for i, out in enumerate(outs):
        if out is not arrays[i]:
            device.copy(arrays[i], out)
            arrays[i] = out
    return arrays


def _pairs(outs: Sequence[Any], plan: Plan) -> list[tuple[Any, Any]]:
    padded = [*outs, *([None] * (len(plan.outs) - len(outs)))]
    return list(zip(padded, plan.outs, strict=True))


def _follow_values(op: Op, ins: Sequence[Any], device: Device, given: tuple) -> tuple:
    """Shapes of the outputs, which depend on the values of the inputs, and types if known."""
    assert op.shape_of_values is not None
    shapes = op.shape_of_values([
        device.to_numpy(x) if name in op.steering else Spec(x.shape, x.dtype)
        for name, x in zip(op.list_inputs(), ins, strict=True)])
    for name, shape, (out, _) in zip(op.list_outputs(), shapes, given, strict=False):
        if shape != out:
            raise MXNetError(f"{op.name}: out for {name} has shape {out}, expected {shape}, which "
                             "follows from the values of the inputs")
    return given or tuple((shape, None) for shape in shapes)


def _run(op: Op, ins: Sequence[Any], outs: list[Any], device: Device, plan: Plan,
         ctx: Context | None, state: dict[str, Any] | None) -> None:
    if op.view:
        device.copy(ins[0].reshape(outs[0].shape), outs[0])
    elif plan.scratch or op.placed or state is not None:
        call = Call(Mode(STATE.training), [device.empty(*spec) for spec in plan.scratch], ctx=ctx,
                    specs=plan.specs if state is not None else (), state=state)
        device.run(op, ins, outs, call)
    else:
        device.run(op, ins, outs, _TRAINING if STATE.training else _PREDICTING)


def _may_write(op: Op, ins: Sequence[Any], out: Any, index: int, device: Device) -> bool:
    """Whether there is an `out` that can be written while the inputs are still read."""
    if out is None:
        return False
    start, end = device.span(out)
    name = op.list_outputs()[index]
    for input_name, array in zip(op.list_inputs(), ins, strict=True):
        first, last = device.span(array)
        if first < end and start < last:
            if (first, last) != (start, end) or (input_name, name) not in op.inplace:
                return False
    return True


def forget() -> None:
    """Drop every op and plan that is remembered: a name now stands for something else."""
    for remembered in (_op_instance, named_op, scalar_op, _plan):
        remembered.cache_clear()


# ------------------------------------------------------------------------------------- inference

@lru_cache(maxsize=_CACHED)
def _plan(name: str, op: Op, device: Device, ins: tuple, outs: tuple, wanted: int) -> Plan:
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
    visible = max(len(outs), op.num_visible, wanted)
    specs: list[Spec | None] = [None] * len(out_names)
    for i in range(len(out_names)):
        specs[i] = _spec(op, out_names[i], shapes[i], types[i]) if i < visible else None
    in_specs = [Spec(*given) for given in ins]
    everything = [Spec(shape, dtype or _FLOAT32)
                  for shape, dtype in zip(shapes, types, strict=True)]
    return Plan(tuple(specs), tuple(device.scratch(op, in_specs, everything)), tuple(everything))


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
        raise type(error)(f"{op.name}: {error} {_listed(op, ins)}") from error.__cause__
    names = [*op.list_inputs(), *(f"output {name}" for name in op.list_outputs())]
    found = [*found_ins, *found_outs]
    for name, before, after in zip(names, given, found, strict=True):
        if before is not None and after is not None and before != after:
            _check(op, what, name, before, after)
    return list(found_outs)


def _listed(op: Op, facts: Sequence[Any]) -> str:
    """What is known of the inputs, for errors."""
    named = zip(op.list_inputs(), facts, strict=True)
    return f"[inputs: {', '.join(f'{name} {fact}' for name, fact in named)}]"


def _check(op: Op, what: str, name: str, given: Any, expected: Any) -> None:
    if what == "shape":
        try:
            # An array is what it is: its 0 is no unknown dimension to be filled in.
            if unify(given, expected) == tuple(given):
                return
        except ShapeMismatch:
            pass
    kind = ShapeMismatch if what == "shape" else MXNetError
    raise kind(f"{op.name}: {name} has {what} {given}, expected {expected}")
