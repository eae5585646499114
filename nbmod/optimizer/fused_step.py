"""All parameters of a call to an updater, stepped by one prepared call.

What a step needs of a parameter, its rates and the rule they make, is asked of the optimizer in the
order in which it would be if parameters were stepped one after another; only the arithmetic is put
off, and then done for all of them at once (`ops.together`).  So this is for optimizers whose step
is a rule and nothing else, as most of nbmod's are; those that users write, or derive and give an
`update` of their own, are called parameter by parameter.

What is prepared belongs to arrays: it is made again for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ..ndarray import NDArray, mutation
from ..ops.device import device_of
from ..ops.elementwise.program import Program, Step
from ..ops.optimizer import multi_tensor_apply as calls
from ..ops.optimizer.sgd_update import Update, require_trainable
from .base import Optimizer, RuleOptimizer, _arrays, step
from .sgd import Momentum

__all__ = ["Together", "is_rule"]


class Parameter(NamedTuple):
    """What is stepped: a weight, or the float32 master that `copy` is then a rounded copy of."""

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

    def member(self, op: Any) -> calls.Member | None:
        """The arithmetic of `op` on it, None if that is more than one program."""
        if not _is_one_program(type(op)):
            return None
        arrays = [array.handle for array in self.arrays]
        program, tensors = op.program(), op.tensors(arrays, arrays[:1])
        if self.copy is not None:
            program, tensors = _with_copy(program), {**tensors, "rounded": self.copy.handle}
        return calls.Member(program, [tensors[name] for name in program.inputs],
                            [tensors[name] for name in program.outputs])

    def step(self, op: Any) -> None:
        """Step it by itself."""
        if self.copy is None:
            step(op, *self.arrays)
        else:
            weight, grad, *states = self.arrays
            step(op, weight, grad.astype(np.float32), *states)
            weight.copyto(self.copy)


class Together:
    """The parameters of one call, and what is prepared for them.

    The optimizer is asked for the rules of `groups` of positions, of at most `size` if not 0.
    """

    def __init__(self, optimizer: Any, indices: Sequence[Any], grads: Sequence[NDArray],
                 weights: Sequence[NDArray], states: Sequence[Any], size: int,
                 groups: Sequence[Sequence[int]]):
        self._device = device_of(weights[0].context)
        self._about = (optimizer, optimizer.multi_precision, size, list(indices))
        self._states, self._handles = states, [array.handle for array in (*weights, *grads)]
        self._ids = list(map(id, self._handles))
        self._turns: list[tuple] = []
        self._parameters: list[Parameter] = []
        for group in groups:
            mixed = optimizer.multi_precision and weights[group[0]].dtype == np.float16
            split = mixed and not isinstance(optimizer, Momentum)
            given = [_parameter(weights[i], grads[i], states[i], split) for i in group]
            self._parameters += given
            self._turns.append(([indices[i] for i in group], [one.weight for one in given],
                                [one.grad for one in given], [one.state for one in given],
                                mixed and not split))
        self._kinds: list[type] = []

    @cached_property
    def is_possible(self) -> bool:
        """Whether all arrays are on one device, of their weights' shapes, and lie apart."""
        each = self._parameters
        return all(device_of(array.context) is self._device and array.shape == one.weight.shape
                   for one in each for array in (one.grad, *one.written)) and not calls.overlap(
            (([one.grad.handle], [array.handle for array in one.written]) for one in each),
            self._device)

    def fits(self, optimizer: Any, indices: Sequence[Any], grads: Sequence[NDArray],
             weights: Sequence[NDArray], states: Mapping[Any, Any], size: int) -> bool:
        """Whether it was made for these very arrays."""
        return ((optimizer, optimizer.multi_precision, size, list(indices)) == self._about
                and self._ids == [id(array.handle) for array in (*weights, *grads)]
                and all(map(is_, self._states, [states[key] for key in indices])))

    def __call__(self) -> None:
        """Step all parameters once."""
        rules, ops = self._about[0]._rules, []
        for turns in self._turns:
            ops += rules(*turns)
        if self._kinds != list(map(type, ops)):
            self._prepare(ops)
        self._set_numbers(ops)
        self._calls()
        for position in self._loose:
            self._parameters[position].step(ops[position])
        if mutation.is_watched():
            mutation.written_owners(self._owners)

    def _prepare(self, ops: Sequence[Any]) -> None:
        """Decide which parameters are stepped together by ops of these kinds."""
        found = [one.member(op) for one, op in zip(self._parameters, ops, strict=True)]
        members = [member for member in found if member is not None]
        self._joined = [position for position, member in enumerate(found) if member is not None]
        self._loose = [position for position, member in enumerate(found) if member is None]
        self._programs = [member.program for member in members]
        self._calls = self._device.together(members)
        self._owners = [id(mutation.owner(out)) for member in members for out in member.outs]
        self._ops: list[Any] = [None] * len(members)
        self._kinds = list(map(type, ops))

    def _set_numbers(self, ops: Sequence[Any]) -> None:
        """Tell those whose rules are others than in the last step."""
        known: dict[int, list[float]] = {}
        for row, position in enumerate(self._joined):
            op, before = ops[position], self._ops[row]
            if op is not before and op != before:
                if id(op) not in known:
                    known[id(op)] = op.numbers(self._programs[row])
                self._calls.set(row, known[id(op)])
                self._ops[row] = op


def _parameter(weight: NDArray, grad: NDArray, state: Any, split: bool) -> Parameter:
    """As `Optimizer.update_multi_precision` hands it on."""
    require_trainable(weight.handle.dtype)
    if not split:
        return Parameter(weight, grad, state)
    master, inner = state
    return Parameter(master, grad, inner, weight)


def is_rule(kind: type[Optimizer]) -> bool:
    """Whether a step of these optimizers is a rule and nothing else."""
    return (issubclass(kind, RuleOptimizer) and kind.update is RuleOptimizer.update
            and kind._step_all is RuleOptimizer._step_all
            and kind.update_multi_precision in (Optimizer.update_multi_precision,
                                                Momentum.update_multi_precision))


def _is_one_program(kind: type) -> bool:
    """Whether an op of this kind is its formulas, over arrays of one size."""
    return (issubclass(kind, Update) and not kind.scalars and kind.forward is Update.forward
            and kind.execute is Update.execute)


@cache
def _with_copy(program: Program) -> Program:
    """The same, and a rounded copy of the new weight."""
    return replace(program, steps=(*program.steps, Step("rounded", "next_weight")),
                   outputs=(*program.outputs, "rounded"))
