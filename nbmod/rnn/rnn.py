"""Checkpoints of recurrent networks: the weights in the file are unpacked, an array per gate.

So a file serves fused and unfused cells alike, and other frameworks can read it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from .. import symbol as sym
from ..callback.mxnet_callbacks import _at_epochs
from ..checkpoint import load_checkpoint, save_checkpoint
from ..ndarray import NDArray
from .base_cell import BaseRNNCell, States

__all__ = ["do_rnn_checkpoint", "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]

Sequences = sym.Symbol | Sequence[sym.Symbol] | None
Cells = BaseRNNCell | Sequence[BaseRNNCell]


def save_rnn_checkpoint(cells: Cells, prefix: str, epoch: int, symbol: sym.Symbol | None,
                        arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]
                        ) -> None:
    """Save a checkpoint of a recurrent network, with an array for every gate.

    Parameters
    ----------
    cells : BaseRNNCell or list of BaseRNNCell
        The cells, whose weights are unpacked.
    prefix : str
        What the names of the files begin with.
    epoch : int
        Number of the epoch.
    symbol : Symbol
        The network.
    arg_params, aux_params : dict of str to NDArray
        Its parameters and auxiliary states.

    See Also
    --------
    nbmod.model.save_checkpoint
    """
    for cell in _as_list(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells: Cells, prefix: str, epoch: int
                        ) -> tuple[sym.Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Load a checkpoint that `save_rnn_checkpoint` saved.

    Parameters
    ----------
    cells : BaseRNNCell or list of BaseRNNCell
        The cells, whose weights are packed.
    prefix : str
        What the names of the files begin with.
    epoch : int
        Number of the epoch.

    Returns
    -------
    symbol : Symbol
        The network.
    arg_params, aux_params : dict of str to NDArray
        Its parameters and auxiliary states.
    """
    symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
    for cell in _as_list(cells):
        arg_params = cell.pack_weights(arg_params)
    return symbol, arg_params, aux_params


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """An `epoch_end_callback` of `fit` that saves checkpoints.

    Parameters
    ----------
    cells : BaseRNNCell or list of BaseRNNCell
        The cells, whose weights are unpacked.
    prefix : str
        What the names of the files begin with.
    period : int, default 1
        Number of epochs from one checkpoint to the next.
    """
    return _at_epochs(period, partial(save_rnn_checkpoint, cells, prefix))


def rnn_unroll(cell: BaseRNNCell, length: int, inputs: Sequences = None,
               begin_state: States | None = None, input_prefix: str = "", layout: str = "NTC"
               ) -> tuple[sym.Symbol | list[sym.Symbol], list[sym.Symbol]]:
    """Unroll a cell; deprecated in favor of `cell.unroll`, with a warning.

    Parameters
    ----------
    cell : BaseRNNCell
        The cell.
    length : int
        Number of steps.
    inputs : Symbol or list of Symbol, optional
        The sequence; variables `<input_prefix>t0_data`, ... unless given.
    begin_state : list of Symbol, optional
        The first states; those of `begin_state()` unless given.
    input_prefix : str, default ''
        What the names of the variables begin with.
    layout : str, default 'NTC'
        The axes of a single symbol.
    """
    warnings.warn("rnn_unroll is deprecated. Please call cell.unroll directly.", stacklevel=2)
    if inputs is None:
        inputs = [sym.Variable(f"{input_prefix}t{i}_data") for i in range(length)]
    return cell.unroll(length, inputs, begin_state, layout)


def _as_list(cells: Cells) -> list[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else list(cells)
