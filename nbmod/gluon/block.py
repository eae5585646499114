"""MXNet's module path of Gluon's blocks (see `nbmod.gluon`)."""

from . import Block, HybridBlock, SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
