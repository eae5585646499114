"""Values that users pass to `forward`, `backward` and `copy_params_from`, checked and copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..base import ArgumentError, ArgumentTypeError, Array, MXNetError, did_you_mean
from ..ndarray import NDArray
from ..ndarray.recording import RecordingScope
from ..ops.device import device_of

if TYPE_CHECKING:
    from .bind import Arrays

__all__ = ["copy_parameters", "load_arguments", "load_head_gradients"]


def copy_parameters(values: Mapping[str, NDArray], bound: Mapping[str, NDArray], kind: str,
                    allow_extra: bool) -> None:
    """Copy `values` into the `bound` arrays of their names; `kind` says what these are."""
    for name, value in values.items():
        if name not in bound:
            if not allow_extra:
                raise ArgumentError(f"Find name {name!r} that is not in the {kind}"
                                    f"{did_you_mean(name, bound)}")
            continue
        if not isinstance(value, NDArray):
            raise TypeError(f"copy_params_from: {name} is a {type(value).__name__}, expected an "
                            "NDArray")
        if value.shape != bound[name].shape:
            raise MXNetError(f"copy_params_from: {name} has shape {value.shape}, bound with "
                             f"{bound[name].shape}")
        value.astype(bound[name].dtype, copy=False).copyto(bound[name])


def load_arguments(bound: Mapping[str, NDArray], values: Mapping[str, NDArray | Array]
                   ) -> None:
    """Copy the inputs of a run into the arguments by name."""
    for name, value in values.items():
        if name not in bound:
            raise ArgumentTypeError(f"forward: unknown argument {name!r}"
                                    f"{did_you_mean(name, bound)}")
        if not isinstance(value, (NDArray, np.ndarray)):
            raise ArgumentError(f"forward: argument {name} is a {type(value).__name__}, "
                                "expected an NDArray or a numpy.ndarray")
        if value.shape != bound[name].shape:
            raise ArgumentError(f"forward: argument {name} has shape {value.shape}, bound with "
                                f"{bound[name].shape}; use Executor.reshape")
        bound[name][:] = value


def load_head_gradients(targets: Mapping[int, NDArray], names: Sequence[str],
                        out_grads: NDArray | Arrays | None) -> None:
    """Copy gradients of outputs, given as `Executor.backward` takes them.

    `targets` are the arrays of those that are read, by position among the outputs `names`.
    """
    grads = _as_list(names, out_grads)
    for position, target in targets.items():
        grad = grads[position] if position < len(grads) else None
        if type(grad) is type(target) is NDArray and grad._data.shape == target._data.shape and (
                device_of(grad._ctx) is device_of(target._ctx)):
            device_of(target._ctx).copy(grad._data, target._data)
            continue
        name = names[position]
        if grad is None:
            raise MXNetError(f"backward: output {name!r} is not a loss, so its head gradient "
                             "is needed in out_grads; to minimise it wrap it in "
                             "mx.sym.make_loss")
        if not isinstance(grad, NDArray):
            raise TypeError(f"backward: head gradient of {name!r} is a {type(grad).__name__}, "
                            "expected an NDArray")
        if grad.shape != target.shape:
            raise MXNetError(f"backward: head gradient of {name!r} has shape {grad.shape}, "
                             f"expected {target.shape}")
        with RecordingScope(False, None):
            grad.copyto(target)


def _as_list(names: Sequence[str], out_grads: NDArray | Arrays | None) -> list[NDArray | None]:
    if isinstance(out_grads, (list, tuple)):
        return [*out_grads]
    if out_grads is None:
        return []
    if isinstance(out_grads, NDArray):
        return [out_grads]
    if isinstance(out_grads, Mapping):
        return [out_grads.get(name) for name in names]
    raise TypeError(f"backward: out_grads is a {type(out_grads).__name__}, expected an NDArray, a "
                    "list of them, or a dict by output name")
