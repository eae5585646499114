"""State dicts of PyTorch as modules with their tensors, in the order in which they are computed.

A module is what the names of tensors share before their last dot.  Its kind follows from these
tensors, not from its name:

    product   weight of 2 or more axes, bias            convolutions, dense layers, embeddings
    norm      weight, bias, running_mean, running_var   batch norm
    affine    weight of 1 axis, bias                    layer norm, instance norm, group norm
    scale     weight of 1 axis                          PReLU

State dicts are in the order of construction, which is that of computation but for the layers of
shortcuts: these are moved to the end of their block.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..base import ArgumentTypeError, Array, MXNetError
from ..safetensors.tensor_file import read_tensors

__all__ = ["StateDict", "TorchModule", "modules_of", "read_state_dict"]

StateDict: TypeAlias = "Mapping[str, Any] | str | os.PathLike[str]"  # type: ignore[explicit-any]
"""Tensors of torch, whose package need not be installed, or arrays, by name; or a file of them."""

IGNORED = "num_batches_tracked"
_RUNNING = ("running_mean", "running_var")
_SHORTCUT = re.compile(r"(?:down_?sample|short_?cut|skip|identity|proj|projection)\d*")


@dataclass(frozen=True)
class TorchModule:
    """A module of a state dict: its name, kind, and arrays by the last part of their names."""

    name: str
    kind: str
    arrays: dict[str, Array]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its weight, or of an array with as many channels."""
        first = "weight" if "weight" in self.arrays else next(iter(self.arrays))
        return self.arrays[first].shape

    @property
    def block(self) -> str:
        """For a layer of a shortcut the block that it is in, such as `layer1.0.`; else ''."""
        parts = self.name.split(".")
        at = next((i for i, part in enumerate(parts) if _SHORTCUT.fullmatch(part.lower())), None)
        return "" if not at else ".".join(parts[:at]) + "."

    def __str__(self) -> str:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"{self.name!r} ({shapes})"


def read_state_dict(state_dict: StateDict) -> dict[str, Array]:
    """All tensors of a state dict as arrays; those of bfloat16 become float32."""
    if isinstance(state_dict, (str, os.PathLike)):
        arrays = read_tensors(state_dict)[0]
    elif isinstance(state_dict, Mapping):
        arrays = {name: _as_array(name, tensor) for name, tensor in state_dict.items()}
    else:
        raise ArgumentTypeError("from_torch: state_dict is a "
                                f"{type(state_dict).__name__}, expected a dict of tensors by name, "
                                "a torch.nn.Module or the name of a .safetensors file")
    return {name: array for name, array in arrays.items() if name.split(".")[-1] != IGNORED}


def _as_array(name: str, tensor: Any) -> Array:  # type: ignore[explicit-any]  # torch's, or ours
    if hasattr(tensor, "asnumpy"):
        tensor = tensor.asnumpy()
    elif hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        tensor = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    array = np.asarray(tensor)
    if array.dtype.kind not in "fiub":
        raise MXNetError(f"from_torch: {name!r} is a {type(tensor).__name__}, expected a tensor; "
                         "give the state dict itself, such as checkpoint['state_dict']")
    return array


def modules_of(arrays: Mapping[str, Array]) -> list[TorchModule]:
    """The modules in the order of computation."""
    groups: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        module, _, leaf = name.rpartition(".")
        groups.setdefault(module, {})[leaf] = array
    modules = [TorchModule(name, _kind(tensors), tensors) for name, tensors in groups.items()]
    return _shortcuts_last(modules)


def _kind(arrays: Mapping[str, Array]) -> str:
    """The kind of a module; '' if it is none of those known."""
    if not arrays.keys() <= {"weight", "bias", *_RUNNING}:
        return ""
    if any(name in arrays for name in _RUNNING):
        return "norm" if all(name in arrays for name in _RUNNING) else ""
    if "weight" not in arrays or arrays["weight"].ndim == 0:
        return ""
    if arrays["weight"].ndim > 1:
        return "product"
    return "affine" if "bias" in arrays else "scale"


def _shortcuts_last(modules: list[TorchModule]) -> list[TorchModule]:
    """Layers of shortcuts behind all others of their block."""
    order = list(modules)
    for module in modules:
        if module.block:
            order.remove(module)
            last = max((i for i, other in enumerate(order) if other.name.startswith(module.block)),
                       default=len(order) - 1)
            order.insert(last + 1, module)
    return order
