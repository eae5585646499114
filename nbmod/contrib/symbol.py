"""`mx.contrib.symbol`: the functions of `mx.sym.contrib`."""

from ..symbol.contrib import *  # noqa: F403
from ..symbol.contrib import __dir__, __getattr__  # type: ignore[attr-defined]  # noqa: F401
