"""The modules of `mx.contrib`, each loaded when its name is first used."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# Other names under which scripts import modules.
_ALIASES = {"quant": ".quantization", "sym": "..symbol.contrib", "symbol": "..symbol.contrib",
              "nd": "..ndarray.contrib", "ndarray": "..ndarray.contrib"}


def __getattr__(name: str) -> Any:
    module = _ALIASES.get(name, f".{name}")
    if name.startswith("__") or find_spec(module, __name__) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(module, __name__)
