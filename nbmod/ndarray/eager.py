"""Eager execution of one op on device arrays.

The shapes and types of outputs and workspaces depend only on the op and on the shapes and types of
its inputs, so that they are inferred once: `_plan` is a cached pure function.  Execution then
allocates, calls the kernel and returns.  One plan serves all ops of a form (`Op.form`), whose
numbers differ.

Hidden outputs are computed only on request.  An `out` array that overlaps an input is written
directly only if the op declares the pair as in-place; otherwise a temporary is copied to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..base import ArgumentError, MXNetError, OutOfMemory
from ..context import Context
from ..core.shape_semantics import is_np_shape
from ..ops import OPS
from ..ops.device import Device
from ..ops.jit import lacks_compiler
from ..ops.op import Call, Computation, Mode, Op, Spec, Tensor, apply_rule, with_values
from ..ops.param import Shape, without_ignored
from ..ops.shape import PartialShape, ShapeMismatch, infer_with_lengths, is_known, unify
from .recording import STATE

__all__ = ["Kind", "OpPlan", "clear_caches", "execute", "named_op", "op_instance", "planned",
           "run_plan", "scalar_op", "specs_of"]

_CACHED = 4096
_PREDICTING, _TRAINING = Call(Mode(is_train=False)), Call(Mode(is_train=True))
_FLOAT32 = np.dtype(np.float32)

cast_inputs: Callable[[Op, Sequence[Any]], Sequence[Any]] | None = None
"""Returns the NDArrays that an op reads instead of those given; set by `contrib.amp.init`."""

Facts = tuple[tuple[Shape, np.dtype[Any] | None], ...]
"""Shapes and types of arrays; Any is the scalar type."""


class Kind:
    """The kind of calls whose gradients are computed alike; equal to itself alone."""


@dataclass(frozen=True, eq=False)
class OpPlan:
    """How ops of one form are executed on inputs of given shapes and types."""

    op: Op
    compute: Computation | None
    outs: tuple[Spec | None, ...]
    """Outputs; None for a hidden one that is not requested."""
    scratch: tuple[Spec, ...]
    """Workspaces."""
    specs: tuple[Spec, ...]
    """Specs of all outputs."""
    kind: Kind
    is_empty: bool = False
    """No output has elements: there is nothing to compute."""


def op_instance(cls: Any, params: Mapping[str, Any]) -> Op:
    """The op with these parameters as the user gave them, cached if they are hashable.

    Equal ones that are written differently, such as 1 and True, or 0.0 and -0.0, are others.
    """
    try:
        return _op_instance(cls, repr(params), *params.items())
    except TypeError:
        return cls.from_attrs(dict(without_ignored(cls, params)))


@lru_cache(maxsize=_CACHED)
def _op_instance(cls: type[Op], _written: str, *params: tuple[str, Any]) -> Op:
    return cls.from_attrs(dict(without_ignored(cls, dict(params))))


@lru_cache(maxsize=_CACHED, typed=True)
def named_op(name: str) -> Op:
    """The op `name` without parameters."""
    return OPS.find(name)()


@lru_cache(maxsize=_CACHED, typed=True)
def scalar_op(name: str, scalar: float | str) -> Op:
    """The op `name` of an array and a scalar: a zero as text, which tells 0.0 from -0.0."""
    cls: Any = OPS.find(name)
    return cls(float(scalar))


def execute(op: Op, ins: Sequence[Any], device: Device, outs: Sequence[Any] = (),
            ctx: Context | None = None, minimum: int = 0, state: dict[str, Any] | None = None
            ) -> list[Any]:
    """Execute an op; returns its outputs, None for hidden ones that were not computed.

    Parameters
    ----------
    op : Op
        Op with its parameters.
    ins : sequence of device arrays
        Inputs, all on `device`.
    device : Device
        Device that executes the op.
    outs : sequence of device arrays, optional
        Arrays on `device` to write to, one per visible output; by default new ones are allocated.
    ctx : Context, optional
        Context of the call, for ops that read it.
    minimum : int, default 0
        Number of leading outputs to compute even if hidden.
    state : dict, optional
        State of a recorded call, which its backward pass receives as well.

    Raises
    ------
    MXNetError
        For invalid inputs; names the op, the argument, what was expected and given.
    """
    return run_plan(planned(op, ins, device, outs, minimum), op, ins, device, outs, ctx, state)


def planned(op: Op, ins: Sequence[Tensor], device: Device, outs: Sequence[Tensor] = (),
            minimum: int = 0) -> OpPlan:
    """The plan of `execute` for these arguments, of which it reads shapes and types."""
    out_specs: Facts = tuple([(a.shape, a.dtype) for a in outs])
    if op.shape_of_values is not None:
        out_specs = _shapes_of_values(op, ins, device, out_specs)
    return _plan(op.name, op.form, device, tuple([(a.shape, a.dtype) for a in ins]), out_specs,
                 minimum)


def run_plan(plan: OpPlan, op: Op, ins: Sequence[Any], device: Device, outs: Sequence[Any] = (),
             ctx: Context | None = None, state: dict[str, Any] | None = None) -> list[Any]:
    """`execute` for a plan that is known."""
    if plan.is_empty and not is_np_shape():
        raise MXNetError(f"{op.name}: the result would have no elements; operators "
                         "make such arrays under mx.np_shape only "
                         f"{_listed(op, [array.shape for array in ins])}")
    try:
        if outs:
            padded = [*outs, *([None] * (len(plan.outs) - len(outs)))]
            arrays = [out if spec is None or _may_write(op, ins, padded, i, device)
                      else device.empty(*spec)
                      for i, (out, spec) in enumerate(zip(padded, plan.outs, strict=True))]
        else:
            arrays = [None if spec is None else device.empty(*spec) for spec in plan.outs]
        compute = None if outs or lacks_compiler() else plan.compute
        _run(plan, partial(compute or device.run, op), ins, arrays, device, ctx, state)
    except MemoryError as error:
        listed = _listed(op, [array.shape for array in ins])
        raise OutOfMemory(f"{op.name}: {error} {listed}") from None
    except (ValueError, IndexError, ZeroDivisionError) as error:
        if all(array.size for array in ins):
            raise
        listed = _listed(op, [array.shape for array in ins])
        raise ArgumentError(f"{op.name}: {error} {listed}") from None
    for i, out in enumerate(outs):
        if out is not arrays[i]:
            device.copy(arrays[i], out)
            arrays[i] = out
    return arrays


def _shapes_of_values(op: Op, ins: Sequence[Any], device: Device, outs: Facts) -> Facts:
    """Shapes of outputs that depend on the values of inputs, and their types if known."""
    assert op.shape_of_values is not None
    shapes = op.shape_of_values([
        device.to_numpy(x) if name in op.index_inputs else Spec(x.shape, x.dtype)
        for name, x in zip(op.list_inputs(), ins, strict=True)])
    for name, shape, (out, _) in zip(op.list_outputs(), shapes, outs, strict=False):
        if shape != out:
            raise MXNetError(f"{op.name}: out for {name} has shape {out}, expected {shape}, which "
                             "follows from the values of the inputs")
    return outs or tuple((shape, None) for shape in shapes)


def specs_of(op: Op, ins: Sequence[Any], device: Device) -> tuple[Spec, ...]:
    """Shapes and types of all outputs of an op on arrays, or on their specs."""
    return planned(op, ins, device).specs


def _run(plan: OpPlan, compute: Callable[[Sequence[Any], Sequence[Any], Call], None],
         ins: Sequence[Any], outs: list[Any], device: Device, ctx: Context | None,
         state: dict[str, Any] | None) -> None:
    op = plan.op
    if plan.is_empty:
        return
    if op.view:
        device.copy(ins[0].reshape(outs[0].shape), outs[0])
        return
    call = _TRAINING if STATE.training else _PREDICTING
    if plan.scratch or op.reads_context or state is not None:
        call = Call(call.mode, [device.empty(*spec) for spec in plan.scratch], ctx=ctx,
                    specs=plan.specs if state is not None else (), state=state)
    with np.errstate(all="ignore"):     # infinity and NaN are results, not events
        compute(ins, outs, call)


def _may_write(op: Op, ins: Sequence[Any], outs: Sequence[Any], index: int, device: Device) -> bool:
    """Whether an output is given and can be written while the inputs are read.

    Outputs that are one array are computed in their order, each from what the one before it left:
    so an update may be given a weight twice.
    """
    if outs[index] is None:
        return False
    start, end = place = device.span(outs[index])
    names = op.list_outputs()
    for input_name, array in zip(op.list_inputs(), ins, strict=True):
        first, last = device.span(array)
        if first < end and start < last:
            if (first, last) != place or ((input_name, names[index]) not in op.inplace and not any(
                    out is not None and device.span(out) == place and (input_name, name)
                    in op.inplace for name, out in zip(names, outs, strict=True))):
                return False
    return True


def clear_caches() -> None:
    """Clear the caches of ops and plans, after an op name has been redefined."""
    for cached in (_op_instance, named_op, scalar_op, _plan, _kind):
        cached.cache_clear()


# ------------------------------------------------------------------------------------- inference

@lru_cache(maxsize=_CACHED)
def _plan(name: str, op: Op, device: Device, ins: Facts, outs: Facts, minimum: int) -> OpPlan:
    """The plan of an op, one of its form.  `name` makes the hashes of parameterless ops differ."""
    names, out_names = op.list_inputs(), op.list_outputs()
    if len(ins) != len(names):
        raise MXNetError(f"{op.name}: {len(ins)} input(s) given, expected {len(names)} "
                         f"({', '.join(names)})")
    hidden = len(out_names) - len(outs)
    shapes = _infer_shapes(op, [shape for shape, _ in ins],
                           [*(shape for shape, _ in outs), *([None] * hidden)])
    types = _infer(op, "type", [dtype for _, dtype in ins],
                   [*(dtype for _, dtype in outs), *([None] * hidden)])
    visible = max(len(outs), op.num_visible, minimum)
    for out_name, shape in zip(out_names[:visible], shapes, strict=False):
        if shape is None:
            raise MXNetError(f"{op.name}: the shape of {out_name} does not follow from the "
                             "arguments")
    in_specs = [Spec(shape, dtype or _FLOAT32) for shape, dtype in ins]
    specs = [Spec(shape, dtype or _FLOAT32)  # type: ignore[arg-type]  # hidden ones may be unknown
             for shape, dtype in zip(shapes, types, strict=True)]
    outs_made = (*specs[:visible], *([None] * (len(specs) - visible)))
    anywhere = with_values(op, **dict.fromkeys(op.placement)) if op.placement else op
    kind = _kind(name, anywhere, device, ins, tuple(specs))
    if visible and not any(spec.size for spec in specs[:visible]):
        return OpPlan(op, None, outs_made, (), tuple(specs), kind, True)
    try:
        scratch = device.workspace(op, in_specs, specs)
    except OutOfMemory as error:
        listed = _listed(op, [shape for shape, _ in ins])
        raise OutOfMemory(f"{op.name}: {error} {listed}") from None
    compute = None if op.view else device.computation(op, in_specs, outs_made)
    return OpPlan(op, compute, outs_made, tuple(scratch), tuple(specs), kind)


@lru_cache(maxsize=_CACHED)
def _kind(name: str, op: Op, device: Device, ins: Facts, outs: tuple[Spec, ...]) -> Kind:
    """The kind of calls of an op that has nothing for its `placement`."""
    return Kind()


def _infer_shapes(op: Op, ins: Sequence[Shape], outs: Sequence[PartialShape]
                  ) -> list[PartialShape]:
    """Shapes of all outputs; None for one that does not follow.  A 0 is the length of an array."""
    if all(all(shape) for shape in (*ins, *outs) if shape):
        return [shape if is_known(shape) else None for shape in _infer(op, "shape", ins, outs)]
    inferred = infer_with_lengths(
        lambda _, shapes: _infer(op, "shape", shapes[:len(ins)], shapes[len(ins):]),
        [*ins, *outs], lambda position: f"{op.name}: {op.list_outputs()[position]} "
                                        f"{_listed(op, ins)}")
    return [None if shape is None or -1 in shape else shape for shape in inferred]


def _infer(op: Op, what: str, ins: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
    """Shapes or types of all outputs; an error if the op's rule contradicts those given."""
    known = [*ins, *outs]
    try:
        found_ins, found_outs = apply_rule(op, f"infer_{what}", ins, outs)
    except MXNetError as error:
        raise type(error)(f"{op.name}: {error} {_listed(op, ins)}") from error.__cause__
    names = [*op.list_inputs(), *(f"output {name}" for name in op.list_outputs())]
    facts = [*found_ins, *found_outs]
    for name, before, after in zip(names, known, facts, strict=True):
        if before is not None and after is not None and before != after:
            _check(op, what, name, before, after)
    return list(found_outs)


def _listed(op: Op, facts: Sequence[Any]) -> str:
    """Shapes or types of the inputs, for errors."""
    named = zip(op.list_inputs(), facts, strict=True)
    return f"[inputs: {', '.join(f'{name} {fact}' for name, fact in named)}]"


def _check(op: Op, what: str, name: str, value: Any, expected: Any) -> None:
    if what == "shape":
        try:
            # A 0 in the shape of an array is its length, not an unknown dimension.
            if unify(value, expected) == tuple(value):
                return
        except ShapeMismatch:
            pass
    kind = ShapeMismatch if what == "shape" else MXNetError
    raise kind(f"{op.name}: {name} has {what} {value}, expected {expected}")
