"""Lines with control flow."""

from __future__ import annotations

from typing import Any

from tests.fuzz.kinds import UNARY, kind, one, rank
from tests.fuzz.program import Scope

OPS = ("tanh", "sigmoid", "double", "shift", "square", "act_relu")


@kind("foreach", one(lambda rng, shape: {
    "ops": tuple(rng.choices(OPS, k=rng.randint(1, 3))), "dense": rng.random() < 0.5},
    lambda shape: len(shape) == 3 and 0 not in shape and shape[0] <= 6 and shape[2] <= 16))
def _(scope, args, params):
    """A loop that carries a state; its body may read a weight."""
    mx = scope.mx
    weight = scope.variable("weight", shape=(1,))

    def body(row, state):
        x = row + state
        for op in params["ops"]:
            x = UNARY[op](mx, x)
        if params["dense"]:
            x = mx.sym.broadcast_mul(x, scope.mx.sym.reshape(weight, shape=(1, 1)))
        return mx.sym.tanh(x), mx.sym.tanh(x) * 0.5

    begin = mx.sym.zeros_like(mx.sym.reshape(
        mx.sym.slice_axis(args[0], axis=0, begin=0, end=1), shape=(-3, -2)))
    outputs, state = mx.sym.contrib.foreach(body, args[0], begin, name=scope.name)
    return [outputs, state]


@kind("while", one(lambda rng, shape: {"op": rng.choice(OPS), "limit": rng.randint(1, 4)},
                   lambda shape: len(shape) in (1, 2) and 0 not in shape), smooth=False)
def _(scope, args, params):
    mx = scope.mx

    def step(count, x):
        return mx.sym.tanh(x), [count + 1, UNARY[params["op"]](mx, x) * 0.5]

    count = scope.variable("count", lambda dtype: [0.0], shape=(1,))
    outputs, states = mx.sym.contrib.while_loop(
        lambda count, x: count < params["limit"], step, [count, args[0]], max_iterations=4,
        name=scope.name)
    return [states[1]]


# -- layers in bodies -----------------------------------------------------------------------------

LAYERS = ("dense", "two layers", "gru", "lstm", "tanh", "convolution", "norm")


class _Layer:
    """A layer of a body, with weights from outside of it.

    It maps (x, states) to (y, states), all of which have the shape of x, (N, C).
    """

    def __init__(self, scope: Scope, name: str, size: int, weights: dict[str, Any] | None = None):
        self.scope, self.mx, self.name, self.size = scope, scope.mx, name, size
        self.weights = weights or {key: scope.variable(key, shape=shape) for key, shape in (
            ("weight", (size, size)), ("kernel", (size, size, 1)), ("bias", (size,)),
            ("norm_gamma", (size,)))}
        rnn = scope.mx.rnn
        self.cell = {"gru": rnn.GRUCell, "lstm": rnn.LSTMCell, "tanh": rnn.RNNCell}.get(name)
        if self.cell:
            self.cell = self.cell(size, prefix=f"{scope.name}_{name}_")

    @property
    def count(self) -> int:
        """The number of states."""
        return 2 if self.name == "lstm" else 1

    def dense(self, x):
        return self.mx.sym.FullyConnected(x, weight=self.weights["weight"],
                                          bias=self.weights["bias"], num_hidden=self.size)

    def __call__(self, x, states):
        sym = self.mx.sym
        if self.cell:
            return self.cell(x, states)
        x = x + states[0]
        if self.name == "convolution":
            y = sym.Convolution(sym.expand_dims(x, axis=2), weight=self.weights["kernel"],
                                bias=self.weights["bias"], kernel=(1,), num_filter=self.size)
            y = sym.reshape(y, shape=(0, -1))
        elif self.name == "norm":
            y = sym.LayerNorm(x, gamma=self.weights["norm_gamma"], beta=self.weights["bias"],
                              eps=0.1)
        else:
            y = self.dense(x)
            y = self.dense(sym.Activation(y, act_type="relu")) if self.name == "two layers" else y
        return sym.tanh(y), [sym.tanh(y) * 0.5]


@kind("foreach_layer", one(lambda rng, shape: {
    "layer": rng.choice(LAYERS), "size": shape[2], "after": rng.choice(LAYERS),
    "begin": rng.choice(["zeros", "variable"])},
    lambda shape: len(shape) == 3 and 0 not in shape and shape[0] <= 6 and shape[2] <= 16))
def _(scope, args, params):
    """A loop over a layer or cell, and the same weights or a like layer after it."""
    sym, size = scope.mx.sym, params["size"]
    layer = _Layer(scope, params["layer"], size)
    row = sym.reshape(sym.slice_axis(args[0], axis=0, begin=0, end=1), shape=(-3, -2))
    begin = [sym.zeros_like(row) if params["begin"] == "zeros" else
             sym.broadcast_add(sym.zeros_like(row), scope.variable(f"s{i}", shape=(1, size)))
             for i in range(layer.count)]
    outputs, states = sym.contrib.foreach(layer, args[0], begin, name=scope.name)
    return [outputs, layer.dense(states[0])]


@kind("while_layer", one(lambda rng, shape: {
    "layer": rng.choice(LAYERS), "size": shape[1], "limit": rng.randint(1, 4)},
    lambda shape: rank(2)(shape) and shape[1] <= 16), smooth=False)
def _(scope, args, params):
    """A loop over a layer or cell until a count is reached."""
    sym, layer = scope.mx.sym, _Layer(scope, params["layer"], params["size"])

    def step(count, x, *states):
        y, states = layer(x, list(states))
        return [y], [count + 1, y, *states]

    count = scope.variable("count", lambda dtype: [0.0], shape=(1,))
    begin = [count, args[0], *[sym.zeros_like(args[0])] * layer.count]
    _, states = sym.contrib.while_loop(lambda count, *_: count < params["limit"], step, begin,
                                       max_iterations=4, name=scope.name)
    return list(states[1:2])


@kind("cond_layer", one(lambda rng, shape: {
    "ways": (rng.choice(LAYERS), rng.choice(LAYERS)), "size": shape[1],
    "holds": rng.random() < 0.5}, lambda shape: rank(2)(shape) and shape[1] <= 16), smooth=False)
def _(scope, args, params):
    """One of two layers, which have weights in common."""
    sym = scope.mx.sym
    ways = [first := _Layer(scope, params["ways"][0], params["size"])]
    if params["ways"][1] == params["ways"][0]:
        ways.append(first)
    else:
        ways.append(_Layer(scope, params["ways"][1], params["size"], first.weights))
    zeros = [sym.zeros_like(args[0])]
    holds = scope.variable("holds", lambda dtype: [float(params["holds"])], shape=(1,))
    first, second = (lambda way=way: way(args[0], zeros * way.count)[0] for way in ways)
    return [sym.contrib.cond(holds > 0.5, first, second, name=scope.name)]
