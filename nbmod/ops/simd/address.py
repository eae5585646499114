"""Arrays that kernels find by their addresses: any number of them behind one argument.

numba compiles a kernel anew for every number of arrays that it is given, and looks at each in turn.
A table of addresses is one array however long it is; whoever makes it keeps the arrays alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import Inlined

__all__ = ["array_at"]


class _ArrayAt(Inlined):
    """array_at(address, size, kind): the `size` numbers of type `kind` that lie there."""

    def __init__(self) -> None:
        super().__init__(self._plain)

    def _plain(self, address: int, size: int, kind: Any) -> np.ndarray:
        memory = {"shape": (int(size),), "typestr": np.dtype(kind).str, "version": 3,
                  "data": (int(address), False)}
        holder = type("Memory", (), {"__array_interface__": memory})
        return np.asarray(holder())

    def compile(self) -> Any:
        if self._compiled is None:
            from numba.extending import intrinsic

            self._compiled = intrinsic(_typer)
        return self._compiled


def _typer(typingctx, address, size, kind):
    from numba import types
    from numba.np.arrayobj import populate_array

    array = types.Array(kind.dtype, 1, "C")

    def emit(context, builder, signature, args):
        made = context.make_array(array)(context, builder)
        data = builder.inttoptr(args[0], made.data.type)
        width = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        stride = context.get_constant(types.intp, width)
        populate_array(made, data=data, shape=[args[1]], strides=[stride], itemsize=stride,
                       meminfo=None)
        return made._getvalue()

    return array(types.intp, types.intp, kind), emit


array_at = _ArrayAt()
