"""The update of one parameter: what an optimizer knows of it, and its operator, run in place."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ..base import CheckError, Forwarded, MXNetError
from ..core.config import is_exact
from ..ndarray import NDArray, zeros
from ..ndarray.mutation import written
from ..ndarray.sparse_update import update_sparse
from ..ops.device import Device, device_of
from ..ops.jit import denormals
from ..ops.op import Call, Op, Spec
from ..ops.optimizer.sgd_update import require_trainable

__all__ = ["Index", "OneOrMany", "State", "StepInfo", "state_inputs", "state_like", "states_like",
           "step"]

Index: TypeAlias = int | str
"""An identifier of a parameter."""
OneOrMany: TypeAlias = Any  # type: ignore[explicit-any]
"""An index, weight, gradient or state of one parameter, or a list with one for each of several.
Any: if the index is a list all are, and only optimizers with `aggregate_num` are given lists."""
State: TypeAlias = Any  # type: ignore[explicit-any]
"""The state of a parameter: None, an array, or a tuple or list of states.  Any: the
class of the optimizer knows which."""


def step(op: Op, weight: NDArray, grad: NDArray, *states: NDArray) -> None:
    """Run an update operator, which writes the new weight and the new states in place.

    Parameters
    ----------
    op : Op
        The update operator.
    weight, grad : NDArray
        Weight and gradient.
    *states : NDArray
        The operator's auxiliary inputs.
    """
    try:
        arrays = [array._data for array in (weight, grad, *states)]
    except AttributeError:
        kinds = [type(array).__name__ for array in (weight, grad, *states)]
        raise CheckError(f"{op.name}: given {', '.join(kinds)}, expected NDArrays") from None
    require_trainable(arrays[0].dtype)
    if any(array.shape != weight.shape for array in arrays):
        expected, _ = op.infer_shape([weight.shape, *[None] * (len(arrays) - 1)], [None])
        for name, array, shape in zip(op.list_inputs(), arrays, expected, strict=True):
            if array.shape != shape:
                raise MXNetError(f"{op.name}: {name} has shape {array.shape}, expected {shape} "
                                 f"for a weight of shape {weight.shape}")
    if any(array.is_sparse for array in (weight, grad, *states)):
        update_sparse(op, (weight, grad, *states), partial(_run, op, device_of(weight.context)))
        return
    _run(op, device_of(weight.context), arrays)
    written(arrays[0], *[array._data for array in states])


def _run(op: Op, device: Device, arrays: list[Forwarded]) -> None:
    """Run an update operator on arrays of a device."""
    specs = [Spec(array.shape, array.dtype) for array in arrays]
    scratch = [device.empty(*spec) for spec in device.choose(op, specs, specs[:1]).workspace]
    with denormals(is_exact()):
        device.run(op, arrays, arrays[:1], Call(scratch=scratch))


def state_like(weight: NDArray, sparse: bool = False) -> NDArray:
    """Zeros of a weight's shape and element type, on its device.

    Parameters
    ----------
    weight : NDArray
        The weight.
    sparse : bool, default False
        Whether they have the weight's storage type, too; otherwise they are dense.
    """
    return zeros(weight.shape, ctx=weight.context, dtype=weight.dtype,
                 stype=weight.stype if sparse else None)


def states_like(weight: NDArray, count: int, sparse: bool = False) -> tuple[NDArray, ...]:
    """Several arrays of `state_like`.

    Parameters
    ----------
    weight : NDArray
        The weight.
    count : int
        Number of arrays.
    sparse : bool, default False
        As for `state_like`.
    """
    return tuple(state_like(weight, sparse) for _ in range(count))


class StepInfo(NamedTuple):
    """The data of a parameter that `RuleOptimizer.rule` reads in a step."""

    index: Index  # type: ignore[assignment]  # hides tuple.index, which nothing here uses
    lr: float
    wd: float
    t: int
    """The number of this update of the parameter, from 1."""
    state: State
    master: bool
    """Whether the last state is a float32 master of the weight."""


def state_inputs(op: Op, state: State) -> list[NDArray]:
    """The arrays of a state that an update operator reads.

    Parameters
    ----------
    op : Op
        An operator of (weight, gradient, *arrays of the state).
    state : None, NDArray or tuple
        The state.

    Returns
    -------
    list of NDArray
        The arrays in order, without those in front that the operator does not read, such as the
        velocity of plain gradient descent.
    """
    arrays = _arrays(state)
    return arrays[max(0, len(arrays) + 2 - len(op.inputs)):]


def _arrays(state: State) -> list[NDArray]:
    """The arrays in a state, in order."""
    if isinstance(state, (tuple, list)):
        return [array for part in state for array in _arrays(part)]
    return [] if state is None else [state]
