"""Elementwise arithmetic of imported tensors, for converters that compose operators.

A constant of rank 0 becomes the parameter of an operator on scalars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...ops.param import Shape
from ...ops.shape import broadcast
from .imported_tensor import BOOL, FLOAT, DType, ImportedTensor
from .node_import import NodeImport

__all__ = ["add", "binary", "concat", "divide", "expand", "multiply", "numeric",
           "round_half_even", "scalar", "subtract", "truth"]

SCALARS: Mapping[str, tuple[str, str]] = {
    "broadcast_add": ("_plus_scalar", "_plus_scalar"),
    "broadcast_sub": ("_minus_scalar", "_rminus_scalar"),
    "broadcast_mul": ("_mul_scalar", "_mul_scalar"),
    "broadcast_div": ("_div_scalar", "_rdiv_scalar"),
    "broadcast_power": ("_power_scalar", "_rpower_scalar"),
    "broadcast_mod": ("_mod_scalar", "_rmod_scalar"),
    "broadcast_maximum": ("_maximum_scalar", "_maximum_scalar"),
    "broadcast_minimum": ("_minimum_scalar", "_minimum_scalar"),
    "broadcast_equal": ("_equal_scalar", "_equal_scalar"),
    "broadcast_not_equal": ("_not_equal_scalar", "_not_equal_scalar"),
    "broadcast_greater": ("_greater_scalar", "_lesser_scalar"),
    "broadcast_greater_equal": ("_greater_equal_scalar", "_lesser_equal_scalar"),
    "broadcast_lesser": ("_lesser_scalar", "_greater_scalar"),
    "broadcast_lesser_equal": ("_lesser_equal_scalar", "_greater_equal_scalar"),
}
"""Operator -> those with a scalar on the right, and on the left."""


def scalar(tensor: ImportedTensor, other: ImportedTensor) -> float | None:
    """The value of a constant of rank 0, or of one element if the file does not name it."""
    array = tensor.array
    if array is None or array.size != 1 or array.ndim > (
            0 if tensor.name else len(other.shape or ())):
        return None
    value = array.ravel()[0]
    return float(str(value)) if array.dtype.kind == "f" else int(value)


def binary(node: NodeImport, op: str, left: ImportedTensor, right: ImportedTensor
           ) -> ImportedTensor:
    """`left op right`, broadcast; both have the same type in ONNX."""
    left, right = numeric(node, left), numeric(node, right)
    shape = broadcast(left.shape, right.shape)
    names = SCALARS[op]
    value = scalar(right, left) if right.array is not None else None
    if value is not None and left.array is None:
        return node.emit(names[0], left, scalar=value).shaped(shape)
    value = scalar(left, right) if left.array is not None else None
    if value is not None and right.array is None:
        return node.emit(names[1], right, scalar=value).shaped(shape)
    return node.emit(op, left, right).shaped(shape)


def add(node: NodeImport, left: ImportedTensor, right: ImportedTensor) -> ImportedTensor:
    """The sum."""
    return binary(node, "broadcast_add", left, right)


def subtract(node: NodeImport, left: ImportedTensor, right: ImportedTensor) -> ImportedTensor:
    """The difference."""
    return binary(node, "broadcast_sub", left, right)


def multiply(node: NodeImport, left: ImportedTensor, right: ImportedTensor) -> ImportedTensor:
    """The product."""
    return binary(node, "broadcast_mul", left, right)


def divide(node: NodeImport, left: ImportedTensor, right: ImportedTensor) -> ImportedTensor:
    """The quotient."""
    return binary(node, "broadcast_div", left, right)


def numeric(node: NodeImport, tensor: ImportedTensor) -> ImportedTensor:
    """A tensor that its own type carries, float32 for truth values."""
    return node.cast(tensor, FLOAT) if tensor.dtype == BOOL else node.plain(tensor)


def round_half_even(node: NodeImport, tensor: ImportedTensor) -> ImportedTensor:
    """The nearest integer, the even one of two; MXNet's rint takes the lower one."""
    nearest = node.emit("rint", tensor)
    fraction = node.emit("elemwise_sub", tensor, node.emit("floor", tensor))
    tie = node.emit("_equal_scalar", fraction, scalar=0.5)
    half = node.emit("rint", node.emit("_mul_scalar", tensor, scalar=0.5))
    even = node.emit("_mul_scalar", half, scalar=2.0)
    return node.emit("where", tie, even, nearest).shaped(tensor.shape)


def truth(tensor: ImportedTensor) -> ImportedTensor:
    """0 and 1 of any type as truth values."""
    return tensor.typed(BOOL)


def expand(node: NodeImport, tensor: ImportedTensor, shape: Shape) -> ImportedTensor:
    """A tensor broadcast to a shape."""
    if tensor.shape == shape:
        return tensor
    if tensor.array is not None:
        node.owner.reserve(shape, tensor.array.dtype)
        array = np.broadcast_to(tensor.array, shape)
        return replace(ImportedTensor.constant(np.ascontiguousarray(array)), dtype=tensor.dtype)
    own = node.static(tensor)
    aligned = node.reshape(tensor, (1,) * (len(shape) - len(own)) + own)
    if aligned.shape == shape:
        return aligned
    result = node.emit("broadcast_to", aligned, shape=shape or (1,))
    return result.shaped(shape).typed(tensor.dtype)


def concat(node: NodeImport, tensors: Sequence[ImportedTensor], axis: int,
           dtype: DType | None = None) -> ImportedTensor:
    """Tensors joined along an axis; constants if all are."""
    arrays = [each.array for each in tensors if each.array is not None]
    if len(arrays) == len(tensors):
        return ImportedTensor.constant(np.concatenate(arrays, axis))
    if len(tensors) == 1:
        return tensors[0]
    kind = tensors[0].dtype if dtype is None else dtype
    operands = [node.cast(each, kind) for each in tensors]
    return node.emit("Concat", *operands, dim=axis, num_args=len(operands))
