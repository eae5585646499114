"""`FusedStep`: the optimizer step of all parameters of a call, as few prepared kernel calls.

The optimizer makes the update operators of the parameters in the same order as for separate steps;
only the arithmetic is deferred and then done for all of them at once
(`ops.optimizer.multi_tensor_apply`).  This is for optimizers whose step is an update operator and
nothing else (`is_fusible`), as most of nbmod's are; classes of users with an `update` of their own
are called parameter by parameter.

A `FusedStep` is valid for its arrays only: for others a new one is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ..ndarray import NDArray, mutation
from ..ops.device import device_of
from ..ops.elementwise.program import Program, Step
from ..ops.op import Op
from ..ops.optimizer.multi_tensor_apply import FusedCalls, TensorUpdate, overlap
from ..ops.optimizer.sgd_update import Update, require_trainable
from .base import Optimizer, RuleOptimizer, _arrays, step
from .sgd import Momentum

__all__ = ["FusedStep", "is_fusible"]


class Parameter(NamedTuple):
    """The target of an update: a weight, or the float32 master from which `copy` is rounded."""

    weight: NDArray
    grad: NDArray
    state: Any
    copy: NDArray | None = None

    @property
    def arrays(self) -> list[NDArray]:
        return [self.weight, self.grad, *_arrays(self.state)]

    @property
    def written(self) -> list[NDArray]:
        copies = [] if self.copy is None else [self.copy]
        return [self.weight, *_arrays(self.state), *copies]

    def tensor_update(self, op: Op) -> TensorUpdate | None:
        """The arithmetic of `op` on it, None if that is more than one elementwise program."""
        if not isinstance(op, Update) or not _is_one_program(type(op)):
            return None
        arrays = [array.handle for array in self.arrays]
        program, tensors = op.program(), op.tensors(arrays, arrays[:1])
        if self.copy is not None:
            program, tensors = _with_copy(program), {**tensors, "rounded": self.copy.handle}
        return TensorUpdate(program, [tensors[name] for name in program.inputs],
                            [tensors[name] for name in program.outputs])

    def step(self, op: Op) -> None:
        """Step it separately."""
        if self.copy is None:
            step(op, *self.arrays)
        else:
            weight, grad, *states = self.arrays
            step(op, weight, grad.astype(np.float32), *states)
            weight.copyto(self.copy)


class FusedStep:
    """A step of several parameters, prepared for their arrays.

    The optimizer makes the operators of `groups` of positions, of at most `size` if not 0.
    """

    def __init__(self, optimizer: RuleOptimizer, indices: Sequence[Any], grads: Sequence[NDArray],
                 weights: Sequence[NDArray], states: Sequence[Any], size: int,
                 groups: Sequence[Sequence[int]]):
        self._optimizer = optimizer
        self._made_for = (optimizer, optimizer.multi_precision, size, list(indices))
        self._states, self._handles = states, [array.handle for array in (*weights, *grads)]
        self._ids = list(map(id, self._handles))
        self._groups: list[tuple[list[Any], list[NDArray], list[NDArray], list[Any], bool]] = []
        self._parameters: list[Parameter] = []
        for group in groups:
            mixed = optimizer.multi_precision and weights[group[0]].dtype == np.float16
            split = mixed and not isinstance(optimizer, Momentum)
            given = [_parameter(weights[i], grads[i], states[i], split) for i in group]
            self._parameters += given
            self._groups.append(([indices[i] for i in group], [one.weight for one in given],
                                 [one.grad for one in given], [one.state for one in given],
                                 mixed and not split))
        self._kinds: list[type] = []
        self._device = device_of(weights[0].context)
        self.is_possible = self._is_possible()

    def _is_possible(self) -> bool:
        """Whether all arrays are on one device, have their weights' shapes and do not overlap."""
        each = self._parameters
        return all(device_of(array.context) is self._device and array.shape == one.weight.shape
                   for one in each for array in (one.grad, *one.written)) and not overlap(
            (([one.grad.handle], [array.handle for array in one.written]) for one in each),
            self._device)

    def fits(self, optimizer: Optimizer, indices: Sequence[Any], grads: Sequence[NDArray],
             weights: Sequence[NDArray], states: Mapping[Any, Any], size: int) -> bool:
        """Whether it was prepared for these very arrays."""
        return ((optimizer, optimizer.multi_precision, size, list(indices)) == self._made_for
                and self._ids == [id(array.handle) for array in (*weights, *grads)]
                and all(map(is_, self._states, [states[key] for key in indices])))

    def __call__(self) -> None:
        """Step all parameters once."""
        ops = [op for group in self._groups for op in self._optimizer._rules(*group)]
        if self._kinds != list(map(type, ops)):
            self._prepare(ops)
        values: dict[int, list[float]] = {}  # of operators that parameters share
        for row, position in enumerate(self._fused):
            op = ops[position]
            if op != self._ops[row]:
                assert isinstance(op, Update)
                if id(op) not in values:
                    values[id(op)] = op.scalar_values(self._programs[row])
                self._calls.scalars[row][:] = values[id(op)]
                self._ops[row] = op
        for call in self._calls.calls:
            call()
        for position in self._separate:
            self._parameters[position].step(ops[position])
        if mutation.is_watched():
            mutation.written_owners(self._owners)

    def _prepare(self, ops: Sequence[Op]) -> None:
        """Decide which parameters are stepped together by operators of these kinds."""
        found = [one.tensor_update(op) for one, op in zip(self._parameters, ops, strict=True)]
        updates = [update for update in found if update is not None]
        self._fused = [i for i, update in enumerate(found) if update is not None]
        self._separate = [i for i, update in enumerate(found) if update is None]
        self._programs = [update.program for update in updates]
        self._calls: FusedCalls = self._device.multi_tensor_apply(updates)
        self._owners = [id(mutation.owner(out)) for update in updates for out in update.outs]
        self._ops: list[Op | None] = [None] * len(updates)
        self._kinds = list(map(type, ops))


def _parameter(weight: NDArray, grad: NDArray, state: Any, split: bool) -> Parameter:
    """The parameter that `Optimizer.update_multi_precision` would update."""
    require_trainable(weight.handle.dtype)
    if not split:
        return Parameter(weight, grad, state)
    master, inner = state
    return Parameter(master, grad, inner, weight)


def is_fusible(kind: type[Optimizer]) -> bool:
    """Whether a step of optimizers of this class is an update operator and nothing else."""
    return (issubclass(kind, RuleOptimizer) and kind.update is RuleOptimizer.update
            and kind._step_all is RuleOptimizer._step_all
            and kind.update_multi_precision in (Optimizer.update_multi_precision,
                                                Momentum.update_multi_precision))


def _is_one_program(kind: type[Update]) -> bool:
    """Whether operators of this kind are their formulas, over arrays of one size."""
    return (not kind.scalars and kind.forward is Update.forward
            and kind.execute is Update.execute)


@cache
def _with_copy(program: Program) -> Program:
    """The same, and a rounded copy of the new weight."""
    return replace(program, steps=(*program.steps, Step("rounded", "next_weight")),
                   outputs=(*program.outputs, "rounded"))
