"""Questions about the bits of a number that LLVM has one instruction for, and NumPy no word."""

from __future__ import annotations

from typing import Any

from ..jit import Inlined

__all__ = ["trailing_zeros"]


class _TrailingZeros(Inlined):
    """trailing_zeros(word): how many of the lowest bits of a uint64 are 0; 64 if all are."""

    def __init__(self) -> None:
        super().__init__(self._plain)

    def _plain(self, word: int) -> int:
        return (word & -word).bit_length() - 1 if word else 64

    def compile(self) -> Any:
        if self._compiled is None:
            from numba.extending import intrinsic

            self._compiled = intrinsic(_typer)
        return self._compiled


def _typer(typingctx, word):
    from llvmlite import ir
    from numba import types

    def emit(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), emit


trailing_zeros = _TrailingZeros()
