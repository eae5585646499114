"""`Updater`: an optimizer together with the states of all parameters it has stepped.

Where possible, all parameters of a call are stepped by one `_FusedStep`: the optimizer makes their
update operators in the same order as for separate steps; only the arithmetic is deferred and then
done for all of them at once (`ops.optimizer.multi_tensor_apply`).  This is for optimizers whose
step is an update operator and nothing else (`is_fusible`), as most of nbmod's are; classes of users
with an `update` of their own are called parameter by parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from operator import is_
from typing import NamedTuple

import numpy as np

from ..context import Context
from ..ndarray import NDArray, mutation
from ..ops.device import device_of
from ..ops.elementwise.program import Assign, Program
from ..ops.op import Op
from ..ops.optimizer.multi_tensor_apply import FusedCalls, TensorUpdate, overlap
from ..ops.optimizer.sgd_update import Update, require_trainable
from .base_optimizer import Optimizer, RuleOptimizer, register
from .sgd import Momentum
from .state_checks import check_states, state_of_type, why_no_update
from .states import dump_states, load_states
from .update_step import Index, OneOrMany, State, _arrays, state_inputs, state_like, step

__all__ = ["Updater", "get_updater", "is_fusible", "Test"]

KEPT = 16
"""Fused steps that are kept, each for one set of arrays: devices, executors of several shapes."""


@register
class Test(Optimizer):
    """Adds gradients to weights, for tests of the code around an optimizer.

    Parameters
    ----------
    **kwargs
        Arguments of `Optimizer`, of which only `rescale_grad` has an effect.

    Notes
    -----
    w = w + rescale_grad * g.  The state is a copy of the new weight.

    Examples
    --------
    >>> optimizer = mx.optimizer.Test(rescale_grad=2.0)
    >>> weight = mx.nd.array([1.0])
    >>> optimizer.update(0, weight, mx.nd.array([3.0]), optimizer.create_state(0, weight))
    >>> weight.asscalar().item()
    7.0
    """

    __test__ = False  # not a test case, despite its name

    def create_state(self, index: Index, weight: NDArray) -> NDArray:
        """Zeros of the weight's shape."""
        return state_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Add `rescale_grad` times the gradient to the weight, and copy the result to the state."""
        weight[:] = weight + grad * self.rescale_grad
        state[:] = weight


class Updater:
    """Applies an optimizer to parameters, and keeps their states.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer that steps the parameters.

    Attributes
    ----------
    optimizer : Optimizer
        The optimizer.
    states : dict
        The state of every parameter that has been stepped, by index.

    Notes
    -----
    An updater is called as `updater(index, grad, weight)`, where index is an int or a str, or with
    three lists of equal length.  The weight is changed in place; its state is made at the first
    call.  Parameters of a list are stepped by one call of the CPU kernel where that is possible.
    An optimizer with an `aggregate_num` is passed that many parameters at a time, all of one
    element type.

    Examples
    --------
    >>> updater = mx.optimizer.get_updater(mx.optimizer.create("sgd", learning_rate=0.5))
    >>> weight = mx.nd.array([1.0, 2.0])
    >>> updater(0, mx.nd.array([1.0, 1.0]), weight)
    >>> weight.asnumpy().tolist()
    [0.5, 1.5]
    """

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self.states: dict[Index, State] = {}
        self.states_synced: dict[Index, bool] = {}
        self.aggregate_updates = optimizer.aggregate_num > 0
        self._fused: dict[tuple[Index, int], _FusedStep] = {}

    def __call__(self, index: OneOrMany, grad: OneOrMany, weight: OneOrMany, aggregate: bool = True
                 ) -> None:
        """Step one parameter, or all of a list.

        Parameters
        ----------
        index : int, str or list
            The indices of the parameters.
        grad, weight : NDArray or list of NDArray
            Their gradients and weights, all on one device.
        aggregate : bool, default True
            Whether an optimizer with an `aggregate_num` is passed that many parameters at a time;
            otherwise results are those of one call for each.
        """
        if not isinstance(index, (list, tuple)):
            index, grad, weight = [index], [grad], [weight]
        if not index:
            return
        self.optimizer._set_current_context(weight[0].context.device_id)
        for key, _, array in zip(index, grad, weight, strict=True):
            if not self.states_synced.get(key):
                self._make_state(key, array)
        size = self.optimizer.aggregate_num if aggregate and self.aggregate_updates else 0
        try:
            if len(index) > 1 and is_fusible(type(self.optimizer)):
                fused = self._fused_step(index, grad, weight, size)
                if fused.is_possible:
                    fused()
                    return
            for group in self._groups(weight, size):
                self._update([index[i] for i in group], [grad[i] for i in group],
                             [weight[i] for i in group])
        except (ArithmeticError, TypeError, ValueError) as error:
            better = why_no_update(self.optimizer, error)
            if better is None:
                raise
            raise better from error

    def _update(self, index: list[Index], grad: list[NDArray], weight: list[NDArray]) -> None:
        """Call the optimizer with some parameters, one unless it takes several."""
        states = [self.states[key] for key in index]
        if self.aggregate_updates:
            self.optimizer.update_multi_precision(index, weight, grad, states)
        else:
            self.optimizer.update_multi_precision(index[0], weight[0], grad[0], states[0])

    def _fused_step(self, index: Sequence[Index], grad: Sequence[NDArray],
                    weight: Sequence[NDArray], size: int) -> _FusedStep:
        """The step prepared for these arrays; it is cached for the next call with them."""
        key = index[0], id(grad[0])
        step = self._fused.get(key)
        if step is None or not step.fits(self.optimizer, index, grad, weight, self.states, size):
            assert isinstance(self.optimizer, RuleOptimizer)
            step = _FusedStep(self.optimizer, index, grad, weight,
                              [self.states[one] for one in index], size, self._groups(weight, size))
            self._fused.pop(key, None)
            if len(self._fused) >= KEPT:
                del self._fused[next(iter(self._fused))]
            self._fused[key] = step
        return step

    def _make_state(self, index: Index, weight: NDArray) -> None:
        """Create a parameter's state, or bring a loaded one to the weight's device and type."""
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        else:
            state = self.sync_state_context(self.states[index], weight.context)
            self.states[index] = state_of_type(self.optimizer, index, weight, state)
        self.states_synced[index] = True

    def weight_was_set(self, index: Index, weight: NDArray) -> None:
        """Continue from a weight that was set or cast from outside, in its master copy, too.

        Parameters
        ----------
        index : int or str
            The index of the parameter.
        weight : NDArray
            Its new weight.
        """
        if self.optimizer.multi_precision and index in self.states:
            self._make_state(index, weight)
            self.optimizer.weight_was_set(weight, self.states[index])

    @staticmethod
    def _groups(weights: Sequence[NDArray], size: int) -> list[list[int]]:
        """Positions of weights that are stepped together: up to `size` of one type, one for 0."""
        if not size:
            return [[position] for position in range(len(weights))]
        types: dict[object, list[int]] = {}
        for position, weight in enumerate(weights):
            types.setdefault(weight.dtype, []).append(position)
        return [positions[start:start + size] for positions in types.values()
                for start in range(0, len(positions), size)]

    def sync_state_context(self, state: State, context: Context) -> State:
        """A loaded state, with its arrays copied to a device.

        Parameters
        ----------
        state : object
            An array, a tuple or list of states, or anything else, which is returned as it is.
        context : Context
            The device.

        Returns
        -------
        object
            The state on that device.
        """
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """The states as the content of a `.states` file, which MXNet can read.

        Parameters
        ----------
        dump_optimizer : bool, default False
            Whether to write the optimizer, with its update counts, too.

        Returns
        -------
        bytes
            The content.

        Examples
        --------
        >>> first = mx.optimizer.get_updater(mx.optimizer.Adam())
        >>> first(0, mx.nd.ones(3), mx.nd.zeros(3))
        >>> second = mx.optimizer.get_updater(mx.optimizer.Adam())
        >>> second.set_states(first.get_states(dump_optimizer=True))
        >>> second.optimizer.num_update
        1
        """
        return dump_states(self._saved(dump_optimizer))

    def _saved(self, dump_optimizer: bool) -> object:
        """The content of a file of states."""
        return (self.states, self.optimizer) if dump_optimizer else self.states

    def set_states(self, states: bytes) -> None:
        """Replace the states, and the optimizer if one was written, by those of a `.states` file.

        Parameters
        ----------
        states : bytes
            The content of a file that nbmod or MXNet wrote.

        Raises
        ------
        MXNetError
            If the content has anything but numbers, strings, containers, arrays and optimizers, or
            these are damaged or of another optimizer.
        """
        self._replace_states(*load_states(states))

    def _replace_states(self, loaded: dict[Index, State], optimizer: Optimizer | None) -> None:
        if optimizer is not None or not isinstance(self.optimizer, Test):  # which may carry any
            check_states(optimizer or self.optimizer, loaded)
        self.states, self.optimizer = loaded, optimizer or self.optimizer
        self._fused.clear()
        self.aggregate_updates = self.optimizer.aggregate_num > 0
        self.states_synced = dict.fromkeys(self.states, False)


def get_updater(optimizer: Optimizer) -> Updater:
    """An `Updater` with this optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer that steps the parameters.

    Returns
    -------
    Updater
        A callable `(index, grad, weight)`.
    """
    return Updater(optimizer)


class _Parameter(NamedTuple):
    """The target of an update: a weight, or the float32 master from which `copy` is rounded."""

    weight: NDArray
    grad: NDArray
    state: State
    copy: NDArray | None = None

    def inputs(self, op: Op) -> list[NDArray]:
        return [self.weight, self.grad, *state_inputs(op, self.state)]

    @property
    def written(self) -> list[NDArray]:
        copies = [] if self.copy is None else [self.copy]
        return [self.weight, *_arrays(self.state), *copies]

    def tensor_update(self, op: Op) -> TensorUpdate | None:
        """The arithmetic of `op` on it, None if that is more than one elementwise program."""
        if not isinstance(op, Update) or not _is_one_program(type(op)):
            return None
        arrays = [array._data for array in self.inputs(op)]
        program, tensors = op.program(), op.tensors(arrays, arrays[:1])
        if self.copy is not None:
            program, tensors = _with_copy(program), {**tensors, "rounded": self.copy._data}
        return TensorUpdate(program, [tensors[name] for name in program.inputs],
                            [tensors[name] for name in program.outputs])

    def step(self, op: Op) -> None:
        """Step it separately."""
        if self.copy is None:
            step(op, *self.inputs(op))
        else:
            weight, grad, *states = self.inputs(op)
            step(op, weight, grad.astype(np.float32), *states)
            weight.copyto(self.copy)


class _FusedStep:
    """A step of several parameters, prepared for their arrays.

    The optimizer makes the operators of `groups` of positions, of at most `size` if not 0.  For
    other arrays a new one is made.
    """

    def __init__(self, optimizer: RuleOptimizer, indices: Sequence[Index], grads: Sequence[NDArray],
                 weights: Sequence[NDArray], states: Sequence[State], size: int,
                 groups: Sequence[Sequence[int]]):
        self._optimizer = optimizer
        self._made_for = (optimizer, optimizer.multi_precision, size, list(indices))
        self._states, self._handles = states, [array._data for array in (*weights, *grads)]
        self._ids = list(map(id, self._handles))
        self._groups: list[tuple[
            list[Index], list[NDArray], list[NDArray], list[State], bool]] = []
        self._parameters: list[_Parameter] = []
        for group in groups:
            mixed = optimizer.multi_precision and weights[group[0]].dtype == np.float16
            split = mixed and not isinstance(optimizer, Momentum)
            params = [_parameter(weights[i], grads[i], states[i], split) for i in group]
            self._parameters += params
            self._groups.append(([indices[i] for i in group], [one.weight for one in params],
                                 [one.grad for one in params], [one.state for one in params],
                                 mixed and not split))
        self._kinds: list[type] = []
        self._device = device_of(weights[0].context)
        self.is_possible = self._is_possible()

    def _is_possible(self) -> bool:
        """Whether all arrays are dense, of their weights' shapes, on one device, and apart."""
        each = self._parameters
        return all(device_of(array.context) is self._device and not array.is_sparse
                   and array.shape == one.weight.shape
                   for one in each for array in (one.grad, *one.written)) and not overlap(
            (([one.grad._data], [array._data for array in one.written]) for one in each),
            self._device.span)

    def fits(self, optimizer: Optimizer, indices: Sequence[Index], grads: Sequence[NDArray],
             weights: Sequence[NDArray], states: Mapping[Index, State], size: int) -> bool:
        """Whether it was prepared for these very arrays."""
        return ((optimizer, optimizer.multi_precision, size, list(indices)) == self._made_for
                and self._ids == [id(array._data) for array in (*weights, *grads)]
                and all(map(is_, self._states, [states[key] for key in indices])))

    def __call__(self) -> None:
        """Step all parameters once."""
        ops = [op for group in self._groups for op in self._optimizer._rules(*group)]
        if self._kinds != list(map(type, ops)):
            self._prepare(ops)
        values: dict[int, list[float]] = {}  # of operators that parameters share
        same: tuple[Op | None, Op | None] = None, None
        for row, position in enumerate(self._fused):
            op, former = ops[position], self._ops[row]
            if op is same[0] and former is same[1]:
                continue
            if op == former:
                same = op, former
            else:
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
        candidates = [one.tensor_update(op) for one, op in zip(self._parameters, ops, strict=True)]
        updates = [update for update in candidates if update is not None]
        self._fused = [i for i, update in enumerate(candidates) if update is not None]
        self._separate = [i for i, update in enumerate(candidates) if update is None]
        self._programs = [update.program for update in updates]
        self._calls: FusedCalls = self._device.multi_tensor_apply(updates)
        self._owners = [id(mutation.owner(out)) for update in updates for out in update.outs]
        self._ops: list[Op | None] = [None] * len(updates)
        self._kinds = list(map(type, ops))


def _parameter(weight: NDArray, grad: NDArray, state: State, split: bool) -> _Parameter:
    """The parameter that `Optimizer.update_multi_precision` would update."""
    require_trainable(weight._data.dtype)
    if not split:
        return _Parameter(weight, grad, state)
    master, inner = state
    return _Parameter(master, grad, inner, weight)


def is_fusible(kind: type[Optimizer]) -> bool:
    """Whether a step of optimizers of this class is an update operator and nothing else.

    Parameters
    ----------
    kind : type
        The class.

    Returns
    -------
    bool
        Whether it is.
    """
    return (issubclass(kind, RuleOptimizer) and kind.update is RuleOptimizer.update
            and kind._step_all is RuleOptimizer._step_all
            and kind.update_multi_precision in (Optimizer.update_multi_precision,
                                                Momentum.update_multi_precision))


def _is_one_program(kind: type[Update]) -> bool:
    """Whether operators of this kind are their formulas, over arrays of one size."""
    return (not kind.scalars and kind.update is Update.update
            and kind.execute is Update.execute)


@cache
def _with_copy(program: Program) -> Program:
    """Step the weight, and round a copy of it."""
    return replace(program, steps=(*program.steps, Assign("rounded", "next_weight")),
                   outputs=(*program.outputs, "rounded"))
