"""Cells that change what another cell does, and dropout between cells.

A modifier has its base cell's parameters, states and weights. The base cell is marked as modified:
its own `begin_state` would bypass the modifier, so it refuses to be called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Number
from typing import Any

from .. import symbol as sym
from ..base import CheckError, wrong_type
from .base_cell import BaseRNNCell, RNNParams, States, arrange

__all__ = ["DropoutCell", "ModifierCell", "ResidualCell", "ZoneoutCell"]


class DropoutCell(BaseRNNCell):
    """Dropout between cells.

    Parameters
    ----------
    dropout : float
        Probability with which an element of the inputs is set to 0 in training.
    prefix : str
        What names of nodes and weights begin with; the default is in the signature.
    params : RNNParams, optional
        Variables to share with other cells; new ones unless given.

    Raises
    ------
    MXNetError
        If `dropout` is not a number.

    Notes
    -----
    There are no states and no weights.
    """

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None):
        super().__init__(prefix, params)
        if not isinstance(dropout, Number):
            raise CheckError(f"DropoutCell: dropout is {dropout!r}, expected a probability")
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return []

    def __call__(self, inputs: sym.Symbol, states: States) -> tuple[Any, list[Any]]:
        """Inputs, some of them 0 in training."""
        if self.dropout > 0:
            inputs = sym.Dropout(inputs, p=self.dropout)
        return inputs, list(states)

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Any]]:
        """Drop out of a sequence; a single symbol is dropped out as a whole."""
        self.reset()
        inputs = arrange(inputs, length, layout, merge_outputs)
        if isinstance(inputs, sym.Symbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(BaseRNNCell):
    """Base class of modifiers.  A subclass defines `__call__`, which calls `self.base_cell`.

    Parameters
    ----------
    base_cell : BaseRNNCell
        The cell to modify, whose weights and states the modifier has.
    """

    def __init__(self, base_cell: BaseRNNCell):
        if not isinstance(base_cell, BaseRNNCell):
            raise wrong_type(f"{type(self).__name__}: base_cell", base_cell, "an RNN cell")
        base_cell._modified = True
        super().__init__()
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        """The base cell's variables."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return self.base_cell.state_info

    def begin_state(  # type: ignore[override]
            self, init_sym: Callable[..., Any] = sym.zeros, **kwargs: Any) -> list[Any]:
        """The base cell's first states.

        Parameters
        ----------
        init_sym : callable, default mx.sym.zeros
            Makes a state; it may be given as `func`, too.
        """
        self._check_not_modified()
        func = kwargs.pop("func", init_sym)
        with self._unmodified():
            return self.base_cell.begin_state(func=func, **kwargs)

    @contextmanager
    def _unmodified(self) -> Iterator[None]:
        """Within this context the base cell's own `begin_state` may be called."""
        self.base_cell._modified = False
        try:
            yield
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """Zoneout: in training, some outputs and states keep their values of the last step.

    Parameters
    ----------
    base_cell : BaseRNNCell
        The cell to modify; it must be one that can be stepped.
    zoneout_outputs : float, default 0.0
        Probability with which an element of the output is kept; before the first step it is 0.
    zoneout_states : float, default 0.0
        Probability with which an element of a state is kept.

    Raises
    ------
    MXNetError
        If the base cell cannot be stepped.

    References
    ----------
    Krueger et al., "Zoneout: regularizing RNNs by randomly preserving hidden activations", 2016.

    Examples
    --------
    >>> cell = mx.rnn.ZoneoutCell(mx.rnn.LSTMCell(4), zoneout_states=0.1)
    >>> outputs, states = cell.unroll(2, mx.sym.Variable("data"), merge_outputs=True)
    >>> outputs.infer_shape(data=(2, 2, 3))[1]
    [(2, 2, 4)]
    """

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0,
                 zoneout_states: float = 0.0):
        super().__init__(base_cell)
        _check_steps(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states

    def reset(self) -> None:
        """Count steps and first states from 0 again, and clear the last output."""
        super().reset()
        self.prev_output: sym.Symbol | None = None

    def __call__(self, inputs: sym.Symbol, states: States) -> tuple[Any, list[Any]]:
        """One step: (output, new states)."""
        output, new_states = self.base_cell(inputs, states)
        if self.zoneout_outputs:
            drawn = _draw(self.zoneout_outputs, output)
            before = self._zeros() if self.prev_output is None else self.prev_output
            output = sym.where(drawn, output, before)
        if self.zoneout_states:
            new_states = [sym.where(_draw(self.zoneout_states, new), new, old)
                          for new, old in zip(new_states, states, strict=True)]
        self.prev_output = output
        return output, new_states

    def _zeros(self) -> sym.Symbol:
        """Zeros of a shape that follows, of as many dimensions as a state has."""
        shapes = self.base_cell.state_shape
        return sym.zeros((0,) * (len(shapes[0]) if shapes else 2))


def _draw(probability: float, like: sym.Symbol) -> sym.Symbol:
    """A mask with zeros where the old element stays."""
    return sym.Dropout(sym.ones_like(like), p=probability)


def _check_steps(cell: BaseRNNCell) -> None:
    if cell._why_no_step:
        raise CheckError(f"ZoneoutCell: a {type(cell).__name__} cannot be stepped; "
                         f"{cell._why_no_step}")
    inner = [cell.base_cell] if isinstance(cell, ModifierCell) else getattr(cell, "_cells", ())
    for each in inner:
        _check_steps(each)


class ResidualCell(ModifierCell):
    """Adds the inputs of a cell to its outputs, which have to have the same shape.

    Parameters
    ----------
    base_cell : BaseRNNCell
        The cell to modify.

    References
    ----------
    He et al., "Deep residual learning for image recognition", 2015.
    Wu et al., "Google's neural machine translation system", 2016.

    Examples
    --------
    >>> cell = mx.rnn.ResidualCell(mx.rnn.GRUCell(3))
    >>> outputs, states = cell.unroll(2, mx.sym.Variable("data"), merge_outputs=True)
    >>> outputs.infer_shape(data=(1, 2, 3))[1]
    [(1, 2, 3)]
    """

    def __call__(self, inputs: sym.Symbol, states: States) -> tuple[Any, list[Any]]:
        """One step: (output, new states)."""
        output, states = self.base_cell(inputs, states)
        return _add(output, inputs), list(states)

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Any]]:
        """Apply the cell to a sequence; blocks are added as a whole."""
        self.reset()
        with self._unmodified():
            outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout,
                                                    merge_outputs)
        if isinstance(outputs, sym.Symbol):
            return _add(outputs, arrange(inputs, length, layout, True)), states
        steps = arrange(inputs, length, layout, False)
        return [_add(*pair) for pair in zip(outputs, steps, strict=True)], states


def _add(output: sym.Symbol, inputs: sym.Symbol) -> sym.Symbol:
    return sym.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")
