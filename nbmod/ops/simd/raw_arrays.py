"""Arrays that are not arguments of the kernel that uses them.

`array_at` makes an array from an address.  numba compiles a kernel anew for every number of array
arguments and inspects each at every call; a table of addresses is one array of any length.  The
caller keeps the arrays alive.

`stack_buffer` is a small array on the stack (alloca) for a loop that computes elements before they
are stored.  Where the loops over it are unrolled, the compiler keeps it in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import Inlined

__all__ = ["STEP", "array_at", "stack_buffer"]

STEP = 64
"""Elements of a stack buffer: some vectors, more than a cache line."""


class _ArrayAt(Inlined):
    """array_at(address, size, kind): the `size` elements of type `kind` at an address."""

    def __init__(self) -> None:
        super().__init__(self._plain)

    def _plain(self, address: int, size: int, kind: Any) -> np.ndarray:
        memory = {"shape": (int(size),), "typestr": np.dtype(kind).str, "version": 3,
                  "data": (int(address), False)}
        holder = type("Memory", (), {"__array_interface__": memory})
        return np.asarray(holder())

    def compile(self) -> Any:
        return _compiled(self, _typer_at)


class _StackBuffer(Inlined):
    """stack_buffer(kind): STEP uninitialised elements of type `kind`."""

    def __init__(self) -> None:
        super().__init__(lambda kind: np.empty(STEP, kind))

    def compile(self) -> Any:
        return _compiled(self, _typer_stack_buffer)


def _compiled(inlined: Inlined, typer: Any) -> Any:
    if inlined._compiled is None:
        from numba.extending import intrinsic

        inlined._compiled = intrinsic(typer)
    return inlined._compiled


def _typer_at(typingctx, address, size, kind):
    from numba import types

    def emit(context, builder, signature, args):
        number = context.get_data_type(kind.dtype)
        data = builder.inttoptr(args[0], number.as_pointer())
        return _flat(context, builder, signature.return_type, data, args[1])

    return types.Array(kind.dtype, 1, "C")(types.intp, types.intp, kind), emit


def _typer_stack_buffer(typingctx, kind):
    from numba import types
    from numba.core import cgutils

    def emit(context, builder, signature, args):
        number = context.get_data_type(kind.dtype)
        memory = cgutils.alloca_once(builder, number, size=STEP)
        memory.align = 64
        size = context.get_constant(types.intp, STEP)
        return _flat(context, builder, signature.return_type, memory, size)

    return types.Array(kind.dtype, 1, "C")(kind), emit


def _flat(context: Any, builder: Any, kind: Any, data: Any, size: Any) -> Any:
    """The array of `size` elements at a pointer."""
    from numba import types
    from numba.np.arrayobj import populate_array

    made = context.make_array(kind)(context, builder)
    width = context.get_constant(types.intp, context.get_abi_sizeof(data.type.pointee))
    populate_array(made, data=data, shape=[size], strides=[width], itemsize=width, meminfo=None)
    return made._getvalue()


array_at, stack_buffer = _ArrayAt(), _StackBuffer()
