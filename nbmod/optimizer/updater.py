"""`Updater`: an optimizer together with the states of all parameters it has stepped."""

from __future__ import annotations

from typing import Any

from ..context import Context
from ..ndarray import NDArray
from .base import Optimizer, register, state_like
from .states import dump_states, load_states

__all__ = ["Updater", "get_updater", "Test"]


@register
class Test(Optimizer):
    """Adds gradients to weights; for tests of what surrounds an optimizer.  State: the weight."""

    __test__ = False  # not a test case, whatever pytest thinks of the name

    def create_state(self, index: Any, weight: NDArray) -> NDArray:
        return state_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        weight[:] = weight + grad * self.rescale_grad
        state[:] = weight


class Updater:
    """Called with (index, gradient, weight), steps the weight; makes states when first needed.

    Index, gradient and weight may also be lists of equal length.
    """

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}
        self.aggregate_updates = False

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        if not isinstance(index, (list, tuple)):
            index, grad, weight = [index], [grad], [weight]
        for key, one_grad, one_weight in zip(index, grad, weight, strict=True):
            self._update_one(key, one_grad, one_weight)

    def _update_one(self, index: Any, grad: NDArray, weight: NDArray) -> None:
        optimizer = self.optimizer
        optimizer._set_current_context(weight.context.device_id)
        if index not in self.states:
            self.states[index] = optimizer.create_state_multi_precision(index, weight)
        elif not self.states_synced[index]:
            self.states[index] = self.sync_state_context(self.states[index], weight.context)
        self.states_synced[index] = True
        optimizer.update_multi_precision(index, weight, grad, self.states[index])

    def sync_state_context(self, state: Any, context: Context) -> Any:
        """A loaded state with its arrays moved to a device."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """The content of a `.states` file, which MXNet reads too; see `optimizer.states`."""
        return dump_states((self.states, self.optimizer) if dump_optimizer else self.states)

    def set_states(self, states: bytes) -> None:
        """Take over the states, and the optimizer if there is one, of a `.states` file's content.

        Raises MXNetError for anything but numbers, strings, containers, arrays and optimizers.
        """
        self.states, optimizer = load_states(states)
        self.optimizer = optimizer or self.optimizer
        self.states_synced = dict.fromkeys(self.states, False)


def get_updater(optimizer: Optimizer) -> Updater:
    """The function `(index, gradient, weight)` that steps with this optimizer."""
    return Updater(optimizer)
