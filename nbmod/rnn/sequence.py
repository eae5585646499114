"""Sequences in their two forms: a list with a symbol per step, or one symbol with a time axis.

A layout such as 'NTC' names the axes of the one symbol; `T` is time. Cells take either form and
return either; these functions convert between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import symbol as sym
from ..base import MXNetError

__all__ = ["arrange", "as_block", "as_steps", "time_axis"]


def time_axis(layout: str) -> int:
    """The position of `T` in `layout`."""
    axis = layout.find("T")
    if axis < 0:
        raise MXNetError(f"unroll: layout is {layout!r}, expected one with a time axis 'T', such "
                         "as 'NTC' or 'TNC'")
    return axis


def as_steps(inputs: Any, length: int, layout: str) -> list[sym.Symbol]:
    """The `length` steps of a sequence in either form."""
    if isinstance(inputs, sym.Symbol):
        return list(sym.split(_single(inputs), axis=time_axis(layout), num_outputs=length,
                              squeeze_axis=1))
    return _counted(inputs, length)


def as_block(inputs: Any, length: int, layout: str) -> sym.Symbol:
    """A sequence of `length` steps in either form as one symbol."""
    if isinstance(inputs, sym.Symbol):
        return _single(inputs)
    axis = time_axis(layout)
    steps = [sym.expand_dims(step, axis=axis) for step in _counted(inputs, length)]
    return sym.Concat(*steps, dim=axis)


def arrange(inputs: Any, length: int, layout: str, merge: bool | None) -> Any:
    """A sequence as one symbol (`merge`), as steps (`merge=False`), or (None) as it is."""
    if merge is None:
        return _single(inputs) if isinstance(inputs, sym.Symbol) else _counted(inputs, length)
    return (as_block if merge else as_steps)(inputs, length, layout)


def _single(inputs: sym.Symbol) -> sym.Symbol:
    if len(inputs) != 1:
        raise MXNetError(f"unroll: {inputs!r} has {len(inputs)} outputs, expected one with a time "
                         "axis; pass list(inputs) if they are the steps")
    return inputs


def _counted(inputs: Any, length: int) -> list[sym.Symbol]:
    if not isinstance(inputs, Sequence) or isinstance(inputs, str):
        raise MXNetError(f"unroll: inputs is a {type(inputs).__name__}, expected a Symbol or a "
                         "list of them, one per step")
    if len(inputs) != length:
        raise MXNetError(f"unroll: {len(inputs)} inputs are given for {length} steps")
    return list(inputs)
