"""MXNet's module path of blocks (see `nbmod.gluon`)."""

from .base_block import Block
from .block_scope import BlockScope as _BlockScope  # noqa: F401
from .call_structure import flatten as _flatten  # noqa: F401
from .hybrid_block import HybridBlock
from .symbol_block import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
