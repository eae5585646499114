"""Checkpoints of recurrent networks: the weights in the file are unpacked, an array per gate.

So a file serves fused and unfused cells alike, and other frameworks can read it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import symbol as sym
from ..model import load_checkpoint, save_checkpoint
from .base import BaseRNNCell, States

__all__ = ["do_rnn_checkpoint", "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]

Cells = BaseRNNCell | Sequence[BaseRNNCell]


def save_rnn_checkpoint(cells: Cells, prefix: str, epoch: int, symbol: Any,
                        arg_params: Mapping[str, Any], aux_params: Mapping[str, Any]) -> None:
    """`mx.model.save_checkpoint` with the weights of a cell, or of several, unpacked."""
    for cell in _as_list(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells: Cells, prefix: str, epoch: int
                        ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """(symbol, arg_params, aux_params), the weights packed as `cells` want them."""
    symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
    for cell in _as_list(cells):
        arg_params = cell.pack_weights(arg_params)
    return symbol, arg_params, aux_params


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """Epoch callback: `save_rnn_checkpoint` every `period` epochs."""
    every = int(max(1, period))

    def callback(epoch: int, symbol: Any = None, arg_params: Any = None, aux_params: Any = None
                 ) -> None:
        if (epoch + 1) % every == 0:
            save_rnn_checkpoint(cells, prefix, epoch + 1, symbol, arg_params, aux_params)

    return callback


def rnn_unroll(cell: BaseRNNCell, length: int, inputs: Any = None,
               begin_state: States | None = None, input_prefix: str = "", layout: str = "NTC"
               ) -> tuple[Any, list[Any]]:
    """`cell.unroll`, the name it had before; without inputs they are `<input_prefix>t0_data`, ...
    """
    warnings.warn("rnn_unroll is deprecated. Please call cell.unroll directly.", stacklevel=2)
    if inputs is None:
        inputs = [sym.Variable(f"{input_prefix}t{i}_data") for i in range(length)]
    return cell.unroll(length, inputs, begin_state, layout)


def _as_list(cells: Cells) -> list[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else list(cells)
