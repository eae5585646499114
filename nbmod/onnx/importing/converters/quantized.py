"""Quantized tensors, computed in float32.

Sums of products of 8-bit integers are exact there up to 2^24.
"""

from __future__ import annotations

import numpy as np

from ..composition import add, divide, multiply, round_half_even, subtract
from ..imported_tensor import FLOAT, DType, ImportedTensor
from ..node_import import NodeImport, imports
from ..tensor_data import element_type
from .convolution import convolve
from .matrix import product

KINDS = ("int8", "uint8", "int16", "uint16", "int32")
INT32 = np.dtype(np.int32)


def _shaped(node: NodeImport, tensor: ImportedTensor, data: ImportedTensor, axis: int
            ) -> ImportedTensor:
    """A scale or a zero point, broadcast along an axis of data."""
    shape = node.static(tensor)
    if len(shape) > 1:
        return _blocks(node, tensor, data, axis)
    if len(shape) < 1 or shape == (1,):
        return node.reshape(tensor, ())
    axis = node.normal_axis(axis, data)
    return node.reshape(tensor, (shape[0],) + (1,) * (node.rank(data) - 1 - axis))


def _blocks(node: NodeImport, tensor: ImportedTensor, data: ImportedTensor, axis: int
            ) -> ImportedTensor:
    """One scale for each block of elements along an axis."""
    size, axis = int(node.attribute("block_size", 0)), node.normal_axis(axis, data)
    length = node.static(data)[axis]
    if size < 1 or node.static(tensor)[axis] != -(-length // size):
        node.refuse(f"scales of shape {tensor.shape} do not fit blocks of {size} elements")
    if tensor.array is not None:
        node.owner.reserve((size, *tensor.array.shape), tensor.dtype)
        repeated = np.repeat(tensor.array, size, axis)
        return ImportedTensor.constant(np.take(repeated, range(length), axis))
    scales = node.emit("repeat", tensor, repeats=size, axis=axis)
    return node.emit("slice_axis", scales, axis=axis, begin=0, end=length)


def _require(node: NodeImport, dtype: DType) -> None:
    if dtype.name not in KINDS:
        node.refuse(f"quantization to {dtype} has no counterpart")


def dequantized(node: NodeImport, data: ImportedTensor, scale: ImportedTensor,
                zero: ImportedTensor | None, axis: int = 1) -> ImportedTensor:
    """(data - zero) scale."""
    difference = centred(node, data, zero, axis)
    scale = _shaped(node, node.cast(scale, FLOAT), data, axis)
    return multiply(node, difference, scale)


def centred(node: NodeImport, data: ImportedTensor, zero: ImportedTensor | None, axis: int = 1
            ) -> ImportedTensor:
    """data - zero in float32."""
    _require(node, data.dtype)
    real = node.cast(data, FLOAT)
    if zero is None or (zero.array is not None and not zero.array.any()):
        return real
    return _minus(node, real, _shaped(node, node.cast(zero, FLOAT), data, axis))


def _minus(node: NodeImport, left: ImportedTensor, right: ImportedTensor) -> ImportedTensor:
    if left.array is not None and right.array is not None:
        return ImportedTensor.constant(left.array - right.array)
    return subtract(node, left, right)


def quantized(node: NodeImport, data: ImportedTensor, scale: ImportedTensor,
              zero: ImportedTensor | None, dtype: DType, axis: int = 1) -> ImportedTensor:
    """data / scale + zero, rounded to even and limited to the type."""
    _require(node, dtype)
    ratio = divide(node, node.cast(data, FLOAT), _shaped(node, node.cast(scale, FLOAT), data, axis))
    levels = round_half_even(node, ratio)
    if zero is not None and (zero.array is None or zero.array.any()):
        levels = add(node, levels, _shaped(node, node.cast(zero, FLOAT), data, axis))
    limits = np.iinfo(dtype)
    bounded = node.emit("clip", levels, a_min=float(limits.min), a_max=float(limits.max))
    return node.cast(bounded.shaped(data.shape), dtype)


@imports("QuantizeLinear")
def quantize_linear(node: NodeImport) -> ImportedTensor:
    """Real values as integers."""
    zero = node.optional(2)
    kind = int(node.attribute("output_dtype", 0))
    dtype = zero.dtype if zero is not None else (
        element_type(kind, "attribute 'output_dtype'") if kind else np.dtype(np.uint8))
    return quantized(node, node.data, node.input(1), zero, dtype, int(node.attribute("axis", 1)))


@imports("DequantizeLinear")
def dequantize_linear(node: NodeImport) -> ImportedTensor:
    """Integers as real values."""
    real = dequantized(node, node.data, node.input(1), node.optional(2),
                       int(node.attribute("axis", 1)))
    return node.cast(real, node.input(1).dtype)


@imports("QLinearConv")
def quantized_convolution(node: NodeImport) -> ImportedTensor:
    """A convolution of quantized images."""
    data, weight, bias = node.input(0), node.input(3), node.optional(8)
    sums = convolve(node, centred(node, data, node.optional(2)),
                    centred(node, weight, node.optional(5), 0), None)
    if bias is not None:
        sums = add(node, sums, _shaped(node, node.cast(bias, FLOAT), sums, 1))
    scale = _shaped(node, node.input(4), sums, 1)
    real = multiply(node, multiply(node, sums, node.reshape(node.input(1), ())), scale)
    zero = node.optional(7)
    return quantized(node, real, node.input(6), zero,
                     np.dtype(np.uint8) if zero is None else zero.dtype)


@imports("QLinearMatMul")
def quantized_matmul(node: NodeImport) -> ImportedTensor:
    """The product of quantized matrices."""
    parts = []
    for first, axis in ((0, -2), (3, -1)):
        parts.append(dequantized(node, node.input(first), node.input(first + 1),
                                 node.optional(first + 2), axis))
    zero = node.input(7)
    return quantized(node, product(node, *parts), node.input(6), zero, zero.dtype)


@imports("MatMulInteger")
def integer_matmul(node: NodeImport) -> ImportedTensor:
    """The product of integer matrices, as int32."""
    left = centred(node, node.input(0), node.optional(2), -2)
    right = centred(node, node.input(1), node.optional(3), -1)
    return node.cast(product(node, left, right), INT32)


@imports("ConvInteger")
def integer_convolution(node: NodeImport) -> ImportedTensor:
    """The convolution of integer images, as int32."""
    sums = convolve(node, centred(node, node.input(0), node.optional(2)),
                    centred(node, node.input(1), node.optional(3), 0), None)
    return node.cast(sums, INT32)


@imports("DynamicQuantizeLinear")
def dynamic_quantize(node: NodeImport) -> list[ImportedTensor]:
    """Quantized by the range of the data, which includes 0."""
    data = node.data
    high = _ranged(node, "max", "_maximum_scalar")
    low = _ranged(node, "min", "_minimum_scalar")
    scale = node.emit("_div_scalar", subtract(node, high, low), scalar=255.0).shaped(())
    zero = node.emit("_rminus_scalar", divide(node, low, scale), scalar=0.0)
    zero = round_half_even(node, node.emit("clip", zero, a_min=0.0, a_max=255.0)).shaped(())
    zero = node.cast(zero, np.dtype(np.uint8))
    return [quantized(node, data, scale, zero, zero.dtype), scale, zero]


def _ranged(node: NodeImport, op: str, bound: str) -> ImportedTensor:
    axes = tuple(range(node.rank()))
    return node.emit(bound, node.emit(op, node.data, axis=axes), scalar=0.0).shaped(())
