"""Ops as methods: `x.reshape(shape=(0, -1))` is `sym.reshape(x, shape=(0, -1))`.

The table lists the ops that MXNet offers this way; a few need a signature of their own.  Methods of
NDArray that make no sense here raise NotImplementedForSymbol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base import NotImplementedForSymbol

if TYPE_CHECKING:
    from ._op_stubs.methods import Methods
else:
    Methods = object

__all__ = ["FLUENT", "Fluent"]

FLUENT = tuple("""
    abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort
    broadcast_axes broadcast_like broadcast_to cbrt ceil clip cos cosh degrees depth_to_space exp
    expm1 fix flip floor log log10 log1p log2 log_softmax max mean min nanprod nansum norm one_hot
    ones_like pad pick prod radians rcbrt reciprocal relu repeat reshape reshape_like rint round
    rsqrt shape_array sigmoid sign sin sinh size_array slice slice_axis slice_like softmax softmin
    sort space_to_depth split sqrt square sum swapaxes take tan tanh tile topk transpose trunc
    zeros_like""".split())

ONLY_FOR_ARRAYS = ("as_in_context", "asnumpy", "asscalar", "backward", "copy", "detach",
                   "wait_to_read")


def call(op_name: str, /, *args: Any, **kwargs: Any) -> Any:
    """`sym.<op_name>(*args, **kwargs)`."""
    from .namespace import symbol_function

    return symbol_function(op_name)(*args, **kwargs)


class Fluent(Methods):
    """The part of `Symbol` that offers ops as methods."""

    __slots__ = ()

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        """`sym.cast(self, dtype)`."""
        return call("cast", self, *args, **kwargs)

    def expand_dims(self, axis: int, inplace: bool = False, **kwargs: Any) -> Any:
        """`sym.expand_dims(self, axis)`; `inplace` is accepted for code shared with NDArray."""
        return call("expand_dims", self, axis=axis, **kwargs)

    def flatten(self, inplace: bool = False, **kwargs: Any) -> Any:
        """`sym.flatten(self)`; `inplace` is accepted for code shared with NDArray."""
        return call("flatten", self, **kwargs)

    def squeeze(self, axis: Any = None, inplace: bool = False, **kwargs: Any) -> Any:
        """`sym.squeeze(self, axis)`; `inplace` is accepted for code shared with NDArray."""
        return call("squeeze", self, axis=axis, **kwargs)

    def diag(self, k: int = 0, **kwargs: Any) -> Any:
        """`sym.diag(self, k)`."""
        return call("diag", self, k, **kwargs)

    def split_v2(self, *args: Any, **kwargs: Any) -> Any:
        """`sym.split_v2(self, ...)`."""
        from .functions import split_v2

        return split_v2(self, *args, **kwargs)  # type: ignore[arg-type]

    def as_nd_ndarray(self) -> Any:
        """The symbol itself."""
        return self


def _method(name: str) -> Callable:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(name, self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Symbol.{name}"
    method.__doc__ = f"`sym.{name}(self, ...)`"
    return method


def _refusal(name: str) -> Callable:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedForSymbol(method, None)

    method.__name__, method.__qualname__ = name, f"Symbol.{name}"
    method.__doc__ = "Only for NDArray."
    return method


for _name in FLUENT:
    setattr(Fluent, _name, _method(_name))
for _name in ONLY_FOR_ARRAYS:
    setattr(Fluent, _name, _refusal(_name))
