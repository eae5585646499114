"""Names of MXNet's C interface, which old scripts import from `mxnet.base`.

There is no C library.  `_LIB` has the functions that copy the elements of an array, of which
`NDArray.handle` is the handle, from and to memory at a pointer, and those that wait for arrays.
Other handles can be declared and passed around, and the first call of any other function is an
MXNetError that names it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NoReturn, cast

import numpy as np

from ..base import MXNetError

__all__ = ["CachedOpHandle", "CudaKernelHandle", "CudaModuleHandle", "DLPackHandle",
           "DataIterCreatorHandle", "DataIterHandle", "ExecutorHandle", "FunctionHandle",
           "KVStoreHandle", "NDArrayHandle", "OpHandle", "ProfileHandle", "RecordIOHandle",
           "RtcHandle", "SymbolHandle", "_LIB", "build_param_doc",
           "check_call", "c_array", "c_array_buf", "c_handle_array", "c_str", "c_str_array",
           "ctypes2buffer", "ctypes2numpy_shared", "data_dir", "data_dir_default", "mx_float",
           "mx_float_p", "mx_int", "mx_int64", "mx_real_t", "mx_uint", "py_str"]

mx_real_t = np.float32
mx_uint, mx_int, mx_int64, mx_float = ctypes.c_uint, ctypes.c_int, ctypes.c_int64, ctypes.c_float
mx_float_p = ctypes.POINTER(mx_float)

CachedOpHandle = CudaKernelHandle = CudaModuleHandle = DLPackHandle = ctypes.c_void_p
DataIterCreatorHandle = DataIterHandle = ExecutorHandle = FunctionHandle = ctypes.c_void_p
KVStoreHandle = NDArrayHandle = OpHandle = ProfileHandle = ctypes.c_void_p
RecordIOHandle = RtcHandle = SymbolHandle = ctypes.c_void_p


class _Library:
    """Stands for `libmxnet.so`."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        functions = import_module(f"{__package__}.c_functions").FUNCTIONS  # `base` is below it
        if name in functions:
            return cast(Callable[..., int], functions[name])

        def call(*args: Any) -> NoReturn:
            raise MXNetError(f"_LIB.{name}: nbmod is written in Python and has no C library; use "
                             "functions of mx.nd, mx.sym, mx.io and mx.kv")

        return call


_LIB = _Library()


def check_call(ret: int) -> None:
    """Raise MXNetError if a function of a C library has failed: if it returned anything but 0."""
    if ret != 0:
        raise MXNetError(f"a call of a C library failed with status {ret}")


def py_str(x: bytes | str) -> str:
    """Return text from a C string of UTF-8; text, such as names for monitors, stays as it is."""
    return x if isinstance(x, str) else x.decode("utf-8")


def c_str(string: str) -> ctypes.c_char_p:
    """Return a C string."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_str_array(strings: Iterable[str]) -> Any:
    """Return an array of C strings."""
    return c_array(ctypes.c_char_p, [text.encode("utf-8") for text in strings])


def c_array(ctype: Any, values: Iterable[Any]) -> Any:
    """Return a C array of an element type of `ctypes`."""
    elements = list(values)
    return (ctype * len(elements))(*elements)


def c_array_buf(ctype: Any, buf: Any) -> Any:
    """Return a C array of an element type of `ctypes` over the memory of an `array.array`."""
    return (ctype * len(buf)).from_buffer(buf)


def c_handle_array(objs: Iterable[Any]) -> Any:
    """Refuse to return the C handles of arrays or symbols, which have none."""
    raise MXNetError("c_handle_array: arrays and symbols of nbmod have no C handles")


def ctypes2buffer(cptr: Any, length: int) -> bytearray:
    """Return a copy of memory, from a pointer to `ctypes.c_char` and a number of bytes."""
    return bytearray(ctypes.string_at(cptr, length))


def ctypes2numpy_shared(cptr: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the memory at a pointer to `ctypes.c_float` as a NumPy array that shares it."""
    return np.ctypeslib.as_array(cptr, shape)


def data_dir_default() -> str:
    """Return the folder of downloaded files: `~/.mxnet`, or its place on Windows."""
    if os.name == "nt":
        return os.path.join(os.environ.get("APPDATA", os.path.expanduser("~")), "mxnet")
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir() -> str:
    """Return the folder of downloaded files: `MXNET_HOME`, or `data_dir_default()`."""
    return os.environ.get("MXNET_HOME", data_dir_default())


def build_param_doc(arg_names: Iterable[str], arg_types: Iterable[str], arg_descs: Iterable[str],
                    remove_dup: bool = True) -> str:
    """Return the section on parameters of a function's documentation.

    `num_args` is left out; `remove_dup` leaves out names that were there before.

    Examples
    --------
    >>> mx.base.build_param_doc(["data"], ["Symbol"], ["The input."]).splitlines()
    ['Parameters', '----------', 'data : Symbol', '    The input.']
    """
    lines, shown = ["Parameters", "----------"], {"num_args"}
    for name, kind, text in zip(arg_names, arg_types, arg_descs, strict=False):
        if name in shown:
            continue
        if remove_dup:
            shown.add(name)
        lines += [f"{name} : {kind}", *([f"    {text}"] if text else [])]
    return "\n".join([*lines, ""])
