"""Constant folding: nodes that can be computed without the inputs, mostly arithmetic of shapes.

Every result is sized before it is computed: a file of a few bytes could otherwise ask for any
amount of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...base import Forwarded
from ...ops.param import Shape
from ...ops.shape import normalize_axes, size_of
from .imported_tensor import INT64, Array, DType, ImportedTensor
from .tensor_data import MAX_RANK, element_type

if TYPE_CHECKING:
    from .node_import import NodeImport

__all__ = ["Folder", "TooLarge", "fold_samples", "reshaped", "slice_parts"]

SUMS = frozenset({"Add", "Concat", "Mul", "Sub"})
MOVES = frozenset({"Cast", "Gather", "Identity", "Neg", "ReduceProd", "Reshape", "Slice", "Squeeze",
                   "Unsqueeze"})
"""Operators whose results are polynomials of inputs, for `MOVES` of the first one: two sizes of an
open dimension tell them, unlike those of Min, of Div, or of a table."""
LIMIT = 256 * 2 ** 20
"""Bytes of all folded results, besides a multiple of the size of the file."""


class TooLarge(ArithmeticError):
    """A constant that would need more memory than the file justifies."""


class Folder:
    """Folds the constants of one model, in `allowance` bytes besides `LIMIT`."""

    def __init__(self, allowance: int):
        self._left = LIMIT + allowance

    def __contains__(self, operator: str) -> bool:
        return operator in _RULES or operator in _ELEMENTWISE

    def fold(self, node: NodeImport) -> list[Array] | None:
        """The outputs of a node, None if they depend on inputs; TooLarge beyond the limit."""
        if node.operator in ("Shape", "Size"):
            return _measure(node)
        arrays = [None if each is None else each.array for each in node.inputs]
        if any(each is not None and each.array is None for each in node.inputs):
            return None
        with np.errstate(all="ignore"):
            if (function := _ELEMENTWISE.get(node.operator)) is not None:
                return [self._elementwise(function, arrays)]
            rule = _RULES.get(node.operator)
            if rule is None:
                return None
            result = rule(node, self, *arrays)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def reserve(self, shape: Sequence[int], dtype: DType) -> None:
        """Count a result; TooLarge if there is no room for it."""
        needed = size_of(int(size) for size in shape) * dtype.itemsize
        if needed > self._left or any(size < 0 for size in shape):
            raise TooLarge(f"a constant of shape {tuple(shape)[:20]} would need {needed} bytes; "
                           "so much is not computed while a model is imported")
        self._left -= needed

    def _elementwise(self, function: Callable[..., Array], arrays: Sequence[Array | None]) -> Array:
        operands = [each for each in arrays if each is not None]
        self.reserve(np.broadcast_shapes(*[each.shape for each in operands]), _widest(operands))
        result = function(*operands)
        same = operands[-1].dtype  # numpy promotes scalars, ONNX does not
        keeps = function not in _PREDICATES
        return np.asarray(result, same if keeps else None)


def fold_samples(folder: Folder, node: NodeImport, count: int) -> ImportedTensor | None:
    """The result of arithmetic with open sizes, or None for other nodes.

    The node is folded for each of the `count` samples of the inputs of the model; the result is a
    constant if the open sizes do not matter, else a tensor with `values`.
    """
    measured = node.operator in ("Shape", "Size") and bool(node.data.samples)
    open_inputs = [index for index, each in enumerate(node.inputs) if each and each.values]
    if not measured and not (node.operator in SUMS and open_inputs
                             or node.operator in MOVES and open_inputs == [0]):
        return None
    samples: list[Array] = []
    for index in range(count):
        inputs = [each and each.at_sample(index) for each in node.inputs]
        arrays = folder.fold(replace(node, inputs=inputs))
        if arrays is None or len(arrays) > 1 or arrays[0].size > MAX_RANK:
            return None
        samples += arrays
    if len({each.shape for each in samples}) > 1:
        return None
    first, name = samples[0], node.outputs[0]
    if all(np.array_equal(each, first) for each in samples):
        return ImportedTensor.constant(first, name)
    return ImportedTensor(first.shape, first.dtype, values=tuple(samples), carrier=first.dtype,
                          name=name)


def _widest(arrays: Sequence[Array]) -> DType:
    return max((each.dtype for each in arrays), key=lambda dtype: dtype.itemsize)


def _measure(node: NodeImport) -> list[Array] | None:
    """Shape and Size, which need the shape of their input only, or the part that is asked for."""
    tensor = node.data
    if tensor.shape is None:
        return None
    sizes = tensor.shape[_shape_slice(node)] if node.operator == "Shape" else tensor.shape
    if tensor.array is None and 0 in sizes:
        return None
    return [np.array(sizes if node.operator == "Shape" else size_of(sizes), INT64)]


def _shape_slice(node: NodeImport) -> slice:
    return slice(node.attribute("start", 0), node.attribute("end"))


def _divide(a: Array, b: Array) -> Array:
    """Integers are truncated toward 0."""
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    quotient = np.floor_divide(a, b)
    return np.asarray(quotient + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0))))


_PREDICATES: set[Callable[..., Array]] = {
    np.equal, np.less, np.less_equal, np.greater, np.greater_equal, np.logical_and, np.logical_or,
    np.logical_xor, np.logical_not, np.isnan}
_ELEMENTWISE: Mapping[str, Callable[..., Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide, "Pow": lambda a, b: (
        np.power(a, b).astype(a.dtype)), "Equal": np.equal, "Less": np.less,
    "LessOrEqual": np.less_equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not,
    "Neg": np.negative, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Sqrt": np.sqrt,
    "Exp": np.exp, "Log": np.log, "Round": np.rint, "Reciprocal": np.reciprocal, "Sign": np.sign,
    "Sin": np.sin, "Cos": np.cos, "Relu": lambda a: np.maximum(a, a.dtype.type(0)),
    "Identity": lambda a: a, "Where": np.where, "IsNaN": np.isnan,
    "Max": lambda *given: reduce(np.maximum, given),
    "Min": lambda *given: reduce(np.minimum, given)}

_Rule: TypeAlias = Callable[..., Forwarded]
_RULES: dict[str, _Rule] = {"Shape": _measure, "Size": _measure}


def _rule(*names: str) -> Callable[[_Rule], _Rule]:
    def register(function: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return register


@_rule("Constant")
def _constant(node: NodeImport, folder: Folder) -> Array:
    for key, dtype in (("value", None), ("value_int", np.int64), ("value_ints", np.int64),
                       ("value_float", np.float32), ("value_floats", np.float32)):
        if key in node.attributes:
            return np.asarray(node.attributes[key], dtype)
    return node.refuse("only constants of numbers are supported")


@_rule("Cast")
def _cast(node: NodeImport, folder: Folder, array: Array) -> Array:
    dtype = element_type(int(node.attribute("to", 0)), "attribute 'to'")
    folder.reserve(array.shape, dtype)
    if dtype.kind not in "biuf" or array.dtype.kind not in "biuf":
        node.refuse(f"element types {array.dtype} and {dtype} have no counterpart")
    return array.astype(dtype)


@_rule("CastLike")
def _cast_like(node: NodeImport, folder: Folder, array: Array, like: Array) -> Array:
    folder.reserve(array.shape, like.dtype)
    return array.astype(like.dtype)


@_rule("Concat")
def _concat(node: NodeImport, folder: Folder, *arrays: Array) -> Array:
    folder.reserve((sum(each.size for each in arrays),), arrays[0].dtype)
    return np.concatenate(arrays, int(node.attribute("axis", 1)))


@_rule("Gather")
def _gather(node: NodeImport, folder: Folder, array: Array, indices: Array) -> Array:
    axis = int(node.attribute("axis", 0))
    rest = array.size // max(array.shape[axis], 1)
    folder.reserve((rest, indices.size), array.dtype)
    return np.take(array, indices, axis)


@_rule("Reshape")
def _reshape(node: NodeImport, folder: Folder, array: Array, shape: Array) -> Array:
    return array.reshape(reshaped(array.shape, [int(each) for each in shape],
                                  bool(node.attribute("allowzero", 0))))


def reshaped(shape: Shape, target: Sequence[int], allow_zero: bool = False) -> Shape:
    """The shape that ONNX's Reshape makes: 0 copies a dimension, -1 takes the rest.

    Dimensions of `shape` that are not known (0) stay so where they are copied.
    """
    copied = [shape[i] if size == 0 and not allow_zero else size for i, size in enumerate(target)]
    if -1 in copied:
        rest = size_of(size for size in copied if size != -1)
        copied[copied.index(-1)] = size_of(shape) // rest if rest else 0
    return tuple(copied)


@_rule("Transpose")
def _transpose(node: NodeImport, folder: Folder, array: Array) -> Array:
    return array.transpose(node.integers("perm") or None)


@_rule("Unsqueeze")
def _unsqueeze(node: NodeImport, folder: Folder, array: Array, axes: Array | None = None) -> Array:
    places = node.integer_list(1, "axes") or ()
    rank = array.ndim + len(places)
    new = set(normalize_axes(places, rank))
    sizes = iter(array.shape)
    return array.reshape([1 if i in new else next(sizes) for i in range(rank)])


@_rule("Squeeze")
def _squeeze(node: NodeImport, folder: Folder, array: Array, axes: Array | None = None) -> Array:
    return np.squeeze(array, node.integer_list(1, "axes"))


@_rule("Slice")
def _slice(node: NodeImport, folder: Folder, array: Array, *rest: Array | None) -> Array:
    parts = slice_parts(node, array.ndim)
    return array[tuple(parts.get(axis, slice(None)) for axis in range(array.ndim))]


def slice_parts(node: NodeImport, rank: int) -> dict[int, slice]:
    """Axis -> what a Slice takes of it."""
    starts = node.integer_list(1, "starts") or ()
    ends = node.integer_list(2, "ends") or ()
    axes = node.integer_list(3, "axes") or tuple(range(len(starts)))
    steps = node.integer_list(4) or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        node.refuse(f"starts {starts}, ends {ends}, axes {axes}, steps {steps} do not fit")
    return {axis: slice(start, None if step < 0 and end < -(2 ** 31) + 1 else end, step)
            for axis, start, end, step in zip(normalize_axes(axes, rank), starts, ends, steps,
                                              strict=True)}


@_rule("Split")
def _split(node: NodeImport, folder: Folder, array: Array, *rest: Array) -> list[Array]:
    axis = int(node.attribute("axis", 0))
    sizes = node.integer_list(1, "split") or _even_split(array.shape[axis], len(node.outputs))
    return np.split(array, np.cumsum(sizes)[:-1], axis)


def _even_split(size: int, count: int) -> Shape:
    part = -(-size // count)
    return tuple(max(min(part, size - i * part), 0) for i in range(count))


@_rule("Expand")
def _expand(node: NodeImport, folder: Folder, array: Array, shape: Array) -> Array:
    full = np.broadcast_shapes(array.shape, tuple(int(size) for size in shape))
    folder.reserve(full, array.dtype)
    return np.broadcast_to(array, full).copy()


@_rule("ConstantOfShape")
def _constant_of_shape(node: NodeImport, folder: Folder, shape: Array) -> Array:
    value = np.asarray(node.attribute("value", np.zeros(1, np.float32)))
    full = [int(size) for size in shape]
    folder.reserve(full, value.dtype)
    return np.full(full, value.ravel()[0], value.dtype)


@_rule("Range")
def _range(node: NodeImport, folder: Folder, start: Array, limit: Array, delta: Array) -> Array:
    first, step = start.item(), delta.item()
    count = max(int(np.ceil((limit.item() - first) / step)), 0) if step else -1
    folder.reserve((count,), np.dtype(np.int64))
    return (first + np.arange(count) * step).astype(start.dtype)


@_rule("Tile")
def _tile(node: NodeImport, folder: Folder, array: Array, repeats: Array) -> Array:
    counts = [int(each) for each in repeats]
    folder.reserve([size * count for size, count in zip(array.shape, counts, strict=True)],
                   array.dtype)
    return np.tile(array, counts)


@_rule("Mod")
def _mod(node: NodeImport, folder: Folder, a: Array, b: Array) -> Array:
    folder.reserve(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    return np.asarray(np.fmod(a, b) if node.attribute("fmod", 0) else np.mod(a, b), a.dtype)


def _reduction(function: Callable[..., Array]) -> _Rule:
    def fold(node: NodeImport, folder: Folder, array: Array, axes: Array | None = None) -> Array:
        places = node.integer_list(1, "axes")
        if not places and node.attribute("noop_with_empty_axes", 0):
            return array
        result = function(array, axis=places or None, keepdims=bool(node.attribute("keepdims", 1)))
        return np.asarray(result, array.dtype)

    return fold


_RULES.update(ReduceProd=_reduction(np.prod), ReduceSum=_reduction(np.sum),
              ReduceMax=_reduction(np.max), ReduceMin=_reduction(np.min),
              ReduceMean=_reduction(np.mean))


@_rule("NonZero")
def _non_zero(node: NodeImport, folder: Folder, array: Array) -> Array:
    folder.reserve((array.ndim, array.size), INT64)
    return np.stack(np.nonzero(array)).astype(INT64)


@_rule("Trilu")
def _trilu(node: NodeImport, folder: Folder, array: Array, k: Array | None = None) -> Array:
    folder.reserve(array.shape, array.dtype)
    shift = 0 if k is None else int(k.item())
    return (np.triu if node.attribute("upper", 1) else np.tril)(array, shift)
