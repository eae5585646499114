"""Elementwise functions, comparisons and logic."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ....ops.shape import broadcast
from ..composition import (
    add,
    binary,
    divide,
    expand,
    multiply,
    numeric,
    round_half_even,
    subtract,
    truth,
)
from ..imported_tensor import BOOL, FLOAT, Array, ImportedTensor
from ..node_import import NodeImport, imports
from ..tensor_data import element_type

UNARY = {
    "Abs": "abs", "Acos": "arccos", "Acosh": "arccosh", "Asin": "arcsin", "Asinh": "arcsinh",
    "Atan": "arctan", "Atanh": "arctanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh",
    "Erf": "erf", "Exp": "exp", "Floor": "floor", "Log": "log", "Neg": "negative",
    "Reciprocal": "reciprocal", "Sign": "sign", "Sin": "sin", "Sinh": "sinh",
    "Sqrt": "sqrt", "Tan": "tan"}
COMPARISONS = {"Equal": "broadcast_equal", "Greater": "broadcast_greater",
               "GreaterOrEqual": "broadcast_greater_equal", "Less": "broadcast_lesser",
               "LessOrEqual": "broadcast_lesser_equal"}
ARITHMETIC = {"Add": "broadcast_add", "Sub": "broadcast_sub", "Mul": "broadcast_mul",
              "Div": "broadcast_div"}
LOGIC = {"And": "broadcast_mul", "Or": "broadcast_maximum", "Xor": "broadcast_not_equal"}
VARIADIC = {"Sum": "broadcast_add", "Max": "broadcast_maximum", "Min": "broadcast_minimum"}


@imports(*UNARY)
def unary(node: NodeImport) -> ImportedTensor:
    """A function of one tensor."""
    data = node.plain(node.data)
    return node.emit(UNARY[node.operator], data).shaped(data.shape)


@imports("Round")
def rounding(node: NodeImport) -> ImportedTensor:
    """The nearest integer, the even one of two."""
    return round_half_even(node, node.plain(node.data))


@imports(*ARITHMETIC)
def arithmetic(node: NodeImport) -> ImportedTensor:
    """A function of two tensors."""
    return binary(node, ARITHMETIC[node.operator], node.input(0), node.input(1))


@imports(*COMPARISONS)
def comparison(node: NodeImport) -> ImportedTensor:
    """A comparison."""
    return truth(binary(node, COMPARISONS[node.operator], node.input(0), node.input(1)))


@imports(*LOGIC)
def logic(node: NodeImport) -> ImportedTensor:
    """A function of truth values, as arithmetic of 0 and 1."""
    return truth(binary(node, LOGIC[node.operator], node.input(0), node.input(1)))


@imports("Not")
def negation(node: NodeImport) -> ImportedTensor:
    """Whether a value is 0."""
    data = numeric(node, node.data)
    return truth(node.emit("logical_not", data).shaped(data.shape))


@imports(*VARIADIC)
def variadic(node: NodeImport) -> ImportedTensor:
    """A sum, maximum or minimum of any number of tensors."""
    tensors = [each for each in node.inputs if each is not None]
    op = VARIADIC[node.operator]
    if len(tensors) == 1:
        return tensors[0]
    return reduce(lambda left, right: binary(node, op, left, right), tensors)


@imports("Mean")
def mean(node: NodeImport) -> ImportedTensor:
    """The mean of any number of tensors."""
    tensors = [each for each in node.inputs if each is not None]
    total = reduce(lambda left, right: add(node, left, right), tensors)
    return divide(node, total, node.new_constant(len(tensors), total.dtype))


@imports("Pow")
def power(node: NodeImport) -> ImportedTensor:
    """A power, of the type of its base."""
    base, exponent = node.input(0), node.input(1)
    if base.dtype.kind in "iu" and exponent.dtype.kind == "f":
        real = binary(node, "broadcast_power", node.cast(base, exponent.dtype), exponent)
        return node.cast(node.emit("trunc", real).shaped(real.shape), base.dtype)
    return binary(node, "broadcast_power", base, node.cast(exponent, base.dtype))


@imports("Mod")
def modulo(node: NodeImport) -> ImportedTensor:
    """The remainder, with the sign of the divisor, or with `fmod` of the dividend."""
    left, right = node.plain(node.input(0)), node.plain(node.input(1))
    if not node.attribute("fmod", 0):
        return binary(node, "broadcast_mod", left, right)
    size = node.emit("abs", right).shaped(right.shape)
    rest = binary(node, "broadcast_mod", node.emit("abs", left).shaped(left.shape), size)
    return multiply(node, rest, node.emit("sign", left).shaped(left.shape))


@imports("Clip")
def clip(node: NodeImport) -> ImportedTensor | None:
    """Elements limited to an interval."""
    data = node.plain(node.data)
    bounds = [node.optional(1), node.optional(2)]
    if all(each is None or each.array is not None for each in bounds) and data.dtype.kind == "f":
        low, high = node.constant(1, "min"), node.constant(2, "max")
        return node.emit("clip", data, a_min=_bound(low, -np.inf), a_max=_bound(high, np.inf)
                         ).shaped(data.shape)
    for bound, op in zip(bounds, ("broadcast_maximum", "broadcast_minimum"), strict=True):
        data = data if bound is None else binary(node, op, data, bound)
    return data


def _bound(value: Array | None, default: float) -> float:
    return default if value is None else float(value.ravel()[0])


@imports("Cast", "CastLike")
def cast(node: NodeImport) -> ImportedTensor:
    """Elements of another type."""
    dtype = (node.input(1).dtype if node.operator == "CastLike"
             else element_type(int(node.attribute("to", 0)), "attribute 'to'"))
    if dtype != BOOL or node.data.dtype == BOOL:
        return node.cast(node.data, dtype)
    data = node.plain(node.data)
    return truth(node.emit("_not_equal_scalar", data, scalar=0).shaped(data.shape))


@imports("Where")
def where(node: NodeImport) -> ImportedTensor:
    """Elements of one tensor or the other."""
    choice, left, right = [node.input(i) for i in range(3)]
    shape = broadcast(broadcast(choice.shape, left.shape), right.shape)
    dtype = left.dtype
    parts = [numeric(node, each) for each in (choice, left, right)]
    if not choice.shape == left.shape == right.shape:
        full = node.static(ImportedTensor(shape, dtype))
        parts = [expand(node, each, full) for each in parts]
    return node.emit("where", *parts).shaped(shape).typed(dtype)


@imports("IsNaN")
def is_nan(node: NodeImport) -> ImportedTensor:
    """Whether elements are NaN, which no number equals."""
    return truth(binary(node, "broadcast_not_equal", node.data, node.data))


@imports("IsInf")
def is_infinite(node: NodeImport) -> ImportedTensor:
    """Whether elements are infinite, of the signs that count."""
    data = node.plain(node.data)
    signs = node.attribute("detect_positive", 1), node.attribute("detect_negative", 1)
    if not any(signs):
        return truth(node.emit("zeros_like", data).shaped(data.shape))
    if all(signs):
        data = node.emit("abs", data).shaped(data.shape)
    bound = np.inf if signs[0] else -np.inf
    return truth(node.emit("_equal_scalar", data, scalar=bound).shaped(data.shape))


@imports("Identity")
def identity(node: NodeImport) -> ImportedTensor:
    """The tensor itself."""
    return node.data


@imports("Dropout")
def dropout(node: NodeImport) -> list[ImportedTensor]:
    """Nothing in inference."""
    ratio, training = node.constant(1, "ratio"), node.constant(2)
    rate = 0.5 if ratio is None else float(ratio)
    if node.opset >= 12 and training is not None and bool(training) and rate:
        node.refuse("dropout in training mode draws other numbers than ONNX does")
    if not node.wants(1):
        return [node.data]
    return [node.data, truth(node.emit("ones_like", numeric(node, node.data)))]


@imports("ThresholdedRelu")
def thresholded_relu(node: NodeImport) -> ImportedTensor:
    """Elements above `alpha`."""
    data = node.plain(node.data)
    above = node.emit("_greater_scalar", data, scalar=float(node.attribute("alpha", 1.0)))
    return multiply(node, data, above)


@imports("Trilu")
def trilu(node: NodeImport) -> ImportedTensor:
    """One triangle of matrices."""
    data, diagonal = numeric(node, node.data), node.constant(1)
    shape = node.static(data)
    shift = 0 if diagonal is None else int(diagonal)
    shift = int(np.clip(shift, -(2 ** 31), 2 ** 31))
    node.owner.reserve(shape[-2:], FLOAT)
    triangle = np.triu if node.attribute("upper", 1) else np.tril
    mask = node.new_constant(triangle(np.ones(shape[-2:], np.float32), shift), FLOAT)
    nothing = node.emit("zeros_like", data)
    return node.emit("where", expand(node, mask, shape), data, nothing).typed(node.data.dtype)


@imports("CumSum")
def cumulative_sum(node: NodeImport) -> ImportedTensor:
    """Sums of all elements before, or after with `reverse`."""
    data, axes = node.plain(node.data), node.integer_list(1)
    axis = node.normal_axis((axes or (0,))[0])

    def backward(tensor: ImportedTensor) -> ImportedTensor:
        return node.emit("reverse", tensor, axis=axis) if node.attribute("reverse", 0) else tensor

    total = backward(node.emit("_np_cumsum", backward(data), axis=axis, dtype=data.dtype.name))
    return subtract(node, total, data) if node.attribute("exclusive", 0) else total


@imports("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def random(node: NodeImport) -> ImportedTensor:
    """Random elements, others than ONNX draws."""
    like = node.operator.endswith("Like")
    default = int(node.attribute("dtype", 1))
    dtype = node.data.dtype if like and "dtype" not in node.attributes else element_type(
        default, "attribute 'dtype'")
    shape = node.static() if like else node.integers("shape") or ()
    if "Normal" in node.operator:
        return node.emit("_random_normal", shape=shape or (1,), dtype=dtype.name,
                         loc=float(node.attribute("mean", 0.0)),
                         scale=float(node.attribute("scale", 1.0))).shaped(shape)
    return node.emit("_random_uniform", shape=shape or (1,), dtype=dtype.name,
                     low=float(node.attribute("low", 0.0)),
                     high=float(node.attribute("high", 1.0))).shaped(shape)
