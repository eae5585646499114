"""Let `import mxnet` mean nbmod in this process.

`as_mxnet()` puts a finder in front of Python's own: `mxnet.x.y` becomes the very module
`nbmod.x.y`, so classes are the same under both names.  Only the top module is a thin stand-in, so
that scripts which compare `mxnet.__version__` see the version whose API they find.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .base import MXNetError

__all__ = ["as_mxnet", "MXNET_VERSION"]

MXNET_VERSION = "1.9.1"
"""The version of MXNet whose public API nbmod follows."""


class _Top(ModuleType):
    """`mxnet` itself: every attribute is nbmod's."""

    __version__ = MXNET_VERSION
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        nbmod = importlib.import_module(__package__)
        try:
            return getattr(nbmod, name)
        except AttributeError:
            raise AttributeError(f"module 'mxnet' (provided by nbmod) has no attribute {name!r}"
                                 ) from None

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(__package__))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `mxnet.*` by importing `nbmod.*`."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None
                  ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "mxnet" and not fullname.startswith("mxnet."):
            return None
        own = __package__ + fullname[len("mxnet"):]
        if fullname != "mxnet" and importlib.util.find_spec(own) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        if spec.name == "mxnet":
            return _Top("mxnet", f"{__package__} under the name of MXNet {MXNET_VERSION}")
        module = importlib.import_module(__package__ + spec.name[len("mxnet"):])
        # The import system is about to overwrite these; the module keeps its own identity.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None and spec.name != "mxnet":
            module.__spec__ = spec.loader_state


def as_mxnet() -> None:
    """From now on `import mxnet` and `import mxnet.anything` give nbmod.  Calling twice is fine.

    Raises MXNetError if the real MXNet has been imported already.
    """
    loaded = sys.modules.get("mxnet")
    if isinstance(loaded, _Top):
        return
    if loaded is not None:
        raise MXNetError("as_mxnet: the real mxnet is already imported in this process; call "
                         "nbmod.as_mxnet() before the first `import mxnet`")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    importlib.import_module("mxnet")
