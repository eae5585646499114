"""`invoke`: one operation on arrays, executed at once, and recorded if `autograd` records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import MXNetError, numeric_types
from ..context import Context, computing, current_context, resolve
from ..graph import Entry
from ..ops.device import CPU, device_of
from ..ops.op import Op
from . import eager, mutation, tape
from .eager import execute, named_op, planned, run_plan, scalar_op
from .ndarray import NDArray
from .operators import BINARY, BinaryOperator
from .recording import STATE

__all__ = ["binary", "invoke"]


def invoke(op: Op, inputs: Sequence[NDArray], out: Any = None, ctx: Context | None = None,
           casts: bool = True) -> Any:
    """Run an operation on arrays.

    Parameters
    ----------
    op : Op
        Operation with its parameters.
    inputs : sequence of NDArray
        Inputs, all on one device.
    out : NDArray or list of NDArray, optional
        Arrays to write the results to.
    ctx : Context, optional
        Device of an operation without inputs; None: the current context.
    casts : bool, default True
        Whether mixed precision casts inputs; not where a network or a caller has done so.

    Returns
    -------
    NDArray or list of NDArray
        Output, or a list if the operation has several; `out` if it is given.

    Raises
    ------
    MXNetError
        For invalid inputs; names the operation, the argument, what was expected and given.
    """
    if casts and eager.cast_inputs is not None:
        inputs = eager.cast_inputs(op, inputs)
    ctx = computing(inputs[0]._ctx) if inputs else resolve(
        ctx if ctx is not None else current_context())
    device = device_of(ctx)
    is_sparse = op.makes_sparse
    for array in inputs:
        is_sparse |= array.is_sparse
        if array._ctx is not ctx and device_of(array._ctx) is not device:
            raise MXNetError(f"{op.name}: inputs are on {ctx} and {array._ctx}; bring them "
                             "together with as_in_context")
    if is_sparse or (out is not None and _is_sparse(out)):
        from .sparse_eager import invoke_sparse

        return invoke_sparse(op, inputs, out, ctx)
    if out is not None:
        return _invoke_into(op, inputs, out, device)
    arrays = [a._data for a in inputs]
    if STATE.recording and tape.is_any_recorded(inputs):
        results = _invoke_recorded(op, inputs, arrays, (), ctx)
    else:
        results = [NDArray(data, ctx) for data in execute(op, arrays, device, (), ctx)
                   if data is not None]
    if op.aux:
        mutation.written(*[inputs[i]._data for i in op.aux_indices()])
    return results[0] if len(results) == 1 else results


def _is_sparse(out: Any) -> bool:
    return any(getattr(target, "is_sparse", False)
               for target in (out if isinstance(out, (list, tuple)) else [out]))


def _invoke_recorded(op: Op, inputs: Sequence[NDArray], ins: list[Any], outs: Sequence[Any],
                     ctx: Context) -> list[NDArray]:
    """Execute `op` and record it on the tape; the visible outputs."""
    device = device_of(ctx)
    saves = tape.saves(op)
    plan = planned(op, ins, device, outs, saves.minimum)
    node = tape.planned_node(op, [tape.entry_of(array) for array in inputs], ctx, plan)
    computed = run_plan(plan, op, ins, device, outs, ctx, node.state)
    tape.save_values(node, ins, computed, saves)
    results = []
    for index in range(len(outs) or op.num_visible):
        result = NDArray(computed[index], ctx)
        result._entry = Entry(node, index)
        results.append(result)
    return results


def _invoke_into(op: Op, inputs: Sequence[NDArray], out: Any, device: Any) -> Any:
    targets = [out] if isinstance(out, NDArray) else out
    if not isinstance(targets, (list, tuple)) or not all(isinstance(t, NDArray) for t in targets):
        raise TypeError(f"{op.name}: out is a {type(out).__name__}, expected an NDArray or a list "
                        "of NDArrays")
    if len(targets) not in (op.num_visible, len(op.list_outputs())):
        raise MXNetError(f"{op.name}: {len(targets)} array(s) given as out, expected "
                         f"{op.num_visible}")
    direct = [device_of(t._ctx) is device for t in targets]
    arrays = [t._data if near else device.empty(t.shape, t._data.dtype)
              for t, near in zip(targets, direct, strict=True)]
    ins, ctx = [a._data for a in inputs], computing(inputs[0]._ctx) if inputs else None
    if STATE.recording:
        tape.require_unrecorded(op.name, targets, inputs)
    if STATE.recording and ctx is not None and tape.is_any_recorded(inputs):
        results = _invoke_recorded(op, inputs, ins, arrays, ctx)
        for target, result in zip(targets, results, strict=True):
            target._entry = tape.record_copy(result._entry, target._data.dtype, target._ctx) \
                if target._ctx != ctx else result._entry
    else:
        execute(op, ins, device, arrays, ctx)
    for target, near, array in zip(targets, direct, arrays, strict=True):
        if not near:
            (device_of(target._ctx) if device is CPU else device).copy(array, target._data)
    mutation.written(*[array._data for array in (*targets, *[inputs[i] for i in op.aux_indices()])])
    return out


def binary(name: str, lhs: Any, rhs: Any) -> Any:
    """Apply an arithmetic operation to arrays, numbers, or one of each.

    Parameters
    ----------
    name : str
        Name of the operation, such as 'add'.
    lhs : NDArray or float
        Left operand.
    rhs : NDArray or float
        Right operand.

    Raises
    ------
    TypeError
        For operands of other types.
    """
    operation = BINARY[name]
    if isinstance(lhs, NDArray):
        return lhs._binary(operation, rhs)
    if isinstance(rhs, NDArray):
        return rhs._binary(operation, lhs, reflected=True)
    if isinstance(lhs, numeric_types) and isinstance(rhs, numeric_types):
        return operation.numbers(lhs, rhs)
    raise TypeError(f"types {type(lhs)} and {type(rhs)} not supported")


def _binary(array: NDArray, operation: BinaryOperator, other: NDArray | float,
            reflected: bool = False, out: NDArray | None = None) -> NDArray:
    if isinstance(other, NDArray):
        pair = (other, array) if reflected else (array, other)
        return invoke(named_op(operation.arrays), pair, out)
    if not isinstance(other, numeric_types):
        raise TypeError(f"type {type(other)} not supported")
    name = operation.reflected if reflected else operation.scalar
    scalar = float(other)
    return invoke(scalar_op(name, scalar or str(scalar)), (array,), out)


NDArray._binary = _binary
