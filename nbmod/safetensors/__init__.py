"""`.safetensors` files: arrays, whole networks, and optimizer states.

    mx.safetensors.save("net.safetensors", {"weight": array})      arrays by name
    mx.safetensors.save_model("net.safetensors", symbol, arg_params, aux_params)
    mx.safetensors.save_states("net.states.safetensors", updater.states, updater.optimizer)

and `load`, `load_model`, `load_states`.  No other library than NumPy is needed.  Nothing in a file
is executed.

    tensor_file.py  the format: a header of JSON, and the elements of NumPy arrays
    model_file.py   parameters under MXNet's names, and the symbol in the metadata

Begin with `tensor_file.py`.  Imports `base`, `checkpoint`, `context`, `core`, `ndarray`,
`optimizer.tensor_states` and `symbol`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..optimizer.tensor_states import load_states, save_states
    from .model_file import load, load_model, save, save_model
    from .tensor_file import SafetensorsError, read_tensors, write_tensors

__all__ = ["SafetensorsError", "load", "load_model", "load_states", "read_tensors", "save",
           "save_model", "save_states", "write_tensors"]
__dir__ = __all__.copy

_HOMES = {**dict.fromkeys(("load", "load_model", "save", "save_model"), ".model_file"),
          **dict.fromkeys(("load_states", "save_states"), "..optimizer.tensor_states"),
          **dict.fromkeys(("SafetensorsError", "read_tensors", "write_tensors"), ".tensor_file")}


def _load(name: str) -> Any:
    # On first use: optimizers import tensor_file, and states are theirs.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _load
