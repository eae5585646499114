"""Shapes with unknowns.

A shape is a tuple of integers in which 0 is a dimension not yet known; None is a shape of unknown
rank; `Shapes` are those of the inputs or the outputs of an op.  `unify` merges two partially known
shapes; shape inference is repeated unification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ..base import MXNetError

__all__ = ["PartialShape", "ShapeMismatch", "Shapes", "unify", "unify_all", "is_known",
           "require_rank", "require_sizes", "size_of", "broadcast", "normalize_axis",
           "normalize_axes", "infer_with_lengths"]

PartialShape = tuple[int, ...] | None
Shapes = list[PartialShape]


class ShapeMismatch(MXNetError):
    """Shapes that cannot belong together; the inference pass adds the node's name."""


def is_known(shape: PartialShape) -> bool:
    """Rank and every dimension are known."""
    return shape is not None and 0 not in shape


def require_rank(shape: PartialShape, least: int, expected: str) -> None:
    """ShapeMismatch if data of this shape, unless it is unknown, has fewer dimensions."""
    if shape is not None and len(shape) < least:
        raise ShapeMismatch(f"data has shape {shape}, expected {expected}")


def require_sizes(shape: PartialShape, name: str) -> None:
    """ShapeMismatch if the parameter of this name, a shape, has a negative size."""
    if shape and min(shape) < 0:
        raise ShapeMismatch(f"{name} is {shape}, expected no negative sizes")


def size_of(shape: Iterable[int]) -> int:
    """Number of elements."""
    size = 1
    for dim in shape:
        size *= dim
    return size


def unify(a: PartialShape, b: PartialShape, what: str = "shapes") -> PartialShape:
    """The shape that both describe; ShapeMismatch if there is none."""
    if a is None or b is None or a == b:
        return b if a is None else a
    if len(a) != len(b):
        raise ShapeMismatch(f"{what} {a} and {b} have different numbers of dimensions")
    merged = tuple(x or y for x, y in zip(a, b, strict=True))
    if any(x and y and x != y for x, y in zip(a, b, strict=True)):
        raise ShapeMismatch(f"{what} {a} and {b} do not agree")
    return merged


def unify_all(shapes: Iterable[PartialShape], what: str = "shapes") -> PartialShape:
    """`unify` over any number of shapes."""
    merged: PartialShape = None
    for shape in shapes:
        merged = unify(merged, shape, what)
    return merged


def broadcast(a: PartialShape, b: PartialShape) -> PartialShape:
    """NumPy's broadcast shape of two operands, aligned at the right; None if a rank is unknown."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    out = []
    for x, y in zip(left, right, strict=True):
        if x != y and 1 not in (x, y) and 0 not in (x, y):
            raise ShapeMismatch(f"shapes {a} and {b} cannot be broadcast together")
        out.append(y if x == 1 else x if y == 1 else x or y)
    return tuple(out)


_PRIMES = (2 ** 31 - 1, 2 ** 31 - 19)


def infer_with_lengths(infer: Callable[[int, Shapes], Shapes], shapes: Sequence[PartialShape],
                       where: Callable[[int], str]) -> Shapes:
    """Infer from `shapes` in which 0 is a length, and -1 a dimension that is not known.

    Rules take a 0 for an unknown dimension.  So `infer` is called with a prime in place of such
    lengths: as sizes are sums and products of others, their remainders by it are what 0 gives.
    Where another prime gives others, there is no such formula, as for windows over no pixels; that
    is a ShapeMismatch, `where` being the place of the result at a position.
    """

    def infer_by(prime: int) -> Shapes:
        sizes = [shape and tuple([max(size, 0) if size else prime for size in shape])
                 for shape in shapes]
        try:
            results = infer(prime, sizes)
        except MXNetError as error:
            text = re.sub(r"\d{10,}", lambda size: str(int(size[0]) % prime), str(error))
            raise type(error)(text) from error.__cause__
        return [shape and tuple([size % prime if size else -1 for size in shape])
                for shape in results]

    first, second = map(infer_by, _PRIMES)
    for position, (one, other) in enumerate(zip(first, second, strict=True)):
        if one != other:
            raise ShapeMismatch(f"{where(position)}: no shape follows from inputs of these shapes, "
                                "without elements")
    return first


def normalize_axis(axis: int, rank: int, name: str = "axis") -> int:
    """`axis` counted from the front; ShapeMismatch if it is out of range."""
    if not -rank <= axis < rank:
        raise ShapeMismatch(f"{name} is {axis}, expected a value in [{-rank}, {rank}) for "
                            f"{rank} dimension(s)")
    return axis % rank if rank else 0


def normalize_axes(axes: Iterable[int], rank: int, name: str = "axis") -> tuple[int, ...]:
    """Every axis counted from the front, in the given order; a repeated one is an error."""
    normal = tuple(normalize_axis(axis, rank, name) for axis in axes)
    if len(set(normal)) != len(normal):
        raise ShapeMismatch(f"{name} {tuple(axes)} names a dimension twice")
    return normal
