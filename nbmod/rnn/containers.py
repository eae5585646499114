"""Cells made of cells: stacked and bidirectional."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import symbol as sym
from ..base import MXNetError, wrong_type
from .base_cell import BaseRNNCell, RNNParams, States, as_steps, time_axis

__all__ = ["BidirectionalCell", "SequentialRNNCell"]


class _Container(BaseRNNCell):
    """A cell whose states and weights are those of its cells, in order."""

    def __init__(self, params: RNNParams | None):
        super().__init__("", params)
        self._override_cell_params = params is not None
        self._cells: list[BaseRNNCell] = []

    def _adopt(self, cell: BaseRNNCell) -> None:
        """Take a cell in, and its variables."""
        if not isinstance(cell, BaseRNNCell):
            raise wrong_type(f"{type(self).__name__}: a cell", cell, "an RNN cell")
        if self._override_cell_params:
            if not cell._own_params:
                raise MXNetError(f"{type(self).__name__}: params are given both to it and to its "
                                 f"{type(cell).__name__}; give them to one of the two")
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)
        self._cells.append(cell)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        self._check_not_modified()
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def _share(self, states: States) -> list[States]:
        """Each cell's part of the states."""
        counts = [len(cell.state_info) for cell in self._cells]
        if len(states) != sum(counts):
            raise MXNetError(f"{type(self).__name__}: {len(states)} states are given, expected "
                             f"{' + '.join(map(str, counts)) or 0}, as from begin_state()")
        ends = [sum(counts[:i + 1]) for i in range(len(counts))]
        return [states[end - count:end] for count, end in zip(counts, ends, strict=True)]

    def unpack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """`args` with an array for every gate of every cell instead of packed ones."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return dict(args)

    def pack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        for cell in self._cells:
            args = cell.pack_weights(args)
        return dict(args)


class SequentialRNNCell(_Container):
    """A stack of cells: the output of one is the input of the next.

    Parameters
    ----------
    params : RNNParams, optional
        Variables to share with other cells; those of its cells unless given.

    Examples
    --------
    >>> stack = mx.rnn.SequentialRNNCell()
    >>> stack.add(mx.rnn.LSTMCell(4, prefix="l0_"))
    >>> stack.add(mx.rnn.GRUCell(3, prefix="l1_"))
    >>> outputs, states = stack.unroll(5, mx.sym.Variable("data"), merge_outputs=True)
    >>> outputs.infer_shape(data=(2, 5, 6))[1], len(states)
    ([(2, 5, 3)], 3)
    """

    def __init__(self, params: RNNParams | None = None):
        super().__init__(params)

    def add(self, cell: BaseRNNCell) -> None:
        """Add a cell on top of the stack.

        Parameters
        ----------
        cell : BaseRNNCell
            The cell.
        """
        self._adopt(cell)

    def __call__(self, inputs: sym.Symbol, states: States) -> tuple[Any, list[Any]]:
        """One step of every cell: (output of the last, states of all)."""
        self._counter += 1
        new_states: list[Any] = []
        for cell, part in zip(self._cells, self._share(states), strict=True):
            inputs, part = cell(inputs, part)
            new_states += part
        return inputs, new_states

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Any]]:
        """Apply the cells to a sequence, one after the other; see `BaseRNNCell.unroll`."""
        self.reset()
        states = self.begin_state() if begin_state is None else begin_state
        new_states: list[Any] = []
        last = len(self._cells) - 1
        for i, (cell, part) in enumerate(zip(self._cells, self._share(states), strict=True)):
            inputs, part = cell.unroll(length, inputs, part, layout,
                                       merge_outputs if i == last else None)
            new_states += part
        return inputs, new_states


class BidirectionalCell(_Container):
    """Two cells, of which one reads the sequence forwards and one backwards.

    Parameters
    ----------
    l_cell, r_cell : BaseRNNCell
        The cell that reads forwards, and the cell that reads backwards.
    params : RNNParams, optional
        Variables to share with other cells; those of its cells unless given.
    output_prefix : str, default 'bi_'
        What names of the joined outputs begin with.

    Notes
    -----
    Outputs are concatenated along the channels: `l_cell`'s, then `r_cell`'s for the same position.
    The cell can only be unrolled; `unroll` returns a list of states for each direction.

    Examples
    --------
    >>> cells = [mx.rnn.GRUCell(4, prefix=prefix) for prefix in ("l_", "r_")]
    >>> cell = mx.rnn.BidirectionalCell(*cells)
    >>> outputs, states = cell.unroll(3, mx.sym.Variable("data"), merge_outputs=True)
    >>> outputs.infer_shape(data=(2, 3, 5))[1]
    [(2, 3, 8)]
    """

    _why_no_step = "use unroll, and modifiers such as ZoneoutCell on the cells of each direction"

    def __init__(self, l_cell: BaseRNNCell, r_cell: BaseRNNCell, params: RNNParams | None = None,
                 output_prefix: str = "bi_"):
        super().__init__(params)
        self._output_prefix = output_prefix
        for cell in (l_cell, r_cell):
            self._adopt(cell)

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Any]]:
        """Apply both cells to a sequence; the states are a list per direction."""
        self.reset()
        steps = as_steps(inputs, length, layout)
        parts = self._share(self.begin_state() if begin_state is None else begin_state)
        (ahead, l_states), (back, r_states) = (
            cell.unroll(length, order, part, layout, merge_outputs)
            for cell, order, part in zip(self._cells, (steps, steps[::-1]), parts, strict=True))
        return self._join(ahead, back, length, layout, merge_outputs), [l_states, r_states]

    def _join(self, ahead: Any, back: Any, length: int, layout: str, merge: bool | None) -> Any:
        """Outputs of both directions, side by side and in the order of the inputs."""
        axis = time_axis(layout)
        blocks = [isinstance(outputs, sym.Symbol) for outputs in (ahead, back)]
        if merge is None and not all(blocks):
            ahead, back = (list(sym.SliceChannel(outputs, axis=axis, num_outputs=length,
                                                 squeeze_axis=1)) if block else outputs
                           for outputs, block in zip((ahead, back), blocks, strict=True))
        if isinstance(ahead, sym.Symbol):
            return sym.Concat(ahead, sym.reverse(back, axis=axis), dim=2,
                              name=f"{self._output_prefix}out")
        return [sym.Concat(left, right, dim=1, name=f"{self._output_prefix}t{i}")
                for i, (left, right) in enumerate(zip(ahead, reversed(back), strict=True))]
