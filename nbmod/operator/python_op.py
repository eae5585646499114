"""`NumpyOp` and `NDArrayOp`: prop and operator in one object, which makes symbols when called.

Each symbol is a custom operator, registered under a name of its own; the registration keeps the
object alive.  A graph with one can be saved, but its operator exists in this process only.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np

from ..context import Context
from ..ndarray import NDArray, mutation
from ..symbol.name import NameManager
from .custom_op import CustomOp, CustomOpProp
from .definition import enter

__all__ = ["PythonOp", "NumpyOp", "NDArrayOp"]


class PythonOp:
    """Base of `NumpyOp` and `NDArrayOp`: prop and operator in one object.

    Calling it with symbols makes a symbol.
    """

    _hint = "_python"
    _numbers = itertools.count()

    def __init__(self, need_top_grad: bool = True):
        warnings.warn(f"{type(self).__name__}: NumpyOp and NDArrayOp are deprecated; CustomOp does "
                      "all they do", DeprecationWarning, stacklevel=2)
        self.need_top_grad_ = need_top_grad

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """A node that computes with this object; inputs by position or by name, and `name`."""
        from ..symbol.namespace import symbol_function

        op_type = f"{type(self).__name__}-{next(self._numbers)}"
        enter(op_type, lambda parameters: _PythonProp(self))
        kwargs["name"] = NameManager.current.get(kwargs.get("name"), self._hint)
        return symbol_function("Custom")(*args, op_type=op_type, **kwargs)

    def forward(self, in_data: list[Any], out_data: list[Any]) -> None:
        """Write the outputs.  Default: the first input."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: list[Any], in_data: list[Any], out_data: list[Any],
                 in_grad: list[Any]) -> None:
        """Write the gradients of the inputs.  Default: 1."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[list[int]]) -> Any:
        """Shapes of inputs and outputs.  Default: all outputs are shaped like the first input."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether backward reads the gradients of the outputs."""
        return self.need_top_grad_

    def _arrays(self, arrays: list[NDArray]) -> list[Any]:
        """Arguments of `forward` and `backward` in place of NDArrays."""
        return arrays

    def _written(self, arrays: list[NDArray], host_arrays: list[Any]) -> None:
        """Copy results back to the NDArrays."""


class NumpyOp(PythonOp):
    """An operator over NumPy arrays: views of the memory on the CPU, copies on other devices."""

    _hint = "_native"

    def _arrays(self, arrays: list[NDArray]) -> list[Any]:
        return [mutation.lend(array._data) if isinstance(array._data, np.ndarray)
                else array.asnumpy() for array in arrays]

    def _written(self, arrays: list[NDArray], host_arrays: list[Any]) -> None:
        for array, host in zip(arrays, host_arrays, strict=True):
            if not isinstance(array._data, np.ndarray):
                array[:] = host


class NDArrayOp(PythonOp):
    """An operator over NDArrays."""

    _hint = "_ndarray"

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int],
                                    out_data: list[int]) -> list[int]:
        """Which arrays backward reads, as for `CustomOpProp`."""
        return [*(out_grad if self.need_top_grad() else ()), *in_data, *out_data]


class _PythonProp(CustomOpProp):
    """A `PythonOp` as a custom operator."""

    def __init__(self, op: PythonOp):
        super().__init__(op.need_top_grad())
        self._op = op
        self.list_arguments, self.list_outputs = op.list_arguments, op.list_outputs  # type: ignore
        self.infer_shape = op.infer_shape  # type: ignore[method-assign]
        if isinstance(op, NDArrayOp):
            self.declare_backward_dependency = (  # type: ignore[method-assign]
                op.declare_backward_dependency)

    def create_operator(self, ctx: Context, in_shapes: list[list[int]], in_dtypes: list[int]
                        ) -> CustomOp:
        return _PythonRun(self._op)


class _PythonRun(CustomOp):
    """Runs a `PythonOp`."""

    def __init__(self, op: PythonOp):
        self._op = op

    def forward(self, is_train: bool, req: list[str], in_data: list[NDArray],
                out_data: list[NDArray], aux: list[NDArray]) -> None:
        outs = self._op._arrays(out_data)
        self._op.forward(in_data=self._op._arrays(in_data), out_data=outs)
        self._op._written(out_data, outs)

    def backward(self, req: list[str], out_grad: list[NDArray], in_data: list[NDArray],
                 out_data: list[NDArray], in_grad: list[NDArray], aux: list[NDArray]) -> None:
        arrays, grads = self._op._arrays, self._op._arrays(in_grad)
        self._op.backward(out_grad=arrays(out_grad) if self._op.need_top_grad() else [],
                          in_data=arrays(in_data), out_data=arrays(out_data), in_grad=grads)
        self._op._written(in_grad, grads)
