"""32-bit integer arithmetic: typing rules for the integers of kernels.

The compilers promote the sum of two 32-bit integers to 64 bits, which on a GPU doubles the work of
index arithmetic and makes a division by a variable a call of some hundred instructions.  Here
operations on two int32, or on an int32 and a constant that fits, give an int32, and those on two
uint32 a uint32.  `np.int64(x)` requests 64 bits, and `np.int32(x << n)` truncates a shift: shifts
have 64 bits, as numba-cuda generates no code for narrower ones.  A real number that `math.floor`,
`math.ceil` or `math.trunc` rounds stays a real one, as it may be too large for an integer.  The
rules apply inside `int32_arithmetic()` only; kernels of other packages are typed as usual.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["int32_arithmetic"]

_BINARY = ("add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor")
_KEYS = frozenset([getattr(operator, name) for name in _BINARY]
                  + [getattr(operator, "i" + name.rstrip("_")) for name in _BINARY]
                  + [operator.neg, operator.pos, operator.invert, range])
_ROUNDING = (math.floor, math.ceil, math.trunc)


@contextmanager
def int32_arithmetic(context: Any, types: Any, signature: Any) -> Iterator[None]:
    """Context in which the typing context of a compiler applies these rules; `types` and
    `signature` are the compiler's."""
    usual = context.resolve_function_type
    context.resolve_function_type = _with_rule(usual, types, signature)
    try:
        yield
    finally:
        del context.resolve_function_type


def _with_rule(usual: Callable[..., Any], types: Any, signature: Any) -> Callable[..., Any]:
    def fits(kind: Any, least: int, most: int) -> bool:
        return isinstance(kind, types.IntegerLiteral) and least <= kind.literal_value <= most

    def common(args: tuple[Any, ...]) -> Any:
        """The 32-bit type that all of `args` have or fit."""
        if all(kind == types.int32 or fits(kind, -2 ** 31, 2 ** 31 - 1) for kind in args):
            return types.int32
        if all(kind == types.uint32 or fits(kind, 0, 2 ** 32 - 1) for kind in args):
            return types.uint32
        return None

    def resolve(function: Any, args: tuple[Any, ...], kws: Any) -> Any:
        default = usual(function, args, kws)
        key = getattr(function, "typing_key", None)
        if key in _ROUNDING and isinstance(args[0], types.Float):
            return signature(args[0], args[0])
        if not args or kws or key not in _KEYS:
            return default
        kind = common(args)
        if kind is None:
            return default
        if key is not range:
            return signature(kind, *[kind] * len(args))
        return usual(function, (kind,) * len(args), kws) if kind == types.int32 else default

    return resolve
