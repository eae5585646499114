"""Ten small networks that meet every kind of pass, each with shapes and requests for gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import nbmod as mx
from bench.networks import conv_unit, lenet
from nbmod.explain.explanation import Explanation
from tests.fuzz.quantized import Network

__all__ = ["NETWORKS", "planned"]

sym = mx.sym


class Plan(NamedTuple):
    """A network as it is bound."""

    build: Callable[[], Any]
    shapes: Mapping[str, tuple[int, ...]]
    request: str


def joined() -> Any:
    """Dense layers whose results are joined, sliced and added."""
    x = sym.Variable("data")
    parts = [sym.FullyConnected(x, num_hidden=32, name=f"fc{each}") for each in range(3)]
    x = sym.Concat(sym.relu(parts[0], name="relu0"), sym.tanh(parts[1], name="tanh1"), parts[2],
                   dim=0, name="joined")
    first = sym.slice_axis(x, axis=0, begin=0, end=96, name="first")
    rest = sym.slice_axis(x, axis=0, begin=96, end=192, name="rest")
    return sym.SoftmaxOutput(first + rest, name="softmax")


def residual() -> Any:
    """A residual unit whose ReLU is read twice."""
    x = conv_unit(sym.Variable("data"), "stem", 16, 3)
    y = conv_unit(conv_unit(x, "a", 16, 3), "b", 16, 3, relu=False)
    x = sym.Activation(x + y, act_type="relu", name="relu")
    x = sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1), name="pool")
    return sym.SoftmaxOutput(sym.FullyConnected(sym.Flatten(x, name="flat"), num_hidden=5,
                                                name="fc"), name="softmax")


def separable() -> Any:
    """An inverted residual of a mobile network: thin, wide and depthwise, thin again."""
    x = conv_unit(sym.Variable("data"), "stem", 16, 3, 2)
    y = conv_unit(x, "expand", 64, 1)
    y = conv_unit(y, "depth", 64, 3, groups=64)
    y = conv_unit(y, "project", 16, 1, relu=False)
    return sym.Pooling(x + y, global_pool=True, pool_type="avg", kernel=(1, 1), name="pool")


def unrolled() -> Any:
    """An LSTM of three steps."""
    outputs, _ = mx.rnn.LSTMCell(8, prefix="lstm_").unroll(
        3, sym.Variable("data"), layout="NTC", merge_outputs=True)
    return sym.FullyConnected(outputs, num_hidden=4, flatten=False, name="scores")


def recurrent() -> Any:
    """The RNN operator between transpositions."""
    x = sym.SwapAxis(sym.Variable("data"), dim1=0, dim2=1, name="time_first")
    x = sym.RNN(x, state_size=8, num_layers=1, mode="gru", name="gru")
    x = sym.SequenceLast(x, name="last")
    return sym.LinearRegressionOutput(sym.FullyConnected(x, num_hidden=1, name="fc"), name="out")


def loop() -> Any:
    """A foreach whose body has a dense layer."""
    def body(row: Any, state: Any) -> tuple[Any, Any]:
        state = sym.tanh(sym.FullyConnected(row, num_hidden=6, name="fc") + state, name="tanh")
        return state, state

    outputs, state = sym.contrib.foreach(body, sym.Variable("data"), sym.Variable("state"),
                                         name="loop")
    return sym.Group([outputs, sym.exp(state, name="exp")])


def shared() -> Any:
    """Two branches with one weight, and three outputs."""
    weight = sym.Variable("weight")
    branches = [sym.FullyConnected(sym.Variable(name), weight, num_hidden=64, no_bias=True,
                                   name=f"fc_{name}") for name in ("left", "right")]
    distance = sym.square(branches[0] - branches[1], name="square")
    return sym.Group([sym.MakeLoss(sym.sum(distance, axis=1, name="sum"), name="loss"),
                      sym.BlockGrad(branches[0], name="shown"), sym.sigmoid(distance,
                                                                            name="score")])


def detector() -> Any:
    """Anchors, classes and boxes of one scale."""
    x = conv_unit(sym.Variable("data"), "body", 16, 3, 2)
    anchors = sym.contrib.MultiBoxPrior(x, sizes=(.2, .4), ratios=(1, 2), name="anchors")
    scores = sym.Convolution(x, num_filter=9, kernel=(3, 3), pad=(1, 1), name="scores")
    scores = sym.Reshape(sym.transpose(scores, axes=(0, 2, 3, 1), name="last"), shape=(0, -1, 3),
                         name="rows")
    scores = sym.SoftmaxActivation(sym.transpose(scores, axes=(0, 2, 1), name="classes"),
                                   mode="channel", name="probabilities")
    boxes = sym.Convolution(x, num_filter=12, kernel=(3, 3), pad=(1, 1), name="boxes")
    boxes = sym.Flatten(sym.transpose(boxes, axes=(0, 2, 3, 1), name="boxes_last"), name="flat")
    return sym.contrib.MultiBoxDetection(scores, boxes, anchors, name="detection")


def bytes_of() -> Any:
    """Convolutions of 8-bit integers."""
    net = Network(sym, lambda name, shape, dtype: sym.Variable(name, shape=shape, dtype=dtype))
    x = net.bytes("first", net.conv("first", net.data(2, 16, 8, 8, dtype="int8"), 16, 16,
                                    pad=(1, 1)))
    return sym.Group(list(net.bytes("second", net.conv("second", net.relu("first", x), 16, 24))))


NETWORKS = {
    "joined": Plan(joined, {"data": (64, 6)}, "null"),
    "lenet": Plan(lenet, {"data": (2, 1, 28, 28)}, "null"),
    "residual": Plan(residual, {"data": (2, 3, 12, 12)}, "write"),
    "separable": Plan(separable, {"data": (1, 3, 16, 16)}, "null"),
    "unrolled": Plan(unrolled, {"data": (2, 3, 5)}, "null"),
    "recurrent": Plan(recurrent, {"data": (2, 3, 5)}, "write"),
    "loop": Plan(loop, {"data": (3, 2, 4), "state": (2, 6)}, "write"),
    "shared": Plan(shared, {"left": (64, 6), "right": (64, 6)}, "add"),
    "detector": Plan(detector, {"data": (1, 3, 16, 16)}, "null"),
    "bytes": Plan(bytes_of, {}, "null")}


def planned(name: str, *without: str) -> Explanation:
    """The plan of a network, without passes of these names and without arrays."""
    build, shapes, request = NETWORKS[name]
    with mx.name.NameManager():
        symbol = build()
    with mx.without_passes(*without):
        return Explanation.planned(symbol, shapes, mx.cpu(), request)
