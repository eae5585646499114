"""Cells of cells: one after the other, and one for each direction."""

from __future__ import annotations

from typing import Any

from ...base import AbstractError, CheckError
from ..utils import _indent
from .recurrent_cell import (
    HybridRecurrentCell,
    RecurrentCell,
    StateInfo,
    Stepped,
    _cells_begin_state,
    _cells_state_info,
    _format_sequence,
    _get_begin_state,
    _is_tensor,
    _mask_sequence_variable_length,
    _reverse_sequences,
)

__all__ = ["BidirectionalCell", "HybridSequentialRNNCell", "SequentialRNNCell"]


def _cells(outer: RecurrentCell) -> list[Any]:
    """The cells within a cell."""
    return [*outer._children.values()]


class _CellList(RecurrentCell):
    """Base of cells that are called one after the other."""

    def add(self, cell: RecurrentCell) -> None:
        """Append a cell.

        Parameters
        ----------
        cell : RecurrentCell
            Cell.
        """
        self.register_child(cell)

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return _cells_state_info(self._children.values(), batch_size)

    def begin_state(self, **kwargs: Any) -> list[Any]:  # type: ignore[override]  # as in MXNet
        """Return the states of all cells before the first step.

        Parameters
        ----------
        **kwargs
            As for `RecurrentCell.begin_state`.
        """
        self._check_unmodified("ZoneoutCell")
        return _cells_begin_state(self._children.values(), **kwargs)

    def _step(self, inputs: Any, states: Any) -> Stepped:
        """One step of all cells."""
        remaining, after = [*states], list[Any]()
        for cell in _cells(self):
            if isinstance(cell, BidirectionalCell):
                raise CheckError(f"{type(self).__name__}: {cell} cannot be stepped. Please use "
                                 "unroll")
            count = len(cell.state_info())
            inputs, states = cell(inputs, remaining[:count])
            remaining = remaining[count:]
            after += states
        return inputs, after

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None, valid_length: Any = None) -> Stepped:
        self.reset()
        inputs, _, functions, size = _format_sequence(length, inputs, layout, None)
        remaining = _get_begin_state(self, functions, begin_state, inputs, size)
        cells, after = _cells(self), list[Any]()
        for cell in cells:
            count = len(cell.state_info())
            inputs, states = cell.unroll(length, inputs, remaining[:count], layout,
                                         merge_outputs if cell is cells[-1] else None,
                                         valid_length)
            remaining = remaining[count:]
            after += states
        return inputs, after

    def __getitem__(self, i: int) -> Any:
        return self._children[str(i)]

    def __len__(self) -> int:
        return len(self._children)

    def __repr__(self) -> str:
        cells = "\n".join(f"({key}): {_indent(repr(cell), 2)}"
                          for key, cell in self._children.items())
        return f"{type(self).__name__}(\n{cells}\n)"


class SequentialRNNCell(_CellList):
    """Cells that are called one after the other; its states are those of all of them.

    Parameters
    ----------
    prefix, params
        As for `RecurrentCell`.

    Examples
    --------
    >>> cell = mx.gluon.rnn.SequentialRNNCell()
    >>> cell.add(mx.gluon.rnn.LSTMCell(4))
    >>> cell.add(mx.gluon.rnn.GRUCell(2))
    >>> cell.initialize()
    >>> outputs, states = cell.unroll(5, mx.nd.ones((1, 5, 3)), merge_outputs=True)
    >>> outputs.shape, len(states)
    ((1, 5, 2), 3)
    """

    def forward(self, inputs: Any, states: Any) -> Stepped:
        self._counter += 1
        return self._step(inputs, states)


class HybridSequentialRNNCell(_CellList, HybridRecurrentCell):
    """`SequentialRNNCell` of hybrid cells, which can be hybridized.

    Parameters
    ----------
    prefix, params
        As for `HybridRecurrentCell`.

    Examples
    --------
    >>> cell = mx.gluon.rnn.HybridSequentialRNNCell()
    >>> cell.add(mx.gluon.rnn.LSTMCell(4))
    >>> cell.add(mx.gluon.rnn.DropoutCell(0.5))
    >>> cell.initialize()
    >>> cell.hybridize()
    >>> output, states = cell(mx.nd.ones((1, 3)), cell.begin_state(batch_size=1))
    >>> output.shape, len(states)
    ((1, 4), 2)
    """

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Stepped:
        return self._step(inputs, states)


class BidirectionalCell(HybridRecurrentCell):
    """Two cells, of which one takes the steps in reverse; their outputs are concatenated.

    It can only be unrolled: a step of the second cell depends on all later inputs.

    Parameters
    ----------
    l_cell, r_cell : HybridRecurrentCell
        Cells for the order of the sequence and for the reverse.
    output_prefix : str, default 'bi_'
        Beginning of the names of the outputs.

    Examples
    --------
    >>> cell = mx.gluon.rnn.BidirectionalCell(mx.gluon.rnn.GRUCell(4), mx.gluon.rnn.GRUCell(4))
    >>> cell.initialize()
    >>> outputs, states = cell.unroll(5, mx.nd.ones((1, 5, 3)), merge_outputs=True)
    >>> outputs.shape, len(states)
    ((1, 5, 8), 2)
    """

    def __init__(self, l_cell: HybridRecurrentCell, r_cell: HybridRecurrentCell,
                 output_prefix: str = "bi_"):
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> Any:
        """Refuse: there are no single steps."""
        raise AbstractError("Bidirectional cannot be stepped. Please use unroll")

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return _cells_state_info(self._children.values(), batch_size)

    def begin_state(self, **kwargs: Any) -> list[Any]:  # type: ignore[override]  # as in MXNet
        """Return the states of both cells before their first steps.

        Parameters
        ----------
        **kwargs
            As for `RecurrentCell.begin_state`.
        """
        self._check_unmodified("DropoutCell")
        return _cells_begin_state(self._children.values(), **kwargs)

    def unroll(self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC",
               merge_outputs: bool | None = None, valid_length: Any = None) -> Stepped:
        self.reset()
        inputs, axis, functions, size = _format_sequence(length, inputs, layout, False)
        F: Any = functions
        states = _get_begin_state(self, F, begin_state, inputs, size)
        l_cell, r_cell = _cells(self)
        count = len(l_cell.state_info(size))
        turned = _reverse_sequences(inputs, length, valid_length)
        l_outputs, l_states = l_cell.unroll(length, inputs, states[:count], layout, merge_outputs,
                                            valid_length)
        r_outputs, r_states = r_cell.unroll(length, turned, states[count:], layout, False,
                                            valid_length)
        r_outputs = _reverse_sequences(r_outputs, length, valid_length)
        if merge_outputs is None:
            merge_outputs = _is_tensor(l_outputs)
        l_outputs = _format_sequence(None, l_outputs, layout, merge_outputs)[0]
        if merge_outputs:
            outputs = F.concat(l_outputs, F.stack(*r_outputs, axis=axis), dim=2,
                               name=f"{self._output_prefix}out")
        else:
            outputs = [F.concat(*pair, dim=1, name=f"{self._output_prefix}t{step}")
                       for step, pair in enumerate(zip(l_outputs, r_outputs, strict=True))]
        if valid_length is not None:
            outputs = _mask_sequence_variable_length(F, outputs, length, valid_length, axis,
                                                     merge_outputs)
        return outputs, [*l_states, *r_states]

    def __repr__(self) -> str:
        l_cell, r_cell = self._children.values()
        return f"{type(self).__name__}(forward={l_cell}, backward={r_cell})"
