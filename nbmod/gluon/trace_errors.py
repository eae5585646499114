"""Errors of `hybrid_forward` name the block that they are from, as the user wrote it."""

from __future__ import annotations

from collections.abc import Iterator

from .. import symbol as sym
from .base_block import Block

__all__ = ["name_block"]

_MISSING = f"module {sym.__name__!r} has no attribute"

_HINT = ("; symbols have no shapes and no values: reshape((0, -1)) and F.reshape_like keep sizes, "
         "F.where and F.contrib.cond choose by values")
_NO_SYMBOLS = ("; hybridized, F is mx.sym, which lacks functions that make arrays: "
               "self.params.get_constant in __init__ keeps one")


def name_block(error: Exception, root: Block, arguments: str) -> None:
    """Add the path of the innermost block that an error is from to its message.

    Parameters
    ----------
    error : Exception
        Error of `hybrid_forward`, which keeps its type and the frames of the user.
    root : Block
        Block that was called.
    arguments : str
        Kind of arguments, "symbols" or "arrays".
    """
    message = error.args[0] if error.args else None
    inner = _innermost(error, root)
    if isinstance(message, str) and " (in hybrid_forward of " not in message:
        path = next((path for path, block in _paths(root) if block is inner), "")
        hint = "" if arguments != "symbols" else _HINT if "Symbol" in message else (
            _NO_SYMBOLS if _MISSING in message else "")
        error.args = (f"{message} (in hybrid_forward of {type(root).__name__.lower()}{path}: "
                      f"{inner.name}, a {type(inner).__name__}, called with {arguments}{hint})",
                      *error.args[1:])


def _innermost(error: Exception, root: Block) -> Block:
    """The last block on the way to the error."""
    inner, frame = root, error.__traceback__
    while frame is not None:
        block = frame.tb_frame.f_locals.get("self")
        inner = block if isinstance(block, Block) else inner
        frame = frame.tb_next
    return inner


def _paths(root: Block) -> Iterator[tuple[str, Block]]:
    """All blocks, and how they are written: `.features[4].body`."""
    waiting = [("", root)]
    while waiting:
        path, block = waiting.pop()
        yield path, block
        waiting += [(f"{path}[{name}]" if name.isdigit() else f"{path}.{name}", child)
                    for name, child in block._children.items()]
