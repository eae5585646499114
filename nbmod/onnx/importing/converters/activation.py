"""Activation functions and softmax."""

from __future__ import annotations

from collections.abc import Callable

from ....ops.param import Shape
from ....ops.shape import size_of
from ..composition import add, multiply
from ..imported_tensor import INT64, ImportedTensor
from ..node_import import NodeImport, imports

ACTIVATIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softrelu",
               "Softsign": "softsign"}
SELU = (1.67326319217681884765625, 1.05070102214813232421875)


@imports(*ACTIVATIONS)
def activation(node: NodeImport) -> ImportedTensor:
    """A function that MXNet's Activation has."""
    if node.data.dtype.kind != "f":
        return node.emit("relu", node.plain(node.data)).shaped(node.data.shape)
    data = node.plain(node.data)
    return node.emit("Activation", data, act_type=ACTIVATIONS[node.operator]).shaped(data.shape)


@imports("LeakyRelu", "Elu")
def sloped(node: NodeImport) -> ImportedTensor:
    """Functions with a slope below 0."""
    kind, default = {"LeakyRelu": ("leaky", 0.01), "Elu": ("elu", 1.0)}[node.operator]
    return node.emit("LeakyReLU", node.data, act_type=kind, slope=_number(node, "alpha", default)
                     ).shaped(node.data.shape)


def _number(node: NodeImport, key: str, default: float) -> float:
    """An attribute, with the digits of the float32 that the file has."""
    return float(f"{float(node.attribute(key, default)):.8g}")


@imports("Selu")
def selu(node: NodeImport) -> ImportedTensor:
    """Scaled elu, with MXNet's constants or others."""
    alpha = float(node.attribute("alpha", SELU[0]))
    gamma = float(node.attribute("gamma", SELU[1]))
    if abs(alpha - SELU[0]) < 1e-6 and abs(gamma - SELU[1]) < 1e-6:
        return node.emit("LeakyReLU", node.data, act_type="selu").shaped(node.data.shape)
    inner = node.emit("LeakyReLU", node.data, act_type="elu", slope=alpha)
    return node.emit("_mul_scalar", inner, scalar=gamma).shaped(node.data.shape)


@imports("Gelu")
def gelu(node: NodeImport) -> ImportedTensor | None:
    """The exact function; the approximation is composed."""
    if node.attribute("approximate", "none") != "none":
        return None
    return node.emit("LeakyReLU", node.data, act_type="gelu").shaped(node.data.shape)


@imports("PRelu")
def prelu(node: NodeImport) -> ImportedTensor:
    """A slope for each channel, or of any other shape."""
    data, slope = node.input(0), node.input(1)
    channels = _channels(slope, node.rank())
    if channels is not None and data.dtype.kind == "f":
        gamma = node.reshape(slope, (channels,))
        if gamma.array is not None and slope.name:
            gamma = ImportedTensor.constant(gamma.array, slope.name)
        return node.emit("LeakyReLU", data, gamma, act_type="prelu")
    positive = node.emit("_maximum_scalar", data, scalar=0)
    negative = node.emit("_minimum_scalar", data, scalar=0)
    return add(node, positive, multiply(node, negative, slope))


def _channels(slope: ImportedTensor, rank: int) -> int | None:
    """Length of a slope that varies along axis 1 only."""
    shape = slope.shape
    if shape is None or not slope.is_static or len(shape) > rank or rank < 2:
        return None
    aligned = (1,) * (rank - len(shape)) + shape
    return aligned[1] if size_of(aligned) == aligned[1] else None


@imports("HardSigmoid")
def hard_sigmoid(node: NodeImport) -> ImportedTensor:
    """A line limited to [0, 1]."""
    return node.emit("hard_sigmoid", node.data, alpha=_number(node, "alpha", 0.2),
                     beta=_number(node, "beta", 0.5)).shaped(node.data.shape)


@imports("Softmax", "LogSoftmax")
def softmax(node: NodeImport) -> ImportedTensor:
    """Softmax along an axis; before opset 13 over all axes from there on."""
    op = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}[node.operator]
    return _along(node, lambda data, axis: node.emit(op, data, axis=axis))


@imports("Hardmax")
def hardmax(node: NodeImport) -> ImportedTensor:
    """1 at the first largest element along an axis."""

    def first(data: ImportedTensor, axis: int) -> ImportedTensor:
        rank = node.rank(data)
        axis %= rank
        size = node.static(data)[axis]
        index = node.emit("argmax", data, axis=axis)
        hot = node.emit("one_hot", index, depth=size, dtype=data.dtype.name)
        order = [*range(axis), rank - 1, *range(axis, rank - 1)]
        if rank == 1:
            return node.reshape(hot, (size,))
        return node.transpose(hot, order)

    return _along(node, first)


def _along(node: NodeImport, function: Callable[[ImportedTensor, int], ImportedTensor]
           ) -> ImportedTensor:
    """Apply a function along the attribute `axis`."""
    data, rank = node.data, node.rank()
    axis = node.axis(-1 if node.opset >= 13 else 1)
    if node.opset >= 13:  # as it is counted in the file
        return function(data, axis - rank if int(node.attribute("axis", -1)) < 0 else axis)
    if axis == rank - 1:
        return function(data, axis)
    shape = node.static()
    flat: Shape = (size_of(shape[:axis]), size_of(shape[axis:]))
    return node.reshape(function(node.reshape(data, flat), 1), shape)


@imports("OneHot")
def one_hot(node: NodeImport) -> ImportedTensor:
    """Indices as rows of one value with another at the index."""
    depths, values = node.constant(1), node.constant(2)
    if depths is None or values is None:
        node.refuse("depth and values are missing")
    depth, (off, on) = int(depths.ravel()[0]), values.ravel()
    indices = node.cast(node.data, INT64)
    indices = node.indices(indices, depth)
    hot = node.emit("one_hot", indices, depth=depth, on_value=float(on), off_value=float(off),
                    dtype=values.dtype.name)
    rank = node.rank()
    if not rank:
        return node.reshape(hot, (depth,))
    axis = int(node.attribute("axis", -1)) % (rank + 1)
    return node.transpose(hot, [*range(axis), rank, *range(axis, rank)])
