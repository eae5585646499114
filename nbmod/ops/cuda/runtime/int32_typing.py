"""Integers of 32 bits stay so: how the integers of a kernel are typed while it is compiled.

numba gives the sum of two 32-bit integers 64 bits, which on a GPU doubles the work of every index
and makes a division by a size that is no constant a call of some hundred instructions.  Here the
result of two int32, or of an int32 and a constant that fits, is an int32, and two uint32 give a
uint32.  `np.int64(x)` says where more is wanted, and `np.int32(x << n)` that no more is: shifts
have 64 bits, since numba writes no code for narrower ones.  Other people's kernels are typed as
ever: the rule holds inside `narrow()` only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["narrow"]

_BINARY = ("add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor")
_KEYS = frozenset([getattr(operator, name) for name in _BINARY]
                  + [getattr(operator, "i" + name.rstrip("_")) for name in _BINARY]
                  + [operator.neg, operator.pos, operator.invert, range])


@contextmanager
def narrow() -> Iterator[None]:
    """A block in which the CUDA target of numba types integers as above."""
    from numba.cuda.descriptor import cuda_target

    context = cuda_target.typing_context
    usual = context.resolve_function_type
    context.resolve_function_type = _with_rule(usual)
    try:
        yield
    finally:
        del context.resolve_function_type


def _with_rule(usual: Callable[..., Any]) -> Callable[..., Any]:
    from numba.cuda import types
    from numba.cuda.typing.templates import signature

    def fits(kind: Any, least: int, most: int) -> bool:
        return isinstance(kind, types.IntegerLiteral) and least <= kind.literal_value <= most

    def common(args: tuple[Any, ...]) -> Any:
        """The type of 32 bits that all of `args` are, or can be."""
        if all(kind == types.int32 or fits(kind, -2 ** 31, 2 ** 31 - 1) for kind in args):
            return types.int32
        if all(kind == types.uint32 or fits(kind, 0, 2 ** 32 - 1) for kind in args):
            return types.uint32
        return None

    def resolve(function: Any, args: tuple[Any, ...], kws: Any) -> Any:
        found = usual(function, args, kws)
        key = getattr(function, "typing_key", None)
        if not args or kws or key not in _KEYS:
            return found
        kind = common(args)
        if kind is None:
            return found
        if key is not range:
            return signature(kind, *[kind] * len(args))
        return usual(function, (kind,) * len(args), kws) if kind == types.int32 else found

    return resolve
