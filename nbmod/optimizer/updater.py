"""`Updater`: an optimizer together with the states of all parameters it has stepped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..context import Context
from ..ndarray import NDArray
from ..serialization import atomic_write
from .base import Optimizer, RuleOptimizer, register, state_like
from .fused_step import FusedStep, is_fusible
from .states import dump_states, load_states

__all__ = ["Updater", "get_updater", "load_states_file", "save_states_file", "Test"]

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
    >>> import nbmod as mx
    >>> optimizer = mx.optimizer.Test(rescale_grad=2.0)
    >>> weight = mx.nd.array([1.0])
    >>> optimizer.update(0, weight, mx.nd.array([3.0]), optimizer.create_state(0, weight))
    >>> weight.asscalar().item()
    7.0
    """

    __test__ = False  # not a test case, despite its name

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        """Zeros of the weight's shape."""
        return state_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
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
    >>> import nbmod as mx
    >>> updater = mx.optimizer.get_updater(mx.optimizer.create("sgd", learning_rate=0.5))
    >>> weight = mx.nd.array([1.0, 2.0])
    >>> updater(0, mx.nd.array([1.0, 1.0]), weight)
    >>> weight.asnumpy().tolist()
    [0.5, 1.5]
    """

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}
        self.aggregate_updates = optimizer.aggregate_num > 0
        self._fused: dict[tuple[Any, int], FusedStep] = {}

    def __call__(self, index: Any, grad: Any, weight: Any, aggregate: bool = True) -> None:
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
        if len(index) > 1 and is_fusible(type(self.optimizer)):
            fused = self._fused_step(index, grad, weight, size)
            if fused.is_possible:
                fused()
                return
        for group in self._groups(weight, size):
            indices, weights, grads = ([given[i] for i in group] for given in (index, weight, grad))
            states = [self.states[key] for key in indices]
            if self.aggregate_updates:
                self.optimizer.update_multi_precision(indices, weights, grads, states)
            else:
                self.optimizer.update_multi_precision(indices[0], weights[0], grads[0], states[0])

    def _fused_step(self, index: Sequence[Any], grad: Sequence[NDArray], weight: Sequence[NDArray],
                    size: int) -> FusedStep:
        """The step prepared for these arrays; it is cached for the next call with them."""
        key = index[0], id(grad[0])
        found = self._fused.get(key)
        if found is None or not found.fits(self.optimizer, index, grad, weight, self.states, size):
            assert isinstance(self.optimizer, RuleOptimizer)
            found = FusedStep(self.optimizer, index, grad, weight,
                              [self.states[one] for one in index], size,
                              self._groups(weight, size))
            self._fused.pop(key, None)
            if len(self._fused) >= KEPT:
                del self._fused[next(iter(self._fused))]
            self._fused[key] = found
        return found

    def _make_state(self, index: Any, weight: NDArray) -> None:
        """Create a parameter's state, or copy a loaded one to the weight's device."""
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        else:
            self.states[index] = self.sync_state_context(self.states[index], weight.context)
        self.states_synced[index] = True

    def weight_was_set(self, index: Any, weight: NDArray) -> None:
        """Continue from a weight that was set from outside, in its master copy if it has one.

        Parameters
        ----------
        index : int or str
            The index of the parameter.
        weight : NDArray
            Its new weight.
        """
        if self.optimizer.multi_precision and index in self.states:
            self.optimizer.weight_was_set(weight, self.states[index])

    @staticmethod
    def _groups(weights: Sequence[NDArray], size: int) -> list[list[int]]:
        """Positions of weights that are stepped together: up to `size` of one type, one for 0."""
        if not size:
            return [[position] for position in range(len(weights))]
        types: dict[Any, list[int]] = {}
        for position, weight in enumerate(weights):
            types.setdefault(weight.dtype, []).append(position)
        return [positions[start:start + size] for positions in types.values()
                for start in range(0, len(positions), size)]

    def sync_state_context(self, state: Any, context: Context) -> Any:
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
        >>> import nbmod as mx
        >>> first = mx.optimizer.get_updater(mx.optimizer.Adam())
        >>> first(0, mx.nd.ones(3), mx.nd.zeros(3))
        >>> second = mx.optimizer.get_updater(mx.optimizer.Adam())
        >>> second.set_states(first.get_states(dump_optimizer=True))
        >>> second.optimizer.num_update
        1
        """
        return dump_states((self.states, self.optimizer) if dump_optimizer else self.states)

    def set_states(self, states: bytes) -> None:
        """Replace the states, and the optimizer if one was written, by those of a `.states` file.

        Parameters
        ----------
        states : bytes
            The content of a file that nbmod or MXNet wrote.

        Raises
        ------
        MXNetError
            If the content has anything but numbers, strings, containers, arrays and optimizers.
        """
        self.states, optimizer = load_states(states)
        self._fused.clear()
        self.optimizer = optimizer or self.optimizer
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


def save_states_file(updater: Any, fname: str, dump_optimizer: bool = False) -> None:
    """Write the states of an updater to a `.states` file, as a whole or not at all.

    Parameters
    ----------
    updater : Updater
        The updater.
    fname : str
        Name of the file.
    dump_optimizer : bool, default False
        Whether to write the optimizer, too.
    """
    content = updater.get_states(dump_optimizer)
    with atomic_write(fname) as file:
        file.write(content)


def load_states_file(updater: Any, fname: str) -> None:
    """Replace the states of an updater by those of a `.states` file.

    Parameters
    ----------
    updater : Updater
        The updater.
    fname : str
        Name of the file.

    Raises
    ------
    MXNetError
        With the name of the file, if its content is not that of a `.states` file.
    """
    with open(fname, "rb") as file:
        content = file.read()
    try:
        updater.set_states(content)
    except MXNetError as error:
        raise MXNetError(f"{fname}: {error}") from None
