"""Activations, softmax, and layers that predictions leave as they are."""

from __future__ import annotations

import numpy as np

from ....ops.nn.activation import _slopes_shape
from ..converter import NodeExport, converts
from ..inference_form import IDENTITIES
from ..onnx_graph import Value
from ..tensor_info import TensorInfo

PLAIN = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softsign": "Softsign",
         "softrelu": "Softplus"}


def activate(node: NodeExport, value: Value, kind: str) -> Value:
    """An activation by MXNet's name."""
    return node.emit(PLAIN[kind], value)


@converts("Activation")
def _activation(node: NodeExport) -> Value:
    return activate(node, node.x, node.op.act_type)


@converts("relu", "sigmoid", "tanh", "softsign")
def _named_activation(node: NodeExport) -> Value:
    return activate(node, node.x, node.op.name)


@converts("LeakyReLU")
def _leaky_relu(node: NodeExport) -> Value | list[Value]:
    op, kind = node.op, node.op.act_type
    if kind == "prelu":
        return _prelu(node)
    if kind == "gelu":
        return _gelu(node)
    if kind == "rrelu":
        slope = (op.lower_bound + op.upper_bound) / 2
        mask = np.full(1, slope, node.outs[1].dtype)
        filled = node.emit("ConstantOfShape", node.emit("Shape", node.x), value=mask)
        return [node.emit("LeakyRelu", node.x, alpha=slope), filled]
    if kind == "selu":
        return node.emit("Selu", node.x, alpha=1.6732632423543772, gamma=1.0507009873554805)
    if kind == "elu":
        return node.emit("Elu", node.x, alpha=op.slope)
    return node.emit("LeakyRelu", node.x, alpha=op.slope)


def _prelu(node: NodeExport) -> Value:
    """Slopes broadcast from the first two axes, those of ONNX from the last."""
    info, slope = node.ins[0], node.ins[1]
    shape = _slopes_shape(node.static(slope), info.shape)
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    gamma = node.inputs[1]
    if shape != slope.shape:
        gamma = node.reshape(gamma, TensorInfo(shape, slope.dtype), slope)
    return node.emit("PRelu", node.x, gamma)


def _gelu(node: NodeExport) -> Value:
    """x / 2 (1 + erf(x / sqrt 2))."""
    if node.opset >= 20:
        return node.emit("Gelu", node.x)
    erf = node.emit("Erf", node.emit("Div", node.x, node.scalar(np.sqrt(2.0))))
    half = node.emit("Mul", node.x, node.scalar(0.5))
    return node.emit("Mul", half, node.emit("Add", erf, node.scalar(1.0)))


@converts("hard_sigmoid")
def _hard_sigmoid(node: NodeExport) -> Value:
    return node.emit("HardSigmoid", node.x, alpha=node.op.alpha, beta=node.op.beta)


@converts(*IDENTITIES, "_identity_with_attr_like_rhs")
def _identity(node: NodeExport) -> Value:
    return node.x


@converts("Dropout")
def _dropout(node: NodeExport) -> Value:
    if node.op.mode == "always":
        node.refuse("it drops elements at random in predictions, too (mode='always')")
    return node.x


@converts("SoftmaxActivation")
def _softmax_activation(node: NodeExport) -> Value:
    return node.emit("Softmax", node.x, axis=1 if node.op.mode == "channel" else -1)


@converts("softmax", "log_softmax", "softmin")
def _softmax(node: NodeExport) -> Value:
    op, info = node.op, node.ins[0]
    x = node.x
    if op.name == "softmin":
        x = node.emit("Neg", x)
    if op.temperature not in (None, 1.0):
        x = node.emit("Div", x, node.scalar(op.temperature))
    if op.use_length:
        return _masked_softmax(node, x)
    kind = "LogSoftmax" if op.name == "log_softmax" else "Softmax"
    if not info.shape:
        node.refuse("its input is a scalar")
    wide = node.cast_from(x, info.dtype, node.outs[0].dtype)
    return node.emit(kind, wide, axis=op.axis)


def _masked_softmax(node: NodeExport, x: Value) -> Value:
    """Softmax over the first `length` elements; the others are 0."""
    op, info = node.op, node.ins[0]
    if op.name == "log_softmax":
        node.refuse("log_softmax with lengths has no equivalent")
    axis = info.axis(op.axis)
    positions = node.emit("Range", node.scalar(0, np.int64), node.emit(
        "Squeeze", node.size(node.x, info, axis)), node.scalar(1, np.int64))
    spread = [1] * info.ndim
    spread[axis] = -1
    lengths = node.axes_op("Unsqueeze", node.cast(node.inputs[1], np.int64), [axis])
    inside = node.emit("Less", node.reshape_to(positions, *spread), lengths)
    lowest = node.lowest(info.dtype)
    y = node.emit("Softmax", node.emit("Where", inside, x, lowest), axis=axis)
    probabilities = node.emit("Where", inside, y, node.scalar(0))
    return node.cast_from(probabilities, info.dtype, node.outs[0].dtype)
