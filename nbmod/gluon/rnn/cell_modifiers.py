"""Cells that change what another cell does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ndarray as nd
from ... import symbol as sym
from ...base import CheckError, numeric_types
from ..utils import unknown_keyword
from .cell_containers import BidirectionalCell, _CellList, _cells
from .recurrent_cell import (
    HybridRecurrentCell,
    RecurrentCell,
    StateInfo,
    Stepped,
    _format_sequence,
    _is_tensor,
    _mask_sequence_variable_length,
)

__all__ = ["DropoutCell", "ModifierCell", "ResidualCell", "ZoneoutCell"]


class DropoutCell(HybridRecurrentCell):
    """Dropout of the inputs, as a cell without states.

    Parameters
    ----------
    rate : float
        Share of the elements that are set to 0.
    axes : tuple of int, default ()
        Axes along which all elements share their draw.
    prefix, params
        As for `HybridRecurrentCell`.

    Raises
    ------
    AssertionError
        If `rate` is no number.

    Examples
    --------
    >>> mx.gluon.rnn.DropoutCell(0.5)(mx.nd.ones((1, 2)), [])[0].asnumpy().tolist()
    [[1.0, 1.0]]
    """

    _hint = "dropout"

    def __init__(self, rate: float, axes: tuple[int, ...] = (), prefix: str | None = None,
                 params: Any = None):
        super().__init__(prefix=prefix, params=params)
        if not isinstance(rate, numeric_types):
            raise CheckError(f"rate must be a number, given {rate!r}")
        self._rate, self._axes = rate, axes

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return []

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> tuple[Any, Any]:
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=self._axes,
                               name=f"t{self._counter}_fwd")
        return inputs, states

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None, valid_length: Any = None) -> Stepped:
        self.reset()
        inputs, _, functions, _ = _format_sequence(length, inputs, layout, merge_outputs)
        if _is_tensor(inputs):     # all steps at once
            return self.hybrid_forward(functions, inputs, begin_state or [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"


class ModifierCell(HybridRecurrentCell):
    """Base of cells around a cell, which has the parameters and states.

    Parameters
    ----------
    base_cell : RecurrentCell
        The cell.  It can no longer be called itself, and not be modified twice.

    Raises
    ------
    AssertionError
        If the cell is modified already.
    """

    def __init__(self, base_cell: RecurrentCell, **unknown: Any):
        if unknown:
            raise unknown_keyword(type(self), next(iter(unknown)))
        if base_cell._modified:
            raise CheckError(f"Cell {base_cell.name} is already modified. One cell cannot be "
                             "modified twice")
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> Any:
        """Parameters of the cell inside."""
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return self.base_cell.state_info(batch_size)

    def begin_state(self, func: Callable[..., Any] = sym.zeros,  # type: ignore[override]
                    **kwargs: Any) -> list[Any]:
        """Return the states before the first step.

        Parameters
        ----------
        func : callable, default mx.sym.zeros
            Makes a state of a name and a shape: `mx.nd.zeros` for arrays.
        **kwargs
            As for `RecurrentCell.begin_state`.
        """
        self._check_unmodified("DropoutCell")
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=func, **kwargs)
        finally:
            self.base_cell._modified = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell})"


class _RememberingCell(ModifierCell):
    """Base of modifiers that keep values from step to step beside their states."""

    def _call_cached_op(self, *args: Any) -> Any:
        # A plan of one step would not see these values; the cell inside has one.
        return self.hybrid_forward(nd, *args)


class ZoneoutCell(_RememberingCell):
    """Keeps random elements of the last outputs and states (Krueger et al., 2016).

    Parameters
    ----------
    base_cell : RecurrentCell
        The cell.
    zoneout_outputs, zoneout_states : float, default 0.0
        Shares of elements that are kept in training.

    Raises
    ------
    AssertionError
        If the cell cannot be stepped, or is modified already.

    Examples
    --------
    >>> cell = mx.gluon.rnn.ZoneoutCell(mx.gluon.rnn.RNNCell(4), zoneout_states=0.1)
    >>> cell.initialize()
    >>> cell.unroll(5, mx.nd.ones((1, 5, 3)), merge_outputs=True)[0].shape
    (1, 5, 4)
    """

    _hint = "zoneout"

    def __init__(self, base_cell: RecurrentCell, zoneout_outputs: float = 0.0,
                 zoneout_states: float = 0.0):
        if _has_directions(base_cell):
            raise CheckError("BidirectionalCell doesn't support zoneout since it doesn't support "
                             "step. Please add ZoneoutCell to the cells underneath instead.")
        super().__init__(base_cell)
        self._zoneout_outputs, self._zoneout_states = zoneout_outputs, zoneout_states

    _prev_output: Any

    def reset(self) -> None:
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Stepped:
        def zoneout(share: float, new: Any, old: Any) -> Any:
            return F.where(F.Dropout(F.ones_like(new), p=share), new, old) if share else new

        output, after = self.base_cell(inputs, states)
        last = self._prev_output
        if not isinstance(last, type(output)):  # none, or that of a trace
            last = F.zeros_like(output)
        output = zoneout(self._zoneout_outputs, output, last)
        after = [zoneout(self._zoneout_states, new, old)
                 for new, old in zip(after, states, strict=True)]
        self._prev_output = output
        return output, after

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(p_out={self._zoneout_outputs}, "
                f"p_state={self._zoneout_states}, {self.base_cell})")


def _has_directions(cell: RecurrentCell) -> bool:
    """Whether a cell, or one inside of it, can only be unrolled."""
    if isinstance(cell, (_CellList, ModifierCell)):
        return any(map(_has_directions, _cells(cell)))
    return isinstance(cell, BidirectionalCell)


class ResidualCell(ModifierCell):
    """Adds the inputs to the outputs of a cell (He et al., 2016).

    Parameters
    ----------
    base_cell : RecurrentCell
        The cell, with as many outputs as inputs.

    Raises
    ------
    AssertionError
        If the cell is modified already.

    Examples
    --------
    >>> cell = mx.gluon.rnn.ResidualCell(mx.gluon.rnn.GRUCell(3))
    >>> cell.initialize()
    >>> cell.unroll(5, mx.nd.ones((1, 5, 3)), merge_outputs=True)[0].shape
    (1, 5, 3)
    """

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Stepped:
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None, valid_length: Any = None) -> Stepped:
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout,
                                                    merge_outputs, valid_length)
        finally:
            self.base_cell._modified = True
        merged = _is_tensor(outputs)
        inputs, axis, functions, _ = _format_sequence(length, inputs, layout, merged)
        F: Any = functions
        if valid_length is not None:
            inputs = _mask_sequence_variable_length(F, inputs, length, valid_length, axis, merged)
        if merged:
            return F.elemwise_add(outputs, inputs), states
        return [F.elemwise_add(*pair) for pair in zip(outputs, inputs, strict=True)], states
