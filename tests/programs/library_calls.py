"""What programs reach around the documented API: C functions on handles, names of modules."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


def copies(mx: Any, ctx: Any = None) -> list[Any]:
    """Arrays that go to memory at a pointer and come back changed, by functions of `_LIB`."""
    library, check, seen = mx.base._LIB, mx.base.check_call, []
    for dtype in ("float32", "float64", "int32", "float16"):
        array = mx.nd.arange(6, ctx=ctx, dtype=dtype).reshape((2, 3))
        host = np.zeros(6, dtype)
        pointer = host.ctypes.data_as(ctypes.c_void_p)
        check(library.MXNDArrayWaitToRead(array.handle))
        check(library.MXNDArraySyncCopyToCPU(array.handle, pointer, ctypes.c_size_t(6)))
        seen.append(host.tolist())
        host *= 2
        check(library.MXNDArraySyncCopyFromCPU(array.handle, pointer, ctypes.c_size_t(6)))
        check(library.MXNDArrayWaitAll())
        seen.append((array + 1).asnumpy().tolist())
    row = array[1]
    check(library.MXNDArraySyncCopyFromCPU(row.handle, pointer, ctypes.c_size_t(3)))
    return [*seen, array.asnumpy().tolist()]


def wrong_copy(mx: Any) -> bool:
    """Whether a number of elements that is not the array's is refused."""
    host, array = np.zeros(6, "float32"), mx.nd.ones((2, 2))
    try:
        mx.base.check_call(mx.base._LIB.MXNDArraySyncCopyToCPU(
            array.handle, host.ctypes.data_as(mx.base.mx_float_p), ctypes.c_size_t(6)))
    except mx.MXNetError:
        return True
    return False


def names(mx: Any) -> list[str]:
    """Names of the modules that a block works with: of arrays, of symbols."""
    seen = []

    class Named(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            seen.append(F.__name__)
            return F.relu(x)

    block = Named()
    block(mx.nd.ones(2))
    block.hybridize()
    block(mx.nd.ones(2))
    return [*seen, mx.nd.__name__, mx.sym.__name__]
