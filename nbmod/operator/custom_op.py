"""Custom operators: a `CustomOp` computes; its `CustomOpProp` describes it.

    @mx.operator.register("square")
    class SquareProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Square()

    class Square(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] ** 2)
        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])

    mx.sym.Custom(x, op_type="square")      mx.nd.Custom(x, op_type="square")

A node has one prop; a bound executor has one operator for each node, and an eager call its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..base import MXNetError
from ..context import Context
from ..core.interrupts import from_handler
from ..ndarray import NDArray
from ..ops.param import is_hidden
from .definition import enter

__all__ = ["CustomOp", "CustomOpProp", "register"]


class CustomOp:
    """The computation: subclasses define `forward` and `backward`, which write into arrays."""

    def forward(self, is_train: bool, req: list[str], in_data: list[NDArray],
                out_data: list[NDArray], aux: list[NDArray]) -> None:
        """Write the outputs, each with `assign` and its `req`."""

    def backward(self, req: list[str], out_grad: list[NDArray], in_data: list[NDArray],
                 out_data: list[NDArray], in_grad: list[NDArray], aux: list[NDArray]) -> None:
        """Write the gradients of the arguments.

        Arrays that `declare_backward_dependency` leaves out must not be read.
        """

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """dst = src for `req` "write" or "inplace", dst += src for "add", nothing for "null"."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src
        elif req != "null":
            raise MXNetError(f"assign: req is {req!r}, expected 'null', 'write', 'inplace' or "
                             "'add'")


class CustomOpProp:
    """The description of an operator: names, shapes, types; it creates the `CustomOp`.

    The constructor gets the parameters of the node as text.  `need_top_grad` False is for losses,
    whose gradient does not depend on the gradient of their output.
    """

    need_top_grad_ = True

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad

    def list_arguments(self) -> list[str]:
        """Names of the inputs that are not auxiliary states."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Names of the outputs; a symbol's output is called `<node>_<name>`."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the arrays that forward and backward may change."""
        return []

    def infer_shape(self, in_shape: list[list[int]]) -> Any:
        """Shapes of arguments and of outputs, and of auxiliary states if there are any.

        An unknown shape is [], an unknown dimension -1, both ways.  Default: outputs are shaped
        like the first argument.
        """
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: list[Any]) -> Any:
        """Element types, None where unknown.  Default: all like the first argument."""
        return (in_type, [in_type[0]] * len(self.list_outputs()),
                [in_type[0]] * len(self.list_auxiliary_states()))

    def infer_storage_type(self, in_stype: list[str]) -> Any:
        """Storage types of arguments, outputs and states: dense, or an AssertionError."""
        _require_dense("infer_storage_type", in_stype)
        return (in_stype, ["default"] * len(self.list_outputs()),
                ["default"] * len(self.list_auxiliary_states()))

    def infer_storage_type_backward(self, ograd_stype: list[str], in_stype: list[str],
                                    out_stype: list[str], igrad_stype: list[str],
                                    aux_stype: list[str]) -> Any:
        """Storage types of all arrays of backward: dense, or an AssertionError."""
        groups = ograd_stype, in_stype, out_stype, igrad_stype, aux_stype
        for group in groups:
            _require_dense("infer_storage_type_backward", group)
        return tuple(["default"] * len(group) for group in groups)

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int],
                                    out_data: list[int]) -> list[int]:
        """Which of the given ids, one for each array, backward reads.  Default: all."""
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    def create_operator(self, ctx: Context, in_shapes: list[list[int]], in_dtypes: list[int]
                        ) -> CustomOp:
        """The operator of one executor on `ctx`.

        `in_shapes` and `in_dtypes` are those of arguments, then states; types are MXNet's numbers
        (0 float32, 1 float64, 2 float16, 3 uint8, 4 int32, 5 int8, 6 int64).
        """
        return CustomOp()


def _require_dense(method: str, stypes: Sequence[str]) -> None:
    for stype in stypes:
        if stype != "default":
            raise AssertionError(f"{method} by default knows dense arrays only, given {stype!r}; "
                                 "define the method for others")


def register(reg_name: str) -> Callable[[type], type]:
    """The decorator that makes a `CustomOpProp` class known to `Custom` as `reg_name`.

    A name may be registered again: nodes made before keep the class they have.
    """

    def decorate(prop_cls: type) -> type:
        if not (isinstance(prop_cls, type) and issubclass(prop_cls, CustomOpProp)):
            raise MXNetError(f"register {reg_name!r}: {prop_cls!r} is given, expected a subclass "
                             "of CustomOpProp")
        enter(reg_name, partial(_make_prop, reg_name, prop_cls))
        return prop_cls

    return decorate


def _make_prop(name: str, prop_cls: type, parameters: dict[str, str]
               ) -> CustomOpProp:
    """The prop of a node.

    Attributes such as `__ctx_group__` are passed only to a constructor that takes them.
    """
    try:
        known = inspect.signature(prop_cls).parameters
        anything = any(p.kind is p.VAR_KEYWORD for p in known.values())
        return prop_cls(**{key: value for key, value in parameters.items()
                           if anything or key in known or not is_hidden(key)})
    except Exception as error:
        if from_handler(error):
            raise
        raise MXNetError(f"custom operator {name!r}: {prop_cls.__name__}(**{parameters}) raised "
                         f"{type(error).__name__}: {error}") from error
