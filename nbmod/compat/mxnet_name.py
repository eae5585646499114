"""Let `import mxnet` mean nbmod in this process.

`as_mxnet()` adds an import finder before Python's own: `mxnet.x.y` is the module `nbmod.x.y`, so
that classes are identical under both names.  Only the top module is a proxy, so that
`mxnet.__version__` is the version of the API.  The modules `nd` and `sym` are named as MXNet's,
since blocks ask for `F.__name__` to know which of the two they work with.  The distribution
nbmod-mxnet does all this when a program imports `mxnet` (`become_mxnet`); `nbmod run` does it
before the program.

`restore_old_names()` restores names that NumPy and Python have removed since MXNet 1.x;
`explain_errors()` tells what to do where they are missing.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import math
import os
import re
import sys
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import Any

import numpy as np

from ..base import MXNetError
from ..core.config import CONFIG
from ..core.import_paths import PACKAGE, AliasFinder
from ..startup.sitecustomize import restore_names_of_python

__all__ = ["MXNET_VERSION", "as_mxnet", "become_mxnet", "explain_errors", "numpy_cure",
           "restore_old_names"]

MXNET_VERSION = "1.9.1"
"""The version of MXNet whose public API nbmod follows."""


class _Top(ModuleType):
    """`mxnet` itself: every attribute is nbmod's."""

    __version__ = MXNET_VERSION
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        nbmod = importlib.import_module(PACKAGE)
        try:
            value = getattr(nbmod, name)
        except AttributeError as error:
            _, sign, hint = str(error).partition("; ")
            raise AttributeError("module 'mxnet' (provided by nbmod) has no attribute "
                                 f"{name!r}{sign}{hint}") from None
        _name_function_modules()
        return value

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(PACKAGE))


class _MXNetFinder(AliasFinder):
    """Finds `mxnet`, its modules, and `mxnet_predict`, which MXNet's amalgamation has beside it."""

    def target_of(self, fullname: str) -> str:
        return (f"{PACKAGE}.{fullname}" if fullname == "mxnet_predict"
                else super().target_of(fullname))

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None
                  ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "mxnet":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return super().find_spec(fullname, path, target)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        if spec.name == "mxnet":
            return _Top("mxnet", f"{PACKAGE} under the name of MXNet {MXNET_VERSION}")
        module = super().create_module(spec)
        _name_function_modules()
        return module


def _name_function_modules() -> None:
    """Name `nd` and `sym` as MXNet's, if they have been imported."""
    for name in ("ndarray", "symbol"):
        module = sys.modules.get(f"{PACKAGE}.{name}")
        if module is not None:
            module.__name__ = f"mxnet.{name}"


FINDER = _MXNetFinder("mxnet")


def as_mxnet() -> None:
    """From now on `import mxnet` and `import mxnet.anything` give nbmod.  Calling twice is fine.

    Raises MXNetError if the real MXNet has been imported already.
    """
    loaded = sys.modules.get("mxnet")
    if loaded is not None and not isinstance(loaded, _Top):
        raise MXNetError("as_mxnet: the real mxnet is already imported in this process; call "
                         "nbmod.as_mxnet() before the first `import mxnet`")
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
    for package in _IMPORTED_BY_MXNET:
        _import_modules_on_use(importlib.import_module(package))


_IMPORTED_BY_MXNET = ("http", "importlib", "multiprocessing", "urllib", "xml")
"""Packages of Python whose modules `import mxnet` loads: programs may import the package alone."""


def _import_modules_on_use(package: ModuleType) -> None:
    """Let `multiprocessing.pool` be there after `import multiprocessing`, as MXNet does."""
    if hasattr(package, "__getattr__"):
        return

    def __getattr__(name: str) -> ModuleType:
        if not name.startswith("_"):
            try:
                return importlib.import_module(f"{package.__name__}.{name}")
            except ImportError:
                pass
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")

    vars(package)["__getattr__"] = __getattr__


def become_mxnet(module: ModuleType) -> None:
    """Let the module `mxnet` of the distribution nbmod-mxnet be nbmod.

    Where there is no GPU, `gpu(i)` means `cpu(i)` from then on, with one warning, unless
    NBMOD_GPU_TO_CPU=0.

    Parameters
    ----------
    module : ModuleType
        The module, while it is imported.

    Raises
    ------
    ImportError
        If it would hide the real MXNet, which another folder of `sys.path` has.
    """
    own = os.path.dirname(os.path.abspath(str(module.__file__)))
    for folder in sys.path:
        real = os.path.join(folder or os.curdir, "mxnet", "__init__.py")
        if os.path.isfile(real):
            raise ImportError(
                f"nbmod-mxnet in {own} does not hide the real MXNet in {os.path.dirname(real)}: "
                "uninstall one of the two, or use `nbmod run`, where nbmod is `mxnet` beside it")
    module.__class__ = _Top
    module.__path__ = []
    CONFIG.prefer_gpu_to_cpu()
    as_mxnet()
    explain_errors()


def _fromstring(string: Any, dtype: Any = float, count: int = -1, *, sep: str = "",
                like: Any = None) -> np.ndarray:
    """`numpy.fromstring` with the binary mode (`sep=""`) that NumPy 2.3 removed."""
    if sep == "":
        data = string.encode("latin1") if isinstance(string, str) else string
        return np.frombuffer(data, dtype, count).copy()
    return _text_fromstring(string, dtype, count, sep=sep)


_text_fromstring = np.fromstring

_OLD_NUMPY = {
    "int": int, "float": float, "bool": bool, "object": object, "str": str, "complex": complex,
    "long": int, "unicode": str, "float_": np.float64, "complex_": np.complex128,
    "string_": np.bytes_, "unicode_": np.str_, "Inf": np.inf, "infty": np.inf, "NaN": np.nan,
    "asscalar": lambda a: a.item(), "product": np.prod, "cumproduct": np.cumprod,
    "bool8": np.bool_, "alen": len, "math": math, "msort": lambda a: np.sort(a, axis=0),
    "in1d": lambda a, b, *args, **kwargs: np.isin(np.ravel(a), b, *args, **kwargs),
    "asfarray": lambda a, dtype=np.float64: np.asarray(a, dtype),
    "trapz": lambda *args, **kwargs: np.trapezoid(*args, **kwargs),
    "alltrue": np.all, "sometrue": np.any, "row_stack": np.vstack, "round_": np.round}


def restore_old_names() -> None:
    """Give back the names of MXNet's days: `np.int`, `collections.Mapping`, `time.clock` and more.

    What is there stays as it is.
    """
    for name, value in _OLD_NUMPY.items():
        if name not in vars(np):  # hasattr would ask NumPy, which warns about some
            setattr(np, name, value)
    setattr(np, "fromstring", _fromstring)  # noqa: B010
    for name, module in [*vars(np.lib).items()]:    # such as `numpy.lib.arraysetops`
        if name.endswith("_impl") and (old := name[1:-len("_impl")]) not in vars(np.lib):
            setattr(np.lib, old, module)
            sys.modules.setdefault(f"numpy.lib.{old}", module)
    restore_names_of_python()


_NUMBER = ("NumPy 2.4 makes no number of an array with dimensions: write x.item() (or x[0] for the "
           "first element); NumPy before 2.4 accepts it, too")
_METHODS = {"tostring": "x.tobytes()", "itemset": "x[index] = value", "ptp": "np.ptp(x)",
            "newbyteorder": "x.view(x.dtype.newbyteorder(order))"}
_OLD_NAMES = "|".join(_OLD_NUMPY)
_CURES = (
    (rf"module 'numpy' has no attribute '({_OLD_NAMES})'|`np\.({_OLD_NAMES})` was removed"
     r"|binary mode of fromstring|cannot import name '\w+' from 'collections'"
     r"|module 'collections' has no attribute|module 'time' has no attribute 'clock'",
     "`nbmod run` gives this name back to a program, and so does "
     "nbmod.compat.restore_old_names() at its start"),
    (r"only (0-dimensional|length-1|size-1) arrays can be converted", _NUMBER),
    (r"format: a real number is required, not numpy\.ndarray", _NUMBER),
    (r"inhomogeneous shape", "NumPy makes arrays of lists that differ in length only by "
                             "np.array(..., dtype=object)"),
    (r"Python integer \S+ out of bounds for", "NumPy 2 does not wrap integers around: write "
                                              "np.array(value).astype(dtype)"),
    (r"module 'numpy[.\w]*' has no attribute", "NumPy has removed it; its migration guide to 2.0 "
                                               "names the successor, or install numpy<2"))


_explained: list[object] = []


def explain_errors() -> None:
    """From now on, uncaught errors of programs written for NumPy 1 end with a line on the cure."""
    if sys.excepthook in _explained:
        return
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException,
                   traceback: TracebackType | None) -> None:
        cure = numpy_cure(error)
        if cure and hasattr(error, "add_note"):
            error.add_note(f"nbmod: {cure}")
        show(kind, error, traceback)
        if cure and not hasattr(error, "add_note"):  # Python 3.10
            print(f"nbmod: {cure}", file=sys.stderr)

    sys.excepthook = excepthook
    _explained.append(excepthook)


def numpy_cure(error: BaseException) -> str:
    """Advise on an error of a script that was written for NumPy 1; "" for other errors."""
    text = str(error)
    method = re.search(r"'numpy\.ndarray' object has no attribute '(\w+)'", text)
    if method and method[1] in _METHODS:
        return f"NumPy 2 has removed the method {method[1]}: write {_METHODS[method[1]]}"
    return next((cure for pattern, cure in _CURES if re.search(pattern, text)), "")
