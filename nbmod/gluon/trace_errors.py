"""Errors of `hybrid_forward` name the block that they are from, as the user wrote it."""

from __future__ import annotations

from collections.abc import Iterator

from .. import ndarray as nd
from .. import symbol as sym
from .base_block import Block

__all__ = ["name_block"]

_VALUES = ("symbols have no shapes and no values: reshape((0, -1)) and F.reshape_like keep sizes, "
           "F.where and F.contrib.cond choose by values")
_CURES = {
    "expected a Symbol": "self.params.get_constant in __init__ keeps an array",
    "is out of range for": "an index of a symbol is that of an output; states are a list",
    "expected an NDArray": "F.relu takes what the block was called with, mx.nd.relu only arrays",
    "cannot be combined with a": "self.params.get_constant in __init__ keeps an array",
    "__array_ufunc__": "F.exp takes symbols, np.exp only arrays",
    "index is a tuple": "F.slice, F.slice_axis and F.take cut symbols",
    "attribute 'T'": "F.transpose takes symbols",
    "Function detach": "F.BlockGrad takes symbols",
    "attribute 'context'": "arrays that F makes are where those of the call are, without ctx",
    "Function as_in_context": "arrays that F makes are where those of the call are, without ctx",
    "Symbol": _VALUES}
"""Cures of errors in a block that is called with symbols, by a part of the message."""
_NO_SYMBOLS = ("hybridized, F is mx.sym, which lacks functions that make arrays: "
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
        cure = _cure(error, message, inner, arguments == "symbols")
        if cure and isinstance(error, AttributeError):
            error.obj = None    # Python would add a name that is alike: reshape for shape
        error.args = (f"{message} (in hybrid_forward of {type(root).__name__.lower()}{path}: "
                      f"{inner.name}, a {type(inner).__name__}, called with {arguments}"
                      f"{cure and f'; {cure}'})", *error.args[1:])


def _cure(error: Exception, message: str, block: Block, is_traced: bool) -> str:
    """The end of the message; '' where nothing is known."""
    if isinstance(error, TypeError) and "hybrid_forward() " in message:
        own = ", ".join(block._reg_params) or "none"
        return ("hybrid_forward(self, F, x, ...) takes the arguments of the call, and by name the "
                f"block's own parameters, which are attributes: {own}")
    if isinstance(error, AttributeError) and error.obj is sym:
        return _NO_SYMBOLS if is_traced and hasattr(nd, str(error.name)) else ""
    return next((cure for part, cure in _CURES.items() if is_traced and part in message), "")


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
