"""`Block.summary`: layers that a call passes, shapes of their outputs, sizes of parameters."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

from ..base import CheckError
from ..ndarray import NDArray
from ..symbol import Symbol

__all__ = ["print_summary"]

Block: TypeAlias = Any  # `base_block`, which imports this module

_WIDTH = 80


class _Summary:
    """Rows of layers, in the order in which they end, and the parameters that they have."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int]] = []
        self.total = self.trainable = self.shared = 0
        self._seen: set[int] = set()

    def add(self, block: Block, args: tuple[Any, ...], outputs: Any) -> None:
        """Add the row of a block that was called: a hook."""
        if args and isinstance(args[0], Symbol):
            return  # shapes of parameters are inferred
        size = 0
        for parameter in block.params.values():
            count = prod(parameter.shape or ())
            size += count
            self.trainable += 0 if parameter.grad_req == "null" else count
            self.shared += count if id(parameter) in self._seen else 0
            self._seen.add(id(parameter))
        self.total += size
        name = f"{type(block).__name__}-{len(self.rows) + 1}"
        self.rows.append((name, _shapes(outputs), size))

    def text(self, inputs: tuple[Any, ...]) -> str:
        """The table."""
        titles = ("Layer (type)", "Output Shape", "Param #")
        rows = [titles, ("Input", _shapes(inputs), 0), *self.rows]
        lines = [f"{name:>20}  {shape:>42} {size:>15}" for name, shape, size in rows]
        return "\n".join([
            "-" * _WIDTH, lines[0], "=" * _WIDTH, *lines[1:], "=" * _WIDTH,
            "Parameters in forward computation graph, duplicate included",
            f"   Total params: {self.total}",
            f"   Trainable params: {self.trainable}",
            f"   Non-trainable params: {self.total - self.trainable}",
            f"Shared params in forward computation graph: {self.shared}",
            f"Unique parameters in model: {self.total - self.shared}",
            "-" * _WIDTH])


def print_summary(block: Block, inputs: tuple[Any, ...]) -> None:
    """Call a block, and print the layers that the call passes.

    Parameters
    ----------
    block : Block
        Network, which must not be hybridized.
    inputs : tuple
        Arguments of the call.

    Raises
    ------
    AssertionError
        If a part of it is hybridized.
    """
    summary = _Summary()
    blocks: dict[Block, None] = {}
    block.apply(blocks.setdefault)
    for each in blocks:
        if getattr(each, "_active", False):
            raise CheckError(f'"{each.name}" must not be hybridized to print summary.')
    handles = [each.register_forward_hook(summary.add) for each in blocks if not each._is_container]
    try:
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    print(summary.text(inputs))


def _shapes(values: Any) -> str:
    """The shapes of arrays in nested lists, and other values as they are."""
    shown = _shape_tree(values)
    return ", ".join(map(_text, shown)) if isinstance(shown, list) else _text(shown)


def _shape_tree(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [_shape_tree(each) for each in values]
    return values.shape if isinstance(values, NDArray) else repr(values)


def _text(shape: Any) -> str:
    return f"[{', '.join(map(_text, shape))}]" if isinstance(shape, list) else str(shape)
