"""The arrays of an executor for its users: as lists and by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import ArgumentError, MXNetError, did_you_mean
from ..ndarray import NDArray

__all__ = ["BoundArrays"]


class BoundArrays:
    """The part of `Executor` that holds arrays.

    `outputs`, `arg_arrays`, `grad_arrays` and `aux_arrays` are lists of NDArrays in the order of
    the symbol's `list_outputs`, `list_arguments` and `list_auxiliary_states`; `output_dict`,
    `arg_dict`, `grad_dict` and `aux_dict` hold the same arrays by name.
    """

    arg_dict: dict[str, NDArray]
    grad_dict: dict[str, NDArray | None]
    aux_dict: dict[str, NDArray]
    outputs: list[NDArray]
    _output_names: list[str]
    _head_arrays: dict[int, NDArray]
    """Head gradients that backward reads, by index of the output."""

    @property
    def arg_arrays(self) -> list[NDArray]:
        """Arguments, in the order of `list_arguments`."""
        return list(self.arg_dict.values())

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """Gradients of the arguments; None for those without."""
        return list(self.grad_dict.values())

    @property
    def aux_arrays(self) -> list[NDArray]:
        """Auxiliary states, in the order of `list_auxiliary_states`."""
        return list(self.aux_dict.values())

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """Outputs by name; ArgumentError if several have the same name."""
        names = self._output_names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ArgumentError(f"output_dict: several outputs are called {twice}; use outputs")
        return dict(zip(names, self.outputs, strict=True))

    def copy_params_from(self, arg_params: Mapping[str, NDArray],
                         aux_params: Mapping[str, NDArray] | None = None,
                         allow_extra_params: bool = False) -> None:
        """Copy parameters by name into the arrays bound.

        Parameters
        ----------
        arg_params : dict of str to NDArray
            Values of arguments; cast to the types bound.
        aux_params : dict of str to NDArray, optional
            Values of auxiliary states.
        allow_extra_params : bool, default False
            Whether names that the symbol does not have are ignored.

        Raises
        ------
        ArgumentError
            If a name is unknown and `allow_extra_params` is False.
        MXNetError
            If a shape differs from that bound.

        Examples
        --------
        >>> import nbmod as mx
        >>> exe = (mx.sym.Variable("a") * 2).simple_bind(mx.cpu(), a=(2,))
        >>> exe.copy_params_from({"a": mx.nd.array([3, 4]), "b": mx.nd.ones((1,))},
        ...                      allow_extra_params=True)
        >>> exe.arg_dict["a"].asnumpy().tolist()
        [3.0, 4.0]
        """
        for given, bound, kind in ((arg_params, self.arg_dict, "arguments"),
                                   (aux_params or {}, self.aux_dict, "auxiliary states")):
            for name, value in given.items():
                if name in bound:
                    _copy_parameter(name, value, bound[name])
                elif not allow_extra_params:
                    raise ArgumentError(f"Find name {name!r} that is not in the {kind}"
                                        f"{did_you_mean(name, bound)}")

    # -- what users hand to forward and backward ----------------------------------------------

    def _load(self, values: Mapping[str, Any]) -> None:
        """Copy the inputs of a run into the arguments by name."""
        for name, value in values.items():
            if name not in self.arg_dict:
                raise MXNetError(f"forward: unknown argument {name!r}"
                                 f"{did_you_mean(name, self.arg_dict)}")
            if not isinstance(value, (NDArray, np.ndarray)):
                raise ArgumentError(f"forward: argument {name} is a {type(value).__name__}, "
                                    "expected an NDArray or a numpy.ndarray")
            bound = self.arg_dict[name].shape
            if value.shape != bound:
                raise ArgumentError(f"forward: argument {name} has shape {value.shape}, bound with "
                                    f"{bound}; use Executor.reshape")
            self.arg_dict[name][:] = value

    def _head_list(self, out_grads: Any) -> list[Any]:
        if out_grads is None:
            return []
        if isinstance(out_grads, NDArray):
            return [out_grads]
        if isinstance(out_grads, Mapping):
            return [out_grads.get(name) for name in self._output_names]
        if not isinstance(out_grads, (list, tuple)):
            raise TypeError(f"backward: out_grads is a {type(out_grads).__name__}, expected an "
                            "NDArray, a list of them, or a dict by output name")
        if len(out_grads) > len(self.outputs):
            raise MXNetError(f"backward: {len(out_grads)} head gradients for "
                             f"{len(self.outputs)} output(s)")
        return list(out_grads)

    def _set_heads(self, grads: list[Any]) -> None:
        for index, target in self._head_arrays.items():
            grad = grads[index] if index < len(grads) else None
            name = self._output_names[index]
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
            target[:] = grad

    def _gradient(self, name: str) -> NDArray:
        """The user's array for the gradient of a trained argument."""
        target = self.grad_dict[name]
        assert target is not None
        return target


def _copy_parameter(name: str, value: Any, target: NDArray) -> None:
    if not isinstance(value, NDArray):
        raise TypeError(f"copy_params_from: {name} is a {type(value).__name__}, expected an "
                        "NDArray")
    if value.shape != target.shape:
        raise MXNetError(f"copy_params_from: {name} has shape {value.shape}, bound with "
                         f"{target.shape}")
    value.astype(target.dtype).copyto(target)
