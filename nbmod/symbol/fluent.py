"""Ops as methods (fluent interface): `x.exp()` is `sym.exp(x)`.

`FLUENT` lists the ops that MXNet offers this way; a few methods have a signature of their own.
Methods of NDArray that are undefined for symbols raise NotImplementedForSymbol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .operators import only_for_arrays

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..base import Forwarded
    from ._op_stubs.methods import Methods
    from .namespace import SymbolFunction
    from .symbol import Symbol
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


def call(op_name: str, /, *args: Forwarded, **kwargs: Forwarded) -> Symbol:
    """Call the operator function `sym.<op_name>`.

    Parameters
    ----------
    op_name : str
        Name of the operator.
    *args, **kwargs
        Arguments of the function.
    """
    from .namespace import symbol_function

    return symbol_function(op_name)(*args, **kwargs)


class Fluent(Methods):
    """The methods of `Symbol` that apply an op to it.

    Examples
    --------
    >>> x = mx.sym.Variable("x")
    >>> x.reshape((0, -1)).sum(axis=1).infer_shape(x=(2, 3, 4))[1]
    [(2,)]
    """

    __slots__ = ()

    def astype(self, *args: Forwarded, **kwargs: Forwarded) -> Symbol:
        """Convert the element type, by `sym.cast`.

        Parameters
        ----------
        *args, **kwargs
            `dtype` and further arguments of `sym.cast`.
        """
        return call("cast", self, *args, **kwargs)

    def expand_dims(self, axis: int, inplace: bool = False, **kwargs: Forwarded) -> Symbol:
        """Insert an axis of length 1, by `sym.expand_dims`.

        Parameters
        ----------
        axis : int
            Position of the axis in the result.
        inplace : bool, default False
            Accepted for compatibility with NDArray; has no effect.
        **kwargs
            Further arguments of `sym.expand_dims`.
        """
        return call("expand_dims", self, axis=axis, **kwargs)

    def flatten(self, inplace: bool = False, **kwargs: Forwarded) -> Symbol:
        """Merge all axes but the first, by `sym.flatten`.

        Parameters
        ----------
        inplace : bool, default False
            Accepted for compatibility with NDArray; has no effect.
        **kwargs
            Further arguments of `sym.flatten`.
        """
        return call("flatten", self, **kwargs)

    def squeeze(self, axis: int | tuple[int, ...] | None = None, inplace: bool = False,
                **kwargs: Forwarded) -> Symbol:
        """Remove axes of length 1, by `sym.squeeze`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            Axes to remove; None: all of length 1.
        inplace : bool, default False
            Accepted for compatibility with NDArray; has no effect.
        **kwargs
            Further arguments of `sym.squeeze`.
        """
        return call("squeeze", self, axis=axis, **kwargs)

    def diag(self, k: int = 0, **kwargs: Forwarded) -> Symbol:
        """Extract a diagonal or construct a diagonal matrix, by `sym.diag`.

        Parameters
        ----------
        k : int, default 0
            Diagonal: 0 is the main one, positive ones are above, negative ones below it.
        **kwargs
            Further arguments of `sym.diag`.
        """
        return call("diag", self, k, **kwargs)

    def split_v2(self, *args: Forwarded, **kwargs: Forwarded) -> Symbol:
        """Split along an axis, by `sym.split_v2`.

        Parameters
        ----------
        *args, **kwargs
            Arguments of `sym.split_v2` after its first one.
        """
        from .functions import split_v2

        return split_v2(self, *args, **kwargs)  # type: ignore[arg-type]  # of Symbol

    def as_nd_ndarray(self) -> Self:
        """Return the symbol; for compatibility with MXNet's NumPy interface."""
        return self


def _method(name: str) -> SymbolFunction:
    def method(self: Symbol, *args: Forwarded, **kwargs: Forwarded) -> Symbol:
        return call(name, self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Symbol.{name}"
    method.__doc__ = (f"Apply `sym.{name}` to the symbol.\n\nParameters\n----------\n"
                      f"*args, **kwargs\n    Arguments of `sym.{name}` after its first one.\n")
    return method


for _name in FLUENT:
    setattr(Fluent, _name, _method(_name))
for _name in ONLY_FOR_ARRAYS:
    setattr(Fluent, _name, only_for_arrays(_name))
