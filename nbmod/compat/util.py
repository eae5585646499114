"""`mx.util`: the meaning of shapes, environment variables, GPUs, helpers of NumPy's functions.

Shapes may have NumPy's meaning (`np_shape`); arrays of NumPy's kind (`np_array`, `use_np`) are not
part of nbmod.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

from ..base import ArgumentError, MXNetError
from ..context import Context, gpu_memory_info, num_gpus
from ..core.shape_semantics import is_np_shape, np_shape, set_np_shape
from .c_interface import _LIB, c_str, check_call, py_str  # noqa: F401 - MXNet has them here, too

__all__ = ["get_cuda_compute_capability", "get_gpu_count", "get_gpu_memory", "getenv",
           "is_np_array", "is_np_shape", "np_array", "np_shape", "np_ufunc_legal_option",
           "reset_np", "set_module", "set_np", "set_np_shape", "setenv", "use_np", "use_np_array",
           "use_np_shape", "wrap_np_binary_func", "wrap_np_unary_func"]
__dir__ = __all__.copy

F = TypeVar("F", bound=Callable[..., Any])

_NO_ARRAYS = ("arrays of NumPy's kind (mx.np) are not part of nbmod; use mx.nd, or NumPy itself; "
              "mx.util.np_shape gives shapes NumPy's meaning")


# -- shapes ---------------------------------------------------------------------------------------


def use_np_shape(func: F) -> F:
    """Give shapes NumPy's meaning while a function runs, or any method of a class.

    Parameters
    ----------
    func : callable or type
        Function or class.

    Returns
    -------
    callable or type
        A function; the class itself, whose methods and properties are replaced.

    Raises
    ------
    TypeError
        If it is neither.

    Examples
    --------
    >>> @mx.use_np_shape
    ... def scalar():
    ...     return mx.nd.ones(()).shape
    >>> scalar(), mx.is_np_shape()
    ((), False)
    """
    return _decorated(func, _within_np_shape, "use_np_shape")


def _decorated(func: Any, change: Callable[[Any], Any], name: str) -> Any:
    """A function or all methods of a class, changed."""
    if not inspect.isclass(func):
        if not callable(func):
            raise TypeError(f"{name} can only decorate classes and callable objects, while "
                            f"received a {type(func)}")
        return change(func)
    for key, member in list(vars(func).items()):
        if isinstance(member, (staticmethod, classmethod)):
            setattr(func, key, type(member)(change(member.__func__)))
        elif isinstance(member, property):
            getter, setter, deleter = (method and change(method) for method in (
                member.fget, member.fset, member.fdel))
            setattr(func, key, property(getter, setter, deleter, member.__doc__))
        elif inspect.isfunction(member):
            setattr(func, key, change(member))
    return func


def _within_np_shape(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with np_shape(True):
            return func(*args, **kwargs)

    return call


# -- arrays ---------------------------------------------------------------------------------------


def is_np_array() -> bool:
    """Return False: there are no arrays of NumPy's kind."""
    return False


class np_array:
    """Refuses to make arrays of NumPy's kind.

    Parameters
    ----------
    active : bool, default True
        False changes nothing.

    Raises
    ------
    MXNetError
        If it is True.
    """

    def __init__(self, active: bool = True):
        if active:
            raise MXNetError(f"np_array: {_NO_ARRAYS}")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


def use_np_array(func: F) -> F:
    """Let a function, or the methods of a class, refuse to run with arrays of NumPy's kind.

    Parameters
    ----------
    func : callable or type
        Function or class, which can be defined and raises an MXNetError when it is called.
    """
    def refusing(function: Callable[..., Any]) -> Callable[..., NoReturn]:
        @functools.wraps(function)
        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise MXNetError(f"{function.__qualname__}: {_NO_ARRAYS}")

        return refuse

    return _decorated(func, refusing, "use_np_array")


use_np = use_np_array


def set_np(shape: bool = True, array: bool = True) -> None:
    """Choose NumPy's meaning of shapes; refuse arrays of NumPy's kind.

    Parameters
    ----------
    shape : bool, default True
        Whether shapes have NumPy's meaning.
    array : bool, default True
        Whether arrays are of NumPy's kind, which is an error.

    Raises
    ------
    ValueError
        If arrays are asked for without the meaning of shapes.
    MXNetError
        If arrays are asked for.
    """
    if array and not shape:
        raise ArgumentError("NumPy Shape semantics is required in using NumPy array semantics.")
    if array:
        raise MXNetError(f"set_np: {_NO_ARRAYS}: set_np(array=False)")
    set_np_shape(shape)


def reset_np() -> None:
    """Return to MXNet's own meaning of shapes."""
    set_np(shape=False, array=False)


# -- the machine ----------------------------------------------------------------------------------


def getenv(name: str) -> str | None:
    """Return the value of an environment variable; None if it is not set.

    Parameters
    ----------
    name : str
        Name.
    """
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable, or remove it.

    Parameters
    ----------
    name : str
        Name.
    value : str or None
        Value; None removes it.
    """
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def get_gpu_count() -> int:
    """Return the number of CUDA devices."""
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Return the free and the total memory of a CUDA device, in bytes.

    Parameters
    ----------
    gpu_dev_id : int
        Number of the device.

    Raises
    ------
    MXNetError
        If there is no such device.
    """
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx: Context) -> int:
    """Return the compute capability of a CUDA device, such as 75 for 7.5.

    Parameters
    ----------
    ctx : Context
        GPU.

    Raises
    ------
    ValueError
        If the context is not a GPU.
    MXNetError
        If there is no such device.
    """
    if ctx.device_type != "gpu":
        raise ArgumentError("Expecting a gpu context to get cuda compute capability, while "
                            f"received ctx {ctx}")
    from ..ops.device import device_of

    device: Any = device_of(ctx)
    major, minor = device.card.capability
    return 10 * major + minor


# -- helpers of NumPy's functions -----------------------------------------------------------------


def set_module(module: str | None) -> Callable[[F], F]:
    """Return a decorator that sets the module of a function or class.

    Parameters
    ----------
    module : str or None
        Name of the module; None changes nothing.
    """
    def decorate(func: F) -> F:
        if module is not None:
            func.__module__ = module
        return func

    return decorate


_np_ufunc_default_kwargs = {"where": True, "casting": "same_kind", "order": "K", "dtype": None,
                            "subok": True}
_DTYPES = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8")


def np_ufunc_legal_option(key: str, value: Any) -> bool:
    """Return whether NumPy's universal functions take a value of an option.

    Parameters
    ----------
    key : str
        Name of the option.
    value : object
        Value.

    Examples
    --------
    >>> mx.util.np_ufunc_legal_option("casting", "safe")
    True
    """
    if key == "casting":
        return value in ("no", "equiv", "safe", "same_kind", "unsafe")
    if key == "order":
        return isinstance(value, str)
    if key == "dtype":
        return value in _DTYPES or value in [getattr(np, name) for name in _DTYPES]
    return key == "where" or (key == "subok" and isinstance(value, bool))


def _check_options(func: Callable[..., Any], options: dict[str, Any]) -> None:
    for key, value in options.items():
        if key not in _np_ufunc_default_kwargs:
            raise TypeError(f"{key} is an invalid keyword to function {func.__name__!r}")
        if value != _np_ufunc_default_kwargs[key]:
            if not np_ufunc_legal_option(key, value):
                raise TypeError(f"{key} {value} not understood")
            raise NotImplementedError(f"{key}={value} is not implemented yet for operator "
                                      f"{func.__name__}")


def wrap_np_unary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of one array that takes the options of NumPy's universal functions.

    Parameters
    ----------
    func : callable
        Function of an array with the argument `out`.

    Returns
    -------
    callable
        Options may have their default only: others are a NotImplementedError or TypeError.
    """
    @functools.wraps(func)
    def call(x: Any, out: Any = None, **kwargs: Any) -> Any:
        _check_options(func, kwargs)
        return func(x, out=out)

    return call


def wrap_np_binary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of two arrays that takes the options of NumPy's universal functions.

    Parameters
    ----------
    func : callable
        Function of two arrays with the argument `out`.

    Returns
    -------
    callable
        Options may have their default only: others are a NotImplementedError or TypeError.
    """
    @functools.wraps(func)
    def call(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        _check_options(func, kwargs)
        return func(x1, x2, out=out)

    return call
