"""Functions as methods (fluent interface): `x.exp()` is `nd.exp(x)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["FLUENT", "fluent_methods"]

FLUENT = (
    "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "argmax",
    "argmax_channel", "argmin", "argsort", "broadcast_axes", "cbrt", "ceil", "clip", "cos", "cosh",
    "degrees", "depth_to_space", "diag", "exp", "expm1", "fix", "flip", "floor", "log", "log10",
    "log1p", "log2", "log_softmax", "max", "mean", "min", "nanprod", "nansum", "norm", "one_hot",
    "ones_like", "pad", "pick", "prod", "radians", "rcbrt", "reciprocal", "relu", "repeat",
    "reshape_like", "rint", "round", "rsqrt", "shape_array", "sigmoid", "sign", "sin", "sinh",
    "size_array", "slice", "slice_axis", "slice_like", "softmax", "softmin", "sort",
    "space_to_depth", "split", "split_v2", "sqrt", "square", "sum", "swapaxes", "take", "tan",
    "tanh", "tile", "topk", "transpose", "trunc", "zeros_like",
)


def fluent_methods(function: Callable[[str], Callable[..., Any]]) -> Any:
    """A mixin with a method per name; `function(name)` is asked for when one is first called."""

    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return function(name)(self, *args, **kwargs)

        call.__name__ = name
        call.__qualname__ = f"Fluent.{name}"
        call.__doc__ = f"The same as the function `{name}` with this tensor as its first argument."
        return call

    return type("Fluent", (), {"__slots__": (), **{name: method(name) for name in FLUENT}})
