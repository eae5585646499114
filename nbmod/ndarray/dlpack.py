"""DLPack: memory shared with other libraries, such as PyTorch and JAX, without a copy.

`torch.from_dlpack(x)` and `numpy.from_dlpack(x)` take an NDArray on the CPU as it is; `from_dlpack`
takes their tensors.  The functions with capsules are MXNet's.  Memory is shared in both directions:
`mutation` tells executors.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ..base import CheckError, MXNetError
from ..context import Context
from .host_array import as_dtype
from .mutation import share
from .ndarray import NDArray

__all__ = ["from_dlpack", "to_dlpack_for_read", "to_dlpack_for_write"]


class _Capsule:
    """A capsule as an object of the protocol that `numpy.from_dlpack` takes."""

    def __init__(self, capsule: object):
        self.capsule = capsule

    def __dlpack__(self, **kwargs: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def to_dlpack_for_read(data: NDArray) -> object:
    """Return a DLPack capsule of an array's memory, for reading; it can be used once.

    Parameters
    ----------
    data : NDArray
        Array on the CPU.

    Raises
    ------
    MXNetError
        If the array is on a GPU.

    Examples
    --------
    >>> x = mx.nd.ones((2,))
    >>> mx.nd.from_dlpack(mx.nd.to_dlpack_for_read(x)).asnumpy().tolist()
    [1.0, 1.0]
    """
    return data.__dlpack__()


def to_dlpack_for_write(data: NDArray) -> object:
    """Return a DLPack capsule of an array's memory, for writing.

    Parameters
    ----------
    data : NDArray
        As for `to_dlpack_for_read`; elements written to the other tensor are seen in it.

    Examples
    --------
    >>> x = mx.nd.ones((2,))
    >>> mx.nd.from_dlpack(mx.nd.to_dlpack_for_write(x))[:] = 5
    >>> x.asnumpy().tolist()
    [5.0, 5.0]
    """
    return data.__dlpack__()


def from_dlpack(dlpack: object) -> NDArray:
    """Make an array on `cpu(0)` that shares memory with another library's tensor.

    Parameters
    ----------
    dlpack : PyCapsule or object with ``__dlpack__``
        Capsule, or tensor on the CPU.  It must be C-contiguous, else it is copied.

    Raises
    ------
    TypeError
        If neither is given, or the element type is not supported.
    MXNetError
        If the capsule has been used, or the tensor is not on the CPU.

    Notes
    -----
    What is written to the tensor between two runs of an executor is seen by the second one.

    Examples
    --------
    >>> import numpy as np
    >>> source = np.zeros(3, dtype="float32")
    >>> mx.nd.from_dlpack(source)[:] = 2
    >>> source.tolist()
    [2.0, 2.0, 2.0]
    """
    if not hasattr(dlpack, "__dlpack__"):
        if type(dlpack).__name__ != "PyCapsule":
            raise CheckError(f"from_dlpack: given a {type(dlpack).__name__}, expected a DLPack "
                             "capsule or an object with __dlpack__")
        dlpack = _Capsule(dlpack)
    try:
        array = np.from_dlpack(dlpack)
    except (ValueError, RuntimeError, BufferError) as error:
        raise MXNetError(f"from_dlpack: {error}; a capsule can be used once, and tensors must be "
                         "on the CPU") from error
    as_dtype(array.dtype)
    if not array.flags.c_contiguous or not array.size:
        return NDArray(array.copy(), Context("cpu", 0))
    shared = _writable(array)
    share(shared)
    return NDArray(shared, Context("cpu", 0))


def _writable(array: np.ndarray) -> np.ndarray:
    """The memory of `array`, which NumPy marks read-only where an exporter does not say."""
    if array.flags.writeable:
        return array
    memory = (ctypes.c_byte * array.nbytes).from_address(array.ctypes.data)
    memory.owner = array  # type: ignore[attr-defined]
    return np.frombuffer(memoryview(memory), array.dtype).reshape(array.shape)
