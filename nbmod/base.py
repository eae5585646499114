"""Errors, and the element types of MXNet's files.

Element types are `numpy.dtype` objects everywhere; the integer flags that MXNet's files and graphs
use for them are converted on input and output with `DTYPE_FLAGS` and `FLAG_OF_DTYPE`.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from .compat.c_interface import *  # noqa: F403

__all__ = ["AbstractError", "ArgumentError", "ArgumentTypeError", "CheckError", "MXNetError",
           "NoSuchFile", "NoSuchKey", "NotFinite", "NotImplementedForSymbol", "OutOfMemory",
           "OutOfRange", "UnwritableFile", "_Null", "_NullType", "checks_numbers", "did_you_mean",
           "element_type", "numbered", "plain_numbers", "warn_user", "wrong_type"]
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += ["CachedOpHandle", "CudaKernelHandle", "CudaModuleHandle", "DLPackHandle",
                "DataIterCreatorHandle", "DataIterHandle", "ExecutorHandle", "FunctionHandle",
                "KVStoreHandle", "NDArrayHandle", "OpHandle", "ProfileHandle", "RecordIOHandle",
                "RtcHandle", "SymbolHandle", "_LIB", "build_param_doc", "check_call", "c_array",
                "c_array_buf", "c_handle_array", "c_str", "c_str_array", "ctypes2buffer",
                "ctypes2numpy_shared", "data_dir", "data_dir_default", "mx_float", "mx_float_p",
                "mx_int", "mx_int64", "mx_real_t", "mx_uint", "py_str"]

DTypeArg: TypeAlias = "DTypeLike | None"
"""An element type as users give it; None for a default."""

DType: TypeAlias = "np.dtype[np.generic[object]]"
"""Any element type.  (For type checkers a bare `np.dtype` is `np.dtype[Any]`.)"""

Array: TypeAlias = "np.ndarray[tuple[int, ...], DType]"
"""A numpy array of any shape and element type."""

Forwarded: TypeAlias = Any  # type: ignore[explicit-any]
"""An argument that is passed on.  Any: the function that receives it declares its type."""


Self = TypeVar("Self")
Params = ParamSpec("Params")


class MXNetError(RuntimeError):
    """Base class of all errors that nbmod raises, under the name that MXNet gives it."""


class ArgumentError(MXNetError, ValueError):
    """An invalid argument, where MXNet raises ValueError."""


class ArgumentTypeError(MXNetError, TypeError):
    """An argument of the wrong type, where MXNet raises TypeError."""


class OutOfRange(MXNetError, IndexError):
    """An index beyond an axis, where MXNet raises IndexError."""


class CheckError(MXNetError, AssertionError):
    """Wrong arguments, or calls in the wrong order, where MXNet has an `assert`."""


class AbstractError(MXNetError, NotImplementedError):
    """A method that a subclass must define, where MXNet raises NotImplementedError."""


class NoSuchKey(MXNetError, KeyError):
    """A name that is not in a dict or an index, where MXNet raises KeyError."""

    __str__ = MXNetError.__str__


class NoSuchFile(MXNetError, FileNotFoundError):
    """A file that does not exist, where MXNet raises FileNotFoundError."""


class NotFinite(MXNetError, FloatingPointError):
    """Training computed NaN or infinity, which `fit(nan_guard=True)` looks for."""


class StopTraining(Exception):
    """Raised by a callback of `fit` to end training; `fit` then returns as at its last epoch.

    The other callbacks of the same list are still called. After the last batch of an epoch the
    epoch is finished, with its validation; within an epoch, training ends after the present batch,
    and a checkpoint that is saved then resumes there.

    Examples
    --------
    >>> def stop_after_ten_batches(param):
    ...     if param.nbatch == 9:
    ...         raise mx.callback.StopTraining("ten batches are enough")
    """


class UnwritableFile(MXNetError, OSError):
    """A file that cannot be written, where MXNet raises MXNetError or OSError."""

    @classmethod
    def because(cls, path: object, error: OSError) -> UnwritableFile:
        """The error of the file `path`, with the reason of the system's `error`."""
        return cls(f"{path}: cannot be written: {error.strerror or error}")


class OutOfMemory(MXNetError, MemoryError):
    """Allocation failed; the message names the tensor or buffer."""


class NotImplementedForSymbol(MXNetError):
    """An NDArray operation that is undefined for a Symbol, such as `bool(symbol)`."""

    def __init__(self, function: object, alias: str | None = None, *args: object):
        name = getattr(function, "__name__", str(function))
        hint = f"; use {alias} instead" if alias else ""
        super().__init__(f"Function {name} is not implemented for Symbol{hint}")


class NotSupportedForSparseNDArray(MXNetError):
    """An operation that is undefined for sparse arrays."""


class _NullType:
    """The value of a parameter that the caller did not give."""

    def __repr__(self) -> str:
        return "_Null"

    def __bool__(self) -> bool:
        return False


_Null = _NullType()


string_types = (str,)
basestring, long = str, int
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)


def plain_numbers(value: object) -> Forwarded:
    """Return numbers as Python's, whose text is that of files; NumPy 2 writes its own otherwise.

    Parameters
    ----------
    value : number, array, or list or tuple of numbers
        Numbers, of Python or NumPy.  Anything else is returned as it is.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if not isinstance(value, (list, tuple)):
        return value
    plain = [each.item() if isinstance(each, np.generic) else each for each in value]
    return plain if isinstance(value, list) else tuple(plain)


DTYPE_FLAGS: dict[int, DType] = {
    flag: np.dtype(name)
    for flag, name in enumerate(
        ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16"]
    )
}
DTYPE_FLAGS[9] = np.dtype("uint16")
FLAG_OF_DTYPE = {dtype: flag for flag, dtype in DTYPE_FLAGS.items()}


def element_type(dtype: object) -> DType:
    """Return the element type that an argument names.

    Parameters
    ----------
    dtype : str, numpy type or array
        Element type, or an object with an attribute `dtype`, such as an array.

    Returns
    -------
    numpy.dtype
        Element type, also one that NDArrays do not have.

    Raises
    ------
    TypeError
        If it names none.

    Examples
    --------
    >>> from nbmod.base import element_type
    >>> element_type(mx.nd.ones(2, dtype="float16"))
    dtype('float16')
    """
    if not (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        dtype = getattr(dtype, "dtype", dtype)  # NumPy 2.4 follows it to instances of dtype only
    return np.dtype(dtype)  # type: ignore[call-overload]


STORAGE_FLAGS = {"default": 0, "row_sparse": 1, "csr": 2}
"""Storage type -> its number in files and in the attribute `__storage_type__` of variables."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message: `; did you mean 'x'?` if a known name is similar.

    The initials of a name are similar to it, too: `lr` for `learning_rate`.
    """
    known = [*known]
    close = difflib.get_close_matches(name, known, n=1) or [
        each for each in known if "_" in each and name == "".join(
            word[:1] for word in each.split("_"))]
    return f"; did you mean {close[0]!r}?" if close else ""


def numbered(names: Sequence[str]) -> list[str]:
    """Return names of which no two are equal: the first of a name keeps it, others get a number.

    Parameters
    ----------
    names : sequence of str
        Names.

    Examples
    --------
    >>> numbered(["fc", "fc", "fc_1", "fc"])
    ['fc', 'fc_2', 'fc_1', 'fc_3']
    """
    taken, used, numbers = set(names), set[str](), Counter[str]()
    unique = []
    for name in names:
        other = name
        while other in (taken if name in used else ()):
            numbers[name] += 1
            other = f"{name}_{numbers[name]}"
        taken.add(other)
        used.add(name)
        unique.append(other)
    return unique


def wrong_type(what: str, value: object, expected: str) -> ArgumentTypeError:
    """The error for an argument of another type; `what` names it, such as ``"bind: ctx"``."""
    kind = f"the class {value.__name__}" if isinstance(value, type) else (
        f"a {type(value).__name__}")
    return ArgumentTypeError(f"{what} is {kind}, expected {expected}")


_NUMBERS = {"float": "a number", "int": "a number", "float | None": "a number or None",
            "int | None": "a number or None"}


def checks_numbers(init: Callable[Concatenate[Self, Params], None]
                   ) -> Callable[Concatenate[Self, Params], None]:
    """Decorate an ``__init__`` whose class computes with its arguments later.

    Arguments that are annotated as numbers are refused unless they are, by an error that names
    them; later none could.

    Parameters
    ----------
    init : callable
        The method, with annotations that are text.

    Examples
    --------
    >>> mx.optimizer.SGD(learning_rate="0.1")
    Traceback (most recent call last):
        ...
    nbmod.base.ArgumentTypeError: SGD: learning_rate is '0.1', expected a number or None
    """
    @wraps(init)
    def checked(self: Self, *args: Params.args, **kwargs: Params.kwargs) -> None:
        code = init.__code__
        for name, value in (*zip(code.co_varnames[1:code.co_argcount], args, strict=False),
                            *kwargs.items()):
            expected = _NUMBERS.get(init.__annotations__.get(name, ""))
            if expected and not _is_number(value, expected):
                raise ArgumentTypeError(f"{type(self).__name__}: {name} is {value!r:.80}, "
                                        f"expected {expected}")
        init(self, *args, **kwargs)

    return checked


def _is_number(value: object, expected: str) -> bool:
    if value is None:
        return expected.endswith("None")
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iufb"
    return isinstance(value, Real)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the line outside this package that led to it."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(
            f"{__package__}."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def register_error(  # type: ignore[explicit-any]  # returns the class or a decorator
        func_name: str | type[BaseException] | None = None,
        cls: type[BaseException] | None = None) -> Any:
    """Register a class of errors under its name; a decorator, as `mx.error.register`.

    Parameters
    ----------
    func_name : str or type
        Name, or the class, whose own name is used.
    cls : type, optional
        The class, if a name is given; without it a decorator is returned.

    Raises
    ------
    ArgumentTypeError
        If there is neither a name nor a class.
    """
    if isinstance(func_name, type):
        return register_error(func_name.__name__, func_name)
    if not isinstance(func_name, str):
        raise ArgumentTypeError(f"register_error: {func_name!r} is given, expected the name of an "
                                "error or its class")

    def register(error: type[BaseException]) -> type[BaseException]:
        error_types[func_name] = error
        return error

    return register if cls is None else register(cls)


error_types: dict[str, type[BaseException]] = {
    "NotImplementedForSymbol": NotImplementedForSymbol}
"""Classes of errors by name."""


def _load(name: str) -> Any:  # type: ignore[explicit-any]  # names of any type
    """Look up the names of `compat.c_interface`, which scripts of MXNet import from here."""
    if not name.startswith("__"):
        names = vars(import_module(f"{__package__}.compat.c_interface"))
        if name in names["__all__"]:
            return names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load


def __dir__() -> list[str]:
    return __all__ + import_module(f"{__package__}.compat.c_interface").__all__


def _as_list(obj: Any) -> list[Any]:  # type: ignore[explicit-any]  # T for list[T] | T
    """`obj` as a list: its elements if it is a list or tuple, else itself as the only one."""
    return list(obj) if isinstance(obj, (list, tuple)) else [obj]
