"""Arrays that are not arguments of the kernel that uses them.

`array_at` makes an array from an address.  numba compiles a kernel anew for every number of array
arguments and inspects each at every call; a table of addresses is one array of any length.  The
caller keeps the arrays alive.

`stack_buffer` is a small array on the stack (alloca) for a loop that computes elements before they
are stored.  Where the loops over it are unrolled, the compiler keeps it in registers.

`flat_memory` is what kernels get of a view whose strides are arguments of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from .ir import Intrinsic, IRValue

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder
    from numba.core.base import BaseContext
    from numba.core.types import Array

__all__ = ["STEP", "array_at", "flat_memory", "stack_buffer"]

STEP = 64
"""Elements of a stack buffer: some vectors, more than a cache line."""


def flat_memory(view: np.ndarray) -> np.ndarray:
    """The memory of a view from its first element to its last, as a vector."""
    last = sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
    return np.lib.stride_tricks.as_strided(view, (last // view.itemsize + 1,), (view.itemsize,))


def _array_at(address: int, size: int, kind: DTypeLike) -> np.ndarray:
    memory = {"shape": (int(size),), "typestr": np.dtype(kind).str, "version": 3,
              "data": (int(address), False)}
    holder = type("Memory", (), {"__array_interface__": memory})
    return np.asarray(holder())


def _typer_at(typingctx, address, size, kind):
    from numba import types

    def emit(context, builder, signature, args):
        data = builder.inttoptr(args[0], context.get_data_type(kind.dtype).as_pointer())
        return _flat(context, builder, signature.return_type, data, args[1])

    return types.Array(kind.dtype, 1, "C")(types.intp, types.intp, kind), emit


def _typer_stack_buffer(typingctx, kind):
    from numba import types
    from numba.core import cgutils

    def emit(context, builder, signature, args):
        memory = cgutils.alloca_once(builder, context.get_data_type(kind.dtype), size=STEP)
        memory.align = 64
        size = context.get_constant(types.intp, STEP)
        return _flat(context, builder, signature.return_type, memory, size)

    return types.Array(kind.dtype, 1, "C")(kind), emit


def _flat(context: BaseContext, builder: IRBuilder, kind: Array, data: IRValue, size: IRValue
          ) -> IRValue:
    """The array of `size` elements at a pointer."""
    from numba import types
    from numba.np.arrayobj import populate_array

    array = context.make_array(kind)(context, builder)
    width = context.get_constant(types.intp, context.get_abi_sizeof(data.type.pointee))
    populate_array(array, data=data, shape=[size], strides=[width], itemsize=width, meminfo=None)
    return array._getvalue()


array_at = Intrinsic(_typer_at, _array_at)
"""array_at(address, size, kind): the `size` elements of type `kind` at an address."""
stack_buffer = Intrinsic(_typer_stack_buffer, lambda kind: np.empty(STEP, kind))
"""stack_buffer(kind): STEP uninitialised elements of type `kind`."""
