"""Unaligned loads from addresses, and bit operations that are one LLVM instruction.

    address_of(array)        the address of its data; the caller keeps the array alive
    byte_at(address)         the byte there, as an int64
    word_at(address)         the eight bytes there as a little-endian uint64
    trailing_zeros(word)     the number of trailing zero bits; 64 for 0

Arguments are addresses because an array argument costs reference counting.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from .ir import Intrinsic

__all__ = ["address_of", "byte_at", "trailing_zeros", "word_at"]


def _address(typingctx, array):
    from numba import types
    from numba.core import cgutils

    def emit(context, builder, signature, args):
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.int64))

    return types.int64(array), emit


def _load(bits: int, kind: str) -> Callable[..., Any]:
    def typer(typingctx, address):
        from llvmlite import ir
        from numba import types

        def emit(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            return builder.zext(builder.load(pointer, align=1), ir.IntType(64))

        return getattr(types, kind)(types.int64), emit

    return typer


def _zeros(typingctx, word):
    from llvmlite import ir
    from numba import types

    def emit(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), emit


address_of = Intrinsic(_address, lambda array: array.ctypes.data)
byte_at = Intrinsic(_load(8, "int64"),
                       lambda address: ctypes.c_uint8.from_address(int(address)).value)
word_at = Intrinsic(_load(64, "uint64"),
                       lambda address: np.uint64(ctypes.c_uint64.from_address(
                           int(address)).value))
trailing_zeros = Intrinsic(_zeros, lambda word: (
    (int(word) & -int(word)).bit_length() - 1 if word else 64))
