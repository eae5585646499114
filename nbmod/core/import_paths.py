"""Import paths of MXNet, and of older nbmod, whose modules lie elsewhere or do not exist.

    ALIASES     nbmod.util is nbmod.compat.util: one module with two names
    REFUSED     nbmod.rtc has no file: it can be imported, and its names raise an MXNetError

`install` adds the finder that answers for them, in front of Python's own: below a package that has
two names, Python's would load a second copy of each module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["ALIASES", "REFUSED", "AliasFinder", "install", "real_name"]

PACKAGE = __name__.partition(".")[0]

ALIASES = {
    **{name: f"core.{name}" for name in ("log", "registry")},
    **{name: f"compat.{name}" for name in (
        "engine", "error", "executor_manager", "libinfo", "misc", "model", "mxnet_predict",
        "ndarray_doc", "symbol_doc", "util")},
    "attribute": "symbol.attribute",
    "history": "callback.history",
    "monitor": "callback.monitor",
    "name": "symbol.name",
    "visualization": "diagram.visualization",
    "contrib.ndarray": "ndarray.contrib",
    "contrib.onnx": "onnx",
    "contrib.symbol": "symbol.contrib",
    "image.image": "image",
    "io.io": "io",
    "io.utils": "io",
    "onnx.mx2onnx": "onnx",
}
"""Import path -> module, both below the package.  Modules below an alias have both names, too."""

_NUMPY = "the NumPy interface of MXNet is not part of nbmod; use mx.nd, or NumPy itself"
_CHARTS = ("nbmod has no tables and charts for notebooks; mx.callback.Speedometer and "
           "mx.contrib.tensorboard.LogMetricsCallback record metrics, and so does any function "
           "given as batch_end_callback")
REFUSED = {
    **dict.fromkeys(("np", "npx", "numpy", "numpy_extension"), _NUMPY),
    **dict.fromkeys(("notebook", "notebook.callback"), _CHARTS),
    "library": "nbmod has no operators and passes of C++ libraries; mx.register_op registers "
               "operators written in Python",
    "rtc": "nbmod has no CUDA code compiled at run time; mx.register_op registers operators with "
           "GPU kernels written in Python",
    "th": "nbmod has no functions of Lua Torch; mx.operator.CustomOp calls Python code, that of "
          "PyTorch included",
}
"""Import path below the package -> the reason why its names are refused, and the alternative."""


def real_name(path: str) -> str:
    """The module, below the package, of an import path below the package.

    Examples
    --------
    >>> from nbmod.core.import_paths import real_name
    >>> real_name("contrib.symbol"), real_name("io.io"), real_name("context")
    ('symbol.contrib', 'io', 'context')
    """
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        if target := ALIASES.get(".".join(parts[:end])):
            return ".".join([target, *parts[end:]])
    return path


class AliasFinder(MetaPathFinder, Loader):
    """Finds a module under another name: importing it imports the module of its real name.

    It answers for names whose first part is `top`.
    """

    def __init__(self, top: str):
        self.top = top

    def target_of(self, fullname: str) -> str:
        """The real name of a module; '' for a name that this finder does not answer for."""
        top, _, path = fullname.partition(".")
        return f"{PACKAGE}.{real_name(path)}" if top == self.top and path else ""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None
                  ) -> ModuleSpec | None:
        """The spec of an alias, or of a refused module; None for any other name."""
        real = self.target_of(fullname)
        if real == fullname:    # a module of its own, or one that refuses
            exists = real.removeprefix(f"{PACKAGE}.") in REFUSED
        else:
            exists = bool(real) and find_spec(real) is not None
        return ModuleSpec(fullname, self, is_package=True) if exists else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the real name, or one that refuses."""
        real = self.target_of(spec.name)
        if real == spec.name:
            return _refusing(real)
        module = import_module(real)
        # The import system is about to overwrite it; the module keeps its own identity.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore what the import system has overwritten, and see to namesakes.

        To import a module by a name that is not there yet binds it in its package, over a function
        that has the name of the file, such as `vision.alexnet`.  So these have their names at once.
        """
        spec = module.__spec__
        if spec is None or spec.loader_state is None:
            return
        module.__spec__ = spec.loader_state
        for name, bound in vars(module).copy().items():
            below = sys.modules.get(f"{module.__spec__.name}.{name}", bound)
            if below is not bound:
                sys.modules.setdefault(f"{spec.name}.{name}", below)


def _refusing(name: str) -> ModuleType:
    """A module whose names raise an MXNetError, but for those of refused modules below it."""
    from ..base import MXNetError

    path = name.partition(".")[2]
    below = [other.rpartition(".")[2] for other in REFUSED if other.rpartition(".")[0] == path]

    def refuse(attribute: str) -> ModuleType:
        if attribute.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        if attribute in below:
            return import_module(f"{name}.{attribute}")
        raise MXNetError(f"mx.{path}.{attribute}: {REFUSED[path]}")

    module = ModuleType(name, f"Not part of nbmod: {REFUSED[path]}.")
    vars(module).update(__getattr__=refuse, __dir__=below.copy)
    return module


def install() -> None:
    """Let the import paths of the tables be imported."""
    if not any(isinstance(finder, AliasFinder) and finder.top == PACKAGE
               for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder(PACKAGE))
