"""Optimizer states in `.safetensors` files: arrays as tensors, all else as JSON in the metadata.

The metadata `mxnet_states` is `{"states": [[index, state], ...], "optimizer": null or object}`.
Numbers, texts, None and lists are those of JSON; other values are dicts of one key:

    {"tensor": "state:0"}  {"tuple": [...]}  {"dict": [[key, value], ...]}  {"float": "inf"}
    {"object": [module of MXNet, class, dict of attributes]}
    {"row_sparse": [shape, {"data": "state:0.data", "indices": "state:0.indices"}]}, and "csr"

Nothing is pickled.  What a file can name is what `states` accepts of a `.states` file, and it is
checked by the same functions.  Every tensor is part of one state.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from ..base import Array, MXNetError
from ..context import cpu
from ..lr_scheduler import LRScheduler
from ..ndarray import NDArray
from ..ndarray.sparse_array import BaseSparseNDArray, of_value
from ..ops.sparse.formats import CSR, RowSparse
from ..safetensors.tensor_file import SafetensorsError, read_tensors, write_tensors
from .base_optimizer import Optimizer
from .states import build_object, checked_states, described_object
from .update_step import Index, State

__all__ = ["STATES", "load_states", "save_states"]

STATES = "mxnet_states"
"""The metadata that has the structure of the states."""

PARTS = {"row_sparse": ("indices", "data"), "csr": ("indptr", "indices", "data")}
"""Arrays of sparse ones by storage type."""
Path = str | os.PathLike[str]
Plain: TypeAlias = Any  # type: ignore[explicit-any]
"""Values of JSON.  Any: of a recursive union readers would have to check every level."""


def save_states(path: Path, states: Mapping[Index, State], optimizer: Optimizer | None = None
                ) -> None:
    """Write optimizer states to a `.safetensors` file, as a whole or not at all.

    `Module.save_optimizer_states` calls it for names that end in ``.safetensors``.

    Parameters
    ----------
    path : str or path
        Name of the file.
    states : dict
        States by the index of the parameter, as `Updater.states`.
    optimizer : Optimizer, optional
        The optimizer, with its update counts and scheduler.

    Raises
    ------
    MXNetError
        If a state has anything but arrays, numbers and containers, or the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> updater = mx.optimizer.get_updater(mx.optimizer.Adam())
    >>> updater(0, mx.nd.ones(3), mx.nd.zeros(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "net-0001.states.safetensors")
    ...     mx.safetensors.save_states(path, updater.states, updater.optimizer)
    ...     states, optimizer = mx.safetensors.load_states(path)
    >>> [array.shape for array in states[0]], optimizer.num_update
    ([(3,), (3,)], 1)
    """
    writer = _Encoder()
    structure = {"states": [[writer.encode(index, ""), writer.encode(state, f"state:{index}")]
                            for index, state in states.items()],
                 "optimizer": writer.encode(optimizer, "optimizer")}
    write_tensors(path, writer.tensors, {"format": "mxnet", STATES: json.dumps(structure)})


def load_states(path: Path) -> tuple[dict[Index, State], Optimizer | None]:
    """Read optimizer states that `save_states` wrote.

    Parameters
    ----------
    path : str or path
        Name of the file.

    Returns
    -------
    states : dict
        States by the index of the parameter.
    optimizer : Optimizer or None
        The optimizer, if it was written with them.

    Raises
    ------
    SafetensorsError
        If the file is damaged, or is not one of optimizer states.
    MXNetError
        If it cannot be read.
    """
    tensors, metadata = read_tensors(path)
    if STATES not in metadata:
        raise SafetensorsError(f"{path}: these are no optimizer states: the metadata has no "
                               f"{STATES!r}")
    decoder = _Decoder(tensors)
    try:
        structure = json.loads(metadata[STATES])
        if not isinstance(structure, dict) or structure.keys() != {"states", "optimizer"}:
            raise ValueError("expected a dict of states and optimizer")
        states = dict((decoder.decode(index), decoder.decode(state))
                      for index, state in structure["states"])
        result = checked_states(states, decoder.decode(structure["optimizer"]))
        if decoder.tensors:
            raise ValueError(f"tensor {next(iter(decoder.tensors))!r} is in none of the states")
    except (ValueError, TypeError, KeyError, RecursionError, MXNetError) as error:
        raise SafetensorsError(f"{path}: metadata {STATES!r}: damaged: {error}") from None
    return result


def encoded_states(states: Mapping[Index, State]) -> tuple[Plain, dict[str, Array]]:
    """Return states as plain data for JSON, and their arrays by name.

    Parameters
    ----------
    states : dict
        States by the index of the parameter.
    """
    writer = _Encoder()
    return [[writer.encode(index, ""), writer.encode(state, f"state:{index}")]
            for index, state in states.items()], writer.tensors


def decoded_states(structure: Plain, tensors: dict[str, Array]) -> dict[Index, State]:
    """Return the states that `encoded_states` encoded.

    Parameters
    ----------
    structure : list
        The plain data.
    tensors : dict
        The arrays by name, which are taken out.
    """
    decoder = _Decoder(tensors)
    return {decoder.decode(index): decoder.decode(state) for index, state in structure}


class _Encoder:
    """Encodes values, and collects their arrays by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Array] = {}

    def encode(self, value: object, where: str) -> Plain:
        """`value` in JSON; the names of its arrays begin with `where`."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not isfinite(value):
            return {"float": repr(value)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, BaseSparseNDArray):
            return self._encode_sparse(value, where)
        if isinstance(value, NDArray):
            return {"tensor": self._store(value.asnumpy(), where)}
        if isinstance(value, (list, tuple)):
            parts = [self.encode(part, f"{where}.{i}") for i, part in enumerate(value)]
            return {"tuple": parts} if isinstance(value, tuple) else parts
        if isinstance(value, dict):
            return {"dict": [[self.encode(key, where), self.encode(part, f"{where}.{key}")]
                             for key, part in value.items()]}
        if isinstance(value, (Optimizer, LRScheduler)):
            home, attributes = described_object(value)
            return {"object": [home, type(value).__name__, self.encode(attributes, where)]}
        raise MXNetError(f"optimizer states: a {type(value).__name__} cannot be written, only "
                         "arrays, plain values, optimizers and schedulers")

    def _encode_sparse(self, array: BaseSparseNDArray, where: str) -> Plain:
        value = array._data
        parts = {part: self._store(getattr(value, part), f"{where}.{part}")
                 for part in PARTS[value.stype]}
        return {value.stype: [list(value.shape), parts]}

    def _store(self, array: Array, name: str) -> str:
        while name in self.tensors:    # indices 1 and "1"
            name += "'"
        self.tensors[name] = array
        return name


class _Decoder:
    """Decodes what `_Encoder` encodes; takes arrays out of `tensors`."""

    def __init__(self, tensors: dict[str, Array]):
        self.tensors = tensors

    def decode(self, value: Plain) -> Plain:
        """The value; ValueError, TypeError or KeyError if it is damaged."""
        if isinstance(value, list):
            return [self.decode(part) for part in value]
        if not isinstance(value, dict):
            return value
        (kind, content), = value.items()
        if kind == "tensor":
            return self._take(content)
        if kind == "tuple" and isinstance(content, list):
            return tuple(self.decode(content))
        if kind in PARTS:
            return self._take_sparse(kind, *content)
        if kind == "dict":
            return {self.decode(key): self.decode(part) for key, part in content}
        if kind == "float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if kind == "object":
            home, name, attributes = content
            return build_object(home, name, self.decode(attributes))
        raise ValueError(f"{kind[:40]!r} is no kind of value")

    def _take_sparse(self, stype: str, shape: Plain, names: Plain) -> NDArray:
        parts = [self._take(names[part])._data for part in PARTS[stype]]
        if not (isinstance(shape, list) and all(type(size) is int and 0 <= size < 2 ** 63
                                                for size in shape)):
            raise ValueError(f"shape {str(shape)[:80]} of a {stype} array")
        if any(part.ndim != 1 or part.dtype != np.int64 for part in parts[:-1]):
            raise ValueError(f"indices of a {stype} array are not vectors of int64")
        *indices, data = parts
        value = (CSR(indices[0], indices[1], data, tuple(shape)) if stype == "csr" else
                 RowSparse(indices[0], data, tuple(shape)))
        if not shape or (stype == "csr" and (len(shape), data.ndim) != (2, 1)):
            raise ValueError(f"a {stype} array of shape {tuple(shape)}")
        if problem := value.problem():
            raise ValueError(f"{stype} array of shape {tuple(shape)}: {problem}")
        return of_value(value, cpu())

    def _take(self, name: object) -> NDArray:
        if not isinstance(name, str) or name not in self.tensors:
            raise ValueError(f"there is no tensor {str(name)[:80]!r}, or it is in two states")
        array = self.tensors.pop(name)
        return NDArray(array if array.ndim else array.reshape(1), cpu())
